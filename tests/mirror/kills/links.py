"""Connections that can be cut, be slow, fall silent or answer errors: each goes through a link of its own."""

import asyncio
import threading
from contextlib import suppress

SLOW_SECONDS = 0.25
"""By which a slow link delays each piece."""


class Link:
    """A port that passes on to another one; ``state``: open, cut, silent, slow, or errors (of HTTP)."""

    def __init__(self, target):
        self.target, self.state = target, "open"
        self._connections = set()
        self._audible = asyncio.Event()
        self._audible.set()

    def become(self, state):
        """Change its state; to be called in its loop."""
        self.state = state
        self._audible.clear() if state == "silent" else self._audible.set()
        if state in {"cut", "errors"}:
            for transport in list(self._connections):
                transport.abort()

    async def serve(self, reader, writer):
        """Pass on what comes in over a connection, and what comes back."""
        self._connections.add(writer.transport)
        there = None
        try:
            if self.state == "cut":
                writer.transport.abort()
                return
            if self.state == "errors":
                await reader.read(1 << 16)
                writer.write(
                    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                await writer.drain()
                return
            await self._audible.wait()
            back, there = await asyncio.open_connection(*self.target)
            self._connections.add(there.transport)
            await asyncio.gather(self._pass(reader, there), self._pass(back, writer))
        except OSError:
            pass
        finally:
            for one in (writer, there):
                if one is not None:
                    self._connections.discard(one.transport)
                    one.transport.abort()

    async def _pass(self, reader, writer):
        while data := await reader.read(1 << 16):
            if self.state == "slow":
                await asyncio.sleep(SLOW_SECONDS)
            await self._audible.wait()
            writer.write(data)
            await writer.drain()
        with suppress(OSError, RuntimeError):
            writer.write_eof()


class Links:
    """All links of a test, in a thread."""

    def __enter__(self):
        self._open = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        return self

    def __exit__(self, *_):
        async def end():
            for server, link in self._open:
                server.close()
                link.become("cut")
            if tasks := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.wait(tasks, timeout=30.0)
            await asyncio.sleep(0.1)  # connections that were cut are closed

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(60.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def open(self, host, port, target):
        """Return a link from an address of this machine to another."""

        async def begin():
            link = Link(target)
            self._open.append((await asyncio.start_server(link.serve, host, port), link))
            return link

        return asyncio.run_coroutine_threadsafe(begin(), self._loop).result(60.0)

    def become(self, link, state):
        """Change the state of a link."""
        self._loop.call_soon_threadsafe(link.become, state)
