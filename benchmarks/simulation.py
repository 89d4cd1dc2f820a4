"""The simulator: events per second beside the same world on SimPy, and memory, which events must not take."""

import json
import random
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks import peak
from benchmarks.timing import at_least, best, required, side_by_side
from unstale import plan, simulate
from unstale.schedule import Schedule
from unstale.simulation import Conditions, Outcome

Floats = NDArray[np.float64]

FEW = 1_000
SOME = 10_000
MILLION = 1_000_000
FASTER = 20.0
"""Times as many events per second as SimPy, that are required."""


def run() -> None:
    beside_simpy()
    policies()
    memory()


def rates_of(count: int) -> Floats:
    """Gamma rates, one change per element and unit time on average."""
    return np.random.default_rng(1).gamma(1.0, size=count)


def events(outcome: Outcome) -> int:
    return outcome.changes + outcome.polls + outcome.accesses


# --- SimPy ---------------------------------------------------------------------------------------


class Copy:
    """What a world on SimPy knows of a copy."""

    __slots__ = ("age", "changes", "polls", "since", "stale")

    def __init__(self) -> None:
        self.since: float | None = None  # the first change that it lacks
        self.stale = self.age = 0.0
        self.changes = self.polls = 0

    def replace(self, now: float) -> None:
        if self.since is not None:
            lag = now - self.since
            self.stale += lag
            self.age += 0.5 * lag * lag
            self.since = None


def on_simpy(
    rates: Floats, frequencies: Floats, phases: Floats, horizon: float, seed: int
) -> tuple[float, float, int]:
    """Mean freshness and age, and the number of events; a process for changes and one for polls each."""
    import simpy

    env = simpy.Environment()
    timeout, draw = env.timeout, random.Random(seed).expovariate  # noqa: S311  (a simulation)

    def change(copy: Copy, rate: float) -> Iterator[simpy.Event]:
        while True:
            yield timeout(draw(rate))
            copy.changes += 1
            if copy.since is None:
                copy.since = env.now

    def poll(copy: Copy, first: float, interval: float) -> Iterator[simpy.Event]:
        yield timeout(first)
        while True:
            copy.polls += 1
            copy.replace(env.now)
            yield timeout(interval)

    copies = [Copy() for _ in rates]
    for copy, rate, f, phase in zip(
        copies, rates.tolist(), frequencies.tolist(), phases.tolist(), strict=True
    ):
        env.process(change(copy, rate))
        if f > 0.0:
            env.process(poll(copy, phase / f, 1.0 / f))
    env.run(until=horizon)
    for copy in copies:
        copy.replace(horizon)
    whole = len(copies) * horizon
    stale, age = sum(copy.stale for copy in copies) / whole, sum(copy.age for copy in copies) / whole
    return 1.0 - stale, age, sum(copy.changes + copy.polls for copy in copies)


def beside_simpy() -> None:
    rates, horizon = rates_of(FEW), 200.0
    f = plan(rates, float(FEW)).frequencies
    phases = np.random.default_rng(2).random(FEW)
    print(f"\n{FEW:,} elements for {horizon:g} units of time, one poll per element; yardstick: SimPy")
    try:
        import simpy  # noqa: F401
    except ImportError:
        print("  SimPy is not installed: python -m pip install --group bench")
        return

    def ours() -> Outcome:
        polls = Schedule(f, phases=phases)
        return simulate(rates, float(FEW), policies={"plan": polls}, horizon=horizon, burn_in=0.0, seed=1)[
            "plan"
        ]

    theirs = partial(on_simpy, rates, f, phases, horizon, 1)
    outcome, (fresh, age, count) = ours(), theirs()
    assert abs(events(outcome) / count - 1.0) < 0.01, (events(outcome), count)
    off = abs(outcome.freshness - fresh) / (np.sqrt(2.0) * outcome.freshness_error)
    older = abs(outcome.age - age) / (np.sqrt(2.0) * outcome.age_error)
    assert max(off, older) < 4.0, (off, older)
    slow, quick = side_by_side(theirs, ours, repeat=3)
    slow, quick = count / slow, events(outcome) / quick
    print(
        f"  {quick / 1e6:.2f} million events/s, yardstick {slow / 1e6:.3f};"
        f" {at_least(quick / slow, FASTER, 'x')}"
    )
    print(
        f"  freshness {outcome.freshness:.4f} ± {outcome.freshness_error:.4f}, SimPy {fresh:.4f};"
        f" age {outcome.age:.3f} ± {outcome.age_error:.3f}, SimPy {age:.3f}"
    )


# --- policies and options ------------------------------------------------------------------------


def policies() -> None:
    cases = [
        ("optimal", SOME, "optimal", {}),
        ("requests", SOME, "optimal", {"accesses": float(SOME)}),
        ("polls late, slow, failing", SOME, "optimal", {"conditions": Conditions(0.01, 0.05, 0.05)}),
        ("purely random order", SOME, "optimal", {"order": "purely-random"}),
        ("earliest deadline", SOME, "edf", {}),
        ("index", SOME, "index", {}),
        ("estimated-proportional", SOME, "estimated-proportional", {}),
        ("nutch", SOME, "nutch", {}),
        ("miniflux", SOME, "miniflux", {}),
        ("optimal", FEW, "optimal", {}),
        ("optimal", MILLION, "optimal", {}),
        ("nutch", MILLION, "nutch", {}),
    ]
    print("\npolicies and options; yardstick: the first row")
    first = 0.0
    for name, count, policy, options in cases:
        horizon = 1e6 / count + 5.0

        def job(count=count, policy=policy, horizon=horizon, options=options):  # noqa: ANN001, ANN202  (local)
            return simulate(
                rates_of(count),
                float(count),
                policies=[policy],
                horizon=horizon,
                burn_in=0.0,
                seed=1,
                **options,
            )[policy]

        outcome = job()
        assert 0.0 < outcome.freshness < 1.0, outcome
        if outcome.expected is not None:
            off = abs(outcome.freshness - outcome.expected.freshness)
            # all copies are fresh at first, which takes some time to be forgotten
            assert off < 5.0 * outcome.freshness_error + 0.2 / horizon, off
        each = best(job, repeat=2) / events(outcome)
        first = first or each
        print(
            f"  {name:<26} {count:>9,} elements {events(outcome):>11,} events"
            f" {1e-6 / each:6.2f} million/s {each / first:6.1f} x"
        )


# --- memory --------------------------------------------------------------------------------------


def memory() -> None:
    """Processes of their own, which tell how many events there were."""
    found = {}
    for count, horizon in ((SOME, 1e3), (SOME, 1e4), (MILLION, 10.0)):
        command = f"from benchmarks import simulation; simulation.measure({count}, {horizon})"
        done = peak.run(sys.executable, "-c", command)
        found[count, horizon] = done.peak, json.loads(done.output)
    (low, few), (high, many), (large, several) = found.values()
    print(f"\nmemory for {SOME:,} elements and {many:,} events; yardstick: {few:,} events")
    print(
        f"  {high / 2**20:.0f} MiB, yardstick {low / 2**20:.0f} MiB; {required(high / low, 1.5, 'x')};"
        f" {MILLION:,} elements and {several:,} events: {large / 2**20:.0f} MiB,"
        f" {(large - high) / (MILLION - SOME):.0f} bytes for each element more"
    )


def measure(count: int, horizon: float) -> None:
    outcome = simulate(rates_of(count), float(count), policies=["optimal"], horizon=horizon, seed=1)
    print(json.dumps(events(outcome["optimal"])))
