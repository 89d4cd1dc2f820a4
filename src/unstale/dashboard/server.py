"""The server: uvicorn, with a time by which requests must have come, and an end that is quiet."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Server"]

_HEADERS_SECONDS = 15.0
"""In which the headers of a request must have come."""
_EXIT_CODE_INTERRUPTED = 130


class Server(uvicorn.Server):
    """Serves an application; a second interruption ends it at once."""

    def __init__(self, app: ASGIApp) -> None:
        logging.getLogger("uvicorn.error").addFilter(_worth_telling)
        super().__init__(
            uvicorn.Config(
                app,
                http=TimedProtocol,
                log_config=None,
                log_level="error",
                access_log=False,
                server_header=False,
                lifespan="on",
                limit_concurrency=1000,
                timeout_graceful_shutdown=3,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end, or end."""
        if self.should_exit and sig == signal.SIGINT:
            os._exit(_EXIT_CODE_INTERRUPTED)  # threads that are busy would be waited for
        super().handle_exit(sig, frame)


class TimedProtocol(H11Protocol):
    """A connection that is closed if it stays silent, or sends only some of a request.

    Who has sent a request, and will send no more, is answered nevertheless.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a request, or stop waiting."""
        super().data_received(data)
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
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete  # type: ignore[redundant-expr]  # at first

    def _wait(self) -> None:
        if not self._idle:
            self._stop_waiting()
        elif self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(_HEADERS_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if self._idle:
            self.transport.close()


def _worth_telling(record: logging.LogRecord) -> bool:
    """Leave out that slow clients were cut off in the end, and what is not to be mended in our code."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, EOFError):  # of a copy
        record.msg, record.args, record.exc_info = str(error), (), None
    return not isinstance(error, asyncio.CancelledError) and not str(record.msg).startswith("Cancel ")
