"""Bias and error of the estimators of change rates, by polls seen and changes per poll."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, Table, experiment, ours

if TYPE_CHECKING:  # slow to import, and experiments are listed without it
    from unstale.estimation.rates.estimators import Method

METHODS: dict[str, tuple[str, ...]] = {
    "regular": ("naive", "bias-reduced", "mle", "last-modified", "bayes, vague", "bayes, population"),
    "exponential": ("naive", "mle", "lln", "stochastic-approximation", "bayes, vague", "bayes, population"),
}
"""By the law of the intervals between polls."""
PRIORS = {"bayes, vague": (0.5, 50.0), "bayes, population": (1.0, 1.0)}
"""Shape and mean of the gamma law of rates, in changes per interval."""
RATES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
COUNTS = (5, 20, 100)
KNOWN = {
    "naive": (0.43, None),
    "bias-reduced": (1.00, 0.186),
    "mle": (1.04, 0.208),
    "last-modified": (1.0, 0.154),
}
"""Mean and root mean square error of estimate / rate, from 50 polls at r = 2."""


@experiment(
    "beyond-estimators",
    paper=BEYOND,
    where="change rates from polls (Cho & Garcia-Molina 2003)",
    seconds=12.0,
)
def estimators(run: Run) -> Iterator[Claim | Panel | Table]:
    """Bias and error of each estimator, by the number of polls and changes per poll.

    Poll many elements of one rate at regular intervals, and hold estimates against it.
    """
    elements, counts = run.some(20_000, 1_000), run.some(COUNTS, (20,))
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for done, count in enumerate(counts):
        for kind in METHODS:
            for rate in RATES:
                for method, ratio in _ratios(run, rate, count, elements, kind).items():
                    found.setdefault((kind, method, count), []).append(_bias_and_error(ratio))
        run.advance((done + 1) / (len(counts) + 1))
    for kind, methods in METHODS.items():
        for error, short, which in (("bias", "bias", 0), ("root mean square error", "error", 1)):
            yield Panel(
                title=f"20 polls at {kind} intervals: {short}",
                x="changes per poll (r = rate / frequency)",
                y=f"{error} (share of the rate)",
                lines=[Line.of(one, RATES, [row[which] for row in found[kind, one, 20]]) for one in methods],
                log="x",
                bounds=(-1.0, 1.0) if which == 0 else (0.0, 1.5),
            )
    for k, rate in enumerate(RATES):
        naive = found["regular", "naive", 20][k][0]
        seen = -np.expm1(-rate)  # chance that a poll sees a change
        yield ours(f"naive, 20 polls, r = {rate:g}: bias", computed=naive, expected=seen / rate - 1.0,
                   close=4 * np.sqrt(seen * (1.0 - seen) / 20 / elements) / rate,
                   why="(1 - e^-r)/r - 1")  # fmt: skip
    ratios = _ratios(run, 2.0, 50, run.some(20_000, 2_000), "regular")
    for method, (mean, off) in KNOWN.items():
        bias, spread = _bias_and_error(ratios[method])
        close = 0.005 + 4 * spread / np.sqrt(ratios[method].size)
        yield ours(f"{method}, 50 polls, r = 2: mean of estimate / rate", computed=1.0 + bias, expected=mean,
                   close=close)  # fmt: skip
        if off is not None:
            yield ours(f"{method}, 50 polls, r = 2: root mean square error", computed=spread, expected=off,
                       close=0.002 + 4 * spread / np.sqrt(ratios[method].size))  # fmt: skip
    errors = {one: found["regular", one, 20][-1][1] for one in METHODS["regular"]}
    yield ours("20 polls, r = 5: who knows when changes happened is best",
               computed=min(errors, key=lambda one: errors[one]) == "last-modified")  # fmt: skip
    yield Table(
        "bias and root mean square error, as shares of the rate",
        {
            "intervals": [kind for kind, _, _ in found],
            "estimator": [method for _, method, _ in found],
            "polls": [count for *_, count in found],
            **{
                f"{kind}, r = {rate:g}": [row[k][which] for row in found.values()]
                for k, rate in enumerate(RATES)
                for which, kind in enumerate(("bias", "error"))
            },
        },
    )


def _ratios(run: Run, rate: float, count: int, elements: int, kind: str) -> dict[str, Floats]:
    """Estimate over rate, for each element, by each method; the mean interval of each element is 1."""
    rng = run.rng(8, count, round(10 * rate))
    age = rng.exponential(1.0 / rate, size=(elements, count))
    elapsed = np.ones(age.shape) if kind == "regular" else rng.exponential(size=age.shape)
    elapsed = (elapsed / elapsed.mean(axis=1, keepdims=True)).ravel()
    age = age.ravel()
    found = {}
    for name in METHODS[kind]:
        method = cast("Method", name.split(",")[0])
        prior = unstale.GammaPrior(*PRIORS.get(name, (0.5, 50.0)))
        times = np.where(age < elapsed, age, np.nan) if name == "last-modified" else None
        elements_of = np.repeat(np.arange(elements), count)
        estimate = unstale.estimate_rates(
            elements_of, elapsed, age < elapsed, method=method, prior=prior, modified=times
        )
        found[name] = estimate.rate / rate
    return found


def _bias_and_error(ratio: Floats) -> tuple[float, float]:
    return float(ratio.mean() - 1.0), float(np.sqrt(np.mean((ratio - 1.0) ** 2)))
