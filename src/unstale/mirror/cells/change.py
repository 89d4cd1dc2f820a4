"""Changes of the cells while their mirror runs: one moves to another place, or is split in two.

A change is noted in the coordinating database before it begins, and every runner lets go of the cell. Then
its store is held, so that nobody writes to it; its rows are written to their new places, in one transaction
each; and the old store is closed off, in the transaction that held it. *That commit is the moment of the
change.* What comes after it, the directory and dropping what is old, only follows.

So whoever finds a change whose process has died can end it (`settle`): if the old store is still there, the
change has not happened, and what was written is dropped; else it has, and the directory is made to say so.
Both do so while they hold the old store, if it is there, and only if the change is still the one that is
noted; so one that was only stopped for a while finds that it is over.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.engine.planner_state import ShareGiven
from unstale.mirror.store.poll_archive import PollArchive
from unstale.mirror.store.sql import schema
from unstale.mirror.store.sql.connection import place_of, run_lock

from .layout import Cell, name_of_server
from .rows import (
    HeldStore,
    Part,
    drop_closed,
    drop_copy,
    held,
    is_copy,
    is_taken,
    is_there,
    write_copy,
)
from .shares import with_floor

if TYPE_CHECKING:
    from .mirror import MirrorOfCells

__all__ = ["CellChange", "Progress", "Step", "move", "settle", "split"]

_RENEW_SECONDS = 5.0
"""Between two times that a change says that it goes on."""
_LONGEST_WAIT_SECONDS = 90.0
"""For which workers that still say that they work on the cell are waited for: one that was killed is believed
for half a minute."""
_LOOK_SECONDS = 0.2
_VERSIONS_AT_ONCE = 2000
_STREAMED = {"yield_per": 2000}


class Step(NamedTuple):
    """How far a change has come."""

    doing: str
    """``waiting``, ``copies``, ``rows``, ``switching`` or ``dropping``."""
    done: int = 0
    total: int = 0


Progress = Callable[[Step], None]


@dataclass(frozen=True)
class CellChange:
    """A change as it is noted with the cell, until it is over."""

    doing: str
    """``move``, ``split``; ``drop``: it has happened, and what is old is still there."""
    token: str
    before: Cell
    after: tuple[Cell, ...]
    """The cells that there are instead; the first has the number of the one before."""
    parts: tuple[float, ...] = (1.0,)
    """Which part of its budget each has."""
    given: int = 0
    """The number of these parts; 0: they are as before."""

    @property
    def left(self) -> str:
        """What the schema of the old store is called once it is closed off."""
        return f"{self.before.place}_left_{self.token}"

    def text(self) -> str:
        """Return it as a word in the directory."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> CellChange:
        """Read what `text` wrote."""
        said = json.loads(text)
        after = tuple(Cell(**one) for one in said.pop("after"))
        return cls(before=Cell(**said.pop("before")), after=after, parts=tuple(said.pop("parts")), **said)

    def in_words(self) -> str:
        """Say what is being done.

        >>> cell = Cell(3, 4, 3, "db1/m", "cell_0003", "")
        >>> CellChange("move", "ab", cell, (replace(cell, server="db2/m"),)).in_words()
        'moving to db2/m cell_0003'
        """
        if self.doing == "drop":
            return ""
        if self.doing == "move":
            return f"moving to {self.after[0].server} {self.after[0].place}"
        return f"being split into {' and '.join(str(one.number) for one in self.after)}"


def move(mirror: MirrorOfCells, number: int, server: str, *, tell: Progress = lambda _: None) -> Cell:
    """Move a cell to another database, or another file; return the cell as it is then."""
    cell = _free(mirror, number)
    moved = _target(mirror, cell, server)
    change = CellChange("move", secrets.token_hex(4), cell, (moved,))
    _begin(mirror, change)
    _carry_out(mirror, change, tell)
    return moved


