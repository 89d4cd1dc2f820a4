"""The graph of best frequencies at two prices: one is the other at half the scale."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CHO, Claim, Line, Panel, Run, Table, experiment, number, ours, statement

_PRICES = (1.0, 2.0)


@experiment("cho-figure-18", paper=CHO, where="Figure 18 and theorem 5", seconds=0.5)
def figure_18(run: Run) -> Iterator[Claim | Panel | Table]:
    """The curve of best frequencies has the same shape at any price.

    Find where the curves peak and where they end, and scale one onto the other.
    """
    curve = unstale.poisson.curve_frequency
    for price in _PRICES:
        rate, frequency = unstale.poisson.curve_peak(price)
        yield number(
            f"change rate of the highest frequency, price {price:g}",
            published=0.53 / price,
            computed=rate,
            within=0.005 / price,
            nearly=0.006 / price,
            why="0.53516 is cut off, not rounded",
        )
        yield number(
            f"highest frequency, price {price:g}",
            published=0.3 / price,
            computed=frequency,
            within=0.05 / price,
        )
        end = unstale.poisson.curve_cutoff(price)
        yield number(
            f"change rate at which the frequency is 0, price {price:g}",
            published=1.0 / price,
            computed=end,
            within=0.0,
        )
        yield ours(
            f"the frequency is above 0 just before, and 0 from there on, price {price:g}",
            computed=bool(curve(end * (1 - 1e-9), price) > 0.0 and curve(end, price) == 0.0),
        )
    for price, expected in ((1.0, (0.5351613099757835, 0.2984256075256391)),):
        for what, computed, value in zip(
            ("rate", "frequency"), unstale.poisson.curve_peak(price), expected, strict=True
        ):
            yield ours(
                f"{what} of the peak, price 1",
                computed=computed,
                expected=value,
                close=1e-14,
                why="changes per poll there solve e^r = 1 + r + r^2",
            )
    yield ours(
        "frequency at rate 0.999, price 1",
        computed=float(curve(0.999, 1.0)),
        expected=0.108194,
        close=5e-7,
        why="the curve falls steeply at its end",
    )
    rates = np.linspace(0.01, 0.99, 99)
    scales = run.rng(18).lognormal(0.0, 2.0, 20)
    for objective, power in (("freshness", 1.0), ("age", 0.5)):
        # at price p, both axes are divided by p (freshness) or by its root (age)
        off = [
            curve(rates / c**power, c, objective) * c**power - curve(rates, 1.0, objective) for c in scales
        ]
        yield statement(
            f"theorem 5, {objective}, 20 prices",
            says="the curve at any price is the curve at price 1, scaled",
            holds=bool(np.abs(off).max() < 1e-9),
        )
    rate, f, c = 0.7, 0.9, 1.7
    for objective, degree in (("freshness", 1), ("age", 2)):
        slopes = unstale.worth(objective, c * rate, 1.0 / (c * f)), unstale.worth(objective, rate, 1.0 / f)
        yield ours(
            f"gain by frequency if rate and frequency grow 1.7 times, times 1.7^{degree}, {objective}",
            computed=float(c**degree * slopes[0] / slopes[1]),
            expected=1.0,
            close=1e-12,
            why=""
            if degree == 1
            else "the report leaves the factor for age open: the square root of the price",
        )
    lines, peaks = [], []
    for price in _PRICES:
        end = 1.0 / price
        x = end * np.append(np.linspace(0.0, 0.99, 199), 1.0 - np.append(np.geomspace(0.01, 1e-9, 60), 0.0))
        lines.append(Line.of(f"price {price:g}", x, curve(x, price)))
        peaks.append(unstale.poisson.curve_peak(price))
    yield Panel(
        title="Best frequencies for freshness at two prices",
        x="change rate (changes per unit of time)",
        y="best frequency (polls per unit of time)",
        bounds=(0.0, None),
        lines=[*lines, Line.of("peaks", [one[0] for one in peaks], [one[1] for one in peaks], "points")],
    )
