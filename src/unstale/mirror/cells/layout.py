"""Which elements are in which cell, and where each cell is.

Elements are divided by a hash of their group, so that the limits of a group are those of one cell. A cell has
all groups whose hash leaves its number as the remainder of a division by its ``parts``. When a cell is split,
each of the two halves has twice as many parts: half of the groups stay, and the others go to the new cell.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.engine import URL

from unstale.errors import InvalidInput

__all__ = ["Cell", "address_of", "hash_of", "name_of_server"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One of the cells of a mirror."""

    number: int
    parts: int
    """It has the groups whose hash, divided by this, leaves its number."""
    parent: int
    """The cell that it was split from; its own number if from none."""
    server: str
    """The database it is in, without user and password; empty: a file beside the coordinating one."""
    place: str
    """Its schema there, or the name of its file."""
    copies: str
    """Its part of the folder of copies, or of the bucket."""
    state: str = ""
    """Empty while it works as usual; else what is being done to it, as `CellChange` writes it."""

    @property
    def changes(self) -> bool:
        """Whether nobody can work on it: it is moved, or split."""
        return bool(self.state) and '"doing":"drop"' not in self.state

    def has(self, group: str) -> bool:
        """Tell whether the elements of a group are in this cell.

        >>> Cell(9, 16, 9, "", "", "").has("http:example.org"), hash_of("http:example.org") % 16
        (True, 9)
        """
        return hash_of(group) % self.parts == self.number


def hash_of(group: str) -> int:
    """Return the hash of a group, the same on every machine and for ever."""
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:8], "big")


def name_of_server(url: str) -> str:
    """Return by what name cells know a database: no user, no password, no options.

    >>> name_of_server("postgresql://me:secret@db2:5433/mirror?sslmode=require")
    'db2:5433/mirror'
    """
    address = make_url(url)
    host = address.host or address.query.get("host") or ""
    port = address.port or address.query.get("port") or ""
    return f"{host}{f':{port}' if port else ''}/{address.database or ''}"


def address_of(cell: Cell, store: str, servers: tuple[str, ...]) -> str:
    """Return where the store of a cell is, as `open_store` takes it."""
    if not cell.server:
        return str(Path(store).parent / cell.place)
    for one in (store, *servers):
        if "://" in one and name_of_server(one) == cell.server:
            return in_schema(make_url(one), cell.place).render_as_string(hide_password=False)
    raise InvalidInput(
        f"cell {cell.number} is in the database {cell.server}, which mirror.toml does not name: add its "
        "address to servers below [mirror]"
    )


def in_schema(url: URL, schema: str) -> URL:
    """Return the address of a schema of a database."""
    said = url.query.get("options", "")
    before = said if isinstance(said, str) else " ".join(said)
    return url.update_query_dict({"options": f"{before} -csearch_path={schema}".strip()})
