"""What a table may hold: its columns, what is allowed in each, and how a cell of text becomes a value."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf, nan
from typing import TYPE_CHECKING, Any, Literal

from .complaints import bad_file, is_utf8

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

Kind = Literal["label", "text", "number", "whole", "flag", "time", "json"]

_WHOLE_DIGITS = 18
"""Digits of a whole number; so many always fit into 64 bits."""
_SHOWN_COLUMNS = 12
"""Columns of a header that a message lists."""
_SEPARATORS = {";": "';'", "|": "'|'", "\t": "tabs", ",": "commas"}
_FLAGS: dict[str, bool | None] = {
    **dict.fromkeys(("0", "false", "no", "f", "n"), False),
    **dict.fromkeys(("1", "true", "yes", "t", "y"), True),
    "": None,
}


class Broken(Exception):  # noqa: N818  (the reader makes it an error that names the place)
    """A value breaks the rule that this exception names."""


@dataclass(frozen=True)
class NumberRange:
    """The numbers that a column may hold.

    >>> extreme = "0, or between 1e-100 and 1e100"
    >>> rates = NumberRange("finite and >= 0", 1e-100, 1e100, zero=True, extreme=extreme)
    >>> rates.broken_by(2.0), rates.broken_by(-2.0), rates.broken_by(1e308)
    ('', 'finite and >= 0', '0, or between 1e-100 and 1e100')
    """

    words: str
    """What a number must be; that of a rule that it breaks."""
    low: float = -inf
    high: float = inf
    zero: bool = False
    """Whether 0 is allowed, although it is below ``low``."""
    extreme: str = ""
    """What a positive number must be that is too small or too large."""

    def broken_by(self, value: float) -> str:
        """Return the rule that a number breaks, if any."""
        if self.low <= value <= self.high or (self.zero and value == 0.0):
            return ""
        return self.extreme if self.extreme and 0.0 < value < inf else self.words

    def holds(self, values: Floats) -> NDArray[np.bool_]:
        """Tell which numbers are allowed."""
        good = (values >= self.low) & (values <= self.high)
        if self.zero:
            good |= values == 0
        return good


ANY_NUMBER = NumberRange("a number")
AT_LEAST_0 = NumberRange("finite and >= 0", 0.0, sys.float_info.max)
_SECONDS = NumberRange("seconds from -1e11 to 1e11 (milliseconds must be divided by 1000)", -1e11, 1e11)

_WORDS: dict[Kind, tuple[str, str]] = {
    "label": ("text", "text or whole numbers"),
    "text": ("text", "text"),
    "number": ("a number", "numbers"),
    "whole": ("a whole number >= 0", "whole numbers"),
    "flag": ("0 or 1, true or false, or yes or no",) * 2,
    "time": (
        "a time: seconds or a timestamp such as 2026-01-31T12:00:00Z",
        "seconds or timestamps",
    ),
    "json": ("a JSON object", "JSON objects"),
}
"""What a value must be, and what a whole column must hold."""


@dataclass(frozen=True)
class Column:
    """What a column holds.

    label   text that is not empty; in Parquet whole numbers as well
    text    any text; missing is ""
    number  missing is nan
    whole   a whole number, >= 0; missing is None
    flag    0 or 1; missing is None
    time    seconds, or a timestamp; missing is nan
    json    an object; missing is {}
    """

    role: str
    """What it is called, unless the user says that the file calls it otherwise."""
    kind: Kind
    needed: bool = False
    """Whether a file must have it."""
    empty: bool = False
    """Whether numbers and times may be missing; flags and whole numbers always may."""
    within: NumberRange = ANY_NUMBER
    """Which numbers are allowed."""
    rule: Callable[[str], str] | None = None
    """Returns what text must be, if it breaks a rule."""
    unit: str = ""
    """What numbers count; Parquet files note it."""
    words: str = ""
    """What a value must be, if the words of its kind do not say it."""
    since_1970: bool = False
    """Whether times are moments: then seconds and timestamps may stand in one column."""
    synonyms: tuple[str, ...] = ()
    """Other names by which it is found."""

    @property
    def must_be(self) -> str:
        """What a value must be."""
        return self.words or _WORDS[self.kind][0]

    @property
    def must_hold(self) -> str:
        """What a column of another type must hold."""
        return _WORDS[self.kind][1]

    @property
    def allowed(self) -> NumberRange:
        """Which numbers are allowed, also as times."""
        return _SECONDS if self.kind == "time" else self.within


@dataclass(frozen=True)
class Schema:
    """The columns of a table."""

    columns: tuple[Column, ...]
    noun: str
    """What a row is, in plural."""
    renamable: bool = True
    """Whether ``--column`` says what a file calls its columns."""
    fitted: Callable[[set[str], set[str]], tuple[Column, ...]] | None = None
    """Returns the columns that count, by the roles whose columns a file has, and those that are asked for."""


def find_columns(
    path: str,
    header: Sequence[str],
    schema: Schema,
    names: Mapping[str, str],
    *,
    line: int | None = None,
) -> dict[str, tuple[Column, int]]:
    """Return the columns that a file has, with their positions, by role.

    ``names`` says what the file calls columns, by role; these must be there.
    """
    if not header:
        needed = [repr(names.get(column.role, column.role)) for column in schema.columns if column.needed]
        least = "at least the column" if len(needed) == 1 else "the columns"
        raise bad_file(path, f"empty; it needs a header line with {least} {' and '.join(needed)}")
    called = {
        column.role: _name_in(header, column, names.get(column.role, column.role))
        for column in schema.columns
    }
    columns = schema.columns
    if schema.fitted is not None:
        there = {role for role, name in called.items() if name in header}
        columns = schema.fitted(there, set(names))
    found = {}
    for column in columns:
        name = called[column.role]
        places = [i for i, title in enumerate(header) if title == name]
        if len(places) > 1:
            raise bad_file(path, f"the header has the column {name!r} {len(places)} times", line=line)
        if places:
            found[column.role] = column, places[0]
        elif column.needed or column.role in names:
            have = ", ".join(map(repr, header[:_SHOWN_COLUMNS]))
            have += ", ..." if len(header) > _SHOWN_COLUMNS else ""
            which = f"say which one it is with --column {column.role}=NAME"
            asked = which if schema.renamable and name == column.role else ""
            hint = (line and _oddity(header)) or asked
            hint = hint and f"; {hint}"
            raise bad_file(path, f"there is no column {name!r} among {have}{hint}", line=line)
    return found


def _name_in(header: Sequence[str], column: Column, name: str) -> str:
    return next((one for one in (name, *column.synonyms) if one in header), name)


def _oddity(header: Sequence[str]) -> str:
    """Return why a header may lack a column, if it looks like it.

    >>> _oddity(["key;rate"])
    "the file seems to be separated by ';'; .csv means commas, and .tsv tabs"
    """
    text = "".join(header)
    if "\0" in text or not is_utf8(text):
        return "the file is not UTF-8 text, but perhaps UTF-16; save it as UTF-8"
    for separator, name in _SEPARATORS.items():
        if len(header) == 1 and separator in text:
            return f"the file seems to be separated by {name}; .csv means commas, and .tsv tabs"
    return ""


# --- from text to values: a reader returns the value of a cell, or raises the rule that it breaks


def readers_of(columns: Sequence[Column]) -> list[Callable[[str], Any]]:
    """Return a reader of cells for each column; times that count from anywhere must all be of one kind."""
    times = _Times()
    readers: dict[Kind, Callable[[Column], Callable[[str], Any]]] = {
        "label": _label_reader,
        "text": _text_reader,
        "number": _number_reader,
        "whole": _whole_reader,
        "flag": _flag_reader,
        "time": times.reader,
        "json": _json_reader,
    }
    return [readers[column.kind](column) for column in columns]


def text_rule(column: Column, text: str) -> str:
    """Return the rule that text breaks, if any."""
    if not (text.isascii() or is_utf8(text)):
        return "UTF-8 text"
    return "" if column.rule is None else column.rule(text)


def _label_reader(column: Column) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not text:
            raise Broken(column.must_be)
        if not text.isascii() and not is_utf8(text):
            raise Broken("UTF-8 text")
        return text

    return read


def _text_reader(column: Column) -> Callable[[str], str]:
    def read(text: str) -> str:
        if rule := text_rule(column, text):
            raise Broken(rule)
        return text

    return read


def _number_reader(column: Column) -> Callable[[str], float]:
    low, high = column.within.low, column.within.high

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            if column.empty and not text.strip():
                return nan
            raise Broken(column.must_be) from None
        if "_" in text or not text.isascii():  # Python has a wider notion of numbers than files
            raise Broken(column.must_be)
        if not low <= value <= high and (rule := column.within.broken_by(value)):
            raise Broken(rule)
        return value

    return read


def _whole_reader(column: Column) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        digits = text.strip()
        if not digits:
            return None
        if digits.isascii() and digits.isdecimal() and len(digits) <= _WHOLE_DIGITS:
            return int(digits)
        raise Broken(column.must_be)

    return read


def seen_in(value: str | float) -> bool | None:
    """Return what a flag means, in text or as a number; None if nothing stands there.

    >>> [seen_in(value) for value in (True, 0, 1.0, "Yes", "")]
    [True, False, True, True, None]
    """
    if isinstance(value, str):
        word = value.strip().lower()
        if word in _FLAGS:
            return _FLAGS[word]
    elif value in {0, 1}:
        return bool(value)
    raise Broken(_WORDS["flag"][0])


def _flag_reader(_: Column) -> Callable[[str], bool | None]:
    return seen_in


class _Times:
    """The kind of times, seconds or timestamps, that all columns of a table must share."""

    kind = ""

    def reader(self, column: Column) -> Callable[[str], float]:
        """Return a reader of one column."""
        low, high = _SECONDS.low, _SECONDS.high

        def read(text: str) -> float:
            seconds: float | None
            try:
                seconds, found = float(text), "seconds"
            except ValueError:
                if column.empty and not text.strip():
                    return nan
                seconds, found = moment(text), "a timestamp"
            if seconds is None or not text.isascii() or "_" in text:
                raise Broken(column.must_be)
            if not low <= seconds <= high:
                raise Broken(_SECONDS.words)
            if found != self.kind and not column.since_1970:
                if self.kind:
                    raise Broken(f"{self.kind}, as in the rows before")
                self.kind = found
            return seconds

        return read


def moment(text: str) -> float | None:
    """Return the seconds from 1970 to a timestamp, in UTC unless it says otherwise; None if it is none.

    >>> moment("2026-01-01T01:00:00+01:00") == moment("2026-01-01"), moment("soon")
    (True, None)
    """
    try:
        read = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()


def _json_reader(column: Column) -> Callable[[str], dict[str, Any]]:
    def read(text: str) -> dict[str, Any]:
        if rule := text_rule(column, text):
            raise Broken(rule)
        if not text.strip():
            return {}
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return value
        raise Broken(column.must_be)

    return read
