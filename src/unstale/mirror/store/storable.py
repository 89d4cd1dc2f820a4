"""What any store can keep: texts without NUL and half characters, and keys that fit into an index.

Discovery and imports make keys out of what others write, and check them here before they meet the store.
"""

from __future__ import annotations

from unstale.errors import InvalidInput

LONGEST_KEY_BYTES = 2048
"""An index of PostgreSQL takes no more than 2704."""


def text_of(text: str) -> str:
    r"""Return a text as any database takes it, whatever a server put into it.

    >>> text_of("a\0b\ud800")
    'a�b?'
    """
    if text.isascii() and "\0" not in text:
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def check_key(key: str) -> None:
    """Raise `InvalidInput` for a key that cannot be kept: too long, or no text."""
    if not key or text_of(key) != key:
        raise InvalidInput(f"a key must be some text, without NUL and half characters; it is {key[:80]!r}")
    if len(key) * 4 > LONGEST_KEY_BYTES and len(key.encode()) > LONGEST_KEY_BYTES:
        raise InvalidInput(
            f"a key can have {LONGEST_KEY_BYTES} bytes at most; {key[:80]!r}... has {len(key.encode())}"
        )
