"""Reading values of options that several sources have: truth values, patterns, and what to discover."""

from __future__ import annotations

from collections.abc import Mapping

from unstale.errors import InvalidInput
from unstale.mirror.source import Json


def patterns_of(name: str, value: Json) -> tuple[str, ...]:
    """Return one pattern or several as a tuple.

    >>> patterns_of("only", "*.html"), patterns_of("only", None)
    (('*.html',), ())
    """
    several = [] if value is None else value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(one, str) and one for one in several):
        raise InvalidInput(f"{name} must be a pattern such as '*/news/*', or a list of them; it is {value!r}")
    return tuple(str(one) for one in several)


def truth(name: str, value: Json) -> bool:
    """Return a truth value; a command may give it as text.

    >>> truth("discover", "false")
    False
    """
    if value not in (True, False, "true", "false"):
        raise InvalidInput(f"{name} must be true or false; it is {value!r}")
    return value in (True, "true")


def discovery(options: Mapping[str, Json]) -> tuple[bool, tuple[str, ...]]:
    """Return whether entries become elements, and the patterns of which they must match one."""
    value = options.get("discover", True)
    if value in (True, False, "true", "false"):
        return truth("discover", value), ()
    return True, patterns_of("discover", value)
