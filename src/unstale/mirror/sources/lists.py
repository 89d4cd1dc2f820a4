"""Reading what names many elements at once: lists, tables, OPML, sitemaps.

list        a key per line; blank lines and lines that begin with ``#`` do not count
csv         a table with a column ``key`` (or ``url``), and any of ``source``, ``weight``, ``max_age``,
            ``min_interval``, ``jitter``, ``windows``, ``group``; separated by commas, semicolons or tabs
opml        subscriptions of a feed reader: each ``xmlUrl`` is a feed
sitemap     its addresses; of a sitemap index, the sitemaps

Which of these a file is, it shows by its content; any of them may be gzipped. Lists and tables are read on
as they are asked for, so that they can have millions of lines. A line that cannot be an element is rejected,
and told with its number and the reason; the others count.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import IO, Any, Literal, cast

from unstale.errors import InvalidInput
from unstale.mirror.source import New
from unstale.quantities import duration
from unstale.tables.schema import Broken, Column, NumberRange, Schema, find_columns, readers_of

from .feeds.safe_xml import XmlElement, read_xml
from .feeds.sitemaps import read_sitemap
from .registry import source_for

Format = Literal["list", "csv", "opml", "sitemap"]
FORMATS: tuple[Format, ...] = ("list", "csv", "opml", "sitemap")

_REJECTED_LINES_KEPT = 1000
"""The others are only counted."""
_MOST_LINE_CHARACTERS = 10_000
_MOST_XML_BYTES = 100_000_000
_HEAD_BYTES = 65_536
"""Bytes by which a format is recognized."""
_NUMBER = NumberRange("a number >= 0", 0.0, sys.float_info.max)
_KEY = Column("key", "text", needed=True, synonyms=("url",))
_SCHEMA = Schema(
    (
        _KEY,
        Column("source", "text"),
        Column("weight", "number", words=_NUMBER.words, within=_NUMBER),
        Column("max_age", "text"),
        Column("min_interval", "text"),
        Column("jitter", "number", words=_NUMBER.words, within=_NUMBER),
        Column("windows", "text"),
        Column("group", "text"),
    ),
    "elements",
    renamable=False,
)
_SPANS = {"max_age", "min_interval"}
_READERS = {
    column.role: read for column, read in zip(_SCHEMA.columns, readers_of(_SCHEMA.columns), strict=True)
}
_ROOT = re.compile(r"<\s*(?:\w+:)?(opml|urlset|sitemapindex|rss|feed|rdf|html)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listed:
    """An element that a list names."""

    new: New
    given: Mapping[str, float | str] = field(default_factory=dict)
    """What else the list says of it: weight, max_age, min_interval (seconds), jitter, windows, group."""
    line: int = 0
    named: bool = field(default=True, compare=False)
    """Whether the list says who polls it; else the key suggests it, and one that is known may stay as is."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that cannot be an element."""

    line: int
    text: str
    why: str


