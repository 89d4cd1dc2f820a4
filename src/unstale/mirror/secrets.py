"""Which options of elements may be secrets, and who may cause them to be sent.

A secret is a header, unless its name is known to be harmless, or a value whose name says so (``password``,
``token``, ``key``). The store keeps ``${TOKEN}`` as it was written; the variable of the environment takes its
place when the request is made.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from unstale.errors import InvalidInput

from .source import Json

HARMLESS_HEADERS = frozenset(
    {"accept", "accept-language", "cache-control", "dnt", "from", "pragma", "sec-gpc"}
)
"""Headers that hold no secrets, in small letters; any other may be a secret of the host that it is for."""
_SECRET_NAME = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|(?:^|[_-])key|credential|auth(?!or)|cookie|signature|connection_string",
    re.IGNORECASE,
)
_LOGIN_OPTIONS = frozenset({"login", "logged_in"})
_SHORTEST_SECRET_CHARACTERS = 6
"""Shorter values of headers are no secrets that could be kept."""
_VARIABLE = re.compile(r"\$\{([^}]*)\}?")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^/?#]*")


def expanded(name: str, value: str) -> str:
    """Replace ``${NAME}`` by that variable of the environment.

    >>> expanded("[databases.x] url", "sqlite:///${NO_SUCH_VARIABLE}")
    Traceback (most recent call last):
    unstale.errors.InvalidInput: [databases.x] url needs the environment variable NO_SUCH_VARIABLE, which is
        not set; set it before you start unstale
    """
    if "${" not in value:
        return value

    def value_of(found: re.Match[str]) -> str:
        variable = found[1]
        if not re.fullmatch(r"[A-Za-z_]\w*", variable, re.ASCII) or not found[0].endswith("}"):
            raise InvalidInput(f"{name} must name variables of the environment like ${{PASSWORD}}")
        if variable not in os.environ:
            raise InvalidInput(
                f"{name} needs the environment variable {variable}, which is not set; "
                "set it before you start unstale"
            )
        return os.environ[variable]

    return _VARIABLE.sub(value_of, value)


def is_template(value: object) -> bool:
    """Tell whether a value names a variable of the environment.

    >>> is_template("Bearer ${TOKEN}"), is_template("Bearer abc")
    (True, False)
    """
    return isinstance(value, str) and _VARIABLE.search(value) is not None


def literal_secrets(options: Mapping[str, Json]) -> list[str]:
    """Return the names of headers that may be secrets, and are written out.

    >>> literal_secrets({"headers": {"X-Api": "1", "Cookie": "${COOKIE}", "Accept": "text/html"}})
    ['X-Api']
    """
    headers = options.get("headers")
    return [
        name
        for name, value in (headers.items() if isinstance(headers, dict) else ())
        if name.lower() not in HARMLESS_HEADERS and not is_template(value)
    ]


def origin(key: str) -> str:
    """Return who speaks at a key: scheme, host and port of an address; ``here`` for whatever is no address.

    >>> origin("https://example.org:8443/a"), origin("zip://a::s3://bucket/b.zip"), origin("/srv/feed.xml")
    ('https://example.org:8443', 's3://bucket', 'here')
    """
    found = _ADDRESS.match(key.rpartition("::")[2])
    return found[0] if found else "here"


def secret_values(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be told of headers that are sent: their values, and the credentials in them.

    >>> secret_values({"Authorization": "Bearer abcdefgh", "Accept-Language": "de", "X-Flag": "1"})
    ('Bearer abcdefgh', 'abcdefgh')
    """
    texts = [text for name, text in headers.items() if name.lower() not in HARMLESS_HEADERS]
    parts = [part for text in texts for part in (text, text.rpartition(" ")[2])]
    return tuple(dict.fromkeys(part for part in parts if len(part) >= _SHORTEST_SECRET_CHARACTERS))


def hidden(value: Json, secrets: Collection[str]) -> Json:
    """Return a value as a server told it, with stars for what was sent to it in secret.

    >>> hidden({"reason": ["Wrong token abcdefgh"]}, ["abcdefgh"])
    {'reason': ['Wrong token ***']}
    """
    if isinstance(value, str):
        for secret in secrets:
            value = value.replace(secret, "***")
        return value
    if isinstance(value, dict):
        return {str(hidden(name, secrets)): hidden(inner, secrets) for name, inner in value.items()}
    return [hidden(inner, secrets) for inner in value] if isinstance(value, list) else value


def for_strangers(options: Mapping[str, Json]) -> dict[str, Json]:
    """Return what rules say of what strangers named: no secrets, and no login, in which a poll would act.

    >>> for_strangers({"login": "shop", "logged_in": "#account", "wait": "main"})
    {'wait': 'main'}
    """
    return {name: value for name, value in without_secrets(options).items() if name not in _LOGIN_OPTIONS}


def without_secrets(options: Mapping[str, Json]) -> dict[str, Json]:
    """Return options without what may be a secret; a table of which nothing is left goes, too.

    >>> without_secrets({"headers": {"Accept-Language": "de", "X-Api": "1"}, "storage": {"secret": "s"}})
    {'headers': {'Accept-Language': 'de'}}
    """
    kept: dict[str, Json] = {}
    for name, value in options.items():
        left = value
        if name == "headers":
            headers = value if isinstance(value, dict) else {}
            left = {one: text for one, text in headers.items() if one.lower() in HARMLESS_HEADERS}
        elif isinstance(value, dict):
            left = without_secrets(value)
        elif isinstance(value, str) and _SECRET_NAME.search(name):
            continue
        if left or not value:
            kept[name] = left
    return kept
