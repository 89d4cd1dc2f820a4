"""Access logs: who wanted what, and when.

A log is in the common or combined log format of web servers, JSON lines, or CSV or TSV with a header; plain
or compressed (gzip, bzip2, xz); a file or standard input. What it is is seen from its beginning, unless it is
said. It is read in blocks, so that memory does not depend on its length, and lines that cannot be read are
counted, not fatal.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from unstale.tables.complaints import bad_file, reason, shown_path
from unstale.tables.files import BLOCK_BYTES, Advance, Joined, ignore

from .lines import Access, Complaint, Requests, said_by, text_of
from .records import (
    Column,
    Instants,
    LogColumns,
    Record,
    json_records,
    quick_columns,
    quick_json,
    quick_rows,
    rows,
    taken_from,
    wanted_fields,
)
from .times import AccessRun

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

FORMATS = ("combined", "json", "csv", "tsv")
MOST_LINE_BYTES = 1 << 24
"""Bytes after which a line is cut."""
_COMPLAINTS_KEPT = 5
_SNIFFED_LINES = 20
"""Lines that are looked at to see what a log is."""


class Accesses(NamedTuple):
    """Some accesses, as `unstale.estimation.Profile` counts them."""

    keys: list[str]
    times: Floats
    """In seconds."""
    places: NDArray[np.int64] | None = None
    """For each access, where its key is; None if there is one for each."""
    users: list[str] | None = None
    user_places: NDArray[np.int64] | None = None
    counts: Floats | None = None

    def without(self, some: NDArray[np.int64]) -> Accesses:
        """Return the others."""
        import numpy as np

        kept = np.delete(np.arange(self.times.size), some)
        keys, users = self.keys, self.users
        if self.places is None:
            keys = [keys[place] for place in kept.tolist()]
        if users is not None and self.user_places is None:
            users = [users[place] for place in kept.tolist()]
        return Accesses(
            keys,
            self.times[kept],
            None if self.places is None else self.places[kept],
            users,
            None if self.user_places is None else self.user_places[kept],
            None if self.counts is None else self.counts[kept],
        )


@dataclass
class Tally:
    """What has been read."""

    lines: int = 0
    accesses: float = 0.0
    passed: int = 0
    """Requests that do not count."""
    late: AccessRun | None = None
    """Accesses that are left out, as they are too late."""
    malformed: int = 0
    examples: list[Complaint] = field(default_factory=list)
    """The first lines that could not be read."""

    def complain(self, complaint: Complaint) -> None:
        """Count a line that cannot be read."""
        self.malformed += 1
        if len(self.examples) < _COMPLAINTS_KEPT:
            self.examples.append(complaint)


class AccessLog:
    """An access log; ``kind`` is one of `FORMATS`, or None to see what it is.

    ``fields`` says what the fields of records are called, by role (see `records.FIELDS`); ``users`` asks
    for the user of each access. Accesses later than ``until``, in seconds since 1970, are left out.
    """

    def __init__(
        self,
        path: str,
        *,
        kind: str | None = None,
        fields: Mapping[str, str] | None = None,
        requests: Requests | None = None,
        users: bool = False,
        until: float = inf,
    ) -> None:
        self.path, self.kind, self.users, self.until = path, kind, users, until
        self.requests = requests or Requests()
        self._fields = fields or {}
        self.tally = Tally()

    @property
    def length(self) -> int | None:
        """Bytes of the file, as `read` counts them; None if that is not known."""
        if self.path == "-":
            return None
        try:
            return Path(self.path).stat().st_size
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    def read(self, advance: Advance = ignore) -> Iterator[Accesses]:
        """Read all of it, part by part; `tally` tells what was found."""
        with self._complaining():
            file = self._open(advance)
            with file:
                blocks = _blocks(file)
                first = next(blocks, b"")
                if not first.strip():
                    raise bad_file(self.path, "empty; a log has a line for each access")
                self.kind = self.kind or self._sniffed(first)
                yield from map(self._in_time, self._parts(_again(first, blocks)))

    def _parts(self, blocks: Iterator[bytes]) -> Iterator[Accesses]:
        if self.kind == "combined":
            return map(self._scanned, blocks)
        first = next(blocks)
        if self.kind == "json":
            have = _json_fields(first)
            if not have:
                raise bad_file(self.path, "its first lines are not JSON; --format says what it is")
            return self._collected(_again(first, blocks), self._names(have), quick_json, json_records)
        delimiter = "\t" if self.kind == "tsv" else ","
        header, first = _header(self.path, first, delimiter)
        self.tally.lines = 1
        places = {role: header.index(name) for role, name in self._names(header).items()}
        return self._collected(
            _again(first, blocks),
            places,
            partial(quick_rows, width=len(header), delimiter=delimiter),
            partial(rows, width=len(header), delimiter=delimiter),
        )

    def _in_time(self, part: Accesses) -> Accesses:
        """Leave out accesses that are too late."""
        import numpy as np

        late = np.flatnonzero(part.times > self.until)
        if not late.size:
            return part
        last = int(late[part.times[late].argmax()])
        key = part.keys[last if part.places is None else int(part.places[last])]
        times = part.times[late]
        run = AccessRun(float(times.min()), float(times.max()), late.size, self.path, key)
        tally = self.tally
        tally.late = run if tally.late is None else tally.late.joined(run)
        tally.accesses -= float(late.size if part.counts is None else part.counts[late].sum())
        return part.without(late)

    # --- opening --------------------------------------------------------------------------------------------

    def _open(self, advance: Advance) -> BinaryIO:
        raw = _Typed(self.path) if self.path == "-" else io.FileIO(self.path)
        file = io.BufferedReader(Joined(raw, advance=advance), BLOCK_BYTES)
        magic = file.peek(6)[:6]
        if magic.startswith(b"\x1f\x8b"):
            return cast("BinaryIO", gzip.open(file))
        if magic.startswith(b"BZh"):
            return cast("BinaryIO", bz2.open(file))
        if magic.startswith(b"\xfd7zXZ\0"):
            return cast("BinaryIO", lzma.open(file))
        if magic.startswith(b"\x28\xb5\x2f\xfd"):
            raise bad_file(self.path, "zstd is not unpacked here; zstdcat FILE | unstale profile - does it")
        if magic.startswith(b"PAR1"):
            raise bad_file(self.path, "Parquet is no format of logs; write it as CSV")
        return file

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as error:
            raise bad_file(self.path, f"cut short or damaged; {reason(error)}") from None
        except OSError as error:
            raise bad_file(self.path, reason(error)) from None

    def _sniffed(self, block: bytes) -> str:
        """Return what a log seems to be."""
        lines = [line.strip() for line in _beginning(block.lstrip()) if line.strip()]
        if any(not isinstance(said_by(line, self.requests), str) for line in lines):
            return "combined"
        if any(line.startswith(b"{") for line in lines[:1]):
            return "json"
        name = self.path.lower().removesuffix(".gz").removesuffix(".bz2").removesuffix(".xz")
        if name.endswith((".csv", ".tsv")):
            return name[-3:]
        if name.endswith((".json", ".jsonl", ".ndjson")):
            return "json"
        for kind, delimiter in (("tsv", b"\t"), ("csv", b",")):
            if delimiter in lines[0]:
                return kind
        begins = text_of(lines[0][:40])
        said = f"it is neither in combined log format, nor JSON lines, nor CSV; it begins {begins!r}"
        raise bad_file(self.path, f"{said}. --format says what it is")

    def _names(self, have: list[str]) -> dict[str, str]:
        return wanted_fields(shown_path(self.path), have, self._fields, users=self.users)

    # --- reading --------------------------------------------------------------------------------------------

    def _scanned(self, block: bytes) -> Accesses:
        """Read a block in combined log format."""
        import numpy as np

        from .compiled.lines import scan

        tally, prefix = self.tally, self.requests.prefix
        found = scan(block, *self.requests.for_kernel(), queries=self.requests.queries, users=self.users)
        keys = [prefix + text_of(block[a:b]) for a, b in found.keys.tolist()]
        users = [text_of(block[a:b]) for a, b in found.users.tolist()]
        accesses, passed = [], found.passed
        for number, start, end in found.odd.tolist():
            said = said_by(block[start:end], self.requests)
            if isinstance(said, Access):
                accesses.append(said)
            elif said is None:
                passed += 1
            else:
                tally.complain(Complaint(tally.lines + number, said))
        tally.lines += found.lines
        tally.passed += passed
        tally.accesses += found.times.size + len(accesses)
        times, places, user_places = found.times.astype(float), found.places, found.user_places
        if accesses:
            times = np.concatenate([times, [one.time for one in accesses]])
            places = np.concatenate([places, len(keys) + np.arange(len(accesses), dtype=np.int32)])
            keys += [one.key for one in accesses]
            if self.users:
                user_places = np.concatenate(
                    [user_places, len(users) + np.arange(len(accesses), dtype=np.int32)]
                )
                users += [one.user for one in accesses]
        return Accesses(keys, times, places.astype(np.int64), *((users, user_places) if self.users else ()))

    def _collected(
        self,
        blocks: Iterator[bytes],
        names: Mapping[str, Any],
        quick: Callable[[bytes], Column | None],
        slow: Callable[[bytes, int], Iterator[Record | Complaint]],
    ) -> Iterator[Accesses]:
        """Read records with fields, quickly if nothing is odd in a block."""
        import numpy as np

        instants = Instants()
        for block in blocks:
            column = quick(block)
            found = None if column is None else quick_columns(column, names, self.requests, instants)
            if found is None:
                found = self._sifted(
                    taken_from(slow(block, self.tally.lines + 1), names, self.requests, instants)
                )
            self.tally.lines += block.count(b"\n") + (not block.endswith(b"\n"))
            self.tally.accesses += sum(found.counts)
            self.tally.passed += found.passed
            yield Accesses(
                found.keys,
                np.array(found.times, float),
                users=found.users if self.users else None,
                counts=np.array(found.counts, float) if "count" in names else None,
            )

    def _sifted(self, said: Iterator[Access | Complaint | None]) -> LogColumns:
        """Return the accesses; complaints are counted."""
        kept, passed = list[Access](), 0
        for one in said:
            if isinstance(one, Access):
                kept.append(one)
            elif one is None:
                passed += 1
            else:
                self.tally.complain(one)
        return LogColumns(
            [one.key for one in kept],
            [one.time for one in kept],
            [one.user for one in kept],
            [one.times for one in kept],
            passed,
        )


class _Typed(io.RawIOBase):
    """Standard input, which is not closed with what reads it."""

    def __init__(self, path: str) -> None:
        if sys.stdin is None:
            raise bad_file(path, "it is closed")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read as much as there is at once."""
        source = sys.stdin.buffer
        got = source.read1(len(buffer)) if hasattr(source, "read1") else source.read(len(buffer))
        buffer[: len(got)] = got
        return len(got)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """Cut a file into blocks of whole lines."""
    rest = b""
    while more := file.read(BLOCK_BYTES):
        end = more.rfind(b"\n") + 1
        if end:
            yield rest + more[:end]
            rest = more[end:]
        else:
            rest += more
        if len(rest) > MOST_LINE_BYTES:
            yield rest
            rest = b""
    if rest:
        yield rest


def _again(first: bytes, others: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _beginning(block: bytes) -> list[bytes]:
    """Return the first lines, and at least one that is whole, however long."""
    lines = block[: 1 << 20].split(b"\n", _SNIFFED_LINES)[:_SNIFFED_LINES]
    return lines if len(lines) > 1 else block.split(b"\n", 1)[:1]


def _json_fields(block: bytes) -> list[str]:
    """Return the fields of the first records."""
    found: dict[str, None] = {}
    for line in _beginning(block):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict):
            found.update(dict.fromkeys(record))
    return list(found)


def _header(path: str, block: bytes, delimiter: str) -> tuple[list[str], bytes]:
    """Return the names in the first line, and the other lines."""
    line, _, rest = block.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
    try:
        names = next(csv.reader([text_of(line)], delimiter=delimiter), [])
    except csv.Error as error:
        said = "a carriage return" if b"\r" in line.removesuffix(b"\r") else str(error)
        raise bad_file(path, f"its first line, with the names of its columns, has {said}") from None
    return [name.strip() for name in names], rest
