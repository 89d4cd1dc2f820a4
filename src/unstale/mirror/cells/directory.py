"""The coordinating database: which cells there are, who works on them, and which part of the budget each has.

It is an SQLite file, for cells that are files beside it, or the PostgreSQL database of the mirror's address.
All of what is done here is a short transaction that locks the one row of ``cell_budget``; so whoever holds
that row is the coordinator, and none is needed between. Nothing here is needed to poll: cells go on by what
they were told last.

Leases of cells end by the clock of this database. They only divide the work: should two work on a cell, that
is a fleet of two, in which one plans.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Integer,
    MetaData,
    Select,
    SmallInteger,
    Table,
    Text,
    delete,
    func,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.engine import URL

from unstale.errors import InvalidInput
from unstale.mirror.sql_engine import close_engine
from unstale.mirror.store.folder import new_file
from unstale.mirror.store.sql.connection import (
    check_file,
    place_of,
    postgres_engine,
    session_name,
    sqlite_engine,
    troubles,
)
from unstale.planning import DemandCurve, share_budget

from .layout import Cell
from .shares import Given, next_shares, with_floor

__all__ = ["CLAIM_SECONDS", "SHARE_SECONDS", "CellState", "Claims", "Directory"]

CLAIM_SECONDS = 30.0
"""For which a cell is a runner's that has claimed it, if it is not heard of again."""
SHARE_SECONDS = 60.0
"""Between two times that parts of the budget are given."""
_BACK_SECONDS = 15.0
"""For which claims that have ended while this database was away count on, so that all can renew theirs."""
_BRIEFLY = text(
    "SELECT set_config('idle_in_transaction_session_timeout', '5s', true), "
    "set_config('lock_timeout', '10s', true)"
)
"""Run first in a transaction that all other processes wait for: the server ends it if its process hangs."""
_CHANGING = "(changing)"
"""The runner of a cell that is being moved or split."""

