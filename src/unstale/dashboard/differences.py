"""What is different between two versions of a copy. They never change, so what was found out is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict

from ..errors import InvalidInput
from ..mirror.difference import difference
from ..mirror.mirror import Mirror
from ..mirror.store import Transaction, Version

__all__ = ["before", "between"]

_LARGEST = 50_000_000
"""Bytes of a version beyond which it is not compared."""
_KEPT = 200
_LOOK = 200

_found: OrderedDict[tuple[str, str, str, int], str] = OrderedDict()
_lock = threading.Lock()


def before(t: Transaction, version: Version) -> Version | None:
    """Return the version before one, if it is still kept."""
    if version.first:
        return None
    some = t.versions(element=version.element, limit=_LOOK, latest_first=True)
    return next((one for one in some if one.id < version.id), None)


def between(
    mirror: Mirror, old: Version, new: Version, *, lines: int = 200, largest: int = _LARGEST
) -> str | None:
    """Return what is different, in words; None if a version is too large, or lost."""
    if max(old.size, new.size) > largest:
        return None
    name = old.digest, new.digest, new.media_type, lines
    with _lock:
        if name in _found:
            _found.move_to_end(name)
            return _found[name]
    try:
        told = difference(
            mirror.copies.read(old.digest), mirror.copies.read(new.digest), new.media_type, lines=lines
        )
    except InvalidInput:
        return None
    with _lock:
        _found[name] = told
        while len(_found) > _KEPT:
            _found.popitem(last=False)
    return told
