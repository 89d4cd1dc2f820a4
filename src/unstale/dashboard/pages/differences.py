"""What is different between two versions of a copy. They never change, so what was found out is kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from sys import getsizeof

from unstale.errors import InvalidInput, MissingExtra, Trouble
from unstale.mirror.differences.bounded import bounded_difference, bounded_picture
from unstale.mirror.differences.pictures import is_picture
from unstale.mirror.mirror import Mirror
from unstale.mirror.sources.http.fingerprint import selection_of
from unstale.mirror.store.contract import Element, Transaction, Version

_MOST_COMPARED_BYTES = 50_000_000
"""Of a version that is compared."""
_MOST_DIFFERENCES_KEPT, _MOST_KEPT_BYTES = 200, 8_000_000
"""How many differences are kept, and bytes of them."""
_COMPARED_AT_A_TIME, _WAIT_SECONDS = 2, 10.0
"""How many are worked out at a time, for each takes memory, and how long others wait for their turn."""
_MOST_VERSIONS = 200
"""Among which the one before is looked for."""

_Name = tuple[str, str, str, int]
_found: OrderedDict[_Name, str] = OrderedDict()
_size = 0
_lock = threading.Lock()
_turns = threading.BoundedSemaphore(_COMPARED_AT_A_TIME)


def before(t: Transaction, version: Version) -> Version | None:
    """Return the version before one, if it is still kept."""
    if version.first:
        return None
    some = t.versions(element=version.element, limit=_MOST_VERSIONS, latest_first=True)
    return next((one for one in some if one.id < version.id), None)


def between(
    mirror: Mirror, old: Version, new: Version, *, lines: int = 200, largest: int = _MOST_COMPARED_BYTES
) -> str | None:
    """Return what is different, in words; None if a version is too large, or lost."""
    if max(old.size, new.size) > largest:
        return None
    element = _element_of(mirror, new)
    of_page = element is not None and element.source in {"http", "browser"}
    select = selection_of(element.options) if element is not None and of_page else None
    name = old.digest, new.digest, f"{new.element} {new.media_type} {select}", lines
    told = _known(name)
    if told is not None:
        return told
    if not _turns.acquire(timeout=_WAIT_SECONDS):
        raise Trouble("many versions are being compared just now; ask again")
    try:
        told = _known(name)  # somebody else may have asked for the same
        if told is None:
            contents = mirror.copies.read(old.digest, old.size), mirror.copies.read(new.digest, new.size)
            table = element is not None and element.source == "sql"  # the mirror itself has written it
            told = bounded_difference(*contents, new.media_type, lines=lines, table=table, select=select)
            _keep(name, told)
    except InvalidInput:
        return None
    finally:
        _turns.release()
    return told


def picture(mirror: Mirror, old: Version, new: Version) -> bytes | None:
    """Return a picture that shows what is different between two; None if they cannot be compared."""
    sizes = max(old.size, new.size)
    if sizes > _MOST_COMPARED_BYTES or not (is_picture(old.media_type) and is_picture(new.media_type)):
        return None
    if not _turns.acquire(timeout=_WAIT_SECONDS):
        raise Trouble("many versions are being compared just now; ask again")
    try:
        contents = mirror.copies.read(old.digest, old.size), mirror.copies.read(new.digest, new.size)
        return bounded_picture(*contents)
    except (InvalidInput, MissingExtra):
        return None
    finally:
        _turns.release()


def _element_of(mirror: Mirror, version: Version) -> Element | None:
    """Return the element of a version, if it is there."""
    with mirror.store.begin() as t:
        return t.numbered([version.element]).get(version.element)


def _known(name: _Name) -> str | None:
    with _lock:
        if name in _found:
            _found.move_to_end(name)
        return _found.get(name)


def _keep(name: _Name, told: str) -> None:
    global _size  # noqa: PLW0603
    with _lock:
        if name not in _found:
            _found[name] = told
            _size += getsizeof(told)
        while len(_found) > _MOST_DIFFERENCES_KEPT or _size > _MOST_KEPT_BYTES:
            _size -= getsizeof(_found.popitem(last=False)[1])
