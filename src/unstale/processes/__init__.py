"""How elements change, and how they are polled: point processes with independent gaps.

Let ``S(y)`` be the probability that a gap between two changes exceeds ``y`` and ``rate`` the mean rate, one
over the mean gap. Seen from a random moment, the time since the last change (the age of the process, and by
symmetry the time to the next one) has the distribution ``G(t) = rate * integral of S from 0 to t``. Freshness
needs no more of a process than the moments

    moment(k, t) = integral of y^k dG(y) from 0 to t = rate * integral of y^k S(y) dy,    k = 0, 1, 2,

of which ``moment(0, t)`` is ``G`` itself, and ``1 - G`` where that is small (`residual_survival`).

Parameters may be arrays: one object then stands for many elements, and everything broadcasts. All sums below
are of positive terms, or lose less than two digits.

References: Li, Cline & Loguinov (INFOCOM 2015), section III; Cho & Garcia-Molina (SIGMOD 2000), section 2.2.
"""

from .discrete import Empirical, Periodic, RandomOrder
from .exponential import Pareto, Poisson, UncertainPoisson
from .law import Process, Size, process
from .observed import Observed
from .skewed import Gamma, Lognormal, Weibull
from .superposed import Superposed

__all__ = [
    "Empirical",
    "Gamma",
    "Lognormal",
    "Observed",
    "Pareto",
    "Periodic",
    "Poisson",
    "Process",
    "RandomOrder",
    "Size",
    "Superposed",
    "UncertainPoisson",
    "Weibull",
    "process",
]
