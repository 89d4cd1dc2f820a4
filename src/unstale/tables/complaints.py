"""How readers of files complain: the file, the line or row, the column, the value, and what must be there."""

from __future__ import annotations

from typing import NamedTuple

from unstale.errors import InvalidInput


class Place(NamedTuple):
    """Where a row stands."""

    path: str
    row: str
    """Such as ``line 12`` or ``row 12``."""

    def wrong(self, column: str, rule: str, value: object) -> InvalidInput:
        """Return the error that says what is wrong with one value.

        >>> Place("pages.csv", "line 812").wrong("rate", "finite and >= 0", "-2")
        InvalidInput("pages.csv, line 812, column 'rate': must be finite and >= 0; it is '-2'")
        """
        return self._complaint(column, f"must be {rule}; it is {_shown(value)}")

    def repeats(self, first: Place, column: str, key: object) -> InvalidInput:
        """Return the error that says where a key stands for the second and for the first time.

        >>> Place("pages.csv", "line 7").repeats(Place("pages.csv", "line 2"), "key", "a")
        InvalidInput("pages.csv, line 7, column 'key': must not repeat a key; 'a' is in line 2 already")
        """
        return self._complaint(column, f"must not repeat a key; {_shown(key)} is in {first.row} already")

    def _complaint(self, column: str, problem: str) -> InvalidInput:
        return InvalidInput(f"{shown_path(self.path)}, {self.row}, column {column!r}: {problem}")


def bad_file(path: str, problem: str, *, line: int | None = None) -> InvalidInput:
    """Return the error that says what is wrong with a file, or with one line of it."""
    place = "" if line is None else f", line {line}"
    return InvalidInput(f"{shown_path(path)}{place}: {problem}")


def bad_column(path: str, column: str, problem: str) -> InvalidInput:
    """Return the error that says what is wrong with a whole column."""
    return InvalidInput(f"{shown_path(path)}, column {column!r}: {problem}")


def shown_path(path: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if path == "-" else path


def _shown(value: object) -> str:
    shown = repr(value)
    return f"{shown[:40]}...{shown[-10:]}" if len(shown) > 60 else shown


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
