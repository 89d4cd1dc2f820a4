"""Examples 1 to 4: which elements, in which order and at which hours."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

from ._example_4 import BUDGET, RATES
from ._orders import NAMES, ORDERS, POLICIES


@experiment("cho-examples", paper=CHO, where="Examples 1 to 4 and Figure 5", seconds=2)
def examples(run: Run) -> Iterator[Claim | Panel | Table]:
    """Whom to poll how often, in which order and at which hours.

    Work the examples out.
    """
    yield from _allocation()
    yield from _orders(run)
    yield from _points(run)


def _allocation() -> Iterator[Claim | Table]:
    """Examples 1 and 4."""
    three = [unstale.plan([4.0, 3.0, 2.0], 9.0, policy=policy) for policy in POLICIES]
    for name, plan, printed in (("uniform", three[1], (3, 3, 3)), ("proportional", three[2], (4, 3, 2))):
        for element, (published, computed) in enumerate(zip(printed, plan.frequencies, strict=True), 1):
            yield number(
                f"example 1, {name}: frequency of element {element}",
                published=published,
                computed=float(computed),
                within=1e-12,
            )
    five = [unstale.plan(RATES, BUDGET, policy=policy) for policy in POLICIES]
    known = {
        "1": (three, (0.6393561490940439, 0.6380990088976248, 0.6321205588285577)),
        "4": (five, (0.37388869927439036, 0.3650528123931259, 0.31673764387737868)),
    }
    for example, (plans, expected) in known.items():
        for name, plan, value in zip(POLICIES, plans, expected, strict=True):
            yield ours(
                f"example {example}, {name}: freshness", computed=plan.freshness, expected=value, close=1e-12
            )
    best = three[0].frequencies.tolist()
    yield ours(
        "example 1, optimal: frequency of element 1", computed=best[0], expected=3.277051044296402, close=1e-9
    )
    yield Table(
        "Best frequencies of example 1 (per day)",
        {
            "change rate (per day)": [4.0, 3.0, 2.0],
            "for freshness": best,
            "for age": unstale.plan([4.0, 3.0, 2.0], 9.0, objective="age").frequencies.tolist(),
        },
    )


def _orders(run: Run) -> Iterator[Claim | Panel]:
    """Example 2: days between two polls of the same page, of 10,000 that are polled at 10,000 a day."""
    pages, days = 10_000, run.some(60.0, 12.0)
    bins = np.linspace(0.0, 4.0, 21)
    middles = (bins[1:] + bins[:-1]) / 2.0
    lines, apart = [], []
    for name, order in zip(NAMES, ORDERS, strict=True):
        polls = unstale.Schedule(np.ones(pages), order=order, even=True, seed=run.seed).until(days)
        sorted_by_page = np.argsort(polls.elements, kind="stable")
        pages_of, times = polls.elements[sorted_by_page], polls.times[sorted_by_page]
        gaps = np.diff(times)[pages_of[1:] == pages_of[:-1]]
        apart.append(gaps)
        density = np.histogram(gaps, bins)[0] / gaps.size / np.diff(bins)
        if order != "fixed":
            lines.append(Line.of(f"{name}, scheduled", middles, density, "points"))
    fixed, random, pure = apart
    yield statement(
        "example 2, fixed order",
        says="each page is polled at intervals of exactly one day",
        holds=bool(np.abs(fixed - 1.0).max() < 1e-9),
    )
    yield statement(
        "example 2, random order",
        says="intervals vary from close to zero to close to two days",
        holds=bool(random.min() < 0.05 and 1.9 < random.max() < 2.0),
    )
    yield statement(
        "example 2, purely random",
        says="intervals are bounded by nothing",
        holds=bool(pure.max() > 6.0),
    )
    # gaps that end after the horizon are not seen, which hides long ones
    yield ours(
        "example 2, purely random: share of intervals beyond two days",
        computed=float((pure > 2.0).mean()),
        expected=float(_seen_beyond(2.0, days)),
        close=5.0 * np.sqrt(0.15 / pure.size),
        why="e^-2, less those that end after the schedule that was looked at",
    )
    x = np.linspace(0.0, 4.0, 201)
    yield Panel(
        title="Example 2: time between two polls of a page",
        x="interval (days); always 1 in fixed order",
        y="density (per day)",
        lines=[
            Line.of("random order", x, np.maximum(0.0, 1.0 - np.abs(x - 1.0))),
            Line.of("purely random", x, np.exp(-x)),
            *lines,
        ],
    )


def _seen_beyond(gap: float, days: float) -> float:
    """Return the share of exponential gaps beyond this one, among those that fit into so many days."""

    def fitting(low: float) -> float:  # integral of (days - g) e^-g from low to days
        return float((days - low - 1.0) * np.exp(-low) + np.exp(-days))

    return fitting(gap) / fitting(0.0)


def _points(run: Run) -> Iterator[Claim | Panel]:
    """Example 3: ten pages that change once a day, polled at midnight, mostly so, or all day long."""
    rate, day = 1.0, np.linspace(0.0, 1.0, 240, endpoint=False)
    lines = []
    for label, at_start in (("all at midnight", 1.0), ("most at midnight", 0.7), ("all day long", 0.0)):
        clock = unstale.Windows.every(1.0, 0.0, 1.0, at_start=at_start).clock()
        when = unstale.Schedule(np.ones(10), windows=clock).until(1.0).times
        lines.append(Line.of(label, 24 * day, np.exp(-rate * ((day[:, None] - when) % 1.0)).mean(axis=1)))
        yield statement(
            f"example 3, {label}",
            says=f"{round(10 * at_start)} of 10 pages are polled at the beginning of the day",
            holds=int((when == 0.0).sum()) == round(10 * at_start),
        )
        result = unstale.simulate(
            np.full(10, rate),
            10.0,
            policies={label: unstale.Schedule(np.ones(10), windows=clock, seed=run.seed)},
            horizon=run.some(20_000.0, 2_000.0),
            seed=run.seed,
        )[label]
        yield ours(
            f"example 3, {label}: freshness over the day, simulated",
            computed=result.freshness,
            expected=float(unstale.freshness(rate, 1.0)),
            close=5.0 * result.freshness_error,
            why="the same for all three: only when pages are fresh differs",
        )
    yield Panel(
        title="Example 3: freshness by the hour of ten pages that change once a day",
        x="time of day (hours)",
        y="freshness (share of the pages)",
        bounds=(0.0, 1.0),
        lines=lines,
    )
