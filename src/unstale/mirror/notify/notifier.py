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

from unstale.backoff import doubling_wait
from unstale.errors import InvalidInput, Trouble
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Store, Version

from .record import change_record
from .targets import CommandTarget, NotifyTarget, Undelivered, WebhookTarget

__all__ = ["Notifier", "TargetStatus"]

_BATCH_CHANGES = 100
"""Changes that are read at once, and told before that is noted."""
_RECORD_AFTER_SECONDS = 1.0
"""Seconds after which it is noted, if they take that long."""
_LOOK_EVERY_SECONDS = 2.0
"""Seconds between two looks for changes, if nobody says that there are some."""
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 1.0, 600.0
"""Before the second attempt, and at most before a later one."""
_MAX_RETRY_AFTER_SECONDS = 3600.0
"""A target that asks to be left alone for longer is tried again after this."""
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
class _Delivery:
    """What is known of one target."""

    target: NotifyTarget
    match: str
    state_key: str
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
        self._deliveries = [_delivery(one) for one in notify]
        names = [delivery.state_key for delivery in self._deliveries]
        if len(set(names)) < len(names):
            raise InvalidInput("notify must not have the same target with the same match twice")
        self._news = asyncio.Event()
        self._preparing = asyncio.Lock()

    def wake(self) -> None:
        """Say that there are changes; without this they are looked for every two seconds."""
        self._news.set()

    def status(self) -> list[TargetStatus]:
        """Return how it goes."""
        return [
            TargetStatus(
                delivery.target.name,
                delivery.position or 0,
                delivery.told,
                delivery.failures,
                delivery.trouble,
                delivery.next_try,
            )
            for delivery in self._deliveries
        ]

    def prepare(self) -> None:
        """Note where new targets begin: after the latest version that there is now."""
        with self._store.begin() as tx:
            kept = tx.state()
            latest = tx.versions(limit=1, latest_first=True)
            new = latest[0].id if latest else 0
            started = {}
            for delivery in self._deliveries:
                if delivery.position is None:
                    delivery.position = int(kept.get(delivery.state_key, b"%d" % new))
                    delivery.noted = delivery.position
                    if delivery.state_key not in kept:
                        started[delivery.state_key] = b"%d" % new
            if started:
                tx.keep(started)

    async def deliver(self) -> int:
        """Tell each target of what there is now, up to the first failure of each; return how many were told.

        A target that has failed is left alone until it is time for the next attempt.
        """
        await self._prepared()
        before = sum(delivery.told for delivery in self._deliveries)
        now = self._clock.now()
        await asyncio.gather(
            *(self._catch_up(delivery) for delivery in self._deliveries if delivery.next_try <= now)
        )
        return sum(delivery.told for delivery in self._deliveries) - before

    async def run(self, stop: asyncio.Event) -> None:
        """Tell targets of changes until ``stop``; what is being told then is told again at the next start."""
        if not self._deliveries:
            await stop.wait()
            return
        stopping = asyncio.ensure_future(stop.wait())
        tasks = [asyncio.ensure_future(self._attend(delivery)) for delivery in self._deliveries]
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
        for delivery in self._deliveries:
            await delivery.target.close()

    async def _attend(self, delivery: _Delivery) -> None:
        while True:
            try:
                await self._prepared()
                await self._catch_up(delivery)
            except Trouble as error:  # nothing is lost, and what could not be noted is told again
                self._failed(delivery, str(error), None)
                delivery.of_store = True
            else:
                if delivery.of_store:
                    self._works(delivery)
            if delivery.failures:
                await self._clock.until(delivery.next_try)
            else:
                await self._wait_for_news()

    async def _prepared(self) -> None:
        async with self._preparing:
            if any(delivery.position is None for delivery in self._deliveries):
                await self._in_thread(self.prepare)

    async def _in_thread(self, function: Callable[[], _T]) -> _T:
        """Wait for the store without holding up others."""
        with self._clock.busy():
            return await asyncio.to_thread(function)

    async def _wait_for_news(self) -> None:
        look = asyncio.ensure_future(self._clock.until(self._clock.now() + _LOOK_EVERY_SECONDS))
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([look, news], return_when=asyncio.FIRST_COMPLETED)
        finally:
            look.cancel()
            news.cancel()
        self._news.clear()

    async def _catch_up(self, delivery: _Delivery) -> None:
        """Tell a target of all that there is, unless it fails."""
        async with delivery.lock:
            going_on = True
            while going_on:
                versions = await self._in_thread(lambda: self._after(delivery.position or 0))
                if not versions:
                    return
                try:
                    going_on = await self._send_all(delivery, versions)
                finally:  # also if we are told to stop: what was told is noted
                    await self._note(delivery)

    def _after(self, position: int) -> list[Version]:
        with self._store.begin() as tx:
            return tx.versions(position, _BATCH_CHANGES)

    async def _send_all(self, delivery: _Delivery, versions: Sequence[Version]) -> bool:
        """Tell a target of changes, one after the other; False if it did not take one."""
        noted = self._clock.now()
        for version in versions:
            if fnmatchcase(version.key, delivery.match):
                body = json.dumps(change_record(version), ensure_ascii=False).encode()
                try:
                    with self._clock.busy():
                        await delivery.target.send(f"change-{version.id}", self._clock.now(), body)
                except Undelivered as error:
                    self._failed(delivery, f"change {version.id}: {error}", error.wait)
                    return False
                delivery.told += 1
                if delivery.failures:
                    self._works(delivery)
            delivery.position = version.id
            if self._clock.now() - noted > _RECORD_AFTER_SECONDS:
                await self._note(delivery)
                noted = self._clock.now()
        return True

    async def _note(self, delivery: _Delivery) -> None:
        """Keep in the store what a target has been told."""
        position = delivery.position
        if position is not None and position > delivery.noted:
            await self._in_thread(lambda: self._keep(delivery.state_key, position))
            delivery.noted = position

    def _keep(self, name: str, position: int) -> None:
        with self._store.begin() as tx:
            tx.keep({name: b"%d" % position})

    def _failed(self, delivery: _Delivery, trouble: str, wait: float | None) -> None:
        delivery.failures += 1
        backoff = doubling_wait(delivery.failures, first=_FIRST_WAIT_SECONDS, longest=_MAX_WAIT_SECONDS)
        delivery.next_try = self._clock.now() + max(backoff, min(wait or 0.0, _MAX_RETRY_AFTER_SECONDS))
        begins = not delivery.trouble
        delivery.trouble, delivery.of_store = trouble, False
        if begins:
            self._on_trouble(delivery.target.name, trouble)

    def _works(self, delivery: _Delivery) -> None:
        delivery.failures, delivery.trouble, delivery.next_try, delivery.of_store = 0, "", 0.0, False
        self._on_trouble(delivery.target.name, "")


def _delivery(notify: Notify) -> _Delivery:
    if bool(notify.webhook) == bool(notify.command):
        raise InvalidInput(f"notify must have either a webhook or a command; it is {notify!r}")
    timeout = float(getattr(notify, "timeout", 30.0))
    target: NotifyTarget
    if notify.webhook:
        target = WebhookTarget(notify.webhook, getattr(notify, "secret", None), timeout)
        identity = json.dumps(["webhook", notify.webhook, notify.match])
    else:
        target = CommandTarget(notify.command, timeout)
        identity = json.dumps(["command", *notify.command, notify.match])
    return _Delivery(target, notify.match, f"notify:{hashlib.sha256(identity.encode()).hexdigest()[:24]}")
