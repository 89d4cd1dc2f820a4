"""Who plans, of the workers on one PostgreSQL: whoever has the seat, which is the one row of ``planner``.

The row says who sits (its number, and the name of its sessions) and when it was last heard of, by the clock
of the server. While a planner lives, a thread of it renews that moment. Another worker takes the seat if the
planner has no session any more, since it has died, or if nothing was heard of it for `SILENT_SECONDS`, since
it hangs; then its sessions are ended first, and with them a transaction that others may wait for.

The number is the fence. It grows with each planner and is also in the row of ``numbers``, which a transaction
that plans locks and compares with its own (`SqlTransaction.plan`). So a planner that was stopped and goes on
hands out nothing: its number counts no more.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from sqlalchemy import Connection, Engine, bindparam, exc, text, update

from .schema import numbers

SILENT_SECONDS = 8.0
"""After which a planner that was not heard of loses its seat."""
BEAT_SECONDS = 2.0
"""Between two signs of life of a planner, and between two looks of the others."""
_LONGEST_TURN_SECONDS = 300.0
"""For which a planner that does not ask whether it still plans is believed to be at work."""

_LOOK = text(
    "SELECT number, session, extract(epoch FROM clock_timestamp()) - beat AS silent, "
    "session <> '' AND EXISTS (SELECT 1 FROM pg_stat_activity WHERE application_name = session) AS there "
    "FROM planner"
)
"""Asked by each worker in each turn: who sits, how long it has been silent, whether it has sessions."""
_BEAT = text("UPDATE planner SET beat = extract(epoch FROM clock_timestamp()) WHERE number = :number")
"""Run by the planner now and then; if no row has its number, it has lost the seat."""
_NEXT_NUMBER = (
    update(numbers)
    .where(numbers.c.planner == bindparam("seen"))
    .values(planner=numbers.c.planner + 1)
    .returning(numbers.c.planner)
)
"""Run by who takes the seat; it waits for the end of what the former planner is about to write, and returns
nothing if another was quicker."""
_SIT = text(
    "UPDATE planner SET number = :number, session = :session, beat = extract(epoch FROM clock_timestamp())"
)
_STAND_UP = text("UPDATE planner SET session = '' WHERE number = :number")
"""Run by a planner that leaves, so that another need not wait until its sessions have ended."""
_END_SESSIONS = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
    "WHERE application_name = :session AND pid <> pg_backend_pid()"
)
"""Run against a planner that hangs."""


class _Sitting(NamedTuple):
    """Who has the seat."""

    number: int
    session: str
    silent: float
    """Seconds since it was heard of."""
    there: bool
    """Whether it has a session."""

    @property
    def hangs(self) -> bool:
        """Whether it lives, and does nothing."""
        return self.there and self.silent > SILENT_SECONDS


class PlannerSeat:
    """The seat, as one store sees it; ``session`` is the name of all its sessions, which no other has."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self.number: int | None = None
        """Our number as the planner; None if we never were, -1 when we are no more."""
        self._lost = False
        """Whether the seat was lost, and nobody has been told."""
        self._asked = monotonic()
        """When `take` was called last."""
        self._connection: Connection | None = None
        self._one_at_a_time = threading.RLock()
        self._end = threading.Event()
        self._watch: threading.Thread | None = None

    @property
    def ours(self) -> bool:
        """Whether we plan, as far as is known."""
        return self.number is not None and self.number >= 0

    def take(self) -> bool:
        """Take the seat if it is free, or see whether it is still ours.

        Once it is lost, this says so once, even if it could be had again at once.
        """
        with self._one_at_a_time:
            self._asked = monotonic()
            self.watch()
            sits = self._look()
            if self.ours and sits.number != self.number:
                self._lose()
            if self._lost:
                self._lost = False
                return False
            return self.ours or self._take_from(sits)

    def watch(self) -> None:
        """See to it from now on that nobody waits for a planner that hangs."""
        with self._one_at_a_time:
            if self._watch is None:
                self._watch = threading.Thread(
                    target=self._keep_watch, name="unstale-planner-seat", daemon=True
                )
                self._watch.start()

    def leave(self) -> None:
        """Give up the seat at once, for the next one, and end the watch."""
        self._end.set()
        with self._one_at_a_time:
            if self.ours:
                with suppress(exc.SQLAlchemyError):
                    self._open().execute(_STAND_UP, {"number": self.number})
                self.number = -1
            self._hang_up()
        if self._watch is not None:
            self._watch.join()

    def _take_from(self, sits: _Sitting) -> bool:
        """Take the seat from one that has died or hangs; tell whether it was, and no other was quicker."""
        if sits.there and not sits.hangs:
            return False
        self._fence(sits)
        with self._engine.begin() as connection:
            number = connection.scalar(_NEXT_NUMBER, {"seen": sits.number})
            if number is None:
                return False
            connection.execute(_SIT, {"number": number, "session": self._session})
        self.number = number
        return True

    def _fence(self, sits: _Sitting) -> None:
        """End the sessions of a planner that hangs, if we may: those of another role time out."""
        if sits.hangs:
            with suppress(exc.DBAPIError):
                self._open().execute(_END_SESSIONS, {"session": sits.session})

    def _lose(self) -> None:
        self.number, self._lost = -1, True

    def _keep_watch(self) -> None:
        """Give signs of life while we plan; see to it that nobody waits for a planner that hangs.

        It is a thread of its own, since transactions may take long, or wait for that planner.
        """
        while not self._end.wait(BEAT_SECONDS):
            with self._one_at_a_time:
                if self._end.is_set():  # we left while it waited for its turn, and nobody would hang up
                    return
                try:
                    if not self.ours:
                        self._fence(self._look())
                    elif monotonic() < self._asked + _LONGEST_TURN_SECONDS:
                        beat = self._open().execute(_BEAT, {"number": self.number})
                        if beat.rowcount == 0:
                            self._lose()
                except exc.SQLAlchemyError:  # the server may be back the next time
                    self._hang_up()

    def _look(self) -> _Sitting:
        """Ask who has the seat; a connection that was lost is replaced, once."""
        try:
            return _Sitting(*self._open().execute(_LOOK).one())
        except exc.DBAPIError:
            self._hang_up()
            return _Sitting(*self._open().execute(_LOOK).one())

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return self._connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with suppress(exc.SQLAlchemyError):
                connection.invalidate()
            with suppress(exc.SQLAlchemyError):
                connection.close()
