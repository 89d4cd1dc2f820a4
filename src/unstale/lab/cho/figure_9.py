"""How to split a budget between an element that changes nine times a day and one that changes once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

_RATES = (9.0, 1.0)
_PRINTED_SHARE = 0.3


def _freshness(budget: float, share: Floats | float) -> Floats:
    """Return the freshness of both if this share of the budget goes to the slow one."""
    share = np.asarray(share)
    fast, slow = _RATES
    return (unstale.freshness(fast, budget * (1.0 - share)) + unstale.freshness(slow, budget * share)) / 2.0


def _best(budget: float) -> float:
    """Return the best share of the slow one."""
    return float(unstale.plan(_RATES, budget).frequencies[1] / budget)


def _where(share: float) -> float:
    """Return the budget at which the slow one's best share is this."""
    from scipy import optimize

    return float(optimize.brentq(lambda budget: _best(budget) - share, 2.0, 1000.0, xtol=1e-10))


@experiment("cho-figure-9", paper=CHO, where="Figure 9 and section 5.2", seconds=0.5)
def figure_9(run: Run) -> Iterator[Claim | Panel | Table]:
    """The best split of few polls gives up the fast one of two elements.

    Draw freshness over the share of the slow element, in units of the freshness of uniform allocation.
    """
    shares = np.linspace(0.0, 1.0, run.some(401, 201))
    budgets = np.geomspace(0.05, 1000.0, 60)
    yield statement(
        "budgets from 0.05 to 1000",
        says="uniform (share 0.5) is always better than proportional (share 0.1)",
        holds=all(float(_freshness(b, 0.5)) > float(_freshness(b, 0.1)) for b in budgets),
    )
    yield statement(
        "a small budget: 1 a day", says="best to give up the fast element", holds=_best(1.0) == 1.0
    )
    yield from _panels()
    yield statement(
        "large budgets, from 5 on",
        says="the best share is between proportional (0.1) and uniform (0.5)",
        holds=all(0.1 < _best(b) < 0.5 for b in (5.0, 10.0, 20.0, 100.0, 1000.0)),
    )
    yield ours("best share at budget 11.88", computed=_best(11.881444725099852), expected=0.3, close=1e-12)
    yield ours(
        "best share at budget 1000000",
        computed=_best(1e6),
        expected=0.25,
        close=1e-6,
        why="with plenty of polls, frequencies go like the square roots of the rates",
    )

    table: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for title, some in (("Few polls", (1.0, 1.5, 2.0, 3.0)), ("Many polls", (5.0, 10.0, 20.0, 50.0))):
        best = [_best(b) for b in some]
        unit = [float(_freshness(b, 0.5)) for b in some]
        top = [float(_freshness(b, x)) for b, x in zip(some, best, strict=True)]
        low = [float(_freshness(b, 0.1)) for b in some]
        yield Panel(
            title=f"{title}: change rates 9 and 1 a day",
            x="share of polls for the slow element (uniform: 0.5)",
            y="freshness (uniform = 1)",
            lines=[
                *(
                    Line.of(f"budget {b:g} a day", shares, _freshness(b, shares) / u)
                    for b, u in zip(some, unit, strict=True)
                ),
                Line.of("proportional", [0.1] * len(some), np.divide(low, unit), "points"),
                Line.of("optimal", best, np.divide(top, unit), "points"),
            ],
        )
        for row in zip(some, best, top, unit, low, strict=True):
            for name, value in zip(_COLUMNS, row, strict=True):
                table[name].append(value)
    yield Table("Best split, and freshness by policy", table)


def _panels() -> Iterator[Claim]:
    """Find budgets for which panels (b) and (e) of the report are as printed; only the pictures have them."""
    few = float(unstale.poisson.curve_frequency(_RATES[1], 1.0 / _RATES[0]))
    many = _where(_PRINTED_SHARE + 0.05)
    yield statement(
        f"panel (b) of the report, if it has at most {few:.3f} polls a day",
        says="best to give up the fast element",
        holds=all(_best(b) == 1.0 for b in (0.01, 0.1, 0.5, 1.0, 1.5, few * (1.0 - 1e-9))),
    )
    yield ours("budget up to which the fast element is given up", computed=few, expected=1.764132808932961,
               close=1e-12)  # fmt: skip
    yield ours("with slightly more it is not", computed=_best(few * (1.0 + 1e-6)) < 1.0)
    yield ours("best share at budget 2", computed=_best(2.0), expected=0.882066404466481, close=1e-12)
    yield ours(
        "freshness that giving up the fast element loses at budget 2",
        computed=float(_freshness(2.0, _best(2.0)) - _freshness(2.0, 1.0)),
        expected=0.0013,
        close=5e-5,
        why="if panel (b) has 2 polls a day, it is best at 0.88, not at 1, which a drawing hardly shows",
    )
    yield number(
        "best share of the slow element, panel (e) of the report, if it has 10 polls a day",
        published=_PRINTED_SHARE,
        computed=_best(10.0),
        within=0.05,
    )
    yield statement(
        f"the same, if it has {many:.1f} polls a day or more",
        says="about 0.3",
        holds=all(round(_best(b), 1) == _PRINTED_SHARE for b in many * np.geomspace(1.0 + 1e-6, 1e4, 40)),
    )
    yield ours(
        "budget from which on the best share rounds to 0.3",
        computed=many,
        expected=6.79534732988384,
        close=1e-6,
        why="it falls from there towards 0.25, which plenty of polls make",
    )


_COLUMNS = ("polls a day", "best share of the slow element", "optimal", "uniform", "proportional")
