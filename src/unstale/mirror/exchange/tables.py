"""Elements and history as files, to take elsewhere and to bring from elsewhere.

An exported list of elements has rates and can be given to ``unstale plan``; an exported history can be given
to ``unstale estimate``. Both come back as they were. Files made by hand or by others need less: a list of
elements the column ``key``; a history ``key``, ``time`` and ``changed`` or ``outcome``.

Import the elements first, then the history, then the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import islice
from math import isfinite, isnan, nan, nextafter
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from unstale.errors import InvalidInput
from unstale.mirror.engine.discovery import FILE_AUTHOR
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.secrets import origin, without_secrets
from unstale.mirror.source import New
from unstale.mirror.sources.allowed import SECRETS, check_allowed
from unstale.mirror.sources.registry import source_named
from unstale.mirror.store.contract import Addition, Element, PollRecord, Transaction, Version
from unstale.mirror.store.sql.imported_polls import Past, keys_of, numbers_by_key, recall
from unstale.schedule import Windows
from unstale.tables import (
    Advance,
    Column,
    ParquetFile,
    Place,
    Schema,
    TextFile,
    ignore,
    open_file,
    open_records,
    rows_in,
)
from unstale.tables.schema import ANY_NUMBER, AT_LEAST_0, NumberRange

if TYPE_CHECKING:
    from unstale.mirror.mirror import Mirror

_ROWS_AT_ONCE = 5000
_DAY = 86400.0
_T = TypeVar("_T")


_ABOVE_0 = NumberRange("a number of seconds > 0", nextafter(0.0, 1.0))
_SHARE = NumberRange("at least 0 and below 1", 0.0, nextafter(1.0, 0.0))


def _windows(text: str) -> str:
    if text:
        try:
            Windows.parse(text)
        except InvalidInput as error:
            return f"windows such as 'mon-fri 22:00-06:00 Europe/Berlin' ({error})"
    return ""


def _number(role: str, unit: str = "", within: NumberRange = ANY_NUMBER) -> Column:
    return Column(role, "number", empty=True, unit=unit, within=within)


def _moment(role: str) -> Column:
    return Column(role, "time", empty=True, since_1970=True)


ELEMENT_COLUMNS = (
    Column("key", "label", needed=True),
    _number("rate", "changes per day"),
    _number("low", "changes per day"),
    _number("high", "changes per day"),
    _number("weight", within=AT_LEAST_0),
    _number("bytes", "bytes"),
    Column("group", "text"),
    Column("source", "text"),
    _number("max_age", "seconds", _ABOVE_0),
    _number("min_interval", "seconds", AT_LEAST_0),
    _number("jitter", within=_SHARE),
    Column("windows", "text", rule=_windows),
    Column("options", "json"),
    Column("given", "json"),
    Column("via", "text"),
    Column("state", "text"),
    _moment("added"),
    _moment("last_poll"),
    Column("failures", "whole"),
    Column("moved", "text"),
    Column("detail", "text"),
)
"""``rate``, ``low`` and ``high`` (a 90 % interval) are as learned, ``bytes`` is what a poll takes on average,
or what polls of all elements do if not known. ``via`` is the key of the element that named it.
Columns from ``state`` on say how it was at the time; what is read back is that an element is paused."""

_TIME = _moment("time")
_AHEAD_SECONDS = 86400.0
"""By which a poll may be dated ahead of the clock here, since clocks differ."""
HISTORY_COLUMNS = (
    Column("key", "label", needed=True),
    _TIME,
    Column("changed", "flag"),
    _moment("modified"),
    Column("outcome", "text"),
    _number("elapsed", "seconds", AT_LEAST_0),
    Column("bytes", "whole", unit="bytes"),
    _number("took", "seconds", AT_LEAST_0),
    Column("planned", "flag"),
    _number("predicted"),
    Column("detail", "text"),
    _number("seconds", "seconds since 1970"),
)
"""``seconds`` is the same moment as ``time``, to the last digit; ``elapsed`` the time since the poll before
that saw something, ``modified`` when the content had changed, as the source said, ``predicted`` how probably
the copy was fresh, ``planned`` is 0 for polls of an audit."""

_SEEN = frozenset({"new", "changed", "unchanged"})
_OUTCOMES = (*sorted(_SEEN), "gone", "failed", "refused")
_INFORMATION = {"rate", "low", "high", "bytes", "added", "last_poll", "failures", "moved", "detail"}
_ELEMENTS = Schema(
    tuple(column for column in ELEMENT_COLUMNS if column.role not in _INFORMATION),
    "elements",
    renamable=False,
)
_HISTORY = Schema(
    tuple(column for column in HISTORY_COLUMNS if column.role != "modified"), "polls", renamable=False
)


# --- elements


def export_elements(
    mirror: Mirror | Iterable[Mirror],
    path: str | PathLike[str],
    *,
    pattern: str | None = None,
    progress: Advance = ignore,
) -> int:
    """Write elements that are not removed to a file, without secrets; return how many.

    All exports take one mirror, or several that are the cells of one.
    """
    count = 0
    with open_records(fspath(path), ELEMENT_COLUMNS) as write:
        for rows in (rows for one in cells_of(mirror) for rows in _element_rows(one, pattern)):
            write(rows)
            count += len(rows)
            progress(len(rows))
    return count


def cells_of(mirror: Mirror | Iterable[Mirror]) -> Iterable[Mirror]:
    """Return the cells of a mirror, which may be one."""
    from unstale.mirror.mirror import Mirror

    return (mirror,) if isinstance(mirror, Mirror) else mirror


def _element_rows(mirror: Mirror, pattern: str | None) -> Iterator[list[tuple[object, ...]]]:
    """Return the elements of one cell, some at a time."""
    from unstale.mirror.engine.load_policy import load_policy

    with mirror.store.begin() as t:
        policy, _ = load_policy(mirror.settings, t)
    known, after = _Rates(policy, mirror.clock.now()), 0
    while True:
        with mirror.store.begin() as t:
            batch = t.elements(after, _ROWS_AT_ONCE, pattern=pattern)
            vias = keys_of(t, (element.via for element in batch if element.via is not None))
        if not batch:
            return
        after = batch[-1].id
        rates = known.of([element.id for element in batch])
        yield [_element_row(e, r, vias) for e, r in zip(batch, rates.tolist(), strict=True)]


class _Rates:
    """What has been learned of elements."""

    def __init__(self, policy: MirrorPolicy, now: float) -> None:
        from scipy.special import gammaincinv

        table, mean_size = policy.table, policy.known.mean_size
        self._ids = table["id"]
        law, _ = policy.known.outlook(np.arange(len(table)), now)
        shape, scale = (np.broadcast_to(part, len(table)) * 1.0 for part in (law.shape, law.scale))
        low, high = (gammaincinv(shape, share) * scale * _DAY for share in (0.05, 0.95))
        size = np.where(table["size"] > 0, table["size"], mean_size)
        self._columns = np.column_stack([law.rate * np.ones(len(table)) * _DAY, low, high, size])

    def of(self, ids: list[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Return rate, low, high and size of elements; nan for one that came after."""
        known = np.full((len(ids), 4), nan)
        if self._ids.size:
            at = np.minimum(np.searchsorted(self._ids, ids), self._ids.size - 1)
            there = self._ids[at] == ids
            known[there] = self._columns[at[there]]
        return known


