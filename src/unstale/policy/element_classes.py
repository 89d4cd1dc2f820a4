"""Which elements are alike: classes without being asked for, as fine as there is evidence for.

Elements of a source, of a group, of a media type and of a folder are nodes of a tree (`ClassTree`). From time
to time each node that has elements enough is weighed: would a prior of its own have bet better on what was
seen of its elements than the prior of the others of its class? If it is clearly ahead it becomes a class, and
begins with all that is known of the class that it comes from; if it is no longer ahead, it goes back. What is
kept of each element is the number of its node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.estimation.learning.class_evidence import (
    PRIORS,
    PartOfClass,
    best_prior,
    gains,
    part_of,
    won_by_priors,
)

from .element_table import ElementTable, Places
from .knowledge import Knowledge
from .trial_rhythms import MOST_TRIALS

FEWEST_ELEMENTS = 20
"""Elements of which something is known that a class has at least, and that it leaves to others."""
MOST_CLASSES = 64
"""What is kept of classes in each turn must stay small."""
_MOST_PARTS = 200
"""Nodes of a depth that are weighed at a time: the largest."""
_SAMPLE = 64
"""Elements of a node that are weighed."""
_MOST_WEIGHED = 50_000
"""Elements that are weighed; of more, a random sample, so that nodes must be the larger."""
_STAKE = 4.0
"""Nats by which the prior of a node must be ahead, besides the logarithm of how many were weighed."""
_LEAST_GAIN = 1.0
"""Nats below which a class is not worth it any more."""
_HOURS_STAKE, _DEEPEST_TRIAL = 4.0, 2
"""Nats by which hours of its own must be ahead; and how deep nodes are that may have some: groups."""
_OTHER_HOURS = 0.2
"""Mean difference of the levels of two rhythms from which on they are not the same."""
_ROUNDS_BETWEEN = 0.5
"""Polls of each element, on average, between two times that nodes are weighed."""


class ElementClasses:
    """Splits classes, and merges them.

    Parameters
    ----------
    known
        What is known of elements, with the tree of what they are.
    """

    def __init__(self, known: Knowledge) -> None:
        self._known = known
        self._next = 2.0 * _ROUNDS_BETWEEN
        """How many polls of each element must be heard of before nodes are weighed again."""

    @property
    def _table(self) -> ElementTable:
        return self._known.table

    def reckon(self) -> None:
        """Weigh all nodes, if there are some and it is time."""
        table = self._table
        heard = table.learner.heard
        if len(table.tree) < 2 or heard < self._next:
            return
        self._next = heard + _ROUNDS_BETWEEN
        members = np.flatnonzero(table.wanted)
        members = np.random.default_rng(members.size).permutation(members)[:_MOST_WEIGHED]
        changes, times = table.learner.seen(members)
        told = times > 0
        if np.count_nonzero(told) < 2 * FEWEST_ELEMENTS:
            return
        weighing = _Weighing(table, members[told], changes[told], times[told])
        before = table.tree.any
        self._merge(weighing)
        self._split(weighing)
        self._split_by_hours(weighing)
        table.settle_classes()
        for number, one in enumerate(table.tree.classes):
            if one is not None:
                one.elements = int(table.learner.class_sizes[number])
        if table.tree.any or before:
            table.look_again()

    def _split(self, weighing: _Weighing) -> None:
        """Let nodes be classes that are clearly ahead: the coarsest first, finer ones the next time."""
        table = self._table
        for one in [k for k, found in enumerate(table.tree.classes) if found is not None]:
            for depth in range(1, weighing.deepest + 1):
                if self._split_at(weighing, one, depth):
                    break

    def _split_at(self, weighing: _Weighing, one: int, depth: int) -> bool:
        """Split nodes of a depth off a class, the best one first; tell whether there was any."""
        done = False
        nodes, parts, rest = weighing.parts(one, depth)
        stake = _STAKE + np.log(max(len(parts), 1))
        while len(parts) and self._room:
            gain = gains(parts, rest)
            left = sum(part.count for part in parts) + weighing.others
            gain[[left - part.count < FEWEST_ELEMENTS for part in parts]] = -np.inf
            best = int(gain.argmax())
            if not gain[best] > stake:
                break
            new = self._make(nodes[best], parts[best].count, float(gain[best]))
            self._table.learner.set_prior(new, best_prior(parts[best].total, weighing.mean))
            del nodes[best], parts[best]
            done = True
        if done:
            remain = rest + sum((part.total for part in parts), np.zeros(rest.size))
            if remain.any():
                self._table.learner.set_prior(one, best_prior(remain, weighing.mean))
        return done

    def _split_by_hours(self, weighing: _Weighing) -> None:
        """Let nodes be classes whose hours are clearly others, and have others on trial."""
        clocks, table = self._known.clocks, self._table
        if clocks is None:
            return
        trials, tree = clocks.trials, table.tree
        leads = trials.leads()
        for node, lead in sorted(leads.items(), key=lambda found: -found[1]):
            if lead > _HOURS_STAKE + np.log(len(leads)) and self._room:
                one = self._make(node, weighing.count(node), 0.0)
                clocks.rhythms.take(one, trials.rhythms, trials.nodes.index(node))
        trials.choose(weighing.candidates(_DEEPEST_TRIAL, MOST_TRIALS), tree.parents)
        tree.trials = trials.nodes

    @property
    def _room(self) -> bool:
        """Whether there may be more classes."""
        return sum(found is not None for found in self._table.tree.classes) < MOST_CLASSES

    def _other_hours(self, one: int, other: int) -> bool:
        """Tell whether the rhythms of two classes differ clearly."""
        if self._known.clocks is None:
            return False
        levels = self._known.clocks.rhythms.levels
        return max(one, other) < len(levels) and bool(
            np.abs(levels[one] - levels[other]).mean() > _OTHER_HOURS
        )

    def _make(self, node: int, count: int, gain: float) -> int:
        """Let a node be a class, which begins with what is known of the one that it comes from."""
        table, known = self._table, self._known
        parent = int(table.tree.class_of[node])
        one = table.tree.split(node)
        made = table.tree.classes[one]
        assert made is not None  # noqa: S101
        made.gain = gain
        share = count / max(float(table.learner.class_sizes[parent]), 1.0)
        table.learner.split(one, parent, share=min(share, 1.0))
        if known.clocks is not None:
            known.clocks.rhythms.split(one, parent)
        table.clockworks.split(one, parent)
        known.levels.split(one, parent)
        known.errors.split(one, parent)
        known.recalibration.split(one, parent)
        return one

    def _merge(self, weighing: _Weighing) -> None:
        """Let classes go that are not ahead of what they come from; finer ones first."""
        tree = self._table.tree
        classes = [(k, one) for k, one in enumerate(tree.classes) if k and one is not None]
        for number, one in sorted(classes, key=lambda found: -tree.depths[found[1].node]):
            own, above = weighing.of_class(number), weighing.of_class(one.parent)
            if own is None or above is None:
                continue
            one.gain = float(gains([own], above.total)[0])
            if one.gain < _LEAST_GAIN and not self._other_hours(number, one.parent):
                tree.merge(number)


class _Weighing:
    """What was seen of the elements that are weighed, in random order."""

    def __init__(self, table: ElementTable, members: Places, changes: Floats, times: Floats) -> None:
        self._table, self._members, self._changes, self._times = table, members, changes, times
        self._nodes = table["node"][members].astype(np.intp)
        self.deepest = max(table.tree.depths)
        self.others = 0
        """How many elements of the class that was divided last are in no part."""
        mean = float(changes.sum() / max(times.sum(), 1e-300))
        self.mean = max(mean, 1e-3 / table.learner.round)
        """The rate about which priors are tried."""

    def count(self, node: int) -> int:
        """Return how many elements are below a node and in its class."""
        tree = self._table.tree
        above = tree.ancestors(tree.depths[node])[self._nodes]
        return int(np.count_nonzero((above == node) & (tree.class_of[self._nodes] == tree.class_of[node])))

    def candidates(self, deepest: int, most: int) -> list[int]:
        """Return nodes that could be classes: the largest first."""
        tree = self._table.tree
        own = {one.node for one in tree.classes if one is not None}
        found: list[tuple[int, int]] = []
        for depth in range(1, deepest + 1):
            above = tree.ancestors(depth)[self._nodes]
            alike = tree.class_of[above] == tree.class_of[self._nodes]
            nodes, counts = np.unique(above[alike], return_counts=True)
            for node, count in zip(nodes.tolist(), counts.tolist(), strict=True):
                whole = np.count_nonzero(tree.class_of[self._nodes] == tree.class_of[node])
                enough = count >= FEWEST_ELEMENTS and whole - count >= FEWEST_ELEMENTS
                if tree.depths[node] == depth and node not in own and enough:
                    found.append((-count, node))
        return [node for _, node in sorted(found)[:most]]

    def of_class(self, one: int) -> PartOfClass | None:
        """Return the elements of a class as one part; None if there are too few."""
        which = np.flatnonzero(self._table.tree.class_of[self._nodes] == one)
        return None if which.size < FEWEST_ELEMENTS else self._part(which)

    def parts(self, one: int, depth: int) -> tuple[list[int], list[PartOfClass], Floats]:
        """Return the nodes of a depth in a class, what priors win on them, and on what is in none."""
        tree = self._table.tree
        mine = np.flatnonzero(tree.class_of[self._nodes] == one)
        above = tree.ancestors(depth)[self._nodes[mine]]
        own = tree.classes[one]
        above[(np.array(tree.depths)[above] < depth) | (above == (own.node if own else 0))] = -1
        order = np.argsort(above, kind="stable")
        found, starts, counts = np.unique(above[order], return_index=True, return_counts=True)
        large = np.argsort(-counts, kind="stable")
        large = large[(counts[large] >= FEWEST_ELEMENTS) & (found[large] >= 0)][:_MOST_PARTS]
        spans = [mine[order[starts[k] : starts[k] + counts[k]]] for k in large.tolist()]
        parts = [self._part(which) for which in spans]
        outside = np.setdiff1d(mine, np.concatenate([np.empty(0, np.intp), *spans]))
        self.others = int(outside.size)
        rest = self._part(outside).total if outside.size else np.zeros(PRIORS)
        return found[large].tolist(), parts, rest

    def _part(self, which: NDArray[np.intp]) -> PartOfClass:
        some = which[:_SAMPLE]
        return part_of(won_by_priors(self._changes[some], self._times[some], self.mean), which.size)
