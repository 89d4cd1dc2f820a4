"""The line of each key in a TOML file, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib

TomlPath = tuple[str | int, ...]
"""The path of a key through tables and arrays: ``("rule", 0, "max_age")``."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_SPACE = re.compile(r"[ \t]*")
_EMPTY = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}|\'\'\'(?:[^\']|\'{1,2}(?!\'))*\'{3,5}|' + _QUOTED.pattern,
    re.DOTALL,
)
_OTHER = re.compile(r"[^,\]}#\n]*")


def line_numbers(text: str) -> dict[TomlPath, int]:
    r"""Return the line, from 1 on, of each table, key and entry of a text that `tomllib` has accepted.

    >>> line_numbers('[mirror]\nbudget = "1/h"\n[[rule]]\nmax_age = "6h"\n')[("rule", 0, "max_age")]
    4
    """
    return _Scan(text.replace("\r\n", "\n")).found


class _Scan:
    """One pass over a text."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.line, self.counted = text, 0, 1, 0
        self.found: dict[TomlPath, int] = {}
        self.arrays: dict[TomlPath, int] = {}
        """The number of tables that each array of tables has so far."""
        table: TomlPath = ()
        self._take(_EMPTY)
        while self.at < len(text):
            if text.startswith("[", self.at):
                table = self._heading()
            else:
                self._pair(table)
            self._take(_EMPTY)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Move behind the match of a pattern, and return the match."""
        match = pattern.match(self.text, self.at)
        if match is None:
            raise ValueError(f"nothing that TOML allows at {self.at}")
        self.at = match.end()
        return match[0]

    def _note(self, toml_path: TomlPath) -> None:
        """Record this line for a path, and for the paths that contain it, unless they have one already."""
        self.line += self.text.count("\n", self.counted, self.at)
        self.counted = self.at
        for depth in range(1, len(toml_path) + 1):
            self.found.setdefault(toml_path[:depth], self.line)

    def _heading(self) -> TomlPath:
        many = self.text.startswith("[[", self.at)
        self.at += 2 if many else 1
        toml_path: TomlPath = ()
        *outer, last = self._key()
        for part in outer:
            toml_path = self._inside((*toml_path, part))
        toml_path = (*toml_path, last)
        if many:
            self.arrays[toml_path] = self.arrays.get(toml_path, 0) + 1
            toml_path = self._inside(toml_path)
        self._note(toml_path)
        self.at += 2 if many else 1
        return toml_path

    def _inside(self, toml_path: TomlPath) -> TomlPath:
        """Return the last table of an array of tables, or the table itself."""
        return (*toml_path, self.arrays[toml_path] - 1) if toml_path in self.arrays else toml_path

    def _key(self) -> list[str]:
        """Read a dotted key with the space around it; return its parts."""
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

    def _pair(self, table: TomlPath) -> None:
        toml_path = (*table, *self._key())
        self._note(toml_path)
        self.at += 1  # the equals sign
        self._take(_SPACE)
        self._value(toml_path)

    def _value(self, toml_path: TomlPath) -> None:
        opening = self.text[self.at]
        if opening in "\"'":
            self._take(_STRING)
        elif opening in "[{":
            self._entries(toml_path, "]" if opening == "[" else "}")
        else:
            self._take(_OTHER)

    def _entries(self, toml_path: TomlPath, closing: str) -> None:
        """Read an array or an inline table."""
        self.at += 1
        count = 0
        self._take(_EMPTY)
        while not self.text.startswith(closing, self.at):
            if closing == "]":
                self._note((*toml_path, count))
                self._value((*toml_path, count))
            else:
                self._pair(toml_path)
            count += 1
            self._take(_EMPTY)
            if self.text.startswith(",", self.at):
                self.at += 1
                self._take(_EMPTY)
        self.at += 1
