"""Sections 3 and 4: the time of a general solver, partitions and the exact plan, by number of elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import process_time

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import Claim, Line, Panel, Run, ours, statement

from ._world import best, change_rates, partitioned, profile_of

_DAY_SECONDS = 86400.0
_HUNDREDS_OF_THOUSANDS = 100_000
_LINEAR = 1.5
"""Power of the number of elements below which time counts as growing like the number."""

World = tuple[Floats, Floats]
"""Change rates and profile."""


def scaling(run: Run) -> Iterator[Claim | Panel]:
    """Time all three on elements like those of Table 3.

    The authors' package (IMSL) is not here. In its place is another general solver, by sequential quadratic
    programming (SciPy's SLSQP). Each of its steps solves equations with all elements as unknowns, so its time
    grows with the cube of their number at least, once they are many.
    """
    few, many = run.some((20, 40, 80, 160), (20, 40, 80)), (5_000, 50_000, 500_000)
    general = [_seconds(general_optimum, *_world(n, run.seed)) for n in few]
    exact = [_seconds(best, *_world(n, run.seed), repeat=3) for n in many]
    hundred = [
        _seconds(lambda *world: partitioned("pf", 100, *world), *_world(n, run.seed), repeat=3) for n in many
    ]
    rates, profile = _world(few[-1], run.seed)
    yield ours(
        f"a general solver, {few[-1]} elements: freshness over the exact optimum",
        computed=general_optimum(rates, profile) / best(rates, profile),
        expected=1.0,
        close=1e-4,
    )
    yield _for_days(few[-1], general[-1])
    yield ours("its time grows like the number of elements to the power", computed=_power(few, general))
    for name, seconds in (("the exact plan", exact), ("PF-partitioning, 100 partitions", hundred)):
        yield ours(f"the same of {name}", computed=_power(many, seconds))
    yield _scale(many, hundred)
    yield ours(
        "the exact plan scales as well, up to 500,000 elements", computed=_power(many, exact) < _LINEAR
    )
    yield Panel(
        title="Time by number of elements",
        x="number of elements",
        y="time (seconds on this machine)",
        lines=[
            Line.of("general solver (SLSQP)", few, general),
            Line.of("PF-partitioning, 100 partitions", many, hundred),
            Line.of("exact optimum", many, exact),
        ],
        log="xy",
    )


def general_optimum(rates: Floats, profile: Floats) -> float:
    """Return the best perceived freshness by a solver that knows nothing of the problem but its slopes."""
    from scipy import optimize

    def slopes(frequencies: Floats) -> Floats:
        ratio = rates / np.maximum(frequencies, 1e-9)
        found: Floats = -profile * (1.0 - np.exp(-ratio) * (1.0 + ratio)) / rates
        return found

    def stale(frequencies: Floats) -> float:
        return -unstale.perceived_freshness(profile, rates, np.maximum(frequencies, 0.0))

    ones, polls = np.ones(rates.size), 0.5 * rates.size
    found = optimize.minimize(
        stale,
        0.5 * ones,
        jac=slopes,
        method="SLSQP",
        bounds=[(0.0, None)] * rates.size,
        constraints=optimize.LinearConstraint(ones, polls, polls),
        options={"maxiter": 1000, "ftol": 1e-8},
    )
    return float(-found.fun)


def _for_days(count: int, seconds: float) -> Claim:
    """Hold a lower bound of the time of many elements against the printed one."""
    least = seconds * (_HUNDREDS_OF_THOUSANDS / count) ** 3
    return statement(
        f"section 3: a general solver, {_HUNDREDS_OF_THOUSANDS:,} elements, from its time for {count}",
        says="runs for days",
        holds=least > _DAY_SECONDS,
    )


def _scale(counts: Sequence[int], seconds: Sequence[float]) -> Claim:
    return statement(
        "section 4: partitions, up to 500,000 elements", says="scale", holds=_power(counts, seconds) < _LINEAR
    )


def _world(count: int, seed: int) -> World:
    rates = np.random.default_rng([seed, 77]).permutation(change_rates(count, 2.0))
    return rates, profile_of(count, 1.0)


def _seconds(job: Callable[[Floats, Floats], float], *world: Floats, repeat: int = 1) -> float:
    """Return the processor's seconds of the fastest of some runs."""
    taken = []
    for _ in range(repeat):
        start = process_time()
        job(*world)
        taken.append(process_time() - start)
    return min(taken)


def _power(counts: Sequence[int], seconds: Sequence[float]) -> float:
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])
