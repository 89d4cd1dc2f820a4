"""The posterior of a change rate, compiled: gamma prior, and polls that saw a change or not.

It is a function of u = log(rate), and its logarithm is concave,

    shape u - time exp(u) + sum of log(1 - exp(-t exp(u))) over intervals t with a change.

The sum is found at steps of log(2)/4 in u, where w = 1 - exp(-r t) becomes w (2 - w) from a rate to twice
that rate, so that four exponentials for each interval are enough; between them it is interpolated. Steps of
the integration are parts of those, as short as the curve needs.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .estimators import balance, change

_STEPS_PER_OCTAVE = 4
_LOG_STEP = math.log(2.0) / _STEPS_PER_OCTAVE
_STENCIL_POINTS = 12
_STENCIL_LEFT = _STENCIL_POINTS // 2 - 1
_MOST_PARTS_OF_STEP = 720
_LOG_DEPTH = 21.0
"""The posterior is followed down to exp(-21) of its height."""
_PART_PER_SPREAD = 0.3
"""Parts of a step are at most this, times what is about the spread of the posterior where it bends most."""
_GRID_ROOM = 1 << 12
_MOST_INTEGRATED_SHAPE = 1e6
"""Beyond this shape the posterior is a gamma law to 6 digits."""


def _offsets() -> NDArray[np.float64]:
    """Weights of twelve neighbours, of which the sixth is at 0, that interpolate at q/720."""
    nodes = np.arange(_STENCIL_POINTS) - float(_STENCIL_LEFT)
    x = np.arange(_MOST_PARTS_OF_STEP) / _MOST_PARTS_OF_STEP
    weights = np.ones((_MOST_PARTS_OF_STEP, _STENCIL_POINTS))
    for k in range(_STENCIL_POINTS):
        for j in range(_STENCIL_POINTS):
            if j != k:
                weights[:, k] *= (x - nodes[j]) / (nodes[k] - nodes[j])
    return weights


OFFSETS = _offsets()


class _Curve(NamedTuple):
    """Logarithm of the posterior, but for the sum."""

    shape: float
    time: float
    mode: float
    bend: float  # minus the second derivative there


@njit(cache=True, nogil=True, error_model="numpy")
def _log_changes(u, spans, times):
    """Sum of log(1 - exp(-r t)) at r = exp(u), and its slope in u."""
    value = slope = 0.0
    r = math.exp(u)
    for j in range(spans.size):
        x = r * spans[j]
        e = change(x)
        value += times[j] * math.log(e)
        slope += times[j] * x * (1.0 - e) / e
    return value, slope


@njit(cache=True, nogil=True, error_model="numpy")
def _start(curve, spans, times):
    """Find a u below the mode where the posterior is low enough.

    There it falls at least as fast as bend (u - exp(u)) does, which is for spans that are all very short. If
    that is slow: for rates below 1/e of the mode, at which no span has a change on average, its logarithm has
    a slope of at least (1 - 1/e) 1/(e - 1) for each change.
    """
    shape, time, mode, bend = curve
    c = _LOG_DEPTH / bend
    y = math.sqrt(2.0 * c) + c
    for _ in range(2):
        y -= (math.expm1(-y) + y - c) / -math.expm1(-y)
    low = mode - y
    if y < 4.0:
        return low
    longest = changes = 0.0
    for j in range(spans.size):
        longest = max(longest, spans[j])
        changes += times[j]
    low = max(low, min(mode, -math.log(longest)) - 1.0 - 2.72 * _LOG_DEPTH / changes)
    top = shape * mode - time * math.exp(mode) + _log_changes(mode, spans, times)[0]
    for _ in range(20):
        value, slope = _log_changes(low, spans, times)
        r = math.exp(low)
        excess = top - (shape * low - time * r + value) - _LOG_DEPTH
        if excess < 5.0:
            break
        low += excess / (slope + shape - time * r)  # not too far, as the logarithm is concave
    return low


@njit(cache=True, nogil=True, error_model="numpy")
def _octave(spans, times, w, out):
    """Sum log(1 - exp(-r t)) over spans at the four rates of an octave; go on to the next octave."""
    out[0] = out[1] = out[2] = out[3] = 0.0
    a = b = c = d = 1.0
    for j in range(spans.size):
        if times[j] == 1:
            a *= w[j, 0]
            b *= w[j, 1]
            c *= w[j, 2]
            d *= w[j, 3]
            if a < 1e-150:  # before it underflows; b, c and d are larger
                out[0] += math.log(a)
                out[1] += math.log(b)
                out[2] += math.log(c)
                out[3] += math.log(d)
                a = b = c = d = 1.0
        else:
            for s in range(_STEPS_PER_OCTAVE):
                out[s] += times[j] * math.log(w[j, s])
        for s in range(_STEPS_PER_OCTAVE):
            w[j, s] *= 2.0 - w[j, s]
    out[0] += math.log(a)
    out[1] += math.log(b)
    out[2] += math.log(c)
    out[3] += math.log(d)


@njit(cache=True, nogil=True, error_model="numpy")
def _coarse(curve, spans, times, low, w, sums, heights):
    """Sum log(1 - exp(-r t)) from five steps below ``low`` to six beyond where the posterior is low again.

    Returns the most that the posterior bends where it counts.
    """
    shape, time, mode, bend = curve
    first = low - _STENCIL_LEFT * _LOG_STEP
    for s in range(_STEPS_PER_OCTAVE):
        r = math.exp(first + s * _LOG_STEP)
        for j in range(spans.size):
            w[j, s] = change(r * spans[j])
    end = sums.size
    top = -np.inf
    for k in range(sums.size):
        if k % _STEPS_PER_OCTAVE == 0:
            if k > end:
                break
            _octave(spans, times, w, sums[k : k + _STEPS_PER_OCTAVE])
        u = first + k * _LOG_STEP
        heights[k] = shape * u - time * math.exp(u) + sums[k]
        top = max(top, heights[k])
        if end == sums.size and u > mode and heights[k] < top - _LOG_DEPTH:
            end = k + _STENCIL_POINTS - _STENCIL_LEFT
    for k in range(1, min(end, sums.size - 1)):
        if heights[k] > top - 7.0:
            bend = max(bend, (2.0 * heights[k] - heights[k - 1] - heights[k + 1]) / _LOG_STEP**2)
    return bend


@njit(cache=True, nogil=True, error_model="numpy")
def _parts(bend):
    """Into how many parts to cut a step: a divisor of 720 for which each part is short enough."""
    parts = 1
    while parts < _MOST_PARTS_OF_STEP and (
        _MOST_PARTS_OF_STEP % parts > 0 or _LOG_STEP * math.sqrt(bend) > _PART_PER_SPREAD * parts
    ):
        parts += 1
    return parts


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _fine(curve, sums, low, parts, offsets, f):
    """Evaluate the posterior at each part of a step, down to where it is low again.

    Returns how many there are, their sum, the logarithm of what they are to be multiplied by, mean and
    variance of the rate, and the mean of its logarithm.
    """
    shape, time, mode, _ = curve
    stride = _MOST_PARTS_OF_STEP // parts
    h = _LOG_STEP / parts
    ratio = math.exp(h)
    middle, r = math.exp(mode), math.exp(low)
    at = int((mode - low) / h)
    top = shape * (low + at * h) - time * math.exp(low + at * h)
    for m in range(_STENCIL_POINTS):
        top += offsets[at % parts * stride, m] * sums[at // parts + m]
    total = mean = square = log = 0.0
    count = 0
    for q in range(f.size):
        value = 0.0
        for m in range(_STENCIL_POINTS):
            value += offsets[q % parts * stride, m] * sums[q // parts + m]
        u = low + q * h
        value += shape * u - time * r - top
        density = math.exp(value)
        f[q] = density
        count = q + 1
        total += density
        mean += density * (r - middle)
        square += density * (r - middle) ** 2
        log += density * (u - mode)
        if u > mode and value < -_LOG_DEPTH:
            break
        r *= ratio
    mean /= total
    return count, total, top, middle + mean, square / total - mean * mean, mode + log / total


@njit(inline="always")
def _slopes(f, q):
    """First and third derivative at a point, for steps of 1."""
    a, b, c = f[q + 1] - f[q - 1], f[q + 2] - f[q - 2], f[q + 3] - f[q - 3]
    return 0.75 * a - 0.15 * b + c / 60.0, b - 1.625 * a - 0.125 * c


@njit(cache=True, nogil=True, error_model="numpy")
def _piece(f, q, before):
    """Coefficients of the integral of f over points 0, 1, ... up to q + x, for x from 0 to 1.

    ``before`` is the sum of f over points before q. Euler-Maclaurin at both ends, and Hermite between them.
    """
    s0, t0 = _slopes(f, q)
    s1, t1 = _slopes(f, q + 1)
    c0 = before + 0.5 * f[q] - s0 / 12.0 + t0 / 720.0
    c1 = before + f[q] + 0.5 * f[q + 1] - s1 / 12.0 + t1 / 720.0
    gap = c1 - c0 - f[q] - 0.5 * s0
    rise, bow = f[q + 1] - f[q] - s0, s1 - s0
    k3 = 10.0 * gap - 4.0 * rise + 0.5 * bow
    k4 = -15.0 * gap + 7.0 * rise - bow
    k5 = 6.0 * gap - 3.0 * rise + 0.5 * bow
    return c0, c1, 0.5 * s0, k3, k4, k5


@njit(cache=True, nogil=True, error_model="numpy")
def _quantile(f, count, goal):
    """Find where the integral of f over points 0, 1, ... reaches ``goal``."""
    before = 0.0
    q = 0
    while q < count - 6 and before + f[q] < goal:  # about the integral up to q + 1/2
        before += f[q]
        q += 1
    if q > 3:
        q -= 1
        before -= f[q]
    c0, c1, k2, k3, k4, k5 = _piece(f, q, before)
    while c1 < goal and q < count - 6:
        before += f[q]
        q += 1
        c0, c1, k2, k3, k4, k5 = _piece(f, q, before)
    low, high = 0.0, 1.0
    x = min(max((goal - c0) / (c1 - c0), 0.0), 1.0)
    for _ in range(50):
        miss = c0 + x * (f[q] + x * (k2 + x * (k3 + x * (k4 + x * k5)))) - goal
        if miss > 0.0:
            high = x
        else:
            low = x
        step = miss / (f[q] + x * (2.0 * k2 + x * (3.0 * k3 + x * (4.0 * k4 + x * 5.0 * k5))))
        x = x - step if low <= x - step <= high else 0.5 * (low + high)
        if abs(step) < 1e-9:
            break
    return q + x


@njit(cache=True, nogil=True, error_model="numpy")
def _integral(f, count, x):
    """Integrate f over points 0, 1, ... up to x."""
    q = int(min(max(x, 3.0), count - 6.0))
    before = 0.0
    for k in range(q):
        before += f[k]
    x = min(max(x - q, 0.0), 1.0)
    c0, _, k2, k3, k4, k5 = _piece(f, q, before)
    return c0 + x * (f[q] + x * (k2 + x * (k3 + x * (k4 + x * k5))))


@njit(cache=True, nogil=True, error_model="numpy")
def posteriors(data, shapes, scales, owners, tail, limits, offsets, out):
    """Find mean, variance, both quantiles, mean logarithm and logarithm of the integral of each posterior.

    The prior of an element is the gamma law of number ``owners`` of it. With ``limits``, one rate for each
    element, its share below that takes the place of the quantiles. Without changes of unknown age the
    posterior is a gamma law, and all but mean and variance are left to others; with very many changes it is
    one but for rounding, and quantiles or shares are left. What is left is nan.
    """
    most = 1
    for i in range(data.polls.size):
        most = max(most, data.ends[i] - data.begins[i])
    w, f = np.empty((most, _STEPS_PER_OCTAVE)), np.empty(16 * _GRID_ROOM)
    sums, heights = np.empty(_GRID_ROOM), np.empty(_GRID_ROOM)
    for i in range(data.polls.size):
        shape = shapes[owners[i]] + data.known[i]
        time = 1.0 / scales[owners[i]] + data.still[i]
        spans, times = data.spans[data.begins[i] : data.ends[i]], data.times[data.begins[i] : data.ends[i]]
        if spans.size == 0:
            out[i] = shape / time, shape / time / time, np.nan, np.nan, np.nan, np.nan
            continue
        r, bend = balance(shape, time, spans, times, 1e-3)
        mode = math.log(r)
        curve = _Curve(shape, time, mode, bend)
        if bend > _MOST_INTEGRATED_SHAPE:
            top = shape * mode - time * r + _log_changes(mode, spans, times)[0]
            size = top + 0.5 * math.log(2.0 * math.pi / bend)
            out[i] = r, r * (r / bend), np.nan, np.nan, mode - 0.5 / bend, size
            continue
        low = _start(curve, spans, times)
        parts = _parts(_coarse(curve, spans, times, low, w, sums, heights))
        h = _LOG_STEP / parts
        count, total, top, out[i, 0], out[i, 1], out[i, 4] = _fine(curve, sums, low, parts, offsets, f)
        if limits.size > 0:
            out[i, 2] = out[i, 3] = _integral(f, count, (math.log(limits[i]) - low) / h) / total
        else:
            out[i, 2] = math.exp(low + h * _quantile(f, count, tail * total))
            out[i, 3] = math.exp(low + h * _quantile(f, count, (1.0 - tail) * total))
        out[i, 5] = top + math.log(h * total)