class ListReader:
    """The elements that a file names; they are read when it is iterated."""

    def __init__(self, path: str | PathLike[str], format: Format | None = None) -> None:  # noqa: A002
        if format is not None and format not in FORMATS:
            raise InvalidInput(f"the format of a list must be one of {', '.join(FORMATS)}; it is {format!r}")
        self.path = fspath(path)
        self.format: Format | None = format
        """Known when the first element is."""
        self.rejected: list[Rejected] = []
        """The first lines that were rejected."""
        self.rejections = 0
        """How many there were."""
        self.ignored: tuple[str, ...] = ()
        """Columns of a table that mean nothing here."""

    def __iter__(self) -> Iterator[Listed]:
        """Read the file, once more from the beginning if it is a file."""
        self.rejected, self.rejections, self.ignored = [], 0, ()
        try:
            with _opened(self.path) as stream:
                yield from self._read(stream)
        except (OSError, EOFError, zlib.error) as error:
            words = getattr(error, "strerror", None) or error
            raise InvalidInput(f"{self._name} cannot be read: {words}") from None

    @property
    def _name(self) -> str:
        return "standard input" if self.path == "-" else self.path

    def _read(self, stream: io.BufferedReader[Any]) -> Iterator[Listed]:
        head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
        encoding = "utf-16" if head[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig"
        if self.format is None:
            self.format = _detected(head.decode(encoding, "replace"), self._name)
        if self.format in {"opml", "sitemap"}:
            body = stream.read(_MOST_XML_BYTES + 1)
            if len(body) > _MOST_XML_BYTES:
                raise InvalidInput(f"{self._name} has more than {_MOST_XML_BYTES:,} bytes")
            reader = self._opml if self.format == "opml" else _sitemap
            try:
                found = reader(body)
            except InvalidInput as error:
                raise InvalidInput(f"{self._name} cannot be read as {self.format}: {error}") from None
            yield from found
            return
        # What is not UTF-8 stays visible as such, so that the line, not the file, is rejected.
        errors = "surrogateescape" if encoding == "utf-8-sig" else "replace"
        text = io.TextIOWrapper(stream, encoding, errors=errors, newline="")
        try:
            yield from self._list(text) if self.format == "list" else self._table(text)
        finally:
            text.detach()

    def _list(self, text: IO[str]) -> Iterator[Listed]:
        for number, line in _lines(text):
            key = line.strip()
            if key and not key.startswith("#"):
                yield from self._element(number, key, None, {})

    def _table(self, text: IO[str]) -> Iterator[Listed]:
        lines = _Counted(_lines(text))
        header = next((line for line in lines if line.strip()), "")
        delimiter = max(",;\t", key=header.count)
        names = [name.strip().lower() for name in next(csv.reader([header], delimiter=delimiter), [])]
        found = find_columns(self.path, names, _SCHEMA, {})
        known = {name for column in _SCHEMA.columns for name in (column.role, *column.synonyms)}
        self.ignored = tuple(name for name in names if name not in known)
        rows = csv.reader(lines, delimiter=delimiter)
        while True:
            try:
                row = next(rows, None)
            except csv.Error as error:
                self._reject(lines.number, "", f"not well-formed: {error}")
                continue
            if row is None:
                return
            row = [cell.strip() for cell in row]
            cells = {role: row[at] for role, (_, at) in found.items() if at < len(row) and row[at]}
            if "key" in cells:
                yield from self._element(lines.number, cells.pop("key"), cells.pop("source", None), cells)
            elif any(row):
                self._reject(lines.number, delimiter.join(row), f"it has no {names[found['key'][1]]}")

    def _element(self, line: int, key: str, source: str | None, cells: Mapping[str, str]) -> Iterator[Listed]:
        """Yield the element of a line, or reject the line."""
        try:
            named, text = source is not None, key
            if source is None:
                source, key = source_for(_printable(key))
            listed = Listed(New(_printable(key), source), _given(cells), line, named or key != text)
        except InvalidInput as error:
            self._reject(line, key, str(error))
        else:
            yield listed

    def _reject(self, line: int, text: str, why: str) -> None:
        self.rejections += 1
        if len(self.rejected) < _REJECTED_LINES_KEPT:
            shown = text[:200].encode("utf-8", "backslashreplace").decode()
            self.rejected.append(Rejected(line, shown, why))

    def _opml(self, body: bytes) -> list[Listed]:
        """Return the feeds of an OPML document (https://opml.org/spec2.opml)."""
        found: dict[str, Listed] = {}

        def read(elements: Iterator[XmlElement]) -> None:
            found.clear()
            self.rejected, self.rejections = [], 0
            if (root := next(elements).name) != "opml":
                raise InvalidInput(f"its root is {root!r}, not 'opml'")
            for element in elements:
                if element.name == "outline":
                    self._outline(element.attributes, element.line, found)

        read_xml(body, read)
        return list(found.values())

    def _outline(self, attributes: Mapping[str, str], line: int, found: dict[str, Listed]) -> None:
        """Note the feed, or the page, of one outline."""
        named = {name.lower(): value.strip() for name, value in attributes.items()}
        kind, address, source = named.get("type", "").lower(), named.get("xmlurl", ""), "feed"
        if not address and kind == "link":
            address, source = named.get("url", ""), "http"
        if kind == "include":
            self._reject(line, named.get("url", ""), "it includes another OPML file, which is not followed")
        elif address.lower().startswith(("http://", "https://", "feed:")) and address.isprintable():
            found.setdefault(address, Listed(New(address, source), {}, line))
        elif address:
            self._reject(line, address, f"{address[:200]!r} is not the address of a feed")


def read_list(path: str | PathLike[str], format: Format | None = None) -> ListReader:  # noqa: A002
    """Return the elements that a file names (``-``: standard input); see `ListReader`."""
    return ListReader(path, format)


class _Counted:
    """Lines, and the number of the one that was handed out last."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines, self.number = lines, 0

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> str:
        self.number, line = next(self._lines)
        return line


def _lines(text: IO[str]) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; of one that is endless, no more than its beginning is kept."""
    number = 0
    while line := text.readline(2 * _MOST_LINE_CHARACTERS):
        number += 1
        rest = line
        while len(rest) == 2 * _MOST_LINE_CHARACTERS and not rest.endswith("\n"):
            rest = text.readline(2 * _MOST_LINE_CHARACTERS)
        yield number, line.replace("\0", "\ufffd")


def _sitemap(body: bytes) -> list[Listed]:
    """Return what a sitemap names."""
    entries = read_sitemap(body).entries
    return [Listed(New(one.name, one.source, modified=one.time)) for one in entries if one.name.isprintable()]


def _printable(key: str) -> str:
    """Return a key that can be one."""
    if len(key) > _MOST_LINE_CHARACTERS:
        raise InvalidInput(f"it has more than {_MOST_LINE_CHARACTERS:,} characters")
    if not key.isprintable() or "\ufffd" in key:
        raise InvalidInput("it has characters that cannot be printed, or are not UTF-8")
    return key


def _given(cells: Mapping[str, str]) -> dict[str, float | str]:
    """Return what a row says besides the key."""
    given: dict[str, float | str] = {}
    for role, text in cells.items():
        try:
            given[role] = _seconds(role, text) if role in _SPANS else _READERS[role](text)
        except Broken as broken:
            raise InvalidInput(f"{role} must be {broken}; it is {text!r}") from None
    return given


def _seconds(name: str, text: str) -> float:
    """Read a time: with its unit, or in seconds."""
    try:
        value = float(text)
    except ValueError:
        return duration(name, text)
    if not 0 < value < math.inf:
        raise InvalidInput(f"{name} must be a time > 0, such as 6h, or seconds; it is {text!r}")
    return value


def _detected(head: str, name: str) -> Format:
    """Return what a file is by its beginning."""
    if "\0" in head:
        raise InvalidInput(f"{name} is not text; a list must be text, CSV, OPML or a sitemap")
    if head.lstrip("\ufeff \t\r\n").startswith("<"):
        root = _ROOT.search(head)
        kind = root[1].lower() if root else ""
        if kind == "opml":
            return "opml"
        if kind in {"urlset", "sitemapindex"}:
            return "sitemap"
        hint = (
            "; it is a feed: add it as an element, with the source feed"
            if kind in {"rss", "feed", "rdf"}
            else ""
        )
        raise InvalidInput(f"{name} is neither OPML nor a sitemap{hint}")
    first = next((line for line in head.splitlines() if line.strip()), "").lower()
    cells = {cell.strip(" \"'\ufeff") for cell in re.split(r"[,;\t]", first)}
    return "csv" if cells & {_KEY.role, *_KEY.synonyms} else "list"


@contextmanager
def _opened(path: str) -> Iterator[io.BufferedReader[Any]]:
    """Open a file, unpacked if it is gzipped."""
    if path == "-":
        typed = io.BufferedReader(cast("io.RawIOBase", sys.stdin.buffer), _HEAD_BYTES)
        try:
            with _unpacked(typed) as text:
                yield text
        finally:
            typed.detach()  # it is not ours to close
        return
    with io.BufferedReader(io.FileIO(path), _HEAD_BYTES) as stream, _unpacked(stream) as text:
        yield text


@contextmanager
def _unpacked(stream: io.BufferedReader[Any]) -> Iterator[io.BufferedReader[Any]]:
    """Unpack what is gzipped."""
    if stream.peek(2)[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=stream) as unpacked:
            yield io.BufferedReader(unpacked, _HEAD_BYTES)
    else:
        yield stream
