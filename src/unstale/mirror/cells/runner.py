"""The runner of a process: it claims cells, works on them, and sees to it that they keep to one price.

Every few seconds it says that it is there, takes up cells or lets them go as runners come and go, tells its
cells what part of the budget they have, and takes what they discovered to other cells. Every minute it tells
what they would spend at prices, and whoever comes first shares the budget out. Without the coordinating
database it works on: what cells were given counts until it is replaced.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING, Any

from unstale.errors import Trouble, UnstaleError
from unstale.mirror.engine.events import Event
from unstale.mirror.engine.planner_state import PlannerState, ShareGiven
from unstale.mirror.engine.worker import Worker
from unstale.mirror.mirror import Mirror
from unstale.planning import DemandCurve

from .change import settle
from .demand import DemandTeller
from .directory import SHARE_SECONDS, CellState, Claims
from .outgoing import deliver

if TYPE_CHECKING:
    from .mirror import MirrorOfCells

__all__ = ["CellRunner"]

_EVERY_SECONDS = 5.0
"""Between two looks at the coordinating database."""
_TRY_AGAIN_SECONDS = (5.0, 15.0, 60.0)
"""After which a cell that could not be opened is tried again."""
_TICK_SECONDS = 1.0
"""Between two events that say how all cells do."""


class _Member:
    """A cell that this process works on."""

    def __init__(self, state: CellState, teller: DemandTeller) -> None:
        self.state, self.teller = state, teller
        self.mirror: Mirror | None = None
        self.worker: Worker | None = None
        """None until its store is open."""
        self.task: asyncio.Task[None] | None = None
        self.leaving = False
        self.applied = 0
        """The number of the part that its store has."""
        self.acknowledged = 0

    def leave(self) -> None:
        """Let it end soon."""
        self.leaving = True
        if self.worker is not None:
            self.worker.stop()


class CellRunner:
    """Works on cells of a mirror, in one process."""

    def __init__(
        self,
        mirror: MirrorOfCells,
        *,
        on_event: Callable[[Event], None] | None,
        every: float | None = None,
    ) -> None:
        self._mirror, self._on_event = mirror, on_event
        self._clock = mirror.clock
        self._every = _EVERY_SECONDS if every is None else every
        self._share_every = max(SHARE_SECONDS, self._every)
        self.name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
        self._members: dict[int, _Member] = {}
        self._stopping = asyncio.Event()
        self._give_up = False
        self._told_trouble = ""
        self._demand_due = -inf
        self._ticks: dict[int, dict[str, Any]] = {}
        self._tick_due = -inf

    def stop(self) -> None:
        """End `run` soon; polls that have begun are finished and recorded."""
        self._stopping.set()
        for member in self._members.values():
            member.leave()

    def give_up_polls(self) -> None:
        """Wait no longer for polls that have begun."""
        for member in self._members.values():
            if member.worker is not None:
                member.worker.give_up_polls()

    async def run(self, until: float | None = None) -> None:
        """Work until told to stop, or until a moment."""
        end = inf if until is None else until
        try:
            while not self._stopping.is_set() and self._clock.now() < end:
                began = self._clock.now()
                await self._look(until)
                await self._rest(min(began + self._every, end))
        finally:
            for member in self._members.values():
                member.leave()
            tasks = [one.task for one in self._members.values() if one.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)
            with suppress(Trouble, OSError):
                await self._aside(self._mirror.directory.release, self.name)

    async def _rest(self, moment: float) -> None:
        waits = [asyncio.create_task(self._clock.until(moment)), asyncio.create_task(self._stopping.wait())]
        _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _aside(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Run in a thread what waits for a database, so that polls go on."""
        with self._clock.busy():
            return await asyncio.to_thread(function, *arguments)

    # --- what cells are ours --------------------------------------------------------------------------------

    async def _look(self, until: float | None) -> None:
        """Claim cells, and do for each what is due."""
        directory = self._mirror.directory
        try:
            claims: Claims = await self._aside(directory.claim, self.name, list(self._members))
            self._take_up(claims, until)
            await self._aside(self._mirror.refresh)
            for number in claims.unsettled:
                await self._settle(number)
            for member in list(self._members.values()):
                await self._tend(member)
            if self._clock.now() >= self._demand_due:
                self._demand_due = self._clock.now() + self._share_every
                if demands := await self._demands():
                    await self._aside(directory.tell, demands)
                await self._aside(lambda: directory.share_out(every=self._share_every))
            self._trouble_over()
        except (Trouble, OSError) as error:
            self._trouble(f"the coordinating database: {error}")

    async def _settle(self, number: int) -> None:
        """End the change of a cell that nobody carries on."""
        try:
            await self._aside(settle, self._mirror, number)
        except (UnstaleError, OSError) as error:
            self._emit("trouble", f"cell {number}: {error}")

    def _take_up(self, claims: Claims, until: float | None) -> None:
        """Begin to work on cells that are ours now, and stop with those that are not."""
        for number, state in claims.mine.items():
            member = self._members.get(number)
            if member is not None and replace(member.state.cell, state="") != replace(state.cell, state=""):
                member.leave()  # it was moved, or split, and is taken up anew where it is
            elif member is not None and not member.leaving:
                member.state = state
            elif member is None and not self._stopping.is_set():
                part = ceil(self._mirror.settings.concurrency / len(claims.mine))
                new = _Member(state, DemandTeller(self._mirror.settings))
                new.task = asyncio.create_task(self._work(new, part, until))
                self._members[number] = new
        for number, member in list(self._members.items()):
            if number not in claims.mine:
                member.leave()
            if member.task is not None and member.task.done():
                del self._members[number]

    async def _work(self, member: _Member, concurrency: int, until: float | None) -> None:
        """Work on a cell until it is to be left; begin anew, later and later, if it cannot be opened."""
        tries = 0
        number = member.state.cell.number
        while not member.leaving:
            try:
                mirror: Mirror = await self._aside(
                    lambda: self._mirror.open_cell(member.state.cell, concurrency=concurrency)
                )
                try:
                    working = mirror.working(lambda event: self._event(number, event))
                    member.worker = await self._aside(working.__enter__)
                    member.mirror, tries = mirror, 0
                    try:
                        if not member.leaving:
                            await member.worker.run(until)
                    finally:
                        await self._aside(working.__exit__, None, None, None)
                    return
                finally:
                    member.mirror = member.worker = None
                    await self._aside(mirror.close)
            except (UnstaleError, OSError) as error:
                self._emit("trouble", f"cell {number}: {error}")
                wait = _TRY_AGAIN_SECONDS[min(tries, len(_TRY_AGAIN_SECONDS) - 1)]
                tries += 1
                await self._rest(self._clock.now() + wait)

    # --- the budget, and what goes from cell to cell --------------------------------------------------------

    async def _tend(self, member: _Member) -> None:
        """Tell a cell its part of the budget, say that it goes by it, and take what it discovered further."""
        mirror, state = member.mirror, member.state
        if mirror is None:
            return
        number = state.cell.number
        try:
            if member.acknowledged < state.given:
                taken = await self._aside(_give, mirror, ShareGiven(state.given, state.share))
                if taken >= state.given:
                    await self._aside(self._mirror.directory.acknowledge, number, state.given)
                    member.acknowledged = state.given
            while await self._aside(deliver, mirror, self._mirror.discovery, self._cell_of):
                pass
        except (Trouble, OSError) as error:
            self._emit("trouble", f"cell {number}: {error}")

    def _cell_of(self, group: str) -> Mirror:
        return self._mirror.at(self._mirror.of_group(group))

    async def _demands(self) -> dict[int, tuple[DemandCurve, float]]:
        """Ask the planners among our workers what their cells would spend at prices."""
        found = {}
        for number, member in list(self._members.items()):
            worker, teller = member.worker, member.teller
            if worker is None or member.leaving:
                continue
            now = self._clock.now()
            with suppress(RuntimeError), self._clock.busy():  # it has just ended
                told = await worker.ask(partial(teller.curve, now=now))
                if told is not None:
                    found[number] = told
        return found

    # --- events ---------------------------------------------------------------------------------------------

    def _emit(self, kind: str, detail: str, **data: Any) -> None:  # noqa: ANN401
        if self._on_event is not None:
            self._on_event(Event(self._clock.now(), kind, "", detail, data))

    def _trouble(self, words: str) -> None:
        if words != self._told_trouble:
            self._emit("trouble", words)
        self._told_trouble = words

    def _trouble_over(self) -> None:
        if self._told_trouble:
            self._emit("recovered", "the coordinating database works again")
        self._told_trouble = ""

    def _event(self, number: int, event: Event) -> None:
        """Pass on what a cell says; how far it is, put together with the others."""
        if self._on_event is None:
            return
        if event.kind != "tick":
            detail = event.detail if event.key else f"cell {number}: {event.detail}"
            self._on_event(Event(event.time, event.kind, event.key, detail, event.data))
            return
        self._ticks[number] = dict(event.data)
        if event.time >= self._tick_due:
            self._tick_due = event.time + _TICK_SECONDS
            self._emit("tick", "", **_together(list(self._ticks.values())))


