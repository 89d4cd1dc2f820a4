"""How a change is told to others: one JSON object, the same in the feed, to webhooks and to commands."""

from __future__ import annotations

from datetime import UTC, datetime

from unstale.mirror.source import Json
from unstale.mirror.store.contract import Version

__all__ = ["change_record", "timestamp"]


def change_record(version: Version) -> dict[str, Json]:
    """Return a change as JSON, a stable contract: members may be added, none is renamed or removed.

    id          number of the version; they grow, so the last one seen says where to go on
    key         of the element
    time        start of the poll that saw it
    digest      SHA-256 of the content, in hexadecimal
    size        bytes of the content
    media_type  such as ``text/html``
    modified    when the content changed, as the source says; null if it does not
    first       whether it is the first version of its element: a new element, not a change
    meta        what else the source says of this version: title, rows, status, headers

    >>> version = Version(7, 3, "https://example.org/", 1.7e9, "ab" * 32, 5, "text/html", None, False, {})
    >>> change_record(version)["time"]
    '2023-11-14T22:13:20.000000Z'
    """
    return {
        "id": version.id,
        "key": version.key,
        "time": timestamp(version.time),
        "digest": version.digest,
        "size": version.size,
        "media_type": version.media_type,
        "modified": None if version.modified is None else timestamp(version.modified),
        "first": version.first,
        "meta": dict(version.meta),
    }


def timestamp(time: float) -> str:
    """Return a moment as text, in UTC."""
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
