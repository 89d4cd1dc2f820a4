"""The one policy: what is known of elements, what a poll is worth, what to poll next.

What polls saw comes in (`learning_policy`) and changes what is known: a row for each element
(`element_table`), with what the `Learner` knows of how it changes, how good hints are (`hint_channels`), at
what hours classes change (`class_clocks`) and how far told times are believed (`told_times`). What a poll is
worth follows (`knowledge`). Polls are put in order (`ranking`) and get their slots within the budget and the
limits of groups (`budget_and_limits`); if the budget has a reserve, at a price that moves slowly
(`reserve_price`). The mirror runs a `LearningPolicy`; `Learning` is the same with a plain face, for programs
of your own, for the simulator and for the lab.
"""

from .budget_and_limits import RateLimits
from .candidates import Chosen
from .element_table import ElementColumns, ElementTable
from .hint_channels import Channels
from .knowledge import Knowledge
from .learning_policy import LearningPolicy
from .learning_schedule import Learning
from .limits import GroupLimits, Limits, Slots
from .poll_outcomes import PollOutcomes

__all__ = [
    "Channels",
    "Chosen",
    "ElementColumns",
    "ElementTable",
    "GroupLimits",
    "Knowledge",
    "Learning",
    "LearningPolicy",
    "Limits",
    "PollOutcomes",
    "RateLimits",
    "Slots",
]
