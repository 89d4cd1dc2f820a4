"""How elements seem to change, poll after poll: compiled.

What polls have said about an element fades with a half-life, and is kept as numbers: changes that were seen
so soon that each was one, and can be counted; other polls that saw a change, and the time over which they had
looked back; and the time seen to be quiet. Together with a gamma prior they make a gamma law of the rate. All
this is done for each of several half-lives.

A fifth number is the case for an element being hopeless: one that changes all the time, such as a page with
the time of day on it. No gamma law would tell that from a fast one. Each change that was seen makes it
likelier by as much as the gamma law had thought it unlikely, and one poll without a change refutes it. A
change whose time is known does not make it likelier.
"""

import math

import numpy as np
from numba import njit

_HOPELESS_ODDS = 1e-6
"""Odds of an element to be hopeless before any poll: it takes a case of 14, say 20 changes at even odds."""
_CHANGES_COUNTED_AS_ONE = 1.05
"""Changes expected between two polls, up to which a change is counted as one. Where something changes all
elements at once, that is kinder than to take each of them for fast; it finds hopeless ones a little later."""
_EXPECTED_CHANGE_EVIDENCE = 3.0
"""-log of the probability of no change from which on a change is no news."""
_LARGEST_FLOAT32 = 3e38
"""What a number of four bytes can hold."""
_LOG_2, _LOG_FIRST_HOPE = math.log(2.0), -math.log1p(_HOPELESS_ODDS)


@njit(inline="always")
def _hope(case):
    """Return the probability that an element is not hopeless; for most there is no case."""
    return 1.0 / (1.0 + _HOPELESS_ODDS * (math.exp(min(case, 700.0)) if case > 0.0 else 1.0))


@njit(cache=True, nogil=True, error_model="numpy")
def gamma_law(shape, time, changes, busy, quiet):
    """Return the gamma law, shape and time, that is nearest to what is known of a rate r.

    That is r^shape exp(-r (time + quiet)) (1 - exp(-r t))^changes, per log(r), where t = busy/changes is the
    mean time over which polls that saw a change had looked back. The gamma law has the same mode and the same
    curvature there, in log(r). Without changes, or if t is short, it is exact.
    """
    rest = time + quiet
    if changes < 1e-100:
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
def slopes(prior_shape, prior_time, seen, a, b):
    """Return how a gamma law and the logarithm of its time depend on the logarithms of its prior.

    That is da/dp, da/dq, dlog(b)/dp and dlog(b)/dq, for p and q the logarithms of the prior's shape and mean
    rate. The mode r = a/b is a root of shape + changes y/(e^y - 1) - r time, of which the slopes are known.
    """
    if seen[1] < 1e-100:
        part = prior_time / b
        return prior_shape, 0.0, part, -part
    r = a / b
    y = r * seen[2] / seen[1]
    if y < 1e-8:
        part, fall, bend = 1.0 - 0.5 * y, 0.5 * y, 0.5 * y
    elif y > 700.0:
        part, fall, bend = 0.0, 0.0, 0.0
    else:
        part = y / math.expm1(y)
        fall = part * (y + part - 1.0)
        bend = part * (y - fall) - fall * (y + part - 1.0)  # d fall / d log(r)
    mode_p = (prior_shape - r * prior_time) / a
    mode_q = r * prior_time / a
    shape_p = prior_shape + seen[1] * (bend - fall) * mode_p
    shape_q = seen[1] * (bend - fall) * mode_q
    return shape_p, shape_q, shape_p / a - mode_p, shape_q / a - mode_q


@njit(cache=True, nogil=True, error_model="numpy")
def _add_change(seen, a, b, t):
    """Add a change within time t to what is known, of which the gamma law is (a, b).

    If t is short the likelihood, 1 - exp(-r t), is r t exp(-r t/2): that of a change that is counted. Else a
    change that was sure to come within less time is taken to have come within that: so many of them say that
    the element is faster still.
    """
    if a * t < _CHANGES_COUNTED_AS_ONE * b:
        seen[0] += 1.0
        seen[3] += 0.5 * t
    else:
        seen[1] += 1.0
        seen[2] += min(t, b * math.expm1(_EXPECTED_CHANGE_EVIDENCE / a))


