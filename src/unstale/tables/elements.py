"""What a table of elements holds, what is allowed in it, and how to complain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from unstale.errors import InvalidInput
from unstale.quantities import LEAST, MOST

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = [
    "LAW_ROLES",
    "MOST_SURE",
    "NUMBERS",
    "POSITIVE",
    "ROLES",
    "Advance",
    "Elements",
    "Keys",
    "as_list",
    "bad_column",
    "bad_file",
    "bad_value",
    "broken_rule",
    "find_columns",
    "for_elements",
    "ignore",
    "is_utf8",
    "reason",
    "repeated",
    "shown_path",
    "taken",
]

ROLES = ("key", "rate", "weight", "size", "group")
LAW_ROLES = ("shape", "scale")
"""Columns of the gamma law of a rate that is not known for sure; they count together."""
NUMBERS = {
    "rate": "finite and >= 0",
    "shape": "finite and > 0",
    "scale": "finite and > 0",
    "weight": "finite and >= 0",
    "size": "finite and > 0",
}
POSITIVE = {"shape", "scale", "size"}
MOST_SURE = 1e15
"""Largest shape; beyond, a rate is known to the last digit."""

Advance = Callable[[int], None]
"""Is told, now and then, how many more bytes or rows are done."""


def ignore(_: int) -> None:
    """Take no notice of progress."""


class Keys(Protocol):
    """A sequence of keys: a list, a range, an array, or a column of Arrow."""

    def __len__(self) -> int:
        """How many."""

    def __getitem__(self, part: slice, /) -> Any:  # noqa: ANN401  (Arrow has no types)
        """Some of them."""


def as_list(keys: Keys) -> list[Any]:
    """Return keys, or another column, as values of Python; moments as text, in UTC.

    >>> import numpy as np
    >>> as_list(range(3)), as_list(np.array(["2026-01-01T12:00:00.5"], "datetime64[ms]"))
    ([0, 1, 2], ['2026-01-01T12:00:00.500Z'])
    """
    part = keys[:]
    if hasattr(part, "to_pylist"):
        return list(part.to_pylist())
    if not hasattr(part, "tolist"):
        return list(part)
    if part.dtype.kind == "M":
        import numpy as np

        part = np.datetime_as_string(part, timezone="UTC")
    return list(part.tolist())


def taken(keys: Keys, places: NDArray[np.int64]) -> Any:  # noqa: ANN401
    """Return the keys in some places.

    >>> import numpy as np
    >>> list(taken(["a", "b"], np.array([1, 0, 1]))), taken(range(1, 3), np.array([1, 0])).tolist()
    (['b', 'a', 'b'], [2, 1])
    """
    whole: Any = keys
    if hasattr(whole, "take"):
        return whole.take(places)
    if isinstance(whole, range):
        return whole.start + whole.step * places
    return [whole[place] for place in places.tolist()]


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements as read from a table; what the table lacks is None."""

    rates: Floats
    """Mean rates, where they are uncertain."""
    keys: Keys
    """Row numbers, from 1, if there is no column of keys."""
    weights: Floats | None = None
    sizes: Floats | None = None
    groups: NDArray[np.int64] | None = None
    """Positions in ``group_names``."""
    group_names: Sequence[object] = ()
    shapes: Floats | None = None
    """Of the gamma laws of the rates; NaN where a rate is known."""
    scales: Floats | None = None

    def __len__(self) -> int:
        """How many."""
        return len(self.rates)

    @property
    def uncertain(self) -> int:
        """How many rates are known only as a law."""
        import numpy as np

        return 0 if self.shapes is None else int(np.count_nonzero(~np.isnan(self.shapes)))


def bad_file(path: str, problem: str, *, line: int | None = None) -> InvalidInput:
    """Return the error that says what is wrong with a file, or with one line of it."""
    place = "" if line is None else f", line {line}"
    return InvalidInput(f"{shown_path(path)}{place}: {problem}")


