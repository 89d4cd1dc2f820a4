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
    """

    after: Mapping[int, int]

    @classmethod
    def read(cls, text: str) -> Self:
        """Read a cursor, as `text` wrote it."""
        parts = text[2:].split("-") if text.startswith("c:") and len(text) <= _LONGEST else []
        try:
            numbers = [int(part, 36) for part in parts]
        except ValueError:
            numbers = []
        if not numbers or min(numbers) < 0 or max(numbers) >= 2**63:
            raise InvalidInput(
                "--after must be a cursor, as the changes of a mirror of cells have it, such as 'c:c-0-b4'; "
                f"it is {text[:60]!r}"
            )
        return cls(dict(enumerate(numbers)))

    def text(self) -> str:
        """Return it as a word."""
        return "c:" + "-".join(_base36(self.after[number]) for number in sorted(self.after))

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
