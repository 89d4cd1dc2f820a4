"""How much hints are worth, learned from what polls saw after them.

A channel gives hints: a feed, a sitemap, a caller. A hint multiplies the probability that a copy
is fresh by some factor f: 0 if it never errs, 1 if it says nothing. Of polls after a hint, whose copies were
fresh with probability s but for the hint, the sum of s times f is how many should have seen no change; so f
is learned as their number over that sum. The recall of a channel is the share of changes, of the elements
that it speaks of, that came with a hint. A channel that is new is believed half.

Both go into `unstale.HintedChanges`, which knows what a poll is worth then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import log
from typing import Self

import numpy as np

from unstale.arguments import Floats
from unstale.estimation import HintedChanges

_MEMORY_POLLS = 500.0
"""Polls after which what a channel did counts 1/e."""


@dataclass(slots=True)
class Channel:
    """What is known of a channel; it begins with an opinion worth two polls."""

    unchanged: float = 1.0
    """Polls after a hint that saw no change."""
    expected: float = 2.0
    """How many there would have been if hints said nothing."""
    hinted: float = 0.5
    """Changes that came with a hint."""
    changes: float = 1.0
    """All changes of its elements."""
    polls: int = 0
    """Polls after a hint, ever."""

    @property
    def factor(self) -> float:
        """By how much a hint makes a fresh copy less likely."""
        return min(max(self.unchanged / self.expected, 1e-6), 1.0)

    @property
    def recall(self) -> float:
        """Share of changes that come with a hint."""
        return min(max(self.hinted / self.changes, 0.0), 0.99)

    @property
    def evidence(self) -> float:
        """What a hint adds to the evidence that a copy is stale."""
        return -log(self.factor)

    def learn(self, hints: int, fresh: float, *, changed: bool) -> None:
        """Take in a poll of one of its elements, which was fresh with this probability but for hints."""
        fade = 1.0 - 1.0 / _MEMORY_POLLS
        if hints:
            self.polls += 1
            self.expected = fade * self.expected + fresh
            self.unchanged = fade * self.unchanged + (not changed)
        if changed:
            self.changes = fade * self.changes + 1.0
            self.hinted = fade * self.hinted + (hints > 0)


@dataclass(slots=True)
class Channels:
    """All channels, by number; 0 is nobody."""

    names: list[str] = field(default_factory=lambda: [""])
    channels: list[Channel] = field(default_factory=lambda: [Channel()])

    def number(self, name: str) -> int:
        """Return the number of a channel."""
        if name not in self.names:
            self.names.append(name)
            self.channels.append(Channel())
        return self.names.index(name)

    def worths(self, channel: Floats, rate: Floats, since: Floats, hints: Floats) -> Floats:
        """Return what polls of elements are worth, for weight 1.

        Parameters
        ----------
        channel
            The number of the channel from which each element has its hints.
        rate
            Change rate of each element.
        since
            Time since the last poll of each.
        hints
            Hints about each since then.
        """
        factor = np.array([one.factor for one in self.channels])[channel.astype(np.intp)]
        recall = np.array([max(one.recall, 1e-3) for one in self.channels])[channel.astype(np.intp)]
        rate = np.clip(rate, 1e-100, 1e100)
        with np.errstate(divide="ignore"):
            false = recall * rate * factor / np.maximum(1.0 - factor, 1e-9)
        return np.asarray(HintedChanges(rate, recall, np.clip(false, 0.0, 1e100)).worth(since, hints), float)

    def fresh(self, channel: Floats, hints: Floats) -> Floats:
        """Return the factors of hints to the probability that copies are fresh."""
        factor = np.array([one.factor for one in self.channels])[channel.astype(np.intp)]
        return np.asarray(factor**hints, float)

    def text(self) -> bytes:
        """Return all that is known, to be kept."""
        rows = {
            name: [one.unchanged, one.expected, one.hinted, one.changes, one.polls]
            for name, one in zip(self.names[1:], self.channels[1:], strict=True)
        }
        return json.dumps(rows).encode()

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Go on from what was kept."""
        rows = json.loads(text) if text else {}
        return cls(["", *rows], [Channel(), *(Channel(*row) for row in rows.values())])