@njit(cache=True, nogil=True, error_model="numpy")
def hear(
    elements, elapsed, changed, ages, least, classes, half_lives, clocks, priors, evidence, surprise, slope,
    information,
):  # fmt: skip
    """Take in what polls saw, in the order given; those after ``least`` or less say nothing.

    ``elapsed`` and ``ages`` are by the clock and by the levels of classes; ``clocks`` says by which of the
    two each half-life goes. ``ages`` are those of the last changes; nan where unknown, and empty if that is
    everywhere. A change of known age is one that can be counted, and nothing has changed since.

    ``priors`` are (class, half-life, log of shape and of mean rate), ``evidence`` (element, half-life,
    the five numbers). ``surprise`` adds up, for each class and half-life, -log of the
    probability that had been given to what each poll saw; ``slope`` and ``information`` how its logarithm
    depends on the prior: its gradient, and the Fisher information.
    """
    seen = np.empty(5)
    shapes, times = np.empty(priors.shape[:2]), np.empty(priors.shape[:2])
    known = np.zeros(priors.shape[0], np.bool_)
    for j in range(elements.size):
        i = elements[j]
        if not elapsed[0, j] > least:
            continue
        group = classes[i] if classes.size else 0
        if not known[group]:
            known[group] = True
            for k in range(half_lives.size):
                shapes[group, k] = math.exp(priors[group, k, 0])
                times[group, k] = math.exp(priors[group, k, 0] - priors[group, k, 1])
        for k in range(half_lives.size):
            t = max(elapsed[clocks[k], j], least)
            fade = math.exp(-_LOG_2 * t / half_lives[k])
            for m in range(5):
                seen[m] = fade * evidence[i, k, m]
            hope = _hope(seen[4])
            a, b = gamma_law(shapes[group, k] + seen[0], times[group, k], seen[1], seen[2], seen[3])
            log = math.log1p(t / b)
            here = a * log  # -log of the probability that nothing changes
            shape_p, shape_q, time_p, time_q = slopes(shapes[group, k], times[group, k], seen, a, b)
            to_shape = shape_p * log - a * t / (b + t) * time_p
            to_rate = shape_q * log - a * t / (b + t) * time_q
            stir = max(-math.expm1(-here), 1e-300)
            odds = (1.0 - stir) / stir
            if changed[j]:
                surprise[group, k] -= math.log(1.0 - hope * (1.0 - stir))
                by = odds
                if ages.size > 0 and ages[clocks[k], j] >= 0.0:
                    x = min(ages[clocks[k], j], t)
                    seen[0] += 1.0
                    seen[3] += x
                    # the density of that, a/b (1 + x/b)^-(a + 1), tells more of the prior than the change
                    log, part, by, odds = math.log1p(x / b), (a + 1.0) * x / (b + x), 1.0, 1.0
                    to_shape = shape_p / a - time_p - shape_p * log + part * time_p
                    to_rate = shape_q / a - time_q - shape_q * log + part * time_q
                else:
                    seen[4] -= math.log(stir)
                    _add_change(seen, a, b, t)
            else:
                surprise[group, k] += here - (math.log(hope) if seen[4] > 0.0 else _LOG_FIRST_HOPE)
                by = -1.0
                seen[3] += t
                seen[4] = 0.0
            for m in range(5):
                evidence[i, k, m] = min(seen[m], _LARGEST_FLOAT32)
            by, odds = hope * by, hope * odds  # a hopeless element says nothing of the others
            slope[group, k, 0] += by * to_shape
            slope[group, k, 1] += by * to_rate
            information[group, k, 0, 0] += odds * to_shape * to_shape
            information[group, k, 0, 1] += odds * to_shape * to_rate
            information[group, k, 1, 0] += odds * to_shape * to_rate
            information[group, k, 1, 1] += odds * to_rate * to_rate


@njit(cache=True, nogil=True, error_model="numpy")
def present(elements, since, classes, chosen, half_lives, priors, evidence, shape, time, hope):
    """Write the gamma laws of rates, so long after the last polls, and the probabilities of hope."""
    seen, known, a0, b0 = np.empty(5), -1, 0.0, 0.0
    for j in range(elements.size):
        i = elements[j]
        group = classes[i] if classes.size else 0
        k = chosen[group]
        fade = math.exp(-_LOG_2 * max(since[j], 0.0) / half_lives[k])
        if group != known:
            known, a0 = group, math.exp(priors[group, k, 0])
            b0 = a0 / math.exp(priors[group, k, 1])
        for m in range(5):
            seen[m] = fade * evidence[i, k, m]
        shape[j], time[j] = gamma_law(a0 + seen[0], b0, seen[1], seen[2], seen[3])
        hope[j] = _hope(seen[4])
