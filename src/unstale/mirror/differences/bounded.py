"""Differences of contents from anybody: what is large, and every table, is compared in a child process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from unstale.mirror.contained import SMALL_BYTES, Children, LimitExceeded

from .text import MAX_COMPARED_BYTES, difference, sizes_and_digests

_TIMEOUT_SECONDS = 30.0
_comparers = Children(2)


Select = Callable[[bytes, str], bytes | None]
"""Returns the part of a content that counts, as text, by its media type; None if all of it does."""


def bounded_difference(
    old: bytes,
    new: bytes,
    media_type: str,
    *,
    lines: int = 200,
    table: bool = False,
    select: Select | None = None,
) -> str:
    """Return the difference; only sizes and digests, and why, if it takes too much memory or time.

    Parameters
    ----------
    old, new, media_type, lines
        See `difference`.
    table
        Whether the mirror itself has written the contents, as tables in Parquet.
    select
        Returns the part that counts, if only that is to be compared; it can be pickled.

    Examples
    --------
    >>> print(bounded_difference(b"one", b"two", "text/plain"))
    @@ -1 +1 @@
    -one
    +two
    """
    work = partial(difference, old, new, media_type, lines=lines, table=table)
    if select is not None:
        work = partial(_difference_of_parts, select, old, new, media_type, lines)
    small = len(old) + len(new) <= SMALL_BYTES
    if not table and (small or max(len(old), len(new)) > MAX_COMPARED_BYTES):
        return work()
    try:
        return _comparers.wait(work, timeout=_TIMEOUT_SECONDS)
    except LimitExceeded as error:
        return f"{sizes_and_digests(old, new)}\nThey were not compared: {error}."


def _difference_of_parts(select: Select, old: bytes, new: bytes, media_type: str, lines: int) -> str:
    """Return the difference of the parts that count; of all if one of them has no such part."""
    before, after = select(old, media_type), select(new, media_type)
    if before is None or after is None:
        return difference(old, new, media_type, lines=lines)
    if before == after:
        return "no difference in the part that counts"
    return difference(before, after, "text/plain; charset=utf-8", lines=lines)
