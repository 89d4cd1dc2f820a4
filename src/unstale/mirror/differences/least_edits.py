"""The least edits that make one list of lines from another, written as a unified difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_EDITS = 300
"""Lines added and removed up to which the least edits are searched: the effort grows with the square."""
_MAX_LINE_CHARACTERS = 300
"""A longer line is cut."""
_CONTEXT_LINES = 2
"""Unchanged lines that are shown before and after an edit."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """Lines that were replaced: old[low:high] by new[start:stop]."""

    low: int
    high: int
    start: int
    stop: int


def line_difference(old: list[str], new: list[str], limit: int) -> str:
    """Return a unified difference of about ``limit`` lines at most; if there are too many edits, counts."""
    first = 0
    while first < min(len(old), len(new)) and old[first] == new[first]:
        first += 1
    end = 0
    while end < min(len(old), len(new)) - first and old[-1 - end] == new[-1 - end]:
        end += 1
    edits = _edits(old[first : len(old) - end], new[first : len(new) - end])
    if edits is None:
        return _counts(old, new, limit)
    moved = [_Edit(e.low + first, e.high + first, e.start + first, e.stop + first) for e in edits]
    return "\n".join(_clipped(_hunks(old, new, moved), limit))


def _clipped(lines: Iterator[str], limit: int) -> Iterator[str]:
    left_out = 0
    for number, line in enumerate(lines):
        if number < limit:
            yield (
                line
                if len(line) <= _MAX_LINE_CHARACTERS
                else f"{line[:_MAX_LINE_CHARACTERS]}... ({len(line):,} characters)"
            )
        else:
            left_out += 1
    if left_out:
        yield f"... and {left_out:,} more lines"


def _counts(old: list[str], new: list[str], limit: int) -> str:
    """Return which lines were added and removed, if there are too many edits for a difference in order."""
    before, after = Counter(old), Counter(new)
    gone, came = before - after, after - before
    head = f"{gone.total():,} lines removed, {came.total():,} lines added, of {len(old):,} and {len(new):,}"

    def shown() -> Iterator[str]:
        yield from (f"-{line}" for line in gone.elements())
        yield from (f"+{line}" for line in came.elements())

    return "\n".join([head, *_clipped(shown(), max(0, limit - 1))])


def _edits(old: list[str], new: list[str]) -> list[_Edit] | None:
    """Return the least edits from one to the other, or None if there are more than `_MAX_EDITS`.

    This is the greedy algorithm of Myers (Algorithmica 1, 1986): ``reach[k]`` is how far into ``old`` a path
    comes on diagonal ``k`` with so many edits. The reaches are kept, to walk back.
    """
    n, m = len(old), len(new)
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(_MAX_EDITS, n + m) + 1):
        trail.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            if k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1)):
                x = reach[k + 1]
            else:
                x = reach[k - 1] + 1
            while x < n and x - k < m and old[x] == new[x - k]:
                x += 1
            reach[k] = x
            if x >= n and x - k >= m:
                return _walked_back(trail, n, m)
    return None


def _walked_back(trail: list[dict[int, int]], n: int, m: int) -> list[_Edit]:
    found: list[_Edit] = []
    x, y = n, m
    for edits in range(len(trail) - 1, 0, -1):
        reach, k = trail[edits], x - y
        down = k == -edits or (k != edits and reach.get(k - 1, -1) < reach.get(k + 1, -1))
        x = reach[k + 1] if down else reach[k - 1]
        y = x - (k + 1 if down else k - 1)
        edit = _Edit(x, x, y, y + 1) if down else _Edit(x, x + 1, y, y)
        if found and (found[-1].low, found[-1].start) == (edit.high, edit.stop):
            edit = _Edit(edit.low, found[-1].high, edit.start, found.pop().stop)
        found.append(edit)
    return found[::-1]


def _hunks(old: list[str], new: list[str], edits: list[_Edit]) -> Iterator[str]:
    """Write edits as a unified difference."""
    groups: list[list[_Edit]] = []
    for edit in edits:
        if groups and edit.low - groups[-1][-1].high <= 2 * _CONTEXT_LINES:
            groups[-1].append(edit)
        else:
            groups.append([edit])
    for group in groups:
        first, last = group[0], group[-1]
        before = min(_CONTEXT_LINES, first.low)
        after = min(_CONTEXT_LINES, len(old) - last.high)
        low, start = first.low - before, first.start - before
        yield f"@@ -{_span(low, last.high + after)} +{_span(start, last.stop + after)} @@"
        at = low
        for edit in group:
            yield from (f" {line}" for line in old[at : edit.low])
            yield from (f"-{line}" for line in old[edit.low : edit.high])
            yield from (f"+{line}" for line in new[edit.start : edit.stop])
            at = edit.high
        yield from (f" {line}" for line in old[at : at + after])


def _span(low: int, high: int) -> str:
    count = high - low
    return f"{low + (count > 0)},{count}" if count != 1 else f"{low + 1}"
