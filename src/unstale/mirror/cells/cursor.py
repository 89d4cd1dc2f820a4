"""One place in the changes of all cells: how far each has been read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from unstale.errors import InvalidInput

from .layout import Cell

__all__ = ["Cursor"]

_LONGEST = 200_000
"""Characters of a cursor, at most."""


@dataclass(frozen=True)
class Cursor:
    """The number of the last change that was read of each cell, by the number of the cell.

    >>> text = Cursor({0: 12, 1: 0, 2: 400}).text()
    >>> text, Cursor.read(text).after
    ('c:c-0-b4', {0: 12, 1: 0, 2: 400})
    >>> Cursor({0: 12, 1: 0, 4: 400}).text()  # after a split numbers may be left out
    'c:c-0-4.b4'
    """

    after: Mapping[int, int]

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a cursor, as `text` wrote it."""
        words = text[2:].split("-") if text.startswith("c:") and len(text) <= _LONGEST else []
        after: dict[int, int] = {}
        try:
            for place, word in enumerate(words):
                number, dot, change = word.rpartition(".")
                after[int(number, 36) if dot else place] = int(change, 36)
        except ValueError:
            after = {}
        if len(after) < max(len(words), 1) or not all(
            0 <= one < 2**63 for pair in after.items() for one in pair
        ):
            raise InvalidInput(
                "--after must be a cursor, as the changes of a mirror of cells have it, such as 'c:c-0-b4'; "
                f"it is {text[:60]!r}"
            )
        return cls(after)

    def text(self) -> str:
        """Return it as a word."""
        words = [
            _base36(change) if number == place else f"{_base36(number)}.{_base36(change)}"
            for place, (number, change) in enumerate(self)
        ]
        return "c:" + "-".join(words)

    def over(self, cells: Sequence[Cell]) -> Cursor:
        """Return it for these cells: one that was split off since begins where its parent was then."""
        after: dict[int, int] = {}
        for cell in sorted(cells, key=lambda one: one.number):  # a parent comes before its children
            known = self.after.get(cell.number)
            after[cell.number] = after.get(cell.parent, 0) if known is None else known
        return Cursor(after)

    def past(self, number: int, change: int) -> Cursor:
        """Return the place after a change of a cell."""
        return Cursor({**self.after, number: change})

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(sorted(self.after.items()))


def _base36(number: int) -> str:
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = digits[digit] + text
        if not number:
            return text
