"""Where copies are: a folder, or a bucket of an object store. What `Copies` asks of either."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

PACKED, PLAIN = ".zst", ".raw"
"""How names of copies end: compressed by us, or as they came."""


class Stored(NamedTuple):
    """A copy that is there."""

    name: str
    size: int
    """Bytes that it takes there."""
    time: float
    """When it was put last, in seconds since 1970."""

    @property
    def is_packed(self) -> bool:
        """Whether it is compressed by us."""
        return self.name.endswith(PACKED)


def names_of(digest: str) -> tuple[str, str]:
    """Return the two names that a copy may have.

    >>> names_of("ab12")
    ('ab/ab12.zst', 'ab/ab12.raw')
    """
    start = f"{digest[:2]}/{digest}"
    return start + PACKED, start + PLAIN


class SignedLink(NamedTuple):
    """An address from which whoever has it can get a copy for a while, without rights of their own."""

    address: str
    is_packed: bool
    """Whether what it gives is compressed by Zstandard."""


class CopyPlace(Protocol):
    """What is put under a name is there whole when `put` returns, also after a crash, or not at all."""

    address: str
    """What messages call it."""
    is_near: bool
    """Whether to look for a copy costs nothing; else it is put without a look, if it was not put lately."""

    @property
    def scratch(self) -> Path:
        """A folder of this machine for what is on its way to be a copy."""

    @property
    def own_files(self) -> tuple[Path, ...]:
        """Folders of this machine that must not be mirrored."""

    def find(self, digest: str) -> Stored | None:
        """Return the copy with a digest, if there is one."""

    def find_all(self, digests: list[str]) -> set[str]:
        """Return those digests of which there is a copy."""

    def put(self, name: str, content: bytes | Path) -> None:
        """Keep content under a name; a file of ``scratch`` is taken over."""

    def renew(self, stored: Stored, verify: Callable[[], None]) -> bool:
        """Make a copy that is there count as put now, if it is whole; False: put it again."""

    def open(self, name: str) -> BinaryIO:
        """Return what is stored under a name, as a stream."""

    def sign(self, name: str, seconds: float) -> str:
        """Return an address from which what is stored under a name can be had for so many seconds."""

    def delete(self, name: str) -> None:
        """Delete what is there under a name, if anything is."""

    def copy_from(self, other: CopyPlace, names: Sequence[str]) -> None:
        """Have what another place of this kind has under these names; what it has not is left out."""

    def listed(self) -> Iterator[list[Stored]]:
        """Return all that is there, some at a time."""

    def listed_in(self, folder: str) -> Iterator[list[Stored]]:
        """Return what is there in a folder beside the copies, some at a time."""

    def note(self, name: str) -> str | None:
        """Return a short text that was kept beside the copies."""

    def keep_note(self, name: str, text: str) -> None:
        """Keep a short text beside the copies; a reader sees all of it or none meanwhile."""

    def troubles(self) -> AbstractContextManager[None]:
        """Turn errors of the place into one clear line."""
