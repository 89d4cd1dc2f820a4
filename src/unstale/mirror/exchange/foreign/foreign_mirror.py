"""What another tool watches and has seen, as values; and the bounds within which its files are read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

from unstale.errors import InvalidInput
from unstale.mirror.source import Json

__all__ = ["ForeignElement", "ForeignMirror", "ForeignPoll", "read_json", "read_text", "word_of"]

MOST_ELEMENTS, MOST_POLLS = 1_000_000, 5_000_000
_MOST_JSON_BYTES = 50_000_000
_MOST_TAG_CHARACTERS = 60


def word_of(title: str) -> str:
    """Return a title of a tag or a folder as one word.

    >>> word_of("News of the day")
    'News-of-the-day'
    """
    return "-".join(filter(None, re.split(r"[\s,]+", title)))[:_MOST_TAG_CHARACTERS]


@dataclass(frozen=True)
class ForeignElement:
    """One thing that is watched."""

    key: str
    source: str | None = None
    options: Mapping[str, Json] = field(default_factory=dict)
    every: float = 0.0
    """Seconds between its polls, as the other tool made them; 0: not known."""
    tags: tuple[str, ...] = ()
    paused: bool = False


@dataclass(frozen=True)
class ForeignPoll:
    """One look at an element."""

    key: str
    time: float
    outcome: Literal["new", "changed", "unchanged", "gone", "failed"]


@dataclass
class ForeignMirror:
    """All that was found, in a form that does not depend on the tool."""

    elements: dict[str, ForeignElement] = field(default_factory=dict)
    polls: list[ForeignPoll] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    """What is not taken, and why."""

    def add(self, element: ForeignElement) -> None:
        """Add an element; of those with the same key the first counts."""
        if element.key in self.elements:
            self.left_out.append((element.key, "it is there twice; the first one counts"))
        elif len(self.elements) >= MOST_ELEMENTS:
            raise InvalidInput(f"there are more than {MOST_ELEMENTS:,} elements; divide the file")
        else:
            known = isfinite(element.every) and element.every >= 0.0
            self.elements[element.key] = element if known else replace(element, every=0.0)

    def saw(self, poll: ForeignPoll) -> None:
        """Add a poll, unless it was before 1970 or never."""
        if not 0.0 < poll.time < inf:
            return
        if len(self.polls) >= MOST_POLLS:
            raise InvalidInput(f"there are more than {MOST_POLLS:,} polls; divide the file")
        self.polls.append(poll)

    @property
    def polls_per_day(self) -> float:
        """Polls that the other tool made in a day, as far as its intervals are known."""
        return sum(
            86400.0 / one.every for one in self.elements.values() if one.every > 0.0 and not one.paused
        )


@contextmanager
def as_written_by(tool: str, where: str) -> Iterator[None]:
    """Say in one line that something is not as a tool writes it: values of other kinds, numbers too large."""
    try:
        yield
    except InvalidInput:
        raise
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        why = f"{type(error).__name__}: {str(error)[:100]}"
        raise InvalidInput(f"{where}: is not as {tool} writes it, or was cut ({why})") from None


def read_text(path: Path, most: int = _MOST_JSON_BYTES) -> str:
    """Return a text file of a bounded size."""
    try:
        if path.stat().st_size > most:
            raise InvalidInput(f"{path}: has more than {most:,} bytes")
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{path}: is not UTF-8") from None
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror}") from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file."""
    text = read_text(path)
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "too deep"
        raise InvalidInput(f"{path}: is no JSON, or was cut ({why})") from None
    if not isinstance(said, dict):
        raise InvalidInput(f"{path}: must be a JSON object")
    return said