def _element_row(element: Element, known: list[float], vias: dict[int, str]) -> tuple[object, ...]:
    rate, low, high, size = known
    via = "" if element.via is None else vias.get(element.via, "")
    options, given = without_secrets(element.options), without_secrets(element.given)
    return (
        element.key, rate, low, high, element.weight, size, element.group, element.source, element.max_age,
        element.min_interval, element.jitter, element.windows, options, given, via,
        element.state, element.added, element.last, element.failures, element.moved or "", element.detail,
    )  # fmt: skip


def import_elements(
    mirror: Mirror,
    path: str | PathLike[str],
    *,
    allow: Collection[str] = (),
    progress: Advance = ignore,
    withheld: Callable[[str], object] | None = None,
    mine: Callable[[Addition], bool] = lambda _: True,
) -> int:
    """Add the elements of a file, or change those that are there; return how many there are in it.

    What a file says of an element counts as said of that element. Where it says nothing, an element that is
    there keeps what was said of it before, and for a new one rules say it; but a file that was exported says
    all (in its column ``given``) but secrets, which rules say. With a mistake anywhere in the file nothing is
    added.

    Elements of the web and functions are taken; those of other sources only if ``allow`` names the source
    (``file``, ``sql``), and options with variables of the environment if it has ``environment``. Unless it
    has ``secrets``, rules give no secrets to elements that are new; ``withheld`` is called with their keys.
    Of a mirror of several cells each takes those that are ``mine``.
    """
    file = open_file(fspath(path))
    wishes = _Wishes(mirror, allow)
    places: dict[str, Place] = {}
    vias: set[str] = set()
    for place, row in rows_in(file, _ELEMENTS):
        wish = wishes.of(place, row)
        if wish.key in places:
            raise place.wrong("key", f"another than that in {places[wish.key].row}", row["key"])
        if not mine(wish):
            continue
        places[wish.key] = place
        if row.get("via"):
            vias.add(row["via"])
    now = mirror.clock.now()
    waiting: list[_Ready] = []
    for batch in _batches(rows_in(file, _ELEMENTS), _ROWS_AT_ONCE):
        with mirror.store.begin() as t:
            known = numbers_by_key(t, vias)
            ready: list[_Ready] = []
            there = t.find([wishes.of(place, row).key for place, row in batch])
            for place, row in batch:
                wish, via = wishes.of(place, row, there), row.get("via", "")
                if wish.key not in places:
                    continue
                if withheld is not None and wishes.withholds_secrets(wish):
                    withheld(wish.key)
                # an element that names others comes before them, so that it is known by its number
                later = via in places and via not in known
                paused = row.get("state") == "paused" and _is_new(there.get(wish.key))
                (waiting if later else ready).append(_Ready(wish, via, paused))
            _add(t, ready, known, now)
        progress(len(batch))
    while waiting:
        with mirror.store.begin() as t:
            known = numbers_by_key(t, {one.via for one in waiting})
            able = [one for one in waiting if one.via in known] or waiting  # in a circle: then by nobody
            waiting = [] if able is waiting else [one for one in waiting if one.via not in known]
            _add(t, able, known, now)
    return len(places)


