"""What can be changed from here: elements, hints, the budget.

Whoever can reach the dashboard can use it, so it must not give away more than the mirror has already. Only
what is on the web can be added: a file or a table of this machine would be read with the rights of the
mirror, and be served to whoever asked. Keys that are not in the mirror are compared as texts, and reach
neither a file system nor a database but that of the mirror.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..errors import InvalidInput
from ..mirror.discovery import Discovery
from ..mirror.mirror import Added, Mirror
from ..mirror.registry import source_for
from ..mirror.source import Json, New
from ..mirror.store import Element, Transaction

__all__ = ["add", "find", "hint"]

_ON_THE_WEB = frozenset({"http", "feed", "sitemap"})


def find(t: Transaction, mirror: Mirror, keys: Sequence[str]) -> list[Element | None]:
    """Return the elements that have these keys, as given or as addresses are written."""
    found = t.find(keys)
    written = {key: _written(mirror, key) for key in keys if key not in found}
    others = t.find([key for key in written.values() if key is not None])
    return [found.get(key) or others.get(written.get(key) or "") for key in keys]


def add(mirror: Mirror, wishes: Iterable[tuple[str, Mapping[str, Json]]]) -> Added:
    """Add elements, each with what is said of it; those that cannot be are left out, and told."""
    added = known = changed = 0
    refused: list[tuple[str, str]] = []
    together: dict[str, tuple[Mapping[str, Json], list[New]]] = {}
    for key, given in wishes:
        if _on_the_web(key):
            together.setdefault(repr(sorted(given.items())), (given, []))[1].append(New(key))
        else:
            why = "only pages, feeds and sitemaps can be added here; for others there is 'unstale add'"
            refused.append((key, why))
    for given, news in together.values():
        try:
            done = mirror.add_many(news, given)
        except InvalidInput as error:
            refused += [(new.key, str(error)) for new in news]
            continue
        added, known, changed = added + done.added, known + done.known, changed + done.changed
        refused += done.refused
    return Added(added, known, refused, changed)


def hint(mirror: Mirror, keys: Sequence[str], time: float | None = None) -> int:
    """Say that elements may have changed, now or at a moment; all must be there."""
    with mirror.store.begin() as t:
        found = find(t, mirror, keys)
    for key, element in zip(keys, found, strict=True):
        if element is None:
            raise InvalidInput(f"there is no element {key[:300]!r} in this mirror; no hint was taken")
    return mirror.hint(sorted({element.key for element in found if element is not None}), time=time)


def _on_the_web(key: str) -> bool:
    try:
        name, text = source_for(key)
    except InvalidInput:
        return False
    return name in _ON_THE_WEB and text.lower().startswith(("http://", "https://"))


def _written(mirror: Mirror, key: str) -> str | None:
    """Return an address as it is written in the store; None if it is none."""
    if not _on_the_web(key):
        return None
    try:
        return Discovery(mirror.settings, mirror.sources).addition(New(key), {}).key
    except InvalidInput:
        return None