def _give(mirror: Mirror, share: ShareGiven) -> int:
    """Tell a cell its part of the budget, unless it knows a later one; return by which its planner goes."""
    with mirror.store.begin() as t:
        t.write()
        t.take()  # no two write it at a time, and the planner does not write either
        state = PlannerState.read(t.state())
        if share.number > state.share.number:
            t.keep(share.kept())
            t.edit([("settings", 0, mirror.clock.now(), "")])
        return state.share_taken


def _together(ticks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how several cells do, as one says it."""
    told: dict[str, Any] = {
        name: sum(one.get(name, 0) for one in ticks) for name in ("polls", "in_flight", "elements", "gone")
    }
    told["seconds"] = max(one["seconds"] for one in ticks)
    nexts = [one["next"] for one in ticks if "next" in one]
    if nexts:
        told["next"] = min(nexts)
    firsts = [one["first_copies"] for one in ticks if one.get("first_copies")]
    told["first_copies"] = None
    if firsts:
        told["first_copies"] = {
            "done": sum(one["done"] for one in firsts),
            "total": sum(one["total"] for one in firsts),
            "seconds": max((one["seconds"] for one in firsts if one["seconds"] is not None), default=None),
        }
    known = [one for one in ticks if one.get("freshness") is not None and one.get("elements")]
    heavy = sum(one["elements"] for one in known)
    for name in ("freshness", "low", "high", "price"):
        if known and all(one.get(name) is not None for one in known):
            told[name] = sum(one[name] * one["elements"] for one in known) / heavy
    return told
