"""Processes that work for this one, and end with it."""

from __future__ import annotations

import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any

KILLED = "was killed, perhaps for want of memory; --jobs 1 takes the least"
"""What is said of a process that is gone (`BrokenProcessPool`)."""


@contextmanager
def workers(
    jobs: int,
    begin: Callable[..., None] | None = None,
    *arguments: Any,  # noqa: ANN401  (whatever begin takes)
) -> Iterator[ProcessPoolExecutor]:
    """Yield processes, each of which calls ``begin`` first; if anything goes wrong they end at once."""
    before = set(active_children())
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin, initargs=(begin, *arguments))
    try:
        yield pool
        pool.shutdown()
    except BaseException:  # interrupted, or the caller wants no more: do not wait for what runs
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - before:
            process.terminate()
        raise


def _begin(begin: Callable[..., None] | None, *arguments: Any) -> None:  # noqa: ANN401
    """Start a process that prints nothing and ends at once when interrupted."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
    if begin is not None:
        begin(*arguments)
