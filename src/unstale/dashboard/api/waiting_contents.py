"""Content that fetchers have put and no outcome has named yet: how much there may be, and its end.

Who may lease could else fill the disk. There is one content for each lease at most, and so many bytes for
each token. What is not reported within the time of the longest lease is deleted. After a restart nothing is
known of what waits: the next sweep deletes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.errors import Trouble
from unstale.mirror.engine.fetchers import LONGEST_LEASE_SECONDS
from unstale.mirror.mirror import Mirror

MOST_WAITING_COPIES = 50
"""Times the size that a copy may have (``max_size``), which contents of one token that wait may have."""
_LOOK_SECONDS = 60.0
"""After which it is looked again what has waited too long."""


@dataclass
class _Waiting:
    """One content."""

    token: int
    size: int
    """Bytes; while it comes in, those that it may have."""
    since: float = field(default_factory=time.monotonic)


class WaitingContents:
    """What waits for an outcome, by digest."""

    def __init__(self, gateway: MirrorGateway, *, seconds: float = LONGEST_LEASE_SECONDS) -> None:
        self._gateway, self._seconds = gateway, seconds
        self._waiting: dict[str, _Waiting] = {}
        self._reported: dict[str, float] = {}
        """Named by an outcome, and since when; a copy that no version needs even so is deleted as well."""
        self._deleting: asyncio.Task[None] | None = None

    async def check_room(self, token: int, size: int) -> None:
        """Refuse content of so many bytes that there is no lease or no room for."""
        most = MOST_WAITING_COPIES * self._gateway.mirror.settings.max_size
        leases = await self._gateway.do(_count_leases)
        if self._is_full(leases, most, token, size):
            await self._drop_referred()
        if len(self._waiting) >= leases:
            raise HTTPException(
                409,
                f"{len(self._waiting):,} contents wait for outcomes that name them, and fetchers have "
                f"{leases:,} leases: take leases first, and put one content for each",
            )
        if self._is_full(leases, most, token, size):
            raise HTTPException(
                429,
                f"contents of {self._bytes(token):,} bytes wait for outcomes that name them; {most:,} are "
                "allowed (50 times max_size): report some of them first",
                {"Retry-After": "60"},
            )

    @contextmanager
    def coming(self, token: int, digest: str, size: int) -> Iterator[None]:
        """Count content while it comes in, as of the size that it may have."""
        name = f"{digest} {time.monotonic_ns()}"
        self._waiting[name] = _Waiting(token, size)
        try:
            yield
        finally:
            del self._waiting[name]

    def has(self, digest: str) -> bool:
        """Tell whether this content waits."""
        return digest in self._waiting

    def keep(self, token: int, digest: str, size: int) -> None:
        """Count content that is here."""
        self._waiting[digest] = _Waiting(token, size)
        if self._deleting is None or self._deleting.done():
            self._deleting = self._gateway.begin(self._delete_now_and_then())

    def reported(self, digests: Iterable[str]) -> None:
        """Take in that outcomes have named contents, and were recorded."""
        for digest in digests:
            if self._waiting.pop(digest, None) is not None:
                self._reported[digest] = time.monotonic()

    def _is_full(self, leases: int, most: int, token: int, size: int) -> bool:
        return len(self._waiting) >= leases or self._bytes(token) + size > most

    def _bytes(self, token: int) -> int:
        return sum(one.size for one in self._waiting.values() if one.token == token)

    async def _drop_referred(self) -> None:
        """Count no more what versions need: it was reported, maybe to another process."""
        names = [name for name in self._waiting if " " not in name]

        def referred(mirror: Mirror) -> set[str]:
            with mirror.store.begin() as t:
                return t.referred(names)

        for digest in await self._gateway.change(referred, forget=False):
            self._waiting.pop(digest, None)

    async def _delete_now_and_then(self) -> None:
        while self._waiting or self._reported:
            await asyncio.sleep(min(_LOOK_SECONDS, self._seconds))
            with suppress(Trouble, OSError):  # it is tried again
                await self.delete_old()

    async def delete_old(self) -> None:
        """Delete what has waited too long, unless a version needs it."""
        before = time.monotonic() - self._seconds
        old = [name for name, one in self._waiting.items() if one.since <= before and " " not in name]
        old += [name for name, since in self._reported.items() if since <= before]
        if old:
            await self._gateway.change(lambda mirror: mirror.store.discard(old), forget=False)
        for name in old:
            self._waiting.pop(name, None)
            self._reported.pop(name, None)


def _count_leases(mirror: Mirror) -> int:
    with mirror.store.begin() as t:
        return t.leases_held()
