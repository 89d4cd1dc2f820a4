"""Schedules: from how often to when.

Every schedule is a `Stream`: a lazy, endless, restartable stream of (time, element). `Schedule` plays the
orders of Cho & Garcia-Molina, by the `Clock` of its `Windows`; `replicas` are several for one source.
"""

from .clocks import Clock
from .orders import Schedule
from .polls import Polls, Stream, one_by_one, some
from .replicas import Together, replicas

__all__ = ["Clock", "Polls", "Schedule", "Stream", "Together", "one_by_one", "replicas", "some"]