def bad_column(path: str, column: str, problem: str) -> InvalidInput:
    """Return the error that says what is wrong with a whole column."""
    return InvalidInput(f"{shown_path(path)}, column {column!r}: {problem}")


def repeated(path: str, places: tuple[str, str], column: str, value: object) -> InvalidInput:
    """Return the error that says where a key stands for the second and for the first time.

    >>> repeated("pages.csv", ("line 7", "line 2"), "key", "a")
    InvalidInput("pages.csv, line 7, column 'key': must not repeat a key; 'a' is in line 2 already")
    """
    there = f"{_shown(value)} is in {places[1]} already"
    return InvalidInput(f"{shown_path(path)}, {places[0]}, column {column!r}: must not repeat a key; {there}")


def bad_value(path: str, place: str, column: str, rule: str, value: object) -> InvalidInput:
    """Return the error that says what is wrong with one value.

    >>> bad_value("pages.csv", "line 812", "rate", "finite and >= 0", "-2")
    InvalidInput("pages.csv, line 812, column 'rate': must be finite and >= 0; it is '-2'")
    """
    said = f"must be {rule}; it is {_shown(value)}"
    return InvalidInput(f"{shown_path(path)}, {place}, column {column!r}: {said}")


def _shown(value: object) -> str:
    shown = repr(value)
    return f"{shown[:40]}...{shown[-10:]}" if len(shown) > 60 else shown


def broken_rule(role: str, value: float) -> str:
    """Return the rule that a number breaks, if any.

    >>> broken_rule("rate", 2.0), broken_rule("rate", -2.0), broken_rule("rate", 1e308)
    ('', 'finite and >= 0', '0, or between 1e-100 and 1e100')
    """
    zero = "" if role in POSITIVE else "0, or "
    most, shown = (MOST_SURE, "1e15") if role == "shape" else (MOST, "1e100")
    if LEAST <= value <= most or (value == 0.0 and zero):
        return ""
    return f"{zero}between 1e-100 and {shown}" if 0.0 < value < inf else NUMBERS[role]


def shown_path(path: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path == "-" else path


def find_columns(
    path: str,
    header: Sequence[str],
    names: Mapping[str, str],
    required: set[str],
    *,
    line: int | None = None,
) -> dict[str, int]:
    """Return where the columns stand; roles without a column are left out."""
    found = {}
    for role, name in names.items():
        places = [i for i, column in enumerate(header) if column == name]
        if len(places) > 1:
            raise bad_file(path, f"the header has the column {name!r} {len(places)} times", line=line)
        if places:
            found[role] = places[0]
        elif role in required:
            have = ", ".join(map(repr, header[:12])) + (", ..." if len(header) > 12 else "")
            which = f"say which one it is with --column {role}=NAME" if name == role else ""
            hint = (line and _oddity(header)) or which
            hint = hint and f"; {hint}"
            raise bad_file(path, f"there is no column {name!r} among {have}{hint}", line=line)
    return found


def for_elements(
    header: Sequence[str], names: Mapping[str, str], required: set[str]
) -> tuple[dict[str, str], set[str]]:
    """Return which columns to look for in a table of elements, and which of them it must have.

    Laws count if both of their columns are there, or if one is asked for; then there need not be rates.
    """
    asked = required & set(LAW_ROLES)
    if asked or all(names.get(role) in header for role in LAW_ROLES):
        return dict(names), required | set(LAW_ROLES)
    return {role: name for role, name in names.items() if role not in LAW_ROLES}, required | {"rate"}


_SEPARATORS = {";": "';'", "|": "'|'", "\t": "tabs", ",": "commas"}


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


def is_utf8(text: str) -> bool:
    """Tell whether text was UTF-8 in its file."""
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes that are not UTF-8 have been let in as lone surrogates
        return False
    return True


def reason(error: BaseException) -> str:
    """Return what the system says, in its words, on one line."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said)[:1].lower() + str(said)[1:]
