"""Schedules: from how often to when.

Every schedule is a `Stream`: a lazy, endless, restartable stream of (time, element). `Schedule` plays the
orders of Cho & Garcia-Molina, by the `Clock` of its `Windows`.
"""

from .clocks import Clock
from .orders import Schedule
from .polls import Polls, Stream, one_by_one, some

__all__ = ["Clock", "Polls", "Schedule", "Stream", "one_by_one", "some"]
