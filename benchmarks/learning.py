"""Learning: how much of what the true rates would buy is bought without knowing them, at equal polls.

``python -m benchmarks learning`` plays synthetic worlds, and ``rules`` takes the rules of today's tools
beside it (many minutes). Recorded histories are played by ``unstale lab shootout``.
"""

from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from unstale import simulate

Floats = NDArray[np.float64]

SOME = 10_000
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