class _Ready(NamedTuple):
    """An element to be added, the key of the one that named it, and whether it is to be paused."""

    wish: Addition
    via: str
    paused: bool


def _add(t: Transaction, ready: Sequence[_Ready], known: Mapping[str, int], now: float) -> None:
    numbers = t.add([replace(one.wish, via=known.get(one.via)) for one in ready], now)
    t.pause([number for number, one in zip(numbers, ready, strict=True) if one.paused], now)


def _is_new(before: Element | None) -> bool:
    """Tell whether an element is not there, or was removed."""
    return before is None or before.state == "removed"


class _Wishes:
    """Turns rows into elements: what differs from what rules say has been said of the element itself."""

    def __init__(self, mirror: Mirror, allow: Collection[str]) -> None:
        self._discovery = mirror.discovery()
        self._sources, self._allow = mirror.sources, allow

    def of(self, place: Place, row: dict[str, Any], there: Mapping[str, Element] | None = None) -> Addition:
        """Return the element of a row; one that is there keeps what is not said of it now."""
        said = dict(row.get("given", {}))
        if row.get("via") and (author := origin(row["via"])) != origin(row["key"]):
            said.setdefault("author", author)
        source = row.get("source") or said.get("source")
        names = ["weight", "max_age", "min_interval", "jitter", "windows", "group"]
        try:
            if source and row.get("given"):  # as it was exported
                key = source_named(self._sources, source).key(row["key"], _options(row, said))
                wish = self._discovery.ruled(key, source, said)
                names.append("options")
            else:
                options = row.get("options", {})
                wish = self._discovery.addition(New(row["key"], source or None, options), said)
                before = (there or {}).get(wish.key)
                if before is not None and before.state != "removed":
                    wish = self._discovery.merged(wish, before, source=source or None)
                said = dict(wish.given)
            for name in names:
                value = row.get(name)
                empty = value in {None, ""} if not isinstance(value, float | dict) else value != value  # noqa: PLR0124
                if name in row and not empty and value != getattr(wish, name):
                    said[name] = value
            check_allowed(wish.key, wish.source, _options(row, said), self._allow)
            if SECRETS not in self._allow:
                self._note_author(said, wish.key, (there or {}).get(wish.key))
            return self._discovery.ruled(wish.key, wish.source, said)
        except InvalidInput as error:
            raise place.wrong("key", f"an element ({error})", row["key"]) from None

    def withholds_secrets(self, wish: Addition) -> bool:
        """Tell whether an element would get more from rules if the file were trusted."""
        return SECRETS not in self._allow and self._discovery.withholds_secrets(wish)

    @staticmethod
    def _note_author(said: dict[str, Any], key: str, before: Element | None) -> None:
        """Let the file be who names an element, whatever it says itself; not one that a user has named."""
        if before is not None and before.state != "removed":
            author = before.given.get("author")
        else:
            author = said.get("author", FILE_AUTHOR)
            author = FILE_AUTHOR if author == origin(key) else str(author)
        said.pop("author", None)
        if author is not None:
            said["author"] = author


