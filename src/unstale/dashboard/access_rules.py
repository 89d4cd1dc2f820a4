"""Which tokens there are, what each is for, and by which names this server may be called."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from unstale.errors import InvalidInput

LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
ANY = "*"
"""Instead of names of hosts: whatever name leads here."""
SCOPES = frozenset({"read", "lease", "edit"})
"""What a token can be for.

read    look at everything: pages, copies, the API, metrics
lease   take polls and report what they saw (fetchers)
edit    add and remove elements, give hints, set the budget
"""
PROCESS_SECRET = secrets.token_bytes(32)
_SHORTEST_TOKEN_LETTERS = 16
_MOST_TOKENS = 100
_FETCHER_PATHS = ("/api/leases", "/api/outcomes", "/api/contents/")
_READING_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class ScopedToken:
    """A token that is not for everything."""

    token: str = field(repr=False)
    scopes: frozenset[str] = SCOPES

    def __post_init__(self) -> None:
        """Insist on a token that cannot be guessed, for something that there is."""
        _check_token(self.token)
        if not self.scopes or self.scopes - SCOPES:
            raise InvalidInput(
                f"a token must be for some of read, lease and edit; one is for {sorted(self.scopes)}"
            )


@dataclass(frozen=True)
class AccessRules:
    """What a request must show: a token, or none, and the name of one of these hosts."""

    token: str | None = field(default=None, repr=False)
    """The token that is for everything."""
    hosts: frozenset[str] = LOOPBACK
    """In lower case, without ports; `ANY` only together with a token."""
    more: tuple[ScopedToken, ...] = ()
    """Other tokens, each for some purposes."""

    def __post_init__(self) -> None:
        """Insist on tokens that cannot be guessed, and can be told apart."""
        if self.token is not None:
            _check_token(self.token)
        elif ANY in self.hosts and not self.more:
            raise InvalidInput("without a token the hosts that may be named must be given")
        tokens = [one.token for one in self.tokens]
        if len(set(tokens)) < len(tokens):
            raise InvalidInput("a token is given twice; each must be another")

    @property
    def tokens(self) -> tuple[ScopedToken, ...]:
        """All tokens; none if none is needed."""
        return (*(() if self.token is None else (ScopedToken(self.token),)), *self.more)

    @property
    def needs_token(self) -> bool:
        """Whether requests must show a token."""
        return self.token is not None or bool(self.more)

    @property
    def cookie(self) -> str:
        """What the cookie of one who has given the token for everything holds."""
        return cookie_of(self.token or "")

    def scopes_of_token(self, given: str) -> frozenset[str]:
        """Return what a token is for; nothing, if it is none of ours."""
        return self._scopes(given, [(one.token, one.scopes) for one in self.tokens])

    def scopes_of_cookie(self, given: str) -> frozenset[str]:
        """Return what the one may do whose browser has this cookie."""
        return self._scopes(given, [(cookie_of(one.token), one.scopes) for one in self.tokens])

    def place_of_token(self, given: str, cookies: Sequence[str]) -> int:
        """Return which token is given, or was by the one whose browser has these cookies; -1: none."""
        place = -1
        for i, one in enumerate(self.tokens):
            known = same(given, one.token) or any(same(text, cookie_of(one.token)) for text in cookies)
            place = i if known else place
        return place

    @staticmethod
    def _scopes(given: str, secret: Sequence[tuple[str, frozenset[str]]]) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for text, scopes in secret:  # all of them, so that the time tells nothing
            found |= scopes if same(given, text) else frozenset()
        return found


def cookie_of(token: str) -> str:
    """Return what the cookie of one who has given a token holds: not the token itself.

    Who guesses the token cannot make it, since it depends on this process as well.
    """
    return hmac.new(PROCESS_SECRET + token.encode(), b"unstale cookie", hashlib.sha256).hexdigest()


def scope_needed(method: str, path: str) -> str:
    """Return for which purpose a token must be to send such a request.

    >>> scope_needed("GET", "/api/status"), scope_needed("POST", "/api/leases")
    ('read', 'lease')
    """
    if path.startswith(_FETCHER_PATHS):
        return "lease"
    return "read" if method in _READING_METHODS else "edit"


def read_tokens(text: str, where: str) -> tuple[ScopedToken, ...]:
    """Return the tokens of a file: one in each line, and what it is for if that is not everything.

    >>> [sorted(one.scopes) for one in read_tokens("a-long-secret-text read, lease", "tokens.txt")]
    [['lease', 'read']]
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        token, _, rest = line.strip().partition(" ")
        if not token or token.startswith("#"):
            continue
        scopes = frozenset(rest.replace(",", " ").split()) or SCOPES
        try:
            found.append(ScopedToken(token, scopes))
        except InvalidInput as error:
            raise InvalidInput(f"{where}, line {number}: {error}") from None
    if not found:
        raise InvalidInput(f"{where}: there is no token in it; it must have one in its first line")
    if len(found) > _MOST_TOKENS:
        raise InvalidInput(f"{where}: it has {len(found):,} tokens; {_MOST_TOKENS} are allowed")
    return tuple(found)


def same(one: str, other: str) -> bool:
    """Compare secrets in a time that says nothing about them."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _check_token(token: str) -> None:
    if not (len(token) >= _SHORTEST_TOKEN_LETTERS and token.isascii() and token.isprintable()):
        raise InvalidInput(
            f"a token must have at least {_SHORTEST_TOKEN_LETTERS} printable ASCII characters; make one "
            "with: python3 -c 'import secrets; print(secrets.token_urlsafe())'"
        )
