"""A tree of what elements are: all, a source, a group, a media type, folders; and which of these are classes.

An element has a path, from coarse to fine, such as ``http``, ``http:example.org``, ``docs``. Each beginning
of a path is a node. Some nodes are classes; an element belongs to the finest class that is on its path, and
one that is new to that of its folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.errors import InvalidInput

BETWEEN_LEVELS = "\n"
"""Between two levels of a path: keys have no line breaks."""
MOST_NODES = 65_000
"""The number of a node has two bytes; what comes later belongs to the nodes above it."""
MOST_LEVELS = 8

Nodes = NDArray[np.uint16]


@dataclass
class ElementClass:
    """A node that is a class."""

    node: int
    parent: int
    """The number of the next coarser class."""
    gain: float = 0.0
    """Nats that it has won over the prior of others when that was reckoned last."""
    elements: int = 0
    """How many elements it had then."""


class ClassTree:
    r"""The nodes, by number, and the classes.

    >>> tree = ClassTree()
    >>> page = tree.number("http\nexample.org\ndocs")
    >>> docs = tree.split(page)
    >>> tree.name(docs), int(tree.class_of[tree.number("http\nexample.org\ndocs\nold")])
    ('http > example.org > docs', 1)
    """

    def __init__(self) -> None:
        self._numbers = {"": 0}
        self.parents = [0]
        """Of each node."""
        self.depths = [0]
        self.class_of = np.zeros(1, np.intp)
        """Of each node, the number of the finest class that it belongs to."""
        self.classes: list[ElementClass | None] = [ElementClass(0, 0)]
        """By number; 0 is everything, None is free."""
        self.trials: list[int] = []
        """Nodes whose rhythms are on trial, by row; -1 if that is free."""

    def __len__(self) -> int:
        return len(self.parents)

    @property
    def any(self) -> bool:
        """Whether there are classes besides the one of all."""
        return sum(one is not None for one in self.classes) > 1

    def number(self, path: str) -> int:
        """Return the node of a path; it and those above it are there from now on."""
        found = self._numbers.get(path)
        return self._add(path) if found is None else found

    def _add(self, path: str) -> int:
        levels = path.split(BETWEEN_LEVELS)[:MOST_LEVELS]
        node, text = 0, ""
        for depth, level in enumerate(levels):
            text = level if not depth else text + BETWEEN_LEVELS + level
            known = self._numbers.get(text)
            if known is None:
                if len(self.parents) >= MOST_NODES:
                    return node
                known = self._numbers[text] = len(self.parents)
                self.parents.append(node)
                self.depths.append(depth + 1)
                if known >= self.class_of.size:
                    self.class_of = np.concatenate([self.class_of, np.zeros(known + 64, np.intp)])
                self.class_of[known] = self.class_of[node]
            node = known
        return node

    def ancestors(self, depth: int) -> NDArray[np.intp]:
        """Return for each node the one above it, or itself, that is no deeper than a depth."""
        found = np.arange(len(self))
        parents, depths = np.array(self.parents), np.array(self.depths)
        while (deep := depths[found] > depth).any():
            found[deep] = parents[found[deep]]
        return found

    def path(self, node: int) -> str:
        """Return the path of a node."""
        return next(text for text, number in self._numbers.items() if number == node)

    def name(self, one: int) -> str:
        """Return what a class is called: its path in words; empty for all elements."""
        found = self.classes[one]
        return "" if not found else self.path(found.node).replace(BETWEEN_LEVELS, " > ")

    def split(self, node: int) -> int:
        """Let a node be a class; return its number."""
        number = next((k for k, one in enumerate(self.classes) if one is None), len(self.classes))
        if number == len(self.classes):
            self.classes.append(None)
        self.classes[number] = ElementClass(node, int(self.class_of[node]))
        self._settle()
        return number

    def merge(self, one: int) -> None:
        """Let a class be one no more."""
        self.classes[one] = None
        self._settle()

    def _settle(self) -> None:
        """Find the class of each node anew, and the parents of classes."""
        own = {found.node: number for number, found in enumerate(self.classes) if found is not None}
        for node in range(len(self)):  # parents come before their children
            above = self.class_of[self.parents[node]] if node else 0
            self.class_of[node] = own.get(node, above)
        for one in self.classes[1:]:
            if one is not None:
                one.parent = int(self.class_of[self.parents[one.node]])

    # --- to be continued ------------------------------------------------------------------------------------

    def text(self, *, every_node: bool = False) -> bytes:
        """Return the classes as bytes, and the nodes that are none if they are asked for."""
        paths = {number: text for text, number in self._numbers.items()}
        classes = [
            None if one is None else [paths[one.node], round(one.gain, 3), one.elements]
            for one in self.classes
        ]
        nodes = [paths[number] for number in range(1, len(self))] if every_node else []
        trials = [None if node < 0 else paths[node] for node in self.trials]
        return json.dumps({"nodes": nodes, "classes": classes, "trials": trials}).encode()

    @classmethod
    def read(cls, text: bytes) -> ClassTree:
        """Return what `text` has returned; with no text, a tree in which nothing is known."""
        self = cls()
        if not text:
            return self
        found: Mapping[str, Any] = json.loads(text)
        try:
            for path in found["nodes"]:
                self.number(path)
            self.classes = [
                None if one is None else ElementClass(self.number(one[0]), 0, float(one[1]), int(one[2]))
                for one in found["classes"]
            ]
            self.classes[0] = self.classes[0] or ElementClass(0, 0)
            self.trials = [-1 if one is None else self.number(one) for one in found.get("trials", ())]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InvalidInput(f"state must be what ClassTree.text returned; it is {text[:100]!r}") from error
        self._settle()
        return self
