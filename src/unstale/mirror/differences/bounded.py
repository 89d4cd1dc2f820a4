"""Differences of contents from anybody: what is large, and every table, is compared in a child process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

from unstale.errors import InvalidInput
from unstale.mirror.contained import SMALL_BYTES, Children, LimitExceeded

from .pictures import is_picture, marked_picture, picture_difference
from .text import MAX_COMPARED_BYTES, difference, sizes_and_digests

_TIMEOUT_SECONDS = 30.0
_comparers = Children(2)
_of_pictures = Children(1, memory=1 << 30)
"""Two pictures of 20 million pixels have 120 MB, and some times that while they are compared."""


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
    if is_picture(media_type) and find_spec("PIL") is not None:
        return _told(partial(picture_difference, old, new), old, new, _of_pictures)
    work = partial(difference, old, new, media_type, lines=lines, table=table)
    if select is not None:
        work = partial(_difference_of_parts, select, old, new, media_type, lines)
    small = len(old) + len(new) <= SMALL_BYTES
    if not table and (small or max(len(old), len(new)) > MAX_COMPARED_BYTES):
        return work()
    return _told(work, old, new, _comparers)


def bounded_picture(old: bytes, new: bytes) -> bytes:
    """Return a picture that shows what is different between two; `InvalidInput` if it takes too much."""
    try:
        return _of_pictures.wait(partial(marked_picture, old, new), timeout=_TIMEOUT_SECONDS)
    except LimitExceeded as error:
        raise InvalidInput(f"the pictures were not compared: {error}") from None


def _told(work: Callable[[], str], old: bytes, new: bytes, children: Children) -> str:
    """Return what a child process says, or why it cannot."""
    try:
        return children.wait(work, timeout=_TIMEOUT_SECONDS)
    except (LimitExceeded, InvalidInput) as error:
        return f"{sizes_and_digests(old, new)}\nThey were not compared: {error}."


def _difference_of_parts(select: Select, old: bytes, new: bytes, media_type: str, lines: int) -> str:
    """Return the difference of the parts that count; of all if one of them has no such part."""
    before, after = select(old, media_type), select(new, media_type)
    if before is None or after is None:
        return difference(old, new, media_type, lines=lines)
    if before == after:
        return "no difference in the part that counts"
    return difference(before, after, "text/plain; charset=utf-8", lines=lines)
