"""What robots.txt of a host allows, and how far apart it wants polls (RFC 9309).

The first poll of a host fetches robots.txt; a later poll fetches it again when it is old. Polls of the same
host wait for one fetch. If the host has no robots.txt (4xx), everything is allowed. If the fetch fails (no
connection, 5xx), the rules of the last fetch stay in force; without such rules nothing is allowed for a
while.

A hostile robots.txt must not stop other polls. Before it is parsed, all other agents get the same name, since
the parser keeps every rule once for each agent that its group names. How many steps it takes to match a page
is known before: few are made in the event loop, more in a thread, and a page that needs too many is refused.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from urllib.parse import quote

from unstale.backoff import doubling_wait

MAX_ROBOTS_BYTES = 512_000
"""Bytes of a robots.txt that are read; RFC 9309 asks for 500 KiB or more. The rest is ignored."""
_MAX_HOSTS = 20_000
"""Hosts whose rules stay in memory."""
_MAX_REMEMBERED_CHARACTERS = 5_000_000
"""Of the rules of all hosts in memory, where each takes about twenty bytes. Beyond that the longest are
forgotten, and fetched again at the next poll of their host."""
_MAX_SPACING_SECONDS = 86400.0
_MIN_AGE_SECONDS = 300.0
_FIRST_WAIT_SECONDS, _MAX_WAIT_SECONDS = 60.0, 3600.0
_STALE_RULES_SECONDS = 600.0
_SLOW_TO_PARSE_CHARACTERS = 20_000
"""A longer robots.txt is parsed in a thread, so that other polls go on."""
_STEPS_IN_THE_LOOP, _MAX_STEPS = 2_000_000, 200_000_000
"""Steps of matching a page that the event loop makes itself, and steps that are made at all: 0.2 seconds."""
_STEPS_PER_RULE = 100
"""What a rule without wildcards takes."""
_AGENT = re.compile(r"user(?:-|\s*)agent(?:\s*:|\s|$)(.*)", re.ASCII | re.IGNORECASE | re.DOTALL)
_OTHER_AGENT = "\0"
"""No user agent has this in its name."""


class RobotsTooLong(Exception):  # noqa: N818
    """It would take too long to match an address against a robots.txt; the message says why."""


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
    """Tells whether a page may be polled; None: every page may. `Robots.allowed` asks it."""
    count: int = 0
    """How many lines the rules have."""
    wildcards: int = 0
    """How many characters the rules with wildcards have."""
    spacing: float = 0.0
    """Seconds between two polls that the host asks for."""
    until: float = 0.0
    """When to fetch robots.txt again."""
    trouble: str = ""
    """Why the rules are not known; if not empty, nothing is allowed."""
    unreachable: bool = False
    """Whether that is because there was no answer at all."""
    failures: int = 0
    refused: bool = False
    characters: int = 0
    """How long the rules are."""


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
        self._characters = 0
        """How long the rules in memory are."""
        self._tasks: dict[tuple[str, bool], asyncio.Task[tuple[RobotsRules, int]]] = {}
        # One at a time, since threads take turns with the event loop.
        self._slow_matches = ThreadPoolExecutor(1, "unstale: robots.txt")

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

    async def allowed(self, rules: RobotsRules, url: str) -> bool:
        """Tell whether rules allow a page; raise `RobotsTooLong` if that would take too long to find out."""
        if rules.allows is None:
            return True
        steps = rules.wildcards * _quoted_length(url) + rules.count * _STEPS_PER_RULE
        if steps <= _STEPS_IN_THE_LOOP:
            return rules.allows(url)
        if steps > _MAX_STEPS:
            raise RobotsTooLong(
                f"its rules with wildcards have {rules.wildcards:,} characters, too many for an address of "
                f"{len(url):,}"
            )
        return await asyncio.get_running_loop().run_in_executor(self._slow_matches, rules.allows, url)

    async def close(self) -> None:
        """Cancel all fetches."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._slow_matches.shutdown(wait=False, cancel_futures=True)

    async def _refresh(self, key: tuple[str, bool]) -> tuple[RobotsRules, int]:
        answer = await self._fetch(f"{key[0]}/robots.txt", key[1])
        before = self._rules.get(key)
        if len(answer.text) > _SLOW_TO_PARSE_CHARACTERS:
            rules = await asyncio.to_thread(self._judged, answer, before)
        else:
            rules = self._judged(answer, before)
        self._remember(key, rules)
        return rules, answer.traffic

    def _remember(self, key: tuple[str, bool], rules: RobotsRules) -> None:
        """Keep the rules of a host, and no more than there is room for: the oldest go, and the longest."""
        self._forget(key)
        self._rules[key] = rules
        self._characters += rules.characters
        while len(self._rules) > _MAX_HOSTS:
            self._forget(next(iter(self._rules)))
        while self._characters > _MAX_REMEMBERED_CHARACTERS:
            self._forget(max(self._rules, key=lambda one: self._rules[one].characters))

    def _forget(self, key: tuple[str, bool]) -> None:
        if (rules := self._rules.pop(key, None)) is not None:
            self._characters -= rules.characters

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
        return RobotsRules(
            until=now + wait,
            trouble=answer.detail,
            unreachable=status is None and not answer.refused,
            failures=failures,
            refused=answer.refused,
        )

    def _read(self, text: str, until: float) -> RobotsRules:
        from protego import Protego

        lines = [line.partition("#")[0].strip() for line in text.removeprefix("\ufeff").splitlines()]
        lines, agent = _with_one_agent(lines, self._agent)
        if agent is None:  # no rule is for us
            return RobotsRules(until=until)
        parsed = Protego.parse("\n".join(lines))
        spacing = parsed.crawl_delay(agent) or 0.0
        rate = parsed.request_rate(agent)
        if rate is not None:  # the numbers may have thousands of digits
            spacing = max(spacing, min(rate.seconds, 10**9) / min(rate.requests, 10**9))
        spacing = min(spacing, _MAX_SPACING_SECONDS)
        # Most files forbid nothing; then polls need not look anything up.
        if not any(line.lower().startswith("di") for line in lines):
            return RobotsRules(spacing=spacing, until=until)

        def allows(url: str) -> bool:
            return bool(parsed.can_fetch(url, agent))

        wild = sum(
            2 * _quoted_length(line) for line in lines if "$" in line
        )  # the parser keeps such a rule twice
        wild += sum(_quoted_length(line) for line in lines if "*" in line and "$" not in line)
        length = sum(len(line) for line in lines)
        return RobotsRules(allows, len(lines), wild, spacing, until, characters=length)


