"""Files are written whole or not at all: under a temporary name beside the target, then renamed.

Promises, each with a test:

1. The target holds either what it held before or all of the new content, also after a crash.
2. A run that fails leaves no temporary file.
"""

from __future__ import annotations

import csv
import errno
import gzip
import io
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from unstale.errors import InvalidInput, need

from .elements import Keys, as_list, bad_file, reason

__all__ = ["Write", "check_writable", "open_allocation", "open_rows", "replacing", "write_csv"]

Write = Callable[..., None]
"""Takes columns of equal length: keys, or arrays of numbers or moments."""
_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_ROWS = 1 << 16
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def check_writable(option: str, path: str, suffixes: tuple[str, ...] = _SUFFIXES) -> None:
    """Refuse, before any work is done, a file that cannot be written."""
    if not path.lower().endswith(suffixes):
        allowed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}"
        raise InvalidInput(f"{option} must end in {allowed}; it is {path!r}")
    folder = Path(path).resolve().parent
    if not folder.is_dir():
        raise InvalidInput(f"{option} must be in a directory that exists; it is {path!r}")
    if Path(path).is_dir():
        raise InvalidInput(f"{option} must be a file; {path!r} is a directory")
    if Path(path).exists() and not Path(path).is_file():
        raise InvalidInput(f"{option} must be a file; {path!r} is a device or a pipe")
    if not os.access(folder, os.W_OK):
        raise InvalidInput(f"{option} must be in a directory that you may write to; it is {path!r}")
    if path.lower().endswith(".parquet"):
        need("pyarrow", extra="parquet", needed_for="Parquet files")


@contextmanager
def replacing(path: str) -> Iterator[IO[bytes]]:
    """Give a file that takes the place of ``path`` when all has gone well, and vanishes when not.

    An error of the system names ``path`` and says what to do.
    """
    target = Path(path).resolve()  # through links, so that what they point to is replaced
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in {None, str(temporary)}:
            todo = "make room there, or name" if error.errno in _FULL else "name"
            raise bad_file(path, f"cannot be written: {reason(error)}; {todo} another place") from None
        raise


def open_allocation(path: str, unit: str) -> AbstractContextManager[Write]:
    """Give a function that writes keys and frequencies, part by part."""
    return open_rows(path, {"key": "", "frequency": unit})


@contextmanager
def open_rows(path: str, columns: Mapping[str, str]) -> Iterator[Write]:
    """Give a function that writes columns of equal length, part by part.

    ``columns`` has a unit for each, which Parquet notes; no unit is "".
    """
    with replacing(path) as file:
        if path.lower().endswith(".parquet"):
            with _parquet(file, columns) as write:
                yield write
        elif path.lower().endswith(".gz"):
            with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:  # the same bytes each time
                yield from _csv(cast("IO[bytes]", packed), path, columns)
        else:
            yield from _csv(file, path, columns)


def _csv(file: IO[bytes], path: str, columns: Iterable[str]) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    yield write_csv(text, columns, "\t" if ".tsv" in path.lower()[-7:] else ",")
    text.flush()
    text.detach()


def write_csv(file: IO[str], columns: Iterable[str], delimiter: str = ",") -> Write:
    """Write the header, and return a function that writes rows."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)

    def write(*parts: Keys) -> None:
        for start in range(0, len(parts[0]), _ROWS):
            block = slice(start, start + _ROWS)
            writer.writerows(zip(*(as_list(part[block]) for part in parts), strict=True))

    return write


@contextmanager
def _parquet(file: IO[bytes], columns: Mapping[str, str]) -> Iterator[Write]:
    arrow: Any = need("pyarrow", extra="parquet", needed_for="Parquet files")
    parquet: Any = need("pyarrow.parquet", extra="parquet", needed_for="Parquet files")
    opened: list[Any] = []

    def write(*parts: Keys) -> None:
        arrays = [_arrow(arrow, part) for part in parts]
        if not opened:  # only the first part tells the types
            fields = [
                arrow.field(name, array.type, bool(array.null_count), {"unit": unit} if unit else None)
                for (name, unit), array in zip(columns.items(), arrays, strict=True)
            ]
            opened.append(parquet.ParquetWriter(file, arrow.schema(fields), compression="zstd"))
        writer = opened[0]
        writer.write_table(arrow.table(arrays, schema=writer.schema))

    try:
        yield write
    finally:  # also if it is in vain: a writer that is not closed writes to a closed file later
        for writer in opened:
            writer.close()


def _arrow(arrow: Any, part: Any) -> Any:  # noqa: ANN401
    """Return a column of Arrow; moments are in UTC."""
    column = part if hasattr(part, "to_pylist") else arrow.array(part)
    if arrow.types.is_timestamp(column.type):
        return column.cast(arrow.timestamp(column.type.unit, "UTC"))
    return column