_TABLES = MetaData()
_cells = Table(
    "cells",
    _TABLES,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("parts", Integer, nullable=False),
    Column("parent", Integer, nullable=False),
    Column("server", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("copies", Text, nullable=False),
    Column("state", Text, nullable=False, server_default=""),
    Column("runner", Text, nullable=False, server_default=""),
    Column("expires", Double, nullable=False, server_default="0"),
    Column("share", Double, nullable=False),
    Column("given", BigInteger, nullable=False),
    Column("bound", Double, nullable=False),
    Column("price", Double),
    Column("curve", Text, nullable=False, server_default=""),
    Column("told", Double),
)
"""``given``: the number of the part in ``share``. ``bound``: the largest part that it may be going by."""
_budget = Table(
    "cell_budget",
    _TABLES,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    Column("given", BigInteger, nullable=False),
    Column("shared", Double, nullable=False),
    Column("price", Double),
    Column("rules", Text, nullable=False),
)
"""``given``: the number of the last part that was given to any cell. ``rules``: which groups rules make."""
_runners = Table(
    "cell_runners",
    _TABLES,
    Column("runner", Text, primary_key=True),
    Column("expires", Double, nullable=False),
    Column("cannot", Text, nullable=False, server_default="[]"),
)
"""``cannot``: numbers of cells that the process cannot work on, as JSON."""


class CellState(NamedTuple):
    """A cell, who works on it, and what it was given."""

    cell: Cell
    runner: str
    """Empty: nobody."""
    share: float
    given: int
    """The number of its part."""
    bound: float
    price: float | None
    told: float | None
    """When it told its demand last."""


class Claims(NamedTuple):
    """Which cells a runner is to work on, and how many others there are."""

    mine: dict[int, CellState]
    runners: int
    unsettled: list[int]
    """Cells of which a change has begun that nobody carries on."""


class Directory:
    """The coordinating database, open."""

    def __init__(self, store: str, *, shared: bool = False, clock: Callable[[], float] = time.time) -> None:
        self._place = place_of(store)
        self._clock = clock
        if isinstance(self._place, URL):
            self._engine = postgres_engine(self._place, session_name())
            self.name = repr(self._place.render_as_string())
        else:
            check_file(self._place, create=True)
            new_file(self._place.resolve(), shared=shared).close() if not self._place.exists() else None
            self._engine = sqlite_engine(self._place)
            self.name = repr(str(self._place))

    @property
    def in_file(self) -> Path | None:
        """The file that it is; None on PostgreSQL."""
        return self._place if isinstance(self._place, Path) else None

    def close(self) -> None:
        """Let go of it."""
        close_engine(self._engine)

    # --- cells

    def exists(self) -> bool:
        """Tell whether there are cells; complain of something else."""
        with troubles(self.name, opening=True), self._engine.connect() as connection:
            tables = set(inspect(connection).get_table_names())
        if _cells.name in tables:
            return True
        if "mirror_meta" in tables:
            raise InvalidInput(
                f"{self.name} is a mirror of one cell: take cells out of mirror.toml, or name another store "
                "and import into it what this one exports"
            )
        return False

    def schema(self) -> str:
        """Return the schema of the coordinating tables, on PostgreSQL."""
        with troubles(self.name), self._engine.connect() as connection:
            return str(connection.scalar(select(func.current_schema())) or "public")

    def create(self, cells: Sequence[Cell], rules: str) -> None:
        """Note the first cells, each with an equal part of the budget, which they have been told of."""
        with troubles(self.name, opening=True), self._engine.connect() as connection:
            if self.in_file is None:
                connection.execute(select(func.pg_advisory_xact_lock(0x756E7374616C65)))
            else:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            if _cells.name not in set(inspect(connection).get_table_names()):
                _TABLES.create_all(connection, checkfirst=False)
                share = 1.0 / len(cells)
                rows = [{**_row(one), "share": share, "bound": share, "given": 1} for one in cells]
                connection.execute(insert(_cells), rows)
                connection.execute(
                    insert(_budget), {"one": 1, "given": 1, "shared": 0.0, "price": None, "rules": rules}
                )
            connection.commit()

    def cells(self) -> list[Cell]:
        """Return all cells, in the order of their numbers."""
        return [one.cell for one in self.states()]

    def states(self) -> list[CellState]:
        """Return all cells with who works on them."""
        with self._transaction(locked=False) as (connection, now):
            return [_state(row, now) for row in connection.execute(_all_cells()).mappings()]

    def price(self) -> float | None:
        """Return the price at which the budget was shared last; None if it never was."""
        with self._transaction(locked=False) as (connection, _):
            found = connection.scalar(select(_budget.c.price))
            return None if found is None else float(found)

    def runners(self) -> int:
        """Return how many processes work on cells."""
        with self._transaction(locked=False) as (connection, now):
            query = select(func.count()).select_from(_runners).where(_runners.c.expires > now)
            return int(connection.scalar(query) or 0)

    def rules(self) -> str:
        """Return which groups the rules made when elements were divided."""
        with self._transaction(locked=False) as (connection, _):
            return str(connection.scalar(select(_budget.c.rules)))

    def set_rules(self, rules: str) -> None:
        """Note which groups the rules make."""
        with self._transaction() as (connection, _):
            connection.execute(update(_budget).values(rules=rules))

    # --- work

    def claim(
        self,
        runner: str,
        held: Sequence[int],
        *,
        cannot: Sequence[int] = (),
        leaving: Sequence[int] = (),
    ) -> Claims:
        """Say that a runner is there; return which cells it is to work on, as many as others have.

        It gets none that it ``cannot`` work on, since it does not reach them, say, and others may have more
        for that; and none that it is ``leaving`` just now.
        """
        excluded = {*cannot, *leaving}
        with self._transaction() as (connection, now):
            self._come_back(connection, runner, now)
            connection.execute(
                delete(_runners).where((_runners.c.expires <= now) | (_runners.c.runner == runner))
            )
            others = connection.scalars(select(_runners.c.cannot)).all()
            left_by_others = {number for said in others for number in json.loads(said)}
            row = {"runner": runner, "expires": now + CLAIM_SECONDS, "cannot": json.dumps(sorted(cannot))}
            connection.execute(insert(_runners), row)
            states = [_state(row, now) for row in connection.execute(_all_cells()).mappings()]
            most = ceil(len(states) / (len(others) + 1))
            able = [
                one
                for one in states
                if not one.cell.changes and one.runner in {"", runner} and one.cell.number not in excluded
            ]
            able.sort(key=lambda one: (one.cell.number not in held, one.runner != runner))
            mine = {
                one.cell.number: one
                for place, one in enumerate(able)
                if place < most or one.cell.number in left_by_others
            }
            left = [one.cell.number for one in states if one.runner == runner and one.cell.number not in mine]
            for numbers, who, expires in ((list(mine), runner, now + CLAIM_SECONDS), (left, "", 0.0)):
                if numbers:
                    statement = update(_cells).where(_cells.c.number.in_(numbers))
                    connection.execute(statement.values(runner=who, expires=expires))
            unsettled = [
                one.cell.number for one in states if one.cell.state and not (one.cell.changes and one.runner)
            ]
            return Claims(mine, len(others) + 1, unsettled)

    @staticmethod
    def _come_back(connection: Connection, runner: str, now: float) -> None:
        """Let all claims count on for a moment, if this database was away for so long that all have ended.

        A runner that was there before, and is the first to come back, would get all cells; the others would
        let go of theirs, for nothing.
        """
        ends = {row.runner: row.expires for row in connection.execute(select(_runners))}
        if runner not in ends or max(ends.values()) > now:
            return
        for table in (_runners, _cells):
            statement = update(table).where(table.c.runner.in_(list(ends)), table.c.expires <= now)
            connection.execute(statement.values(expires=now + _BACK_SECONDS))

    def release(self, runner: str) -> None:
        """Say that a runner is gone."""
        with self._transaction() as (connection, _):
            connection.execute(delete(_runners).where(_runners.c.runner == runner))
            statement = update(_cells).where(_cells.c.runner == runner)
            connection.execute(statement.values(runner="", expires=0.0))

    # --- changes

    def next_given(self) -> int:
        """Return a number for parts of the budget that are given in another way."""
        with self._transaction() as (connection, _):
            connection.execute(update(_budget).values(given=_budget.c.given + 1))
            return int(connection.scalar(select(_budget.c.given)) or 0)

    def begin_change(self, number: int, change: str) -> bool:
        """Note that a cell is being changed, so that nobody works on it; False: it is already."""
        with self._transaction() as (connection, now):
            statement = update(_cells).where(_cells.c.number == number, _cells.c.state == "")
            values = {"state": change, "runner": _CHANGING, "expires": now + CLAIM_SECONDS}
            return connection.execute(statement.values(values)).rowcount == 1

    def keep_change(self, number: int, change: str) -> bool:
        """Say that a change goes on; False: it is over."""
        with self._transaction() as (connection, now):
            statement = update(_cells).where(_cells.c.number == number, _cells.c.state == change)
            values = {"runner": _CHANGING, "expires": now + CLAIM_SECONDS}
            return connection.execute(statement.values(values)).rowcount == 1

    def give_up_change(self, number: int, change: str) -> None:
        """Note that nothing is done to a cell any more, if this is what was."""
        with self._transaction() as (connection, _):
            there = (_cells.c.number == number) & (_cells.c.state == change)
            nobody = update(_cells).where(there, _cells.c.runner == _CHANGING)
            connection.execute(nobody.values(runner="", expires=0.0))
            connection.execute(update(_cells).where(there).values(state=""))

    def end_change(
        self, change: str, after: Sequence[tuple[Cell, float]], given: int, left_to_do: str
    ) -> None:
        """Note what cells there are instead of one, each with its part of the budget that this one had.

        The first has its number. ``given``: the number of these parts, which their stores have already; 0:
        the only one has the same part.
        """
        number = after[0][0].number
        with self._transaction() as (connection, _):
            there = (_cells.c.number == number) & (_cells.c.state == change)
            before = connection.execute(select(_cells).where(there)).mappings().one_or_none()
            if before is None:  # another was quicker
                return
            for cell, part in after:
                values = _row(cell) | {"runner": "", "expires": 0.0}
                if given:
                    share = before["share"] * part
                    values |= {"share": share, "bound": share, "given": given, "curve": "", "told": None}
                if cell.number == number:
                    values["state"] = left_to_do
                    connection.execute(update(_cells).where(there).values(values))
                else:
                    connection.execute(insert(_cells), values | {"price": before["price"]})

    # --- the budget

    def acknowledge(self, number: int, given: int) -> None:
        """Note that a cell goes by the part with this number, and by none before."""
        with self._transaction() as (connection, _):
            same = (_cells.c.number == number) & (_cells.c.given == given)
            connection.execute(update(_cells).where(same).values(bound=_cells.c.share))

    def tell(self, demands: Mapping[int, tuple[DemandCurve, float]]) -> None:
        """Note what cells would spend at prices, and the price of each."""
        with self._transaction() as (connection, now):
            for number, (curve, price) in demands.items():
                told = json.dumps([curve.prices.tolist(), curve.spent.tolist()])
                statement = update(_cells).where(_cells.c.number == number)
                connection.execute(statement.values(curve=told, price=price, told=now))

    def share_out(self, *, every: float = SHARE_SECONDS) -> bool:
        """Give each cell its part of the budget, if that is due; tell whether it was.

        Whoever comes first does it. Cells that never told a demand, or are being changed, keep the part that
        they have.
        """
        with self._transaction() as (connection, now):
            kept = connection.execute(select(_budget)).mappings().one()
            if 0.0 <= now - kept["shared"] < 0.9 * every:
                return False
            rows = connection.execute(_all_cells()).mappings().all()
            told = [bool(row["curve"]) and not row["state"] for row in rows]
            wanted, price = [float(row["share"]) for row in rows], None
            if any(told):
                curves = [
                    DemandCurve(*map(np.array, json.loads(row["curve"])))
                    for row, one in zip(rows, told, strict=True)
                    if one
                ]
                silent = sum(part for part, one in zip(wanted, told, strict=True) if not one)
                price, parts = share_budget(curves, max(1.0 - silent, 0.0))
                left = iter(parts.tolist())
                wanted = with_floor([next(left) if one else w for w, one in zip(wanted, told, strict=True)])
            number = kept["given"]
            given = next_shares([Given(row["share"], row["bound"]) for row in rows], wanted)
            for row, new in zip(rows, given, strict=True):
                if new.share != row["share"]:
                    number += 1
                    statement = update(_cells).where(_cells.c.number == row["number"])
                    connection.execute(statement.values(share=new.share, bound=new.bound, given=number))
            connection.execute(update(_budget).values(shared=now, given=number, price=price))
            return True

    # --- one transaction

    @contextmanager
    def _transaction(self, *, locked: bool = True) -> Iterator[tuple[Connection, float]]:
        """Do all of it or nothing; ``locked``: nobody else does so at the same time. It has the time."""
        with troubles(self.name), self._engine.connect() as connection:
            if self.in_file is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if locked else "BEGIN")
                yield connection, self._clock()
            else:
                if locked:
                    connection.execute(_BRIEFLY)
                    connection.execute(select(_budget.c.one).with_for_update())
                clock = text("SELECT extract(epoch FROM clock_timestamp())")
                yield connection, float(connection.scalar(clock) or 0.0)
            connection.commit()


def _all_cells() -> Select[Any]:
    return select(_cells).order_by(_cells.c.number)


def _row(cell: Cell) -> dict[str, object]:
    names = ("number", "parts", "parent", "server", "place", "copies", "state")
    return {name: getattr(cell, name) for name in names}


def _state(row: Mapping[Any, Any], now: float) -> CellState:
    names = ("number", "parts", "parent", "server", "place", "copies", "state")
    cell = Cell(*(row[name] for name in names))
    runner = row["runner"] if row["expires"] > now else ""
    return CellState(cell, runner, row["share"], row["given"], row["bound"], row["price"], row["told"])
