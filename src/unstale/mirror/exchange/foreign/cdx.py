"""CDX files: indexes of web archives (CDX with its legend, and CDXJ), read as a log of polls."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.tables.files import MOST_EXPANSION, MOST_UNPACKED_BYTES

from .foreign_mirror import MOST_POLLS, ForeignElement, ForeignMirror, ForeignPoll

__all__ = ["read_cdx"]

_MOST_LINE, _MOST_BYTES = 65_536, 4_000_000_000
_LEGENDS = {
    7: "N b a m s k S",
    9: "N b a m s k r V g",
    10: "N b a m s k r M V g",
    11: "N b a m s k r M S V g",
}
_Row = tuple[str, float, str, str]
"""Address, moment, status, digest."""


def read_cdx(path: Path) -> ForeignMirror:
    """Read an index; the digest of a record tells whether the page had changed since the record before."""
    try:
        rows = sorted(_rows(path))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it was cut, or is no text"
        raise InvalidInput(f"{path}: cannot be read: {why}") from None
    found = ForeignMirror()
    for key, records in groupby(rows, lambda row: row[0]):
        found.add(ForeignElement(key))
        last, at = "", -1.0
        for _, moment, status, digest in records:
            if moment == at:
                continue
            at = moment
            if status in {"404", "410"}:
                found.saw(ForeignPoll(key, moment, "gone"))
            elif status and status[0] == "5":
                found.saw(ForeignPoll(key, moment, "failed"))
            elif not last:
                found.saw(ForeignPoll(key, moment, "new"))
                last = digest
            else:
                found.saw(ForeignPoll(key, moment, "unchanged" if digest == last else "changed"))
                last = digest
    return found


def _rows(path: Path) -> Iterator[_Row]:
    legend, size, most = "", 0, float(_MOST_BYTES)
    if path.name.endswith(".gz"):
        most = max(MOST_EXPANSION * path.stat().st_size, MOST_UNPACKED_BYTES)
    opened = gzip.open if path.name.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        number = rows = 0
        while line := file.readline(_MOST_LINE + 1):
            number, size = number + 1, size + len(line)
            if len(line) > _MOST_LINE or size > most:
                raise InvalidInput(f"{path}, line {number}: is too long, or the file is")
            if line.startswith(" CDX "):
                legend = line[5:].strip()
            elif line.strip() and not line.startswith("!"):
                try:
                    row = _row(line, legend)
                except (ValueError, KeyError, IndexError, TypeError, RecursionError):
                    raise InvalidInput(
                        f"{path}, line {number}: is no record of CDX or CDXJ; was it cut?"
                    ) from None
                if row is not None:
                    rows += 1
                    if rows > MOST_POLLS:  # they are sorted in memory
                        raise InvalidInput(f"{path}: has more than {MOST_POLLS:,} records; divide the file")
                    yield row


def _row(line: str, legend: str) -> _Row | None:
    if "{" in line:
        _, stamp, text = line.split(" ", 2)
        said = json.loads(text)
        address, status, digest = str(said["url"]), str(said.get("status", "")), str(said.get("digest", ""))
    else:
        fields = line.split()
        names = (legend or _LEGENDS[len(fields)]).split()
        if len(fields) != len(names):
            raise ValueError(line)
        said = dict(zip(names, fields, strict=True))
        stamp, address, status, digest = said["b"], said["a"], said.get("s", "-"), said["k"]
    if not address.startswith(("http://", "https://")):
        return None  # requests, metadata and the like
    moment = datetime.strptime(stamp, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp()
    return address, moment, "" if status == "-" else status, digest.removeprefix("sha1:")
