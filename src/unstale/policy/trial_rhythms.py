"""Rhythms on trial: parts of a class that may be better off with hours of their own.

Some nodes of the tree of elements (sources and groups: a host, a database) have rhythms on trial. They are
followed as those of classes are, and bet on the same polls as the rhythm of their class. A node whose own is
clearly ahead becomes a class, and has the hours that it has learned meanwhile; that may be none at all, where
the class has some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.errors import InvalidInput
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner

from .compiled.class_clocks import elapsed_of

MOST_TRIALS = 12
"""Nodes on trial: 5.4 kilobytes each."""
NOBODY = -1


def losses(polls: PollsOfElements, known: NDArray[np.bool_], gone: Floats, levels: Floats) -> Floats:
    """Return what a model loses by polls, in nats: -log of the probability that it gave to what they saw.

    Parameters
    ----------
    polls
        What they saw, and the laws of rates.
    known
        Whether the time of the last change is told; then a density of it is counted, but for a factor that
        all models have.
    gone
        Operational time since the poll before, or since that change.
    levels
        Of the rhythm, at the change.
    """
    log = np.log1p(gone / polls.gamma_time)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen = -np.log(np.maximum(1.0 - polls.hope * np.exp(-polls.shape * log), 1e-300))
        density = (polls.shape + 1.0) * log - np.log(levels)
    return np.where(known, density, np.where(polls.changed, seen, polls.shape * log))


class TrialRhythms:
    """Rhythms of nodes that are no classes.

    Parameters
    ----------
    day
        The length of a day.
    """

    def __init__(self, day: float) -> None:
        self._day = day
        self.nodes: list[int] = []
        """The node of each row; `NOBODY` if it is free."""
        self.rhythms = RhythmLearner(day=day)
        self._leads = np.zeros(MOST_TRIALS)
        """What the rhythms of the classes have lost more on the same polls, of late."""
        self._rows = np.empty(0, np.intp)
        """Of each node, the row of the trial that it belongs to."""

    def choose(self, nodes: Sequence[int], parents: Sequence[int]) -> None:
        """Have these nodes on trial; those that are on trial already go on.

        Parameters
        ----------
        nodes
            At most `MOST_TRIALS`.
        parents
            The node above each node.
        """
        wanted = list(nodes)[:MOST_TRIALS]
        self.nodes = [node if node in wanted else NOBODY for node in self.nodes]
        for node in wanted:
            if node in self.nodes:
                continue
            if NOBODY not in self.nodes:
                self.nodes.append(NOBODY)
            row = self.nodes.index(NOBODY)
            self.nodes[row], self._leads[row] = node, 0.0
            self.rhythms.take(row, RhythmLearner(day=self._day), 0)
        rows = {node: row for row, node in enumerate(self.nodes) if node != NOBODY}
        self._rows = np.full(len(parents), NOBODY, np.intp)
        for node, parent in enumerate(parents):  # parents come before their children
            above = self._rows[parent] if node else NOBODY
            self._rows[node] = rows.get(node, above)

    def learn(self, nodes: NDArray[np.integer], polls: PollsOfElements, lost: Floats) -> None:
        """Take in polls.

        Parameters
        ----------
        nodes
            Of the elements.
        polls
            What was seen, and expected.
        lost
            What the rhythms of classes have lost by each poll.
        """
        if not self._rows.size or not any(node != NOBODY for node in self.nodes):
            return
        rows = np.where(nodes < self._rows.size, self._rows[np.minimum(nodes, self._rows.size - 1)], NOBODY)
        which = np.flatnonzero(rows >= 0)
        if not which.size:
            return
        rows, ages = rows[which], polls.ages[which] if polls.ages.size else polls.ages
        mine = PollsOfElements(
            rows, polls.last[which], polls.time[which], polls.changed[which], polls.shape[which],
            polls.gamma_time[which], polls.hope[which], ages,
        )  # fmt: skip
        won = lost[which] - self._losses(mine)
        for row in np.unique(rows).tolist():
            own = rows == row
            self._leads[row] *= self.rhythms.fade_of_bets(row, float(mine.time[own].max()))
            self._leads[row] += float(won[own].sum())
        self.rhythms.learn(mine)

    def _losses(self, polls: PollsOfElements) -> Floats:
        """Return what the rhythms in force lose by polls, as those of classes do."""
        rhythms = self.rhythms
        known, start = np.zeros(polls.time.size, np.bool_), polls.last
        if polls.ages.size:
            known = polls.changed & (polls.ages >= 0.0)
            start = np.where(known, np.maximum(polls.time - polls.ages, polls.last), polls.last)
        gone = polls.time - start
        if rhythms.any:
            elapsed_of(
                polls.classes, start, polls.time, rhythms.hour, rhythms.bins, rhythms.levels, rhythms.passed,
                gone,
            )  # fmt: skip
        bins = rhythms.levels.shape[1]
        hours = np.minimum((start / rhythms.hour % bins).astype(int), bins - 1)
        return losses(polls, known, gone, rhythms.levels[polls.classes, hours])

    def leads(self) -> dict[int, float]:
        """Return by how many nats each node is ahead of its class."""
        return {node: float(self._leads[row]) for row, node in enumerate(self.nodes) if node != NOBODY}

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that has been learned, as arrays; nothing if there are no trials."""
        if not any(node != NOBODY for node in self.nodes):
            return {}
        kept = {f"trial_{name}": value for name, value in self.rhythms.state().items()}
        return {**kept, "trial_leads": self._leads.copy()}

    def resume(self, state: Mapping[str, Any], nodes: Sequence[int], parents: Sequence[int]) -> None:
        """Go on where `state` was taken, with the nodes that were on trial then; without one, anew."""
        kept = {name.removeprefix("trial_"): state[name] for name in state if name.startswith("trial_")}
        leads = np.array(kept.pop("leads", ()), float)
        if leads.shape != self._leads.shape or not nodes:
            return
        try:
            self.rhythms = RhythmLearner.resume(kept)
        except InvalidInput:
            return
        self.nodes, self._leads = list(nodes), leads
        self.choose([node for node in nodes if node != NOBODY], parents)
