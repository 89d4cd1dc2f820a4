"""A transaction of a store in SQL: its parts are in the modules beside this one."""

from __future__ import annotations

from sqlalchemy import Connection, Table, bindparam, func, literal_column, update
from sqlalchemy.dialects import postgresql, sqlite

from unstale.errors import Trouble
from unstale.mirror.store.copies import Copies

from . import discovered as sql_discovered
from . import elements as sql_elements
from . import housekeeping as sql_housekeeping
from . import listing as sql_listing
from . import overview as sql_overview
from . import planner_rows as sql_planner
from . import polls as sql_polls
from . import room as sql_room
from . import samples as sql_samples
from .schema import numbers
from .session import Taken

__all__ = ["SqlTransaction"]

_KINDS = ("elements", "groups", "polls", "versions", "edits")
_TAKE = (
    update(numbers)
    .values({kind: numbers.c[kind] + bindparam(f"more_{kind}") for kind in _KINDS})
    .returning(*(numbers.c[kind] for kind in (*_KINDS, "planner")))
)
"""Run by each transaction that adds rows: takes so many numbers of each kind; returns the last of each."""
_PATIENCE = func.set_config("idle_in_transaction_session_timeout", "10s", literal_column("true"))
_TAKE_BRIEFLY = _TAKE.returning(_PATIENCE)
"""The same on PostgreSQL, unless it is the planner who asks: all others wait for this transaction, so the
server ends it if nothing comes from its worker. A planner may think for longer; if it hangs, others see to
that (`unstale.mirror.store.sql.planner_seat`)."""


class SqlTransaction:
    """All of what is done with it is recorded, or nothing.

    On SQLite it reads until something is written, and only then waits for its turn as the one writer; what it
    reads from then on may be newer than what it read before, as always on PostgreSQL.
    """

    def __init__(
        self, connection: Connection, copies: Copies, planner: int | None, span_last: int = 0
    ) -> None:
        self.connection = connection
        self.copies = copies
        self.span_last = span_last
        """Up to which number polls have a span, as far as it knows."""
        self._planner = planner
        self._taken: Taken | None = None
        self._sqlite = connection.dialect.name == "sqlite"
        self._writes = not self._sqlite
        if self._sqlite:
            connection.exec_driver_sql("BEGIN")

    def write(self) -> None:
        """Say that this transaction is going to write."""
        if not self._writes:
            self.connection.exec_driver_sql("ROLLBACK")  # nothing has been written
            self.connection.exec_driver_sql("BEGIN IMMEDIATE")
            self._writes = True

    def take(
        self, *, elements: int = 0, groups: int = 0, polls: int = 0, versions: int = 0, edits: int = 0
    ) -> Taken:
        """Take so many numbers; no other transaction gets any until this one ends."""
        if self._taken is not None and not (elements or groups or polls or versions or edits):
            return self._taken  # the row is ours until the end
        more = {
            "more_elements": elements, "more_groups": groups, "more_polls": polls, "more_versions": versions,
            "more_edits": edits,
        }  # fmt: skip
        brief = not self._sqlite and (self._planner is None or self._planner < 0)
        row = self.connection.execute(_TAKE_BRIEFLY if brief else _TAKE, more).one()
        self._taken = Taken(*row[: len(Taken._fields)])
        return self._taken

    def plan(self) -> None:
        """Make sure that nobody else has become the planner meanwhile.

        A worker that becomes it changes the row of numbers, and so waits for the end of this transaction.
        """
        if self._planner is not None and not self._sqlite and self.take().planner != self._planner:
            raise Trouble("another worker is the planner now, so nothing of this was written")

    def insert(self, table: Table) -> sqlite.Insert | postgresql.Insert:
        """Return an insert that can say what happens if the row is there already."""
        return sqlite.insert(table) if self._sqlite else postgresql.insert(table)

    add = sql_elements.add
    remove = sql_elements.remove
    pause = sql_elements.pause
    resume = sql_elements.resume
    archive = sql_elements.archive
    forget = sql_elements.forget
    find = sql_elements.find
    elements = sql_elements.list_elements
    numbered = sql_elements.numbered
    named_by = sql_discovered.named_by
    going_back_to = sql_discovered.going_back_to
    count_in_groups = sql_discovered.count_in_groups
    read_again = sql_discovered.read_again
    set_links = sql_discovered.set_links
    links = sql_discovered.list_links
    page = sql_listing.page
    tags = sql_listing.tags
    sources = sql_elements.sources
    count = sql_elements.count
    edit = sql_elements.edit
    groups = sql_elements.list_groups
    some_elements = sql_overview.some_elements
    first_added = sql_overview.first_added
    group_sizes = sql_overview.group_sizes
    neglected = sql_overview.neglected
    pay = sql_elements.pay
    referred = sql_elements.referred

    load = sql_planner.load
    save = sql_planner.save
    state = sql_planner.state
    keep = sql_planner.keep
    heard = sql_planner.heard
    edits = sql_planner.list_edits
    last_edit = sql_planner.last_edit

    hand_out = sql_polls.hand_out
    hand_to = sql_polls.hand_to
    lease = sql_polls.lease
    held = sql_polls.held
    leases_of = sql_polls.leases_of
    leases_held = sql_polls.leases_held
    groups_named = sql_polls.groups_named
    limit_group = sql_polls.limit_group
    set_validators = sql_polls.set_validators
    expire = sql_polls.expire
    leased = sql_polls.leased
    record = sql_polls.record
    versions = sql_polls.list_versions
    polls = sql_polls.list_polls
    tally = sql_polls.tally

    read = sql_housekeeping.read
    latest = sql_housekeeping.latest
    refetch = sql_housekeeping.refetch
    reads = sql_housekeeping.list_reads
    read_by_users = sql_housekeeping.read_by_users
    reads_by_user = sql_housekeeping.list_reads_by_user
    reads_by_hour = sql_housekeeping.list_reads_by_hour
    sample = sql_samples.sample
    samples = sql_samples.list_samples
    alive = sql_housekeeping.alive
    workers = sql_housekeeping.list_workers
    skews = sql_housekeeping.skews
    clock = sql_housekeeping.clock
    prune = sql_housekeeping.prune
    room_taken = sql_room.room_taken
    room_of_copies = sql_room.room_of_copies
    drop_old_versions = sql_room.drop_old_versions
    drop_copies = sql_room.drop_copies
