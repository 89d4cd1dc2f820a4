"""Estimation: how elements change, from what polls saw; what hints are worth; who wants what, from logs.

`rates` and `many` estimate change rates, with intervals and as laws for a plan; `learner` does so poll after
poll, also for a policy that polls as it learns. `gaps`, `fits`, `rhythm` and `blind` tell what law
changes follow; `hints` and `hinted` how reliable hints are, and when to act on them; `profiles` how much
elements are wanted.
"""

from .blind import Blind, estimate_blindly
from .class_fits import fit_class
from .fits import LAWS, Fit, Fits, fit
from .gaps import (
    GapShares,
    GapTests,
    PollTests,
    burstiness,
    examine_gaps,
    examine_polls,
    gap_shares,
    memory,
)
from .hinted import HintedChanges, HintedPlan, plan_hinted
from .hints import HintEstimate, estimate_hints
from .learner import Learner
from .many import Rates, estimate_rates
from .moments import best_moments
from .poll_fits import fit_polls
from .posterior import GammaPrior
from .profiles import Profile
from .rates import RateEstimate, estimate_rate
from .rhythm import Rhythm, rhythm_of_changes, rhythm_of_polls
from .scores import Test
from .user_profiles import UserProfiles

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
