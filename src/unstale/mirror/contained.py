"""Work on bytes from anybody, in child processes with limits on memory and on processor time.

A parser may need a hundred times the memory of what it reads, or time that grows with the square of it, and a
thread cannot be stopped. Here a child process does such work. It ends when the work exceeds a limit or is
given up, and then only this one piece of work fails. Children are started when they are needed, and do one
piece of work after the other. What is small, up to `SMALL_BYTES`, is better done at once, by the caller.

The limits protect other work on this machine. They are no sandbox: a child may do what its user may do. Where
the system has no such limits (Windows has none), a child still ends when its work is given up.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar, cast

from unstale.quantities import show_duration

T = TypeVar("T")

SMALL_BYTES = 1 << 18
"""Of what the caller should read itself."""
_MAX_MEMORY_BYTES = 512 << 20
_MAX_PROCESSOR_SECONDS = 10.0
_KEPT_MEMORY_BYTES = 192 << 20
"""A child that holds more memory than this after its work makes room for another one."""
_ENVIRONMENT = ("HOME", "LANG", "LC_", "LD_", "NUMBA_", "PATH", "PYTHON", "TMP", "TZ", "XDG_CACHE_HOME")
"""Beginnings of the names that a child gets; all others may be secrets."""
_HEADER_BYTES = 8
"""The length of a message comes before it."""


class LimitExceeded(Exception):  # noqa: N818
    """The work takes too much memory or time, or its process crashed; the message says which."""


class Children:
    """Child processes that work for this one.

    Parameters
    ----------
    count
        How many work at the same time; other work waits.
    memory
        Bytes that a child may use.
    seconds
        Of processor time that one piece of work may take.
    """

    def __init__(
        self, count: int, *, memory: int = _MAX_MEMORY_BYTES, seconds: float = _MAX_PROCESSOR_SECONDS
    ) -> None:
        self._memory, self._seconds = memory, seconds
        self._threads = ThreadPoolExecutor(count, "unstale: child")
        self._own = threading.local()
        """The child of each thread."""

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Return what a call returns, or raise what it raises; end its process if this is cancelled.

        The call must be a function of a module, and it, its arguments and its result are pickled.

        Raises
        ------
        LimitExceeded
            If the call takes too much memory or time, or its process crashes.
        """
        work = _Work(call, arguments)
        try:
            return cast("T", await asyncio.wrap_future(self._threads.submit(self._do, work)))
        except asyncio.CancelledError:
            work.give_up()
            raise

    def wait(self, call: Callable[..., T], *arguments: object, timeout: float) -> T:
        """Do the same, for threads; raise `LimitExceeded` also if it takes more than ``timeout`` seconds."""
        work = _Work(call, arguments)
        future = self._threads.submit(self._do, work)
        try:
            return cast("T", future.result(timeout))
        except TimeoutError:
            if future.done():
                raise
            future.cancel()
            work.give_up()
            raise LimitExceeded(f"it takes more than {show_duration(timeout)}") from None

    def _do(self, work: _Work) -> object:
        """Have the child of this thread do the work."""
        child: _Child | None = getattr(self._own, "child", None)
        if child is None or not child.alive:
            try:
                child = self._own.child = _Child(self._memory, self._seconds)
            except OSError as error:
                raise LimitExceeded(f"no process can be started that reads it: {error}") from None
        return work.done_by(child)


class _Work:
    """A call for a child; another thread may give it up."""

    def __init__(self, call: Callable[..., object], arguments: tuple[object, ...]) -> None:
        self._call, self._arguments = call, arguments
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._given_up = False

    def done_by(self, child: _Child) -> object:
        with self._lock:
            if self._given_up:
                raise LimitExceeded("it was given up")
            self._child = child
        try:
            done, value = child.ask(pickle.dumps((self._call, self._arguments)))
        finally:
            with self._lock:
                self._child = None
        if done:
            return value
        raise cast("Exception", value)

    def give_up(self) -> None:
        with self._lock:
            self._given_up = True
            if self._child is not None:
                self._child.kill()


