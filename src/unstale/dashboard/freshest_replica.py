"""Readers may ask any of several replicas: who asks for a copy that another has polled later is sent there.

Each replica writes its polls into a folder that all of them see. A reader is sent on only to a poll that was
told, and that is later than the replica's own by the record, so nobody is sent in circles.

Reference: Li, Cline & Loguinov (INFOCOM 2015), section VI-D.
"""

from __future__ import annotations

import threading
import time

from unstale.mirror.engine.replica_files import ReplicaLog
from unstale.mirror.settings import Replicas

_LOOK_SECONDS = 1.0
"""Between two looks at what others have told."""
_LATER_SECONDS = 1.0
"""By which the poll of another must be later for a reader to be sent there."""


class FreshestReplica:
    """Knows which replica has polled an element last; may be asked by several threads."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas, self._log = replicas, ReplicaLog(replicas)
        self._last: dict[str, tuple[float, int]] = {}
        self._looked = -_LOOK_SECONDS
        self._lock = threading.Lock()

    def address(self, key: str, last: float, now: float) -> str | None:
        """Return where the replica is that has polled an element later than this one has; None if none has.

        Parameters
        ----------
        key
            Of the element.
        last
            The start of the last poll here that saw something; nan if there was none.
        now
            The time; what is told of later is not believed.
        """
        if not self._replicas.addresses:
            return None
        with self._lock:
            self._look()
            told, number = self._last.get(key, (-float("inf"), 0))
        later = told <= now and not told <= last + _LATER_SECONDS
        return self._replicas.addresses[number - 1] if number and later else None

    def _look(self) -> None:
        """Take in what others have told since the last look."""
        if time.monotonic() < self._looked + _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        try:
            for number, polls in self._log.news():
                for key, moment in polls.items():
                    if moment > self._last.get(key, (-float("inf"), 0))[0]:
                        self._last[key] = moment, number
        except OSError:  # the folder is away: what is known already counts
            return
