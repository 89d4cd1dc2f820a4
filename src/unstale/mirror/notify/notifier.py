"""The notifier sends each change to webhooks and commands, its targets; step 9 of a poll.

Promises, each with a test:

1. The notifier sends each change at least once to each target, even if the process is killed at any moment:
   it records in the store what it has sent, after the target has taken it. After a crash it may send the last
   few changes twice; their id is the same.
2. A target gets changes in their order. If it does not take one (an answer other than 2xx, an exit code other
   than 0, silence), the notifier tries the same change again, later and later, before the next one.
3. A dead target delays neither the mirror nor other targets, and costs no memory: the changes that it has not
   taken are in the store. If the store deletes some meanwhile (`Settings.keep`), the target misses them.

A new target gets the changes from then on, not the earlier ones.
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
from unstale.mirror.json_values import version_json
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Store, Version

from .webhooks_and_commands import CommandTarget, NotifyTarget, Undelivered, WebhookTarget

_BATCH_CHANGES = 100
"""Changes that are read at once, and sent before the position is recorded."""
_RECORD_AFTER_SECONDS = 1.0
"""The position is also recorded after this time, if a batch takes longer."""
_LOOK_EVERY_SECONDS = 2.0
"""Between two looks for changes, if `Notifier.wake` is not called."""
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 1.0, 600.0
"""Before the second attempt, and at most before a later one."""
_MAX_RETRY_AFTER_SECONDS = 3600.0
"""A target that asks to be left alone for longer is tried again after this."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """The state of one target."""

    name: str
    position: int
    """Id of the last version that it has taken, or does not want."""
    told: int
    """Changes that it has taken since the process began."""
    failures: int
    """Attempts that failed in a row."""
    trouble: str
    """Why the last attempt failed; empty if it did not."""
    next_try: float


@dataclass
class _Delivery:
    """The delivery of changes to one target."""

    target: NotifyTarget
    match: str
    state_key: str
    """Name under which the store keeps its position."""
    position: int | None = None
    recorded: int = -1
    told: int = 0
    failures: int = 0
    trouble: str = ""
    next_try: float = 0.0
    of_store: bool = False
    """Whether the trouble is that of the store, not of the target."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Notifier:
    """Sends changes to targets.

    Parameters
    ----------
    notify
        The targets, as the settings name them.
    store
        Where the changes are, and where the positions of targets are kept.
    clock
        Says when to try again.
    on_trouble
        Called with the name of a target and the reason when the target begins to fail, and with an empty
        reason when it works again.
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
        """Look for changes now; otherwise the notifier looks every two seconds."""
        self._news.set()

    def status(self) -> list[TargetStatus]:
        """Return the state of each target."""
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
        """Record where new targets begin: after the latest version that exists now."""
        with self._store.begin() as tx:
            kept = tx.state()
            latest = tx.versions(limit=1, latest_first=True)
            new = latest[0].id if latest else 0
            started = {}
            for delivery in self._deliveries:
                if delivery.position is None:
                    delivery.position = int(kept.get(delivery.state_key, b"%d" % new))
                    delivery.recorded = delivery.position
                    if delivery.state_key not in kept:
                        started[delivery.state_key] = b"%d" % new
            if started:
                tx.keep(started)

    async def deliver(self) -> int:
        """Send each target the changes that exist now, up to its first failure; return how many were taken.

        A target that has failed gets nothing before the time of its next attempt.
        """
        await self._prepared()
        before = sum(delivery.told for delivery in self._deliveries)
        now = self._clock.now()
        await asyncio.gather(
            *(self._catch_up(delivery) for delivery in self._deliveries if delivery.next_try <= now)
        )
        return sum(delivery.told for delivery in self._deliveries) - before

    async def run(self, stop: asyncio.Event) -> None:
        """Send changes until ``stop``; a change that is being sent then is sent again at the next start."""
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
        """Close all connections."""
        for delivery in self._deliveries:
            await delivery.target.close()

    async def _attend(self, delivery: _Delivery) -> None:
        while True:
            try:
                await self._prepared()
                await self._catch_up(delivery)
            except Trouble as error:  # nothing is lost: what could not be recorded is sent again
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
        """Call the store in a thread, so that other targets go on."""
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
        """Send a target all changes that exist, unless it fails."""
        async with delivery.lock:
            going_on = True
            while going_on:
                versions = await self._in_thread(lambda: self._after(delivery.position or 0))
                if not versions:
                    return
                try:
                    going_on = await self._send_all(delivery, versions)
                finally:  # also if this is cancelled: what was sent is recorded
                    await self._record(delivery)

    def _after(self, position: int) -> list[Version]:
        with self._store.begin() as tx:
            return tx.versions(position, _BATCH_CHANGES)

    async def _send_all(self, delivery: _Delivery, versions: Sequence[Version]) -> bool:
        """Send changes to a target, one after the other; return False if it did not take one."""
        recorded = self._clock.now()
        for version in versions:
            if fnmatchcase(version.key, delivery.match):
                body = json.dumps(version_json(version), ensure_ascii=False).encode()
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
            if self._clock.now() - recorded > _RECORD_AFTER_SECONDS:
                await self._record(delivery)
                recorded = self._clock.now()
        return True

    async def _record(self, delivery: _Delivery) -> None:
        """Record in the store how far a target has come."""
        position = delivery.position
        if position is not None and position > delivery.recorded:
            await self._in_thread(lambda: self._keep(delivery.state_key, position))
            delivery.recorded = position

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
        raise InvalidInput(f"notify must have either a webhook or a command; its match is {notify.match!r}")
    timeout = float(getattr(notify, "timeout", 30.0))
    target: NotifyTarget
    if notify.webhook:
        target = WebhookTarget(notify.webhook, getattr(notify, "secret", None), timeout)
        identity = json.dumps(["webhook", notify.webhook, notify.match])
    else:
        target = CommandTarget(notify.command, timeout)
        identity = json.dumps(["command", *notify.command, notify.match])
    return _Delivery(target, notify.match, f"notify:{hashlib.sha256(identity.encode()).hexdigest()[:24]}")
