"""Who reads, as the store may keep it: names that operators give, and hashes of all others.

Names such as `billing` and `team-a` are kept as they are. Anything that could be the address of a person (of
mail, of a machine) is kept as a hash with a secret of the mirror: the same user has the same hash, and nobody
can tell from it who that is.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets

from unstale.mirror.store.contract import Transaction

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII).fullmatch
_HASH_LETTERS = 16


def reader_secret(t: Transaction) -> bytes:
    """Return the secret by which names of users are hashed; it is made when it is asked for first."""
    found = t.state().get("reader_secret")
    if found is None:
        found = secrets.token_bytes(32)
        t.keep({"reader_secret": found})
    return found


def kept_name(said: str, secret: bytes, *, plain: bool = True) -> str:
    """Return the name of a user as the store keeps it; ``plain``: whether plain names are kept as they are.

    >>> kept_name("billing", b"x"), kept_name("ann@example.org", b"x")
    ('billing', '#0f880c3fc01e3626')
    """
    if plain and _PLAIN(said):
        return said
    return "#" + hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()[:_HASH_LETTERS]
