"""Integrals that have no closed form, with a stated error.

SciPy's tanh-sinh rule, which takes infinite limits and singular ends, applied piece by piece between the points
where the integrand has a kink. Anything that does not reach the stated error is an error, never a number.
"""

from collections.abc import Callable
from typing import Final

import numpy as np

from .arguments import Floats
from .errors import NoAnswer

__all__ = ["ERROR", "integrate", "integrate_to"]

ERROR: Final = 1e-10
"""Relative error that is promised (what is reached is usually 1e-14)."""


def integrate(integrand: Callable[[Floats], Floats], low: float, high: float, kinks: Floats | None = None) -> float:
    """Integrate a function of one sign from ``low`` to ``high``, which may be infinite.

    >>> round(integrate(lambda x: np.exp(-x), 0, np.inf), 12)
    1.0
    """
    return float(integrate_to(lambda x, _: integrand(x), low, np.asarray(high, float), kinks))


def integrate_to(
    integrand: Callable[[Floats, Floats], Floats], low: float, high: Floats, kinks: Floats | None = None
) -> Floats:
    """Integrate ``integrand(x, high)`` over x from ``low`` to each of many upper limits.

    >>> integrate_to(lambda x, high: high - x, 0.0, np.array([1.0, 2.0])).round(12).tolist()
    [0.5, 2.0]
    """
    from scipy.integrate import tanhsinh  # noqa: PLC0415  (slow to import, rarely needed)

    tops = np.ravel(high)
    start, width, owner = _pieces(low, tops, np.empty(0) if kinks is None else np.unique(kinks))
    bounded = np.isfinite(width)
    total, error = np.zeros(tops.shape), np.zeros(tops.shape)
    with np.errstate(all="ignore"):  # the rule probes the ends, where infinities are legitimate
        for part, open_ended in ((bounded, False), (~bounded, True)):
            if not part.any():
                continue
            a, h, top = start[part], width[part], tops[owner[part]]
            if open_ended:
                found = tanhsinh(integrand, a, np.inf, args=(top,), rtol=1e-13)
            else:  # on (0, 1), so that a piece a few ulps wide is no trouble
                found = tanhsinh(
                    lambda u, a, h, top: h * integrand(a + h * u, top), 0.0, 1.0, args=(a, h, top), rtol=1e-13
                )
            np.add.at(total, owner[part], found.integral)
            np.add.at(error, owner[part], found.error)
    bad = ~(error <= ERROR * np.abs(total)) & ~(np.abs(total) < np.finfo(float).tiny)
    if bad.any():
        i = int(np.argmax(bad))
        msg = f"an integral from {low:g} to {tops[i]:g} did not converge: value {total[i]:g}, error {error[i]:g}"
        raise NoAnswer(msg)
    return total.reshape(np.shape(high))


def _pieces(low: float, tops: Floats, kinks: Floats) -> tuple[Floats, Floats, Floats]:
    """Start, width and owner of the pieces into which the kinks cut each (low, top)."""
    starts, widths, owners = [], [], []
    for i, top in enumerate(tops):
        if top > low:
            ends = np.concatenate([[low], kinks[(kinks > low) & (kinks < top)], [top]])
            starts.append(ends[:-1])
            widths.append(np.diff(ends))
            owners.append(np.full(ends.size - 1, i))
    if not starts:
        return np.empty(0), np.empty(0), np.empty(0, int)
    return np.concatenate(starts), np.concatenate(widths), np.concatenate(owners)
