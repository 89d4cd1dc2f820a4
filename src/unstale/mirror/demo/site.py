"""A web site that changes by itself at known moments, to try and to measure a mirror.

Each page changes at the points of a random process. The changes of a page depend only on the seed, its number
and its law, so the same site can be made again. The site reads the time from the clock that it gets: with a
`SimulatedClock` a mirror and its site run through a month in a minute.

Since all changes are known, the site can tell what no mirror knows: which copies are fresh, and exactly how
fresh all copies were on average.
"""

from __future__ import annotations

import hashlib
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import formatdate
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, whole
from unstale.errors import InvalidInput
from unstale.mirror.clock import Clock
from unstale.processes import Process
from unstale.simulation.events import by_element
from unstale.simulation.worlds import World

from .site_pages import page_html

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, StreamResponse

Ids = NDArray[np.int64]


class ChangingSite:
    """A site of pages ``/page/0``, ``/page/1``, ..., which begins when it is made.

    Parameters
    ----------
    rates
        Changes per second (Poisson), a process, or one process for each page.
    clock
        Tells the time.
    seed
        Decides when pages change, and what is on them.
    weights
        How much the freshness of each page matters.
    etags, last_modified
        Whether answers have these headers. Without both every answer is a whole page; with ``last_modified``
        alone, two changes within a second look like one, as on the web.
    size
        Bytes of a page, about.

    >>> from unstale.mirror.clock import SimulatedClock
    >>> site = ChangingSite([0.001, 0.1], clock=SimulatedClock(1000.0), seed=3)
    >>> site.versions(1000.0).tolist(), site.version(1, 1100.0)
    ([0, 0], 16)
    """

    def __init__(
        self,
        rates: ArrayLike | Process | Sequence[Process],
        *,
        clock: Clock,
        seed: int = 0,
        weights: ArrayLike | None = None,
        etags: bool = True,
        last_modified: bool = True,
        size: int = 2000,
    ) -> None:
        self._world = World(rates, weights)
        self.clock, self.seed, self.size = clock, whole("seed", seed), whole("size", size)
        self.etags, self.last_modified = etags, last_modified
        self.start = clock.now()
        """When the site began, with version 0 of each page."""
        self.statuses: dict[int, int] = {}
        """How many responses had each status."""
        self.answered: Floats = np.full(len(self), np.nan)
        """When each page was last served with 200 or 304."""
        self._drawn = self._world.changes(seed)
        self._total = float(self.rates.sum())
        self._until = self.start
        self._offsets: Ids = np.zeros(len(self) + 1, np.int64)
        self._times: Floats = np.empty(0)
        self._latest: NDArray[np.intp] | None = None
        self._asked_pages, self._asked_times = array("q"), array("d")

    def __len__(self) -> int:
        return len(self._world)

    @property
    def rates(self) -> Floats:
        """Changes per second of each page, on average."""
        return self._world.mean_rates

    @property
    def weights(self) -> Floats:
        """How much the freshness of each page matters."""
        return self._world.weight

    # --- what changes when

    def version(self, page: int, time: float) -> int:
        """Return how often a page has changed until a moment."""
        self._reach(time)
        low, high = self._bounds[page], self._bounds[page + 1]
        return bisect_right(self._times, time, low, high) - low

    def versions(self, time: float) -> Ids:
        """Return how often each page has changed until a moment."""
        self._reach(time)
        passed = np.concatenate([[0], np.cumsum(self._times <= time)])
        return passed[self._offsets[1:]] - passed[self._offsets[:-1]]

    def changes(self, page: int, start: float, end: float) -> Floats:
        """Return when a page changes, after ``start`` and not after ``end``."""
        self._reach(end)
        times = self._times[self._offsets[page] : self._offsets[page + 1]]
        return times[np.searchsorted(times, start, "right") : np.searchsorted(times, end, "right")]

    def changed(self, page: int, time: float) -> float:
        """Return when a page changed last; the start of the site if it has not."""
        version = self.version(page, time)
        return float(self._times[self._bounds[page] + version - 1]) if version else self.start

    def content(self, page: int, version: int) -> bytes:
        """Return the content of a version of a page, which is always the same."""
        return page_html(self.seed, page, version, self.size)

    def latest(self, time: float, count: int) -> list[tuple[int, float]]:
        """Return the pages that changed last, each once, with the time of its last change."""
        self._reach(time)
        if self._latest is None:
            self._latest = np.argsort(self._times, kind="stable")
        until = int(np.searchsorted(self._times[self._latest], time, "right"))
        recent = self._latest[max(0, until - 4 * count) : until][::-1]
        pages = np.searchsorted(self._offsets, recent, "right") - 1
        seen: dict[int, float] = {}
        for page, at in zip(pages.tolist(), self._times[recent].tolist(), strict=True):
            seen.setdefault(page, at)
        return list(seen.items())[:count]

    # --- how fresh copies are

    def fresh(self, page: int, held: int | str, time: float) -> bool:
        """Tell whether a copy, given by its version or by the SHA-256 of its content, is up to date."""
        version = self.version(page, time)
        if isinstance(held, str):
            return hashlib.sha256(self.content(page, version)).hexdigest() == held
        return held == version

    def true_freshness(self, copies: Mapping[int, int] | ArrayLike, time: float) -> float:
        """Return the share of pages, by weight, whose copies are up to date.

        ``copies`` says which version we hold of each page; a page without a copy (-1, or left out of a
        mapping) is not fresh.
        """
        if isinstance(copies, Mapping):
            held = np.full(len(self), -1, np.int64)
            held[list(copies)] = list(copies.values())
        else:
            held = np.asarray(copies)
            if held.shape != (len(self),):
                raise InvalidInput(
                    f"copies must be one version for each of {len(self)} pages; its shape is {held.shape}"
                )
        return float(self.weights @ (held == self.versions(time)) / self.weights.sum())

    def mean_freshness(self, poll_pages: ArrayLike, poll_times: ArrayLike, start: float, end: float) -> float:
        """Return the mean over time of the share of pages, by weight, whose copies are up to date.

        Each poll brings a copy up to date; before its first poll a page has no copy. The result is exact but
        for rounding.

        Parameters
        ----------
        poll_pages, poll_times
            The page and the time of each poll, in any order.
        start, end
            The span of time.
        """
        each = self.page_freshness(poll_pages, poll_times, start, end)
        return float(self.weights @ each / self.weights.sum())

    def page_freshness(
        self, poll_pages: ArrayLike, poll_times: ArrayLike, start: float, end: float
    ) -> Floats:
        """Return for each page the share of the time in which its copy was up to date.

        Parameters
        ----------
        poll_pages, poll_times
            The page and the time of each poll, in any order.
        start, end
            The span of time.
        """
        if not self.start <= start < end:
            raise InvalidInput(
                f"start must be before end, and not before the site began; they are {start} and {end}"
            )
        self._reach(end)
        polls = by_element(
            len(self), np.asarray(poll_pages, np.intp), numbers("poll_times", poll_times).ravel()
        )
        pages = np.repeat(np.arange(len(self)), np.diff(polls.offsets))
        stale = self._next_changes(pages, polls.times)
        until = np.append(polls.times[1:], end)  # a copy counts until the next poll
        last = polls.offsets[1:][np.diff(polls.offsets) > 0] - 1
        until[last] = end
        spans = np.minimum(np.minimum(stale, until), end) - np.maximum(polls.times, start)
        return np.bincount(pages, np.maximum(spans, 0.0), len(self)) / (end - start)

    def asked(self) -> tuple[Ids, Floats]:
        """Return the requests served with 200 or 304 so far: pages, and times."""
        return np.array(self._asked_pages, np.int64), np.array(self._asked_times, np.float64)

    def _next_changes(self, pages: NDArray[np.intp], times: Floats) -> Floats:
        """Return for moments, in the order of pages and times, when each page changes next after it."""
        count = self._times.size
        owner = np.repeat(np.arange(len(self)), np.diff(self._offsets))
        kind = np.concatenate([np.zeros(count, np.int8), np.ones(times.size, np.int8)])
        order = np.lexsort((kind, np.concatenate([self._times, times]), np.concatenate([owner, pages])))
        is_moment = kind[order] == 1
        following = np.cumsum(~is_moment)[is_moment]  # the number of changes before each moment
        within = following < self._offsets[pages + 1]
        return np.where(within, np.append(self._times, np.inf)[following], np.inf)

    def _reach(self, time: float) -> None:
        """Draw the changes beyond a moment, ever more at once, so that each is copied a few times only."""
        if time < self._until:
            return
        if not np.isfinite(time):
            raise InvalidInput(f"time must be finite; it is {time}")
        since = max(time - self.start, 0.0)
        ahead = 1000.0 / self._total if self._total > 0 else np.inf
        reach = since + max(since, min(ahead, 1e9))
        if self._total > 0:
            drawn = self._drawn.until(reach)
            owner = np.arange(len(self))
            pages = [np.repeat(owner, np.diff(offsets)) for offsets in (self._offsets, drawn.offsets)]
            all_ = by_element(
                len(self), np.concatenate(pages), np.concatenate([self._times, self.start + drawn.times])
            )
            self._offsets, self._times, self._latest = all_.offsets, all_.times, None
            self.__dict__.pop("_bounds", None)
        self._until = self.start + reach

    @cached_property
    def _bounds(self) -> list[int]:
        return self._offsets.tolist()

    # --- on the web

    async def answer(self, request: BaseRequest) -> StreamResponse:
        """Answer a request."""
        from aiohttp.web import Response

        from .site_pages import other_page

        path, now = request.path, self.clock.now()
        number = path[6:]
        if not (path.startswith("/page/") and number.isdecimal() and int(number) < len(self)):
            found = other_page(self, str(request.url.origin()), path, now)
            status, kind, body = (404, "text/plain", "no such page\n") if found is None else (200, *found)
            self.statuses[status] = self.statuses.get(status, 0) + 1
            return Response(status=status, text=body, content_type=kind)
        page = int(number)
        version = self.version(page, now)
        headers = {}
        if self.etags:
            headers["ETag"] = f'"{page}-{version}"'
        if self.last_modified:
            headers["Last-Modified"] = formatdate(self.changed(page, now), usegmt=True)
        same = _not_modified(request.headers, headers)
        status = 304 if same else 200
        self.statuses[status] = self.statuses.get(status, 0) + 1
        if request.method == "GET":
            self._asked_pages.append(page)
            self._asked_times.append(now)
            self.answered[page] = now
        if same:
            return Response(status=304, headers=headers)
        return Response(body=self.content(page, version), headers=headers, content_type="text/html")

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
        """Serve the site; gives its address, without a slash at the end. Port 0: any that is free."""
        from aiohttp.web import Server, ServerRunner, TCPSite

        runner = ServerRunner(Server(self.answer, access_log=None), access_log=None)
        await runner.setup()
        try:
            await TCPSite(runner, host, port).start()
            bound = runner.addresses[0]
            shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
            yield f"http://{shown}:{bound[1]}"
        finally:
            await runner.cleanup()


def _not_modified(asked: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Tell whether the page of a conditional request has not changed; ETags count before times."""
    tags = asked.get("If-None-Match")
    if tags is not None:
        tag = now.get("ETag")
        return tag is not None and (tag == tags or tag in {part.strip() for part in tags.split(",")})
    since, modified = asked.get("If-Modified-Since"), now.get("Last-Modified")
    if since is None or modified is None:
        return False
    if since == modified:
        return True
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(since) >= parsedate_to_datetime(modified)
    except (TypeError, ValueError):
        return False
