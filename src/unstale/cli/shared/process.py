"""The process of a command: standard streams that may be closed or broken, signals, and warnings."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import click


def open_streams() -> None:
    """Give a stream that is closed (``>&-``) the null device to write to."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (to the end)


def discard_output() -> None:
    """Drop what standard output did not take, so that leaving the program does not try again."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def no_warnings() -> None:
    """Hide warnings, which are for developers, unless Python has been told what to do with them."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


@contextmanager
def tidy_when_stopped() -> Iterator[None]:
    """Turn the signals that stop a program into exceptions, so that no temporary file stays."""

    def stop(number: int, _frame: object) -> NoReturn:
        raise SystemExit(128 + number)

    numbers = []
    if threading.current_thread() is threading.main_thread():  # only there can signals be caught
        known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
        numbers = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def interrupted_in_compiled_code() -> Iterator[None]:
    """Turn the error that compiled code makes of an interruption back into an interruption."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
            raise click.Abort from error
        raise
