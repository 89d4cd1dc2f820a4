"""Simulation: a world in which any policy can be tried before anyone trusts it.

Data flows one way: a `World` gives the changes (and requests) of a span of time; a policy at work (`players`)
gives the polls that are carried out in it (`visits`); the `tracking` evaluator follows what copies go through
between the two, and adds it up to an `Outcome`. The `analysis` evaluator says what formulas expect.
"""

from .expected_outcome import expect
from .noisy_hints import NoisyHints
from .outcome import Expected, Outcome, Result
from .policies import LearningAtPlay, Outcomes, Played, Policy
from .policy_lookup import NAMES
from .poll_execution import Conditions
from .simulator import simulate
from .tool_rules import RULES, Rule
from .worlds import World, align, zipf

__all__ = [
    "NAMES",
    "RULES",
    "Conditions",
    "Expected",
    "LearningAtPlay",
    "NoisyHints",
    "Outcome",
    "Outcomes",
    "Played",
    "Policy",
    "Result",
    "Rule",
    "World",
    "align",
    "expect",
    "simulate",
    "zipf",
]
