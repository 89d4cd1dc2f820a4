"""A site in a thread of the test: it notes each visit, and its pages tell whether they are whole."""

import asyncio
import hashlib
import math
import threading
import time
from dataclasses import dataclass
from itertools import pairwise

from aiohttp import web


@dataclass
class Visit:
    """A request, as the server saw it."""

    group: str
    path: str
    who: str
    start: float
    end: float = math.inf
    number: int | None = None
    """What it saw: the page after so many changes."""


def page(path, number):
    """Return what a page contains after so many changes; any part of it tells the whole."""
    first = f"{path} {number}\n".encode()
    digest = hashlib.sha256(first).hexdigest().encode()
    luck = int(digest[:2], 16)
    times = 25_000 if luck < 16 else (1, 20, 900)[luck % 3]  # up to 1.6 MB, which goes by a file
    return first + digest * times


def number_of(path, body):
    """Return after how many changes a page had this content; complain if it is not whole."""
    name, _, number = body.partition(b"\n")[0].decode().partition(" ")
    assert name == path, f"a copy of {path} begins with {body[:50]!r}"
    assert body == page(path, int(number)), f"a copy of {path} is not whole"
    return int(number)


class Site:
    """Groups of pages, each on a port of its own; ``pauses`` are the seconds that an answer takes.

    All pages change at the same moments, unless they are ``staggered``.
    """

    def __init__(self, pauses, period=0.7, *, staggered=False):
        self.pauses, self.period, self.staggered = pauses, period, staggered
        self.visits, self.robots = [], 0
        self.addresses, self._groups = {}, {}
        self._born = time.time()
        self._ready, self._thread = threading.Event(), threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(60.0)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _run(self):
        asyncio.run(self._serve())

    async def _serve(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        application = web.Application()
        application.router.add_get("/{name:.*}", self._answer)
        # who has gone is not answered: a visit ends when the visitor is killed
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        for number, group in enumerate(self.pauses):
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            port = runner.addresses[number][1]
            self._groups[port] = group
            self.addresses[group] = f"http://127.0.0.1:{port}"
        self._ready.set()
        await self._end.wait()
        await runner.cleanup()

    async def _answer(self, request):
        began = time.time()
        if request.path == "/robots.txt":
            self.robots += 1
            return web.Response(status=404)
        group = self._groups[request.transport.get_extra_info("sockname")[1]]
        visit = Visit(group, request.path, request.headers.get("X-Worker", ""), began)
        self.visits.append(visit)
        try:
            await asyncio.sleep(self.pauses[group])
            number = visit.number = self.number(request.path, time.time())
            if request.headers.get("If-None-Match") == f'"{number}"':
                return web.Response(status=304)
            return web.Response(body=page(request.path, number), headers={"ETag": f'"{number}"'})
        finally:
            visit.end = time.time()

    def number(self, path, moment):
        """Return after how many changes a page is at a moment."""
        phase = hashlib.sha256(path.encode()).digest()[0] / 256 if self.staggered else 0.0
        return int((moment - self._born) / self.period + phase)

    def keys(self, group, count):
        """Return the addresses of pages of a group."""
        return [f"{self.addresses[group]}/{group}/{number}" for number in range(count)]

    def starts(self, group=None):
        """Return when visits began."""
        return sorted(visit.start for visit in list(self.visits) if group in {None, visit.group})


# --- laws

GRACE = 0.5
"""Seconds by which a poll may be late; a budget allows for it."""
JITTER = 0.02
"""Seconds by which clocks of processes on one machine may differ."""
LATENESS = 0.2
"""Seconds that a request may take to the server longer than another, on a machine that is busy."""


def assert_within_budget(starts, budget, grace=GRACE, reserve=0.0):
    """See that no window has more polls than the budget pays for, and none of a minute or longer any more.

    If the budget has a reserve, in seconds, that is what any window may have beside.
    """
    earliest = -math.inf
    for number, start in enumerate(starts):  # k polls later, k times the price must have been paid
        paid = start - number / budget
        owed = earliest - reserve - paid
        assert owed <= grace + LATENESS, f"{owed:.3f} s too early at {start}"
        earliest = max(earliest, paid)
    for window in (60.0, 61.5, 90.0, 200.0):
        first = 0
        for number, start in enumerate(starts):
            while starts[first] <= start - window:
                first += 1
            assert number - first + 1 <= math.ceil(budget * (window + reserve))


def assert_spaced(starts, spacing):
    """See that visits are far enough apart."""
    closest = min(((later - at, at) for at, later in pairwise(starts)), default=(math.inf, 0.0))
    assert closest[0] >= spacing - LATENESS, f"only {closest[0]:.3f} s after {closest[1]}"


def most_at_once(visits):
    """Return how many visits there were at the same time."""
    moments = sorted([(visit.start, 1) for visit in visits] + [(visit.end, -1) for visit in visits])
    most = now = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most
