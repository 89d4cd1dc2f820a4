"""How elements seem to change, poll after poll: compiled.

What polls have said about an element fades with a half-life, and is kept as three numbers: how many polls saw
a change, the time they looked back over, and the time seen to be quiet. Together with a gamma prior they make
a gamma law of the rate. All this is done for each of several half-lives.
"""

import math

from numba import njit

__all__ = ["gamma_law", "hear", "present"]

_STEP = 0.05  # in the logarithms of shape and rate, to see how a law depends on its prior


@njit(cache=True, nogil=True, error_model="numpy")
def gamma_law(shape, time, changes, busy, quiet):
    """Return the gamma law, shape and time, that is nearest to what is known of a rate r.

    That is r^shape exp(-r (time + quiet)) (1 - exp(-r t))^changes, per log(r), where t = busy/changes is the
    mean time over which polls that saw a change had looked back. The gamma law has the same mode and the same
    curvature there, in log(r). Without changes, or if t is short, it is exact.
    """
    rest = time + quiet
    if changes <= 0.0:
        return shape, rest
    back = busy / changes
    # the mode: shape + changes * y/(e^y - 1) = r * rest with y = r * back. With 1/(1 + y/2) for y/(e^y - 1),
    # which is more, it is the root of a quadratic
    half, most = 0.5 * back, shape + changes
    less = rest - shape * half
    root = math.sqrt(less * less + 4.0 * rest * half * most)
    r = 2.0 * most / (less + root) if less > 0.0 else (root - less) / (2.0 * rest * half)
    least, curve = shape / rest, shape
    for _ in range(20):
        y = r * back
        if y < 1e-8:
            part, fall = 1.0 - 0.5 * y, 0.5 * y
        elif y > 700.0:
            part, fall = 0.0, 0.0
        else:
            part = y / math.expm1(y)
            fall = part * (y + part - 1.0)  # -d part / d log(r)
        curve = r * rest + changes * fall
        move = (shape + changes * part - r * rest) / curve
        if abs(move) < 1e-4:
            break
        r = max(r * math.exp(min(max(move, -2.0), 2.0)), least)
    return curve, curve / r


@njit(cache=True, nogil=True, error_model="numpy")
def _silence(log_shape, log_rate, changes, busy, quiet, t):
    """Return -log of the probability that nothing changes in time t."""
    shape = math.exp(log_shape)
    a, b = gamma_law(shape, shape / math.exp(log_rate), changes, busy, quiet)
    return a * math.log1p(t / b)


@njit(cache=True, nogil=True, error_model="numpy")
def hear(elements, elapsed, changed, classes, half_lives, priors, evidence, surprise, slope, information):
    """Take in what polls saw, in the order given.

    ``priors`` are (class, half-life, log of shape and of mean rate), ``evidence`` (element, half-life,
    changes, busy and quiet). ``surprise`` adds up, for each class and half-life, -log of the probability that
    had been given to what each poll saw; ``slope`` and ``information`` how its logarithm depends on the
    prior: its gradient, and the Fisher information.
    """
    for j in range(elements.size):
        i, t = elements[j], elapsed[j]
        if not t > 0.0:
            continue
        group = classes[i] if classes.size else 0
        for k in range(half_lives.size):
            fade = 2.0 ** (-t / half_lives[k])
            changes, busy, quiet = evidence[i, k] * fade
            p, q = priors[group, k]
            here = _silence(p, q, changes, busy, quiet, t)
            to_shape = (_silence(p + _STEP, q, changes, busy, quiet, t) - here) / _STEP
            to_rate = (_silence(p, q + _STEP, changes, busy, quiet, t) - here) / _STEP
            stir = max(-math.expm1(-here), 1e-300)
            odds = (1.0 - stir) / stir
            if changed[j]:
                surprise[group, k] -= math.log(stir)
                by = odds
                changes, busy = changes + 1.0, busy + t
            else:
                surprise[group, k] += here
                by = -1.0
                quiet += t
            evidence[i, k, 0], evidence[i, k, 1], evidence[i, k, 2] = changes, busy, quiet
            slope[group, k, 0] += by * to_shape
            slope[group, k, 1] += by * to_rate
            information[group, k, 0, 0] += odds * to_shape * to_shape
            information[group, k, 0, 1] += odds * to_shape * to_rate
            information[group, k, 1, 0] += odds * to_shape * to_rate
            information[group, k, 1, 1] += odds * to_rate * to_rate


@njit(cache=True, nogil=True, error_model="numpy")
def present(elements, since, classes, chosen, half_lives, priors, evidence, shape, time):
    """Write the gamma law of each element's rate, as it is so long after its last poll."""
    for j in range(elements.size):
        i = elements[j]
        group = classes[i] if classes.size else 0
        k = chosen[group]
        fade = 2.0 ** (-max(since[j], 0.0) / half_lives[k])
        a0 = math.exp(priors[group, k, 0])
        b0 = a0 / math.exp(priors[group, k, 1])
        changes, busy, quiet = evidence[i, k] * fade
        shape[j], time[j] = gamma_law(a0, b0, changes, busy, quiet)
