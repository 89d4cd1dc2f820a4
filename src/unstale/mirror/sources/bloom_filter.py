"""A Bloom filter: a set of names in little space, in which a lookup may wrongly find a name.

A feed, a sitemap or a folder names entries, each with a state (the time of its last change). At the next
poll, an entry that is new or has another state gets a hint. To recognise the others, the source keeps not the
names but some bits for each: 12 for a sitemap of 50,000 addresses, which makes 100 kB. One new entry in 300
is wrongly found, and gets no hint; the mirror polls it all the same, when its turn comes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from hashlib import blake2b

_FEW_NAMES = 5000
"""Up to this many names get 16 bits each, since that costs little: one new name in 2,000 is missed."""

_MIN_BYTES = 128
"""Size of the smallest filter."""


class BloomFilter:
    """A set of names, as bits.

    >>> seen = BloomFilter.of(["a", "b"])
    >>> "a" in seen, "c" in seen, "b" in BloomFilter.read(str(seen))
    (True, False, True)
    """

    def __init__(self, bits: bytearray, hashes: int) -> None:
        self._bits, self._hashes = bits, hashes

    @classmethod
    def of(cls, things: Iterable[str]) -> BloomFilter:
        """Return a filter that contains these names."""
        names = list(things)
        each, hashes = (16, 6) if len(names) <= _FEW_NAMES else (12, 5)
        made = cls(bytearray(max(_MIN_BYTES, -(-len(names) * each // 8))), hashes)
        for name in names:
            for bit in made._bits_of(name):
                made._bits[bit >> 3] |= 1 << (bit & 7)
        return made

    @classmethod
    def read(cls, text: object) -> BloomFilter | None:
        """Return the filter that ``str`` wrote; None if the text is not a filter."""
        if not isinstance(text, str) or ":" not in text:
            return None
        hashes, _, bits = text.partition(":")
        try:
            made = cls(bytearray(base64.b85decode(bits)), int(hashes))
        except (ValueError, binascii.Error):
            return None
        return made if made._bits and 1 <= made._hashes <= 8 else None

    def __str__(self) -> str:
        """Return the filter as text."""
        return f"{self._hashes}:{base64.b85encode(bytes(self._bits)).decode()}"

    def __contains__(self, name: str) -> bool:
        return all(self._bits[bit >> 3] & 1 << (bit & 7) for bit in self._bits_of(name))

    def _bits_of(self, name: str) -> Iterator[int]:
        """Yield the numbers of the bits that stand for a name."""
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8 * self._hashes).digest()
        for i in range(self._hashes):
            yield int.from_bytes(digest[8 * i : 8 * i + 8], "little") % (8 * len(self._bits))
