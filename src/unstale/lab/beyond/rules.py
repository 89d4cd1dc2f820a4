"""The rules of today's tools beside uniform, learning and optimal polling with as many polls."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, Table, experiment, ours

RULES = {
    "nutch": (0.320, 0.560, 0.681, 0.695, 0.53),
    "stormcrawler": (0.647, 0.723, 0.803, 0.820, 0.57),
    "news-crawl": (0.298, 0.552, 0.667, 0.681, 0.55),
    "heritrix": (0.460, 0.648, 0.748, 0.764, 0.55),
    "miniflux": (1.292, 0.876, 0.886, 0.901, 0.78),
}
"""Of 600 other elements: polls per element and day; freshness of the rule, of uniform and of the optimum with
as many polls; polls that the optimum needs for the freshness of the rule, as a share."""
WHAT = ("polls per element and day", "freshness", "uniform", "optimal", "polls the optimum needs (share)")
TOLERANCES = (0.15, 0.04, 0.04, 0.04, 0.08)
"""What the choice of 600 elements explains."""
NAMES = ("freshness of the rule", "uniform", "learning", "optimal")


@experiment("beyond-rules", paper=BEYOND, where="rules of today's crawlers and feed readers", seconds=15.0)
def rules(run: Run) -> Iterator[Claim | Panel | Table]:
    """Each rule beside uniform, learning and optimal polling, with equal polls.

    Play each rule freely on lognormal change rates, median 0.22 a day, and give the others its polls.
    """
    days = run.some(3, 2) * 365.0
    rates = run.rng(9).lognormal(np.log(0.22), 1.0, size=600)
    rows = []
    for done, name in enumerate(RULES):
        rule = unstale.simulate(
            rates, 0.0, policies=[name], horizon=days, burn_in=365.0, seed=run.seed, batches=16
        )[name]
        budget = rule.polls / (days - 365.0)
        uniform = float(unstale.freshness(rates, budget / rates.size).mean())
        best = unstale.plan(rates, budget).freshness
        needed = unstale.budget_for(rates, freshness=rule.freshness) / budget
        row = (budget / rates.size, rule.freshness, uniform, best, needed)
        lead, error = _lead(rates, budget, run)
        rows.append((*row, uniform + lead, error))
        for label, computed, expected, close in zip(WHAT, row, RULES[name], TOLERANCES, strict=True):
            yield ours(f"{name}: {label}", computed=computed, expected=expected, close=close,
                       why="the other is of 600 other elements")  # fmt: skip
        run.advance((done + 1) / len(RULES))
    _, fresh, uniform_fresh, best_fresh, _, learning, noise = np.transpose(rows)
    yield ours("uniform is fresher than every rule, with as many polls",
               computed=bool((uniform_fresh > fresh).all()))  # fmt: skip
    yield ours("learning is fresher than every rule", computed=bool((learning > fresh).all()))
    yield ours("learning is fresher than uniform, on average of these budgets",
               computed=bool(np.mean(learning - uniform_fresh) > 0.0))  # fmt: skip
    yield ours("nobody is fresher than the optimum, to sampling error",
               computed=bool((learning < best_fresh + 4.0 * noise).all()))  # fmt: skip
    columns = (fresh, uniform_fresh, learning, best_fresh)
    yield Panel(
        title="Freshness with as many polls as each rule takes",
        x="rule",
        y="freshness (share of time)",
        lines=[
            Line.of(label, np.arange(len(RULES)), y, "bars") for label, y in zip(NAMES, columns, strict=True)
        ],
        names=[f"{name} ({row[0]:.2f}/day)" for name, row in zip(RULES, rows, strict=True)],
        bounds=(0.0, 1.0),
    )
    yield Table(
        "rules, and others with as many polls: freshness",
        {
            "rule": list(RULES),
            "polls per element and day": [row[0] for row in rows],
            **{label: y.tolist() for label, y in zip(NAMES, columns, strict=True)},
            "polls the optimum needs (share)": [row[4] for row in rows],
        },
    )


def _lead(rates: Floats, budget: float, run: Run) -> tuple[float, float]:
    """By how much learning is fresher than uniform on the same changes, when it has polled for a while.

    And the error of that.
    """
    days = run.some(100.0, 10.0) * rates.size / budget  # in which each is polled so many times
    result = unstale.simulate(
        rates, budget, policies=["uniform", "learning"], horizon=days, burn_in=0.5 * days, seed=run.seed,
        batches=16,
    )  # fmt: skip
    return result.ahead("learning", "uniform")
