"""Readers that want a copy to be so fresh, and have it polled at once if it is not.

``Cache-Control: max-age=60`` asks for a copy that was polled within the last minute, and
``X-Unstale-Min-Fresh: 0.9`` for one that is fresh with this probability. If the copy is not, the runner of
the mirror is asked for a poll, and is waited for; the answer is what the poll brought, or else the old copy.
``X-Unstale-On-Read`` says what came of it.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from math import inf, isnan

from fastapi import HTTPException
from starlette.requests import Request

from unstale.mirror.mirror import Mirror
from unstale.mirror.reports.status import live_workers

from .mirror_gateway import MirrorGateway

ON_READ = "X-Unstale-On-Read"
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?=$|[\s,])", re.ASCII | re.IGNORECASE)
_LOOK_SECONDS = 0.2
"""Between two looks at whether the poll has been made."""
_MOST_WAITING = 50
"""Readers that wait for polls at the same time."""


@dataclass(frozen=True)
class ReadersWish:
    """How fresh a reader wants a copy to be."""

    max_age: float = inf
    """Seconds since the last poll that saw something."""
    min_fresh: float = 0.0

    @classmethod
    def of(cls, request: Request) -> ReadersWish | None:
        """Return what a request asks for; None if it takes what there is."""
        found = _MAX_AGE.search(request.headers.get("cache-control", ""))
        said = request.headers.get("x-unstale-min-fresh")
        if found is None and said is None:
            return None
        try:
            least = 0.0 if said is None else float(said)
        except ValueError:
            least = -1.0
        if not 0.0 <= least <= 1.0:
            raise HTTPException(422, "X-Unstale-Min-Fresh must be a number from 0 to 1")
        return cls(inf if found is None else float(found[1]), least)

    def met(self, since: float, fresh: float) -> bool:
        """Tell whether a copy is fresh enough that was polled so long ago; what cannot be told is not."""
        return since <= self.max_age and (
            self.min_fresh <= 0.0 or (not isnan(fresh) and fresh >= self.min_fresh)
        )


class PollsForReaders:
    """Asks the runner for polls; several readers of one element wait for the same."""

    def __init__(self, gateway: MirrorGateway) -> None:
        self._gateway = gateway
        self._waiting: dict[int, asyncio.Task[str]] = {}

    async def poll(self, element: int) -> str:
        """Have an element polled; return what came of it, for the header."""
        reads = self._gateway.mirror.settings.reads
        if not reads.poll_share > 0:
            return "off"
        task = self._waiting.get(element)
        if task is None:
            if len(self._waiting) >= _MOST_WAITING:
                return "too many wait"
            task = self._waiting[element] = asyncio.create_task(self._ask(element, reads.wait))
            task.add_done_callback(lambda _: self._waiting.pop(element, None))
        return await asyncio.shield(task)

    async def _ask(self, element: int, wait: float) -> str:
        asked = await self._gateway.change(partial(_request, element=element), forget=False)
        if asked is None:
            return "nobody polls"
        for _ in range(int(wait / _LOOK_SECONDS) + 1):
            outcome = await self._gateway.do(partial(_outcome, element=element, since=asked))
            if outcome:
                return outcome
            await asyncio.sleep(_LOOK_SECONDS)
        return "not in time"


def _request(mirror: Mirror, element: int) -> float | None:
    """Ask for a poll; return the moment, or None if nobody polls."""
    now = mirror.clock.now()
    with mirror.store.begin() as t:
        if not live_workers(t, now):
            return None
        t.edit([("read", element, now, "")])
    return now


def _outcome(mirror: Mirror, element: int, since: float) -> str:
    """Return what a poll saw that began since; empty if there was none. One under way is none."""
    with mirror.store.begin() as t:
        last = t.polls(element, 1)
    return last[0].outcome if last and last[0].time >= since else ""
