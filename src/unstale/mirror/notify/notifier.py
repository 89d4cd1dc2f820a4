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
from typing import TypeVar

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.as_json import version_json
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Store, Version

from .targets import Command, Target, Undelivered, Webhook

__all__ = ["Notifier", "TargetStatus"]

_BATCH = 100
"""Changes that are read at once, and told before that is noted."""
_NOTE_AFTER = 1.0
"""Seconds after which it is noted, if they take that long."""
_LOOK = 2.0
"""Seconds between two looks for changes, if nobody says that there are some."""
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 600.0
_T = TypeVar("_T")


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
    of_store: bool = False
    """Whether it is the store that is in trouble, and not the target."""
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
        self._preparing = asyncio.Lock()

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
        await self._prepared()
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
                await self._prepared()
                await self._catch_up(desk)
            except Trouble as error:  # nothing is lost, and what could not be noted is told again
                self._failed(desk, str(error), None)
                desk.of_store = True
            else:
                if desk.of_store:
                    self._works(desk)
            if desk.failures:
                await self._clock.until(desk.next_try)
            else:
                await self._wait_for_news()

    async def _prepared(self) -> None:
        async with self._preparing:
            if any(desk.position is None for desk in self._desks):
                await self._in_thread(self.prepare)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        """Wait for the store without holding up others."""
        with self._clock.busy():
            return await asyncio.to_thread(function)

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
            going_on = True
            while going_on:
                versions = await self._in_thread(lambda: self._after(desk.position or 0))
                if not versions:
                    return
                try:
                    going_on = await self._tell(desk, versions)
                finally:  # also if we are told to stop: what was told is noted
                    await self._note(desk)

    def _after(self, position: int) -> list[Version]:
        with self._store.begin() as tx:
            return tx.versions(position, _BATCH)

    async def _tell(self, desk: _Desk, versions: Sequence[Version]) -> bool:
        """Tell a target of changes, one after the other; False if it did not take one."""
        noted = self._clock.now()
        for version in versions:
            if fnmatchcase(version.key, desk.match):
                body = json.dumps(version_json(version), ensure_ascii=False).encode()
                try:
                    with self._clock.busy():
                        await desk.target.tell(f"change-{version.id}", self._clock.now(), body)
                except Undelivered as error:
                    self._failed(desk, f"change {version.id}: {error}", error.wait)
                    return False
                desk.told += 1
                if desk.failures:
                    self._works(desk)
            desk.position = version.id
            if self._clock.now() - noted > _NOTE_AFTER:
                await self._note(desk)
                noted = self._clock.now()
        return True

    async def _note(self, desk: _Desk) -> None:
        """Keep in the store what a target has been told."""
        position = desk.position
        if position is not None and position > desk.noted:
            await self._in_thread(lambda: self._keep(desk.state, position))
            desk.noted = position

    def _keep(self, name: str, position: int) -> None:
        with self._store.begin() as tx:
            tx.keep({name: b"%d" % position})

    def _failed(self, desk: _Desk, trouble: str, wait: float | None) -> None:
        desk.failures += 1
        back_off = min(_FIRST_WAIT * 2.0 ** min(desk.failures - 1, 30), _LONGEST_WAIT)
        desk.next_try = self._clock.now() + max(back_off, min(wait or 0.0, 3600.0))
        begins = not desk.trouble
        desk.trouble, desk.of_store = trouble, False
        if begins:
            self._on_trouble(desk.target.name, trouble)

    def _works(self, desk: _Desk) -> None:
        desk.failures, desk.trouble, desk.next_try, desk.of_store = 0, "", 0.0, False
        self._on_trouble(desk.target.name, "")


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
