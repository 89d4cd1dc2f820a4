"""How much hints are worth, learned from what polls saw after them.

A channel gives hints: a feed, a sitemap, a caller. Its recall q is the share of changes, of the elements
that it speaks of, that come with a hint; its precision p = 1 - f is the share of hints that come of a change.
If an element changes at the rate r, a time t without hints says that nothing has come that gives one, and n
hints are p n of such changes. So a gamma law of r, with shape a and time b, is after both one with a + p n
and b + q t, and the copy is fresh with probability

    f^n ((b + q t) / (b + t))^(a + p n).

Both numbers follow what makes the outcomes of polls likeliest (Fisher scoring): the precision those after
hints, the recall those without, as what they see has come without one. A channel that is new is believed
half.

Both go into `unstale.HintedChanges`, which knows what a poll is worth then for freshness, and into
`HintedCosts`, which knows it for other objectives: for them it matters, too, when hints came.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, log1p
from typing import Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation import HintedChanges
from unstale.estimation.hints.hinted_costs import HintedCosts
from unstale.kernels import FRESHNESS
from unstale.objectives import Harmonic, Objective, SourcePenalty, UpdatePenalty

MOST_MOMENTS = 8
"""Hints about an element since its last poll whose moments are kept; of more, the last counts for all."""
Hints = NDArray[np.integer]
"""Numbers of hints."""
_FIRST_HINTS = 2.0
"""As many hints a channel that is new is taken to have given, of which half were true."""
_FIRST_KNOWN = 4.0
"""Fisher's information of the recall of a channel that is new."""
_LEAST_SHARE = 1e-3
"""Of hints that are false, or true."""
_MEMORY_POLLS = 500.0
"""Polls after which what a channel did counts 1/e."""


@dataclass(slots=True)
class Channel:
    """What is known of a channel; it begins with an opinion worth two hints."""

    factor: float = 0.5
    """By how much a hint makes a fresh copy less likely: the share of hints that come without a change."""
    hints: float = _FIRST_HINTS
    """How well that is known: as if so many hints had come, each followed by a poll of its own."""
    silent: float = 0.5
    """Share of changes that come without a hint."""
    known: float = _FIRST_KNOWN
    """How well that is known: Fisher's information."""
    polls: int = 0
    """Polls after a hint, ever."""

    @property
    def recall(self) -> float:
        """Share of changes that come with a hint."""
        return 1.0 - self.silent

    @property
    def evidence(self) -> float:
        """What a hint adds to the evidence that a copy is stale."""
        return -log(self.factor)

    def learn(self, hints: int, shape: float, passed: float, *, changed: bool) -> None:
        """Take in a poll of one of its elements.

        Parameters
        ----------
        hints
            That it followed.
        shape, passed
            The shape of the law of the element, and the time since its last poll over that of the law.
        changed
            Whether it saw a change.
        """
        fade = 1.0 - 1.0 / _MEMORY_POLLS
        least = (shape + (1.0 - self.factor) * hints) * log1p(-self.silent * passed / (1.0 + passed))
        unhinted = min(exp(least), 1.0 - 1e-12)
        if hints:
            none = min(self.factor**hints * unhinted, 1.0 - _LEAST_SHARE)
            odds, true = none / (1.0 - none), hints * max(1.0 - self.factor, _LEAST_SHARE)
            told = hints * true * odds / self.factor
            self.polls += 1
            self.hints = max(fade * self.hints + told, _FIRST_HINTS)
            score = true * (-odds if changed else 1.0)
            self.factor = min(max(self.factor + score / self.hints, _LEAST_SHARE), 1.0)
        elif passed > 0:
            slope = shape * passed / (1.0 + self.recall * passed)
            odds = unhinted / (1.0 - unhinted)
            self.known = max(fade * self.known + slope**2 * odds, _FIRST_KNOWN)
            score = slope * (odds if changed else -1.0)
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
        channel: NDArray[np.integer],
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
        recall, factor = self.reliability(channel)
        recall = np.maximum(recall, 1e-3)
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

    def law(
        self, channel: NDArray[np.integer], shape: Floats, time: Floats, since: Floats, hints: Hints
    ) -> tuple[Floats, Floats]:
        """Return the laws of rates, shapes and times, after so many hints since the last polls.

        Parameters
        ----------
        channel
            The number of the channel of each element, or 0.
        shape, time
            The laws but for that.
        since, hints
            The time since the last poll of each, and the hints in it.
        """
        recall, factor = self.reliability(channel)
        return shape + np.where(recall > 0, 1.0 - factor, 0.0) * hints, time + recall * since

    def unhinted(
        self, channel: NDArray[np.integer], shape: Floats, time: Floats, since: Floats, hints: Hints
    ) -> Floats:
        """Return the probabilities that no change has come that gives no hint.

        Parameters
        ----------
        channel, shape, time, since, hints
            As for `law`.
        """
        recall, _ = self.reliability(channel)
        shape, time = self.law(channel, shape, time, since, hints)
        return np.asarray(np.exp(-shape * np.log1p((1.0 - recall) * since / time)), float)

    def fresh(
        self, channel: NDArray[np.integer], shape: Floats, time: Floats, since: Floats, hints: Hints
    ) -> Floats:
        """Return the probabilities that copies are fresh.

        Parameters
        ----------
        channel, shape, time, since, hints
            As for `law`.
        """
        _, factor = self.reliability(channel)
        return np.asarray(factor**hints * self.unhinted(channel, shape, time, since, hints), float)

    def reliability(self, channel: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return recalls and factors of channels; hints of nobody say nothing."""
        recall = np.array([0.0, *(one.recall for one in self.channels[1:])])
        factor = np.array([1.0, *(one.factor for one in self.channels[1:])])
        return recall[channel], factor[channel]

    def text(self) -> bytes:
        """Return all that is known, to be kept."""
        rows = {
            name: [one.factor * one.hints, one.hints, one.polls, one.silent, one.known]
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
    false, hints, *rest = row
    factor = min(max(false / hints, _LEAST_SHARE), 1.0)
    if isinstance(rest[0], int):
        return Channel(factor, hints, rest[1], rest[2], int(rest[0]))
    hinted, changes, polls = rest
    return Channel(factor, hints, min(max(1.0 - hinted / changes, 0.01), 0.999), polls=int(polls))
