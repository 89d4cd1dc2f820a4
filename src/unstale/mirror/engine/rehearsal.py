"""What the planner will call is called once before it matters: it has to be compiled, or loaded.

Where kernels have been compiled before, that takes tenths of a second; after an installation it takes
seconds. Polls in turn need none of them: a worker makes these meanwhile (`unstale.policy.polls_in_turn`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import numpy as np

from unstale.mirror.contained import Children, LimitExceeded
from unstale.mirror.reports.freshness import sampled
from unstale.mirror.settings import Settings
from unstale.policy.element_table import OK, ElementTable
from unstale.policy.hint_channels import Channels

from .load_policy import MirrorPolicy, new_policy
from .planner_state import PollCounts

T = TypeVar("T")

_HOUR_SECONDS = 3600.0
_ELEMENTS = 4
_COMPILER_BYTES, _COMPILER_SECONDS = 4 << 30, 900.0
"""Memory and processor time that a process that compiles may take: far more than it does."""
_ready = threading.Event()
"""Set when a rehearsal in this process is over."""


def is_ready() -> bool:
    """Tell whether all that the planner needs is compiled."""
    return _ready.is_set()


def rehearse(policy: MirrorPolicy, now: float) -> None:
    """Ask a policy what it will be asked, and forget the answers."""
    places = np.arange(min(len(policy.table), 2))
    policy.known.worths(places, policy.table.since(places, now))
    policy.known.fresh(places, now)
    sampled(policy, now, PollCounts())
    if places.size:
        _ready.set()


def rehearse_all(objective: str, order: str = "fixed") -> None:
    """Let a policy of made-up elements choose and learn, which takes all kernels of the planner."""
    table = ElementTable()
    table.reserve(_ELEMENTS, None)
    everyone = np.arange(_ELEMENTS)
    table["id", :], table["state", :], table["last", :] = everyone, OK, 0.0
    table["weight", :], table["size", :] = 1.0, 1000.0
    policy = new_policy(Settings(budget=1.0, objective=objective, order=order), table, Channels())
    policy.rescaled()
    hour = np.full(_ELEMENTS, _HOUR_SECONDS)
    policy.known.fresh(everyone, _HOUR_SECONDS)
    policy.choose(_HOUR_SECONDS, 2.0 * _HOUR_SECONDS, room=_ELEMENTS)
    table.learner.learn(everyone, hour, everyone % 2 == 0)
    policy.learn(everyone, hour, everyone % 2 == 0, hour)
    sampled(policy, 2.0 * _HOUR_SECONDS, PollCounts())
    _ready.set()


async def rehearse_beside(objective: str, order: str = "fixed") -> None:
    """Do the same without being in the way of polls.

    What is in the cache is loaded in a thread. If something is not, a child process compiles it first: a
    compiler in this process would keep the event loop waiting.
    """
    try:
        await asyncio.to_thread(_rehearse_without_compiler, objective, order)
    except _NotCompiledError:
        with suppress(LimitExceeded):  # or else it is compiled here
            await _compilers.run(rehearse_all, objective, order)
        await asyncio.to_thread(rehearse_all, objective, order)


class _NotCompiledError(Exception):
    """Something has to be compiled."""


def _rehearse_without_compiler(objective: str, order: str) -> None:
    with _no_compiler():
        rehearse_all(objective, order)


def without_compiler(call: Callable[[], T]) -> T | None:
    """Return what a call returns; None if something would have to be compiled for it."""
    try:
        with _no_compiler():
            return call()
    except _NotCompiledError:
        return None


@contextmanager
def _no_compiler() -> Iterator[None]:
    """Let no kernel be compiled in this thread: who would do so gets an error."""
    from numba.core import event

    own = threading.get_ident()

    class _Refuse(event.Listener):
        def on_start(self, _event: object) -> None:
            if threading.get_ident() == own:
                raise _NotCompiledError

        def on_end(self, _event: object) -> None:
            pass

    with event.install_listener("numba:compile", _Refuse()):
        yield


_compilers = Children(1, memory=_COMPILER_BYTES, seconds=_COMPILER_SECONDS)
