"""Operational time: a clock that runs fast when changes are likely, and when to poll by it.

The changes of an element come at ``rate * m(t)``, where the rhythm ``m`` repeats and has mean 1. In its
operational time, the integral ``M`` of ``m``, they are Poisson as ever: P(fresh), gamma laws and forgetting
need nothing new. What is new is when to poll. With the expected cost ``c(s)`` per unit of real time since the
last poll, and its integral ``C``, a poll at ``t`` is worth

    J M - C(t),   J = the least of (C(u) - C(t)) / (M(u) - M(t)) over u > t,

where M counts from the last poll, and u is as far ahead as the last poll is back, or a period if that is
less. Without a rhythm J is c(t), and this the worth as ever. Before a rush J is small, since M is about to
run; after it J is large. docs/theory.md has the derivation.
"""

from .clock import OperationalClock
from .long_run import LongRun, freshness_of_polls, long_run, poll_times

__all__ = ["LongRun", "OperationalClock", "freshness_of_polls", "long_run", "poll_times"]
