"""What files of others may name: pages, feeds and sitemaps of the web, unless the user allows more.

A list, a table or an archive may come from a stranger, and each element that it names is polled, copied and
shown. A file of this machine, a page of the private network, a table of a database and a variable of the
environment in an option (which a poll would send to whichever host the stranger named) are there only for who
may name them. Nor do rules give secrets to what a stranger names, as each poll would act in the name of the
user. A function (``python:NAME``) is one that the process itself gave that name, so it needs no leave.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from unstale.errors import InvalidInput
from unstale.mirror.source import Json

from .http.private_addresses import named_private
from .http.urls import host_of

ENVIRONMENT = "environment"
"""The word that allows options with variables of the environment."""
PRIVATE = "private"
"""The word that allows hosts of the private network."""
SECRETS = "secrets"
"""The word that gives what a file names the headers and other secrets of rules, as if the user named it."""
VALIDATORS = "validators"
"""The word that allows an archive to say with what the next poll asks whether its copies have changed."""
_ALWAYS_ALLOWED = frozenset({"http", "python"})
_ACTING = frozenset({"click", "login"})
"""Options of rendered pages."""
_DOCUMENTS = frozenset({"feed", "sitemap"})
"""They are fetched as pages or read as files, as their keys say."""


def check_allowed(key: str, source: str, options: Mapping[str, Json], allow: Collection[str]) -> None:
    """Raise `unstale.InvalidInput` for an element that a file must not bring.

    Parameters
    ----------
    key
        As its source made it.
    source
        The name of its source.
    options
        What the file says to the source.
    allow
        Names of sources that are allowed besides the web, ``private``, ``environment`` and ``secrets``; other
        words mean nothing here.

    >>> check_allowed("https://example.org/", "http", {}, allow=())
    >>> check_allowed("/etc/passwd", "feed", {}, allow=())
    Traceback (most recent call last):
    unstale.errors.InvalidInput: '/etc/passwd' is polled by the source file, and files bring pages of the web
    only; if you trust this one, say --allow file
    """
    needed = source
    if source in _DOCUMENTS:
        needed = "http" if key.startswith(("http://", "https://")) else "file"
    if needed not in _ALWAYS_ALLOWED and needed not in allow:
        raise InvalidInput(
            f"{key!r} is polled by the source {needed}, and files bring pages of the web only; "
            f"if you trust this one, say --allow {needed}"
        )
    if needed in {"http", "browser"} and PRIVATE not in allow and named_private(host_of(key)):
        raise InvalidInput(
            f"{key!r} is on a private network, where the author of a file could make the mirror ask for what "
            f"nobody outside may see; if you trust this file, say --allow {PRIVATE}"
        )
    if SECRETS not in allow and (acts := sorted(_ACTING & options.keys())):
        raise InvalidInput(
            f"{key!r} has the option {acts[0]}, with which polls act in the name of the user; if you trust "
            f"this file, say --allow {SECRETS}"
        )
    if ENVIRONMENT not in allow and "${" in json.dumps(options, ensure_ascii=False):
        raise InvalidInput(
            f"{key!r} has an option with a variable of the environment (${{...}}), which polls would send "
            f"to its source; if you trust this file, say --allow {ENVIRONMENT}"
        )