def _options(row: dict[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a row says to the source."""
    given = said.get("options", {})
    if not isinstance(given, dict):
        raise InvalidInput(f"its options must be a JSON object; they are {given!r}")
    return {**given, **row.get("options", {})}


# --- history


def export_history(
    mirror: Mirror | Iterable[Mirror],
    path: str | PathLike[str],
    *,
    pattern: str | None = None,
    failures: bool = False,
    progress: Advance = ignore,
) -> int:
    """Write polls of elements that are not removed to a file, as they were recorded; return how many.

    Only those that saw something, as ``unstale estimate`` wants them; with ``failures`` all of them.
    """
    count = 0
    with open_records(fspath(path), HISTORY_COLUMNS) as write:
        for one in cells_of(mirror):
            for rows, looked_at in _poll_rows(one, pattern, failures=failures):
                write(rows)
                count += len(rows)
                progress(looked_at)
    return count


def _poll_rows(
    mirror: Mirror, pattern: str | None, *, failures: bool
) -> Iterator[tuple[list[tuple[object, ...]], int]]:
    """Return the polls of one cell, some at a time, and of how many they are."""
    versions = _Versions(mirror)
    for batch in mirror.store.all_polls():
        with mirror.store.begin() as t:
            keys = keys_of(t, (poll.element for poll in batch))
        rows = [
            _poll_row(poll, keys[poll.element], versions.of(poll.version))
            for poll in batch
            if poll.element in keys
            and (failures or poll.outcome in _SEEN)
            and (pattern is None or fnmatchcase(keys[poll.element], pattern))
        ]
        yield rows, len(batch)


class _Versions:
    """Versions by number, for one who asks for them in about that order."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._read: dict[int, Version] = {}
        self._until = 0

    def of(self, number: int | None) -> Version | None:
        """Return a version; None if there is none any more."""
        while number is not None and number > self._until:
            with self._mirror.store.begin() as t:
                batch = t.versions(self._until, _ROWS_AT_ONCE)
            recent = list(self._read.items())[-_ROWS_AT_ONCE:]
            self._read = dict(recent) | {version.id: version for version in batch}
            self._until = batch[-1].id if batch else number
        return None if number is None else self._read.get(number)


def _poll_row(poll: PollRecord, key: str, version: Version | None) -> tuple[object, ...]:
    changed = {"changed": True, "unchanged": False}.get(poll.outcome)
    modified = nan if version is None or version.modified is None else version.modified
    return (
        key, poll.time, changed, modified, poll.outcome, poll.elapsed, poll.traffic, poll.seconds,
        poll.planned, poll.predicted, poll.detail, poll.time,
    )  # fmt: skip


def import_history(mirror: Mirror, path: str | PathLike[str], *, progress: Advance = ignore) -> int:
    """Record the polls of a file; return how many were not there already.

    The planner hears of them, and learns. All elements must be there. Polls of an element must be in the
    order of time, unless the file says how much time had elapsed before each. With a mistake anywhere in the
    file nothing is recorded.
    """
    file = open_file(fspath(path))
    keys: dict[str, Place] = {}
    latest = mirror.clock.now() + _AHEAD_SECONDS
    for place, key, past in _pasts(file, {}):
        keys.setdefault(key, place)
        if past.time > latest:
            raise place.wrong("time", "a moment that is not in the future", past.time)
    with mirror.store.begin() as t:
        numbers = numbers_by_key(t, keys)
    for key, place in keys.items():
        if key not in numbers:
            raise place.wrong("key", "an element of this mirror; import or add the elements first", key)
    count = 0
    for batch in _batches(_pasts(file, numbers), _ROWS_AT_ONCE):
        pasts = [past for _, _, past in batch]
        times, which = [past.time for past in pasts], {past.element for past in pasts}
        there = mirror.store.archived_moments(sorted(which), min(times), max(times))
        with mirror.store.begin() as t:
            count += recall(t, [past for past in pasts if (past.element, past.time) not in there])
        progress(len(batch))
    return count


def _pasts(file: TextFile | ParquetFile, numbers: dict[str, int]) -> Iterator[tuple[Place, str, Past]]:
    """Read polls from a file; each with its place and key."""
    last: dict[str, float] = {}
    """When each element was last seen."""
    for place, row in rows_in(file, _HISTORY):
        key, time = row["key"], _time(place, row)
        outcome = _outcome(place, row, first=key not in last)
        before = last.get(key, nan)
        elapsed = row.get("elapsed", nan)
        if "elapsed" not in row and not isnan(before):
            if time < before:
                order = "in the order of time for each element, or the file needs a column elapsed"
                raise place.wrong("time", order, row.get("time", time))
            elapsed = time - before
        if outcome in _SEEN or outcome == "gone":
            last[key] = time
        yield (
            place,
            key,
            Past(
                element=numbers.get(key, 0),
                time=time,
                outcome=outcome,
                elapsed=elapsed,
                traffic=row.get("bytes") or 0,
                seconds=0.0 if isnan(took := row.get("took", nan)) else took,
                detail=row.get("detail", ""),
                planned=row.get("planned") is not False,
                predicted=row.get("predicted", nan),
            ),
        )


def _time(place: Place, row: dict[str, Any]) -> float:
    for name in ("seconds", "time"):
        value = float(row.get(name, nan))
        if isfinite(value) and abs(value) <= 1e11:
            return value
    if "seconds" not in row and "time" not in row:
        raise InvalidInput(f"{place.path}: there is no column 'time'; it says when each poll was made")
    raise place.wrong("time", _TIME.must_be, "")


def _outcome(place: Place, row: dict[str, Any], *, first: bool) -> str:
    outcome = row.get("outcome", "")
    if outcome:
        if outcome not in _OUTCOMES:
            raise place.wrong("outcome", f"one of {', '.join(_OUTCOMES)}", outcome)
        return str(outcome)
    if "changed" not in row and "outcome" not in row:
        raise InvalidInput(f"{place.path}: there is no column 'changed' or 'outcome'")
    changed = row.get("changed")
    if first:  # it only starts the clock
        return "new"
    if changed is None:
        raise place.wrong("changed", "0 or 1, but for the first poll of an element", "")
    return "changed" if changed else "unchanged"


def _batches(items: Iterable[_T], size: int) -> Iterator[list[_T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
