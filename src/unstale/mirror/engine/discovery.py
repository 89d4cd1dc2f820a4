"""Discovery: step 7 of a poll, elements that lists, folders and links name, and hints about them.

It also makes elements of what users name, by the same rules.

What another origin (scheme, host, port) has named gets no secrets from rules, unless a rule trusts what is
discovered: else a stranger's feed could send requests in the name of the user. The origin that named an
element is kept with it, as ``author`` in ``given`` (``file`` for a list or a table that the user does not
trust); what users add has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf, isinf
from typing import Any, Protocol

from unstale.errors import InvalidInput
from unstale.mirror.secrets import for_strangers, origin, without_secrets
from unstale.mirror.settings import Rule, Settings
from unstale.mirror.source import Json, New, Source
from unstale.mirror.sources.registry import source_for, source_named
from unstale.mirror.store.contract import Addition, Element, Finished, Transaction
from unstale.mirror.store.storable import check_key
from unstale.mirror.stored_rules import stored_rules
from unstale.policy.terms import ElementTerms

from .discovery_limits import DiscoveryRoom, note_left_out

FILE_AUTHOR = "file"
"""The author of what a file names: not the user, unless the user says so."""
NAMED_ELSEWHERE = -1
"""Number of the list that named what a list of another cell has named."""
DISCOVERED_AT_ONCE = 10_000
"""Elements that lists name from which on a transaction takes no other list: they take a second."""
_DISCOVERED_WHEN_LEAVING = 1000
"""Elements that a list may name for it to be taken by a worker that is about to end."""
_ROWS_AT_ONCE = 1000
"""Elements that the store is asked for at a time."""
_LARGEST_VANISHED_SHARE = 0.5
"""Share of the elements of a list that may vanish from it at once and be believed gone."""


def note_told(
    t: Transaction, numbers: Sequence[int], additions: Sequence[Addition], told: Mapping[str, float]
) -> None:
    """Note when elements that are new changed last, by key, as who names them says."""
    both = zip(numbers, additions, strict=True)
    t.edit([("told", number, told[one.key], "") for number, one in both if one.key in told])


class Elsewhere(Protocol):
    """The other cells of a mirror, and what polls here discover of their elements."""

    def owns(self, group: str) -> bool:
        """Tell whether elements of a group are those of another cell."""

    def send(self, t: Transaction, news: Sequence[tuple[New, Sequence[str]]]) -> int:
        """Note elements that were named, with their authors; return how many there was no room for."""

    def send_hints(self, t: Transaction, channel: str, hints: Sequence[tuple[str, float]]) -> None:
        """Note hints about elements."""


class Discovery:
    """Turns what users and sources name into elements, by the rules of the mirror."""

    def __init__(
        self, settings: Settings, sources: Mapping[str, Source], elsewhere: Elsewhere | None = None
    ) -> None:
        self._settings, self._sources, self._elsewhere = settings, sources, elsewhere
        self._room = DiscoveryRoom(settings.discovery)
        self.rules: tuple[Rule, ...] = settings.rules
        """Those of mirror.toml, and behind them, so that they count more, those of the dashboard."""
        self._has_secrets = any(for_strangers(rule.options) != rule.options for rule in settings.rules)

    def hear_rules(self, t: Transaction) -> None:
        """Go by the rules of the dashboard as they are now; they have no secrets."""
        self.rules = (*self._settings.rules, *stored_rules(t))

    def addition(
        self,
        new: New,
        given: Mapping[str, Json],
        *,
        via: int | None = None,
        authors: Sequence[str] = (),
    ) -> Addition:
        """Return the element that something named is; `unstale.InvalidInput` if it can be none.

        ``given`` is what was said of it: weight, max_age, min_interval, jitter, windows, group, keep,
        keep_for, tags. ``authors`` are the origins that had a part in naming it, if it was discovered.
        """
        name, text = (new.source, new.key) if new.source else source_for(new.key, new.options)
        source = source_named(self._sources, name)
        said: dict[str, Any] = {"source": name, "options": dict(new.options), **given}
        key = source.key(text, new.options)
        if authors:
            own = origin(key)
            said["author"] = next((one for one in authors if one != own), own)
        return self.ruled(key, name, said, via=via)

    def ruled(self, key: str, name: str, said: Mapping[str, Any], *, via: int | None = None) -> Addition:
        """Return an element with what rules and users say of it."""
        source = source_named(self._sources, name)
        options: dict[str, Json] = {}
        values: dict[str, Any] = {
            "weight": 1.0, "max_age": inf, "min_interval": 0.0, "jitter": 0.0, "windows": "", "group": None,
            "objective": "", "target": None, "keep": None, "keep_for": None,
        }  # fmt: skip
        promised = key
        tags = set(said.get("tags") or ())
        trusted = "author" not in said or said["author"] == origin(key)
        for rule in self.rules:
            if rule.matches(key):
                tags.update(rule.tags)
                told = rule.options if trusted or rule.trust_discovered else for_strangers(rule.options)
                options = {n: v for n, v in options.items() if n not in rule.options} | dict(told)
                values.update({n: v for n in values if (v := getattr(rule, n)) is not None})
                promised = rule.match if rule.target is not None else promised
        options.update(said.get("options", {}))
        values.update({n: said[n] for n in values if said.get(n) is not None})
        group = values.pop("group") or source.group(key, options)
        objective, target = values.pop("objective"), values.pop("target")
        keep_for = float(values.pop("keep_for") or inf)
        for_group, promising = self._settings.aims(group)
        objective = objective or for_group or ""
        if target is not None:
            promised = key if said.get("target") is not None else promised
        elif promising is not None:
            target, promised = promising.target, promising.match
        if target is not None:
            terms = ElementTerms(objective, float(target), promised)
        else:
            terms = ElementTerms(objective)
        terms = terms._replace(parts=tuple(one.name for one in self._settings.composed if one.matches(key)))
        return Addition(
            key=key, source=name, group=group, options=options, via=via, given=dict(said), terms=terms.text(),
            tags=tuple(sorted(tags)), keep_for=None if isinf(keep_for) else keep_for,
            **values,
        )  # fmt: skip

    def withholds_secrets(self, wish: Addition) -> bool:
        """Tell whether an element would get more from rules if a user had named it."""
        if not self._has_secrets or "author" not in wish.given:
            return False
        said = {name: value for name, value in wish.given.items() if name != "author"}
        return self.ruled(wish.key, wish.source, said).options != wish.options

    def merged(self, wish: Addition, before: Element, *, source: str | None) -> Addition:
        """Return an element that is there already with what is said now; it keeps the rest.

        ``source`` is the one that was named; None: none was, and it keeps the one it has.
        """
        name = source or before.source
        said: dict[str, Any] = {**before.given, **wish.given, "source": name}
        if "author" not in wish.given or "author" not in before.given:
            said.pop("author", None)  # a user names it now, or did before
        else:
            said["author"] = before.given["author"]
        old: Any = before.given.get("options", {}) if name == before.source else {}
        new: Any = wish.given.get("options", {})
        said["options"] = {**old, **new}
        if name != wish.source:  # its options were checked by another
            source_named(self._sources, name).key(wish.key, said["options"])
        return self.ruled(before.key, name, said, via=wish.via)

    def record(
        self, t: Transaction, finished: Sequence[Finished], now: float, *, leaving: bool = False
    ) -> None:
        """Add what polls discovered, and note the hints they gave.

        Long lists are read again at their next poll if the worker is ``leaving``: somebody waits for its end.
        """
        named = 0
        for one in finished:
            found = one.found
            if found is None or one.outcome in {"failed", "refused"}:
                continue
            if leaving and named + len(found.discovered) > _DISCOVERED_WHEN_LEAVING:
                t.read_again([one.lease.slot.element])
                continue
            if found.changes and one.outcome == "new":
                t.edit([("told", one.lease.slot.element, moment, "") for moment in found.changes])
            new: set[str] = set()
            if found.discovered:
                named += len(found.discovered)
                authors = (origin(one.lease.known.key), *found.origins)
                new = self._discovered(
                    t, one.lease.slot.element, found.discovered, now, authors, complete=found.complete
                )
            hints = [hint for hint in found.hints if hint[0] not in new]  # what is new has no copy to renew
            if hints:
                self._hinted(t, one.lease.known.key, hints, now)

    def _discovered(
        self,
        t: Transaction,
        via: int,
        news: Sequence[New],
        now: float,
        authors: Sequence[str],
        *,
        complete: bool,
    ) -> set[str]:
        """Add what is new among what a list named; return the keys of all that is new."""
        self.hear_rules(t)
        lists = t.numbered([via])
        if via in lists and "author" in lists[via].given:  # who named the list has a part in what it names
            authors = (*authors, str(lists[via].given["author"]))
        additions, told, others = self._named(news, via, authors)
        new_ones: list[Addition] = []
        linked: list[int] = []
        for keys in _batches(list(additions)):
            known = t.find(keys)
            new_ones += [additions[key] for key in keys if key not in known]
            linked += [element.id for element in known.values() if element.state != "removed"]
        followed = via in lists and lists[via].source in {"http", "browser"}
        admitted, left_out = self._room.admitted(t, via, new_ones, now, followed=followed)
        if self._elsewhere is not None and others:
            left_out = dict(Counter(left_out) + Counter(waiting=self._elsewhere.send(t, others)))
        added = t.add(admitted, now)
        note_told(t, added, admitted, told)
        if followed and self._settings.importance == "links":
            t.set_links(via, linked + added)
        if via in lists:
            note_left_out(t, via, lists[via].key, left_out, self._settings.discovery)
        if "waiting" in left_out:  # they come in later, though the list may stay as it is
            t.read_again([via])
        if complete and additions:
            self._vanished(t, via, set(additions), now)
        return {one.key for one in new_ones}

    def _named(
        self, news: Sequence[New], via: int, authors: Sequence[str]
    ) -> tuple[dict[str, Addition], dict[str, float], list[tuple[New, Sequence[str]]]]:
        """Return what a list names here, when that changed last by key, and what it names in other cells."""
        additions: dict[str, Addition] = {}
        told: dict[str, float] = {}
        others: list[tuple[New, Sequence[str]]] = []
        for new in news:
            try:
                addition = self.addition(new, {}, via=via, authors=authors)
                check_key(addition.key)
                check_key(addition.group)
            except InvalidInput:  # what others write may be anything; what is no element is left out
                continue
            if self._elsewhere is not None and self._elsewhere.owns(addition.group):
                others.append((new, authors))
                continue
            additions[addition.key] = addition
            if new.modified is not None:
                told[addition.key] = new.modified
        return additions, told, others

    def _vanished(self, t: Transaction, via: int, named: set[str], now: float) -> None:
        """Look soon at elements that a complete list names no more: they may be gone.

        Nothing is removed on account of a list alone, and if it has lost most of its entries at once, it is
        probably broken, and nothing is done.
        """
        gone: list[Element] = []
        after, total = 0, 0
        while batch := t.elements(after, _ROWS_AT_ONCE, via=via):
            after, total = batch[-1].id, total + len(batch)
            gone += [element for element in batch if element.key not in named and element.state == "ok"]
        if gone and len(gone) <= max(_LARGEST_VANISHED_SHARE * total, 3):
            t.edit([("hint", element.id, now, f"missing:{via}") for element in gone])

    def _hinted(self, t: Transaction, channel: str, hints: Sequence[tuple[str, float]], now: float) -> None:
        for batch in _batches(list(hints)):
            keys: dict[str, float] = {}
            sources: dict[str, str] = {}
            for text, told in batch:
                try:
                    name, rest = source_for(text)
                    key = source_named(self._sources, name).key(rest, {})
                except InvalidInput:
                    continue
                keys[key], sources[key] = told, name
            known = t.find(list(keys))
            if self._elsewhere is not None:
                unknown = [(key, told) for key, told in keys.items() if key not in known]
                owns = self._elsewhere.owns
                others = [one for one in unknown if owns(self.ruled(one[0], sources[one[0]], {}).group)]
                self._elsewhere.send_hints(t, channel, others)
            t.edit(
                [
                    ("hint", element.id, min(keys[key] or now, now), channel)
                    for key, element in known.items()
                    if element.state != "removed"
                ]
            )

    def take_named(
        self, t: Transaction, news: Sequence[tuple[New, Sequence[str]]], now: float
    ) -> dict[str, int]:
        """Add elements that lists of other cells named; return why how many are left out."""
        self.hear_rules(t)
        additions: dict[str, Addition] = {}
        told: dict[str, float] = {}
        for new, authors in news:
            addition = self.addition(new, {}, via=NAMED_ELSEWHERE, authors=authors)
            additions[addition.key] = addition
            if new.modified is not None:
                told[addition.key] = new.modified
        known = t.find(list(additions))
        new_ones = [one for key, one in additions.items() if key not in known]
        admitted, left_out = self._room.admitted(t, NAMED_ELSEWHERE, new_ones, now)
        note_told(t, t.add(admitted, now), admitted, told)
        return left_out

    def take_hints(
        self, t: Transaction, channel: str, hints: Sequence[tuple[str, float]], now: float
    ) -> None:
        """Note hints that lists of other cells gave."""
        known = t.find([key for key, _ in hints])
        there = {key: element for key, element in known.items() if element.state != "removed"}
        t.edit(
            [("hint", there[key].id, min(told or now, now), channel) for key, told in hints if key in there]
        )

    def rules_again(
        self, elements: Iterable[Element], vias: Mapping[int, Element] | None = None
    ) -> list[Addition]:
        """Return elements for which rules now say something else than what is in the store.

        ``vias`` are those that named elements without an author: they were discovered by an older version.
        """
        changed = []
        found: dict[int, str] = {}
        for element in elements:
            before: dict[str, Any] = {"options": {}, **element.given}
            said = dict(before)
            if element.via is not None and "author" not in said:
                via = (vias or {}).get(element.via)  # None: it was forgotten, and nobody knows who it was
                author = "" if via is None else found.get(via.id, via.given.get("author", origin(via.key)))
                if author != origin(element.key):
                    said["author"] = found[element.id] = str(author)
                if element.source == "sitemap":  # which got headers from its index
                    said["options"] = without_secrets(said["options"])
            wish = self.ruled(element.key, element.source, said, via=element.via)
            if differs(wish, element) or said != before:
                changed.append(wish)
        return changed


def differs(wish: Addition, element: Element) -> bool:
    """Tell whether something else is wanted of an element than what is in the store."""
    names = (
        "source", "group", "options", "weight", "max_age", "min_interval", "jitter", "windows", "terms",
        "keep", "keep_for", "tags",
    )  # fmt: skip
    return any(getattr(wish, name) != getattr(element, name) for name in names)


def _batches(items: list[Any]) -> Iterable[list[Any]]:
    for start in range(0, len(items), _ROWS_AT_ONCE):
        yield items[start : start + _ROWS_AT_ONCE]
