"""What fetchers say that they saw, and how it can contradict itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

from unstale.mirror.source import Json
from unstale.mirror.store.contract import Lease

_EARLY_SECONDS = 1.0
"""By which a poll may seem to begin before its time, by a clock that differs a little."""
_MOST_TRAFFIC = 10
"""Times the size that content may have, which a poll may move."""


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """What a fetcher saw of an element that it had leased."""

    element: int
    slot: float
    """The start of its lease, as it was given: it tells this lease from others of the element."""
    outcome: Literal["changed", "unchanged", "gone", "failed"]
    fingerprint: str | None = None
    """With ``changed``: a digest of what counts as content, if the content stays with the fetcher."""
    content: bytes | None = None
    """With ``changed``: the content, if the mirror is to keep a copy."""
    digest: str | None = None
    """SHA-256 of the content: of what is handed over here, or was put before."""
    began: float | None = None
    """When the poll began (seconds since 1970); None: when it might."""
    seconds: float = 0.0
    traffic: int = 0
    detail: str = ""
    media_type: str = "application/octet-stream"
    validators: Mapping[str, Json] | None = None
    modified: float | None = None
    """When it changed last, as the other side says (seconds since 1970)."""
    stays: float | None = None
    wait: float | None = None
    """Seconds for which nobody may poll the whole group (Retry-After)."""
    links: tuple[str, ...] = ()
    """Addresses that the page links to; followed as the option ``links`` of the page says."""

    @property
    def start(self) -> float:
        """When the poll began."""
        return self.slot if self.began is None else self.began

    @property
    def has_content(self) -> bool:
        """Whether there is something to be kept as a copy."""
        return self.content is not None or self.digest is not None

    def wrong_content(self, largest: int) -> str:
        """Return what is wrong with what is handed over, if content may have so many bytes."""
        if self.traffic > _MOST_TRAFFIC * largest:
            return f"traffic must be at most {_MOST_TRAFFIC * largest:,} bytes; it is {self.traffic:,}"
        if self.content is None:
            return ""
        if len(self.content) > largest:
            return f"content has {len(self.content):,} bytes; max_size allows for {largest:,}"
        if self.digest is not None and self.digest != sha256(self.content).hexdigest():
            return "digest is not the SHA-256 of the content"
        return ""


def contradiction(one: FetchOutcome, lease: Lease, now: float) -> str:
    """Return what of an outcome contradicts its lease, the clock or itself; empty if nothing does."""
    known, last = lease.known.fingerprint, lease.slot.last
    if one.outcome == "changed":
        if one.fingerprint is None and not one.has_content:
            return "changed needs a fingerprint or the content"
    elif one.has_content:
        return f"{one.outcome} cannot come with content; report it as changed"
    elif one.outcome == "unchanged" and known is None:
        return "unchanged cannot be what was never seen; report it as changed"
    elif one.outcome == "unchanged" and one.fingerprint not in {None, known}:
        return "unchanged cannot come with another fingerprint; report it as changed"
    return _wrong_moment(one, last, now)


def _wrong_moment(one: FetchOutcome, last: float, now: float) -> str:
    """Return what is wrong with the moments of an outcome; ``last``: the last poll that saw something."""
    if not one.slot - _EARLY_SECONDS <= one.start <= now + _EARLY_SECONDS:
        return f"began must be between its slot, {one.slot!r}, and now, {now!r}; it is {one.start!r}"
    if one.start < last:
        return f"began must not be before the last poll, {last!r}; it is {one.start!r}"
    if one.start + one.seconds > now + 2.0 * _EARLY_SECONDS:
        return f"it would end in the future: seconds is {one.seconds!r}"
    return ""
