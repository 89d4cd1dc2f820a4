"""How the commands of the mirror write what they have to say: lists and pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from unstale.quantities import show_share
from unstale.wording import plural

if TYPE_CHECKING:
    from rich.console import Console

_OUTCOMES = ("new", "changed", "unchanged", "gone", "refused", "failed")


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


def withheld_words(count: int) -> str:
    """Return a sentence about elements of a file to which rules would give secrets."""
    whom = "1 element gets" if count == 1 else f"{count:,} elements get"
    return (
        f"{whom} no headers and other secrets of rules, since a file named "
        f"{'it' if count == 1 else 'them'}. If you trust the file, say --allow secrets."
    )


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
