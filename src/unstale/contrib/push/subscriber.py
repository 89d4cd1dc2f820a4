"""Asks WebSub hubs to send, confirms what was asked, and renews it before its lease ends.

A feed names its hub, so a stranger decides whom we ask: hubs are reached by the rules for pages of strangers.
No private address is, whatever a name resolves to, unless ``[http] private`` says so; no redirect is
followed; time and answer are bounded; who does not answer is asked less and less often.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

import aiohttp

from unstale.errors import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.sources.http.private_addresses import Resolver, guarded_socket, is_public, look_up
from unstale.mirror.store.contract import Element

from .hub_links import HubLinks, in_content, in_headers
from .subscriptions import Subscription, Subscriptions

__all__ = ["HubSubscriber"]

_T = TypeVar("_T")
_LEASE_SECONDS = 7 * 86400
"""That is asked for."""
_LONGEST_LEASE_SECONDS = 30 * 86400.0
_RENEW_SHARE = 0.2
"""Of a lease that is left when it is renewed."""
_CONFIRM_SECONDS = 60.0
"""In which a hub should come back; then it is asked again."""
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 60.0, 86400.0
_ANSWER_SECONDS = 20.0
_MOST_NEWS = 10_000
"""Versions that are looked at in one turn."""
_MOST_AT_ONCE = 10
"""Hubs that are asked at the same time."""


class HubSubscriber:
    """Keeps subscriptions for the elements of a mirror that name a hub.

    Parameters
    ----------
    mirror
        whose elements are looked at
    subscriptions
        what was asked before
    public
        the address by which hubs reach us, such as ``https://push.example.org``
    pattern
        which elements are looked at; None: feeds
    """

    def __init__(
        self, mirror: Mirror, subscriptions: Subscriptions, public: str, pattern: str | None
    ) -> None:
        self._mirror, self._subscriptions = mirror, subscriptions
        self._public, self._pattern = public.rstrip("/"), pattern
        self._looked: set[int] = set()
        self._seen = -1
        """The last version that was looked at."""
        self._names = ThreadPoolExecutor(4, "unstale-hubs")
        self._session: aiohttp.ClientSession | None = None

    def session(self) -> aiohttp.ClientSession:
        """Return what connects to public addresses only, unless the mirror may connect to others."""
        if self._session is None:
            public = None if self._mirror.settings.http.private else is_public
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=_MOST_AT_ONCE,
                    resolver=Resolver(look_up, self._names, public),
                    socket_factory=partial(guarded_socket, public=public),
                ),
                timeout=aiohttp.ClientTimeout(total=_ANSWER_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=16_384,
                max_field_size=16_384,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
        self._names.shutdown(wait=False)

    async def turn(self) -> int:
        """Look for hubs, and ask those that are to be asked; return how many were asked."""
        new, gone = await asyncio.to_thread(self._news)
        await self._each(self._look, new)
        for one in gone:
            self._subscriptions.drop(one)
        now = self._mirror.clock.now()
        due = [one for one in self._subscriptions if _due(one, now)]
        for one in due:
            one.asked, one.pending, one.failures = now, True, one.failures + 1
            if one.state != "active":
                one.state = "asked"
        if due or new or gone:
            await asyncio.to_thread(self._subscriptions.save)
        await self._each(self._ask, due)
        return len(due)

    def _news(self) -> tuple[list[Element], list[Subscription]]:
        """Return elements that have a new version, and subscriptions whose element is gone."""
        if self._seen < 0:
            with self._mirror.store.begin() as t:
                newest = t.versions(limit=1, latest_first=True)
            self._seen = newest[0].id if newest else 0
            new = [one for one in self._mirror.elements(self._pattern) if self._is_meant(one)]
        else:
            with self._mirror.store.begin() as t:
                versions = t.versions(self._seen, _MOST_NEWS)
                there = t.numbered(sorted({one.element for one in versions}))
            self._seen = versions[-1].id if versions else self._seen
            new = [one for one in there.values() if self._is_meant(one)]
        asked = list(self._subscriptions)
        with self._mirror.store.begin() as t:
            known = t.find([one.key for one in asked])
        return new, [one for one in asked if one.key not in known or known[one.key].state == "removed"]

    def _is_meant(self, element: Element) -> bool:
        if element.state == "removed" or element.version is None:
            return False
        return element.source == "feed" if self._pattern is None else fnmatchcase(element.key, self._pattern)

    @staticmethod
    async def _each(do: Callable[[_T], Awaitable[None]], some: Sequence[_T]) -> None:
        """Do something for each, for a few at a time."""
        gate = asyncio.Semaphore(_MOST_AT_ONCE)

        async def one_of_them(one: _T) -> None:
            async with gate:
                await do(one)

        await asyncio.gather(*map(one_of_them, some))

    async def _look(self, element: Element) -> None:
        """Find out whether a new version of an element names a hub."""
        address = element.key
        if not address.startswith(("http://", "https://")):
            return
        try:
            copy = await asyncio.to_thread(self._mirror.read, element.key, count=False)
        except InvalidInput:  # it is damaged, or gone meanwhile: its next version is looked at
            return
        links = await asyncio.to_thread(in_content, copy.body, address)
        if not links.hub and element.id not in self._looked:
            links = await self._links_of_headers(address)
        self._looked.add(element.id)
        if links.hub:
            self._subscriptions.wanted(element.key, links.topic, links.hub)

    async def _links_of_headers(self, address: str) -> HubLinks:
        try:
            async with self.session().head(address, allow_redirects=False) as answer:
                return in_headers(answer.headers.getall("Link", [])[:20], address)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return HubLinks()

    async def _ask(self, one: Subscription) -> None:
        """Ask a hub for a subscription; it comes back to have that confirmed."""
        said = {
            "hub.mode": "subscribe",
            "hub.topic": one.topic,
            "hub.callback": f"{self._public}/websub/{one.path}",
            "hub.lease_seconds": str(_LEASE_SECONDS),
            "hub.secret": one.secret,
        }
        try:
            async with self.session().post(one.hub, data=said, allow_redirects=False) as answer:
                words = (await answer.content.read(300)).decode("utf-8", "replace")
                one.detail = "" if answer.status // 100 == 2 else f"{answer.status} {words}"[:300]
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            why = getattr(error, "os_error", error)  # a connection that was refused here says why
            one.detail = f"{type(why).__name__}: {why}"[:300]

    async def confirm(self, one: Subscription, said: Mapping[str, str]) -> str | None:
        """Return what is to be answered to a hub that comes back; None if nobody has asked for that."""
        mode, now = said.get("hub.mode"), self._mirror.clock.now()
        if said.get("hub.topic") != one.topic:
            return None
        if mode == "denied" and one.state in {"asked", "active"}:
            one.state, one.detail = "denied", said.get("hub.reason", "")[:300]
            answer = ""
        elif mode == "subscribe" and one.pending:
            answer = said.get("hub.challenge", "")
            if not 0 < len(answer) <= 4096:
                return None
            given = said.get("hub.lease_seconds", "")
            seconds = (
                float(given) if given.isascii() and given.isdigit() and len(given) < 12 else _LEASE_SECONDS
            )
            one.lease = min(max(float(seconds), _CONFIRM_SECONDS), _LONGEST_LEASE_SECONDS)
            one.state, one.until = "active", now + one.lease
            one.pending, one.failures, one.detail = False, 0, ""
        else:
            return None
        await asyncio.to_thread(self._subscriptions.save)
        return answer


def _due(one: Subscription, now: float) -> bool:
    """Tell whether a hub is to be asked: it was never, its lease ends soon, or it did not come back."""
    if one.state == "active" and one.until - now > _RENEW_SHARE * one.lease:
        return False
    wait = min(_FIRST_WAIT_SECONDS * 2.0 ** min(max(one.failures - 1, 0), 20), _LONGEST_WAIT_SECONDS)
    if one.state == "active" and one.failures == 0:
        wait = 0.0
    if one.state == "denied":
        wait = _LONGEST_WAIT_SECONDS
    return now - one.asked >= wait
