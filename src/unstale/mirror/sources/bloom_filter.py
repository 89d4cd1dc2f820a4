"""What has been seen, in little space: a Bloom filter.

A feed, a sitemap or a folder names things, each in some state (the time of its last change). Whatever is new
or in another state at the next poll deserves a hint. To tell that, not the names are kept, but some bits of
each: 12 for a sitemap of 50,000 addresses, which makes 100 kB. One new thing in 300 is taken for seen before,
and gets no hint; it is polled all the same, when its turn comes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from hashlib import blake2b

__all__ = ["BloomFilter"]

_FEW_NAMES = 5000
"""So many things get more bits, as that costs little: one in 2,000 is missed."""

_MIN_BYTES = 128
"""Bytes."""


class BloomFilter:
    """Things that were seen before, nearly.

    >>> seen = BloomFilter.of(["a", "b"])
    >>> "a" in seen, "c" in seen, "b" in BloomFilter.read(str(seen))
    (True, False, True)
    """

    def __init__(self, bits: bytearray, marks: int) -> None:
        self._bits, self._marks = bits, marks

    @classmethod
    def of(cls, things: Iterable[str]) -> BloomFilter:
        """Return what holds these."""
        names = list(things)
        each, marks = (16, 6) if len(names) <= _FEW_NAMES else (12, 5)
        seen = cls(bytearray(max(_MIN_BYTES, -(-len(names) * each // 8))), marks)
        for name in names:
            for place in seen._places(name):
                seen._bits[place >> 3] |= 1 << (place & 7)
        return seen

    @classmethod
    def read(cls, text: object) -> BloomFilter | None:
        """Return what was written as text; None if it was not."""
        if not isinstance(text, str) or ":" not in text:
            return None
        marks, _, bits = text.partition(":")
        try:
            seen = cls(bytearray(base64.b85decode(bits)), int(marks))
        except (ValueError, binascii.Error):
            return None
        return seen if seen._bits and 1 <= seen._marks <= 8 else None

    def __str__(self) -> str:
        """Return it as text."""
        return f"{self._marks}:{base64.b85encode(bytes(self._bits)).decode()}"

    def __contains__(self, name: str) -> bool:
        return all(self._bits[place >> 3] & 1 << (place & 7) for place in self._places(name))

    def _places(self, name: str) -> Iterator[int]:
        """Yield the bits of a name."""
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8 * self._marks).digest()
        for i in range(self._marks):
            yield int.from_bytes(digest[8 * i : 8 * i + 8], "little") % (8 * len(self._bits))
