"""Settings from Python, in the words of mirror.toml: ``Mirror("mirror.db", budget="60/min")``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings

from .keys import SECTIONS

_ELSEWHERE = ("store", "copies")
"""Keys of ``[mirror]`` that are arguments of their own."""
FIELDS = {"bytes": "byte_budget"}
"""Keys that have another name in `Settings`."""


def with_keywords(settings: Settings, said: Mapping[str, object]) -> Settings:
    """Return settings with what keys of ``[mirror]`` say; None says nothing.

    >>> with_keywords(Settings(), {"budget": "60/min", "reserve": "1 day"}).budget
    1.0
    """
    section = next(one for one in SECTIONS if one.name == "mirror")
    known = [key.name for key in section.keys if key.name not in _ELSEWHERE]
    read: dict[str, object] = {}
    for name, value in said.items():
        key = section.key(name)
        if key is None or name in _ELSEWHERE:
            near = get_close_matches(name, known, n=1, cutoff=0.6)
            todo = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise InvalidInput(f"a mirror has no key {name!r}; {todo}")
        if value is not None:
            read[FIELDS.get(name, name)] = key.read(name, value)
    return replace(settings, **read)  # type: ignore[arg-type]  # each reader returns what the field holds