def _quoted_length(text: str) -> int:
    """Return how long a rule or an address is when the parser has written it with percent signs."""
    return len(quote(text, safe="/%=*", errors="replace"))


def _with_one_agent(lines: list[str], agent: str) -> tuple[list[str], str | None]:
    r"""Return the lines, in which all agents but the one whose rules count have the same name; and that one.

    The rules that count are those of the longest name that begins a word of the user agent; else those of
    ``*``; else none, and the agent is None.

    >>> _with_one_agent(["User-agent: other", "Disallow: /", "User-agent: *", "Allow: /"], "unstale")
    (['user-agent: \x00', 'Disallow: /', 'user-agent: *', 'Allow: /'], '*')
    """
    own = agent.strip().lower()
    named = [found[1].strip().lower() if (found := _AGENT.match(line)) else None for line in lines]
    names = {
        name: plain for name in named if name and (plain := "*" if name == "*" else name.replace("*", ""))
    }
    best = None
    for plain in dict.fromkeys(names.values()):
        if plain == "*":
            best = best or plain
        elif plain in own and re.search(rf"(?<![\w-]){re.escape(plain)}", own):
            best = plain if best is None or best == "*" or len(plain) > len(best) else best
    shown = [
        line if name is None else f"user-agent: {best if names.get(name) == best and best else _OTHER_AGENT}"
        for line, name in zip(lines, named, strict=True)
    ]
    return shown, best
