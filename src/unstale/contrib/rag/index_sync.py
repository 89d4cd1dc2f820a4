"""Brings an index to where a mirror is, whatever is interrupted.

1. A new version is in the index before the old one is taken out: `TextIndex.put` promises that.
2. What was done is noted after it was done. After a crash it is done again, and doing it twice does no harm.
3. A copy that changes meanwhile is a change of its own, which the next `sync` brings.
4. Nothing is deleted if more is gone than ``most_deleted``: then a source is broken rather than empty.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from unstale.contrib.change_feed import ChangeFeed, SeenChange
from unstale.errors import InvalidInput, Trouble
from unstale.mirror.contained import SMALL_BYTES, Children, LimitExceeded
from unstale.mirror.json_values import copy_path
from unstale.mirror.sources.http.fingerprint import visible_text

__all__ = ["IndexSync", "IndexedText", "Synced", "TextIndex", "text_of"]

_MOST_COPY_BYTES = 20_000_000
_BATCH = 20
"""Copies that go into the index together."""
_PAGE = 500
_FEWEST_GUARDED = 10
"""So many may always be deleted."""
_VERSION = 1
_READ_SECONDS = 60.0
_readers = Children(1)


@dataclass(frozen=True)
class IndexedText:
    """The text of a copy, as it goes into an index."""

    key: str
    text: str
    digest: str
    """SHA-256 of the copy."""
    seen: str
    """When it was seen, in UTC."""


class TextIndex(Protocol):
    """What an index does."""

    def put(self, texts: Sequence[IndexedText]) -> None:
        """Put texts in, each in place of the last one of its key, which stays until the new one is in."""

    def delete(self, keys: Sequence[str]) -> None:
        """Take out all that there is of elements."""


@dataclass(frozen=True)
class Synced:
    """What became of it."""

    put: int = 0
    same: int = 0
    """Seen again with the content that is in the index."""
    deleted: int = 0


def text_of(content: bytes, media_type: str) -> str:
    """Return the text of a copy; that of HTML without its tags and scripts.

    What is large is read in a child process; nothing is found in a page that takes too much memory or time.

    >>> text_of(b"<p>one <script>x()</script>two</p>", "text/html")
    'one two'
    """
    if "html" not in media_type:
        return content.decode("utf-8", "replace")
    if len(content) <= SMALL_BYTES:
        return visible_text(content, media_type)
    try:
        return _readers.wait(visible_text, content, media_type, timeout=_READ_SECONDS)
    except LimitExceeded:
        return ""


class IndexSync:
    """Follows a mirror that is served.

    Parameters
    ----------
    server
        where the mirror is served, such as ``http://127.0.0.1:8321``
    index
        what is kept up to date
    state
        a file in which is noted what is in the index
    token
        one that is to read, if the server asks for a token
    most_deleted
        the share of what is in the index that may be deleted at once; more is refused
    text
        makes text of a copy and its media type
    """

    def __init__(
        self,
        server: str,
        index: TextIndex,
        state: Path | str,
        *,
        token: str | None = None,
        most_deleted: float = 0.1,
        text: Callable[[bytes, str], str] = text_of,
    ) -> None:
        if not 0.0 <= most_deleted <= 1.0:
            raise InvalidInput(f"most_deleted must be a share from 0 to 1; it is {most_deleted!r}")
        self._feed = ChangeFeed(server, token=token)
        self._server, self._index, self._file = server.rstrip("/"), index, Path(state)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._most_deleted, self._text = most_deleted, text
        self._after, self._indexed = self._read_state()

    def sync(self) -> Synced:
        """Put in what has changed, take out what is gone; return how much."""
        changes, last = self._feed.after(self._after)
        latest = {one.key: one for one in changes}
        gone = self._gone()
        put = same = 0
        wanted = [one for key, one in latest.items() if key not in gone]
        for start in range(0, len(wanted), _BATCH):
            texts: list[IndexedText] = []
            done: dict[str, tuple[str, int]] = {}
            for change in wanted[start : start + _BATCH]:
                text = self._copy(change)
                if text is None:
                    continue
                if self._indexed.get(change.key, ("", 0))[0] == text.digest:
                    same += 1
                else:
                    texts.append(text)
                done[change.key] = text.digest, change.number if text.digest == change.digest else 0
            if texts:
                self._index.put(texts)
            put += len(texts)
            self._indexed |= done
            self._write_state()
        self._after = last
        self._write_state()
        return Synced(put, same, self._delete(sorted(gone & self._indexed.keys())))

    def fresh(self, key: str) -> float | None:
        """Return the probability that what the index has of an element is still so; None: nobody can tell.

        It is 0 if the mirror has seen a later version already.
        """
        said = self._get(f"/api/elements?{urlencode({'key': key, 'limit': 1})}")
        found = said["elements"][0] if said["elements"] else None
        if found is None or key not in self._indexed or found["fresh"] is None:
            return None
        return float(found["fresh"]) if found["version"] == self._indexed[key][1] else 0.0

    def _gone(self) -> set[str]:
        """Return the keys of what is gone, or was removed from the mirror."""
        gone: set[str] = set()
        for state in ("gone", "archived", "removed"):
            offset = 0
            while True:
                page = self._get(
                    f"/api/elements?{urlencode({'state': state, 'limit': _PAGE, 'offset': offset})}"
                )
                gone |= {one["key"] for one in page["elements"]}
                offset += _PAGE
                if offset >= page["total"]:
                    break
        return gone

    def _delete(self, keys: list[str]) -> int:
        allowed = max(_FEWEST_GUARDED, self._most_deleted * len(self._indexed))
        if self._most_deleted < 1.0 and len(keys) > allowed:
            raise InvalidInput(
                f"{len(keys):,} of {len(self._indexed):,} elements of the index are gone, which is more than "
                f"most_deleted = {self._most_deleted:g} allows; nothing was deleted. If it is true, say more"
            )
        for start in range(0, len(keys), _BATCH):
            some = keys[start : start + _BATCH]
            self._index.delete(some)
            for key in some:
                del self._indexed[key]
            self._write_state()
        return len(keys)

    def _copy(self, change: SeenChange) -> IndexedText | None:
        """Return the latest copy; None if there is none any more."""
        request = Request(self._server + copy_path(change.key), headers=self._headers)  # noqa: S310
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310  (checked by ChangeFeed)
                body = answer.read(_MOST_COPY_BYTES + 1)
                media_type = answer.headers.get("Content-Type", "")
        except HTTPError as error:
            if error.code in {404, 410}:
                return None
            raise Trouble(f"{self._server} answered {error.code} for {change.key}") from None
        except OSError as error:
            raise Trouble(f"{self._server} cannot be asked: {error}") from error
        if len(body) > _MOST_COPY_BYTES:
            return None
        digest = hashlib.sha256(body).hexdigest()
        return IndexedText(change.key, self._text(body, media_type), digest, change.time)

    def _get(self, path: str) -> dict[str, Any]:
        return self._feed._get(path)  # noqa: SLF001  (one client of the server)

    # --- what is in the index

    def _read_state(self) -> tuple[int, dict[str, tuple[str, int]]]:
        if not self._file.exists():
            return 0, {}
        try:
            said = json.loads(self._file.read_text("utf-8"))
            known = said["version"] == _VERSION
            after, indexed = int(said["after"]), said["indexed"]
            there = {str(key): (str(digest), int(number)) for key, (digest, number) in indexed.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            known = False
        if not known:
            raise InvalidInput(
                f"{self._file}: was cut, or is of another version; without it everything is indexed again"
            )
        return after, there

    def _write_state(self) -> None:
        new = self._file.with_name(self._file.name + ".new")
        with new.open("w", encoding="utf-8") as out:
            json.dump({"version": _VERSION, "after": self._after, "indexed": self._indexed}, out)
            out.flush()
            os.fsync(out.fileno())
        new.replace(self._file)
