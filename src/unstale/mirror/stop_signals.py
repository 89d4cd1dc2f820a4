"""How signals end a worker, or ask for something else."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol


class Stoppable(Protocol):
    """What signals end: a worker, or a runner of several."""

    def stop(self) -> None:
        """End soon; polls that have begun are finished and recorded."""

    def give_up_polls(self) -> None:
        """Wait no longer for polls that have begun."""


_FINISH_SECONDS, _ANSWER_SECONDS = 1.0, 3.0
"""For polls that could be stopped, after an interruption; and for all others."""


@contextmanager
def stopped_by_signals(
    worker: Stoppable, stop_polls: Callable[[], None], on_hangup: Callable[[], None] | None = None
) -> Iterator[None]:
    """Let SIGINT and SIGTERM end a worker cleanly; a second one has its usual effect, and ends it at once.

    Polls that can be stopped and are not over soon are stopped (``stop_polls``); others are waited for a
    little longer. At a SIGHUP ``on_hangup`` is called, if it is given.
    """
    handled: list[signal.Signals] = []
    running = asyncio.get_running_loop()

    def let_go() -> None:
        while handled:
            running.remove_signal_handler(handled.pop())

    def stop() -> None:
        worker.stop()
        running.call_later(_FINISH_SECONDS, stop_polls)
        running.call_later(_ANSWER_SECONDS, worker.give_up_polls)
        let_go()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(NotImplementedError):  # Windows
                running.add_signal_handler(number, stop)
                handled.append(number)
        if on_hangup is not None and hasattr(signal, "SIGHUP"):
            with suppress(NotImplementedError):
                running.add_signal_handler(signal.SIGHUP, on_hangup)
                handled.append(signal.SIGHUP)
    try:
        yield
    finally:
        let_go()
