"""How elements come in: what is said of them is checked, joined with what rules say, and added in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from unstale.errors import InvalidInput
from unstale.policy.terms import aim_of
from unstale.schedule import Windows

from .engine.discovery import FILE_AUTHOR, Discovery, differs, note_told
from .json_values import fields_json
from .settings import Rule, Settings
from .source import Json, New
from .sources.allowed import SECRETS, check_allowed
from .store.contract import Addition, Element, Store
from .tags import tags_of

ELEMENTS_PER_BATCH = 1000
"""Elements that are read or written in one transaction."""
_MEANING_OF_RULES = 3
"""Another number makes each mirror apply its rules anew, once. 2: not all that is discovered gets secrets.
3: nor does it get logins."""
_BOUNDS = {
    "weight": (0.0, 1e30), "max_age": (1.0, 1e12), "min_interval": (0.0, 1e12), "jitter": (0.0, 1.0),
    "keep_for": (1.0, 1e12),
}  # fmt: skip
"""Between which what is said of an element must be; times are in seconds."""
_T = TypeVar("_T")


@dataclass(frozen=True)
class Added:
    """What became of elements that were to be added."""

    added: int
    known: int
    refused: list[tuple[str, str]] = field(default_factory=list)
    """What could not be added, and why."""
    changed: int = 0
    """Of those that were known, how many of which something else is said now."""
    withheld: int = 0
    """How many get no secrets of rules, since a file named them that is not trusted with them."""

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as `json_values` says: what was refused has ``key`` and ``why``."""
        return fields_json(self) | {"refused": [{"key": key, "why": why} for key, why in self.refused]}


def add_elements(  # noqa: PLR0917  (a face for `Mirror.add_many`)
    store: Store,
    discovery: Discovery,
    now: Callable[[], float],
    news: Iterable[New],
    given: Mapping[str, Json],
    allow: Collection[str] | None,
) -> Added:
    """Add elements, as `Mirror.add_many` says."""
    check_given(given)
    added = known = changed = withheld = 0
    authors = () if allow is None or SECRETS in allow else (FILE_AUTHOR,)
    refused: list[tuple[str, str]] = []
    for batch in batches(news):
        additions: dict[str, Addition] = {}
        named: dict[str, str | None] = {}
        told: dict[str, float] = {}
        for new in batch:
            try:
                addition = discovery.addition(new, given, authors=authors)
                if allow is not None:
                    check_allowed(addition.key, addition.source, new.options, allow)
            except InvalidInput as error:
                refused.append((new.key, str(error)))
            else:
                known += addition.key in additions
                additions[addition.key], named[addition.key] = addition, new.source
                if new.modified is not None:
                    told[addition.key] = new.modified
        with store.begin() as t:
            there = {k: one for k, one in t.find(list(additions)).items() if one.state != "removed"}
            for key, before in there.items():
                try:
                    additions[key] = discovery.merged(additions[key], before, source=named[key])
                except InvalidInput as error:
                    refused.append((key, str(error)))
                    del additions[key]
                else:
                    changed += differs(additions[key], before)
            withheld += sum(map(discovery.withholds_secrets, additions.values()))
            added += len(additions.keys() - there.keys())
            known += len(there)
            wishes = list(additions.values())
            note_told(t, t.add(wishes, now()), wishes, {k: v for k, v in told.items() if k not in there})
    return Added(added, known, refused, changed, withheld)


def apply_rules(
    store: Store,
    discovery: Discovery,
    settings: Settings,
    elements: Iterable[Element],
    now: Callable[[], float],
) -> int:
    """Apply the rules of the settings to all elements, if they have changed; return how many changed."""
    with store.begin() as t:
        discovery.hear_rules(t)
        text = mark_of_rules(settings, discovery.rules)
        before = t.state(["rules"]).get("rules")
        if before == text:
            return 0
        there_are_any = discovery.rules or settings.composed or _aims(settings)
        if before is None and not there_are_any:  # and there never were
            t.keep({"rules": text})
            return 0
    changed = apply_again(store, discovery, elements, now)
    with store.begin() as t:
        t.keep({"rules": text})
    return changed


def mark_of_rules(settings: Settings, rules: Sequence[Rule]) -> bytes:
    """Return by what it is seen whether rules have changed since they were applied."""
    said = repr((_MEANING_OF_RULES, [vars(rule) for rule in rules]))
    if settings.composed:
        said += repr([(one.name, one.of) for one in settings.composed])
    if aims := _aims(settings):
        said += repr(aims)
    return hashlib.sha256(said.encode()).hexdigest().encode()


def _aims(settings: Settings) -> list[tuple[str, str | None, float | None]]:
    """Return what groups say of what their elements are polled for."""
    return [(one.match, one.objective, one.target) for one in settings.groups if one.objective or one.target]


def apply_again(
    store: Store, discovery: Discovery, elements: Iterable[Element], now: Callable[[], float]
) -> int:
    """Let rules say anew what they say of elements; return how many changed."""
    changed = 0
    for batch in batches(elements):
        named = {one.via for one in batch if one.via is not None and "author" not in one.given}
        with store.begin() as t:
            vias = t.numbered(sorted(named))
        if additions := discovery.rules_again(batch, vias):
            with store.begin() as t:
                t.add(additions, now())
            changed += len(additions)
    return changed


def check_given(given: Mapping[str, Json]) -> None:
    """Insist on sane numbers."""
    for name, (low, high) in _BOUNDS.items():
        value = given.get(name, low)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not (is_number and low <= value <= high):  # type: ignore[operator]
            raise InvalidInput(f"{name} must be a number from {low:g} to {high:g}; it is {value!r}")
    if isinstance(text := given.get("windows"), str) and text:
        Windows.parse(text)
    if isinstance(aim := given.get("objective"), str) and aim:
        aim_of(aim)
    keep = given.get("keep", 0)
    if not isinstance(keep, int) or isinstance(keep, bool) or keep < 0:
        raise InvalidInput(f"keep must be a number of versions, 0 for all; it is {keep!r}")
    if (words := given.get("tags")) is not None:
        tags_of("tags", words)
    share = given.get("target", 0.5)
    if not isinstance(share, float) or not 0.0 < share < 1.0:
        raise InvalidInput(f"target must be a share between 0 and 1, such as 0.95; it is {share!r}")


def batches(items: Iterable[_T]) -> Iterator[list[_T]]:
    """Return items in lists, each for one transaction."""
    rest = iter(items)
    while batch := list(islice(rest, ELEMENTS_PER_BATCH)):
        yield batch
