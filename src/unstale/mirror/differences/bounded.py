"""Differences of contents from anybody: what is large, and every table, is compared in a child process."""

from __future__ import annotations

from functools import partial

from unstale.mirror.contained import SMALL_BYTES, Children, LimitExceeded

from .text import MAX_COMPARED_BYTES, difference, sizes_and_digests

_TIMEOUT_SECONDS = 30.0
_comparers = Children(2)


def bounded_difference(
    old: bytes, new: bytes, media_type: str, *, lines: int = 200, table: bool = False
) -> str:
    """Return the difference; only sizes and digests, and why, if it takes too much memory or time.

    Parameters
    ----------
    old, new, media_type, lines
        See `difference`.
    table
        Whether the mirror itself has written the contents, as tables in Parquet.

    Examples
    --------
    >>> print(bounded_difference(b"one", b"two", "text/plain"))
    @@ -1 +1 @@
    -one
    +two
    """
    work = partial(difference, old, new, media_type, lines=lines, table=table)
    small = len(old) + len(new) <= SMALL_BYTES
    if not table and (small or max(len(old), len(new)) > MAX_COMPARED_BYTES):
        return work()
    try:
        return _comparers.wait(work, timeout=_TIMEOUT_SECONDS)
    except LimitExceeded as error:
        return f"{sizes_and_digests(old, new)}\nThey were not compared: {error}."
