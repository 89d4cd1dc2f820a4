"""Who reads: the name of a user by a header, a cookie or the token of a request, as the store may keep it.

`unstale.mirror.reader_names` says what is kept of a name. Of cookies it is a hash in any case.
"""

from __future__ import annotations

import base64

from starlette.requests import Request

from unstale.mirror.mirror import Mirror
from unstale.mirror.reader_names import kept_name, reader_secret

_LONGEST = 4096


def secret_of(mirror: Mirror) -> bytes:
    """Return the secret by which names of users are hashed."""
    with mirror.store.begin() as t:
        return reader_secret(t)


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
    return kept_name(said, secret, plain=kind in {"header", "token"})


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
