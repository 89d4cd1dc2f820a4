"""Schedules: from how often to when.

Every schedule is a `Stream`: a lazy, endless, restartable stream of (time, element). `Schedule` plays the
orders of Cho & Garcia-Molina by the `WindowClock` of its `Windows`; `EarliestDeadline` is Azar's Algorithm 3,
and `Index` gives each slot to the element that gains most from a poll; `replicas` are several schedules for
one source. `window_costs` says what windows and jitter cost.
"""

from .earliest_deadline import EarliestDeadline
from .element_clocks import WindowClock
from .index_policy import Index
from .orders import Schedule
from .polls import Polls, Stream, one_by_one, some
from .replicas import Together, replicas
from .windows import Windows

__all__ = [
    "EarliestDeadline",
    "Index",
    "Polls",
    "Schedule",
    "Stream",
    "Together",
    "WindowClock",
    "Windows",
    "one_by_one",
    "replicas",
    "some",
]
