"""Where things stand in a TOML file: `tomllib` says what is in it, but not on which line."""

from __future__ import annotations

import re
import tomllib

__all__ = ["Place", "places"]

Place = tuple[str | int, ...]
"""A way through tables and arrays: ``("rule", 0, "max_age")``."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_SPACE = re.compile(r"[ \t]*")
_EMPTY = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5}|' + _QUOTED.pattern,
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]*")


def places(text: str) -> dict[Place, int]:
    r"""Return the line, from 1 on, of each table, key and entry of a text that `tomllib` has accepted.

    >>> places('[mirror]\nbudget = "1/h"\n[[rule]]\nmax_age = "6h"\n')[("rule", 0, "max_age")]
    4
    """
    return _Scan(text.replace("\r\n", "\n")).found


class _Scan:
    """One walk over a text."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.counted = text, 0, 1, 0
        self.found: dict[Place, int] = {}
        self.arrays: dict[Place, int] = {}
        """How many tables each array of tables has so far."""
        table: Place = ()
        self._take(_EMPTY)
        while self.at < len(text):
            if text.startswith("[", self.at):
                table = self._heading()
            else:
                self._pair(table)
            self._take(_EMPTY)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Go on over what matches."""
        match = pattern.match(self.text, self.at)
        if match is None:
            msg = f"nothing that TOML allows at {self.at}"
            raise ValueError(msg)
        self.at = match.end()
        return match[0]

    def _note(self, place: Place) -> None:
        """Note that this is the line of a place, and of all that it is in, unless they had one before."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        for depth in range(1, len(place) + 1):
            self.found.setdefault(place[:depth], self.line)

    def _heading(self) -> Place:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        place: Place = ()
        *outer, last = self._key()
        for part in outer:
            place = self._inside((*place, part))
        place = (*place, last)
        if many:
            self.arrays[place] = self.arrays.get(place, 0) + 1
            place = self._inside(place)
        self._note(place)
        self.at += 2 if many else 1
        return place

    def _inside(self, place: Place) -> Place:
        """Return the last table of an array of tables, or the table itself."""
        return (*place, self.arrays[place] - 1) if place in self.arrays else place

    def _key(self) -> list[str]:
        """Read a key with its dots, and the space around it."""
        parts = []
        while True:
            self._take(_SPACE)
            if self.text[self.at] in "\"'":
                parts.append(str(tomllib.loads(f"key = {self._take(_QUOTED)}")["key"]))
            else:
                parts.append(self._take(_BARE))
            self._take(_SPACE)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _pair(self, table: Place) -> None:
        place = (*table, *self._key())
        self._note(place)
        self.at += 1  # the equals sign
        self._take(_SPACE)
        self._value(place)

    def _value(self, place: Place) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self._take(_STRING)
        elif opening in "[{":
            self._entries(place, "]" if opening == "[" else "}")
        else:
            self._take(_OTHER)

    def _entries(self, place: Place, closing: str) -> None:
        """Read an array or an inline table."""
        self.at += 1
        count = 0
        self._take(_EMPTY)
        while not self.text.startswith(closing, self.at):
            if closing == "]":
                self._note((*place, count))
                self._value((*place, count))
            else:
                self._pair(place)
            count += 1
            self._take(_EMPTY)
            if self.text.startswith(",", self.at):
                self.at += 1
                self._take(_EMPTY)
        self.at += 1
