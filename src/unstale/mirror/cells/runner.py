"""The runner of a process: it claims cells, works on them, and sees to it that they keep to one price.

Every few seconds it says that it is there, takes up cells or lets them go as runners come and go, tells its
cells what part of the budget they have, and takes what they discovered to other cells. Every minute it tells
what they would spend at prices, and whoever comes first shares the budget out. Without the coordinating
database it works on: what cells were given counts until it is replaced.

Claims are renewed whatever else waits: what concerns one cell is done beside, so that a database that hangs
holds up its own cells and no others. A cell that cannot be opened, or in which nothing can be recorded, is
let go after a while, for others who may reach it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
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
_TRY_AGAIN_SECONDS = (2.0, 5.0)
"""After which a cell that could not be opened is tried again, before it is left to others."""
_UNRECORDED_SECONDS = 20.0
"""After which a cell in which nothing can be recorded is left to others."""
_AVOID_SECONDS = 20.0
"""For which a cell is left to others."""
_ERRANDS_SECONDS = 5.0
"""For which what concerns single cells is waited for before claims are renewed."""
_THREADS = 64
"""That may wait for databases of cells."""
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


class _Errands:
    """What is done beside, each by its name and one of a name at a time."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, errand: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin with it, unless it is under way."""
        if name not in self._tasks:
            task = self._tasks[name] = asyncio.create_task(errand())
            task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def wait(self) -> None:
        """Wait until all is done, but not for long."""
        if self._tasks:
            done, _ = await asyncio.wait(list(self._tasks.values()), timeout=_ERRANDS_SECONDS)
            for one in done:
                one.result()  # it raises what nobody thought of


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
        self._avoided: dict[int, float] = {}
        """Cells that are left to others, and until when."""
        self._errands = _Errands()
        self._claiming = ThreadPoolExecutor(1, thread_name_prefix="unstale-claims")
        """The one thread that waits for the coordinating database."""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="unstale-cells")

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
            await self._errands.wait()
            with suppress(Trouble, OSError):
                await self._ask(self._mirror.directory.release, self.name)
            for threads in (self._threads, self._claiming):
                threads.shutdown(wait=False)

    async def _rest(self, moment: float) -> None:
        waits = [asyncio.create_task(self._clock.until(moment)), asyncio.create_task(self._stopping.wait())]
        _, left = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _aside(self, function: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
        """Run in a thread what waits for the database of a cell, so that polls go on."""
        with self._clock.busy():
            return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _ask(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        """Run in its thread what waits for the coordinating database."""
        with self._clock.busy():
            call = partial(function, *arguments, **named)
            return await asyncio.get_running_loop().run_in_executor(self._claiming, call)

    # --- what cells are ours --------------------------------------------------------------------------------

    async def _look(self, until: float | None) -> None:
        """Claim cells, and do for each what is due."""
        directory = self._mirror.directory
        self._leave_what_fails()
        leaving = [number for number, member in self._members.items() if member.leaving]
        try:
            claims: Claims = await self._ask(
                directory.claim, self.name, list(self._members), cannot=list(self._avoided), leaving=leaving
            )
            self._take_up(claims, until)
            await self._ask(self._mirror.refresh)
            for number in claims.unsettled:
                self._errands.begin(f"settle {number}", partial(self._settle, number))
            for number, member in self._members.items():
                self._errands.begin(f"tend {number}", partial(self._tend, member))
            await self._errands.wait()
            if self._clock.now() >= self._demand_due:
                self._demand_due = self._clock.now() + self._share_every
                demands: dict[int, tuple[DemandCurve, float]] = {}
                for number, member in self._members.items():
                    self._errands.begin(f"demand {number}", partial(self._demand, number, member, demands))
                await self._errands.wait()
                if demands:
                    await self._ask(directory.tell, dict(demands))
                await self._ask(directory.share_out, every=self._share_every)
            self._trouble_over()
        except (Trouble, OSError) as error:
            self._trouble(f"the coordinating database: {error}")

    def _leave_what_fails(self) -> None:
        """Leave cells to others in which nothing could be recorded for a while."""
        now = self._clock.now()
        self._avoided = {number: end for number, end in self._avoided.items() if end > now}
        for number, member in self._members.items():
            worker = member.worker
            if worker is None or member.leaving or now - worker.store_fails_since < _UNRECORDED_SECONDS:
                continue
            self._avoided[number] = now + _AVOID_SECONDS
            member.leave()

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
        """Work on a cell until it is to be left; if it cannot be opened after some tries, leave it."""
        number = member.state.cell.number
        for wait in (*_TRY_AGAIN_SECONDS, None):
            if member.leaving:
                return
            try:
                await self._work_once(member, concurrency, until)
            except (UnstaleError, OSError) as error:
                self._emit("trouble", f"cell {number}: {error}")
                if wait is None:
                    self._avoided[number] = self._clock.now() + _AVOID_SECONDS
                else:
                    await self._rest(self._clock.now() + wait)
            else:
                return

    async def _work_once(self, member: _Member, concurrency: int, until: float | None) -> None:
        """Open a cell, and work on it until it is to be left."""
        number = member.state.cell.number
        mirror: Mirror = await self._aside(
            lambda: self._mirror.open_cell(member.state.cell, concurrency=concurrency)
        )
        try:
            working = mirror.working(lambda event: self._event(number, event))
            member.worker = await self._aside(working.__enter__)
            member.mirror = mirror
            try:
                if not member.leaving:
                    await member.worker.run(until)
            finally:
                await self._aside(working.__exit__, None, None, None)
        finally:
            member.mirror = member.worker = None
            await self._aside(mirror.close)

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
                    await self._ask(self._mirror.directory.acknowledge, number, state.given)
                    member.acknowledged = state.given
            while await self._aside(deliver, mirror, self._mirror.discovery, self._cell_of):
                pass
        except (UnstaleError, OSError) as error:
            if not member.leaving:
                self._emit("trouble", f"cell {number}: {error}")

    def _cell_of(self, group: str) -> Mirror:
        return self._mirror.at(self._mirror.of_group(group))

    async def _demand(
        self, number: int, member: _Member, demands: dict[int, tuple[DemandCurve, float]]
    ) -> None:
        """Ask the planner of a cell, if it is ours, what the cell would spend at prices."""
        worker = member.worker
        if worker is None or member.leaving:
            return
        with suppress(RuntimeError), self._clock.busy():  # it has just ended
            told = await worker.ask(partial(member.teller.curve, now=self._clock.now()))
            if told is not None:
                demands[number] = told

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
