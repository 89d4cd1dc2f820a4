"""Figure 1: the frequency of an element by its change rate, for three weights."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, experiment, ours, statement

WEIGHTS = {"p = μ/2": 0.5, "p = μ": 1.0, "p = 2μ": 2.0}
"""Weights in units of the price."""
FREQUENCY_AT_TWICE_THE_PRICE = 0.5933798845328511
"""Frequency at rate 1.2 and twice the price."""


@experiment("carney-figure-1", paper=CARNEY, where="Figure 1", seconds=0.1)
def figure_1(run: Run) -> Iterator[Claim | Panel]:  # noqa: ARG001  (nothing to make quicker)
    """Frequency by change rate: up to a point, then nothing; more for those who are wanted.

    Draw the curves on which all solutions lie, in units of one over the price.
    """
    rates = np.linspace(0.0, 2.2, 441)
    curves = {name: unstale.poisson.curve_frequency(rates, 1.0 / p) for name, p in WEIGHTS.items()}
    half, one, two = (float(unstale.poisson.curve_frequency(1.2, 1.0 / p)) for p in WEIGHTS.values())
    yield statement("an element of rate 1.2 with p = μ", says="gets no bandwidth", holds=one == 0.0)
    yield statement("an element of rate 1.2 with p = 2μ", says="gets significant bandwidth", holds=two > 0.5)
    yield ours(
        "frequency at rate 1.2, p = 2μ", computed=two, expected=FREQUENCY_AT_TWICE_THE_PRICE, close=1e-12
    )
    yield ours("frequency at rate 1.2, p = μ/2", computed=half, expected=0.0)
    low, middle, high = curves.values()
    polled = (rates > 0) & (rates < 2.0)
    yield statement(
        "at any change rate",
        says="an element needs more bandwidth as its access probability rises",
        holds=bool((low <= middle).all() and (middle <= high).all() and (middle < high)[polled].all()),
    )
    for name, p in WEIGHTS.items():
        rate, peak = unstale.poisson.curve_peak(1.0 / p)
        yield ours(f"{name}: rate of the peak", computed=rate, expected=0.53516 * p, close=1e-5 * p)
        yield ours(f"{name}: its frequency", computed=peak, expected=0.29843 * p, close=1e-5 * p)
        yield ours(f"{name}: rate from which nothing is given",
                   computed=unstale.poisson.curve_cutoff(1.0 / p), expected=p, close=1e-12)  # fmt: skip
    points = Line.of("rate 1.2", [1.2] * 3, [half, one, two], "points")
    yield Panel(
        title="Frequency by change rate, for three access probabilities",
        x="change rate λ (changes per unit time, times μ)",
        y="frequency f (polls per unit time, times μ)",
        lines=[*(Line.of(name, rates, f) for name, f in curves.items()), points],
    )
