"""Editing what was said of elements themselves, and undoing it: in the store; rules stay in mirror.toml.

An edit replaces what it names and leaves the rest; None takes it back, so that rules and defaults hold again.
All elements of an edit change together, or none does. The latest edits are kept, and undone one after the
other; what rules say meanwhile is applied anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unstale.errors import InvalidInput

from .additions import check_given
from .engine.discovery import Discovery
from .source import Json, Source
from .sources.registry import source_named
from .store.contract import Element, Store, Transaction

_KEPT_EDITS = 20
_MOST_ELEMENTS = 1000
"""That one edit may change, since it is kept with what was before."""
_STATE = "element edits"


@dataclass(frozen=True, slots=True)
class LatestEdit:
    """The edit that would be undone next."""

    number: int
    time: float
    words: str
    elements: int


class ElementEdits:
    """Edits elements of a store, and undoes edits."""

    def __init__(self, store: Store, discovery: Discovery, sources: Mapping[str, Source]) -> None:
        self._store, self._discovery, self._sources = store, discovery, sources

    def edit(
        self,
        ids: Sequence[int],
        now: float,
        given: Mapping[str, Json],
        options: Mapping[str, Json],
        *,
        words: str = "edited",
    ) -> int:
        """Change what was said of elements; return how many were changed. All of them, or none.

        Those that were removed stay as they are.

        Parameters
        ----------
        ids
            Numbers of elements.
        now
            The time.
        given
            ``weight``, ``max_age`` and the like; None takes one back.
        options
            Options of the source, likewise.
        words
            What the edit is, for the one who undoes it.
        """
        if len(ids) > _MOST_ELEMENTS:
            raise InvalidInput(f"an edit may change {_MOST_ELEMENTS:,} elements; it names {len(ids):,}")
        check_given({name: value for name, value in given.items() if value is not None})
        with self._store.begin() as t:
            found = t.numbered(list(ids))
            before, wishes = [], []
            for element in found.values():
                if element.state == "removed":
                    continue  # an edit brings nothing back
                said = _changed(element.given, given, options)
                if said != dict(element.given):
                    before.append([element.id, dict(element.given)])
                    wishes.append(self._wish(element, said))
            if wishes:
                t.add(wishes, now)
                self._note(t, now, words, before)
        return len(wishes)

    def latest(self) -> LatestEdit | None:
        """Return the edit that would be undone; None if there is none."""
        with self._store.begin() as t:
            kept = _kept(t)
        if not kept:
            return None
        last = kept[-1]
        return LatestEdit(last["number"], last["time"], last["words"], len(last["before"]))

    def undo(self, number: int, now: float) -> int:
        """Undo the latest edit, which must be that with the number; return how many elements were changed."""
        with self._store.begin() as t:
            kept = _kept(t)
            if not kept or kept[-1]["number"] != number:
                raise InvalidInput(f"the edit {number} is not the latest one any more, so it is not undone")
            before = {int(one): said for one, said in kept[-1]["before"]}
            found = t.numbered(list(before))
            wishes = [
                self._wish(element, before[element.id])
                for element in found.values()
                if element.state != "removed"
            ]
            t.add(wishes, now)
            t.keep({_STATE: json.dumps(kept[:-1]).encode()})
        return len(wishes)

    def _wish(self, element: Element, said: Mapping[str, Json]) -> Any:  # noqa: ANN401
        options = said.get("options", {})
        source = source_named(self._sources, element.source)
        source.key(element.key, options if isinstance(options, dict) else {})  # it raises what makes no sense
        wish = self._discovery.ruled(element.key, element.source, said, via=element.via)
        source.key(element.key, wish.options)  # together with what rules say
        return wish

    def _note(self, t: Transaction, now: float, words: str, before: list[list[Any]]) -> None:
        kept = _kept(t)
        number = kept[-1]["number"] + 1 if kept else 1
        kept.append({"number": number, "time": now, "words": words, "before": before})
        t.keep({_STATE: json.dumps(kept[-_KEPT_EDITS:]).encode()})


def _kept(t: Transaction) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(t.state().get(_STATE, b"[]"))
    return found


def _changed(
    before: Mapping[str, Json], given: Mapping[str, Json], options: Mapping[str, Json]
) -> dict[str, Json]:
    """Return what is said of an element after an edit.

    >>> _changed({"weight": 2.0, "options": {"a": 1}}, {"weight": None}, {"a": None, "b": 2})
    {'options': {'b': 2}}
    """
    said = {name: value for name, value in {**before, **given}.items() if value is not None}
    own = before.get("options", {})
    more = {**(own if isinstance(own, dict) else {}), **options}
    return {**said, "options": {name: value for name, value in more.items() if value is not None}}
