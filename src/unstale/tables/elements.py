"""What a table of elements holds, what is allowed in it, and how to complain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from unstale.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats

__all__ = [
    "NUMBERS",
    "ROLES",
    "Advance",
    "Elements",
    "Keys",
    "as_list",
    "bad_file",
    "bad_value",
    "find_columns",
    "ignore",
    "reason",
    "shown_path",
]

ROLES = ("key", "rate", "weight", "size", "group")
NUMBERS = {"rate": "finite and >= 0", "weight": "finite and >= 0", "size": "finite and > 0"}

Advance = Callable[[int], None]
"""Is told, now and then, how many more bytes or rows are done."""


def ignore(_: int) -> None:
    """Take no notice of progress."""


class Keys(Protocol):
    """A sequence of keys: a list, a range, or a column of Arrow."""

    def __len__(self) -> int:
        """How many."""

    def __getitem__(self, part: slice, /) -> Any:  # noqa: ANN401  (Arrow has no types)
        """Some of them."""


def as_list(keys: Keys) -> list[str | int]:
    """Return keys as values of Python."""
    part = keys[:]
    return list(part.to_pylist() if hasattr(part, "to_pylist") else part)


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements as read from a table; what the table lacks is None."""

    rates: Floats
    keys: Keys
    """Row numbers, from 1, if there is no column of keys."""
    weights: Floats | None = None
    sizes: Floats | None = None
    groups: NDArray[np.int64] | None = None
    """Positions in ``group_names``."""
    group_names: Sequence[object] = ()

    def __len__(self) -> int:
        """How many."""
        return len(self.rates)


def bad_file(path: str, problem: str, *, line: int | None = None) -> InvalidInput:
    """Return the error that says what is wrong with a file, or with one line of it."""
    place = "" if line is None else f", line {line}"
    return InvalidInput(f"{shown_path(path)}{place}: {problem}")


def bad_value(path: str, place: str, column: str, rule: str, value: object) -> InvalidInput:
    """Return the error that says what is wrong with one value.

    >>> bad_value("pages.csv", "line 812", "rate", "finite and >= 0", "-2")
    InvalidInput("pages.csv, line 812, column 'rate': must be finite and >= 0; it is '-2'")
    """
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:40]}...{shown[-10:]}"
    return InvalidInput(f"{shown_path(path)}, {place}, column {column!r}: must be {rule}; it is {shown}")


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
            hint = f"; say which one it is with --column {role}=NAME" if name == role else ""
            raise bad_file(path, f"there is no column {name!r} among {have}{hint}", line=line)
    return found


def reason(error: BaseException) -> str:
    """Return what the system says, in its words, on one line."""
    said = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(said)[:1].lower() + str(said)[1:]
