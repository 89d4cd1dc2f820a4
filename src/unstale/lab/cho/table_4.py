"""Which of two elements to poll, if one changes nine times a day and the other once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from unstale.lab.experiment import CHO, Claim, Panel, Run, Table, experiment, number, ours, statement

_SLOTS = 9
"""Slots of a day in each of which the fast element changes once; the slow one changes once in the day."""
_ROWS = {
    "a": (1, 0, Fraction(1, 36)),
    "b": (0, 1, Fraction(9, 36)),
    "c": (2, 0, Fraction(2, 36)),
    "d": (1, 1, Fraction(10, 36)),
    "e": (0, 2, Fraction(12, 36)),
    "f": (3, 2, Fraction(30, 72)),
    "g": (2, 3, Fraction(31, 72)),
    "h": (9, 1, Fraction(36, 72)),
    "i": (7, 3, Fraction(41, 72)),
    "j": (5, 5, Fraction(40, 72)),
}
_BEST = {1: (0, 1), 2: (0, 2), 5: (2, 3), 10: (7, 3)}


def _benefit(fast: int, slow: int) -> Fraction:
    """Return the time that polls keep copies fresh until the end of their slot.

    The polls of a slot divide it evenly; one that finds the change keeps the copy fresh for what is left.
    """
    step = Fraction(1, slow + 1)
    return Fraction(fast, 4 * _SLOTS) + sum((step * (1 - k * step) for k in range(1, slow + 1)), Fraction(0))


def _freshness(fast: int, slow: int) -> Fraction:
    """Return the freshness of the same polls, before the change and beyond the end of the slot too."""
    half, whole = Fraction(3, 8), Fraction(1, 2)  # time that a copy stays fresh in half a slot, and in one
    followed = max(0, 2 * fast - _SLOTS)  # slots with a poll whose next one has a poll too
    quick = fast * half + (fast - followed) * whole / 2 + followed * half / 2
    step = Fraction(1, slow + 1)
    calm = (step - step**2 / 2) * (slow + 1 - step) if slow else Fraction(0)
    return (quick / _SLOTS + calm) / 2


@experiment("cho-table-4", paper=CHO, where="Table 4 and section 5.2", seconds=0.2)
def table_4(run: Run) -> Iterator[Claim | Panel | Table]:
    """Few polls are best spent on the slow one of two elements.

    Count the benefit of each split in fractions of a day.
    """
    del run  # there is nothing to choose
    for row, (fast, slow, printed) in _ROWS.items():
        yield number(
            f"benefit of row ({row}): {fast} + {slow} polls",
            published=float(printed),
            computed=float(_benefit(fast, slow)),
            within=1e-15,
        )
    table: dict[str, list[object]] = {name: [] for name in _COLUMNS}
    for total, (fast, slow) in _BEST.items():
        splits = [(one, total - one) for one in range(min(total, _SLOTS) + 1)]
        yield statement(
            f"best split, polls in all: {total}",
            says=f"{fast} for the fast element and {slow} for the slow one",
            holds=max(splits, key=lambda split: _benefit(*split)) == (fast, slow),
        )
        best = max(splits, key=lambda split: _freshness(*split))
        yield ours(
            f"the same split is the freshest, polls in all: {total}",
            computed=best == (fast, slow),
            why="the benefit leaves out time before the change and after the slot, so it is not freshness",
        )
        for split in splits:
            values = (total, *split, float(_benefit(*split)), float(_freshness(*split)))
            for name, value in zip(_COLUMNS, values, strict=True):
                table[name].append(value)
    yield ours("freshness of 7 + 3 polls", computed=float(_freshness(7, 3)), expected=0.635851, close=1e-5)
    yield statement(
        "rows (a) to (e)",
        says="with few polls, give up the element that changes too fast",
        holds=_benefit(0, 1) > _benefit(1, 0) and _benefit(0, 2) > _benefit(1, 1) > _benefit(2, 0),
    )
    yield statement(
        "rows (h) to (j)",
        says="uniform beats proportional, and the best lies between them",
        holds=_benefit(7, 3) > _benefit(5, 5) > _benefit(9, 1),
    )
    yield Table("All splits (benefit in days, freshness as share of time)", table)


_COLUMNS = ("polls a day", "fast element", "slow element", "benefit", "freshness")
