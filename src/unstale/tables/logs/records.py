"""Records of access logs, with fields: JSON lines, CSV and TSV.

Blocks in which nothing is odd are read column by column, which is quicker. All others are read record by
record, and each that cannot be read gives a complaint.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from unstale.errors import InvalidInput
from unstale.wording import plural

from .lines import Access, Complaint, Requests, instant, request_parts, shown, text_of

_Value = TypeVar("_Value")

FIELDS = {
    "key": ("key", "url", "uri", "path", "request_uri", "page", "element"),
    "time": ("time", "timestamp", "t", "ts", "@timestamp", "datetime", "time_iso8601", "time_local", "msec"),
    "user": ("user", "user_id", "remote_user", "client", "client_ip", "remote_addr", "ip"),
    "count": ("count", "accesses", "hits", "views"),
    "method": ("method", "request_method"),
    "status": ("status", "status_code"),
    "request": ("request",),
}
"""What the fields of a log may be called, the likeliest name first; a request is "GET /page HTTP/1.1"."""


class Instants(dict[Any, float | None]):
    """Times by their text: those of a log repeat."""

    def __missing__(self, text: Any) -> float | None:  # noqa: ANN401
        """Read a time."""
        if len(self) > 1 << 16:
            self.clear()
        self[text] = found = instant(text)
        return found


# --- blocks in which nothing is odd -------------------------------------------------------------------------


Column = Callable[[Any], list[Any]]
"""Gives a column by its place or name."""


class LogColumns(NamedTuple):
    """Accesses, column by column."""

    keys: list[str]
    times: list[float]
    users: list[str]
    counts: list[float]
    passed: int = 0


def quick_rows(block: bytes, width: int, delimiter: str) -> Column | None:
    r"""Return the columns of CSV or TSV; None if anything is odd.

    >>> column = quick_rows(b"a,1\nb,2\n", 2, ",")
    >>> column(0), column(1), quick_rows(b"a,1,2\nb\n", 2, ",")
    (['a', 'b'], ['1', '2'], None)
    """
    if b'"' in block:
        return None
    text = text_of(block).replace("\r\n", "\n").removesuffix("\n")
    if not text:
        return lambda _: []
    # a list for each row would keep the garbage collector busy
    flat = text.replace("\n", f"{delimiter}\n").split(delimiter)
    first = flat[::width]
    if len(flat) != width * (text.count("\n") + 1) or not all(one[:1] == "\n" for one in first[1:]):
        return None
    first[1:] = [one[1:] for one in first[1:]]
    return lambda place: flat[place::width] if place else first


def quick_json(block: bytes) -> Column | None:
    """Return the fields of JSON lines; None if anything is odd."""
    lines = [line for line in block.split(b"\n") if line and not line.isspace()]
    try:
        found = json.loads(b"[%s]" % b",".join(lines))
    except (ValueError, RecursionError):
        return None
    if len(found) != len(lines) or not set(map(type, found)) <= {dict}:
        return None
    return lambda name: [record[name] for record in found]


def quick_columns(
    column_of: Column, names: Mapping[str, Any], requests: Requests, instants: Instants
) -> LogColumns | None:
    """Return the accesses of records; None if anything is odd."""
    if "key" not in names:
        return None
    try:
        column = {role: column_of(place) for role, place in names.items()}
        keys, times = column["key"], list(map(instants.__getitem__, column["time"]))
        counts = list(map(float, column["count"])) if "count" in names else [1.0] * len(keys)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    plain = set(map(type, column["time"])) <= {str, int, float} and set(map(type, keys)) <= {str}
    plain = plain and not set(map(type, column.get("user", ()))) & {dict, list}
    if not plain or None in times or "" in keys or not all(0.0 <= count < 1e100 for count in counts):
        return None
    users = column.get("user", [""] * len(keys))
    users = users if set(map(type, users)) <= {str} else list(map(_text, users))
    kept = LogColumns(keys, times, users, counts)  # type: ignore[arg-type]
    if "method" in names or "status" in names:
        kept = _counted(kept, column.get("method"), column.get("status"), requests)
    if requests.prefix or not requests.queries:
        return kept._replace(keys=list(map(requests.key_of, kept.keys)))
    return kept


def _counted(
    found: LogColumns, methods: list[Any] | None, statuses: list[Any] | None, requests: Requests
) -> LogColumns:
    """Leave out requests that do not count."""
    count = len(found.keys)
    pairs = zip(map(_text, methods or [""] * count), map(_text, statuses or [""] * count), strict=True)
    known: dict[tuple[str, str], bool] = {}
    places = []
    for place, pair in enumerate(pairs):
        if pair not in known:
            known[pair] = requests.counts(*pair)
        if known[pair]:
            places.append(place)
    if len(places) == count:
        return found

    def some(column: list[_Value]) -> list[_Value]:
        return [column[place] for place in places]

    return LogColumns(
        some(found.keys), some(found.times), some(found.users), some(found.counts), count - len(places)
    )


# --- records one by one -------------------------------------------------------------------------------------

Record = tuple[int, Sequence[Any] | Mapping[str, Any]]


def json_records(block: bytes, first: int) -> Iterator[Record | Complaint]:
    """Return the records of JSON lines, with their lines."""
    lines = block.split(b"\n")
    kept = [number for number, line in enumerate(lines) if line.strip()]
    try:
        found = json.loads(b"[%s]" % b",".join(lines[number] for number in kept))
    except (ValueError, RecursionError):  # some line is not JSON; also if it is not UTF-8
        found = []
    if len(found) != len(kept):
        found = [_json(lines[number]) for number in kept]
    for number, record in zip(kept, found, strict=True):
        if isinstance(record, dict):
            yield first + number, record
        else:
            yield Complaint(
                first + number, record if isinstance(record, _Reason) else "not an object of JSON"
            )


class _Reason(str):
    __slots__ = ()


def _json(line: bytes) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        said = error.msg if isinstance(error, json.JSONDecodeError) else "not text, or too deep"
        return _Reason(f"not JSON; {said[:1].lower()}{said[1:]}")


def rows(block: bytes, first: int, width: int, delimiter: str) -> Iterator[Record | Complaint]:
    """Return the rows of CSV or TSV, with their lines; each row is a line."""
    for number, line in enumerate(text_of(block).split("\n"), first):
        if not line.strip():
            continue
        if '"' in line:
            try:
                row = next(csv.reader([line], delimiter=delimiter, strict=True))
            except csv.Error as error:
                yield Complaint(number, str(error))
                continue
        else:
            row = line.removesuffix("\r").split(delimiter)
        if len(row) == width:
            yield number, row
        else:
            yield Complaint(number, f"{plural(len(row), 'field')} in place of {width}")


def taken_from(
    records: Iterable[Record | Complaint], names: Mapping[str, Any], requests: Requests, instants: Instants
) -> Iterator[Access | Complaint | None]:
    """Return the accesses of records; ``names`` says where the fields are. None is a request not counted."""
    get: dict[str, Callable[[Any], Any]] = {role: _getter(place) for role, place in names.items()}
    for found in records:
        if isinstance(found, Complaint):
            yield found
            continue
        line, record = found
        time = get["time"](record)
        seconds = instants[time] if type(time) in {str, int, float} else None
        if seconds is None:
            yield Complaint(line, f"{shown(time)} is no time" if time else "no time")
            continue
        said = {role: get[role](record) for role in get if role != "time"}
        if odd := next((role for role in said if isinstance(said[role], dict | list)), None):
            yield Complaint(line, f"{shown(said[odd])} is no {odd}")
            continue
        method, key = _text(said.get("method")), _text(said.get("key"))
        if not key and said.get("request"):
            method, target = request_parts(_text(said["request"]).encode())
            key = text_of(target)
        if not key:
            yield Complaint(line, "no key")
            continue
        if not requests.counts(method, _text(said.get("status"))):
            yield None
            continue
        count = _count(said["count"]) if "count" in said else 1.0
        if count is None:
            yield Complaint(line, f"{shown(said['count'])} is no count")
            continue
        yield Access(requests.key_of(key), seconds, _text(said.get("user")), count)


def _getter(place: str | int) -> Callable[[Any], Any]:
    if isinstance(place, int):
        return lambda row: row[place]
    return lambda record: record.get(place)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _count(value: object) -> float | None:
    try:
        count = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return count if 0 <= count < 1e100 else None


def wanted_fields(path: str, have: Sequence[str], given: Mapping[str, str], *, users: bool) -> dict[str, str]:
    """Return what the fields are called, among those that a log has."""
    found = {}
    for role, likely in FIELDS.items():
        if role in given:
            if given[role] not in have:
                raise InvalidInput(f"{path}: there is no field {given[role]!r} among {_listed(have)}")
            found[role] = given[role]
        elif name := next((name for name in likely if name in have), None):
            found[role] = name
    needed = ["time", *(["user"] if users else []), *([] if "request" in found else ["key"])]
    for role in needed:
        if role not in found:
            say = f"say which field it is with --field {role}=NAME"
            raise InvalidInput(f"{path}: there is no {role} among {_listed(have)}; {say}")
    return found


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
