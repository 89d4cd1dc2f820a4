"""What a source is: it knows how to poll elements.

A source is any object with the methods of `Source`; nobody subclasses. The mirror finds it by the name under
which it is registered, as an entry point of the group ``unstale.sources``: a callable that takes the settings
of the mirror and returns the source. Those that come with unstale are registered in the same way.

The mirror does the rest: it decides when to poll, keeps to limits, compares fingerprints, keeps copies,
learns. So a source never sleeps to be polite, never retries, and remembers nothing that it cannot do without:
what it wants to know at the next poll of an element it gives back as ``validators``, which are kept with the
copy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

__all__ = ["Found", "Json", "Known", "Late", "New", "Outcome", "Source", "Terms", "WarmSource"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""What options and validators are made of."""

Outcome = Literal["changed", "unchanged", "gone", "failed", "refused"]
"""What a poll saw.

changed     there is content; whether it is new, the mirror tells by its fingerprint
unchanged   the source says that nothing has changed (304 Not Modified, the same counter)
gone        the element is not there any more; the last copy stays
failed      the poll saw nothing: time-out, reset, 500, broken content. It is tried again, later and later
refused     it must not be polled: robots.txt, a private address. It is tried again after a day or so
"""


@dataclass(frozen=True, slots=True)
class Known:
    """An element, and what is known of it from the last poll that saw something."""

    key: str
    options: Mapping[str, Json] = field(default_factory=dict)
    """What the user said about this element and the source understands; see the source."""
    validators: Mapping[str, Json] = field(default_factory=dict)
    """What the source gave back at the last poll: ETag, a counter, a cursor."""
    fingerprint: str | None = None
    """That of the last copy; None if there is no copy yet."""


class Late(Exception):  # noqa: N818
    """The time at which a poll may begin is over: it is not made, and planned anew."""

    traffic = 0
    """Bytes that it has moved by then."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Under what terms an element is polled."""

    scratch: Path
    """A folder on the file system of the copies, for a body that is better not kept in memory."""
    max_size: int
    """Bytes that the content may have; more is a failure, and is not read to the end."""
    timeout: float
    """Seconds that the whole poll may take; the mirror stops it soon after."""
    spend: Callable[[int], Awaitable[None]] | None = None
    """To be awaited before so many more bytes are read, if there is a budget of bytes."""
    own: tuple[Path, ...] = ()
    """Files and folders of the mirror itself, which no tree may contain."""
    start: Callable[[], None] | None = None
    """To be called just before the element itself is asked for, by a source that has to wait for something
    else first (robots.txt, a connection): it may raise `Late`, which the source lets pass."""


@dataclass(frozen=True, slots=True)
class New:
    """An element that was discovered: by a feed, a sitemap, a folder, a database."""

    key: str
    source: str | None = None
    """Name of its source; None: the one that its key suggests."""
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(slots=True)
class Found:
    """What a poll found."""

    outcome: Outcome
    detail: str = ""
    """In words, for people: '304 Not Modified', 'no answer within 30 seconds'."""
    body: bytes | Path | None = None
    """With ``changed``: the content, or a file in ``scratch``, which the mirror takes over."""
    fingerprint: str | None = None
    """With ``changed``: of what counts as content; None: the digest of the body."""
    media_type: str = "application/octet-stream"
    validators: Mapping[str, Json] | None = None
    """For the next poll; None: as before."""
    traffic: int = 0
    """Bytes that the poll moved, headers included as far as is known."""
    modified: float | None = None
    """When the content changed last, as the source says (seconds since 1970)."""
    moved: str | None = None
    """Where the element is now for good (a permanent redirect)."""
    wait: float | None = None
    """Seconds for which the whole group must not be polled (Retry-After)."""
    spacing: float | None = None
    """Seconds between two polls of the group that the source asks for (crawl-delay); None: not known."""
    discovered: tuple[New, ...] = ()
    """Elements that the content names."""
    hints: tuple[tuple[str, float], ...] = ()
    """Keys that may have changed, each with the time of the change as told (seconds since 1970, 0: now)."""
    complete: bool = False
    """Whether ``discovered`` is all there is, so that elements it no longer names are gone from there."""
    meta: Mapping[str, Json] = field(default_factory=dict)
    """More about this version, for readers: title, rows, schema, the address after redirects, status,
    headers."""


class Source(Protocol):
    """Knows how to poll elements of one kind.

    All methods may be called concurrently, in one event loop. Raise `unstale.InvalidInput` from ``key`` for
    what cannot be an element; ``poll`` never raises on account of what the other side does: that is an
    outcome. (If it does, the mirror takes it for a failure, and says so.)
    """

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the one key of what a user names thus, or raise `unstale.InvalidInput`."""

    def group(self, key: str, options: Mapping[str, Json]) -> str:
        """Return the name of the group whose limits the element shares by default: its host, its database."""

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Look at an element."""

    async def close(self) -> None:
        """Let go of connections; they are made again if there are more polls, maybe in another event loop."""


@runtime_checkable
class WarmSource(Source, Protocol):
    """A source that has something to do before its first poll that takes a while; most have not."""

    def warm_up(self) -> None:
        """Load what polls need. A worker calls it before slots are given; without it the first poll waits."""
