"""The processes of a browser: how much memory they take, and how they are killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def descendants(root: int) -> list[int]:
    """Return the processes that go back to one, without itself; none where the system has no /proc.

    >>> os.getpid() in descendants(os.getppid()) or not Path("/proc/self/stat").exists()
    True
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        more = children.get(waiting.pop(), [])
        found += more
        waiting += more
    return found


def resident_bytes(processes: list[int]) -> int:
    """Return the bytes that processes have in memory; those that they share count once for each."""
    total = 0
    for one in processes:
        with suppress(OSError, ValueError, IndexError):
            _, resident, shared, *_ = map(int, Path(f"/proc/{one}/statm").read_text().split())
            total += (resident - shared) * _PAGE_BYTES
    return total


def kill(processes: list[int]) -> None:
    """Kill processes at once."""
    for one in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)
