"""The tables of a store, the same for SQLite and PostgreSQL.

What is known of an element is in three tables, by who writes it, so that nobody waits for another:
``elements`` is what people said of it, ``standing`` what workers found at the last poll, ``learned`` what the
planner made of it. Numbers are given out by the one row of ``numbers``: whoever has taken some holds it until
the transaction ends, so they become visible in the order in which they grow, and are never used twice.
There are no foreign keys: each insert would look them up, and only `elements` beside this module deletes.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    literal_column,
)

from unstale.policy import element_table

VERSION = 10
"""Of this schema; `unstale.mirror.store.sql.migrations` has a step to each version from the one before."""

METADATA = MetaData()
_Number = BigInteger().with_variant(Integer(), "sqlite")  # there only INTEGER is the number of the row itself

meta = Table(
    "mirror_meta",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
"""``schema``: the version of the schema. ``runner``: the process that runs, or ran. ``pruned``: how far old
versions have been deleted. ``polls_moved``: the last poll that has left the tables."""

numbers = Table(
    "numbers",
    METADATA,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    *(
        Column(name, _Number, nullable=False)
        for name in ("elements", "groups", "polls", "versions", "edits", "planner")
    ),
)
"""The last number given out, of each kind; ``planner`` counts who has been the planner."""

groups = Table(
    "groups",
    METADATA,
    Column("id", _Number, primary_key=True, autoincrement=False),
    Column("name", Text, nullable=False, unique=True),
    Column("blocked_until", Double, nullable=False),
    Column("why", Text, nullable=False),
    Column("spacing", Double, nullable=False),
    Column("paid_until", Double, nullable=False),
)

elements = Table(
    "elements",
    METADATA,
    Column("id", _Number, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False, unique=True),
    Column("source", Text, nullable=False),
    Column("group_id", _Number, nullable=False),
    Column("options", Text, nullable=False),
    Column("given", Text, nullable=False),
    Column("weight", Double, nullable=False),
    Column("max_age", Double, nullable=False),
    Column("min_interval", Double, nullable=False),
    Column("jitter", Double, nullable=False),
    Column("windows", Text, nullable=False),
    Column("via", _Number, index=True),
    Column("added", Double, nullable=False),
    Column("terms", Text, nullable=False, server_default=""),
    Column("keep", _Number),
    Column("keep_for", Double),
    Column("tags", Text, nullable=False, server_default=""),
)
"""``terms``: its objective and what is promised of it, as `unstale.policy.terms` writes them; since version
5. ``keep`` and ``keep_for``: how many versions are kept and for how many seconds, if that is said of it.
``tags``: each with a space on both sides, in order; since version 10."""
_tagged, _aging = elements.c.tags != "", elements.c.keep_for.is_not(None)
RETENTION = (
    Index("ix_elements_tags", elements.c.tags, sqlite_where=_tagged, postgresql_where=_tagged),
    Index("ix_elements_keep_for", elements.c.keep_for, sqlite_where=_aging, postgresql_where=_aging),
)

standing = Table(
    "standing",
    METADATA,
    Column("element", _Number, primary_key=True, autoincrement=False),
    Column("version", _Number),
    Column("fingerprint", Text),
    Column("validators", Text, nullable=False),
    Column("moved", Text),
    Column("detail", Text, nullable=False),
    Column("dropped", _Number),
)
"""``dropped``: how many bytes the copy had that was last dropped for want of room; since version 6."""

learned = Table(
    "learned",
    METADATA,
    Column("element", _Number, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False, index=True),
    Column("last", Double),
    Column("not_before", Double, nullable=False),
    Column("failures", _Number, nullable=False),
    Column("size", Double),
    Column("evidence", LargeBinary, nullable=False),
    Column("stays", Double),
)
"""``stays``: for how many seconds after the last poll its source promises that it stays; since version 7."""

AWAY: list[ColumnElement[str]] = [literal_column(f"'{state}'") for state in element_table.AWAY]
"""States of elements that nobody polls, in each text as they are: by them a database chooses how to join."""

versions = Table(
    "versions",
    METADATA,
    Column("id", _Number, primary_key=True, autoincrement=False),
    Column("element", _Number, nullable=False),
    Column("time", Double, nullable=False),
    Column("digest", Text, nullable=False, index=True),
    Column("size", _Number, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("modified", Double),
    Column("first", Boolean, nullable=False),
    Column("meta", Text, nullable=False),
    Index("ix_versions_element", "element", "id"),
)

polls = Table(
    "polls",
    METADATA,
    Column("id", _Number, primary_key=True, autoincrement=False),
    Column("element", _Number, nullable=False),
    Column("time", Double, nullable=False, index=True),
    Column("elapsed", Double),
    Column("outcome", Text, nullable=False),
    Column("traffic", _Number, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("detail", Text, nullable=False),
    Column("version", _Number),
    Column("planned", Boolean, nullable=False),
    Column("predicted", Double),
    Column("cost", Double),
    Column("stays", Double),
    Index("ix_polls_element", "element", "id"),
    postgresql_partition_by="RANGE (id)",
)
"""``stays``: as in ``learned``, as the poll heard it; since version 7. Since version 9 it has parts on
PostgreSQL, which `unstale.mirror.store.sql.poll_spans` makes and drops."""

poll_spans = Table(
    "poll_spans",
    METADATA,
    Column("first", _Number, primary_key=True, autoincrement=False),
    Column("last", _Number, nullable=False),
    Column("begun", Double, nullable=False),
)
"""Numbers of polls that leave the tables together, and when the first was recorded; since version 9."""

leases = Table(
    "leases",
    METADATA,
    Column("element", _Number, primary_key=True, autoincrement=False),
    Column("slot", Double, nullable=False),
    Column("late", Double, nullable=False),
    Column("group_id", _Number, nullable=False),
    Column("predicted", Double),
    Column("planned", Boolean, nullable=False),
    Column("cost", Double),
    Column("worker", Text, nullable=False),
    Column("expires", Double, nullable=False),
)
"""Without a worker they are there for the taking, and expire when it is too late to poll."""
_free = leases.c.worker == ""
Index("ix_leases_free", leases.c.slot, sqlite_where=_free, postgresql_where=_free)

edits = Table(
    "edits",
    METADATA,
    Column("id", _Number, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),
    Column("subject", _Number, nullable=False),
    Column("time", Double, nullable=False),
    Column("channel", Text, nullable=False),
)

kept = Table(
    "kept",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""What the planner keeps besides."""

