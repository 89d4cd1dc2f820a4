"""Schedules: how soon they start, how fast polls are drawn, and what new frequencies take."""

import time
from collections.abc import Callable
from functools import partial
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import at_least, best, side_by_side
from unstale.schedule import EarliestDeadline, Index, Polls, Schedule, Stream, Windows, one_by_one

Floats = NDArray[np.float64]

MANY = 10_000_000
MILLION = 1_000_000
FEW = 100_000
LEAST = 1.0
"""Million polls per second that are required."""


def run() -> None:
    many_elements()
    short_spans()
    slot_by_slot()
    one_after_the_other()


def frequencies(count: int) -> Floats:
    """Lognormal frequencies, one poll per element and unit time on average."""
    drawn = np.random.default_rng(1).lognormal(size=count)
    return drawn * (count / drawn.sum())


def check(polls: Polls, wanted: Floats, span: float) -> None:
    """Times ascend, and there are as many polls as there should be, element by element and in total."""
    assert (polls.times[:-1] <= polls.times[1:]).all()
    expected = wanted.sum() * span
    assert abs(len(polls) - expected) < 5.0 * np.sqrt(expected) + 1.0, (len(polls), expected)
    some = slice(None, None, max(1, wanted.size // 1000))
    counts = np.bincount(polls.elements, minlength=wanted.size)[some]
    off = np.abs(counts - wanted[some] * span)
    assert (off < 8.0 * np.sqrt(wanted[some] * span) + 8.0).all(), off.max()


# --- many elements -------------------------------------------------------------------------------


def many_elements() -> None:
    f = frequencies(MANY)
    other = f[::-1].copy()
    windows = Windows.every(1.0, 0.0, 0.25).clock()
    ways: list[tuple[str, Callable[[Floats], Schedule | EarliestDeadline]]] = [
        ("fixed order", Schedule),
        ("random order", partial(Schedule, order="random")),
        ("purely random order", partial(Schedule, order="purely-random")),
        ("fixed order, jitter", partial(Schedule, jitter=0.1)),
        ("fixed order, even", partial(Schedule, even=True)),
        ("fixed order, windows", partial(Schedule, windows=windows)),
        ("earliest deadline", EarliestDeadline),
    ]
    numbers = np.random.default_rng(2).random(MANY)
    sort = best(lambda: np.sort(numbers), repeat=2)
    print(
        f"\nschedules of {MANY:,} elements, {MANY:,} polls at a time;"
        f" yardstick: NumPy sorts as many random numbers, {MANY / sort / 1e6:.1f} million per second"
    )
    print(f"  {'':<22} {'start':>7} {'swap':>7}")
    for name, make in ways:
        warm = make(f[:100])  # compile
        warm.until(10.0)
        warm.swap(other[:100])
        start = time.perf_counter()
        stream = make(f)
        started = time.perf_counter() - start
        check(stream.until(1.0), f, 1.0)
        drawn = best(lambda stream=stream: stream.until(stream.now + 1.0), repeat=2)
        start = time.perf_counter()
        stream.swap(other)
        swapped = time.perf_counter() - start
        print(
            f"  {name:<22} {started:5.2f} s {swapped:5.2f} s;"
            f" {at_least(MANY / drawn / 1e6, LEAST, 'million polls/s')}, {sort / drawn:.2f} x sorting"
        )
        del stream


# --- fewer elements ------------------------------------------------------------------------------


def short_spans() -> None:
    """Who asks for little at a time pays for all elements, as each call looks at all of them."""
    print(f"\nfixed order of {MILLION:,} elements, drawn by spans; yardstick: the first row")
    stream, first = Schedule(frequencies(MILLION)), 0.0
    for share in (1.0, 0.1, 0.01):
        each = best(lambda share=share: stream.until(stream.now + share)) / (MILLION * share)
        first = first or each
        print(f"  {share:5g} polls per element at a time {each * 1e9:8.1f} ns/poll {each / first:6.1f} x")


def slot_by_slot() -> None:
    print(f"\nschedules of slots, {FEW:,} elements; yardstick: the first row")
    rates = np.random.default_rng(3).gamma(1.0, size=FEW)
    streams: list[tuple[str, Stream]] = [
        ("fixed order", Schedule(frequencies(FEW))),
        ("earliest deadline", EarliestDeadline(frequencies(FEW))),
        ("index", Index(rates, float(FEW))),
    ]
    for _, stream in streams:
        polls = stream.until(1.0)
        assert abs(len(polls) - FEW) < 0.01 * FEW, len(polls)
        assert (polls.times[:-1] <= polls.times[1:]).all()
    jobs = (lambda stream=stream: stream.until(stream.now + 3.0) for _, stream in streams)
    times = side_by_side(*jobs, repeat=3)
    for (name, _), seconds in zip(streams, times, strict=True):
        print(f"  {name:<22} {seconds / (3 * FEW) * 1e9:8.1f} ns/poll {seconds / times[0]:6.1f} x")


# --- in Python -----------------------------------------------------------------------------------


def one_after_the_other() -> None:
    print(f"\n{MILLION:,} polls, one after the other in Python; yardstick: pairs from two lists")
    lists = np.arange(float(MILLION)).tolist(), list(range(MILLION))
    stream = Schedule(frequencies(FEW))
    polls = one_by_one(stream)

    def pairs() -> None:
        for _ in zip(*lists, strict=True):
            pass

    def ours() -> None:
        for _ in islice(polls, MILLION):
            pass

    plain, seconds = side_by_side(pairs, ours, repeat=3)
    print(
        f"  {MILLION / seconds / 1e6:5.2f} million polls/s, yardstick {MILLION / plain / 1e6:.1f}"
        f" ({seconds / plain:.1f} x)"
    )
