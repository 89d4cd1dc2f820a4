"""The options of a page.

``change``, ``selector`` and ``ignore`` say what counts as a change (see `fingerprint`). With
``conditional = false`` requests have no conditions, for servers that answer 304 when they should not.
``headers`` go with each request to the host of the page, and to no other host. In their values ``${NAME}`` is
that variable of the environment; it is put in when the request is made, so that the store does not have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any

from unstale.errors import InvalidInput
from unstale.mirror.secrets import expanded
from unstale.mirror.settings import Settings
from unstale.mirror.source import Json
from unstale.mirror.sources.option_values import truth

from .fingerprint import check_content_options

OPTIONS = ("change", "selector", "ignore", "threshold", "conditional", "headers", "links")
"""Names of the options of a page."""

_HEADERS_OF_UNSTALE = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "if-match", "if-modified-since",
    "if-none-match", "if-range", "if-unmodified-since", "range", "te", "trailer", "transfer-encoding",
    "upgrade",
})  # fmt: skip
"""Headers that users cannot set."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_options(options: Mapping[str, Json]) -> None:
    """Raise `InvalidInput` if a page cannot have these options.

    An unknown option may be meant for another source, unless it looks like a misspelt option of a page.

    >>> check_options({"selctor": "main"})
    Traceback (most recent call last):
    unstale.errors.InvalidInput: 'selctor' is not an option of pages; did you mean 'selector'?
    """
    for name in options:
        if name not in OPTIONS and (near := get_close_matches(name, OPTIONS, n=1, cutoff=0.75)):
            raise InvalidInput(f"{name!r} is not an option of pages; did you mean {near[0]!r}?")
    check_content_options(options)
    is_conditional(options)
    own_headers(options)
    if "links" in options:
        from .links import LinkOptions

        LinkOptions.of(options)


def is_conditional(options: Mapping[str, Json]) -> bool:
    """Tell whether requests have conditions."""
    return truth("conditional", options.get("conditional", True))


def own_headers(options: Mapping[str, Json]) -> dict[str, str]:
    """Return the headers for this page."""
    headers = options.get("headers")
    if headers is None:
        return {}
    if not isinstance(headers, Mapping):
        raise InvalidInput(f"headers must be a table of names and values; it is a {type(headers).__name__}")
    return checked_headers(headers)


def checked_headers(headers: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers; raise `InvalidInput` if one of them cannot be sent."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise InvalidInput(f"headers: {name!r} is not the name of a header")
        if name.lower() in _HEADERS_OF_UNSTALE:
            raise InvalidInput(f"headers: {name!r} is set by unstale and cannot be given")
        if name.lower() == "user-agent":
            raise InvalidInput("headers: 'User-Agent' is set by user_agent, in the section [http]")
        if not isinstance(value, str) or not value.isprintable():
            raise InvalidInput(f"headers: the value of {name!r} must be text of one line")
    return dict(headers)


def expanded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers with the variables of the environment that they name; raise `InvalidInput`."""
    sent = {name: expanded(f"headers: {name}", value) for name, value in headers.items()}
    for name, value in sent.items():
        if not value.isprintable():
            raise InvalidInput(
                f"headers: the value of {name!r} must be text of one line, with its variables, too"
            )
    return sent


def user_agent(settings: Settings) -> str:
    """Return the value of User-Agent."""
    agent = settings.http.user_agent
    if agent is None:
        agent = f"unstale/{version('unstale')}" + (f" (+{settings.contact})" if settings.contact else "")
    if not agent.strip() or not agent.isprintable():
        raise InvalidInput(f"user_agent and contact must be text of one line; they make {agent!r}")
    return agent