workers = Table(
    "workers",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("expires", Double, nullable=False),
    Column("ahead", Double),
)
"""``ahead``: by how many seconds the clock of its machine is ahead of the database's; since version 4."""

planner = Table(
    "planner",
    METADATA,
    Column("one", SmallInteger, primary_key=True, autoincrement=False),
    Column("number", _Number, nullable=False),
    Column("session", Text, nullable=False),
    Column("beat", Double, nullable=False),
)
"""Who plans on PostgreSQL, and when it was heard of, by the clock of the server; since version 4."""

reads = Table(
    "reads",
    METADATA,
    Column("element", _Number, primary_key=True, autoincrement=False),
    Column("hour", Double, primary_key=True),
    Column("reads", _Number, nullable=False),
)
"""How often copies were read, by the hour; since version 2."""
Index("ix_reads_hour", reads.c.hour)

user_reads = Table(
    "user_reads",
    METADATA,
    Column("user", Text, primary_key=True),
    Column("element", _Number, primary_key=True, autoincrement=False),
    Column("hour", Double, primary_key=True),
    Column("reads", _Number, nullable=False),
)
"""How often users read copies, by the hour, if they are told apart; since version 5."""
Index("ix_user_reads_hour", user_reads.c.hour)

links = Table(
    "links",
    METADATA,
    Column("page", _Number, primary_key=True, autoincrement=False),
    Column("target", _Number, primary_key=True, autoincrement=False),
)
"""Which elements pages link to, if links are followed and importance comes from them; since version 8."""

history = Table(
    "history",
    METADATA,
    Column("time", Double, primary_key=True),
    *(Column(name, Double) for name in ("freshness", "low", "high", "age", "predicted")),
    Column("price", Double, nullable=False),
    *(Column(name, _Number, nullable=False) for name in ("polls", "failed", "traffic")),
    Column("beside", Text, nullable=False),
)
"""How the mirror did, once a minute; since version 3, as the indexes below, for tables of elements."""
PAGES = (
    Index("ix_elements_group", elements.c.group_id, elements.c.key),
    Index("ix_elements_weight", elements.c.weight),
)
