"""A server on loopback that does what servers must not do: each path is a fault of its own."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache

import brotli
import zstandard


@dataclass
class Request:
    """What a client asked for."""

    target: str
    headers: dict[str, str]
    connection: int
    """Number of the connection it came on."""


Handler = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole answer; names of headers have _ for -."""
    said = {"Content-Length": str(len(body)), **{name.replace("_", "-"): v for name, v in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in said.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1") + body


@dataclass
class Hostile:
    """The server; ``pages`` are whole answers, or handlers that write what they like."""

    pages: dict[str, bytes | Handler] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    port: int = 0
    connections: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._serve, self.host, self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str, host: str | None = None) -> str:
        return f"http{'s' if self.tls else ''}://{host or self.host}:{self.port}{path}"

    def asked(self, path: str) -> list[Request]:
        return [request for request in self.requests if request.target == path]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._tasks.add(task)
        self.connections += 1
        number = self.connections
        try:
            while (head := await reader.readuntil(b"\r\n\r\n")) and not writer.is_closing():
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = dict(line.split(": ", 1) for line in lines if line)
                request = Request(first.split(" ")[1], headers, number)
                self.requests.append(request)
                page = self.pages.get(request.target, answer(b"no such page", "404 Not Found"))
                if isinstance(page, bytes):
                    writer.write(page)
                    await writer.drain()
                else:
                    await page(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError, ssl.SSLError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(Exception, asyncio.CancelledError):
                await writer.wait_closed()


def then_close(data: bytes) -> Handler:
    """Write that, and close the connection."""

    async def handler(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        writer.close()

    return handler


def then_stall(data: bytes) -> Handler:
    """Write that, and nothing more."""

    async def handler(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(60)

    return handler


def repeated(first: bytes, more: bytes, pause: float = 0.0) -> Handler:
    """Write the first, and the other again and again without end."""

    async def handler(_: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while not writer.is_closing():
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause)

    return handler


async def reset(_: Request, writer: asyncio.StreamWriter) -> None:
    """Send RST instead of an answer."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # nothing is waited for
    writer.transport.abort()


def reset_after(data: bytes) -> Handler:
    async def handler(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        await asyncio.sleep(0.05)
        await reset(request, writer)

    return handler


def gzip_bomb(size: int) -> bytes:
    """A gzip of so many zeros, made without holding them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(1 << 20)
    return b"".join([packer.compress(block) for _ in range(size >> 20)]) + packer.flush()


def zstd_bomb(blocks: int) -> bytes:
    """A zstd frame of blocks of four bytes, each of which stands for 128 KiB."""
    rle = (131072 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + rle * blocks + (0 << 3 | 1).to_bytes(3, "little")


OK = "HTTP/1.1 200 OK\r\n"


@cache
def faults() -> dict[str, tuple[bytes | Handler, str, str]]:
    """Path of each fault, what it does, the outcome of a poll, and a part of the words for it."""
    page = b"<html><title>fine</title><p>some text</p></html>"
    bomb, chunked = gzip_bomb(32 << 20), f"{OK}Transfer-Encoding: chunked\r\n\r\n".encode()
    nothing = gzip.compress(gzip.compress(b"") * 200_000)
    br_bomb = brotli.compress(bytes(32 << 20), quality=5)
    plain = f"{OK}Content-Type: text/html\r\n"
    return {
        # connections
        "/reset": (reset, "failed", "the connection"),
        "/reset-body": (reset_after(answer(page, Content_Length="1000")), "failed", "broke"),
        "/closed": (then_close(b""), "failed", "closed before an answer"),
        "/closed-in-head": (then_close(b"HTTP/1.1 200 OK\r\nContent-"), "failed", ""),
        "/stall": (then_stall(b""), "failed", "no answer within 0.4 seconds"),
        "/stall-in-head": (then_stall(b"HTTP/1.1 200 OK\r\nContent-"), "failed", "no answer within 0.4 sec"),
        "/stall-in-body": (then_stall(answer(b"abc", Content_Length="10")), "failed", "nothing more came"),
        "/drip": (repeated(answer(b"", Content_Length="100000"), b"x", 0.1), "failed", "not done within"),
        "/drip-head": (repeated(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", 0.1), "failed", "answer"),
        # not HTTP
        "/garbage": (then_close(b"\x00\xff\x13garbage\r\n\r\n"), "failed", "not HTTP"),
        "/http-0.9": (then_close(b"<html>no head at all</html>"), "failed", "not HTTP"),
        "/no-status": (then_close(b"HTTP/1.1\r\n\r\n"), "failed", "not HTTP"),
        "/odd-status": (then_close(b"HTTP/1.1 9x9 What\r\n\r\n"), "failed", "not HTTP"),
        "/status-700": (answer(page, "700 Odd"), "failed", "700 Odd"),
        "/status-99": (then_close(answer(page, "099 Odd")), "failed", ""),
        "/long-status": (then_close(b"HTTP/1.1 200 " + b"x" * 100_000 + b"\r\n\r\n"), "failed", "not HTTP"),
        "/smtp": (then_stall(b"220 mail.example ESMTP ready\r\n"), "failed", ""),
        "/endless-head": (repeated(b"HTTP/1.1 200 OK\r\n", b"X-More: and more\r\n"), "failed", "not HTTP"),
        "/endless-header": (repeated(b"HTTP/1.1 200 OK\r\nX-More: ", b"x" * 1000), "failed", "not HTTP"),
        "/bad-header": (then_close(b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n"), "failed", "not HTTP"),
        "/nul-header": (then_close(b"HTTP/1.1 200 OK\r\nX-Nul: a\0b\r\n\r\nbody"), "failed", "not HTTP"),
        "/switch": (then_stall(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
                    "failed", "101"),
        # lengths
        "/length-too-long": (then_close(answer(page, Content_Length="9999")), "failed", "broke off"),
        "/length-too-short": (then_close(answer(page, Content_Length="5")), "failed", "not HTTP"),
        "/length-negative": (then_close(answer(page, Content_Length="-5")), "failed", "not HTTP"),
        "/length-text": (then_close(answer(page, Content_Length="many")), "failed", "not HTTP"),
        "/length-huge": (then_close(answer(page, Content_Length="99999999999")), "failed", "larger than"),
        "/length-twice": (then_close(f"{plain}Content-Length: 5\r\nContent-Length: 6\r\n\r\n123456".encode()),
                          "failed", "not HTTP"),
        "/chunk-cut": (then_close(chunked + b"5\r\nabcde\r\n9\r\nabc"), "failed", "broke off"),
        "/chunk-bad": (then_close(chunked + b"zz\r\nabcde\r\n"), "failed", "chunk size"),
        "/chunk-huge": (then_close(chunked + b"fffffffffffffffffff\r\nabcde\r\n"), "failed", "not HTTP"),
        "/chunk-and-length": (then_close(f"{plain}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
                                         "5\r\nabcde\r\n0\r\n\r\n".encode()), "failed", "not HTTP"),
        "/endless": (repeated(f"{plain}\r\n".encode(), b"x" * 65536), "failed", "larger than 3,000,000"),
        "/endless-chunks": (repeated(chunked, b"4000\r\n" + b"x" * 16384 + b"\r\n"), "failed", "larger"),
        # codings
        "/gzip-bomb": (answer(bomb, Content_Encoding="gzip"), "failed", "after decompression"),
        "/br-bomb": (answer(br_bomb, Content_Encoding="br"), "failed", "bomb"),
        "/zstd-bomb": (answer(zstd_bomb(512), Content_Encoding="zstd"), "failed", "after decompression"),
        "/nested-bomb": (answer(gzip.compress(bomb), Content_Encoding="gzip, gzip"), "failed", "bomb"),
        "/nested-nothing": (answer(nothing, Content_Encoding="gzip, gzip"), "failed", "bomb"),
        "/gzip-large": (answer(gzip.compress(bytes(range(256)) * 20_000), Content_Encoding="gzip"),
                        "failed", "larger than"),
        "/gzip-cut": (answer(gzip.compress(page * 100)[:-20], Content_Encoding="gzip"), "failed", "middle"),
        "/gzip-not": (answer(page, Content_Encoding="gzip"), "failed", "not gzip"),
        "/br-not": (answer(page, Content_Encoding="br"), "failed", "not br"),
        "/br-cut": (answer(brotli.compress(page * 9)[:-3], Content_Encoding="br"), "failed", "middle"),
        "/zstd-not": (answer(page, Content_Encoding="zstd"), "failed", "not zstd"),
        "/zstd-cut": (answer(zstandard.compress(page * 9)[:-3], Content_Encoding="zstd"), "failed", "middle"),
        "/deflate-not": (answer(page, Content_Encoding="deflate"), "failed", "not deflate"),
        "/coding-odd": (answer(page, Content_Encoding="sdch"), "failed", "'sdch'"),
        "/coding-many": (answer(page, Content_Encoding="gzip, gzip, gzip, gzip"), "failed", "4 times"),
        # redirects
        "/loop": (answer(b"", "302 Found", Location="/loop-2"), "failed", "loop"),
        "/loop-2": (answer(b"", "302 Found", Location="/loop"), "failed", "loop"),
        "/self": (answer(b"", "301 Moved", Location="/self"), "failed", "loop"),
        "/nowhere": (answer(b"", "302 Found"), "failed", "not where to"),
        "/bad-place": (answer(b"", "302 Found", Location="http://[::1"), "failed", "cannot be followed"),
        "/to-ftp": (answer(b"", "302 Found", Location="ftp://example.org/"), "failed", "cannot be followed"),
        "/to-file": (answer(b"", "302 Found", Location="file:///etc/passwd"), "failed", "cannot be followed"),
        "/to-number": (answer(b"", "302 Found", Location="http://2130706433/"), "failed", "cannot be follow"),
        "/to-user": (answer(b"", "302 Found", Location="http://u:p@a.example/"), "failed", "cannot be"),
        "/to-endless": (answer(b"", "302 Found", Location="/" + "a" * 9000), "failed", "too long"),
        # statuses
        "/500": (answer(b"oops", "500 Internal Server Error"), "failed", "500 Internal Server Error"),
        "/503": (answer(b"", "503 Unavailable", Retry_After="120"), "failed", "left alone for 120 seconds"),
        "/429": (answer(b"", "429 Too Many", Retry_After="Wed, 01 Jan 2020 00:01:00 GMT",
                        Date="Wed, 01 Jan 2020 00:00:00 GMT"), "failed", "left alone for 60 seconds"),
        "/401": (answer(b"", "401 Unauthorized"), "failed", "401 Unauthorized"),
        "/403": (answer(b"", "403 Forbidden"), "failed", "403 Forbidden"),
        "/418": (answer(b"", "418 I'm a teapot"), "failed", "418 I'm a teapot"),
        "/204": (answer(b"", "204 No Content"), "failed", "204"),
        "/206": (answer(b"part", "206 Partial Content"), "failed", "206"),
        "/304": (then_close(answer(b"", "304 Not Modified")), "failed", "not the question"),
        "/404": (answer(b"", "404 Not Found"), "gone", "404 Not Found"),
        "/410": (answer(b"", "410 Gone"), "gone", "410 Gone"),
        # odd, and yet content
        "/no-length": (then_close(f"{plain}\r\n".encode() + page), "changed", "200"),
        "/wrong-charset": (answer(page + b"\xff", Content_Type="text/html; charset=no-such"), "changed", ""),
        "/odd-type": (answer(page, Content_Type="text/html\x7f; <script>"), "changed", ""),
        "/etag-odd": (answer(page, ETag='W/"\xe4\xf6'), "changed", ""),
        "/date-odd": (answer(page, Last_Modified="Mon, 99 Foo 99999 99:99:99"), "changed", ""),
        "/set-cookie": (answer(page, Set_Cookie="\x01=\x02; path=; expires=never"), "changed", ""),
        "/nul-body": (answer(b"\0" * 1000), "changed", ""),
        "/empty": (answer(b""), "changed", ""),
        "/empty-gzip": (answer(b"", Content_Encoding="gzip"), "changed", ""),
        "/http-1.0": (then_close(b"HTTP/1.0 200 OK\r\n\r\n" + page), "changed", ""),
        "/continue": (b"HTTP/1.1 100 Continue\r\n\r\n" + answer(page), "changed", ""),
        "/reason-odd": (answer(page, "200 \xe4\x01\x02"), "changed", "200"),
    }  # fmt: skip
