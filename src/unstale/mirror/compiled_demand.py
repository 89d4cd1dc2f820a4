"""What elements ask for at prices, and what that buys, if rates are known as gamma laws: compiled.

In units of the scale of its law, with v = time * scale, an element of shape a has changed after v with
probability G(v) = 1 - (1+v)^-a. A poll is worth the integral of v G'(v) for freshness, of v G(v) for age.
"""

import math

from numba import njit

__all__ = ["add_asked", "kept_up"]

_TIGHT = 1e-11
_SMALL = 1e-3


@njit(cache=True, nogil=True, error_model="numpy")
def _power(q, log):
    """Return the integral of (1+v)^(q-1) up to where log(1+v) is ``log``."""
    return math.expm1(q * log) / q if abs(q) > 1e-9 else log


@njit(cache=True, nogil=True, error_model="numpy")
def _worth(age, a, z):
    """Return what a poll is worth after ``z``."""
    log = math.log1p(z)
    if (a + 1.0) * z < _SMALL:
        step = (a + 1.0) * z
        if age:
            return a * z**3 / 3.0 * (1.0 - 0.375 * step)
        return 0.5 * a * z * z * (1.0 - step * (2.0 / 3.0 - 0.25 * (step + z)))
    if age:
        return 0.5 * z * z - (_power(2.0 - a, log) - _power(1.0 - a, log))
    return _power(1.0 - a, log) - z * math.exp(-a * log)


@njit(cache=True, nogil=True, error_model="numpy")
def _bought(age, a, z):
    """Return the mean freshness of an element that is polled every ``z``, or its mean age."""
    survived = _power(1.0 - a, math.log1p(z))
    if not age:
        return survived / z
    if (a + 1.0) * z < _SMALL:
        return a * z * z / 6.0
    return z - survived - _worth(age, a, z) / z


@njit(cache=True, nogil=True, error_model="numpy")
def _interval(age, a, level, z):
    """Return after how long a poll is worth ``level``, which is not before ``z``; inf if never.

    The logarithm of worth is a concave function of that of time, so Newton's steps never go too far.
    """
    if not age and a > 1.0 and level * (a - 1.0) >= 1.0:
        return math.inf
    first = (3.0 * level / a) ** (1.0 / 3.0) if age else math.sqrt(2.0 * level / a)
    z = max(z, first)
    for _ in range(80):
        value = _worth(age, a, z)
        if value >= level:
            break
        log = math.log1p(z)
        slope = z * z * (-math.expm1(-a * log) if age else a * math.exp(-(a + 1.0) * log)) / value
        step = math.log(level / value) / slope
        if not step > _TIGHT:
            break
        z *= math.exp(min(step, 20.0))
        if z > 1e100:
            return math.inf
    return z


@njit(cache=True, nogil=True, error_model="numpy")
def add_asked(  # noqa: PLR0917
    age, shape, scale, weight, cost, floor, group, prices, spent, value
):
    """Add up what elements spend and what that buys, at prices that rise; none pays less than its floor.

    ``spent`` and ``value`` have a row for each group, and a column for each price.
    """
    for i in range(shape.size):
        unit = cost[i] / weight[i] * scale[i] * (scale[i] if age else 1.0)
        z = 0.0
        before = -1.0
        gain = rate = 0.0
        for k in range(prices.size):
            price = max(prices[k], floor[i])
            if price != before:
                z = _interval(age, shape[i], price * unit, z)
                before = price
                if z < math.inf:
                    rate = cost[i] * scale[i] / z
                    gain = weight[i] * _bought(age, shape[i], z) / (scale[i] if age else 1.0)
                else:
                    rate = gain = 0.0
            spent[group[i], k] += rate
            value[group[i], k] += gain


@njit(cache=True, nogil=True, error_model="numpy")
def kept_up(age, shape, scale, frequency):
    """Return the mean freshness, or age, of each element that is polled so often."""
    values = frequency.copy()
    for i in range(shape.size):
        if frequency[i] > 0.0:
            values[i] = _bought(age, shape[i], scale[i] / frequency[i]) / (scale[i] if age else 1.0)
        else:
            values[i] = math.inf if age else 0.0
    return values
