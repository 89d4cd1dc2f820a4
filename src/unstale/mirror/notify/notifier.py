"""The notifier sends changes and alarms to webhooks, commands and people, its targets; step 9 of a poll.

Promises, each with a test:

1. The notifier sends each change at least once to each target, even if the process is killed at any moment:
   it records in the store what it has sent, after the target has taken it. After a crash it may send the last
   few changes twice; their id is the same.
2. A target gets changes and alarms in their order. If it does not take one (an answer other than 2xx, an exit
   code other than 0, silence), the notifier tries the same again, later and later, before the next one.
3. A dead target delays neither the mirror nor other targets, and costs no memory: the changes that it has not
   taken are in the store. If the store deletes some meanwhile (`Settings.keep`), the target misses them.
4. A person gets no flood: what has waited, because a service refused it or by a digest or quiet hours, comes
   in one message. What a service will never take because of what is in it is sent in brief.

A new target gets the changes from then on, not the earlier ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from unstale.backoff import doubling_wait
from unstale.errors import Trouble
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.json_values import version_json
from unstale.mirror.reports.alarms import Alarm, AlarmLog
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Store, Version
from unstale.mirror.store.copies import Copies

from .changes import ChangeReader
from .messages import Message, digest
from .targets import News, Recipient, recipients
from .webhooks_and_commands import Undelivered

_BATCH_CHANGES = 100
"""Changes that are read at once, and sent before the position is recorded."""
_DIGEST_CHANGES = 1000
"""Changes that one message tells of, at most."""
_DIGEST_SHOWN = 50
"""Elements whose differences one message shows."""
_SINGLE_MESSAGES = 5
"""Changes that wait for a person, at most, to be told one by one; more are one message."""
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

    to: Recipient
    position: int | None = None
    """Number of the last version that it has taken, or does not want; None before it is read."""
    alarms: int = 0
    """Number of the last alarm, likewise."""
    recorded: tuple[int, int] = (-1, -1)
    """Both numbers, as they are in the store."""
    told: int = 0
    last: float = 0.0
    """When it took something last."""
    waits_until: float = 0.0
    """What there is for a person is not told before: digests and quiet hours."""
    brief: bool = False
    """Whether the target has refused a message because of what is in it."""
    failures: int = 0
    trouble: str = ""
    failing_since: float = 0.0
    report_due: bool = False
    """Whether its trouble began or ended, and the store does not know."""
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
    copies
        Where the contents are that messages tell of.
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
        copies: Copies | None = None,
        on_trouble: Callable[[str, str], None] | None = None,
    ) -> None:
        self._store, self._clock = store, clock or RealClock()
        self._on_trouble = on_trouble or (lambda _name, _trouble: None)
        self._deliveries = [_Delivery(one) for one in recipients(notify)]
        self._copies = copies
        self._news = asyncio.Event()
        self._preparing = asyncio.Lock()

    def wake(self) -> None:
        """Look for changes now; otherwise the notifier looks every two seconds."""
        self._news.set()

    def status(self) -> list[TargetStatus]:
        """Return the state of each target."""
        return [
            TargetStatus(
                delivery.to.name,
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
            new, alarms = latest[0].id if latest else 0, AlarmLog(kept).last
            started: dict[str, bytes] = {}
            for delivery in self._deliveries:
                if delivery.position is None:
                    key = delivery.to.state_key
                    delivery.alarms = int(kept.get(f"{key}:alarms", b"%d" % alarms))
                    delivery.position = int(kept.get(key, b"%d" % new))
                    delivery.recorded = delivery.position, delivery.alarms
                    report = json.loads(kept.get(f"{key}:report", b"{}"))
                    delivery.last = float(report.get("last", 0.0))
                    if key not in kept:
                        started |= {key: b"%d" % new, f"{key}:alarms": b"%d" % alarms}
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
            await delivery.to.close()

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
        """Send a target all that there is, unless it fails, or waits for the time of a digest."""
        async with delivery.lock:
            going_on = self._clock.now() >= delivery.waits_until
            send = self._send_all if delivery.to.person is None else self._send_messages
            while going_on:
                count = _BATCH_CHANGES if delivery.to.person is None else _DIGEST_CHANGES
                news = await self._in_thread(partial(self._after, delivery, count))
                if not news:
                    return
                try:
                    going_on = await send(delivery, news)
                finally:  # also if this is cancelled: what was sent is recorded
                    await self._record(delivery)

    def _after(self, delivery: _Delivery, most: int) -> list[News]:
        """Return what comes next for a target, by time; changes by their numbers."""
        with self._store.begin() as tx:
            versions = tx.versions(delivery.position or 0, most)
            alarms = AlarmLog(tx.state()).after(delivery.alarms)
        if len(versions) == most:  # later alarms come after changes that have not been read
            alarms = [one for one in alarms if one.time <= versions[-1].time]
        news: list[News] = list(versions)
        for one in alarms:  # changes keep their order, whatever their times
            news.insert(next((i for i, v in enumerate(news) if v.time > one.time), len(news)), one)
        return news

    async def _send_all(self, delivery: _Delivery, news: Sequence[News]) -> bool:
        """Send a program one thing after the other; return False if it did not take one."""
        program = delivery.to.program
        assert program is not None  # noqa: S101  (the caller has looked)
        recorded = self._clock.now()
        for one in news:
            if delivery.to.wants(one):
                told = one.to_json() if isinstance(one, Alarm) else version_json(one)
                body = json.dumps(told, ensure_ascii=False).encode()
                try:
                    with self._clock.busy():
                        await program.send(_id_of(one).replace(" ", "-"), self._clock.now(), body)
                except Undelivered as error:
                    self._failed(delivery, f"{_id_of(one)}: {error}", error.wait)
                    return False
                self._taken(delivery, 1)
            _move_on(delivery, [one])
            if self._clock.now() - recorded > _RECORD_AFTER_SECONDS:
                await self._record(delivery)
                recorded = self._clock.now()
        return True

    async def _send_messages(self, delivery: _Delivery, news: Sequence[News]) -> bool:
        """Send a person what there is: one by one if it is little, else as one message."""
        wanted = [one for one in news if delivery.to.wants(one)]
        if not wanted:
            _move_on(delivery, news)
            return True
        now = self._clock.now()
        due = delivery.to.not_before(wanted[0].time, now)
        if due > now:
            delivery.waits_until = due
            _move_on(delivery, news[: news.index(wanted[0])])
            return False
        together = len(wanted) > _SINGLE_MESSAGES or delivery.to.notify.digest > 0
        for some in [wanted] if together else [[one] for one in wanted]:
            message = await self._in_thread(partial(self._message, delivery, some))
            person = delivery.to.person
            assert person is not None  # noqa: S101  (the caller has looked)
            try:
                with self._clock.busy():
                    await person.tell(_id_of(some[-1]).replace(" ", "-"), self._clock.now(), message)
            except Undelivered as error:
                delivery.brief = error.refused
                self._failed(delivery, f"{_id_of(some[0])}: {error}", error.wait)
                return False
            delivery.brief = False
            self._taken(delivery, len(some))
            _move_on(delivery, news[: news.index(some[-1]) + 1])
        _move_on(delivery, news)
        return True

    def _message(self, delivery: _Delivery, some: Sequence[News]) -> Message:
        """Return the message of changes and alarms: those of one element are one entry."""
        templates, notify = delivery.to.templates, delivery.to.notify
        assert templates is not None  # noqa: S101  (people have them)
        by_element: dict[int, list[Version]] = {}
        for one in some:
            if isinstance(one, Version):
                by_element.setdefault(one.element, []).append(one)
        alarms = [Message(one.title, one.text) for one in some if isinstance(one, Alarm)]
        reader = ChangeReader(self._store, self._copies, notify.link)
        changes = []
        for number, versions in enumerate(by_element.values()):
            if number < _DIGEST_SHOWN and not delivery.brief:
                changes.append(templates.message_of(reader.values(versions)))
            else:
                changes.append(Message(versions[-1].key, "(in brief)" if delivery.brief else ""))
        if len(some) == 1 and not delivery.brief:
            return (alarms or changes)[0]
        return digest(changes, sum(map(len, by_element.values())), alarms)

    async def _record(self, delivery: _Delivery) -> None:
        """Record in the store how far a target has come."""
        position = delivery.position, delivery.alarms
        if position[0] is not None and (position != delivery.recorded or delivery.report_due):
            key = delivery.to.state_key
            delivery.report_due = False
            said = {key: b"%d" % position[0], f"{key}:alarms": b"%d" % position[1]}
            await self._in_thread(lambda: self._keep(said | _report(delivery)))
            delivery.recorded = position[0], position[1]

    def _keep(self, said: Mapping[str, bytes]) -> None:
        with self._store.begin() as tx:
            tx.keep(said)

    def _taken(self, delivery: _Delivery, count: int) -> None:
        delivery.told += count
        delivery.last = self._clock.now()
        if delivery.failures:
            self._works(delivery)

    def _failed(self, delivery: _Delivery, trouble: str, wait: float | None) -> None:
        delivery.failures += 1
        backoff = doubling_wait(delivery.failures, first=_FIRST_WAIT_SECONDS, longest=_MAX_WAIT_SECONDS)
        delivery.next_try = self._clock.now() + max(backoff, min(wait or 0.0, _MAX_RETRY_AFTER_SECONDS))
        begins = not delivery.trouble
        delivery.trouble, delivery.of_store = trouble, False
        if begins:
            delivery.failing_since, delivery.report_due = self._clock.now(), True
            self._on_trouble(delivery.to.name, trouble)

    def _works(self, delivery: _Delivery) -> None:
        delivery.report_due = True
        delivery.failures, delivery.trouble, delivery.next_try, delivery.of_store = 0, "", 0.0, False
        self._on_trouble(delivery.to.name, "")


def _id_of(one: News) -> str:
    """Return what names a change or an alarm in messages."""
    return f"{'alarm' if isinstance(one, Alarm) else 'change'} {one.id}"


def _move_on(delivery: _Delivery, done: Sequence[News]) -> None:
    """Take in that a target has had these, or does not want them."""
    for one in done:
        if isinstance(one, Alarm):
            delivery.alarms = one.id
        else:
            delivery.position = one.id


def _report(delivery: _Delivery) -> dict[str, bytes]:
    """Return what the store keeps of a delivery, for those who look from outside."""
    said = {"last": delivery.last, "trouble": delivery.trouble, "since": delivery.failing_since}
    return {f"{delivery.to.state_key}:report": json.dumps(said).encode()}
