"""What can be changed from here: elements, hints, the budget.

All who can reach the dashboard can use it, so it must not give away more than the mirror has already. Only
what is on the web can be added: a file or a table of this machine would be read with the rights of the
mirror, and be served to the client. Where no token is in force, every user of this machine can reach the
dashboard: then nothing private can be added, nor what would be asked with the secrets of the mirror. Keys
that are not in the mirror are compared as texts, and reach neither a file system nor a database but that of
the mirror.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from unstale.errors import InvalidInput
from unstale.mirror.additions import Added
from unstale.mirror.mirror import Mirror
from unstale.mirror.secrets import HARMLESS_HEADERS
from unstale.mirror.source import Json, New
from unstale.mirror.sources.http.options import own_headers
from unstale.mirror.sources.http.urls import host_of
from unstale.mirror.store.contract import Addition, Element, Transaction

_on_the_web = re.compile(r"\s*(?:(?:feed|sitemap):)?https?://", re.IGNORECASE).match
"""Tells whether a key is that of a page, a feed or a sitemap; by its text alone."""
_NOT_HERE = "only pages, feeds and sitemaps can be added here; for others there is 'unstale add'"
_PRIVATE = (
    "it is private, and there is no token, so it cannot be added here; there is 'unstale add', and "
    "private = true in [http] of mirror.toml"
)
_SECRET = (
    "it would be asked for with headers that may be secret, and there is no token, so it cannot be added "  # noqa: S105
    "here; there is 'unstale add'"
)


def find(t: Transaction, mirror: Mirror, keys: Sequence[str]) -> list[Element | None]:
    """Return the elements that have these keys, as given or as addresses are written."""
    found = t.find(keys)
    written = {key: _written(mirror, key) for key in keys if key not in found}
    others = t.find([key for key in written.values() if key is not None])
    return [found.get(key) or others.get(written.get(key) or "") for key in keys]


def add(mirror: Mirror, wishes: Iterable[tuple[str, Mapping[str, Json]]], *, trusted: bool = False) -> Added:
    """Add elements, each with what is said of it; those that cannot be are left out, and told.

    ``trusted``: the client has shown a token.
    """
    added = known = changed = 0
    refused: list[tuple[str, str]] = []
    together: dict[str, tuple[Mapping[str, Json], list[New]]] = {}
    for key, given in wishes:
        why = None if _on_the_web(key) else _NOT_HERE
        if why is None and not trusted:
            why = _why_not(mirror, key)
        if why is None:
            together.setdefault(repr(sorted(given.items())), (given, []))[1].append(New(key))
        else:
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


def _why_not(mirror: Mirror, key: str) -> str | None:
    """Return why somebody who has shown no token cannot add an element; None if it can be, or is there."""
    from unstale.mirror.sources.http.private_addresses import named_private

    made, http = _made(mirror, key), mirror.settings.http
    if made is None:
        return None  # `add` says why
    if not http.private and named_private(host_of(made.key)):
        why = _PRIVATE
    elif {name.lower() for name in (*http.headers, *own_headers(made.options))} <= HARMLESS_HEADERS:
        return None
    else:
        why = _SECRET
    with mirror.store.begin() as t:
        there = t.find([made.key]).get(made.key)
    if there is None or there.state == "removed":
        return why
    more = own_headers(made.options).items() - own_headers(there.options).items()  # if a user names it
    return _SECRET if more else None


def _written(mirror: Mirror, key: str) -> str | None:
    """Return an address as it is written in the store; None if it is none."""
    made = _made(mirror, key) if _on_the_web(key) else None
    return None if made is None else made.key


def _made(mirror: Mirror, key: str) -> Addition | None:
    """Return the element that an address is; None if it can be none."""
    try:
        return mirror.discovery().addition(New(key), {})
    except InvalidInput:
        return None
