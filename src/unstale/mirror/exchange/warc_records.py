"""Reading the records of an archive that anybody may have written: lines and contents have limits.

The library that reads WARC takes a line of any length for a header, a chunk of any size for a part of a
content, and decodes without an end; a gzipped archive of 300 kB can hold gigabytes of either. Here lines and
headers are counted as the library reads them, and contents are decoded as those of polls are.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unstale.errors import InvalidInput
from unstale.mirror.sources.http.body import ResponseBody
from unstale.mirror.sources.http.decode import BodyTooLarge, UndecodableBody, decoder
from unstale.tables.complaints import bad_file, reason

if TYPE_CHECKING:
    from unstale.mirror.mirror import Mirror

_BLOCK_BYTES = 1 << 20
_MAX_HEADER_BYTES = 4 << 20
"""Of all lines of one record that are not its content; what a mirror keeps of a long sitemap is large."""
_MAX_HEADER_LINES = 10_000
_CHUNK_HEADER_BYTES = 64


class Damaged(Exception):  # noqa: N818  (it is told as an error of the file)
    """A record that is not as it should be."""


@contextmanager
def reading() -> Iterator[None]:
    """Take whatever goes wrong in reading a record for damage: the library stumbles in many ways."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise Damaged(" ".join(str(error).split()) or type(error).__name__) from error


def check_whole(path: str) -> None:
    """Insist that an archive goes to its end: the library takes what is cut off for the end of it.

    One that is cut exactly between two records cannot be told from a whole one.
    """
    count = 0
    try:
        with Path(path).open("rb") as file:
            zipped = file.read(2) == b"\x1f\x8b"
        if zipped:
            with gzip.open(path) as file:
                while file.read(_BLOCK_BYTES):
                    pass
    except (EOFError, zlib.error) as error:
        raise bad_file(path, f"cut short or damaged; {error}") from None
    except OSError as error:
        raise bad_file(path, reason(error)) from None
    with records_of(path, no_record_parse=True) as records:
        for record in records:
            count += 1
            with reading():
                length, left = 0, int(record.rec_headers.get_header("Content-Length") or 0)
                while block := record.raw_stream.read(_BLOCK_BYTES):
                    length += len(block)
            if length != left:
                raise bad_file(path, f"cut short or damaged: record {count} has {length:,} of {left:,} bytes")
    if not count:
        raise bad_file(path, "cut short, or not a WARC file: it holds no record")


@contextmanager
def records_of(path: str, **how: Any) -> Iterator[Iterator[Any]]:  # noqa: ANN401
    """Give the records of an archive, whose digests are checked."""
    from warcio.archiveiterator import ArchiveIterator

    def records(file: IO[bytes]) -> Iterator[Any]:
        with reading():
            archive = ArchiveIterator(file, **(how or {"check_digests": "raise"}))
            lines = _CountedLines(archive.reader)
            found = iter(archive)
        while True:
            with reading(), lines.counted():
                record = next(found, None)
            if record is None:
                return
            yield record

    try:
        with Path(path).open("rb") as file:
            yield records(file)
    except Damaged as error:
        raise bad_file(path, f"not a WARC file, or cut short or damaged; {error}") from None
    except (OSError, EOFError) as error:
        raise bad_file(path, reason(error)) from None


class _CountedLines:
    """Counts the lines that the library reads of one record, in place of its reader's own method."""

    def __init__(self, reader: Any) -> None:  # noqa: ANN401
        self._readline = reader.readline
        reader.readline = self.readline
        self._bytes = self._lines = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count within; what follows, the content of the record, has other limits."""
        self._bytes, self._lines = _MAX_HEADER_BYTES, _MAX_HEADER_LINES
        yield
        self._bytes = self._lines = sys.maxsize

    def readline(self, length: int | None = None) -> bytes:
        """Read a line, or its beginning; raise `ValueError` if the record has too many."""
        room = self._bytes + 1
        line: bytes = self._readline(room if length is None else min(length, room))
        self._bytes, self._lines = self._bytes - len(line), self._lines - 1
        if self._bytes < 0 or self._lines < 0:
            most = f"{_MAX_HEADER_BYTES:,} bytes or {_MAX_HEADER_LINES:,} lines"
            raise ValueError(f"a record has more than {most} of headers")
        return line


def put_content(mirror: Mirror, record: Any) -> tuple[str, int]:  # noqa: ANN401
    """Write the content of a record to the folder of copies, decoded; return its digest and size."""
    settings = mirror.settings
    content = ResponseBody(settings.max_size, settings.http.max_ratio, mirror.copies.scratch)
    encoding = record.http_headers.get_header("Content-Encoding") if record.http_headers else None
    try:
        decoding = decoder(encoding, content.add, content.check) if encoding else None
        for number, block in enumerate(_blocks(record)):
            content.came(len(block))
            try:
                (decoding.feed if decoding is not None else content.add)(block)
            except UndecodableBody:
                if number or content.size:
                    raise
                decoding = None  # many archives keep the header of a content that they have decoded
                content.add(block)
            if content.full:
                content.spill()
        if decoding is not None:
            decoding.end()
        return mirror.copies.put(content.finish())
    except BodyTooLarge as error:
        raise InvalidInput(f"its content is {error}; max_size is {settings.max_size:,}") from None
    except UndecodableBody as error:
        raise InvalidInput(str(error)) from None
    finally:
        content.discard()


def _blocks(record: Any) -> Iterator[bytes]:  # noqa: ANN401
    """Yield the content of a record as it was sent, without the marks between chunks."""
    headers = record.http_headers
    how = headers.get_header("Transfer-Encoding") if headers else None
    chunked = (how or "").strip().lower() == "chunked"
    return _joined_chunks(record.raw_stream) if chunked else _rest(record.raw_stream)


def _joined_chunks(stream: Any) -> Iterator[bytes]:  # noqa: ANN401
    while True:
        with reading():
            header = stream.readline(_CHUNK_HEADER_BYTES)
        left = _chunk_size(header)
        if left is None:  # many archives keep the header of a content whose chunks they have joined
            if header:
                yield header
            yield from _rest(stream)
            return
        if not left:
            for _ in _rest(stream):  # trailers
                pass
            return
        while left > 0:
            with reading():
                block = stream.read(min(left, _BLOCK_BYTES))
            if not block:
                return
            left -= len(block)
            yield block
        with reading():
            stream.readline(_CHUNK_HEADER_BYTES)


def _chunk_size(header: bytes) -> int | None:
    r"""Return the size that the line before a chunk tells; None if it is no such line.

    >>> _chunk_size(b"1f;x=y\r\n"), _chunk_size(b"<html>")
    (31, None)
    """
    try:
        size = int(header.partition(b";")[0], 16) if header.endswith(b"\r\n") else -1
    except ValueError:
        return None
    return size if size >= 0 else None


def _rest(stream: Any) -> Iterator[bytes]:  # noqa: ANN401
    while True:
        with reading():
            block = stream.read(_BLOCK_BYTES)
        if not block:
            return
        yield block
