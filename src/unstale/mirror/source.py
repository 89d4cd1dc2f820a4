"""The contract of sources, which poll elements: step 4 of a poll.

A source is any object with the methods of `Source`; there is no base class. Its package registers it as an
entry point of the group ``unstale.sources``: a callable that takes the settings of the mirror and returns the
source. The mirror finds it by the name of the entry point. The sources of unstale are registered in the same
way.

The mirror does the rest: it decides when to poll, keeps limits, compares fingerprints, keeps copies, and
learns. So a source never sleeps to be polite, never retries, and keeps no memory of elements. What it needs
at the next poll of an element it returns as ``validators``, which the mirror keeps with the copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

__all__ = [
    "Found",
    "Json",
    "Known",
    "Late",
    "New",
    "Outcome",
    "Source",
    "StoppableSource",
    "Terms",
    "WarmSource",
]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""The values of options and validators."""

Outcome = Literal["changed", "unchanged", "gone", "failed", "refused"]
"""What a poll saw.

changed     there is content; the mirror tells by its fingerprint whether it is new
unchanged   the source says that nothing has changed (304 Not Modified, the same counter)
gone        the element does not exist any more; the mirror keeps the last copy
failed      the poll saw nothing: time-out, reset, 500, broken content; the mirror tries again, ever later
refused     the element must not be polled: robots.txt, a private address; the mirror tries again in a day
"""


@dataclass(frozen=True, slots=True)
class Known:
    """An element, and what the last poll that saw something found out about it."""

    key: str
    options: Mapping[str, Json] = field(default_factory=dict, repr=False)
    """The options that the user gave this element; each source documents its own."""
    validators: Mapping[str, Json] = field(default_factory=dict)
    """What the source returned at the last poll: ETag, a counter, a cursor."""
    fingerprint: str | None = None
    """The fingerprint of the last copy; None if there is no copy yet."""


class Late(Exception):  # noqa: N818
    """It is too late to begin this poll, or to finish it; the mirror plans it again."""

    traffic = 0
    """Bytes that the poll has moved until then."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits of one poll, and where it may write."""

    scratch: Path
    """A folder on the file system of the copies, for a body that is too large for memory."""
    max_size: int
    """Bytes that the content may have; a source stops reading and fails if there is more."""
    timeout: float
    """Seconds that the whole poll may take; the mirror cancels it soon after."""
    spend: Callable[[int], Awaitable[None]] | None = None
    """The source awaits it before it reads so many more bytes; None if there is no budget of bytes."""
    own: tuple[Path, ...] = ()
    """Files and folders of the mirror itself, which it must not mirror."""
    start: Callable[[], None] | None = None
    """A source that first waits for something else (robots.txt, a connection) calls it just before it asks
    for the element itself. It may raise `Late`, which the source does not catch."""


@dataclass(frozen=True, slots=True)
class New:
    """An element that a feed, a sitemap, a folder or a database names."""

    key: str
    source: str | None = None
    """Name of its source; None: the mirror chooses by the form of the key."""
    options: Mapping[str, Json] = field(default_factory=dict)
    modified: float | None = None
    """When it changed last, as who names it says (seconds since 1970); its own word counts more."""


@dataclass(slots=True)
class Found:
    """What a poll found."""

    outcome: Outcome
    detail: str = ""
    """Words for people: '304 Not Modified', 'no answer within 30 seconds'."""
    body: bytes | Path | None = None
    """With ``changed``: the content, or a file in ``scratch``; the mirror takes the file over."""
    fingerprint: str | None = None
    """With ``changed``: the fingerprint of what counts as content; None: the digest of the body."""
    media_type: str = "application/octet-stream"
    validators: Mapping[str, Json] | None = None
    """Validators for the next poll; None: those of the last poll stay."""
    traffic: int = 0
    """Bytes that the poll moved, with headers if the source knows their size."""
    modified: float | None = None
    """When the content changed last, as the other side says (seconds since 1970)."""
    stays: float | None = None
    """For how many seconds it stays as it is, as the other side promises (Cache-Control, Expires)."""
    changes: tuple[float, ...] = ()
    """When it changed, the last time included, if the other side tells of several changes, such as a feed of
    dated entries: all from the first of them on. The first poll learns from it how often that is."""
    moved: str | None = None
    """The new key of the element, after a permanent redirect."""
    wait: float | None = None
    """Seconds for which the mirror must not poll the whole group (Retry-After)."""
    spacing: float | None = None
    """Seconds between two polls of the group that the other side asks for (crawl-delay); None: not known."""
    discovered: tuple[New, ...] = ()
    """Elements that the content names."""
    origins: tuple[str, ...] = ()
    """Scheme, host and port of all addresses that redirects have led through: authors of what it names."""
    hints: tuple[tuple[str, float], ...] = ()
    """Keys that may have changed, each with the time of the change (seconds since 1970; 0: now)."""
    complete: bool = False
    """Whether ``discovered`` names all there is; then an element that it no longer names may be gone."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """More about this version, for its readers: title, rows, schema, the address after redirects, status,
    headers."""


class Source(Protocol):
    """Polls elements of one kind.

    The mirror may call all methods concurrently, in one event loop. ``key`` raises `unstale.InvalidInput` for
    a text that cannot be an element. ``poll`` does not raise, whatever the other side does: that is an
    outcome. (If it raises, the mirror records a failure with the error.)
    """

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the canonical key of what a user names, or raise `unstale.InvalidInput`."""

    def group(self, key: str, options: Mapping[str, Json]) -> str:
        """Return the name of the group whose limits the element shares: its host, its database."""

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Poll an element."""

    async def close(self) -> None:
        """Close connections; later polls, maybe in another event loop, make new ones."""


@runtime_checkable
class StoppableSource(Source, Protocol):
    """A source whose polls can take long through no fault of the network, and can be stopped; most cannot."""

    def stop_polls(self) -> None:
        """Stop the polls that are running: each raises `Late`. The mirror calls it when it is interrupted."""


@runtime_checkable
class WarmSource(Source, Protocol):
    """A source that has something to do before its first poll that takes a while; most have not."""

    def warm_up(self) -> None:
        """Load what polls need. A worker calls it before slots are given; without it the first poll waits."""
