"""One request and its answer, under limits on everything.

aiohttp makes the connection and reads the protocol. What is said here: which addresses may be connected to
(see `guard`), how long each phase may take, how much may come, and in which words to tell what went wrong.
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
from yarl import URL

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.settings import Settings
from unstale.mirror.source import Outcome

from .body import WIRE_SLACK_BYTES, BodyTruncated, ResponseBody
from .decode import BodyTooLarge, UndecodableBody, accepted, decoder
from .private_addresses import Lookup, PrivateAddress, Resolver, guarded_socket, is_public, look_up
from .urls import host_of, origin_of

__all__ = ["Failure", "Fetcher", "Progress", "silence_words"]

_PREPAID_BYTES = 1 << 16
_MAX_WARM_HOSTS = 256
"""Hosts whose connections are kept for the next poll; each takes a file descriptor."""
_KEEP_ALIVE_SECONDS = 15.0
"""Seconds for which they are kept."""
_MAX_ATTEMPTS = 5
_MAX_HEADERS = 200
_MAX_HEADER_BYTES = 16384


class Failure(Exception):  # noqa: N818
    """The poll ends here; the message says why, for people."""

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
    """How far a poll has come: what it has moved, and what to say if it goes no further."""

    phase: str = "start"
    traffic: int = 0
    received: int = 0
    """Bytes of the body so far."""
    length: int | None = None
    """Bytes of the body as announced."""
    fresh: bool = False
    """Whether a connection was made for it."""
    start: Callable[[], None] | None = None
    """To be called when the first request is about to be sent; see `Terms`."""
    since: float = inf
    """Since when (`time.monotonic`) the other side has been silence_words, if something is expected of it."""


_progress: ContextVar[Progress | None] = ContextVar("progress", default=None)


def _reached(phase: str) -> None:
    if (progress := _progress.get()) is not None:
        progress.phase = phase


class _Handshake(ssl.SSLObject):
    """Notes that the connection is there and TLS has begun."""

    def do_handshake(self) -> None:
        _reached("handshake")
        super().do_handshake()


class _Request(aiohttp.ClientRequest):
    """Notes that there is a connection, and an answer is being waited for."""

    def send(self, conn: Any) -> Coroutine[Any, Any, aiohttp.ClientResponse]:  # noqa: ANN401
        if (progress := _progress.get()) is not None:
            progress.phase, progress.since = "answer", monotonic()
            if (start := progress.start) is not None:
                progress.start = None
                start()
        return super().send(conn)


class _Resolver(Resolver):
    async def resolve(self, host: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Look up, and note what is being waited for."""
        _reached("name")
        return await super().resolve(host, *args, **kwargs)


def _socket(info: Any, public: Callable[[str], bool] | None) -> socket.socket:  # noqa: ANN401
    if (progress := _progress.get()) is not None:
        progress.phase, progress.fresh = "connection", True
    return guarded_socket(info, public)


@cache
def _context(ca_file: str | None, verify: bool) -> ssl.SSLContext:  # noqa: FBT001
    """Return what is trusted; reading all certificates of the system takes a while."""
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


class Fetcher:
    """Makes requests; its connections belong to the event loop in which the first was made."""

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
        """For what would keep the event loop too long: writing, and finding texts."""
        self._tls = _context(settings.http.ca_file, settings.http.verify)
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._warm: OrderedDict[str, float] = OrderedDict()
        self.overhead = 40 + sum(len(name) + len(value) + 4 for name, value in self._headers.items())
        """Bytes of a request, without its address and what is special to it."""

    def _session(self, inside: bool) -> aiohttp.ClientSession:  # noqa: FBT001
        if self._loop is None or not self._loop.is_running():  # there is one at a time
            for session in self._sessions.values():
                session.detach()  # its loop is gone, and its connections with it
            self._sessions, self._loop = {}, asyncio.get_running_loop()
            self._warm.clear()
        if inside not in self._sessions:
            public = None if inside else self._public
            connector = aiohttp.TCPConnector(
                limit=0,  # it is the mirror that limits
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
            )  # who waits for an answer is looked after by `Deadlines`, which is cheaper
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
            # aiohttp would ask once more after every broken connection, also on a new one: that is a second
            # request that no limit knows of. Kept connections that have gone stale are dealt with in `ask`.
            self._sessions[inside]._retry_connection = False  # noqa: SLF001
        return self._sessions[inside]

    def _keeps(self, origin: str) -> bool:
        """Tell whether to keep the connection; if many hosts are polled in turn, it would not serve again."""
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
        """Return the head of the answer; raise `Failure`. ``inside`` allows private addresses."""
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
                    # of a kept connection that the other side had closed meanwhile: nobody saw the request
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
        """Read the body into ``content``; raise `Failure`, and stop reading at once, if there is too much."""
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
        except Trouble:  # ours, not the other side's
            raise
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._failure(error, str(response.url), progress) from None
        finally:
            response.release()  # closes it, if there is more to come

    def _failure(self, error: Exception, url: str, progress: Progress) -> Failure:
        return failure_of(error, url, progress, self._http.connect_timeout)

    async def close(self) -> None:
        """Let go of connections and threads."""
        if self._loop is asyncio.get_running_loop():
            for session in self._sessions.values():
                await session.close()
        self._sessions, self._loop = {}, None
        for threads in (self._names, self.workers):
            threads.shutdown(wait=False, cancel_futures=True)


async def _more(
    response: aiohttp.ClientResponse, progress: Progress, spend: Callable[[int], Awaitable[None]], paid: int
) -> tuple[bytes, int]:
    """Read on, no further than what has been paid for; return what came, and what is left of that."""
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
    """Say for how long the other side has said nothing."""
    if progress.phase != "body":
        return f"no answer within {seconds:g} seconds"
    return f"nothing more came for {seconds:g} seconds, after {progress.received:,} bytes"


def failure_of(error: Exception, url: str, progress: Progress, connect: float) -> Failure:
    """Say in words what went wrong."""
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
    else:
        text = getattr(error, "strerror", None) or str(error)
    line = " ".join(str(text).split()) or type(error).__name__
    return "".join(letter for letter in line if letter.isprintable())[:200]
