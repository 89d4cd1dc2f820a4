"""One request and its response, with a limit on everything.

aiohttp makes the connection and reads the protocol. This module says which addresses it may connect to (see
`private_addresses`), how long each phase may take, and how many bytes it may read; and it turns each error
into words.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from math import inf
from time import monotonic
from typing import Any

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.connector import Connection
from yarl import URL

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.settings import Settings
from unstale.mirror.source import Outcome

from .body import WIRE_SLACK_BYTES, BodyTruncated, ResponseBody
from .decode import BodyTooLarge, UndecodableBody, accepted, decoder
from .private_addresses import Lookup, PrivateAddress, Resolver, guarded_socket, is_public, look_up
from .urls import host_of, origin_of

_PREPAID_BYTES = 1 << 16
_MAX_WARM_HOSTS = 256
"""Hosts whose connections stay open for the next poll; each takes a file descriptor."""
_KEEP_ALIVE_SECONDS = 15.0
"""How long an idle connection stays open."""
_MAX_ATTEMPTS = 5
_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 16384


class Failure(Exception):  # noqa: N818
    """The poll ends here; the message tells people why."""

    def __init__(
        self,
        detail: str,
        outcome: Outcome = "failed",
        *,
        wait: float | None = None,
        spacing: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.outcome: Outcome = outcome
        self.wait, self.spacing = wait, spacing


@dataclass(slots=True)
class Progress:
    """How far a poll has come: the bytes it has moved, and the phase it is in."""

    phase: str = "start"
    traffic: int = 0
    received: int = 0
    """Bytes of the body that have arrived."""
    length: int | None = None
    """Bytes of the body that Content-Length announces."""
    fresh: bool = False
    """Whether the request went over a new connection."""
    start: Callable[[], None] | None = None
    """Called just before the first request is sent; see `Terms`."""
    since: float = inf
    """Since when (`time.monotonic`) the other side is silent; infinite if the poll expects nothing of it."""


_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


def _reached(phase: str) -> None:
    if (progress := _progress.get()) is not None:
        progress.phase = phase


class _Handshake(ssl.SSLObject):
    """Notes in `Progress` that there is a connection, and that the TLS handshake begins."""

    def do_handshake(self) -> None:
        _reached("handshake")
        super().do_handshake()


class _Request(aiohttp.ClientRequest):
    """Notes in `Progress` that the request is sent, and that the poll waits for the response."""

    def send(self, conn: Connection) -> Coroutine[Any, Any, aiohttp.ClientResponse]:
        if (progress := _progress.get()) is not None:
            progress.phase, progress.since = "answer", monotonic()
            if (start := progress.start) is not None:
                progress.start = None
                start()
        return super().send(conn)


class _Resolver(Resolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Look the name up, and note in `Progress` that the poll waits for that."""
        _reached("name")
        return await super().resolve(host, port, family)


def _socket(info: tuple[Any, ...], public: Callable[[str], bool] | None) -> socket.socket:
    if (progress := _progress.get()) is not None:
        progress.phase, progress.fresh = "connection", True
    return guarded_socket(info, public)


