"""Rules that were made on the dashboard: they stand in the store. Nobody writes those of mirror.toml.

They come behind the rules of mirror.toml, so that they count more; what is said of an element counts most.
They hold for all who use the mirror, and have neither headers nor clicks: whoever may edit a mirror may not
act in the name of its user.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from math import inf

from .settings import Rule
from .source import Json
from .store.contract import Transaction

__all__ = ["STORED_FIELDS", "STORED_OPTIONS", "keep_rules", "rule_json", "rule_of", "stored_rules"]

_STATE = "dashboard rules"
STORED_FIELDS = ("weight", "max_age", "min_interval", "group", "keep", "keep_for", "tags")
"""What a rule of the dashboard may say, beside which elements it is for."""
STORED_OPTIONS = ("selector", "change", "threshold", "ignore")
"""And of pages, as options of their source."""


def stored_rules(t: Transaction) -> tuple[Rule, ...]:
    """Return the rules that were made on the dashboard, in order."""
    said = t.state([_STATE]).get(_STATE)
    return () if said is None else tuple(map(rule_of, json.loads(said)))


def keep_rules(t: Transaction, rules: Sequence[Rule]) -> None:
    """Keep these rules instead of those before."""
    t.keep({_STATE: json.dumps([rule_json(rule) for rule in rules]).encode()})


def rule_json(rule: Rule) -> dict[str, Json]:
    """Return what a rule says.

    >>> rule_json(Rule("*", keep_for=inf, tags=("a",)))
    {'match': '*', 'keep_for': 'forever', 'tags': ['a']}
    """
    said: dict[str, Json] = {"match": rule.match}
    for name in STORED_FIELDS:
        value = getattr(rule, name)
        if value is not None and value != ():
            said[name] = "forever" if value == inf else list(value) if isinstance(value, tuple) else value
    return said | ({"options": dict(rule.options)} if rule.options else {})


def rule_of(said: Mapping[str, Json]) -> Rule:
    """Return the rule that says so.

    >>> rule_of({"match": "*", "keep_for": "forever", "tags": ["a"], "options": {}}).keep_for
    inf
    """
    known = {field.name for field in fields(Rule)}
    given: dict[str, object] = {
        name: inf if value == "forever" else tuple(value) if isinstance(value, list) else value
        for name, value in said.items()
        if name in known
    }
    return Rule(**given)  # type: ignore[arg-type]  # as `rule_json` has written it
