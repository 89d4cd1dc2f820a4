"""Hints from a file to which others append (step 9): a key on each line, or JSON with ``key`` and ``time``.

How far it has been read is kept in the store, with the hints, so that none is lost or counted twice. A file
that is shorter than that, or another one of the same name, is read from its beginning.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path

from unstale.mirror.store.contract import Transaction

_BYTES_AT_ONCE = 1_000_000
"""Bytes that are read at a time."""
_KEYS_AT_ONCE = 1000
"""Keys that are looked up at a time."""
_STATE = "hint file"
"""The name under which it is kept how far the file has been read."""


def read_hints(path: Path, t: Transaction, now: float) -> int:
    """Note the hints that have been appended; return how many are about elements of the mirror."""
    if not path.is_file():
        return 0
    kept = json.loads(t.state().get(_STATE, b"{}"))
    there = path.stat()
    start = kept.get("offset", 0)
    if kept.get("file") != there.st_ino or there.st_size < start:
        start = 0
    with path.open("rb") as file:
        file.seek(start)
        block = file.read(_BYTES_AT_ONCE)
    whole = block.rfind(b"\n") + 1  # who writes may be in the middle of a line
    if not whole and len(block) == _BYTES_AT_ONCE:
        whole = len(block)  # no line is that long
    if not whole:
        return 0
    told: dict[str, float] = {}
    for line in block[:whole].decode("utf-8", "replace").splitlines():
        key, moment = _hint(line.strip())
        if key:
            told[key] = now if moment is None else moment
    keys = list(told)
    known = {
        key: element
        for first in range(0, len(keys), _KEYS_AT_ONCE)
        for key, element in t.find(keys[first : first + _KEYS_AT_ONCE]).items()
        if element.state != "removed"
    }
    t.edit([("hint", element.id, min(told[key], now), "file") for key, element in known.items()])
    position = {"file": there.st_ino, "offset": start + whole}
    t.keep({_STATE: json.dumps(position).encode()})
    return len(known)


def _hint(line: str) -> tuple[str, float | None]:
    """Return the key that a line names, and the time of the change if it tells.

    >>> _hint("https://example.org/"), _hint('{"key": "a", "time": 5}'), _hint("# nothing"), _hint("{")
    (('https://example.org/', None), ('a', 5.0), ('', None), ('', None))
    """
    if not line or line.startswith("#"):
        return "", None
    if not line.startswith("{"):
        return line, None
    try:
        found = json.loads(line)
        key, moment = found.get("key"), found.get("time")
        if isinstance(moment, str):
            moment = datetime.fromisoformat(moment).timestamp()
        time = None if moment is None else float(moment)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return "", None
    return (
        (key, time if time is None or math.isfinite(time) else None) if isinstance(key, str) else ("", None)
    )