def split(mirror: MirrorOfCells, number: int, *, tell: Progress = lambda _: None) -> tuple[Cell, Cell]:
    """Divide a cell in two; return the one that keeps the number, and the new one."""
    cell = _free(mirror, number)
    parts, new = 2 * cell.parts, cell.number + cell.parts
    place = _place_of_half(cell, parts)
    stays = replace(cell, parts=parts, place=place(cell.number))
    goes = Cell(new, parts, cell.number, cell.server, place(new), f"cell-{new:04}")
    divided = _budget_of_halves(mirror, cell, goes)
    given = mirror.directory.next_given()
    change = CellChange("split", secrets.token_hex(4), cell, (stays, goes), divided, given)
    _begin(mirror, change)
    _carry_out(mirror, change, tell)
    return stays, goes


def settle(mirror: MirrorOfCells, number: int) -> bool:
    """End the change of a cell whose process has died; False: that is not possible now."""
    found = next((one for one in mirror.directory.states() if one.cell.number == number), None)
    if found is None or not found.cell.state:
        return True
    change = CellChange.read(found.cell.state)
    if change.doing == "drop":
        _drop(mirror, change)
        return True
    address = mirror.address(change.before)
    with held(address, wait=False) as source:
        if source is not None:
            if mirror.directory.keep_change(number, change.text()):
                for part in _parts(mirror, change, 0.0):
                    drop_copy(part, change.token)
                mirror.directory.give_up_change(number, change.text())
            return True
    if is_there(address):  # somebody is at work
        return False
    if not all(is_copy(part, change.token) for part in _parts(mirror, change, 0.0)):
        raise Trouble(
            f"cell {number} is neither where it was nor where it was to be ({change.in_words()}): see to it "
            "that its databases, or the folders of its files, are those that they were"
        )
    _follow(mirror, change)
    return True


# --- before it begins


def _free(mirror: MirrorOfCells, number: int) -> Cell:
    """Return a cell with which nothing else is being done."""
    mirror.refresh()
    cell = mirror.numbered(number)
    if cell.state and not settle(mirror, number):
        words = CellChange.read(cell.state).in_words()
        raise InvalidInput(f"cell {number} is {words} by another process: wait until it has ended")
    mirror.refresh()
    return replace(mirror.numbered(number), state="")


def _target(mirror: MirrorOfCells, cell: Cell, server: str) -> Cell:
    """Return the cell as it is to be."""
    known = {name_of_server(one): one for one in mirror.servers}
    if not known and "://" not in server:
        moved = replace(cell, place=str(_file_of(mirror, cell, server)))
    else:
        name = name_of_server(server) if "://" in server else server
        if name not in known:
            there = ", ".join(known) or "none, as store is a file; name another file"
            raise InvalidInput(
                f"{name} is not a database of this mirror, which are {there}: add its address to servers "
                "below [mirror], for all who run it, before a cell moves there"
            )
        if name == cell.server:
            raise InvalidInput(f"cell {cell.number} is in {name} already")
        moved = replace(cell, server=name, place=cell.place if cell.server else f"cell_{cell.number:04}")
    if is_taken(_part(mirror, moved)):
        raise InvalidInput(
            f"{moved.place} is there already in {moved.server or 'this folder'}, and it may be somebody's: "
            "remove or rename it, or name another"
        )
    return moved


def _file_of(mirror: MirrorOfCells, cell: Cell, said: str) -> Path:
    """Return the file that a cell is to be in."""
    path = Path(said).absolute()
    if path.is_dir():
        path /= Path(cell.place).name
    if not path.parent.is_dir():
        raise InvalidInput(f"there is no folder {str(path.parent)!r}: make it, or name another file")
    if path == Path(mirror.address(cell)).absolute():
        raise InvalidInput(f"cell {cell.number} is in {str(path)!r} already")
    return path


def _place_of_half(cell: Cell, parts: int) -> Callable[[int], str]:
    """Return where halves of a cell are: a place of their own, so that nobody takes it for the old one."""
    path = Path(cell.place) if not cell.server else None

    def place(number: int) -> str:
        if path is None:
            return f"{cell.place.partition('_of_')[0].rpartition('_')[0]}_{number:04}_of_{parts}"
        stem = path.name.rpartition(".cell-")[0] or path.name
        return str(path.with_name(f"{stem}.cell-{number:04}-of-{parts}"))

    return place


