"""What the planner will call is called once before it matters: it has to be compiled, or loaded.

Where kernels have been compiled before, that takes tenths of a second; after an installation it takes
seconds. First copies need none of them: a worker polls elements without a copy meanwhile, while the rehearsal
is in a thread of its own (see `Worker`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from unstale.mirror.reports.freshness import sampled
from unstale.mirror.settings import Settings
from unstale.policy.element_table import OK, ElementTable
from unstale.policy.hint_channels import Channels

from .load_policy import MirrorPolicy, new_policy
from .planner_state import PollCounts

_HOUR_SECONDS = 3600.0
_ELEMENTS = 4
_ready = threading.Event()
"""Set when a rehearsal in this process is over."""


def is_ready() -> bool:
    """Tell whether all that the planner needs is compiled."""
    return _ready.is_set()


def rehearse(policy: MirrorPolicy, now: float) -> None:
    """Ask a policy what it will be asked, and forget the answers."""
    places = np.arange(min(len(policy.table), 2))
    policy.known.worths(places, policy.table.since(places, now))
    policy.known.fresh(places, now)
    sampled(policy, now, PollCounts())


def rehearse_all(settings: Settings, stopped: Callable[[], bool] = lambda: False) -> None:
    """Let a policy of made-up elements choose and learn, which takes all kernels of the planner.

    ``stopped`` is asked in between whether to leave the rest.
    """
    table = ElementTable()
    table.reserve(_ELEMENTS, None)
    everyone = np.arange(_ELEMENTS)
    table["id"][:], table["state"][:], table["last"][:] = everyone, OK, 0.0
    policy = new_policy(settings, table, Channels())
    policy.rescaled()
    hour = np.full(_ELEMENTS, _HOUR_SECONDS)
    steps: list[Callable[[], object]] = [
        lambda: policy.known.fresh(everyone, _HOUR_SECONDS),
        lambda: policy.choose(_HOUR_SECONDS, 2.0 * _HOUR_SECONDS, room=_ELEMENTS),
        lambda: table.learner.learn(everyone, hour, everyone % 2 == 0),
        lambda: policy.learn(everyone, hour, everyone % 2 == 0, hour),
        lambda: sampled(policy, 2.0 * _HOUR_SECONDS, PollCounts()),
    ]
    for step in steps:
        if stopped():
            return
        step()
    _ready.set()


class Rehearsal:
    """A rehearsal in a thread of its own."""

    def __init__(self, settings: Settings, when_over: Callable[[], object]) -> None:
        self.over = self._stopped = False
        """Whether it has ended, well or not: then the planner asks for itself."""
        self._settings, self._when_over = settings, when_over
        self._thread = threading.Thread(target=self._run, name="unstale-rehearsal", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            rehearse_all(self._settings, lambda: self._stopped)
        finally:
            self.over = True
            self._when_over()

    def stop(self) -> None:
        """End it soon, and wait for that: a kernel that is half compiled has to be finished."""
        self._stopped = True
        self._thread.join()
