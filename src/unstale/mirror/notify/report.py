"""How those who are told do: what waits for each, why, and whether a test message reaches it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

from unstale.mirror.json_values import timestamp
from unstale.mirror.reports.alarms import AlarmLog
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Store

from .messages import SAMPLE, Message
from .targets import Recipient, recipients
from .webhooks_and_commands import Undelivered

_MOST_WAITING = 1000
"""Changes that are counted for one recipient."""


@dataclass(frozen=True, slots=True)
class RecipientStatus:
    """How it is with one who is told."""

    number: int
    """From 1 on, in the order of mirror.toml."""
    name: str
    match: str
    waiting: int
    """Changes and alarms that it has not been sent; 1,000 at most."""
    last: float
    """When it took something last; nan if it never did."""
    trouble: str
    """Why it does not take them; empty if it does."""
    since: float
    """Since when; nan if there is no trouble."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """Whether a test message reached one who is told."""

    __test__ = False

    number: int
    name: str
    trouble: str
    """Why it did not; empty if it did."""


def recipient_status(notify: Sequence[Notify], store: Store) -> list[RecipientStatus]:
    """Return how it is with each who is told."""
    told = recipients(notify)
    with store.begin() as t:
        kept = t.state()
        log = AlarmLog(kept)
        found = []
        for number, one in enumerate(told, 1):
            report = json.loads(kept.get(f"{one.state_key}:report", b"{}"))
            waiting = 0
            if one.state_key in kept:
                versions = t.versions(int(kept[one.state_key]), _MOST_WAITING)
                alarms = log.after(int(kept.get(f"{one.state_key}:alarms", b"0")))
                waiting = sum(map(one.wants, versions)) + sum(map(one.wants, alarms))
            trouble = str(report.get("trouble", ""))
            found.append(
                RecipientStatus(
                    number, one.name, one.notify.match, min(waiting, _MOST_WAITING),
                    float(report.get("last") or nan), trouble, float(report["since"]) if trouble else nan,
                )
            )  # fmt: skip
    return found


async def send_test(notify: Sequence[Notify], now: float, number: int | None = None) -> list[TestResult]:
    """Send a test message to each who is told, or to one of them; it is no change, and moves nothing."""
    found = []
    for place, one in enumerate(recipients(notify), 1):
        if number in {None, place}:
            found.append(TestResult(place, one.name, await _try(one, now)))
    return found


async def _try(one: Recipient, now: float) -> str:
    """Send a test message; return why it did not arrive."""
    try:
        if one.program is not None:
            body = json.dumps({"test": True, "time": timestamp(now)}).encode()
            await one.program.send(f"test-{int(now)}", now, body)
        if one.person is not None and one.templates is not None:
            made = one.templates.message_of(SAMPLE)
            test = Message(
                f"Test: {made.title}",
                f"This is a test of unstale. A message about a change looks like this:\n\n{made.body}",
            )
            await one.person.tell(f"test-{int(now)}", now, test)
    except Undelivered as error:
        return str(error)
    finally:
        await one.close()
    return ""