def _budget_of_halves(mirror: MirrorOfCells, cell: Cell, goes: Cell) -> tuple[float, float]:
    """Return which part of its budget each half gets: as its elements have spent, or as many as they are."""
    e, g, p = schema.elements.c, schema.groups.c, schema.polls.c
    spent_on = func.sum(p.traffic) if mirror.settings.budget is None else func.count()
    spent = select(g.name, spent_on).select_from(schema.polls).join(
        schema.elements, e.id == p.element
    ).join(schema.groups, g.id == e.group_id).group_by(g.name)  # fmt: skip
    there = select(g.name, func.count()).select_from(schema.elements).join(
        schema.groups, g.id == e.group_id
    ).group_by(g.name)  # fmt: skip
    with mirror.at(cell).store.begin() as t:
        groups = 0
        for query in (there, spent):
            found = [0.0, 0.0]
            for name, amount in t.connection.execute(query, execution_options=_STREAMED):
                found[goes.has(name)] += float(amount or 0)
                groups += query is there
            if query is there:
                if groups == 1:
                    raise InvalidInput(
                        f"cell {cell.number} cannot be split: all its elements are of one group, and a group "
                        "stays in one cell"
                    )
                elements = found
    first, second = with_floor(found if sum(found) > 0 else elements)
    return first, second


def _begin(mirror: MirrorOfCells, change: CellChange) -> None:
    for part in _parts(mirror, change, 0.0):
        if change.doing == "split" and is_taken(part):
            raise InvalidInput(
                f"{part.schema or part.address} is there already, and may be somebody's: remove or rename it"
            )
    if not mirror.directory.begin_change(change.before.number, change.text()):
        raise InvalidInput(f"cell {change.before.number} is being changed by another process")


# --- what is done


def _carry_out(mirror: MirrorOfCells, change: CellChange, tell: Progress) -> None:
    number = change.before.number
    goes_on = _Reminder(mirror, change)

    def said(step: Step) -> None:
        goes_on()
        tell(step)

    try:
        with ExitStack() as stack:
            said(Step("waiting"))
            stack.enter_context(_alone(mirror, change, said))
            last = _take_copies(mirror, change, 0, said)
            with held(mirror.address(change.before)) as source:
                still = _still_ours(mirror, change, source)
                _take_copies(mirror, change, last, said)
                _write(mirror, change, still, said)
                said(Step("switching"))
                still.close_off(change.left)
    except (Exception, KeyboardInterrupt):
        with suppress(Trouble, InvalidInput, OSError):
            settle(mirror, number)
        raise
    said(Step("dropping"))
    _follow(mirror, change)


def _still_ours(mirror: MirrorOfCells, change: CellChange, source: HeldStore | None) -> HeldStore:
    """Make sure that nobody has ended this change meanwhile."""
    number = change.before.number
    if source is None or not mirror.directory.keep_change(number, change.text()):
        raise Trouble(f"the change of cell {number} took too long, and another process has ended it")
    return source


class _Reminder:
    """Says now and then that a change goes on."""

    def __init__(self, mirror: MirrorOfCells, change: CellChange) -> None:
        self._mirror, self._change, self._last = mirror, change, time.monotonic()

    def __call__(self) -> None:
        if time.monotonic() > self._last + _RENEW_SECONDS:
            self._last = time.monotonic()
            self._mirror.directory.keep_change(self._change.before.number, self._change.text())


