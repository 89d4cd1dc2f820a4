"""Compiled loops are called as NumPy ufuncs are, and are compiled once whatever the arrays are."""

import numpy as np
import pytest
from numba import njit

from unstale import kernels, uncertain_kernels
from unstale.elementwise import elementwise


@njit
def _times(kind, x, y, out):
    for i in range(out.size):
        out[i] = x[i] * y[i] + kind


times = elementwise()(_times)
GRID = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize(
    "x",
    [
        3.0,
        3,
        [1, 2, 3, 4],
        GRID,
        GRID.astype(np.float32),
        GRID.T[:, ::2].T,
        GRID[:, ::-1],
        np.broadcast_to(np.float64(2.0), (3, 4)),
        np.empty((0, 4)),
        np.frombuffer(b"\0" + np.arange(4.0).tobytes(), np.float64, offset=1),
    ],
    ids=lambda x: f"{type(x).__name__}{np.shape(x)}",
)
def test_any_array_is_taken_as_numpy_takes_it(x):
    y = np.arange(4.0)
    got = times(5, x, y)
    expected = np.asarray(x, float) * y + 5
    assert got.shape == expected.shape
    np.testing.assert_array_equal(got, expected)
    assert len(_times.signatures) == 1, "another kind of array was compiled for"


def test_numbers_give_numbers():
    got = times(1, 2.0, 3)
    assert (got, type(got)) == (7.0, np.float64)


@pytest.mark.parametrize("shape", [(4,), (3, 4)])
def test_a_place_for_the_result(shape):
    place = np.empty(shape)
    assert times(0, 2.0, np.arange(4.0), out=place) is place
    np.testing.assert_array_equal(place, np.broadcast_to(2.0 * np.arange(4.0), shape))


def test_what_is_missing_is_told():
    with pytest.raises(TypeError, match="takes kind, x, y; 2 arguments were given"):
        times(0, 1.0)


R = np.concatenate([[0.0, np.inf], np.geomspace(1e-160, 1e12, 400)])


def general(function, *arguments):
    """What the loop for all orders says."""
    return elementwise()(function.__wrapped__)(*arguments)


@pytest.mark.parametrize("kind", [kernels.FRESHNESS, kernels.AGE, kernels.HARMONIC])
def test_the_fixed_order_has_loops_of_its_own_that_agree_with_those_for_all_orders(kind):
    calls = [
        (kernels.worth, kind, kernels.FIXED, R),
        (kernels.inverse_worth, kind, kernels.FIXED, R),
        (kernels.inverse_saturated, kernels.FIXED, np.linspace(0.0, 0.5, 100)),
        (kernels.staleness, R, 1.0, kernels.FIXED),
        (kernels.staleness, [0.0, 1.0], 0.0, kernels.FIXED),
        (uncertain_kernels.worth, kind, kernels.FIXED, 1.7, R),
        (uncertain_kernels.cost, kind, kernels.FIXED, 1.7, R),
        (uncertain_kernels.freshness, kernels.FIXED, 1.7, R),
    ]
    for function, *arguments in calls:
        np.testing.assert_allclose(function(*arguments), general(function, *arguments), rtol=1e-15)
