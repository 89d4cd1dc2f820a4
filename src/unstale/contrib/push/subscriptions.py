"""What was asked of hubs, in a file for its owner only, since it holds the secrets of signatures.

1. What is asked of a hub is in the file before the hub is asked, so that it is known when the hub comes back.
2. The file is replaced as a whole (written under another name, synced, renamed): it is never half-written.
3. A file that cannot be read ends the program with one line; it is never overwritten.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from unstale.errors import InvalidInput

__all__ = ["MOST_SUBSCRIPTIONS", "Subscription", "Subscriptions"]

MOST_SUBSCRIPTIONS = 10_000
_VERSION = 1


@dataclass
class Subscription:
    """One topic at one hub."""

    path: str
    """Part of the address by which the hub reaches us, which nobody can guess."""
    key: str
    """Of the element that is hinted."""
    topic: str
    hub: str
    secret: str
    """With which the hub signs."""
    state: Literal["asked", "active", "denied", "ended"] = "asked"
    until: float = 0.0
    """When the lease ends (seconds since 1970)."""
    lease: float = 0.0
    """Seconds for which the hub gave it."""
    pending: bool = False
    """Whether the hub has still to come back."""
    asked: float = 0.0
    """When it was asked for last."""
    failures: int = 0
    """Times in a row that the hub did not take or confirm it."""
    detail: str = ""


class Subscriptions:
    """The subscriptions of a mirror, by path and by key.

    Parameters
    ----------
    file
        where they are kept
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._by_path: dict[str, Subscription] = {}
        self._by_key: dict[str, Subscription] = {}
        for one in self._read():
            self._by_path[one.path] = self._by_key[one.key] = one

    def __iter__(self) -> Iterator[Subscription]:
        """Give all of them."""
        return iter(list(self._by_path.values()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_path)

    def at(self, path: str) -> Subscription | None:
        """Return the one that a hub means."""
        return self._by_path.get(path)

    def of(self, key: str) -> Subscription | None:
        """Return that of an element."""
        return self._by_key.get(key)

    def wanted(self, key: str, topic: str, hub: str) -> Subscription | None:
        """Return the subscription to ask for; None if there are too many.

        Another topic or hub gets another path and another secret: no hub learns those of another.
        """
        there = self._by_key.get(key)
        if there is not None and (there.topic, there.hub) == (topic, hub):
            return there
        if there is not None:
            self.drop(there)
        if len(self._by_path) >= MOST_SUBSCRIPTIONS:
            return None
        one = Subscription(secrets.token_urlsafe(24), key, topic, hub, secrets.token_urlsafe(32))
        self._by_path[one.path] = self._by_key[key] = one
        return one

    def drop(self, one: Subscription) -> None:
        """Forget one: what its hub sends from now on reaches nothing."""
        self._by_path.pop(one.path, None)
        self._by_key.pop(one.key, None)

    def save(self) -> None:
        """Write all of them."""
        text = json.dumps({"version": _VERSION, "subscriptions": [asdict(one) for one in self]}, indent=1)
        new = self._file.with_name(self._file.name + ".new")
        new.unlink(missing_ok=True)
        with os.fdopen(
            os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        new.replace(self._file)

    def _read(self) -> list[Subscription]:
        try:
            text = self._file.read_text("utf-8")
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self._file}: cannot be read: {error}") from None
        try:
            said = json.loads(text)
            if said["version"] != _VERSION:
                raise InvalidInput(
                    f"{self._file}: is of version {said['version']!r}, and this program knows {_VERSION} only"
                )
            return [Subscription(**one) for one in said["subscriptions"]]
        except (ValueError, TypeError, KeyError) as error:
            if isinstance(error, InvalidInput):
                raise
            raise InvalidInput(
                f"{self._file}: is no file of subscriptions; move it away, and hubs are asked again"
            ) from None
