"""All that a page asks for goes through this proxy, which connects to no private address and counts bytes.

A browser can be told what to ask for in a hundred ways: redirects, pictures, scripts, frames, WebSockets,
workers, prefetches. It resolves no name itself while it has a proxy, so the guard is here, where connections
are made, and checks the address that is connected to: a name that resolves differently the second time gains
nothing. Each poll has a proxy of its own, which ends with the poll, whatever the page still wants.

A poll of a private page that the user named may go to that host as well, and to no other private one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from unstale.mirror.sources.http.private_addresses import Lookup, PrivateAddress, Resolver

_CHUNK_BYTES = 65536
_MAX_HEAD_BYTES = 65536
_CONNECT_SECONDS = 10.0
_MOST_CONNECTIONS = 200
"""Of one poll at the same time; browsers open at most a few dozen."""


class GuardedProxy:
    """A proxy for one poll, on this machine.

    Parameters
    ----------
    inside
        The private host that the user named; empty if the page is public.
    private
        Whether all private addresses are allowed.
    max_bytes
        After so many bytes all connections are closed.
    spend
        Is awaited before so many more bytes are read, if there is a budget of bytes.
    lookup, public, threads
        As for pages that are not rendered.
    """

    def __init__(
        self,
        *,
        inside: str,
        private: bool,
        max_bytes: int,
        lookup: Lookup,
        public: Callable[[str], bool],
        threads: Executor,
        spend: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self.traffic = 0
        self.too_much = False
        """Whether it was closed as there were too many bytes."""
        self.refused: list[str] = []
        """Private hosts that were asked for."""
        self._inside, self._private, self._max_bytes, self._spend = inside, private, max_bytes, spend
        self._any, self._outside = (Resolver(lookup, threads, guard) for guard in (None, public))
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        """Listen on a free port of this machine."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _MOST_CONNECTIONS or self.too_much:
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the browser."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _, *lines = head.decode("latin-1").replace("\r\n", " \r\n", 1).split(" ", 3)
            rest = lines[0] if lines else "\r\n\r\n"
            if method == "CONNECT":
                await self._tunnel(reader, writer, target)
            else:
                await self._forward(reader, writer, method, target, rest)
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the browser sees a broken connection, and says so
        finally:
            writer.close()

    async def _tunnel(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
        host, _, port = target.rpartition(":")
        upstream = await self._connected(writer, host.strip("[]"), int(port))
        if upstream is not None:
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            await self._relay(reader, writer, *upstream)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str, target: str, rest: str
    ) -> None:
        """Send a plain request on, in the form that servers expect, and end the connection after it."""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return
        upstream = await self._connected(writer, parts.hostname, parts.port or 80)
        if upstream is None:
            return
        hop = ("proxy-connection:", "connection:", "proxy-authorization:", "keep-alive:")
        kept = [line for line in rest.split("\r\n")[1:] if line.strip() and not line.lower().startswith(hop)]
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        lines = [f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]
        upstream[1].write("\r\n".join(lines).encode("latin-1"))
        await self._relay(reader, writer, *upstream)

    async def _connected(
        self, writer: asyncio.StreamWriter, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Connect to a host, if it may be; otherwise tell the browser that it may not."""
        anywhere = self._private or (self._inside and host.lower() == self._inside)
        try:
            found = await (self._any if anywhere else self._outside).resolve(host, port)
        except PrivateAddress:
            self.refused.append(host)
            writer.write(b"HTTP/1.1 403 Private Address\r\nContent-Length: 0\r\n\r\n")
            return None
        for one in found[:4]:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(one["host"], port)
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        return None

    async def _relay(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        from_server: asyncio.StreamReader,
        to_server: asyncio.StreamWriter,
    ) -> None:
        """Pass bytes on both ways until the server ends, or the browser does."""
        up = asyncio.create_task(self._pump(reader, to_server))
        down = asyncio.create_task(self._pump(from_server, writer))
        try:
            await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            if not down.done():  # the browser has sent all; the server may still answer
                await asyncio.wait({down})
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            to_server.close()

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while chunk := await source.read(_CHUNK_BYTES):
            self.traffic += len(chunk)
            if self.traffic > self._max_bytes:
                self.too_much = True
                for task in self._tasks:
                    task.cancel()
                return
            if self._spend is not None:
                await self._spend(len(chunk))
            to.write(chunk)
            await to.drain()
        with contextlib.suppress(OSError, RuntimeError):
            if to.can_write_eof():
                to.write_eof()
