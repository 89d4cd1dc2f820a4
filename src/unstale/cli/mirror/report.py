"""How the commands of the mirror write what they have to say: lists, pairs, JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from unstale.quantities import show_share
from unstale.wording import plural

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["as_moment", "in_json", "print_item", "print_pairs", "show_interval", "show_outcomes"]

_MOMENTS = frozenset({"added", "blocked_until", "last", "modified", "next_poll", "not_before", "now", "time"})
"""Names of fields that are seconds since 1970."""
_OUTCOMES = ("new", "changed", "unchanged", "gone", "refused", "failed")


def as_moment(seconds: float | None) -> str | None:
    """Return a moment for JSON, or None.

    >>> as_moment(0.5), as_moment(float("inf"))
    ('1970-01-01T00:00:00.500000Z', None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def show_interval(value: float, low: float, high: float) -> str:
    """Return a share with its interval.

    >>> show_interval(0.8, 0.75, 0.84), show_interval(float("nan"), 0.0, 1.0)
    ('80.0% (75.0% to 84.0%)', 'unknown')
    """
    if not math.isfinite(value):
        return "unknown"
    return f"{show_share(value)} ({show_share(low)} to {show_share(high)})"


def show_outcomes(counts: Mapping[str, int]) -> str:
    """Return how many polls saw what.

    >>> show_outcomes({"unchanged": 5, "changed": 1}), show_outcomes({})
    ('6 polls: 1 changed, 5 unchanged', 'no polls')
    """
    known = {name: counts[name] for name in (*_OUTCOMES, *counts) if counts.get(name)}
    if not known:
        return "no polls"
    parts = ", ".join(f"{count:,} {name}" for name, count in known.items())
    return f"{plural(sum(known.values()), 'poll')}: {parts}"


def print_pairs(out: Console, pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, aligned; a long value goes on below itself."""
    import textwrap

    pairs = list(pairs)
    margin = max(len(name) for name, _ in pairs) + 2
    room = max(min(out.width, 100) - margin, 20)
    for name, value in pairs:
        lines = textwrap.wrap(value, room, break_long_words=False, break_on_hyphens=False) or [""]
        out.print(f"{name:{margin}}" + f"\n{' ' * margin}".join(lines), soft_wrap=True)


def print_item(out: Console, text: str, indent: int = 2) -> None:
    """Print an entry of a list; where it does not fit, it goes on below, a little further in."""
    import textwrap

    lines = textwrap.wrap(
        text,
        min(out.width, 100),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    out.print("\n".join(lines), soft_wrap=True)


def in_json(value: object) -> object:
    """Return a record as JSON has it: dataclasses are objects, keys are texts, moments are in UTC."""
    from dataclasses import fields, is_dataclass

    if is_dataclass(value) and not isinstance(value, type):
        entries = {field.name: getattr(value, field.name) for field in fields(value)}
        return {
            name: as_moment(entry) if name in _MOMENTS else in_json(entry) for name, entry in entries.items()
        }
    if isinstance(value, Mapping):
        return {str(key): in_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [in_json(entry) for entry in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return value.item() if hasattr(value, "item") else str(value)
