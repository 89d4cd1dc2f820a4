"""Learning: how much of what the true rates would buy is bought without knowing them, at equal polls.

``python -m benchmarks learning`` plays synthetic worlds. With UNSTALE_HISTORIES set to a folder of change
histories (Parquet with columns element_id and t, in seconds; NAME.elements.parquet beside NAME.parquet may
have a popularity) ``python -m benchmarks histories`` plays these.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale import Empirical, Plan, World, plan, simulate
from unstale.schedule import Learning
from unstale.simulation import Learned

Floats = NDArray[np.float64]

SOME = 10_000
SEEDS = (1, 2, 3)
ROUNDS = 100
WINDOWS = ((3, 7), (16, 24), (80, 100))
"""Rounds, of one poll per element on average, about the 5th, the 20th and the 100th."""
BUDGETED = ("uniform", "estimated-proportional", "estimated-optimal", "learning", "optimal")
RULES = (("nutch", 730.0), ("stormcrawler", 365.0), ("news-crawl", 730.0), ("heritrix", 365.0), ("miniflux", 120.0))
"""Rules, and days in which they settle and are measured."""


def run() -> None:
    over_time()
    against_rules()


def rates_of(kind: str, seed: int, count: int = SOME) -> Floats:
    """Rates about 1 per round."""
    rng = np.random.default_rng(seed)
    if kind.startswith("gamma"):
        shape = float(kind.removeprefix("gamma "))
        return rng.gamma(shape, 1.0 / shape, count)
    return rng.lognormal(-0.5, 1.0, count)


# --- synthetic worlds ------------------------------------------------------------------------------


def over_time() -> None:
    print(f"learning: {SOME:,} elements, one change and one poll per element and round, seeds {SEEDS}")
    print("freshness about the 5th, 20th and 100th poll of an element, and lost so far to the optimum")
    for kind in ("gamma 0.5", "gamma 2", "lognormal"):
        curves: dict[str, list[Floats]] = {name: [] for name in BUDGETED}
        for seed in SEEDS:
            result = simulate(
                rates_of(kind, seed), SOME, policies=list(BUDGETED), horizon=ROUNDS, burn_in=0.0, batches=ROUNDS,
                seed=seed,
            )  # fmt: skip
            for name in BUDGETED:
                curves[name].append(result[name].freshness_over_time[1])
        means = {name: np.mean(parts, axis=0) for name, parts in curves.items()}
        best = means["optimal"][20:].mean()
        print(f"  {kind} rates")
        for name in BUDGETED:
            windows = "  ".join(f"{means[name][a:b].mean():.4f}" for a, b in WINDOWS)
            lost = "  ".join(f"{np.sum(best - means[name][:end]) / end:+.4f}" for _, end in WINDOWS)
            print(f"    {name:24s} {windows}    lost {lost}")
        ahead = [min(np.mean(one[a:b] - other[a:b]) for one, other in zip(curves["learning"], curves[name], strict=True))
                 for name in ("uniform", "estimated-optimal", "estimated-proportional") for a, b in WINDOWS[1:]]  # fmt: skip
        print(f"    least ahead of any of these, from the 16th poll on: {min(ahead):+.4f}, {verdict(min(ahead))}")


def verdict(lead: float) -> str:
    return "holds" if lead > 0 else "DOES NOT HOLD"


def against_rules() -> None:
    print(f"rules of today's tools: {SOME:,} elements, lognormal rates, median .22/day; others at the same polls")
    for name, days in RULES:
        leads = []
        for seed in SEEDS:
            rates = np.random.default_rng(seed).lognormal(np.log(0.22), 1.0, SOME)
            timing = {"horizon": days, "burn_in": days / 2, "seed": seed, "batches": 4}
            rule = simulate(rates, 0.0, policies=[name], **timing)[name]  # type: ignore[arg-type]
            budget = rule.polls / (days / 2)
            others = simulate(rates, budget, policies=["uniform", "learning", "optimal"], **timing)  # type: ignore[arg-type]
            leads.append((budget / SOME, rule.freshness, *(others[one].freshness for one in others)))
        polls, *fresh = np.mean(leads, axis=0)
        lead = min(row[3] - max(row[1], row[2]) for row in leads)
        columns = "  ".join(f"{label} {value:.4f}" for label, value in zip((name, "uniform", "learning", "optimal"), fresh, strict=True))
        print(f"    {polls:.3f} polls/day: {columns}; ahead of the rule and of uniform by {lead:+.4f}, {verdict(lead)}")


# --- recorded histories ----------------------------------------------------------------------------


def histories() -> None:
    folder = os.environ.get("UNSTALE_HISTORIES")
    if not folder:
        print("histories: set UNSTALE_HISTORIES to a folder of change histories; left out")
        return
    print("recorded histories: freshness, first third not measured; polls per element and day")
    print("| history | elements | weights | polls/day | uniform | Poisson, true rates | renewal law | likeliest rates "
          "| learning, constant rates | learning | half-life |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for name, elements, times, count, end, popularity in recorded(Path(folder)):
        rate = times.size / count / end
        for weights in (None,) if popularity is None else (None, popularity):
            for share in (0.25, 1.0, 4.0):
                play(name, elements, times, count, end, weights, share * rate)


def recorded(folder: Path) -> Iterator[tuple[str, NDArray[np.int64], Floats, int, float, Floats | None]]:
    """Histories of elements with 20 changes or more, in days from the first change of any."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.elements.parquet")):
        name = path.name.removesuffix(".elements.parquet")
        table, about = pq.read_table(path.with_name(f"{name}.parquet")), pq.read_table(path)
        elements = table["element_id"].to_numpy()
        seconds = table["t"].to_numpy()
        start = int(about["t_first"].to_numpy().min())
        count = int(elements.max()) + 1
        end = (max(int(about["t_end"].to_numpy().max()), int(seconds.max()) + 1) - start) / 86400.0
        popularity = None
        if "popularity" in about.column_names:
            popularity = np.nan_to_num(about["popularity"].to_numpy(zero_copy_only=False)[:count])
        yield name, elements, (seconds - start) / 86400.0, count, end, popularity


def play(name: str, elements: NDArray[np.int64], times: Floats, count: int, end: float, weights: Floats | None, share: float) -> None:
    world = World.recorded(elements, times, end=end, count=count, weights=weights)
    budget = share * count
    learning = [Learning(count, budget, weights=world.weight, half_life=half, seed=1) for half in (np.inf, None)]
    result = simulate(
        world,
        budget,
        policies={
            "uniform": "uniform",
            "Poisson": "optimal",
            "renewal": renewal_plan(world, elements, times, budget),
            "likeliest": "estimated-optimal",
            "constant": Learned(learning[0]),
            "learning": Learned(learning[1]),
        },
        seed=1,
        burn_in=end / 3.0,
    )  # fmt: skip
    fresh = " | ".join(f"{result[one].freshness:.4f}" for one in result)
    kind = "equal" if weights is None else "popularity"
    print(f"| {name} | {count} | {kind} | {share:.3g} | {fresh} | {learning[1].learner.half_life[0]:.0f} d |", flush=True)


def renewal_plan(world: World, elements: NDArray[np.int64], times: Floats, budget: float) -> Plan:
    """The optimum for the very gaps that each element will have had, if they came in any order."""
    order = np.lexsort((times, elements))
    gaps = np.split(times[order], np.cumsum(np.bincount(elements, minlength=len(world)))[:-1])
    laws = [Empirical(np.diff(one, append=one[0] + world.end)) for one in gaps]  # the record as a circle
    return plan(laws, budget, weights=world.weight)
