"""Schedules: from how often to when.

Every schedule is a `Stream`: a lazy, endless, restartable stream of (time, element).
"""

from .polls import Polls, Stream, one_by_one, some

__all__ = ["Polls", "Stream", "one_by_one", "some"]
