"""What messages tell of a change: old and new value, the difference, where to look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.differences.bounded import bounded_difference
from unstale.mirror.sources.http.fingerprint import selection_of
from unstale.mirror.store.contract import Element, Store, Version
from unstale.mirror.store.copies import Copies
from unstale.wording import show_time

from .messages import shortened

_LINES = 60
"""Of a difference."""
_MOST_VALUE_CHARACTERS = 1000
_MOST_BYTES = 8_000_000
"""Of a version whose difference is told."""
_VERSIONS_LOOKED_AT = 1000
_PLAIN = ("text/plain", "application/json")
"""Kinds that are shown as they are."""
_GONE = "(what was before is not kept any more)"


class ChangeReader:
    """Reads what templates can say of changes.

    Parameters
    ----------
    store, copies
        Where changes and contents are; without copies there are no differences.
    link
        Address of the dashboard, for links to the change; None: links lead to the page itself.
    """

    def __init__(self, store: Store, copies: Copies | None, link: str | None) -> None:
        self._store, self._copies = store, copies
        self._link = None if link is None else link.rstrip("/")

    def values(self, changes: Sequence[Version]) -> Mapping[str, object]:
        """Return the variables of templates for changes of one element, the first to the last."""
        first, last = changes[0], changes[-1]
        with self._store.begin() as t:
            element = t.numbered([last.element]).get(last.element)
            kept = t.versions(element=last.element, latest_first=True, limit=_VERSIONS_LOOKED_AT)
        before = next((one for one in kept if one.id < first.id), None)
        if before is None and len(changes) > 1:
            before = first  # the one before it is not kept, or never was
        old, new, diff = self._contents(element, before, last)
        title = last.meta.get("title")
        return {
            "key": last.key,
            "title": title if isinstance(title, str) else "",
            "old": old,
            "new": new,
            "diff": diff,
            "link": self._link_to(last),
            "time": show_time(last.time),
            "first": first.first,
            "size": last.size,
            "change": last.id,
        }

    def _link_to(self, version: Version) -> str:
        if self._link is not None:
            return f"{self._link}/elements/{version.element}/versions/{version.id}"
        return version.key

    def _contents(
        self, element: Element | None, before: Version | None, last: Version
    ) -> tuple[str, str, str]:
        """Return old and new value, and the difference."""
        after = self._body(last)
        if after is None:
            return "", "", "(this version is not kept any more)"
        select = (
            selection_of(element.options)
            if element is not None and element.source in {"http", "browser"}
            else None
        )
        new = _value(select(after, last.media_type)) if select is not None else ""
        if before is None:
            new = new or (_value(after) if last.media_type.startswith(_PLAIN) else "")
            return "", new, new or ("(the first copy)" if last.first else _GONE)
        body = self._body(before)
        if body is None:
            return "", new, _GONE
        table = element is not None and element.source == "sql"
        diff = bounded_difference(body, after, last.media_type, lines=_LINES, table=table, select=select)
        if select is not None:
            old = _value(select(body, last.media_type))
            if old or new:
                return old, new, diff
        return _side(diff, "-"), _side(diff, "+"), diff

    def _body(self, version: Version) -> bytes | None:
        if self._copies is None or version.size > _MOST_BYTES:
            return None
        with suppress(InvalidInput, Trouble, OSError):
            return self._copies.read(version.digest, version.size)
        return None


def _value(selected: bytes | None) -> str:
    return "" if selected is None else shortened(selected.decode("utf-8", "replace"), _MOST_VALUE_CHARACTERS)


def _side(diff: str, sign: str) -> str:
    r"""Return the lines of one side of a difference.

    >>> _side("@@ -1 +1 @@\n-one\n+two", "+")
    'two'
    """
    lines = [line[1:] for line in diff.splitlines() if line.startswith(sign)]
    return shortened("\n".join(lines), _MOST_VALUE_CHARACTERS)