class _Child:
    """A child process, as its parent knows it."""

    def __init__(self, memory: int, seconds: float) -> None:
        self._memory, self._seconds = memory, seconds
        known = {name: value for name, value in os.environ.items() if name.startswith(_ENVIRONMENT)}
        path = os.pathsep.join(one or os.getcwd() for one in sys.path)  # noqa: PTH109
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        program = f"from unstale.mirror.contained import _serve; _serve({memory}, {seconds})"
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**known, **threads, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the parent
        )
        _living.add(self)

    @property
    def alive(self) -> bool:
        return self in _living and self._process.poll() is None

    def ask(self, message: bytes) -> tuple[bool, object]:
        """Return whether the work was done, and its result or its error."""
        into, out = self._process.stdin, self._process.stdout
        if into is None or out is None:
            raise RuntimeError("a child has no pipes")
        answer = b""
        with suppress(OSError):  # it has ended
            into.write(len(message).to_bytes(_HEADER_BYTES, "big"))
            into.write(message)
            into.flush()
            size = int.from_bytes(out.read(_HEADER_BYTES), "big")
            answer = out.read(size)
        if answer:
            done, last, value = pickle.loads(answer)  # noqa: S301  (our own child has written it)
            if last:
                self.end()
            return done, value
        return False, LimitExceeded(self._why(self.end()))

    def kill(self) -> None:
        """End the process at once; the thread that waits for its answer cleans up."""
        with suppress(OSError):
            self._process.kill()

    def end(self) -> int:
        """End the process, and return its code."""
        _living.discard(self)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            return self._process.wait(1.0)  # it ends by itself, unless it was told to stop
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _why(self, code: int) -> str:
        if code < 0 and code == -getattr(signal, "SIGPROF", 0):
            return f"it takes more than {self._seconds:g} seconds of processor time"
        try:
            how = signal.Signals(-code).name if code < 0 else f"code {code}"
        except ValueError:
            how = f"signal {-code}"
        return f"the process that reads it ended ({how}); it may use {self._memory >> 20} MB of memory"


_living: set[_Child] = set()
"""All children, which end with this process."""


@atexit.register
def _end_all() -> None:
    for child in list(_living):
        child.kill()
        child.end()


parsers = Children(2)
"""They read what polls have fetched."""


# --- in the child


def _serve(memory: int, seconds: float) -> None:
    """Do one piece of work after the other, until the parent is gone."""
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123
        for number in (0, 1):  # what a library prints must not be taken for an answer
            os.dup2(nothing.fileno(), number)
    _limit_memory(memory)
    while header := questions.read(_HEADER_BYTES):
        message = questions.read(int.from_bytes(header, "big"))
        _limit_time(seconds)
        done, value = _result(message, memory)
        last = _used_memory() > _KEPT_MEMORY_BYTES or isinstance(value, LimitExceeded)
        answer = pickle.dumps((done, last, value))
        _limit_time(0.0)
        answers.write(len(answer).to_bytes(_HEADER_BYTES, "big"))
        answers.write(answer)
        answers.flush()
        del message, value, answer


def _limit_memory(memory: int) -> None:
    """Let allocations beyond so many bytes fail, and crashes write no file."""
    with suppress(ImportError, ValueError, OSError):  # not every system has these limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _limit_time(seconds: float) -> None:
    """Let SIGPROF end this process after so much processor time, also in the middle of a parser; 0: never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _used_memory() -> int:
    """Return the bytes that this process holds now; 0 if this system does not tell.

    The peak that getrusage tells is that of the parent, if it was higher when it started the child.
    """
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _result(message: bytes, memory: int) -> tuple[bool, Any]:
    try:
        call, arguments = pickle.loads(message)  # noqa: S301  (our own parent has written it)
        return True, call(*arguments)
    except MemoryError:
        return False, LimitExceeded(f"it takes more than {memory >> 20} MB of memory")
    except Exception as error:  # noqa: BLE001  (it is raised where the work is awaited)
        with suppress(Exception):
            if type(pickle.loads(pickle.dumps(error))) is type(error):  # noqa: S301
                return False, error
        return False, RuntimeError(f"{type(error).__name__}: {error}")
