"""Estimation: how elements change, from what polls saw; what hints are worth; who wants what, from logs.

`rates` and `many` estimate change rates, with intervals and as laws for a plan; `learner` does so poll after
poll, also for a policy that polls as it learns. `gaps`, `fits`, `rhythm` and `blind` tell what law
changes follow; `hints` and `hinted` how reliable hints are, and when to act on them; `profiles` how much
elements are wanted.
"""

from .hints.hinted_changes import HintedChanges
from .hints.hinted_plan import HintedPlan, plan_hinted
from .hints.reliability import HintEstimate, estimate_hints
from .laws.best_poll_times import best_moments
from .laws.class_fits import fit_class
from .laws.fits import LAWS, Fit, Fits, fit
from .laws.gap_law_from_polls import Blind, estimate_blindly
from .laws.gap_tests import (
    GapShares,
    GapTests,
    PollTests,
    burstiness,
    examine_gaps,
    examine_polls,
    gap_shares,
    memory,
)
from .laws.poisson_score_tests import Test
from .laws.poll_fits import fit_polls
from .laws.rhythm import Rhythm, rhythm_of_changes, rhythm_of_polls
from .learning.learner import Learner
from .profiles.profile import Profile
from .profiles.user_profiles import UserProfiles
from .rates.estimators import RateEstimate, estimate_rate
from .rates.posterior import GammaPrior
from .rates.rates_of_many import Rates, estimate_rates

__all__ = [
    "LAWS",
    "Blind",
    "Fit",
    "Fits",
    "GammaPrior",
    "GapShares",
    "GapTests",
    "HintEstimate",
    "HintedChanges",
    "HintedPlan",
    "Learner",
    "PollTests",
    "Profile",
    "RateEstimate",
    "Rates",
    "Rhythm",
    "Test",
    "UserProfiles",
    "best_moments",
    "burstiness",
    "estimate_blindly",
    "estimate_hints",
    "estimate_rate",
    "estimate_rates",
    "examine_gaps",
    "examine_polls",
    "fit",
    "fit_class",
    "fit_polls",
    "gap_shares",
    "memory",
    "plan_hinted",
    "rhythm_of_changes",
    "rhythm_of_polls",
]