@contextmanager
def _alone(mirror: MirrorOfCells, change: CellChange, tell: Progress) -> Iterator[None]:
    """Wait until whoever worked on the cell has recorded what it had begun, and is gone."""
    place = place_of(mirror.address(change.before))
    end = time.monotonic() + _LONGEST_WAIT_SECONDS
    if not isinstance(place, Path):
        while time.monotonic() < end and _workers(mirror, change.before):
            tell(Step("waiting"))
            time.sleep(_LOOK_SECONDS)
        yield  # one that is still there was stopped, or has lost the network: its leases will expire
        return
    while (lock := run_lock(place, shared=mirror.settings.shared == "group")) is None:
        if time.monotonic() > end:
            raise InvalidInput(
                f"cell {change.before.number} is being run by a process that does not let it go: stop that"
            )
        tell(Step("waiting"))
        time.sleep(_LOOK_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _workers(mirror: MirrorOfCells, cell: Cell) -> int:
    query = select(func.count()).select_from(schema.workers)
    with mirror.at(cell).store.begin() as t:
        reading = t.clock()
        now = time.time() if reading is None else time.monotonic() + reading.ahead
        return int(t.connection.scalar(query.where(schema.workers.c.expires > now)) or 0)


def _take_copies(mirror: MirrorOfCells, change: CellChange, after: int, tell: Progress) -> int:
    """Give a new cell the copies of its elements; return the number of the last version that was looked at.

    It is done before the store is held, and then once more for what has come meanwhile.
    """
    if change.doing != "split":
        return after
    goes = change.after[1]
    theirs, ours = mirror.copies_of(change.before), mirror.copies_of(goes)
    v, e, g = schema.versions.c, schema.elements.c, schema.groups.c
    query = (
        select(v.id, v.digest, g.name)
        .join(schema.elements, e.id == v.element)
        .join(schema.groups, g.id == e.group_id)
        .order_by(v.id)
        .limit(_VERSIONS_AT_ONCE)
    )
    with mirror.at(change.before).store.begin() as t:
        total = int(t.connection.scalar(select(func.count()).select_from(schema.versions)) or 0)
    done = 0
    while True:
        with mirror.at(change.before).store.begin() as t:
            rows = t.connection.execute(query.where(v.id > after)).all()
        if not rows:
            break
        ours.take_from(theirs, sorted({row.digest for row in rows if goes.has(row.name)}))
        after, done = rows[-1].id, done + len(rows)
        tell(Step("copies", done, total))
    PollArchive(ours).take_from(PollArchive(theirs))
    return after


def _write(mirror: MirrorOfCells, change: CellChange, source: HeldStore, tell: Progress) -> None:
    """Write the rows to their new places."""
    share = next(one.share for one in mirror.directory.states() if one.cell.number == change.before.number)
    parts = _parts(mirror, change, share)
    if change.doing == "split":
        goes = change.after[1]
        source.divide(goes.has)
    counts = source.counts(parts)
    total, done = sum(sum(one.values()) for one in counts), 0

    def more(rows: int) -> None:
        nonlocal done
        done += rows
        tell(Step("rows", done, total))

    more(0)
    for part, expected in zip(parts, counts, strict=True):
        write_copy(source, part, expected, change.token, more)


def _follow(mirror: MirrorOfCells, change: CellChange) -> None:
    """Make the directory say what has happened; then drop what is old."""
    old = replace(change, doing="drop")
    shares = list(zip(change.after, change.parts, strict=True))
    mirror.directory.end_change(change.text(), shares, change.given, old.text())
    mirror.refresh()
    _drop(mirror, old)


def _drop(mirror: MirrorOfCells, change: CellChange) -> None:
    drop_closed(mirror.address(change.before), change.left)
    mirror.directory.give_up_change(change.before.number, change.text())
    mirror.refresh()


def _parts(mirror: MirrorOfCells, change: CellChange, share: float) -> list[Part]:
    return [
        _part(
            mirror, cell, goes=None if len(change.after) == 1 else index > 0,
            share=ShareGiven(change.given, share * part) if change.given else None,
        )
        for index, (cell, part) in enumerate(zip(change.after, change.parts, strict=True))
    ]  # fmt: skip


def _part(
    mirror: MirrorOfCells, cell: Cell, *, goes: bool | None = None, share: ShareGiven | None = None
) -> Part:
    shared = mirror.settings.shared == "group"
    return Part(mirror.address(cell), goes, share, cell.place if cell.server else "", shared)
