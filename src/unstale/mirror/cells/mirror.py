"""A mirror in several cells: what `Mirror` does, over all of them, one cell at a time."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import ceil
from os import PathLike, fspath
from pathlib import Path
from typing import Self

from sqlalchemy import make_url, text

from unstale.errors import InvalidInput, UnstaleError
from unstale.mirror.additions import Added, batches
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.engine.events import Event
from unstale.mirror.engine.housekeeper import TIDY_SECONDS
from unstale.mirror.engine.planner_state import ShareGiven
from unstale.mirror.engine.worker import SAMPLE_SECONDS, check_settings
from unstale.mirror.event_loops import call_in, running_loop, wait_for
from unstale.mirror.exchange.tables import import_elements
from unstale.mirror.mirror import Copy, Mirror
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.explain import Explanation
from unstale.mirror.reports.status import Status
from unstale.mirror.settings import Settings
from unstale.mirror.source import Json, New, Source
from unstale.mirror.sources.registry import Sources, load_sources, stop_polls
from unstale.mirror.sql_engine import close_engine
from unstale.mirror.stop_signals import stopped_by_signals
from unstale.mirror.store.contract import Addition, Element, Version
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.connection import postgres_engine, session_name, troubles
from unstale.mirror.store.sql.store import open_store

from .change import Progress, move, settle, split
from .cursor import Cursor
from .directory import Directory
from .layout import Cell, address_of, name_of_server
from .outgoing import Outgoing, prepare
from .runner import CellRunner
from .status import joined_status, look_at

__all__ = ["MirrorOfCells", "cell_settings"]

_CHANGES_AT_ONCE = 1000
_STEP_TRIES = 3
"""For each cell: a machine may be too slow for the polls that are due."""
_MOST_CELLS_OPEN = 64
"""Cells whose stores are held open at a time."""


class MirrorOfCells:
    """Keeps elements in several cells: files beside one another, or schemas of PostgreSQL databases.

    Parameters
    ----------
    store, settings, copies
        As for `Mirror`; ``settings.cells`` says how many cells there are to be if there is none yet.
    clock, sources, tick, sample_every, tidy_every
        As for `Mirror`, for tests; a clock is that of all cells.
    every
        Seconds between two looks of a runner at what its cells should be and may spend.
    """

    def __init__(
        self,
        store: str | PathLike[str],
        *,
        settings: Settings,
        copies: str | PathLike[str] | None = None,
        clock: Clock | None = None,
        sources: Mapping[str, Source] | None = None,
        tick: float | None = None,
        sample_every: float = SAMPLE_SECONDS,
        tidy_every: float = TIDY_SECONDS,
        every: float | None = None,
    ) -> None:
        check_settings(settings)
        check_cells(settings)
        self.settings, self._store = settings, fspath(store)
        self.clock: Clock = RealClock() if clock is None else clock
        self._given_clock, self._tick, self._every = clock, tick, every
        self._sample_every, self._tidy_every = sample_every, tidy_every
        place = Path(self._store).absolute().parent / "copies"
        if copies is None and "://" in self._store:
            raise InvalidInput("copies must be given for a mirror in PostgreSQL: a folder or a bucket")
        self._copies = fspath(place if copies is None else copies)
        self.sources: Mapping[str, Source] = load_sources(settings) if sources is None else sources
        self.discovery = Discovery(settings, self.sources)
        self.directory = Directory(self._store, shared=settings.shared == "group", clock=self.clock.now)
        self._open: dict[int, Mirror] = {}
        self._opening = threading.RLock()
        """Held by the thread that opens or closes stores."""
        self._runner: CellRunner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            if not self.directory.exists():
                self._make()
            self.cells: list[Cell] = self.directory.cells()
            self._settle()
            self._check_rules()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def servers(self) -> list[str]:
        """Return the addresses of the databases in which cells can be."""
        return [one for one in (self._store, *self.settings.servers) if "://" in one]

    def refresh(self) -> None:
        """See which cells there are now, and where: they are moved and split while others have them open."""
        cells = self.directory.cells()
        if cells == self.cells:
            return
        before = {one.number: replace(one, state="") for one in self.cells}
        self.cells = cells
        with self._opening:
            for cell in cells:
                same = before.get(cell.number) == replace(cell, state="")
                if not same and (old := self._open.pop(cell.number, None)) is not None:
                    old.close()

    def move(self, number: int, server: str, *, tell: Progress = lambda _: None) -> Cell:
        """Move a cell to another database of the mirror, or another file, while it runs.

        Nobody can write to the cell meanwhile; others go on. ``tell`` is called with each `Step`.
        """
        return move(self, number, server, tell=tell)

    def split(self, number: int, *, tell: Progress = lambda _: None) -> tuple[Cell, Cell]:
        """Divide a cell in two, while the mirror runs; return what it is then, and the new one."""
        return split(self, number, tell=tell)

    def _settle(self) -> None:
        """End changes of cells that were left by processes which have died."""
        for one in self.directory.states():
            if one.cell.state and not (one.cell.changes and one.runner):
                with suppress(UnstaleError):  # other cells can be used
                    settle(self, one.cell.number)

    def close(self) -> None:
        """Let go of all stores."""
        with self._opening:
            while self._open:
                self._open.popitem()[1].close()
        self.directory.close()

    # --- cells ----------------------------------------------------------------------------------------------

    def _make(self) -> None:
        """Make the first cells: their stores, with an equal part of the budget each; then note them."""
        count = self.settings.cells
        servers = self.servers
        prefix = ""
        if servers and (schema := self.directory.schema()) != "public":
            prefix = f"{schema}_"
        name = Path(self._store).name
        cells = [
            Cell(
                number, count, number,
                name_of_server(servers[number % len(servers)]) if servers else "",
                f"{prefix}cell_{number:04}" if servers else f"{name}.cell-{number:04}",
                f"cell-{number:04}",
            )
            for number in range(count)
        ]  # fmt: skip
        for cell in cells:
            self.make_store(cell, ShareGiven(1, 1.0 / count))
        self.directory.create(cells, _group_rules(self.settings))

    def make_store(self, cell: Cell, share: ShareGiven) -> None:
        """Make the store of a cell, which is to have a part of the budget from its beginning."""
        address = address_of(cell, self._store, self.settings.servers)
        if cell.server:
            make_schema(address, cell.place)
        with open_store(address, copies=self.copies_of(cell)) as store:
            prepare(store)
            with store.begin() as t:
                t.keep(share.kept())

    def copies_of(self, cell: Cell) -> Copies:
        """Return the copies of a cell."""
        place = f"{self._copies.rstrip('/')}/{cell.copies}"
        return Copies(place, shared=self.settings.shared == "group")

    def address(self, cell: Cell) -> str:
        """Return where the store of a cell is."""
        return address_of(cell, self._store, self.settings.servers)

    def open_cell(self, cell: Cell, *, concurrency: int | None = None) -> Mirror:
        """Open a cell as a mirror; who opens it closes it."""
        store, settings, copies = self.as_mirror(cell)
        if concurrency is not None:
            settings = replace(settings, concurrency=concurrency)
        return Mirror(
            store,
            settings=settings,
            copies=copies,
            clock=self._given_clock,
            sources=self.sources,
            tick=self._tick,
            sample_every=self._sample_every,
            tidy_every=self._tidy_every,
            elsewhere=Outgoing(cell),
        )

    def as_mirror(self, cell: Cell) -> tuple[str, Settings, str]:
        """Return store, settings and copies of a cell, by which it can be looked at as a mirror."""
        place = f"{self._copies.rstrip('/')}/{cell.copies}"
        return self.address(cell), cell_settings(self.settings, cell.parts), place

    def at(self, cell: Cell) -> Mirror:
        """Return a cell as a mirror, which is closed with all of this."""
        with self._opening:
            found = self._open.get(cell.number)
            if found is None:
                while len(self._open) >= _MOST_CELLS_OPEN:
                    self._open.pop(next(iter(self._open))).close()
                found = self._open[cell.number] = self.open_cell(cell)
            return found

    def numbered(self, number: int) -> Cell:
        """Return a cell by its number."""
        for cell in self.cells:
            if cell.number == number:
                return cell
        raise InvalidInput(f"there is no cell {number}; there are {len(self.cells)}: unstale cells list")

    def of_group(self, group: str) -> Cell:
        """Return the cell that has the elements of a group."""
        return next(cell for cell in self.cells if cell.has(group))

    def mirrors(self) -> Iterator[Mirror]:
        """Go through all cells, as mirrors."""
        for cell in self.cells:
            yield self.at(cell)

    def import_elements(
        self,
        path: str,
        *,
        allow: Collection[str] = (),
        progress: Callable[[int], None] = lambda _: None,
        withheld: Callable[[str], object] | None = None,
    ) -> int:
        """Add the elements of a file, each to its cell: the file is read once for each."""
        for cell in self.cells:
            wrong: list[str] = []

            def note(wish: Addition, cell: Cell = cell, wrong: list[str] = wrong) -> bool:
                with self.at(cell).store.begin() as t:
                    if t.find([wish.key]) and not cell.has(wish.group):
                        wrong.append(_wrong_cell(wish.key, cell.number, wish.group, ""))
                return False

            import_elements(self.at(cell), path, allow=allow, mine=note)
            if wrong:
                raise InvalidInput(wrong[0])
        count = 0
        for cell in self.cells:
            taken = partial(_is_in, cell)
            count += import_elements(
                self.at(cell), path, allow=allow, progress=progress, withheld=withheld, mine=taken
            )
        return count

    def _check_rules(self) -> None:
        """Refuse rules that would put elements into other groups, which may be those of other cells."""
        said = _group_rules(self.settings)
        if said != self.directory.rules():
            if next(self.elements(), None) is not None:
                raise InvalidInput(
                    "the groups of rules in mirror.toml have changed, and elements of a mirror of several "
                    "cells stay in their groups: put the rules back, or export the elements and import them "
                    "into a new mirror"
                )
            self.directory.set_rules(said)

    # --- elements -------------------------------------------------------------------------------------------

    def add_many(
        self,
        news: Iterable[New],
        given: Mapping[str, Json] | None = None,
        *,
        allow: Collection[str] | None = None,
    ) -> Added:
        """Add elements, each to its cell; those that cannot be are left out, and told."""
        total = Added(0, 0)
        said = dict(given or {})
        for batch in batches(news):
            wishes: dict[str, tuple[New, str]] = {}
            refused: list[tuple[str, str]] = []
            for new in batch:
                try:
                    wish = self.discovery.addition(new, said)
                except InvalidInput as error:
                    refused.append((new.key, str(error)))
                else:
                    wishes[wish.key] = new, wish.group
            there = self._where(list(wishes))
            lots: dict[int, list[New]] = {}
            for key, (new, group) in wishes.items():
                home = self.of_group(group).number
                number, state = there.get(key, (home, ""))
                if number != home and ("group" in said or state == "removed"):
                    refused.append((key, _wrong_cell(key, number, group, state)))
                else:
                    lots.setdefault(number, []).append(new)
            total = _sum(total, Added(0, 0, refused))
            for number, some in lots.items():
                total = _sum(total, self.at(self.numbered(number)).add_many(some, said, allow=allow))
        return total

    def _where(self, keys: Sequence[str]) -> dict[str, tuple[int, str]]:
        """Return in which cells elements are, and in which state: a group of its own may be anywhere."""
        found: dict[str, tuple[int, str]] = {}
        for cell in self.cells:
            with self.at(cell).store.begin() as t:
                found |= {key: (cell.number, one.state) for key, one in t.find(keys).items()}
        return found

    def having(self, key: str) -> Mirror:
        """Return the cell that has an element, as a mirror; `unstale.InvalidInput` if there is none."""
        tried: list[Cell] = []
        with suppress(InvalidInput):
            tried = [self.of_group(self.discovery.addition(New(key), {}).group)]
        for cell in (*tried, *(one for one in self.cells if one not in tried)):
            with suppress(InvalidInput):
                self.at(cell).find(key)
                return self.at(cell)
        raise InvalidInput(f"there is no element {key!r} in this mirror; add it first: unstale add KEY")

    def find(self, key: str) -> Element:
        """Return an element."""
        return self.having(key).find(key)

    def elements(self, pattern: str | None = None) -> Iterator[Element]:
        """Return all elements, or those whose keys match a pattern; cell by cell."""
        for mirror in self.mirrors():
            yield from mirror.elements(pattern)

    def remove(self, keys: Iterable[str], *, forget: bool = False) -> int:
        """Remove elements; with ``forget``, their copies and history too."""
        return sum(mirror.remove(some, forget=forget) for mirror, some in self._by_cell(keys))

    def pause(self, keys: Iterable[str]) -> int:
        """Let nobody poll elements until `resume`; return how many were not paused before."""
        return sum(mirror.pause(some) for mirror, some in self._by_cell(keys))

    def resume(self, keys: Iterable[str]) -> int:
        """Have elements polled again that were paused or archived; return how many were."""
        return sum(mirror.resume(some) for mirror, some in self._by_cell(keys))

    def hint(self, keys: Iterable[str], *, time: float | None = None, channel: str = "api") -> int:
        """Say that elements may have changed; return how many."""
        return sum(mirror.hint(some, time=time, channel=channel) for mirror, some in self._by_cell(keys))

    def _by_cell(self, keys: Iterable[str]) -> list[tuple[Mirror, list[str]]]:
        """Return which of these elements, all of which must be there, each cell has."""
        found: dict[int, tuple[Mirror, list[str]]] = {}
        for key in keys:
            mirror = self.having(key)
            found.setdefault(id(mirror), (mirror, []))[1].append(key)
        return list(found.values())

    def count(self, cell: Cell) -> int:
        """Return how many elements a cell has, without those that were removed."""
        with self.at(cell).store.begin() as t:
            return sum(number for state, number in t.count().items() if state != "removed")

    # --- what is known --------------------------------------------------------------------------------------

    def status(self) -> Status:
        """Return how all cells do together."""
        states = self.directory.states()
        looks = [(one.cell.number, *look_at(self.at(one.cell))) for one in states]
        return joined_status(looks, self.settings, self.clock.now(), self.directory.runners())

    def explain(self, key: str) -> Explanation:
        """Return why an element is polled when it is."""
        return self.having(key).explain(key)

    def read(self, key: str, *, version: int | None = None, count: bool = True) -> Copy:
        """Return a copy: the latest, or another version of that cell."""
        return self.having(key).read(key, version=version, count=count)

    def latest(self) -> Cursor:
        """Return the place after all changes there are."""
        after = {}
        for cell in self.cells:
            with self.at(cell).store.begin() as t:
                last = t.versions(limit=1, latest_first=True)
            after[cell.number] = last[0].id if last else 0
        return Cursor(after)

    def changes(self, after: Cursor | None = None) -> Iterator[tuple[int, Version, Cursor]]:
        """Go through changes after a place, cell by cell: each with its cell and the place after it."""
        self.cells = self.directory.cells()
        place = (Cursor({}) if after is None else after).over(self.cells)
        for cell in self.cells:
            while page := self.at(cell).changes(place.after[cell.number], _CHANGES_AT_ONCE):
                for version in page:
                    place = place.past(cell.number, version.id)
                    yield cell.number, version, place

    def audit(
        self,
        sample: int = 200,
        *,
        seed: int | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> Audit:
        """Poll a random sample of each cell out of turn, and see how many copies are as fresh as expected."""
        from .status import joined_audit

        looks = [(mirror, *look_at(mirror)) for mirror in self.mirrors()]
        heavy = sum(weight for _, _, weight in looks)
        found: list[tuple[Audit, float]] = []
        done = 0

        def progress(made: int, _: int) -> None:
            if on_progress is not None:
                on_progress(done + made, sample)

        for mirror, _, weight in looks:
            part = ceil(sample * weight / heavy) if heavy > 0 else 0
            if part:
                with suppress(InvalidInput):  # no element has a copy yet
                    one = mirror.audit(part, seed=seed, on_progress=progress)
                    found.append((one, weight))
                    done += one.sample + one.failed
        if not found:
            raise InvalidInput("there is nothing to audit: no element has a copy yet; run the mirror first")
        return joined_audit(found, self.clock.now())

    # --- running --------------------------------------------------------------------------------------------

    def run(
        self,
        until: float | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """Work on a part of the cells, as many as others do, until stopped or until a moment."""
        wait_for(lambda: self.arun(until, on_event=on_event, on_hangup=on_hangup), stop=self.stop)

    async def arun(
        self,
        until: float | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_hangup: Callable[[], None] | None = None,
    ) -> None:
        """Do what `run` does, in an event loop that is there."""
        if self._runner is not None:
            raise InvalidInput("this mirror is running already; stop it first")
        runner = self._runner = CellRunner(self, on_event=on_event, every=self._every)
        self._loop = running_loop()
        try:
            with stopped_by_signals(runner, self._stop_polls, on_hangup):
                await runner.run(until)
        finally:
            self._runner = self._loop = None
            await self._close_sources()

    def stop(self) -> None:
        """End `run` soon; it can be called from any thread."""
        if self._runner is not None:
            call_in(self._loop, self._runner.stop)

    def step(self, *, on_event: Callable[[Event], None] | None = None) -> int:
        """Poll what is due now, in all cells, and record it; return how many polls were made."""
        made = 0
        for mirror in self.mirrors():
            for _ in range(_STEP_TRIES):
                polls = mirror.step(on_event=on_event)
                made += polls
                with mirror.store.begin() as t:
                    if polls or not t.count().get("new", 0):
                        break
        return made

    def _stop_polls(self) -> None:
        if isinstance(self.sources, Sources):
            self.sources.stop_polls()
        else:
            stop_polls(self.sources.values())

    async def _close_sources(self) -> None:
        if isinstance(self.sources, Sources):
            await self.sources.close()
            return
        for source in self.sources.values():
            await source.close()


def check_cells(settings: Settings) -> None:
    """Refuse what cells cannot do together."""
    wrong = [
        ("[[composed]]", bool(settings.composed), "its parts may be in several cells"),
        ("[replicas]", settings.replicas.folder is not None, "replicas take turns by files of one mirror"),
        ("[hints] file", settings.hint_file is not None, "use unstale hint"),
        ('importance = "links"', settings.importance == "links", "links lead from cell to cell"),
        ('importance = "reads"', settings.importance == "reads", "reads are counted by cell"),
        ('fetch = "elsewhere"', settings.fetch == "elsewhere", "fetchers take leases of one cell"),
        ("[reads] users", settings.reads.users != "no", "reads are counted by cell"),
    ]
    for name, said, why in wrong:
        if said:
            raise InvalidInput(f"{name} cannot be combined with several cells: {why}")
    if settings.servers and settings.cells < 2:
        raise InvalidInput("servers is for a mirror of several cells: say cells, too")


def cell_settings(settings: Settings, parts: int) -> Settings:
    """Return the settings of a cell that has one of so many parts of all groups.

    Its part of the budget is in its store.
    """
    limits = settings.discovery
    return replace(
        settings,
        cells=1,
        servers=(),
        space=None if settings.space is None else settings.space // parts,
        discovery=replace(limits, total=ceil(limits.total / parts)),
    )


def make_schema(address: str, schema: str) -> None:
    """Make a schema, in which a cell is to be."""
    url = make_url(address)
    engine = postgres_engine(url, session_name())
    try:
        with troubles(repr(url.render_as_string()), opening=True), engine.begin() as connection:
            quoted = connection.dialect.identifier_preparer.quote(schema)
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {quoted}"))
    finally:
        close_engine(engine)


def _is_in(cell: Cell, wish: Addition) -> bool:
    return cell.has(wish.group)


def _group_rules(settings: Settings) -> str:
    said = [(rule.match, rule.group) for rule in settings.rules if rule.group is not None]
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _wrong_cell(key: str, number: int, group: str, state: str) -> str:
    what = "was removed from" if state == "removed" else "is in"
    return (
        f"{key} {what} cell {number}, and the group {group} is in another: remove it for good first, with "
        "unstale remove --forget"
    )


def _sum(one: Added, other: Added) -> Added:
    return Added(
        one.added + other.added,
        one.known + other.known,
        one.refused + other.refused,
        one.changed + other.changed,
        one.withheld + other.withheld,
    )
