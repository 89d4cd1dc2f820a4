"""The rows of a log of polls, as they stand in a file: from text, or from columns of Arrow."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any, NoReturn

from .elements import Keys, is_utf8
from .history import moment, taker_of_times, times_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = ["CHANGED", "UNKNOWN", "Complain", "PollRows", "RowTaker", "from_arrow"]

UNKNOWN = 2
"""In place of 0 or 1, where nothing stands."""
CHANGED = "0 or 1, true or false, or yes or no"
_WORDS = {
    word: seen for seen, words in enumerate(("0 false no f n", "1 true yes t y")) for word in words.split()
} | {"": UNKNOWN}

Complain = Callable[[str, int | None, str, object], NoReturn]
"""Is told the role of a column, the row (from 0; None: the whole column), the rule and what stands there."""


@dataclass(frozen=True, eq=False)
class PollRows:
    """The rows of a file, in its order; times in seconds."""

    keys: Keys
    elements: NDArray[np.int64]
    times: Floats
    changed: NDArray[np.int8]
    """0, 1 or `UNKNOWN`."""
    modified: Floats | None
    labels: NDArray[np.int64] | None
    """Places of classes in ``names``."""
    names: Sequence[object]


class RowTaker:
    """Takes rows of text, value by value."""

    def __init__(self) -> None:
        self._codes: dict[str, dict[str, int]] = {"key": {}, "by": {}}
        self._places = {role: array("q") for role in self._codes}
        self._moments = {role: array("d") for role in ("time", "modified")}
        self._changed, self._latest = array("b"), array("d")
        self._take = taker_of_times(self._latest.append)  # one for both columns, which are of one kind

    def take(self, role: str, text: str) -> str:
        """Take a value, or return the rule that it breaks."""
        if role in self._codes:
            return self._take_label(role, text)
        if role == "changed":
            seen = _word(text)
            if seen < 0:
                return CHANGED
            self._changed.append(seen)
            return ""
        if role == "modified" and not text.strip():
            self._moments[role].append(nan)
            return ""
        rule = self._take(text)
        if not rule:
            self._moments[role].append(self._latest.pop())
        return rule

    def _take_label(self, role: str, text: str) -> str:
        if not text:
            return "text"
        if not (text.isascii() or is_utf8(text)):
            return "UTF-8 text"
        codes = self._codes[role]
        self._places[role].append(codes.setdefault(text, len(codes)))
        return ""

    def rows(self) -> PollRows:
        """Return what was taken."""
        import numpy as np

        modified, labels = self._moments["modified"], self._places["by"]
        return PollRows(
            keys=list(self._codes["key"]),
            elements=np.frombuffer(self._places["key"], np.int64),
            times=np.frombuffer(self._moments["time"]),
            changed=np.frombuffer(self._changed, np.int8),
            modified=np.frombuffer(modified) if modified else None,
            labels=np.frombuffer(labels, np.int64) if labels else None,
            names=list(self._codes["by"]),
        )


def from_arrow(columns: Mapping[str, Any], complain: Complain) -> PollRows:
    """Return rows from columns of Arrow, by role."""
    from .columns import encoded, labels_of

    elements, keys = encoded(labels_of("key", columns["key"], complain))
    labels, names = None, list[object]()
    if "by" in columns:
        labels, dictionary = encoded(labels_of("by", columns["by"], complain))
        names = dictionary.to_pylist()
    time, modified = columns["time"], _without_blanks(columns.get("modified"))
    if modified is not None and modified.null_count < len(modified) and time.null_count < len(time):
        kinds = ["timestamps" if _has_timestamps(column) else "seconds" for column in (time, modified)]
        if kinds[0] != kinds[1]:
            complain("modified", None, f"{kinds[0]}, as the times of polls are", str(modified.type))
    return PollRows(
        keys=keys,
        elements=elements,
        times=times_of(time, lambda _, row, rule, value: complain("time", row, rule, value)),
        changed=_changed(columns["changed"], complain),
        modified=None if modified is None else _modified(modified, complain),
        labels=labels,
        names=names,
    )


def _without_blanks(column: Any) -> Any:  # noqa: ANN401  (Arrow has no types)
    """Return a column in which blank text is missing, as it is in a text file."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column is None:
        return None
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return column
    text = column.cast(pa.large_string())
    return pc.if_else(pc.equal(pc.utf8_trim_whitespace(text), ""), None, text)


def _has_timestamps(column: Any) -> bool:  # noqa: ANN401  (Arrow has no types)
    import pyarrow as pa

    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return True
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
        return False
    return moment(column.drop_null()[0].as_py()) is not None


def _modified(column: Any, complain: Complain) -> Floats:  # noqa: ANN401
    """Return times of modification, nan where there is none."""
    import numpy as np

    known = np.asarray(column.is_valid())
    moments = np.full(len(column), np.nan)
    if not known.any():
        return moments
    rows = np.flatnonzero(known)

    def complain_of_known(_: str, row: int | None, rule: str, value: object) -> NoReturn:
        complain("modified", None if row is None else int(rows[row]), rule, value)

    moments[known] = times_of(column.drop_null(), complain_of_known)
    return moments


def _changed(column: Any, complain: Complain) -> NDArray[np.int8]:  # noqa: ANN401
    """Return 0, 1 or unknown from a column of booleans, numbers or words."""
    import numpy as np
    import pyarrow as pa

    from .columns import encoded

    kinds, kind = pa.types, column.type
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    if kinds.is_string_view(kind):  # Arrow cannot search these
        kind = pa.large_string()
    known = np.asarray(column.is_valid())
    seen = np.full(len(column), UNKNOWN, np.int8)
    if known.any():
        if not any(
            is_kind(kind)
            for is_kind in (
                kinds.is_boolean,
                kinds.is_integer,
                kinds.is_floating,
                kinds.is_string,
                kinds.is_large_string,
            )
        ):
            complain("changed", None, CHANGED, str(kind))
        codes, values = encoded(column.drop_null().cast(kind))
        seen[known] = np.array([_word(value) for value in values.to_pylist()], np.int8)[codes]
    if (wrong := seen < 0).any():
        row = int(np.argmax(wrong))
        complain("changed", row, CHANGED, column[row].as_py())
    return seen


def _word(value: str | float) -> int:
    """Return what a value of the column ``changed`` means; -1 if nothing.

    >>> [_word(value) for value in (True, 0, 1.0, "Yes", "", 7)]
    [1, 0, 1, 1, 2, -1]
    """
    if isinstance(value, str):
        return _WORDS.get(value.strip().lower(), -1)
    return int(value) if value in {0, 1} else -1
