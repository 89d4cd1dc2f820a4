"""Learning: how much of what the true rates would buy is bought without knowing them, at equal polls.

``python -m benchmarks learning`` plays synthetic worlds, ``rules`` takes the rules of today's tools beside it
(many minutes), and ``histories`` plays change histories, if UNSTALE_HISTORIES is a folder of them: Parquet
with columns element_id and t, in seconds. NAME.elements.parquet beside NAME.parquet may have a popularity.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale import Empirical, Plan, World, plan, simulate
from unstale.schedule import Learning
from unstale.simulation import Learned

Floats = NDArray[np.float64]

SOME = 10_000
MANY = 2_000
"""More laws than one plans for in a minute, if each has gaps of its own."""
SEEDS = (1, 2, 3)
ROUNDS = 100
WINDOWS = ((3, 7), (16, 24), (80, 100))
"""Rounds, of one poll per element on average, about the 5th, the 20th and the 100th."""
BUDGETED = ("uniform", "estimated-proportional", "estimated-optimal", "learning", "optimal")
RULES = {"nutch": 730.0, "stormcrawler": 365.0, "news-crawl": 730.0, "heritrix": 365.0, "miniflux": 120.0}
"""Rules, and days in which they settle and are measured."""


def rates_of(kind: str, seed: int, count: int = SOME) -> Floats:
    """Rates about 1 per round."""
    rng = np.random.default_rng(seed)
    if kind.startswith("gamma"):
        shape = float(kind.removeprefix("gamma "))
        return rng.gamma(shape, 1.0 / shape, count)
    return rng.lognormal(-0.5, 1.0, count)


# --- synthetic worlds ------------------------------------------------------------------------------


def run() -> None:
    print(f"learning: {SOME:,} elements, one change and one poll per element and round, seeds {SEEDS}")
    print("freshness about the 5th, 20th and 100th poll of an element, and lost so far to the optimum")
    for kind in ("gamma 0.5", "gamma 2", "lognormal"):
        curves = {name: np.array([one[name] for one in played(kind)]) for name in BUDGETED}
        best = curves["optimal"][:, 20:].mean()
        print(f"  {kind} rates")
        for name, curve in curves.items():
            mean = curve.mean(axis=0)
            fresh = "  ".join(f"{mean[first:end].mean():.4f}" for first, end in WINDOWS)
            lost = "  ".join(f"{np.mean(best - mean[:end]):+.4f}" for _, end in WINDOWS)
            print(f"    {name:24s} {fresh}    lost {lost}")
        leads = [
            (curves["learning"] - curves[name])[:, first:end].mean(axis=1).min()
            for name in BUDGETED[:3]
            for first, end in WINDOWS[1:]
        ]
        print(
            f"    ahead from the 16th poll on, by seed, by at least {min(leads):+.4f}, {verdict(min(leads))}"
        )


@cache
def played(kind: str) -> list[dict[str, Floats]]:
    """Freshness in each round, for each seed and policy."""
    found = []
    for seed in SEEDS:
        result = simulate(
            rates_of(kind, seed), SOME, policies=list(BUDGETED), horizon=ROUNDS, burn_in=0.0, batches=ROUNDS,
            seed=seed,
        )  # fmt: skip
        found.append({name: result[name].freshness_over_time[1] for name in BUDGETED})
    return found


def verdict(lead: float) -> str:
    return "holds" if lead > 0 else "DOES NOT HOLD"


def rules() -> None:
    print(
        f"rules of today's tools: {SOME:,} elements, lognormal rates, median .22/day; others at equal polls"
    )
    for name, days in RULES.items():
        rows = np.array([beside(name, days, seed) for seed in SEEDS])
        polls, rule, uniform, learning, optimal = rows.mean(axis=0)
        lead = float((rows[:, 3] - rows[:, 1:3].max(axis=1)).min())
        print(
            f"    {name:12s} {polls:.3f} polls/day: {rule:.4f}; uniform {uniform:.4f}, optimal {optimal:.4f},"
            f" learning {learning:.4f}, ahead of both by at least {lead:+.4f}, {verdict(lead)}"
        )


def beside(name: str, days: float, seed: int) -> tuple[float, ...]:
    """Polls per element and day of a rule, its freshness, and that of others with as many polls."""
    rates = np.random.default_rng(seed).lognormal(np.log(0.22), 1.0, SOME)
    play = partial(simulate, rates, horizon=days, burn_in=days / 2.0, seed=seed, batches=4)
    rule = play(budget=0.0, policies=[name])[name]
    budget = rule.polls / (days / 2.0)
    others = play(budget=budget, policies=["uniform", "learning", "optimal"])
    return budget / SOME, rule.freshness, *(others[one].freshness for one in others)


# --- recorded histories ----------------------------------------------------------------------------


def histories() -> None:
    folder = os.environ.get("UNSTALE_HISTORIES")
    if not folder:
        print("histories: set UNSTALE_HISTORIES to a folder of change histories; left out")
        return
    print("recorded histories: freshness, first third not measured; polls per element and day")
    print("| history | weights | polls/day | uniform | Poisson | renewal law | likeliest rates "
          "| constant rates | learning | half-life |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for history in recorded(Path(folder)):
        for weights in (None,) if history.popularity is None else (None, history.popularity):
            for share in (0.25, 1.0, 4.0):
                play(history, weights, share * history.times.size / history.count / history.end)


@dataclass(frozen=True, eq=False)
class Recorded:
    """Changes of elements with 20 of them or more, in days from the first change of any."""

    name: str
    elements: NDArray[np.int64]
    times: Floats
    count: int
    end: float
    popularity: Floats | None


def recorded(folder: Path) -> Iterator[Recorded]:
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.elements.parquet")):
        name = path.name.removesuffix(".elements.parquet")
        table, about = pq.read_table(path.with_name(f"{name}.parquet")), pq.read_table(path)
        elements, seconds = table["element_id"].to_numpy(), table["t"].to_numpy()
        later = np.diff(elements, prepend=-1) == 0  # the first is no change, but how the element came about
        elements, seconds = elements[later], seconds[later]
        start = int(about["t_first"].to_numpy().min())
        count = int(elements.max()) + 1
        end = (max(int(about["t_end"].to_numpy().max()), int(seconds.max()) + 1) - start) / 86400.0
        popularity = None
        if "popularity" in about.column_names:
            popularity = np.nan_to_num(about["popularity"].to_numpy(zero_copy_only=False)[:count])
        yield Recorded(name, elements, (seconds - start) / 86400.0, count, end, popularity)


def play(history: Recorded, weights: Floats | None, share: float) -> None:
    count, end = history.count, history.end
    world = World.recorded(history.elements, history.times, end=end, count=count, weights=weights)
    budget = share * count
    constant, learning = (
        Learning(count, budget, weights=world.weight, half_life=half, seed=1) for half in (np.inf, None)
    )
    policies = {
        "uniform": "uniform",
        "Poisson": "optimal",
        **({"renewal": renewal_plan(world, history, budget)} if count <= MANY else {}),
        "likeliest": "estimated-optimal",
        "constant": Learned(constant),
        "learning": Learned(learning),
    }
    result = simulate(world, budget, policies=policies, seed=1, burn_in=end / 3.0)
    names = ("uniform", "Poisson", "renewal", "likeliest", "constant", "learning")
    fresh = " | ".join(f"{result[one].freshness:.4f}" if one in result else "-" for one in names)
    kind = "equal" if weights is None else "popularity"
    half_life = f"{learning.learner.half_life[0]:.0f} d"
    print(f"| {history.name} ({count}) | {kind} | {share:.3g} | {fresh} | {half_life} |", flush=True)


def renewal_plan(world: World, history: Recorded, budget: float) -> Plan:
    """The optimum for the very gaps that each element will have had, if they came in any order."""
    order = np.lexsort((history.times, history.elements))
    ends = np.cumsum(np.bincount(history.elements, minlength=len(world)))[:-1]
    moments = np.split(history.times[order], ends)
    laws = [Empirical(np.diff(one, append=one[0] + world.end)) for one in moments]  # the record as a circle
    return plan(laws, budget, weights=world.weight)
