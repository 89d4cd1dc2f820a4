"""Scrapy: a scheduler with which a spider visits pages when that is worth it.

``SCHEDULER = "unstale.contrib.scrapy.Scheduler"`` in the settings of a project. The mirror decides which page
is requested next, and when; Scrapy fetches, and the spider parses. Requests that the spider yields become
elements of the mirror: those of ``start`` are added, and those that a page led to are reported as its links.

UNSTALE_SERVER      where the mirror is served; ``http://127.0.0.1:8321``
UNSTALE_TOKEN       a token that is to lease, and to edit if the spider has start requests; none
UNSTALE_FETCHER     the name of this fetcher; ``scrapy-`` and the name of the spider
UNSTALE_COPIES      whether content is handed over for copies; False: it stays with the spider

A request with ``meta={"unstale": False}``, or one that is no plain GET, is none of the mirror's business: it
is made at once. Pages that are retried are not: the mirror plans their next poll.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import Any, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.python.failure import Failure

from unstale.errors import InvalidInput, Trouble
from unstale.fetcher import Fetcher, FetchLease, FetchResult
from unstale.mirror.sources.http.urls import canonical

__all__ = ["Scheduler"]

_log = logging.getLogger(__name__)
_LEASE = "unstale_lease"
"""Where a request has its lease."""
_REFERRERS_KEPT, _TEMPLATES_KEPT, _LINKS_KEPT = 10_000, 100_000, 2000
"""Pages whose links are expected; requests whose callbacks are remembered; links of one page."""
_LOOK_SECONDS, _LONGEST_PAUSE_SECONDS = 0.2, 30.0
"""Between two looks at what is to be reported; and after trouble, at most."""
_ENDING_SECONDS = 10.0


class Scheduler:
    """Hands requests to Scrapy when a mirror has planned them."""

    def __init__(self, fetcher: Fetcher, *, count: int, seconds: float, copies: bool = False) -> None:
        """``count``: polls that are held at a time; ``seconds``: for how long."""
        self._fetcher, self._count, self._seconds, self._copies = fetcher, count, seconds, copies
        self._crawler: Crawler | None = None
        self._at_once: deque[Request] = deque()
        """Requests that do not wait for the mirror."""
        self._due: list[tuple[float, int, FetchLease]] = []
        """Polls that were taken, as a heap by their slots."""
        self._requested: dict[Request, FetchLease] = {}
        """Polls that are being made."""
        self._answered: dict[Request, FetchResult] = {}
        """What they saw; the spider may still find links."""
        self._failures: list[FetchResult] = []
        self._new: OrderedDict[str, None] = OrderedDict()
        """Addresses to be added."""
        self._links: dict[int, dict[str, None]] = {}
        self._elements: OrderedDict[str, int] = OrderedDict()
        """Elements of pages that were answered, by address: requests name them as their referrers."""
        self._templates: OrderedDict[str, Request] = OrderedDict()
        """What the spider asked for, by address: callback, arguments, headers."""
        self._asked_for = 0.0
        """The slot at which Scrapy will ask again."""
        self._wake_up = threading.Event()
        self._stopping = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._work, name="unstale-scheduler", daemon=True)
        self._in_loop: Callable[[Callable[[], None]], object] = lambda call: call()

    # --- what Scrapy calls

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make a scheduler by the settings of a project."""
        said = crawler.settings
        name = crawler.spider.name if crawler.spider is not None else "spider"
        fetcher = Fetcher(
            said.get("UNSTALE_SERVER", "http://127.0.0.1:8321"),
            said.get("UNSTALE_FETCHER", f"scrapy-{name}"[:60]),
            token=said.get("UNSTALE_TOKEN"),
        )
        made = cls(
            fetcher,
            count=max(2 * said.getint("CONCURRENT_REQUESTS"), 1),
            seconds=said.getfloat("DOWNLOAD_TIMEOUT") + 60.0,
            copies=said.getbool("UNSTALE_COPIES"),
        )
        made._crawler = crawler
        crawler.signals.connect(made._response_received, signal=signals.response_received)
        return made

    def open(self, spider: Spider) -> None:
        """Begin to take polls."""
        try:
            self._in_loop = asyncio.get_running_loop().call_soon_threadsafe
        except RuntimeError:
            from twisted.internet import reactor

            self._in_loop = reactor.callFromThread
        self._spider = spider
        self._thread.start()

    def close(self, reason: str) -> None:  # noqa: ARG002
        """Report what is left; polls that were not made go back to the mirror when their leases expire."""
        self._stopping = True
        self._wake_up.set()
        self._thread.join(_ENDING_SECONDS)

    def has_pending_requests(self) -> bool:
        """Tell that there is more to come: pages change."""
        return not self._stopping

    def enqueue_request(self, request: Request) -> bool:
        """Take a request of the spider or of a middleware."""
        lease: FetchLease | None = request.meta.get(_LEASE)
        if lease is not None:
            if request.meta.get("retry_times"):
                self._failures.append(
                    lease.failed(detail=str(request.meta.get("retry_reason", "retry"))[:300])
                )
                return False
            self._at_once.append(request)  # a redirect
            return True
        if request.method != "GET" or request.body or request.meta.get("unstale") is False:
            self._at_once.append(request)
            return True
        try:
            key = canonical(request.url)
        except InvalidInput:
            return False
        known = key in self._templates
        _keep(self._templates, key, request, _TEMPLATES_KEPT)
        self._name(key, request, known=known)
        return True

    def next_request(self) -> Request | None:
        """Return what is due, if anything is."""
        if self._at_once:
            request = self._at_once.popleft()
            lease: FetchLease | None = request.meta.get(_LEASE)
            if lease is not None:
                self._requested[request] = lease
            return request
        now = time.time()
        with self._lock:
            while self._due and _is_late(self._due[0][2], now):
                heapq.heappop(self._due)  # its group would be asked too soon again
            if not self._due:
                return None
            if (wait := self._due[0][0] - now) > 0:
                self._ask_again(self._due[0][0], wait)
                return None
            _, _, due = heapq.heappop(self._due)
        request = self._request(due)
        self._requested[request] = due
        return request

    # --- requests

    def _request(self, lease: FetchLease) -> Request:
        template = self._templates.get(lease.key)
        request = Request(lease.key) if template is None else template.replace(url=lease.key)
        request = request.replace(dont_filter=True, errback=self._failed(request.errback))
        request.meta[_LEASE] = lease
        for name, header in (("etag", "If-None-Match"), ("last-modified", "If-Modified-Since")):
            if name in lease.validators:
                request.headers.setdefault(header, lease.validators[name])
        return request

    def _name(self, key: str, request: Request, *, known: bool) -> None:
        """Tell the mirror of a page: as a link of the one that led to it, or as a new one."""
        referrer = request.headers.get("Referer")
        via = None if referrer is None else self._elements.get(referrer.decode("latin-1"))
        if via is None:
            if not known and referrer is None:
                self._new[key] = None
            return
        links = self._links.setdefault(via, {})
        if len(links) < _LINKS_KEPT:
            links[key] = None

    def _failed(self, errback: Callable[[Failure], Any] | None) -> Callable[[Failure], Any]:
        """Return what reports a failure, and tells the spider if it wants to know."""

        def failed(failure: Failure) -> Any:  # noqa: ANN401
            request: Request = failure.request
            lease = self._requested.get(request)
            if lease is not None and request not in self._answered:
                self._answered[request] = lease.failed(detail=failure.getErrorMessage()[:300])
            return errback(failure) if errback is not None else None

        return failed

    def _response_received(self, response: Response, request: Request) -> None:
        """Note what a poll saw."""
        lease = self._requested.get(request)
        if lease is not None:
            self._answered[request] = self._result(lease, response, request)
            for address in {lease.key, response.url}:
                _keep(self._elements, address, lease.element, _REFERRERS_KEPT)

    def _result(self, lease: FetchLease, response: Response, request: Request) -> FetchResult:
        began = max(time.time() - float(request.meta.get("download_latency", 0.0)), lease.slot)
        detail, traffic = str(response.status), len(response.body)
        names = ("etag", "last-modified", "content-type", "retry-after")
        said = {name: _text(response, name) for name in names}
        if response.status == 304:
            return lease.unchanged(began=began, detail=detail)
        if response.status in {404, 410}:
            return lease.gone(began=began, detail=detail, traffic=traffic)
        if not 200 <= response.status < 300:
            wait = float(said["retry-after"]) if said["retry-after"].isdigit() else None
            return lease.failed(
                began=began, detail=detail, traffic=traffic, wait=None if wait is None else min(wait, 86400.0)
            )
        return lease.changed(
            response.body,
            fingerprint=hashlib.sha256(response.body).hexdigest(),
            keep=self._copies,
            began=began,
            detail=detail,
            traffic=traffic,
            media_type=said["content-type"].partition(";")[0].strip() or "application/octet-stream",
            validators={name: said[name] for name in ("etag", "last-modified") if said[name]},
            modified=_moment(said["last-modified"]),
        )

    # --- the mirror, in a thread of its own

    def _work(self) -> None:
        """Report and take polls until told to stop."""
        pause = _LOOK_SECONDS
        unsent: list[FetchResult] = []
        while True:
            last = self._stopping
            try:
                self._add()
                unsent += self._finished(everything=last)
                if unsent:
                    for element, why in self._fetcher.report(unsent).refused.items():
                        _log.warning("the mirror refuses what was seen of element %s: %s", element, why)
                    unsent = []
                if not last:
                    self._take()
                pause = _LOOK_SECONDS
            except Trouble as error:
                pause = min(2.0 * pause, _LONGEST_PAUSE_SECONDS)
                _log.warning("%s; trying again in %.1f s", error, pause)
            except InvalidInput as error:
                _log.error("%s; the spider ends", error)
                self._stopping = True
            if last:
                self._fetcher.close()
                return
            self._wake_up.wait(pause)

    def _add(self) -> None:
        """Add pages that the spider began with."""
        while self._new:
            some = list(self._new)[:500]
            for key, why in self._fetcher.add(some).refused.items():
                _log.warning("the mirror does not take %s: %s", key, why)
            for key in some:
                self._new.pop(key, None)

    def _finished(self, *, everything: bool) -> list[FetchResult]:
        """Return what can be reported: the spider has seen it, and all its links are known."""
        engine = None if self._crawler is None else self._crawler.engine
        slot = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
        busy = getattr(slot, "inprogress", ())
        found = []
        for request, result in list(self._answered.items()):
            if everything or request not in busy:
                del self._answered[request]
                self._requested.pop(request, None)
                links = tuple(self._links.pop(result.element, ()))
                found.append(_with_links(result, links))
        while self._failures:
            found.append(self._failures.pop())
        return found

    def _take(self) -> None:
        """Take polls, if there is room for more."""
        room = self._count - len(self._due) - len(self._requested)
        if room <= 0:
            return
        leases = self._fetcher.lease(min(room, 1000), seconds=min(self._seconds, 3600.0))
        with self._lock:
            for lease in leases:
                heapq.heappush(self._due, (lease.slot, lease.element, lease))
        if leases:
            self._in_loop(self._go_on)

    def _go_on(self) -> None:
        """Let Scrapy ask for the next request now, not at its next heartbeat."""
        engine = None if self._crawler is None else self._crawler.engine
        slot = getattr(engine, "_slot", None) or getattr(engine, "slot", None)
        if slot is not None:
            slot.nextcall.schedule()

    def _ask_again(self, slot: float, seconds: float) -> None:
        """Let Scrapy ask again when the next poll is due."""
        if self._asked_for == slot:
            return
        self._asked_for = slot
        try:
            asyncio.get_running_loop().call_later(seconds, self._go_on)
        except RuntimeError:
            from twisted.internet import reactor

            reactor.callLater(seconds, self._go_on)


def _is_late(lease: FetchLease, now: float) -> bool:
    return lease.late is not None and now > lease.slot + lease.late


def _with_links(result: FetchResult, links: tuple[str, ...]) -> FetchResult:
    return replace(result, links=links) if links and result.outcome in {"changed", "unchanged"} else result


def _keep(kept: OrderedDict[str, Any], key: str, value: Any, most: int) -> None:  # noqa: ANN401
    """Keep something, and forget the oldest if there is too much."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)


def _text(response: Response, name: str) -> str:
    value = response.headers.get(name)
    return "" if value is None else value.decode("latin-1")[:2000]


def _moment(text: str) -> float | None:
    """Return the moment that a header says; None if it says none."""
    with suppress(ValueError, TypeError):
        return parsedate_to_datetime(text).timestamp() if text else None
    return None
