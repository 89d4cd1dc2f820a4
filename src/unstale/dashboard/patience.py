"""What takes long is not done all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, TypeVar

from ..mirror.mirror import Mirror
from .place import Place

__all__ = ["Patient"]

_T = TypeVar("_T")
_LONG = 0.2
"""Seconds that something may take and be done as often as it is asked for."""
_TIMES = 10.0
"""How many times as long as it took something is good for if that was longer: a tenth of a core, at most."""


class Patient(Generic[_T]):
    """Something that pages ask a mirror for again and again, such as the status of a million elements."""

    def __init__(self, name: str, work: Callable[[Mirror], _T]) -> None:
        self._name, self._work = name, work
        self._took = 0.0

    async def __call__(self, place: Place) -> _T:
        """Return it, from a moment ago or from as long ago as it takes."""
        good_for = _TIMES * self._took if self._took > _LONG else None
        return await place.kept(self._name, self._timed, fresh_for=good_for)

    def _timed(self, mirror: Mirror) -> _T:
        began = time.monotonic()
        try:
            return self._work(mirror)
        finally:
            self._took = time.monotonic() - began
