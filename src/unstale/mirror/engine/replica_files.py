"""What replicas tell each other (step 9): each appends its polls to a file in a folder that all of them see.

A line is JSON with the ``key`` of an element and the ``time`` of the poll. Nothing of it is kept in the
store: whoever starts reads what is there. A file that has become too long is begun anew.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unstale.mirror.settings import Replicas
from unstale.mirror.store.contract import Finished, Transaction

from .load_policy import MirrorPolicy

_MOST_BYTES = 16_000_000
"""Of a file, before it is begun anew."""
_BYTES_AT_ONCE = 1_000_000
_KEYS_AT_ONCE = 1000
_LINE_BYTES = 20_000
"""At the end of a file, in which there is a whole line."""
_SAW = frozenset({"new", "changed", "unchanged"})


def file_of(replicas: Replicas, number: int) -> Path:
    """Return the file to which a replica appends its polls."""
    return Path(replicas.folder or ".") / f"replica-{number}.jsonl"


def last_told(replicas: Replicas) -> list[tuple[int, float]]:
    """Return when each of the other replicas told of a poll last; nan if it never did."""
    others = [number for number in range(1, replicas.count + 1) if number != replicas.number]
    return [(number, _last_time(file_of(replicas, number))) for number in others]


def last_polls_of(replicas: Replicas, key: str) -> list[tuple[int, float]]:
    """Return when other replicas polled an element last, as far as they told."""
    found = []
    written = json.dumps(key).encode()
    for number in range(1, replicas.count + 1):
        try:
            lines = [] if number == replicas.number else file_of(replicas, number).read_bytes().splitlines()
        except OSError:
            lines = []
        times = [time for named, time in (_poll(one) for one in lines if written in one) if named == key]
        if times:
            found.append((number, max(times)))
    return found


def _last_time(path: Path) -> float:
    """Return the time of the last poll in a file; nan if there is none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(path.stat().st_size - _LINE_BYTES, 0))
            lines = stream.read().splitlines()
    except OSError:
        return math.nan
    return max((time for key, time in map(_poll, lines) if key), default=math.nan)


@dataclass
class ReplicaLog:
    """Reads what other replicas tell, each time from where it has stopped."""

    replicas: Replicas
    _read: dict[int, tuple[int, int]] = field(default_factory=dict)
    """File and place up to which each has been read."""

    def news(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Yield numbers of replicas, with the last poll of each key that they have told of since."""
        for number in range(1, self.replicas.count + 1):
            while number != self.replicas.number and (polls := self._some(number)) is not None:
                yield number, polls

    def _some(self, number: int) -> dict[str, float] | None:
        """Read some lines of a replica; None if there are none."""
        path = file_of(self.replicas, number)
        if not path.is_file():
            return None
        there, (file, start) = path.stat(), self._read.get(number, (0, 0))
        if file != there.st_ino or there.st_size < start:
            start = 0
        with path.open("rb") as stream:
            stream.seek(start)
            block = stream.read(_BYTES_AT_ONCE)
        whole = block.rfind(b"\n") + 1
        self._read[number] = there.st_ino, start + whole
        polls: dict[str, float] = {}
        for line in block[:whole].splitlines():
            key, time = _poll(line)
            if key:
                polls[key] = max(time, polls.get(key, -math.inf))
        return polls if whole else None


@dataclass
class ReplicaFiles:
    """Tells other replicas of polls, and reads of theirs."""

    replicas: Replicas
    _policy: MirrorPolicy | None = None
    """The one that has heard of what was read."""
    _log: ReplicaLog = field(init=False)

    def __post_init__(self) -> None:
        """Begin at the beginning of what others have told."""
        self._log = ReplicaLog(self.replicas)

    def tell(self, finished: Sequence[Finished]) -> None:
        """Append polls that saw something."""
        lines = [
            json.dumps({"key": one.lease.known.key, "time": one.began}) + "\n"
            for one in finished
            if one.found is not None and one.outcome in _SAW
        ]
        if self.replicas.count == 1 or not lines:
            return
        path = file_of(self.replicas, self.replicas.number)
        if path.is_file() and path.stat().st_size > _MOST_BYTES:
            fresh = path.with_suffix(".new")
            fresh.write_text("")
            os.replace(fresh, path)  # noqa: PTH105
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(lines))

    def hear(self, policy: MirrorPolicy, t: Transaction, now: float) -> None:
        """Let the policy know of polls that others have made."""
        if self.replicas.count == 1:
            return
        if policy is not self._policy:
            self._policy, self._log = policy, ReplicaLog(self.replicas)
        for number, told in self._log.news():
            polls = {key: time for key, time in told.items() if time <= now}
            keys = list(polls)
            for first in range(0, len(keys), _KEYS_AT_ONCE):
                for key, element in t.find(keys[first : first + _KEYS_AT_ONCE]).items():
                    policy.replicas.heard(element.id, polls[key], number)


def _poll(line: bytes) -> tuple[str, float]:
    """Return key and time of a line; no key if it cannot be read.

    >>> _poll(b'{"key": "a", "time": 5}'), _poll(b"x")
    (('a', 5.0), ('', 0.0))
    """
    try:
        found: Any = json.loads(line)
        key, time = found["key"], float(found["time"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", 0.0
    return (key, time) if isinstance(key, str) and math.isfinite(time) else ("", 0.0)
