"""Who is told of changes: webhooks and commands.

Promises, each with a test:

1. Each change is told at least once to each target, also if the process is killed at any moment: what has
   been told is noted in the store after it was told. After a crash the last few may be told twice; their id
   is the same.
2. A target is told of changes in their order. What it does not take (an answer other than 2xx, an exit code
   other than 0, silence) is tried again, later and later, before the next one.
3. A target that is dead holds up neither the mirror nor other targets, and costs no memory: what it has not
   taken is in the store. What has been deleted there meanwhile (`Settings.keep`) it is not told any more.

A target that is new is told of what changes from then on, not of what has been.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from ..errors import InvalidInput, Trouble
from .changes import change_record
from .clock import Clock, RealClock
from .settings import Notify
from .store import Store, Version
from .targets import Command, Target, Undelivered, Webhook

__all__ = ["Notifier", "TargetStatus"]

_BATCH = 100
"""Changes that are read at once, and told before that is noted."""
_NOTE_AFTER = 1.0
"""Seconds after which it is noted, if they take that long."""
_LOOK = 2.0
"""Seconds between two looks for changes, if nobody says that there are some."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 600.0


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """How it goes with one target."""

    name: str
    position: int
    """Number of the last version that it has been told of, or need not be."""
    told: int
    """Changes since the start of the process."""
    failures: int
    """Attempts in a row that failed."""
    trouble: str
    """What was wrong with the last attempt, in words; empty if nothing."""
    next_try: float


@dataclass
class _Desk:
    """What is known of one target."""

    target: Target
    match: str
    state: str
    """Name in the store under which its position is kept."""
    position: int | None = None
    noted: int = -1
    told: int = 0
    failures: int = 0
    trouble: str = ""
    next_try: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Notifier:
    """Tells targets of changes.

    ``on_trouble`` is told the name of a target and what is wrong when a target begins to fail, and an empty
    text when it works again.
    """

    def __init__(
        self,
        notify: Sequence[Notify],
        store: Store,
        clock: Clock | None = None,
        *,
        on_trouble: Callable[[str, str], None] | None = None,
    ) -> None:
        self._store, self._clock = store, clock or RealClock()
        self._on_trouble = on_trouble or (lambda _name, _trouble: None)
        self._desks = [_desk(one) for one in notify]
        names = [desk.state for desk in self._desks]
        if len(set(names)) < len(names):
            msg = "notify must not have the same target with the same match twice"
            raise InvalidInput(msg)
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Say that there are changes; without this they are looked for every two seconds."""
        self._news.set()

    def status(self) -> list[TargetStatus]:
        """Return how it goes."""
        return [
            TargetStatus(
                desk.target.name, desk.position or 0, desk.told, desk.failures, desk.trouble, desk.next_try
            )
            for desk in self._desks
        ]

    def prepare(self) -> None:
        """Note where new targets begin: after the latest version that there is now."""
        if all(desk.position is not None for desk in self._desks):
            return
        with self._store.begin() as tx:
            kept = tx.state()
            latest = tx.versions(limit=1, latest_first=True)
            new = latest[0].id if latest else 0
            started = {}
            for desk in self._desks:
                if desk.position is None:
                    desk.position = int(kept.get(desk.state, b"%d" % new))
                    desk.noted = desk.position
                    if desk.state not in kept:
                        started[desk.state] = b"%d" % new
            if started:
                tx.keep(started)

    async def deliver(self) -> int:
        """Tell each target of what there is now, up to the first failure of each; return how many were told.

        A target that has failed is left alone until it is time for the next attempt.
        """
        self.prepare()
        before = sum(desk.told for desk in self._desks)
        now = self._clock.now()
        await asyncio.gather(*(self._catch_up(desk) for desk in self._desks if desk.next_try <= now))
        return sum(desk.told for desk in self._desks) - before

    async def run(self, stop: asyncio.Event) -> None:
        """Tell targets of changes until ``stop``; what is being told then is told again at the next start."""
        if not self._desks:
            await stop.wait()
            return
        stopping = asyncio.ensure_future(stop.wait())
        tasks = [asyncio.ensure_future(self._attend(desk)) for desk in self._desks]
        try:
            await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await self.close()
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def close(self) -> None:
        """Let go of connections."""
        for desk in self._desks:
            await desk.target.close()

    async def _attend(self, desk: _Desk) -> None:
        while True:
            try:
                self.prepare()
                await self._catch_up(desk)
            except Trouble as error:  # of the store: nothing is lost, and what is not noted is told again
                self._failed(desk, str(error), None)
            if desk.failures:
                await self._clock.until(desk.next_try)
            else:
                await self._wait_for_news()

    async def _wait_for_news(self) -> None:
        look = asyncio.ensure_future(self._clock.until(self._clock.now() + _LOOK))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([look, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            look.cancel()
            news.cancel()
        self._news.clear()

    async def _catch_up(self, desk: _Desk) -> None:
        """Tell a target of all that there is, unless it fails."""
        async with desk.lock:
            position = desk.position
            while position is not None:
                with self._store.begin() as tx:
                    versions = tx.versions(position, _BATCH)
                if not versions:
                    break
                try:
                    going_on = await self._tell(desk, versions)
                finally:  # also if we are told to stop: what was told is noted
                    self._note(desk)
                if not going_on:
                    break
                position = desk.position

    async def _tell(self, desk: _Desk, versions: Sequence[Version]) -> bool:
        """Tell a target of changes, one after the other; False if it did not take one."""
        noted = self._clock.now()
        for version in versions:
            if fnmatchcase(version.key, desk.match):
                body = json.dumps(change_record(version), ensure_ascii=False).encode()
                try:
                    with self._clock.busy():
                        await desk.target.tell(f"change-{version.id}", self._clock.now(), body)
                except Undelivered as error:
                    self._failed(desk, f"change {version.id}: {error}", error.wait)
                    return False
                desk.told += 1
                if desk.failures:
                    desk.failures, desk.trouble, desk.next_try = 0, "", 0.0
                    self._on_trouble(desk.target.name, "")
            desk.position = version.id
            if self._clock.now() - noted > _NOTE_AFTER:
                self._note(desk)
                noted = self._clock.now()
        return True

    def _note(self, desk: _Desk) -> None:
        if desk.position is not None and desk.position > desk.noted:
            with self._store.begin() as tx:
                tx.keep({desk.state: b"%d" % desk.position})
            desk.noted = desk.position

    def _failed(self, desk: _Desk, trouble: str, wait: float | None) -> None:
        desk.failures += 1
        back_off = min(_FIRST_WAIT * 2.0 ** min(desk.failures - 1, 30), _LONGEST_WAIT)
        desk.next_try = self._clock.now() + max(back_off, min(wait or 0.0, 3600.0))
        begins = not desk.trouble
        desk.trouble = trouble
        if begins:
            self._on_trouble(desk.target.name, trouble)


def _desk(notify: Notify) -> _Desk:
    if bool(notify.webhook) == bool(notify.command):
        msg = f"notify must have either a webhook or a command; it is {notify!r}"
        raise InvalidInput(msg)
    timeout = float(getattr(notify, "timeout", 30.0))
    target: Target
    if notify.webhook:
        target = Webhook(notify.webhook, getattr(notify, "secret", None), timeout)
        identity = json.dumps(["webhook", notify.webhook, notify.match])
    else:
        target = Command(notify.command, timeout)
        identity = json.dumps(["command", *notify.command, notify.match])
    return _Desk(target, notify.match, f"notify:{hashlib.sha256(identity.encode()).hexdigest()[:24]}")
