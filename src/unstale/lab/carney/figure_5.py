"""Figures 5 and 6: partitioning techniques against the optimum on 500 elements."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, Table, experiment, ours, statement, taken

from ._world import (
    ELEMENTS_OF_TABLE_2,
    KEYS,
    PARTITIONS_X,
    PERCEIVED_Y,
    Key,
    beside_the_optimum,
    beside_the_optimum_by_skew,
    best,
    change_rates,
    partitioned,
    profile_of,
)

PARTITIONS = (2, 5, 10, 20, 50, 100, 250, 500)
KNOWN: dict[str, dict[Key, tuple[float, ...]]] = {
    "aligned": {
        "p": (0.218443, 0.345821, 0.417442, 0.458564, 0.486834, 0.496586, 0.501786, 0.503029),
        "rate": (0.218443, 0.345821, 0.417442, 0.458564, 0.486834, 0.496586, 0.501786, 0.503029),
        "p/rate": (0.214638, 0.338592, 0.41279, 0.455561, 0.48285, 0.492786, 0.499407, 0.503029),
        "pf": (0.218443, 0.345821, 0.417442, 0.458564, 0.486685, 0.496405, 0.501599, 0.503029),
    },
    "reverse": dict.fromkeys(
        KEYS, (0.673627, 0.7093, 0.718719, 0.72355, 0.726469, 0.727298, 0.727658, 0.727723)
    ),
}
"""Perceived freshness by number of partitions at θ = 1."""
SHUFFLED: dict[Key, tuple[float, float]] = {
    "p": (0.571296, 0.615563), "rate": (0.349509, 0.49245), "p/rate": (0.560174, 0.601039),
    "pf": (0.570299, 0.612933),
}  # fmt: skip
"""With 10 and with 100 partitions, of other shuffles; they differ by up to 0.037 (rate) or 0.02."""
TOLERANCES: dict[Key, float] = {"p": 0.02, "rate": 0.035, "p/rate": 0.02, "pf": 0.02}
THETAS = (0.0, 0.4, 0.8, 1.2, 1.6)
SKEWED: dict[float, dict[Key, float]] = {
    0.8: {"p": 0.48791, "rate": 0.36298, "p/rate": 0.472975, "pf": 0.486686},
    1.6: {"p": 0.85912, "rate": 0.685193, "p/rate": 0.851744, "pf": 0.856604},
}
"""With 50 partitions, of other shuffles."""


@experiment("carney-figure-5", paper=CARNEY, where="Figure 5", seconds=3.0)
def figure_5(run: Run) -> Iterator[Claim | Panel | Table]:
    """Freshness by number of partitions: four techniques, three alignments, the optimum.

    Plan by partitions at θ = 1: shuffled (a mean over shuffles), aligned and reverse.
    """
    yield taken(skew_of_the_profile="θ = 1, that of Table 3; others look alike")
    rates, rng = change_rates(ELEMENTS_OF_TABLE_2, 1.0), run.rng(5)
    shuffles = [rng.permutation(rates) for _ in range(run.some(40, 8))]
    worlds = {"shuffled": shuffles, "aligned": [rates[::-1]], "reverse": [rates]}
    found, optimum = {}, {}
    for name, orders in worlds.items():
        found[name], optimum[name] = _by_partitions(orders, 1.0)
        yield Panel(
            title=f"Partitioning techniques, {name}",
            x=PARTITIONS_X,
            y=PERCEIVED_Y,
            lines=[
                *(Line.of(f"{KEYS[key]}-partitioning", PARTITIONS, y) for key, y in found[name].items()),
                Line.of("exact optimum", PARTITIONS, np.full(len(PARTITIONS), optimum[name])),
            ],
            log="x",
        )
        for key, values in KNOWN.get(name, {}).items():
            worst = np.abs(found[name][key] - values).max()
            yield ours(f"{name}, {KEYS[key]}: all numbers of partitions, as computed elsewhere",
                       computed=bool(worst < 6e-7))  # fmt: skip
    for key, values in SHUFFLED.items():
        for k, expected in zip((10, 100), values, strict=True):
            yield ours(f"shuffled, {KEYS[key]}, {k} partitions",
                       computed=found["shuffled"][key][PARTITIONS.index(k)], expected=expected,
                       close=TOLERANCES[key], why="the other is of other shuffles")  # fmt: skip
    yield statement(
        "all techniques and alignments",
        says="more partitions bring the solution closer to the ideal one",
        holds=all((np.diff(y) > -1e-9).all() for one in found.values() for y in one.values()),
    )
    yield ours(
        "as many partitions as elements are the optimum",
        computed=all(abs(y[-1] - optimum[name]) < 1e-7 for name, one in found.items() for y in one.values()),
    )
    for name in ("aligned", "reverse"):
        apart = np.ptp(list(found[name].values()), axis=0).max()
        yield statement(f"{name}: techniques", says="show little difference", holds=bool(apart < 0.01))
    p, rate, ratio, pf = found["shuffled"].values()
    some = slice(0, -1)
    better = ", ".join(str(k) for k, lead in zip(PARTITIONS, (pf - p)[some], strict=False) if lead < -1e-9)
    yield statement(
        "shuffled: p, PF and p/λ",
        says="approach the optimum more quickly than λ",
        holds=bool((np.minimum(np.minimum(p, ratio), pf) > rate)[some].all()),
    )
    yield statement(
        "section 7, shuffled: PF-partitioning",
        says="is shown to perform best",
        holds=bool((pf >= np.maximum(p, ratio) - 1e-9)[some].all()),
        error=f"the weight alone is as good a key or better with {better} partitions at θ = 1",
    )
    yield beside_the_optimum(
        (unstale.Partitioning(key, k) for key in KEYS for k in (10, 100)),
        shuffles[0],
        profile_of(ELEMENTS_OF_TABLE_2, 1.0),
    )


@experiment("carney-figure-6", paper=CARNEY, where="Figure 6", seconds=2.0)
def figure_6(run: Run) -> Iterator[Claim | Panel | Table]:
    """Freshness by the skew of the profile: techniques against the optimum.

    Plan with 50 partitions for shuffled elements, by skew.
    """
    yield taken(number_of_partitions="50, with which techniques differ")
    rates, rng = change_rates(ELEMENTS_OF_TABLE_2, 1.0), run.rng(6)
    shuffles = [rng.permutation(rates) for _ in range(run.some(40, 8))]
    means = {key: np.array([_mean(key, 50, shuffles, theta) for theta in THETAS]) for key in KEYS}
    ideal = [
        np.mean([best(one, profile_of(ELEMENTS_OF_TABLE_2, theta)) for one in shuffles]) for theta in THETAS
    ]
    p, rate, _, pf = means.values()
    yield statement(
        "all techniques",
        says="perceived freshness increases with θ",
        holds=all(bool((np.diff(y) > 0).all()) for y in means.values()),
    )
    yield statement(
        "λ-partitioning",
        says="cannot achieve the same level as θ is increased",
        holds=bool((np.diff(pf - rate)[:3] > 0).all() and (rate < np.minimum(p, pf) - 0.1)[3:].all()),
    )
    for key in KEYS:
        if key == "p":  # without skew, its partitions are any
            continue
        yield ours(f"θ = 0, {KEYS[key]}", computed=means[key][0], expected=0.311641, close=6e-7)
    for theta, known in SKEWED.items():
        for key, expected in known.items():
            yield ours(f"θ = {theta}, {KEYS[key]}", computed=means[key][THETAS.index(theta)],
                       expected=expected, close=TOLERANCES[key],
                       why="the other is of other shuffles")  # fmt: skip
    yield Panel(
        title="50 partitions, shuffled",
        x="skew of the profile θ",
        y=PERCEIVED_Y,
        lines=[
            *(Line.of(f"{KEYS[key]}-partitioning", THETAS, y) for key, y in means.items()),
            Line.of("exact optimum", THETAS, ideal),
        ],
        bounds=(0.0, 1.0),
    )
    yield beside_the_optimum_by_skew([unstale.Partitioning(key, 50) for key in KEYS], shuffles[0], THETAS)


def _by_partitions(orders: list[Floats], theta: float) -> tuple[dict[Key, Floats], float]:
    """Perceived freshness by key and number of partitions, and that of the optimum: means over orders."""
    found = {key: np.array([_mean(key, k, orders, theta) for k in PARTITIONS]) for key in KEYS}
    return found, float(np.mean([best(rates, profile_of(ELEMENTS_OF_TABLE_2, theta)) for rates in orders]))


def _mean(key: Key, partitions: int, orders: list[Floats], theta: float) -> float:
    profile = profile_of(ELEMENTS_OF_TABLE_2, theta)
    return float(np.mean([partitioned(key, partitions, rates, profile) for rates in orders]))
