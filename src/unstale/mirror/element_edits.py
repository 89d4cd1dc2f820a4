"""Edits that people make on the dashboard, and undoing them: in the store; mirror.toml is never written.

What is said of elements themselves replaces what it names and leaves the rest; None takes it back, so that
rules and defaults hold again. Elements are paused, resumed and removed. Rules of the dashboard come behind
those of mirror.toml. All elements of an edit change together, or none does. The latest edits are kept, and
undone one after the other; what rules say meanwhile is applied anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from unstale.errors import InvalidInput
from unstale.policy.element_table import AWAY

from .additions import apply_again, check_given, mark_of_rules
from .engine.discovery import Discovery
from .settings import Rule, Settings
from .source import Json, Source
from .sources.registry import source_named
from .store.contract import Element, Store, Transaction
from .stored_rules import keep_rules, rule_json, rule_of, stored_rules

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


@dataclass(slots=True)
class _Before:
    """What an edit has changed, as it was before."""

    said: list[list[Any]] = field(default_factory=list)
    """Numbers of elements, and what was said of each."""
    polled: list[int] = field(default_factory=list)
    """Elements that were polled, and are paused now."""
    paused: list[int] = field(default_factory=list)
    """Elements that were paused, and are polled now."""
    there: list[list[Any]] = field(default_factory=list)
    """Elements that were removed, and whether each was away already: paused, or archived."""
    rules: list[dict[str, Json]] | None = None
    """Rules of the dashboard; None: they are as they were."""

    @property
    def elements(self) -> int:
        return max(len(self.said), len(self.polled), len(self.paused), len(self.there))


class ElementEdits:
    """Edits elements and rules of a store, and undoes edits."""

    def __init__(
        self,
        store: Store,
        discovery: Discovery,
        sources: Mapping[str, Source],
        settings: Settings,
        elements: Callable[[str], Iterable[Element]],
    ) -> None:
        """``elements`` returns those whose keys match a pattern."""
        self._store, self._discovery, self._sources, self._settings = store, discovery, sources, settings
        self._elements = elements

    def edit(
        self,
        ids: Sequence[int],
        now: float,
        given: Mapping[str, Json],
        options: Mapping[str, Json],
        *,
        tagged: Sequence[str] = (),
        untagged: Sequence[str] = (),
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
        tagged, untagged
            Tags that they get, and that they lose, beside those that each has.
        words
            What the edit is, for the one who undoes it.
        """
        _check_count(ids)
        check_given({name: value for name, value in given.items() if value is not None})
        check_given({"tags": [*tagged, *untagged]})
        with self._store.begin() as t:
            self._discovery.hear_rules(t)
            found = t.numbered(list(ids))
            before, wishes = _Before(), []
            for element in found.values():
                if element.state == "removed":
                    continue  # an edit brings nothing back
                said = _changed(element.given, given, options)
                if tagged or untagged:
                    said = _changed(said, {"tags": _retagged(said.get("tags"), tagged, untagged)}, {})
                if said != dict(element.given):
                    before.said.append([element.id, dict(element.given)])
                    wishes.append(self._wish(element, said))
            if wishes:
                t.add(wishes, now)
                self._note(t, now, words, before)
        return len(wishes)

    def pause(self, ids: Sequence[int], now: float, *, words: str) -> int:
        """Let nobody poll elements; return how many were polled."""
        _check_count(ids)
        with self._store.begin() as t:
            if paused := t.pause(ids, now):
                self._note(t, now, words, _Before(polled=paused))
        return len(paused)

    def resume(self, ids: Sequence[int], now: float, *, words: str) -> int:
        """Have elements polled again; return how many were not."""
        _check_count(ids)
        with self._store.begin() as t:
            if resumed := t.resume(ids, now):
                self._note(t, now, words, _Before(paused=resumed))
        return len(resumed)

    def remove(self, ids: Sequence[int], now: float, *, words: str) -> int:
        """Remove elements, whose copies and histories stay; return how many there were."""
        _check_count(ids)
        with self._store.begin() as t:
            found = [one for one in t.numbered(list(ids)).values() if one.state != "removed"]
            if found:
                t.remove([one.id for one in found], now)
                self._note(t, now, words, _Before(there=[[one.id, one.state in AWAY] for one in found]))
        return len(found)

    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of the dashboard."""
        with self._store.begin() as t:
            return stored_rules(t)

    def set_rules(self, rules: Sequence[Rule], clock: Callable[[], float], *, words: str) -> int:
        """Have other rules of the dashboard, and apply them; return how many elements are another way now."""
        with self._store.begin() as t:
            before = stored_rules(t)
            keep_rules(t, rules)
            self._note(t, clock(), words, _Before(rules=[rule_json(rule) for rule in before]))
        return self._apply(before, rules, clock)

    def _apply(self, before: Sequence[Rule], after: Sequence[Rule], clock: Callable[[], float]) -> int:
        """Apply rules to the elements of those that have changed; return how many are another way now.

        If that is cut short, the next start does it.
        """
        written = self._settings.rules
        with self._store.begin() as t:
            mark = t.state(["rules"]).get("rules")
            settled = mark == mark_of_rules(self._settings, (*written, *before))
            settled = settled or (mark is None and not written)
            self._discovery.hear_rules(t)
        changed = 0
        if list(before) != list(after):
            moved = [one for one in before if one in after] != [one for one in after if one in before]
            about = {one.match for one in (*before, *after) if moved or (one in before) != (one in after)}
            for pattern in sorted(about):
                some = self._elements(pattern)
                changed += apply_again(self._store, self._discovery, some, clock)
        if settled:
            with self._store.begin() as t:
                t.keep({"rules": mark_of_rules(self._settings, self._discovery.rules)})
        return changed

    def latest(self) -> LatestEdit | None:
        """Return the edit that would be undone; None if there is none."""
        with self._store.begin() as t:
            kept = _kept(t)
        if not kept:
            return None
        last = kept[-1]
        return LatestEdit(last["number"], last["time"], last["words"], _before(last).elements)

    def undo(self, number: int, clock: Callable[[], float]) -> int:
        """Undo the latest edit, which must be that with the number; return how many elements were changed."""
        with self._store.begin() as t:
            self._discovery.hear_rules(t)
            kept = _kept(t)
            if not kept or kept[-1]["number"] != number:
                raise InvalidInput(f"the edit {number} is not the latest one any more, so it is not undone")
            before, now, rules = _before(kept[-1]), clock(), stored_rules(t)
            said = {int(one): said for one, said in before.said}
            found = t.numbered([*said, *(one for one, _ in before.there)])
            wishes = [
                self._wish(element, said.get(element.id, element.given))
                for element in found.values()
                if (element.state == "removed") == (element.id not in said)
            ]
            t.add(wishes, now)
            changed = len(wishes) + len(t.resume(before.polled, now)) + len(t.pause(before.paused, now))
            t.pause([one for one, away in before.there if away], now)
            t.keep({_STATE: json.dumps(kept[:-1]).encode()})
            if before.rules is not None:
                keep_rules(t, list(map(rule_of, before.rules)))
        if before.rules is not None:
            changed += self._apply(rules, list(map(rule_of, before.rules)), clock)
        return changed

    def _wish(self, element: Element, said: Mapping[str, Json]) -> Any:  # noqa: ANN401
        options = said.get("options", {})
        source = source_named(self._sources, element.source)
        source.key(element.key, options if isinstance(options, dict) else {})  # it raises what makes no sense
        wish = self._discovery.ruled(element.key, element.source, said, via=element.via)
        source.key(element.key, wish.options)  # together with what rules say
        return wish

    def _note(self, t: Transaction, now: float, words: str, before: _Before) -> None:
        kept = _kept(t)
        number = kept[-1]["number"] + 1 if kept else 1
        was = {
            "before": before.said, "polled": before.polled, "paused": before.paused, "there": before.there,
            "rules": before.rules,
        }  # fmt: skip
        kept.append({"number": number, "time": now, "words": words, **was})
        t.keep({_STATE: json.dumps(kept[-_KEPT_EDITS:]).encode()})


def _check_count(ids: Sequence[int]) -> None:
    if len(ids) > _MOST_ELEMENTS:
        raise InvalidInput(f"an edit may change {_MOST_ELEMENTS:,} elements; it names {len(ids):,}")


def _kept(t: Transaction) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(t.state([_STATE]).get(_STATE, b"[]"))
    return found


def _before(kept: Mapping[str, Any]) -> _Before:
    names = {"said": "before", "polled": "polled", "paused": "paused", "there": "there"}
    return _Before(**{n: kept.get(at, []) for n, at in names.items()}, rules=kept.get("rules"))


def _retagged(tags: Json, tagged: Sequence[str], untagged: Sequence[str]) -> Json:
    """Return tags with some more, and without others; None if there are none.

    >>> _retagged(["a", "b"], ["c"], ["a"])
    ['b', 'c']
    """
    now = {*(tags if isinstance(tags, list) else ()), *tagged} - {*untagged}
    return [*sorted(map(str, now))] or None


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
