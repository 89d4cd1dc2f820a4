"""The planner: optimal freshness at the speed of memory, uncertain rates, options, laws, limits, shards.

Times are those of the processor, best of several, but for shards; so other work on the machine hardly counts.
"""

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
from distributed import Client
from numpy.typing import NDArray

from benchmarks import peak
from benchmarks.timing import Goals, best, side_by_side
from unstale import (
    Empirical,
    Gamma,
    Lognormal,
    Plan,
    Poisson,
    Process,
    UncertainPoisson,
    Weibull,
    currency,
    freshness,
    plan,
    plan_shards,
    worth,
)

Floats = NDArray[np.float64]

MANY = 10_000_000
MILLION = 1_000_000
GROUPS = 100_000
EMPIRICAL = 7_000
UNCERTAIN = 100_000
LAWS = 3_000
SHARDS = 16


CPU = time.process_time


def run() -> None:
    goals = Goals()
    optimal_freshness(goals)
    uncertain_rates(goals)
    uncertain_options(goals)
    options(goals)
    laws(goals)
    group_limits(goals)
    other_budgets()
    shards()
    print(f"\nplanning: {goals}")


def elements(count: int, seed: int = 1) -> tuple[Floats, Floats]:
    """Lognormal rates and weights, made in place."""
    rng = np.random.default_rng(seed)
    rates, weights = np.empty(count), np.empty(count)
    for column in (rates, weights):
        rng.standard_normal(out=column)
        np.exp(column, out=column)
    return rates, weights


def budget_error(spent: float, budget: float) -> float:
    return abs(spent / budget - 1.0)


def spent_by(found: Plan) -> float:
    """What the frequencies of a plan cost, added up anew."""
    return found.problem.market.spent(found.problem.sorted(found.frequencies))


def relative_gap(found: Plan) -> float:
    """The gap as a share of the cost; for freshness, of freshness or staleness, whichever is smaller."""
    measures = found.problem.goal.objective.name == "freshness"
    return found.gap / (min(found.cost, found.freshness) if measures else found.cost)


