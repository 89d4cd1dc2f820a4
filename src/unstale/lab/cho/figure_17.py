"""The graph of change rates and frequencies at which one more poll is worth the price."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, ours, statement

from ._orders import NAMES, ORDERS


@experiment("cho-figure-17", paper=CHO, where="Figure 17 and appendix E", seconds=0.5)
def figure_17(run: Run) -> Iterator[Claim | Panel | Table]:
    """The best frequency by change rate, where one more poll is worth its price.

    Draw the graph for the three orders, and check it against derivatives and a closed form.
    """
    curve = unstale.poisson.curve_frequency
    rates, price, step = np.linspace(0.01, 0.95, run.some(95, 48)), 1.0, 1e-5
    for name, order in zip(NAMES, ORDERS, strict=True):
        f = curve(rates, price, "freshness", order)
        up, down = (unstale.freshness(rates, f * (1.0 + way * step), order) for way in (1, -1))
        slope = (up - down) / (2.0 * step * f)
        yield statement(
            f"best frequencies, {name}",
            says="the derivative of freshness by frequency is the same for all",
            holds=bool(np.abs(slope - price).max() < 1e-6),
        )
        peak = int(np.argmax(f))
        yield statement(
            f"shape, {name}",
            says="frequencies rise with the change rate, and fall to nothing beyond a point",
            holds=bool(
                (np.diff(f[: peak + 1]) > 0).all()
                and (np.diff(f[peak:]) < 0).all()
                and curve(1.0 / price, price, "freshness", order) == 0.0
            ),
        )
    yield statement(
        "the equation for the frequency (footnote 10)",
        says="it cannot be solved analytically",
        holds=not np.allclose(_closed(rates, price), curve(rates, price), rtol=1e-9),
        error="f = -rate / (1 + W(-(1 - price rate)/e)), W being the branch -1 of Lambert's function",
    )
    dear = unstale.plan(rates, 5.0)
    yield ours(
        "a plan lies on the graph of its price",
        computed=bool(np.allclose(dear.frequencies, curve(rates, dear.price), rtol=1e-9, atol=1e-12)),
    )
    x = np.append(np.linspace(0.0, 0.99, 199), 1.0 - np.append(np.geomspace(0.01, 1e-9, 60), 0.0))
    yield Panel(
        title="Where one more poll is worth its price",
        x="change rate x price (pure number)",
        y="best frequency x price (pure number)",
        bounds=(0.0, None),
        lines=[
            Line.of(name, x, curve(x, 1.0, "freshness", order))
            for name, order in zip(NAMES, ORDERS, strict=True)
        ],
    )


def _closed(rates: Floats, price: float) -> Floats:
    from scipy.special import lambertw

    return np.asarray(-rates / (1.0 + lambertw(-(1.0 - price * rates) / math.e, -1).real))
