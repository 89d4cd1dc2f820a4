"""Change rates of many elements from their polls, against a loop of SciPy's root finder."""

import time

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from benchmarks.timing import at_least, best
from unstale.estimation import Learner, estimate_rates

Floats = NDArray[np.float64]
Columns = tuple[NDArray[np.int64], Floats, NDArray[np.bool_]]

MILLION = 1_000_000
POLLS = 50
FEW = 2_000
LEAST = 50.0
"""How many times as fast as a loop of root finds maximum likelihood must be."""


def run() -> None:
    print(
        f"\nchange rates of {MILLION:,} elements with {POLLS} polls each;"
        f" yardstick: scipy.optimize.brentq for each of {FEW:,} of them"
    )
    for name, irregular in (("regular intervals", False), ("irregular intervals", True)):
        one_kind(name, polls(irregular=irregular))


def polls(*, irregular: bool) -> Columns:
    """Elements of one change per interval on average, element by element."""
    rng = np.random.default_rng(1)
    rates = rng.gamma(1.0, size=MILLION)
    elements = np.repeat(np.arange(MILLION), POLLS)
    elapsed = rng.exponential(size=elements.size) if irregular else np.ones(elements.size)
    return elements, elapsed, rng.random(elements.size) < -np.expm1(-rates[elements] * elapsed)


def one_kind(name: str, columns: Columns) -> None:
    for method in ("mle", "bayes"):  # compile
        estimate_rates(*(column[: FEW * POLLS] for column in columns), method=method)
    start = time.perf_counter()
    roots = root_finds(columns)
    loop = (time.perf_counter() - start) / FEW
    mle = estimate_rates(*columns, method="mle")
    assert np.allclose(mle.rate[:FEW][~np.isnan(roots)], roots[~np.isnan(roots)], rtol=1e-8)
    seconds = best(lambda: estimate_rates(*columns, method="mle"), repeat=3)
    print(
        f"  {name:<20} maximum likelihood {seconds:6.2f} s;"
        f" {at_least(loop * MILLION / seconds, LEAST, 'x the loop')} ({loop * 1e6:.0f} us a root)"
    )
    start = time.perf_counter()
    bayes = estimate_rates(*columns)
    found = time.perf_counter() - start
    assert abs(bayes.prior.shape - 1.0) < 0.05, bayes.prior
    print(f"  {'':<20} Bayes, prior learned {found:4.1f} s; {loop * MILLION / found:.1f} x the loop")
    order = np.random.default_rng(2).permutation(MILLION)
    shuffled = (order[columns[0]], *columns[1:])
    online = Learner(MILLION, round=1.0)
    start = time.perf_counter()
    online.learn(*shuffled)
    learned = time.perf_counter() - start
    print(f"  {'':<20} online {learned:18.2f} s; {MILLION * POLLS / learned / 1e6:.1f} million polls/s")


def root_finds(columns: Columns) -> Floats:
    """Find the likeliest rate of each of a few elements; nan where all polls saw the same."""
    _, elapsed, changed = (column[: FEW * POLLS].reshape(FEW, POLLS) for column in columns)
    out = np.full(FEW, np.nan)
    for i in range(FEW):
        spans, still = elapsed[i, changed[i]], elapsed[i, ~changed[i]].sum()
        if spans.size and still:
            out[i] = brentq(
                lambda r, spans=spans, still=still: (spans / np.expm1(r * spans)).sum() - still, 1e-6, 30.0
            )
    return out