def check_worths(found: Plan, rates: Floats, weights: Floats) -> None:
    """The worth of a poll is the price where there are polls, and no more elsewhere; for some elements.

    A plan that is scaled by 1 + d to meet its budget has worths off by up to 3 d; d is at most 1e-5.
    """
    some = slice(None, None, max(1, rates.size // 1000))
    r, w, f = rates[some], weights[some], found.frequencies[some]
    with np.errstate(divide="ignore"):
        worths = w * worth("freshness", r, 1.0 / f)
    assert np.allclose(worths[f > 0], found.price, rtol=3e-5)
    assert (worths[f == 0] <= found.price * (1 + 3e-5)).all()


# --- optimal freshness ---------------------------------------------------------------------------


def optimal_freshness(goals: Goals) -> None:
    rates, weights = elements(MANY)
    print(
        f"\noptimal freshness with weights, {MANY:,} elements; yardstick: rates * weights, into a new array"
    )
    for each in (0.01, 0.1, 1.0, 10.0):
        budget = each * MANY
        found = plan(rates, budget, weights=weights)
        check_worths(found, rates, weights)
        error, gap = budget_error(found.frequencies.sum(), budget), relative_gap(found)
        assert error < 1e-12, error
        assert gap < 1e-9, gap
        numpy_pass, ours = side_by_side(
            lambda: rates * weights,
            lambda budget=budget: plan(rates, budget, weights=weights),
            repeat=9,
            clock=CPU,
        )
        verdict = goals.required(f"{each:g} polls per element", ours / numpy_pass, 8, "x")
        print(
            f"  {each:5g} polls per element {ours / MANY * 1e9:6.1f} ns/element, yardstick"
            f" {numpy_pass / MANY * 1e9:4.1f}; {verdict};"
            f" gap {gap:.0e}, budget error {error:.0e}"
        )


# --- groups --------------------------------------------------------------------------------------


def group_limits(goals: Goals) -> None:
    rates, weights = elements(MILLION)
    groups = np.random.default_rng(2).integers(GROUPS, size=MILLION)
    budget = float(MILLION)
    print(
        f"\nlimits on groups, {MILLION:,} elements in {GROUPS:,} groups; yardstick: the same without limits"
    )
    for share in (1.53, 1.1):  # of what a group would spend if all spent alike
        limits = np.full(GROUPS, share * budget / GROUPS)

        def limited(limits: Floats = limits) -> Plan:
            return plan(rates, budget, weights=weights, groups=groups, limits=limits)

        found = limited()
        spent = np.bincount(groups, found.frequencies, GROUPS)
        excess, error, gap = (
            (spent / limits).max() - 1.0,
            budget_error(spent.sum(), budget),
            relative_gap(found),
        )
        assert excess < 1e-12, excess
        assert error < 1e-12, error
        assert gap < 1e-9, gap
        simple = partial(plan, rates, budget, weights=weights)
        free, bound = side_by_side(simple, limited, repeat=15, clock=CPU)
        held = int((spent >= limits * (1 - 1e-9)).sum())
        verdict = goals.required(f"{held:,} groups held", bound / free, 5, "x")
        print(
            f"  {held:6,} groups held ({held / GROUPS:.0%}) {bound / MILLION * 1e9:6.1f} ns/element,"
            f" yardstick {free / MILLION * 1e9:4.1f}; {verdict};"
            f" largest excess {max(excess, 0.0):.0e}, gap {gap:.0e}, budget error {error:.0e}"
        )


# --- other budgets -------------------------------------------------------------------------------


def other_budgets() -> None:
    rates, weights = elements(MANY)
    found = plan(rates, float(MANY), weights=weights)
    print(f"\nanother budget from a plan for {MANY:,} elements; yardstick: a new plan")
    for times in (0.1, 0.5, 1.01, 2.0, 10.0):
        budget = times * MANY
        new = plan(rates, budget, weights=weights)
        outlook = found.outlook(budget)
        off, wrong = abs(outlook.price / new.price - 1.0), abs(outlook.freshness - new.freshness)
        assert off < 1e-3, off
        assert wrong < 1e-6, wrong
        again, quick = side_by_side(
            lambda budget=budget: plan(rates, budget, weights=weights),
            lambda budget=budget: found.outlook(budget),
        )
        print(
            f"  {times:5g} x the budget {quick * 1e3:6.1f} ms, yardstick {again * 1e3:6.1f} ms;"
            f" price off by a relative {off:.0e}, freshness by {wrong:.0e}"
        )


# --- uncertain rates -----------------------------------------------------------------------------


def uncertain_law(rates: Floats, seed: int = 4) -> UncertainPoisson:
    """Rates known as well as from a few changes: shapes from 1/2 to 5."""
    shape = np.random.default_rng(seed).uniform(0.5, 5.0, rates.size)
    return UncertainPoisson(shape, rates / shape)


def uncertain_rates(goals: Goals) -> None:
    rates, weights = elements(MILLION)
    law = uncertain_law(rates)
    print(f"\nuncertain rates, {MILLION:,} elements; yardstick: the same with known rates")
    for objective in ("freshness", "age", "harmonic", "missed-updates"):
        for each in (0.01, 0.1, 1.0, 10.0) if objective == "freshness" else (1.0,):
            budget = each * MILLION

            def known(objective: str = objective, budget: float = budget) -> Plan:
                return plan(rates, budget, weights=weights, objective=objective)

            def unknown(objective: str = objective, budget: float = budget) -> Plan:
                return plan(law, budget, weights=weights, objective=objective)

            found = unknown()
            error, gap = budget_error(found.frequencies.sum(), budget), relative_gap(found)
            assert error < 1e-12, error
            assert gap < 1e-9, gap
            simple, ours = side_by_side(known, unknown, repeat=9, clock=CPU)
            verdict = goals.required(f"uncertain rates, {objective} {each:g}", ours / simple, 5, "x")
            print(
                f"  {objective:<15} {each:4g} polls per element {ours / MILLION * 1e9:6.1f} ns/element,"
                f" yardstick {simple / MILLION * 1e9:5.1f}; {verdict};"
                f" gap {gap:.0e}, budget error {error:.0e}"
            )
    done = peak.run(sys.executable, "-c", "from benchmarks import planning; planning.measure_uncertain()")
    print(
        f"  {MANY:,} elements {done.output.strip()} s; peak memory, the input included:"
        f" {goals.required('uncertain rates', done.peak / peak.GIB, 8, 'GiB')}"
    )


def measure_uncertain() -> None:
    """Run in a process of its own, which prints how long it took."""
    rates, weights = elements(MANY)
    law = uncertain_law(rates)
    print(f"{best(lambda: plan(law, float(MANY), weights=weights), repeat=2, clock=CPU):.2f}")


def uncertain_options(goals: Goals) -> None:
    """Uncertain rates in random orders, and with polls that pay for changes."""
    rates, weights = elements(UNCERTAIN)
    law, budget = uncertain_law(rates), float(UNCERTAIN)
    simple = partial(plan, law, budget, weights=weights)
    print(f"\nuncertain rates with options, {UNCERTAIN:,} elements; yardstick: the same without options")
    for name, job in (
        ("random order", partial(simple, order="random")),
        ("purely random order", partial(simple, order="purely-random")),
        ("sizes of changes", partial(simple, change_sizes=2.0)),
    ):
        found = job()
        error, gap = budget_error(spent_by(found), budget), relative_gap(found)
        assert error < 1e-9, (name, error)
        assert gap < 1e-9, (name, gap)
        first, ours = side_by_side(simple, job, repeat=9, clock=CPU)
        print(
            f"  {name:<22} {ours / UNCERTAIN * 1e9:7.1f} ns each, yardstick {first / UNCERTAIN * 1e9:5.1f};"
            f" {goals.required(f'uncertain rates, {name}', ours / first, 5, 'x')};"
            f" gap {gap:.0e}, budget error {error:.0e}"
        )


# --- other objectives and options ----------------------------------------------------------------


def options(goals: Goals) -> None:
    rates, weights = elements(MILLION)
    sizes = np.random.default_rng(3).lognormal(size=MILLION)
    simple = partial(plan, rates, float(MILLION), weights=weights)
    cases: list[tuple[str, Callable[[], Plan]]] = [
        ("age", partial(simple, objective="age")),
        ("harmonic", partial(simple, objective="harmonic")),
        ("missed updates", partial(simple, objective="missed-updates")),
        ("random order", partial(simple, order="random")),
        ("purely random order", partial(simple, order="purely-random")),
        ("sizes", partial(simple, sizes=sizes)),
        ("sizes of changes", partial(simple, sizes=sizes, change_sizes=sizes)),
        ("bounds on frequencies", partial(simple, min_frequency=0.1, max_frequency=5.0)),
        ("uniform policy", partial(simple, policy="uniform")),
        ("proportional policy", partial(simple, policy="proportional")),
        ("square-root policy", partial(simple, policy="square-root")),
        ("random-optimal policy", partial(simple, policy="random-optimal")),
    ]
    print(f"\nobjectives and options, {MILLION:,} elements; yardstick: freshness without options")
    for name, job in cases:
        found = job()
        error = budget_error(spent_by(found), found.budget)
        assert error < 1e-9, (name, error)
        shown = f"budget error {error:.0e}"
        if found.policy == "optimal":
            gap = relative_gap(found)
            assert gap < 1e-9, (name, gap)
            shown = f"gap {gap:.0e}, {shown}"
        first, ours = side_by_side(simple, job, repeat=9, clock=CPU)
        print(
            f"  {name:<22} {ours / MILLION * 1e9:7.1f} ns/element, yardstick {first / MILLION * 1e9:5.1f};"
            f" {goals.required(name, ours / first, 5, 'x')}; {shown}"
        )


# --- laws of all kinds ---------------------------------------------------------------------------


def laws(goals: Goals) -> None:
    rng = np.random.default_rng(5)
    observed = [
        Empirical(rng.lognormal(size=rng.integers(5, 200)) / rng.lognormal()) for _ in range(EMPIRICAL)
    ]
    seconds = best(lambda: plan(observed, float(EMPIRICAL)), repeat=3, clock=CPU)
    gap = relative_gap(plan(observed, float(EMPIRICAL)))
    verdict = goals.required("observed gaps", seconds, 10, "s")
    print(f"\n{EMPIRICAL:,} laws of observed gaps: {verdict}; gap {gap:.0e}")
    kinds: dict[str, list[Process]] = {
        "known rates": [Poisson(rate) for rate in rng.lognormal(size=10 * EMPIRICAL)],
        "uncertain rates": [UncertainPoisson(2.0, rate) for rate in rng.lognormal(size=10 * EMPIRICAL)],
        "observed gaps": list(observed),
    }
    mixture = [law for kind in kinds.values() for law in kind]
    *parts, whole = side_by_side(
        *(partial(plan, kind, float(len(kind))) for kind in (*kinds.values(), mixture)),
        repeat=3,
        clock=CPU,
    )
    shown = ", ".join(f"{name} {part:.2f} s" for name, part in zip(kinds, parts, strict=True))
    print(f"a mixture of laws, {len(mixture):,} elements; yardstick: its parts ({shown})")
    print(f"  {whole:.2f} s; {goals.required('a mixture of laws', whole / sum(parts), 1.5, 'x')}")
    shapes, scales = rng.uniform(0.5, 3.0, LAWS), rng.lognormal(size=LAWS)
    families: list[tuple[str, list[Process]]] = [
        ("Weibull", [Weibull(a, b) for a, b in zip(shapes, scales, strict=True)]),
        ("lognormal", [Lognormal(np.log(b), 0.5 * a) for a, b in zip(shapes, scales, strict=True)]),
        ("gamma", [Gamma(a, b) for a, b in zip(shapes, scales, strict=True)]),
        ("observed gaps", list(observed[:LAWS])),
    ]
    families.append(("all of them in turn", [families[i % 4][1][i] for i in range(LAWS)]))
    print(f"{LAWS:,} laws, each another one; yardstick: as many known rates")
    first = best(lambda: plan([Poisson(scale) for scale in scales], float(LAWS)), repeat=3, clock=CPU)
    for name, own in families:
        for order in ("fixed", "random"):
            seconds = best(
                lambda own=own, order=order: plan(own, float(LAWS), order=order),  # type: ignore[misc]
                repeat=1,
                clock=CPU,
            )
            verdict = goals.required(f"{name}, {order}", seconds, 30, "s")
            print(f"  {name:<22} {order:<8} {verdict}; yardstick {first:.3f} s")
    rates = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    one = best(lambda: plan(rates, 6.0, objective=currency(0.25)), repeat=9, clock=CPU)
    print(f"tau-currency for six elements: {goals.required('tau-currency', one * 1e3, 100, 'ms')}")


# --- shards --------------------------------------------------------------------------------------


def _load(path: Path) -> dict[str, Floats]:
    rates, weights = np.load(path, mmap_mode="r")
    return {"rates": rates, "weights": weights}


def _cluster(workers: int) -> Client:
    """Start a cluster of Dask on this machine; its workers load each shard once."""
    return Client(n_workers=workers, threads_per_worker=1, dashboard_address=None)


def shards() -> None:
    rates, weights = elements(SHARDS * MILLION)
    budget, total = float(rates.size), weights.sum()
    whole = plan(rates, budget, weights=weights)
    print(f"\n{SHARDS} shards of {MILLION:,} elements, read from files; yardstick: one plan for all")
    spawn = multiprocessing.get_context("spawn")
    ways: list[tuple[str, Callable[[], Executor | Client | nullcontext[None]]]] = [
        ("one after the other", nullcontext),
        ("two threads", lambda: ThreadPoolExecutor(2)),
        ("two processes", lambda: ProcessPoolExecutor(2, mp_context=spawn)),
        ("a Dask worker", lambda: _cluster(1)),
        ("two Dask workers", lambda: _cluster(2)),
    ]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{i}.npy") for i in range(SHARDS)]
        for path, *both in zip(paths, np.split(rates, SHARDS), np.split(weights, SHARDS), strict=True):
            np.save(path, np.stack(both))
        sources = [partial(_load, path) for path in paths]
        one = best(lambda: plan(rates, budget, weights=weights), repeat=3)
        for name, start in ways:
            with start() as executor:

                def sharded(executor: Executor | Client | None = executor) -> object:
                    return plan_shards(sources, budget, executor=executor)

                found = plan_shards(sources, budget, executor=executor)
                all_of_them = np.concatenate([found.frequencies(source) for source in sources])
                error, off = budget_error(all_of_them.sum(), budget), abs(found.price / whole.price - 1.0)
                assert error < 1e-9, error
                assert off < 1e-6, off
                assert abs(weights @ freshness(rates, all_of_them) / total - whole.freshness) < 1e-9
                seconds = best(sharded, repeat=3)
            print(
                f"  {name:<22} {seconds:6.2f} s, yardstick {one:.2f} s ({seconds / one:.1f} x);"
                f" price off by a relative {off:.0e}, budget error {error:.0e}"
            )
