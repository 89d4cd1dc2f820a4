"""Figure 3: plans that know the profile against plans that do not, by the skew of the profile."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import CARNEY, Claim, Line, Panel, Run, experiment, number, ours, statement

from ._world import ELEMENTS_OF_TABLE_2, PERCEIVED_Y, change_rates, profile_of

THETAS = np.linspace(0.0, 1.6, 17)
KNOWN = {
    "aligned": {0.4: (0.261707, 0.225741), 0.8: (0.382954, 0.120549), 1.6: (0.810056, 0.0075)},
    "reverse": {0.4: (0.420458, 0.401137), 0.8: (0.614507, 0.529184), 1.6: (0.942511, 0.733958)},
    "shuffled": {0.4: (0.353637, 0.311092), 0.8: (0.514381, 0.31983), 1.6: (0.886533, 0.31276)},
}
"""Perceived freshness with and without the profile, by skew; shuffled: means of 30 shuffles."""


NAMES = ("knows the profile (PF)", "does not (GF)")
PLAYED = [0, 4, 8, 12, 16]
"""Places of the skews that are simulated."""


@experiment("carney-figure-3", paper=CARNEY, where="Table 2, Figure 3", seconds=3.0)
def figure_3(run: Run) -> Iterator[Claim | Panel]:
    """A plan that knows what is wanted against one that does not, by skew and alignment.

    Plan for 500 elements and 250 polls per period, in three alignments of profile and change rate.
    """
    rates = change_rates(ELEMENTS_OF_TABLE_2, 1.0)
    yield number(
        "Table 2: changes per element and period", published=2.0, computed=rates.mean(), within=0.005
    )
    blind = unstale.plan(rates, 250.0).frequencies
    rng, count = run.rng(3), run.some(30, 8)
    orders = {
        "aligned": [np.arange(ELEMENTS_OF_TABLE_2)[::-1]],
        "reverse": [np.arange(ELEMENTS_OF_TABLE_2)],
        "shuffled": [rng.permutation(ELEMENTS_OF_TABLE_2) for _ in range(count)],
    }
    means = {}
    for name, shuffles in orders.items():
        also = ", one shuffle" if len(shuffles) > 1 else ""
        each = np.array([[_both(rates[some], blind[some], theta) for theta in THETAS] for some in shuffles])
        means[name] = mean = each.mean(axis=0)
        spread = each.std(axis=0, ddof=1) if len(shuffles) > 1 else np.zeros(mean.shape)
        seen, error = _simulated(rates[shuffles[0]], blind[shuffles[0]], run)
        yield ours(
            f"{name}: requests in a simulation see as much as the formula says",
            computed=bool((np.abs(seen - each[0][PLAYED]) < 5 * error).all()),
        )
        yield Panel(
            title=f"Perceived freshness, {name}",
            x="skew of the profile θ",
            y=PERCEIVED_Y,
            lines=[
                Line.of(NAMES[0], THETAS, mean[:, 0]),
                Line.of(NAMES[1], THETAS, mean[:, 1]),
                *(
                    Line.of(f"{kind}, simulated{also}", THETAS[PLAYED], y, "points", error=e)
                    for kind, y, e in zip(NAMES, seen.T, error.T, strict=True)
                ),
            ],
            bounds=(0.0, 1.0),
        )
        for theta, expected in KNOWN[name].items():
            at = int(np.abs(THETAS - theta).argmin())
            for which, kind in enumerate(("PF", "GF")):
                # both are means over shuffles, theirs over 30
                close = 6e-7 if name != "shuffled" else 4 * spread[at, which] * np.sqrt(1 / count + 1 / 30)
                yield ours(f"{name}, θ = {theta}: {kind}", computed=mean[at, which],
                           expected=expected[which], close=close)  # fmt: skip
    yield statement(
        "θ = 0, all three alignments",
        says="perceived freshness equals general freshness",
        holds=all(abs(mean[0, 0] - mean[0, 1]) < 1e-9 for mean in means.values()),
    )
    yield statement(
        "all three alignments",
        says="knowing the profile is better, the more skewed interest is",
        holds=all((np.diff(mean[:, 0] - mean[:, 1]) > 0).all() for mean in means.values()),
    )
    yield statement(
        "aligned, θ = 1.6",
        says="perceived freshness approaches 0 if interest is ignored",
        holds=means["aligned"][-1, 1] < 0.01,
    )
    for name, mean in means.items():
        yield statement(
            f"{name}: perceived freshness of the PF technique",
            says="increases as interests become more skewed",
            holds=bool((np.diff(mean[:, 0]) > 0).all()),
            error="it falls at first, from 0.312 to 0.262 at θ = 0.4" if name == "aligned" else "",
        )


def _both(rates: Floats, blind: Floats, theta: float) -> list[float]:
    profile = profile_of(ELEMENTS_OF_TABLE_2, theta)
    aware = unstale.plan(rates, 250.0, weights=profile).freshness
    return [aware, unstale.perceived_freshness(profile, rates, blind)]


def _simulated(rates: Floats, blind: Floats, run: Run) -> tuple[Floats, Floats]:
    """Share of simulated requests that see the current version, with and without the profile; errors."""
    rows = []
    for theta in THETAS[PLAYED]:
        profile = profile_of(ELEMENTS_OF_TABLE_2, theta)
        policies = {
            "PF": unstale.Schedule(unstale.plan(rates, 250.0, weights=profile).frequencies),
            "GF": unstale.Schedule(blind),
        }
        result = unstale.simulate(
            rates, 250.0, policies=policies, weights=profile, accesses=2000.0, seed=run.seed,
            horizon=run.some(200.0, 30.0),
        )  # fmt: skip
        outcomes = [result[name] for name in policies]
        rows.append([[one.perceived_freshness, one.perceived_freshness_error] for one in outcomes])
    seen, error = np.moveaxis(np.array(rows), 2, 0)
    return seen, error
