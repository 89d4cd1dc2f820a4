"""How much hints are worth, learned from what polls saw after them.

A channel gives hints: a feed, a sitemap, a caller. A hint multiplies the probability that a copy
is fresh by some factor f: 0 if it never errs, 1 if it says nothing. Of polls after a hint, whose copies were
fresh with probability s but for the hint, the sum of s times f is how many should have seen no change; so f
is learned as their number over that sum. The recall of a channel is the share of changes, of the elements
that it speaks of, that come with a hint. It is learned from polls without a hint: what they see has come
without one. (Of the changes that polls see after hints nobody knows how they came; if most polls follow
hints, nearly all changes are seen after one.) A channel that is new is believed half.

Both go into `unstale.HintedChanges`, which knows what a poll is worth then for freshness, and into
`HintedCosts`, which knows it for other objectives: for them it matters, too, when hints came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import expm1, log
from typing import Self

import numpy as np

from unstale.arguments import Floats
from unstale.estimation import HintedChanges
from unstale.estimation.hints.hinted_costs import HintedCosts
from unstale.kernels import FRESHNESS
from unstale.objectives import Harmonic, Objective, SourcePenalty, UpdatePenalty

MOST_MOMENTS = 8
"""Hints about an element since its last poll whose moments are kept; of more, the last counts for all."""
_MEMORY_POLLS = 500.0
"""Polls after which what a channel did counts 1/e."""
_MOST_PASSED = 20.0
"""Changes to expect since the last poll, beyond which more make no difference."""


@dataclass(slots=True)
class Channel:
    """What is known of a channel; it begins with an opinion worth two polls."""

    unchanged: float = 1.0
    """Polls after a hint that saw no change."""
    expected: float = 2.0
    """How many there would have been if hints said nothing."""
    silent: float = 0.5
    """Share of changes that come without a hint."""
    known: float = 4.0
    """How well that is known: Fisher's information."""
    polls: int = 0
    """Polls after a hint, ever."""

    @property
    def factor(self) -> float:
        """By how much a hint makes a fresh copy less likely."""
        return min(max(self.unchanged / self.expected, 1e-6), 1.0)

    @property
    def recall(self) -> float:
        """Share of changes that come with a hint."""
        return 1.0 - self.silent

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
            return
        passed = min(-log(max(fresh, 1e-30)), _MOST_PASSED)  # changes to expect, with hints and without
        if passed > 0:
            here = max(-expm1(-self.silent * passed), 1e-12)
            self.known = fade * self.known + passed**2 * (1.0 - here) / here
            score = passed * ((1.0 - here) / here if changed else -1.0)
            self.silent = min(max(self.silent + score / self.known, 0.01), 0.999)


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

    def worths(
        self,
        objective: Objective,
        channel: Floats,
        rate: Floats,
        since: Floats,
        hints: Floats,
        moments: Floats | None = None,
    ) -> Floats | None:
        """Return what polls of elements are worth, for weight 1; None if the objective knows no hints.

        Parameters
        ----------
        objective
            What they are worth it for.
        channel
            The number of the channel from which each element has its hints.
        rate
            Change rate of each element.
        since
            Time since the last poll of each.
        hints
            Hints about each since then.
        moments
            How long after the last polls they came: a row for each element, nan where there is no other. It
            is asked for by all objectives but freshness.
        """
        factor = np.array([one.factor for one in self.channels])[channel.astype(np.intp)]
        recall = np.array([max(one.recall, 1e-3) for one in self.channels])[channel.astype(np.intp)]
        rate = np.clip(rate, 1e-100, 1e100)
        with np.errstate(divide="ignore"):
            false = recall * rate * factor / np.maximum(1.0 - factor, 1e-9)
        changes = HintedChanges(rate, recall, np.clip(false, 0.0, 1e100))
        if objective.kernel == FRESHNESS:
            return np.asarray(changes.worth(since, hints), float)
        if moments is None or not isinstance(objective, SourcePenalty | UpdatePenalty | Harmonic):
            return None
        costs = HintedCosts(changes, objective)
        return costs.worth(costs.cost(since, moments))

    def fresh(self, channel: Floats, hints: Floats) -> Floats:
        """Return the factors of hints to the probability that copies are fresh."""
        factor = np.array([one.factor for one in self.channels])[channel.astype(np.intp)]
        return np.asarray(factor**hints, float)

    def text(self) -> bytes:
        """Return all that is known, to be kept."""
        rows = {
            name: [one.unchanged, one.expected, one.polls, one.silent, one.known]
            for name, one in zip(self.names[1:], self.channels[1:], strict=True)
        }
        return json.dumps(rows).encode()

    @classmethod
    def read(cls, text: bytes) -> Self:
        """Go on from what was kept."""
        rows = json.loads(text) if text else {}
        kept = [_as_kept(row) for row in rows.values()]
        return cls(["", *rows], [Channel(), *kept])


def _as_kept(row: Sequence[float]) -> Channel:
    """Return a channel as it was kept; older versions counted changes with a hint, and all changes."""
    unchanged, expected, *rest = row
    if isinstance(rest[0], int):
        return Channel(unchanged, expected, rest[1], rest[2], int(rest[0]))
    hinted, changes, polls = rest
    return Channel(unchanged, expected, min(max(1.0 - hinted / changes, 0.01), 0.999), polls=int(polls))
