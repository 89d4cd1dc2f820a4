"""Random numbers that are a function of where they are used.

Number ``count`` of ``element`` under ``key`` is always the same, whatever was drawn before it. So a schedule
starts again anywhere, elements come and go without disturbing others, and all policies meet the same luck.

The mixing is that of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014, with Stafford's constants): once for the
element, once for the count.
"""

from collections.abc import Callable

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unstale.arguments import Floats

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1342543DE82EF95)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(12)


POLLS, CHANGES, REQUESTS, FATES, PHASES, REPLICAS, JITTER, HINTS, MOMENTS = range(9)
"""Purposes of random numbers: each has its own under the same seed."""


def _entropy(seed: int, *purpose: int) -> np.random.SeedSequence:
    # with its length, as 1 and 1, 0 would be the same otherwise
    return np.random.SeedSequence([seed, len(purpose), *purpose])


def key_of(seed: int, *purpose: int) -> np.uint64:
    """Return the key of a seed for some purpose.

    >>> len({int(key_of(*words)) for words in ((1,), (1, 0), (1, 0, 0), (1, 1), (0, 1))})
    5
    """
    return _entropy(seed, *purpose).generate_state(1, np.uint64)[0]


def generator_of(seed: int, *purpose: int) -> np.random.Generator:
    """Return the generator of a seed for some purpose, where numbers are drawn in one order."""
    return np.random.default_rng(_entropy(seed, *purpose))


@njit(inline="always")
def _mixed(z):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    z = (z ^ (z >> _HALF[0])) * _FIRST
    z = (z ^ (z >> _HALF[1])) * _SECOND
    return z ^ (z >> _HALF[2])


@njit(inline="always")
def uniform(key, element, count):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
    """Return a number strictly between 0 and 1.

    >>> bool(0.0 < uniform(key_of(1), 5, 7) < 1.0)
    True
    """
    z = _mixed(key + np.uint64(element) * _GOLDEN)
    z = _mixed(z + np.uint64(count) * _STEP)
    return (np.float64(z >> _HALF[3]) + 0.5) * 2.0**-52


def uniforms(key: np.uint64, elements: NDArray[np.integer], counts: NDArray[np.integer]) -> Floats:
    """Return the numbers that `uniform` returns, of many elements at once.

    >>> key = key_of(1)
    >>> many = uniforms(key, np.array([5, 6]), np.array([7, 0]))
    >>> many.tolist() == [uniform(key, 5, 7), uniform(key, 6, 0)]
    True
    """
    mixed: Callable[[NDArray[np.uint64]], NDArray[np.uint64]] = _mixed.py_func
    z = mixed(key + elements.astype(np.uint64) * _GOLDEN)
    z = mixed(z + counts.astype(np.uint64) * _STEP)
    return np.asarray(((z >> _HALF[3]).astype(np.float64) + 0.5) * 2.0**-52)
