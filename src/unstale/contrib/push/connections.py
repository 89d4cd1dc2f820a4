"""Connections of strangers: so many at once, and those that say nothing make room for others."""

from __future__ import annotations

import asyncio

from aiohttp import web

__all__ = ["OpenConnections"]

MOST_CONNECTIONS = 200
_SILENT_SECONDS = 20.0
"""After which a connection without a request is closed."""
_LOOK_SECONDS = 5.0


class OpenConnections:
    """Makes the protocol of each connection for a server, and closes those that are too many or silent."""

    def __init__(self, server: web.Server) -> None:
        self._server = server
        self._begun: dict[asyncio.Protocol, float] = {}
        """When they were made, or answered last."""
        self.asking: set[asyncio.Protocol] = set()
        """Those whose request is being answered."""

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection."""
        self._forget_closed()
        if len(self._begun) >= MOST_CONNECTIONS:
            for one in [one for one in self._begun if one not in self.asking][:1]:
                self._close(one)
        made = self._server()
        self._begun[made] = asyncio.get_running_loop().time()
        return made

    def answered(self, one: asyncio.Protocol) -> None:
        """Take in that a request was answered."""
        self.asking.discard(one)
        if one in self._begun:
            self._begun[one] = asyncio.get_running_loop().time()

    async def close_silent(self) -> None:
        """Close what says nothing, for ever."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._forget_closed()
            before = asyncio.get_running_loop().time() - _SILENT_SECONDS
            for one, since in list(self._begun.items()):
                if since < before and one not in self.asking:
                    self._close(one)

    def _forget_closed(self) -> None:
        now = asyncio.get_running_loop().time()
        for one, since in list(self._begun.items()):
            if getattr(one, "transport", None) is None and now > since:  # it was closed: it had its turn
                del self._begun[one]

    def _close(self, one: asyncio.Protocol) -> None:
        del self._begun[one]
        transport = getattr(one, "transport", None)
        if transport is not None:
            transport.abort()
