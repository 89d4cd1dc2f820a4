"""Who reads: the name of a user by a header, a cookie or the token of a request, as the store may keep it.

Names that operators give (`billing`, `team-a`) are kept as they are. Anything that could be the address of a
person (of mail, of a machine), and every cookie, is kept as a hash with a secret of the mirror: the same user
has the same hash, and nobody can tell from it who that is.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets

from starlette.requests import Request

from unstale.mirror.mirror import Mirror

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}", re.ASCII).fullmatch
_HASH_LETTERS = 16
_LONGEST = 4096


def reader_secret(mirror: Mirror) -> bytes:
    """Return the secret by which names of users are hashed; it is made when it is asked for first."""
    with mirror.store.begin() as t:
        found = t.state().get("reader_secret")
        if found is None:
            found = secrets.token_bytes(32)
            t.keep({"reader_secret": found})
    return found


def reader_name(request: Request, users: str, secret: bytes) -> str | None:
    """Return the name of the user of a request, as the store keeps it; None if it tells of none.

    Parameters
    ----------
    request
        Of a copy.
    users
        What tells users apart: ``header:NAME``, ``cookie:NAME`` or ``token``.
    secret
        By which names are hashed.
    """
    kind, _, name = users.partition(":")
    if kind == "token":
        said = _name_beside_token(request)
    else:
        said = request.headers.get(name) if kind == "header" else request.cookies.get(name)
    if not said or len(said) > _LONGEST:
        return None
    if kind in {"header", "token"} and _PLAIN(said):
        return said
    return "#" + hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()[:_HASH_LETTERS]


def _name_beside_token(request: Request) -> str | None:
    """Return the user name whose password is the token, in Basic authentication; None if there is none."""
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, colon, _ = base64.b64decode(given.strip(), validate=True).decode().partition(":")
    except ValueError:
        return None
    return name if colon else None
