"""The server: uvicorn, with limits for connections that send no request, and an end that is quiet."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEADERS_SECONDS = 15.0
"""In which the headers of a request must have come."""
_STALLED_SECONDS = 30.0
"""In which a client must have taken some of an answer that it does not read as fast as it is sent."""
_MOST_CONNECTIONS, _FEWEST_CONNECTIONS = 1000, 256
"""More than are open at a time; and what is attempted however few files a process may open. Requests that are
answered at the same time are far fewer (`guard`), so that there always are some to close."""
_EXIT_CODE_INTERRUPTED = 130


class Server(uvicorn.Server):
    """Serves an application; a second interruption ends it at once."""

    def __init__(self, app: ASGIApp) -> None:
        logging.getLogger("uvicorn.error").addFilter(_worth_telling)
        super().__init__(
            _Config(
                app,
                http=TimedProtocol,
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="on",
                timeout_graceful_shutdown=3,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(_EXIT_CODE_INTERRUPTED)  # threads that are busy would be waited for
        super().handle_exit(sig, frame)


class _Config(uvicorn.Config):
    """The configuration of a server, and which of its connections have no request to be answered."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:  # noqa: ANN401  (those of uvicorn)
        super().__init__(app, **options)
        self.silent: dict[TimedProtocol, None] = {}
        """The longest silent first."""
        self.most_connections = _most_connections()

    def close_longest_silent(self) -> None:
        """Make room for another connection."""
        if (silent := next(iter(self.silent), None)) is not None:
            silent.give_up()


def _most_connections() -> int:
    """Return how many connections may be open, so that other files can still be opened."""
    try:
        import resource
    except ImportError:  # Windows
        return _MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    return max(_FEWEST_CONNECTIONS, min(_MOST_CONNECTIONS, files * 3 // 4))


class TimedProtocol(H11Protocol):
    """A connection that is closed if it stays silent, or sends only some of a request.

    If there are too many connections, those that have been silent for longest are closed at once: who
    connects to ask, asks soon. Who has sent a request, and will send no more, is answered nevertheless. Who
    asks and does not read the answer is cut off.
    """

    _waiting: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self._limits.most_connections:
            self.loop.call_later(0.0, self._limits.close_longest_silent)  # after what has come is read

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, or stop waiting."""
        super().data_received(data)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open if there is something to answer."""
        if self._idle or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self._end_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Wait for the client to read."""
        super().pause_writing()
        self._end_stall()
        self._stalled = self.loop.call_later(_STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on: the client has read."""
        self._end_stall()
        super().resume_writing()

    def _end_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # at first

    @property
    def _limits(self) -> _Config:
        assert isinstance(self.config, _Config)  # noqa: S101
        return self.config

    def _wait(self) -> None:
        if not self._idle:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(_HEADERS_SECONDS, self.give_up)
            self._limits.silent[self] = None

    def _stop_waiting(self) -> None:
        self._limits.silent.pop(self, None)
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def give_up(self) -> None:
        """Close the connection, unless there is something to answer."""
        self._stop_waiting()
        if self._idle:
            self.transport.close()


def _worth_telling(record: logging.LogRecord) -> bool:
    """Leave out that slow clients were cut off in the end, and what is not to be mended in our code."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, EOFError):  # of a copy
        record.msg, record.args, record.exc_info = str(error), (), None
    return not isinstance(error, asyncio.CancelledError) and not str(record.msg).startswith("Cancel ")
