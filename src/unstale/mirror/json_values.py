"""The one JSON of each value: ``--json``, ``/api``, webhooks and ``to_json()`` in Python all give it.

Members are called like the fields of the value. Moments (`MOMENTS`) are texts in UTC; spans and ages are in
seconds; sizes and traffic are in bytes; budgets, rates and what is spent are per second; shares and
probabilities go from 0 to 1. What is not known is null, and so is infinity: JSON has neither nan nor inf.

A value whose JSON has another shape than its fields says so in a method ``to_json``, or here if it is a row
of the store. This is a stable contract: members may be added, none is renamed or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from .source import Json
from .store.contract import Element, Sample, Version

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOMENTS = frozenset({"added", "blocked_until", "last", "modified", "next_poll", "not_before", "now", "time"})
"""Names of fields that are seconds since 1970."""
NOT_TOLD = frozenset({"options", "given", "validators", "fingerprint"})
"""Fields of an element that its JSON leaves out: options for its source may be passwords."""
_FIRST_SECOND, _LAST_SECOND = -6e10, 2.5e11
"""Seconds since 1970 between which a moment can be written: years 70 to 9892."""


def timestamp(seconds: float) -> str:
    """Return a moment as text, in UTC.

    >>> timestamp(1.7e9)
    '2023-11-14T22:13:20.000000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def moment(seconds: float | None) -> str | None:
    """Return a moment as text, in UTC; None if it is not known or cannot be written.

    >>> moment(0.5), moment(1e300), moment(float("nan"))
    ('1970-01-01T00:00:00.500000Z', None, None)
    """
    return None if seconds is None or not _FIRST_SECOND < seconds < _LAST_SECOND else timestamp(seconds)


def number(value: float | None) -> float | None:
    """Return a number, or None for what JSON cannot hold.

    >>> number(1.5), number(float("nan")), number(None)
    (1.5, None, None)
    """
    return float(value) if value is not None and isfinite(value) else None


def copy_path(key: str, version: int | None = None) -> str:
    """Return the path under which ``unstale serve`` has a copy: the latest, or another version.

    >>> copy_path("https://example.org/a?b"), copy_path("x", 7)
    ('/copies/https%3A%2F%2Fexample.org%2Fa%3Fb', '/copies/x?version=7')
    """
    return f"/copies/{quote(key, safe='')}" + ("" if version is None else f"?version={version}")


def as_json(value: object) -> Json:  # noqa: PLR0911  (one line for each kind of value)
    """Return the JSON of a value of the mirror, or of a list or mapping of them.

    >>> as_json({"sizes": (1, float("inf"))})
    {'sizes': [1, None]}
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {str(name): as_json(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if type(value) in _ROWS:
        return _ROWS[type(value)](value)
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return fields_json(value)
    raise TypeError(f"a {type(value).__name__} has no JSON")


def fields_json(value: DataclassInstance) -> dict[str, Json]:
    """Return the fields of a dataclass as JSON."""
    told: dict[str, Json] = {}
    for field in fields(value):
        entry = getattr(value, field.name)
        is_moment = field.name in MOMENTS and field.type != "int"  # as the count of what was added
        told[field.name] = moment(entry) if is_moment else as_json(entry)
    return told


def element_json(element: Element) -> dict[str, Json]:
    """Return an element as JSON, without the options for its source, and with the path of its copy."""
    told = {name: entry for name, entry in fields_json(element).items() if name not in NOT_TOLD}
    not_before = moment(element.not_before or None)
    return told | {"not_before": not_before, "copy_path": copy_path(element.key)}


def version_json(version: Version) -> dict[str, Json]:
    """Return a version, which is a change unless it is the first, as JSON.

    id          number of the version; they grow, so the last one seen says where to go on
    element     number of the element
    key         of the element
    time        start of the poll that saw it
    digest      SHA-256 of the content, in hexadecimal
    size        bytes of the content
    media_type  such as ``text/html``
    modified    when the content changed, as the source says; null if it does not
    first       whether it is the first version of its element: a new element, not a change
    meta        what else the source says of this version: title, rows, status, headers
    copy_path   where ``unstale serve`` has this version

    >>> version = Version(7, 3, "https://example.org/", 1.7e9, "ab" * 32, 5, "text/html", None, False, {})
    >>> version_json(version)["time"]
    '2023-11-14T22:13:20.000000Z'
    """
    return fields_json(version) | {"copy_path": copy_path(version.key, version.id)}


def _sample_json(sample: Sample) -> dict[str, Json]:
    """Return a sample as JSON; its freshness has ``value``, ``low`` and ``high``, as that of a status."""
    told = fields_json(sample)
    interval = {"value": told["freshness"], "low": told.pop("low"), "high": told.pop("high")}
    return told | {"freshness": interval}


_ROWS: dict[type, Callable[[Any], dict[str, Json]]] = {
    Element: element_json,
    Version: version_json,
    Sample: _sample_json,
}
