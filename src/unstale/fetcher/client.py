"""The two clients: they send what `FetcherProtocol` says, and nothing else differs between them."""

from __future__ import annotations

import http.client
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from unstale.errors import Trouble

from .messages import AddAnswer, FetcherProtocol, FetchLease, FetchResult, ReportAnswer, RequestToMirror

if TYPE_CHECKING:
    import aiohttp

_TIMEOUT_SECONDS = 60.0


class Fetcher:
    """Takes polls from a mirror that is served, and reports what they saw; waits for each answer.

    Parameters
    ----------
    server
        the address of ``unstale serve``, such as ``http://127.0.0.1:8321``
    name
        of this fetcher: letters, digits, dots, hyphens; each fetcher needs another
    token
        one that is for ``lease``, if the server asks for a token
    timeout
        seconds in which it must answer

    A lost connection, a busy server and the like raise `unstale.Trouble`: the same call can be made again,
    and nothing is counted twice. What the server refuses raises `unstale.InvalidInput`.
    """

    def __init__(
        self, server: str, name: str, *, token: str | None = None, timeout: float = _TIMEOUT_SECONDS
    ) -> None:
        self._protocol, self._timeout = FetcherProtocol(server, name, token), timeout
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        """Use it, and close it in the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def lease(
        self,
        count: int = 100,
        *,
        seconds: float = 60.0,
        groups: Sequence[str] | None = None,
        each: int | None = None,
    ) -> list[FetchLease]:
        """Take polls that are due; there may be fewer, or none.

        Parameters
        ----------
        count
            how many, at most
        seconds
            for how long they are this fetcher's own
        groups
            of these groups only
        each
            so many of each group, at most
        """
        return self._protocol.leases(self._send(self._protocol.lease(count, seconds, groups, each)))

    def report(self, results: Sequence[FetchResult]) -> ReportAnswer:
        """Report what polls saw; large content is handed over first."""
        done = ReportAnswer()
        for request in self._protocol.reports(results):
            done += self._protocol.reported(request, self._send(request))
        return done

    def add(self, keys: Sequence[str]) -> AddAnswer:
        """Add elements (with a token that is for ``edit``); return how many are new, and what is refused."""
        return self._protocol.added(self._send(self._protocol.add(keys)))

    def _send(self, request: RequestToMirror) -> dict[str, Any]:
        headers = {**self._protocol.headers, "Content-Type": request.content_type}
        may_be_closed = self._connection is not None  # a server closes what is idle
        while True:
            try:
                answer = self._exchange(request, headers)
            except (http.client.HTTPException, OSError) as error:
                self.close()
                if may_be_closed and not isinstance(error, TimeoutError):
                    may_be_closed = False
                    continue
                why = str(error) or type(error).__name__
                raise Trouble(f"{self._protocol.server} cannot be asked: {why}") from error
            return self._protocol.read(*answer)

    def _exchange(self, request: RequestToMirror, headers: dict[str, str]) -> tuple[int, bytes]:
        if self._connection is None:
            address = urlsplit(self._protocol.server)
            secure = address.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(address.hostname or "", address.port, timeout=self._timeout)
        path = urlsplit(self._protocol.server).path + request.path
        self._connection.request(request.method, path, request.body, headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()


class AsyncFetcher:
    """The same as `Fetcher`, for an event loop.

    Parameters
    ----------
    server, name, token, timeout
        as for `Fetcher`
    """

    def __init__(
        self, server: str, name: str, *, token: str | None = None, timeout: float = _TIMEOUT_SECONDS
    ) -> None:
        self._protocol, self._timeout = FetcherProtocol(server, name, token), timeout
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Use it, and close it in the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; the next call opens others."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def lease(
        self,
        count: int = 100,
        *,
        seconds: float = 60.0,
        groups: Sequence[str] | None = None,
        each: int | None = None,
    ) -> list[FetchLease]:
        """Take polls that are due; there may be fewer, or none.

        Parameters
        ----------
        count, seconds, groups, each
            as for `Fetcher.lease`
        """
        return self._protocol.leases(await self._send(self._protocol.lease(count, seconds, groups, each)))

    async def report(self, results: Sequence[FetchResult]) -> ReportAnswer:
        """Report what polls saw; large content is handed over first."""
        done = ReportAnswer()
        for request in self._protocol.reports(results):
            done += self._protocol.reported(request, await self._send(request))
        return done

    async def add(self, keys: Sequence[str]) -> AddAnswer:
        """Add elements (with a token that is for ``edit``); return how many are new, and what is refused."""
        return self._protocol.added(await self._send(self._protocol.add(keys)))

    async def _send(self, request: RequestToMirror) -> dict[str, Any]:
        import aiohttp

        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self._timeout)
            self._session = aiohttp.ClientSession(headers=self._protocol.headers, timeout=timeout)
        address = self._protocol.server + request.path
        headers = {"Content-Type": request.content_type}
        try:
            async with self._session.request(
                request.method, address, data=io.BytesIO(request.body or b""), headers=headers
            ) as answer:
                body = await answer.read()
        except (aiohttp.ClientError, OSError) as error:
            raise Trouble(f"{self._protocol.server} cannot be asked: {error}") from error
        return self._protocol.read(answer.status, body)
