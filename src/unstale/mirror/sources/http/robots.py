"""What robots.txt of a host allows, and how far apart it wants polls (RFC 9309).

The first poll of a host fetches robots.txt; a later poll fetches it again when it is old. Polls of the same
host wait for one fetch. If the host has no robots.txt (4xx), everything is allowed. If the fetch fails (no
connection, 5xx), the rules of the last fetch stay in force; without such rules nothing is allowed for a
while.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from unstale.backoff import doubling_wait

__all__ = ["MAX_ROBOTS_BYTES", "Robots", "RobotsAnswer", "RobotsRules"]

MAX_ROBOTS_BYTES = 500_000
"""Bytes of a robots.txt that are read; RFC 9309 asks for 500 KiB or more. The rest is ignored."""
_MAX_HOSTS = 20_000
"""Hosts whose rules stay in memory."""
_MAX_SPACING_SECONDS = 86400.0
_MIN_AGE_SECONDS = 300.0
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 60.0, 3600.0
_STALE_RULES_SECONDS = 600.0
_SLOW_TO_PARSE_CHARACTERS = 20_000
"""A longer robots.txt is parsed in a thread, so that other polls go on."""


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The result of one fetch of robots.txt."""

    status: int | None
    """None: no response."""
    text: str = ""
    detail: str = ""
    max_age: float | None = None
    """Seconds, as Cache-Control says."""
    wait: float | None = None
    """Seconds, as Retry-After says."""
    traffic: int = 0
    refused: bool = False
    """Whether the fetch was refused because it led to a private address."""


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of one host for this user agent."""

    allows: Callable[[str], bool] | None = None
    """Tells whether a page may be polled; None: every page may."""
    spacing: float = 0.0
    """Seconds between two polls that the host asks for."""
    until: float = 0.0
    """When to fetch robots.txt again."""
    trouble: str = ""
    """Why the rules are not known; if not empty, nothing is allowed."""
    failures: int = 0
    refused: bool = False


class Robots:
    """Fetches and remembers the rules of hosts.

    Parameters
    ----------
    fetch
        Fetches an address; its second argument says whether the fetch may go to private addresses.
    agent
        The user agent whose rules count.
    max_age
        Seconds after which robots.txt is fetched again.
    now
        A clock that only goes forward.
    """

    def __init__(
        self,
        fetch: Callable[[str, bool], Awaitable[RobotsAnswer]],
        agent: str,
        *,
        max_age: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fetch, self._agent, self._max_age, self._now = fetch, agent, max_age, now
        self._rules: OrderedDict[tuple[str, bool], RobotsRules] = OrderedDict()
        self._tasks: dict[tuple[str, bool], asyncio.Task[tuple[RobotsRules, int]]] = {}

    def known(self, origin: str, inside: bool) -> RobotsRules | None:  # noqa: FBT001
        """Return the rules of a host without waiting; None if robots.txt must be fetched first."""
        rules = self._rules.get((origin, inside))
        return rules if rules is not None and self._now() < rules.until else None

    def left(self, rules: RobotsRules) -> float:
        """Return the seconds until robots.txt is fetched again."""
        return max(rules.until - self._now(), 0.0)

    async def learn(self, origin: str, inside: bool) -> tuple[RobotsRules, int]:  # noqa: FBT001
        """Fetch the rules of a host; return them, and the bytes moved if this call caused the fetch.

        ``inside`` says which kind of poll asks (see `private_addresses`); the two kinds share no rules.
        """
        key = (origin, inside)
        task = self._tasks.get(key)
        mine = task is None
        if task is None:
            # A task of its own, since other polls wait for it even if the poll that caused it is cancelled.
            task = self._tasks[key] = asyncio.create_task(self._refresh(key))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        rules, traffic = await asyncio.shield(task)
        return rules, traffic if mine else 0

    async def close(self) -> None:
        """Cancel all fetches."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh(self, key: tuple[str, bool]) -> tuple[RobotsRules, int]:
        answer = await self._fetch(f"{key[0]}/robots.txt", key[1])
        before = self._rules.get(key)
        if len(answer.text) > _SLOW_TO_PARSE_CHARACTERS:
            rules = await asyncio.to_thread(self._judged, answer, before)
        else:
            rules = self._judged(answer, before)
        self._rules[key] = rules
        self._rules.move_to_end(key)
        while len(self._rules) > _MAX_HOSTS:
            self._rules.popitem(last=False)
        return rules, answer.traffic

    def _judged(self, answer: RobotsAnswer, before: RobotsRules | None) -> RobotsRules:
        status, now = answer.status, self._now()
        age = self._max_age
        if answer.max_age is not None:
            age = min(max(answer.max_age, _MIN_AGE_SECONDS), self._max_age)
        if status is not None and 200 <= status < 300:
            return self._read(answer.text, now + age)
        # 429 says that there are too many requests; all other 4xx say that there is no robots.txt.
        if status is not None and 300 <= status < 500 and status != 429:
            return RobotsRules(until=now + age)
        if before is not None and not before.trouble:
            return replace(before, until=now + (answer.wait or _STALE_RULES_SECONDS))
        failures = (before.failures if before else 0) + 1
        wait = answer.wait or doubling_wait(failures, first=_FIRST_WAIT_SECONDS, longest=_MAX_WAIT_SECONDS)
        return RobotsRules(until=now + wait, trouble=answer.detail, failures=failures, refused=answer.refused)

    def _read(self, text: str, until: float) -> RobotsRules:
        from protego import Protego

        parsed, agent = Protego.parse(text.removeprefix("\ufeff")), self._agent
        spacing = parsed.crawl_delay(agent) or 0.0
        rate = parsed.request_rate(agent)
        if rate is not None:  # the numbers may have thousands of digits
            spacing = max(spacing, min(rate.seconds, 10**9) / min(rate.requests, 10**9))

        def allows(url: str) -> bool:
            return bool(parsed.can_fetch(url, agent))

        # Most files forbid nothing; then polls need not look anything up.
        forbids = any(line.lstrip().lower().startswith("di") for line in text.splitlines())
        return RobotsRules(allows if forbids else None, min(spacing, _MAX_SPACING_SECONDS), until)
