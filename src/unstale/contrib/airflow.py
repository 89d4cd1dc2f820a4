"""Airflow 3: a trigger that fires when an element has changed, for the watchers of assets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from unstale.errors import Trouble

from .change_feed import ChangeFeed

__all__ = ["ChangeTrigger"]


class ChangeTrigger(BaseEventTrigger):  # type: ignore[misc]  # it has no types here
    """Fires once when elements have changed.

    Parameters
    ----------
    keys
        of the elements
    server, token
        where the mirror is served, and a token that is to read
    seconds
        between two looks
    position_file
        where to keep the number of the last change, so that none is lost while no triggerer runs; None: they
        are looked for from when the trigger starts
    """

    def __init__(
        self,
        keys: Sequence[str],
        server: str = "http://127.0.0.1:8321",
        token: str | None = None,
        seconds: float = 10.0,
        position_file: str | None = None,
    ) -> None:
        super().__init__()
        self.keys, self.server, self.token = list(keys), server, token
        self.seconds, self.position_file = seconds, position_file

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return how the triggerer makes it again."""
        said = {name: getattr(self, name) for name in ("keys", "server", "token", "seconds", "position_file")}
        return f"{type(self).__module__}.{type(self).__qualname__}", said

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Tell of changes: of all that were seen at once as one event."""
        feed = ChangeFeed(self.server, self.keys, token=self.token)
        last = self._kept()
        while True:
            try:
                if last is None:
                    last = await asyncio.to_thread(feed.last)
                    self._keep(last)
                changes, last = await asyncio.to_thread(feed.after, last)
            except Trouble as error:
                self.log.warning("%s; trying again", error)
                changes = []
            if changes and last is not None:
                told = [{"key": one.key, "digest": one.digest, "seen": one.time} for one in changes]
                yield TriggerEvent({"last": last, "changes": told})
                self._keep(last)
            await asyncio.sleep(self.seconds)

    def _kept(self) -> int | None:
        if self.position_file is not None:
            with suppress(OSError, ValueError):
                return int(Path(self.position_file).read_text("ascii"))
        return None

    def _keep(self, last: int) -> None:
        if self.position_file is not None:
            Path(self.position_file).write_text(str(last), "ascii")
