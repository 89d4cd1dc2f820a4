"""The fingerprint of rows, which does not depend on their order.

Each row gets a 64-bit number that mixes all its values and their columns. These numbers are added up, in two
different ways. The fingerprint is the digest of the two sums, the number of rows, and the names and types of
the columns. It notices accidental changes; it does not resist somebody who wants to hide one.
"""

from __future__ import annotations

from hashlib import sha256
from json import dumps

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_OTHER = np.uint64(0xA0761D6478BD642F)
_compiled = njit(cache=True, nogil=True, error_model="numpy")


def _mix_in_python(h: np.uint64) -> np.uint64:
    """Spread every bit over all others (the finish of splitmix64)."""
    h += _GOLDEN
    h = (h ^ (h >> np.uint64(30))) * _FIRST
    h = (h ^ (h >> np.uint64(27))) * _SECOND
    return h ^ (h >> np.uint64(31))


_mix = _compiled(_mix_in_python)


def _words_in_python(rows: NDArray[np.uint64], words: NDArray[np.uint64], valid: NDArray[np.bool_]) -> None:
    """Mix in a column of values of one or more words each."""
    for i in range(rows.size):
        h = rows[i]
        if valid[i]:
            for j in range(words.shape[1]):
                h = _mix(h ^ words[i, j])
        else:
            h = _mix(h ^ _NULL)
        rows[i] = _mix(h)


_words = _compiled(_words_in_python)


def _bytes_in_python(
    rows: NDArray[np.uint64], data: NDArray[np.uint8], ends: NDArray[np.int64], valid: NDArray[np.bool_]
) -> None:
    """Mix in a column of texts or bytes; value i goes from ends[i] to ends[i + 1]."""
    for i in range(rows.size):
        h = rows[i]
        if valid[i]:
            at, end = ends[i], ends[i + 1]
            h = _mix(h ^ (np.uint64(end - at) * _OTHER))
            while at < end:
                word = np.uint64(0)
                for k in range(min(8, end - at)):
                    word |= np.uint64(data[at + k]) << np.uint64(8 * k)
                h = (h ^ word) * _FIRST
                h ^= h >> np.uint64(32)
                at += 8
        else:
            h = _mix(h ^ _NULL)
        rows[i] = _mix(h)


_bytes = _compiled(_bytes_in_python)


def _sums_in_python(rows: NDArray[np.uint64]) -> tuple[np.uint64, np.uint64]:
    """Add rows up in two ways."""
    first = second = np.uint64(0)
    for i in range(rows.size):
        first += _mix(rows[i])
        second += _mix(rows[i] ^ _OTHER)
    return first, second


_sums = _compiled(_sums_in_python)


class RowSum:
    """The two sums over all rows, to which rows are added block by block."""

    def __init__(self) -> None:
        self.rows = 0
        self._first = self._second = 0

    def add(self, columns: list[pa.Array], count: int) -> None:
        """Add a block of rows: Arrow arrays of numbers, times, decimals, texts or bytes."""
        self.rows += count
        rows = np.zeros(count, np.uint64)
        for column in columns if count else ():
            _mix_in(rows, column)
        first, second = _sums(rows)
        self._first = (self._first + int(first)) % 2**64
        self._second = (self._second + int(second)) % 2**64

    def fingerprint(self, columns: list[tuple[str, str]]) -> str:
        """Return the fingerprint of all rows; ``columns`` are names and types."""
        said = dumps([columns, self.rows, self._first, self._second])
        return f"rows:{sha256(said.encode()).hexdigest()}"


def _mix_in(rows: NDArray[np.uint64], column: pa.Array) -> None:
    """Mix the values of a column into the numbers of the rows."""
    kind, start, count = column.type, column.offset, len(column)
    valid = (
        column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else np.ones(count, np.bool_)
    )
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        _, ends, data = column.buffers()
        places = np.frombuffer(ends, np.int32)[start : start + count + 1].astype(np.int64)
        octets = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        _bytes(rows, octets, places, valid)
        return
    if pa.types.is_floating(kind):
        numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64)
        numbers[np.isnan(numbers)] = np.nan
        words = numbers.view(np.uint64)
    elif pa.types.is_boolean(kind):
        words = column.cast("uint8").fill_null(0).to_numpy(zero_copy_only=False).astype(np.uint64)
    else:
        width = kind.bit_width // 8
        stored = np.frombuffer(column.buffers()[1], np.uint8)[start * width : (start + count) * width]
        if width < 8:
            words = stored.view(f"i{width}").astype(np.int64).view(np.uint64)
        else:
            words = stored.view(np.uint64).reshape(count, width // 8)
    _words(rows, words.reshape(count, -1), valid)