@cache
def _context(ca_file: str | None, verify: bool) -> ssl.SSLContext:  # noqa: FBT001
    """Return the TLS context; cached, since reading all certificates of the system is slow."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise InvalidInput(
            f"ca_file must be a file of certificates; {ca_file!r} cannot be used: {error}"
        ) from None
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.sslobject_class = _Handshake
    return context


class PageFetcher:
    """Makes requests; its connections belong to the event loop of the first request.

    Parameters
    ----------
    settings
        The settings of the mirror.
    headers
        Headers of every request.
    lookup
        Looks the addresses of a name up.
    public
        Tells whether an address is public.
    """

    def __init__(
        self,
        settings: Settings,
        headers: Mapping[str, str],
        *,
        lookup: Lookup = look_up,
        public: Callable[[str], bool] = is_public,
    ) -> None:
        self._http, self._lookup, self._public = settings.http, lookup, public
        self._headers = {**headers, "Accept-Encoding": accepted()}
        self._names = ThreadPoolExecutor(min(max(settings.concurrency, 4), 64), "unstale-names")
        self.workers = ThreadPoolExecutor(4, "unstale-pages")
        """Threads for work that would block the event loop: writing files, and finding the main text."""
        self._tls = _context(settings.http.ca_file, settings.http.verify)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._warm: OrderedDict[str, float] = OrderedDict()
        self.overhead = 40 + sum(len(name) + len(value) + 4 for name, value in self._headers.items())
        """Bytes of a request without its address and its own headers."""

    def _session(self, inside: bool) -> aiohttp.ClientSession:  # noqa: FBT001
        if self._loop is None or not self._loop.is_running():  # one event loop at a time
            for session in self._sessions.values():
                session.detach()  # its event loop has ended, and so have its connections
            self._sessions, self._loop = {}, asyncio.get_running_loop()
            self._warm.clear()
        if inside not in self._sessions:
            public = None if inside else self._public
            connector = aiohttp.TCPConnector(
                limit=0,  # the mirror limits, not aiohttp
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
                ttl_dns_cache=60,
                resolver=_Resolver(self._lookup, self._names, public),
                socket_factory=partial(_socket, public=public),
                ssl=self._tls,
            )
            timeout = aiohttp.ClientTimeout(
                total=None,
                connect=self._http.connect_timeout,
                sock_connect=self._http.connect_timeout,
            )  # `Deadlines` limits the time of the response, which is cheaper
            self._sessions[inside] = aiohttp.ClientSession(
                connector=connector,
                headers=self._headers,
                request_class=_Request,
                timeout=timeout,
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
                max_headers=_MAX_HEADERS,
            )
            # aiohttp would send the request again after every broken connection, even a new one. No limit
            # would count that second request. `ask` itself retries on kept connections that were closed.
            self._sessions[inside]._retry_connection = False  # noqa: SLF001
        return self._sessions[inside]

    def _keeps(self, origin: str) -> bool:
        """Tell whether to keep the connection; with too many hosts it would be closed before its next use."""
        now, warm = monotonic(), self._warm
        if origin not in warm:
            while warm and next(iter(warm.values())) < now - _KEEP_ALIVE_SECONDS:
                warm.popitem(last=False)
            if len(warm) >= _MAX_WARM_HOSTS:
                return False
        warm[origin] = now
        warm.move_to_end(origin)
        return True

    async def ask(
        self, url: str, headers: dict[str, str], progress: Progress, *, inside: bool
    ) -> aiohttp.ClientResponse:
        """Return the head of the response; raise `Failure`. ``inside`` allows private addresses.

        Parameters
        ----------
        url
            The canonical address.
        headers
            Headers of this request; may be changed.
        progress
            Takes the phase and the traffic of the poll.
        inside
            Whether the request may go to a private address.
        """
        session = self._session(inside)
        if not self._keeps(origin_of(url)):
            headers["Connection"] = "close"
        address = URL(url, encoded=True)
        token = _progress.set(progress)
        try:
            for attempt in range(_MAX_ATTEMPTS):
                progress.phase, progress.fresh, progress.since = "answer", False, inf
                progress.traffic += self.overhead + len(url)
                try:
                    response = await session.get(address, headers=headers, allow_redirects=False)
                except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                    # The other side had closed a kept connection: it did not see the request.
                    if progress.fresh or attempt == _MAX_ATTEMPTS - 1:
                        raise self._failure(error, url, progress) from None
                else:
                    progress.phase, progress.since = "body", inf
                    headers_came = response.raw_headers
                    progress.traffic += 20 + 4 * len(headers_came)
                    progress.traffic += sum(map(len, chain.from_iterable(headers_came)))
                    return response
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failure(error, url, progress) from None
        finally:
            _progress.reset(token)
        raise AssertionError  # pragma: no cover

    async def read(
        self,
        response: aiohttp.ClientResponse,
        content: ResponseBody,
        progress: Progress,
        spend: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        """Read the body of a response; raise `Failure`, and stop reading at once, if it is too large.

        Parameters
        ----------
        response
            What `ask` returned.
        content
            Takes the decoded body.
        progress
            Takes the phase and the traffic of the poll.
        spend
            Awaited before more bytes are read, if there is a budget of bytes.
        """
        length = response.content_length
        if length is not None and length > content.max_size + WIRE_SLACK_BYTES and not content.cut:
            response.close()
            raise Failure(f"larger than {content.max_size:,} bytes: Content-Length is {length:,}")
        progress.received, progress.length = 0, length
        paid, stream = 0, response.content
        try:
            encoding = response.headers.get("Content-Encoding")
            decoding = decoder(encoding, content.add, content.check) if encoding else None
            sink = content.add if decoding is None else decoding.feed
            while not stream.at_eof():
                progress.since = monotonic()
                if spend is None:
                    data = await stream.readany()
                else:
                    data, paid = await _more(response, progress, spend, paid)
                progress.since = inf
                progress.received += len(data)
                progress.traffic += len(data)
                content.came(len(data))
                sink(data)
                if content.full:
                    await asyncio.get_running_loop().run_in_executor(self.workers, content.spill)
            if decoding is not None:
                decoding.end()
        except BodyTruncated:
            response.close()
        except (UndecodableBody, BodyTooLarge) as error:
            raise Failure(str(error)) from None
        except Trouble:  # of this machine, not of the other side
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failure(error, str(response.url), progress) from None
        finally:
            response.release()  # closes the connection if there is more to read

    def _failure(self, error: Exception, url: str, progress: Progress) -> Failure:
        return failure_of(error, url, progress, self._http.connect_timeout)

    async def close(self) -> None:
        """Close all connections, and end the threads."""
        if self._loop is asyncio.get_running_loop():
            for session in self._sessions.values():
                await session.close()
        self._sessions, self._loop = {}, None
        for threads in (self._names, self.workers):
            threads.shutdown(wait=False, cancel_futures=True)


async def _more(
    response: aiohttp.ClientResponse, progress: Progress, spend: Callable[[int], Awaitable[None]], paid: int
) -> tuple[bytes, int]:
    """Read bytes that the budget has paid for; return them, and how many paid bytes are left."""
    if paid == 0:
        length = response.content_length
        paid = (
            _PREPAID_BYTES // 4 if length is None else min(_PREPAID_BYTES, max(length - progress.received, 1))
        )
        progress.phase, progress.since = "budget", inf
        await spend(paid)
        progress.phase, progress.since = "body", monotonic()
    data = await response.content.read(paid)
    return data, paid - len(data)


def silence_words(progress: Progress, seconds: float) -> str:
    """Return a message: for how long the other side was silent."""
    if progress.phase != "body":
        return f"no answer within {seconds:g} seconds"
    return f"nothing more came for {seconds:g} seconds, after {progress.received:,} bytes"


def failure_of(error: Exception, url: str, progress: Progress, connect: float) -> Failure:
    """Return the failure that an error of aiohttp or of the system means.

    Parameters
    ----------
    error
        What aiohttp raised.
    url
        The address of the request.
    progress
        How far the poll had come.
    connect
        Seconds that a connection may take.
    """
    host = host_of(url)
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if isinstance(inner, PrivateAddress):
        return Failure(f"leads to a private address: {inner}", "refused")
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        what = _WORDS_BY_PHASE.get(progress.phase, "no connection to {}").format(host)
        return Failure(f"{what} within {connect:g} seconds")
    if isinstance(error, aiohttp.ClientPayloadError):
        of_all = "" if progress.length is None else f" of {progress.length:,}"
        return Failure(f"the body broke off after {progress.received:,} bytes{of_all}")
    words = next(
        (words for kind, words in _WORDS_BY_ERROR if isinstance(error, kind)),
        "the answer cannot be read: {1}",
    )
    return Failure(words.format(host, _reason(inner)))


_WORDS_BY_ERROR = (
    (aiohttp.ClientConnectorCertificateError, "the certificate of {0} is not to be trusted: {1}"),
    (aiohttp.ClientConnectorDNSError, "the name {0} cannot be looked up: {1}"),
    (aiohttp.ClientSSLError, "no TLS connection to {0}: {1}"),
    (aiohttp.ClientConnectorError, "no connection to {0}: {1}"),
    (aiohttp.ServerDisconnectedError, "the connection was closed before an answer came"),
    (aiohttp.ClientResponseError, "the answer is not HTTP: {1}"),
    (OSError, "the connection broke: {1}"),
)
_WORDS_BY_PHASE = {
    "name": "the name {} was not looked up",
    "connection": "no connection to {}",
    "handshake": "no TLS handshake with {}",
}


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientResponseError):
        text: object = error.message
    elif isinstance(error, aiohttp.ClientConnectorCertificateError):
        text = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
    elif isinstance(error, ConnectionRefusedError):
        text = "nobody listens there, or it is refused"
    else:
        text = getattr(error, "strerror", None) or str(error)
    line = " ".join(str(text).split()) or type(error).__name__
    return "".join(letter for letter in line if letter.isprintable())[:200]
