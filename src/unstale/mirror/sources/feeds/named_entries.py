"""The entries that feeds and sitemaps name, and the options that choose among them.

Options of both:

discover    true: each entry becomes an element (default). false: an entry only gets hints, if it is already
            an element. A pattern, or a list of patterns: only entries that match become elements.
only        a pattern, or a list: entries that do not match are left out.
hosts       ``own``: addresses of other hosts are left out, as the protocol of sitemaps demands (default for
            sitemaps). ``any``: they are not (default for feeds).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256

from unstale.errors import InvalidInput
from unstale.mirror.source import Json
from unstale.mirror.sources.http.urls import site_of
from unstale.mirror.sources.option_values import discovery, patterns_of


@dataclass(frozen=True, slots=True)
class NamedEntry:
    """One entry of a feed or a sitemap."""

    name: str
    """Its address; its title if it has no address."""
    state: str
    """Differs from the last one if the entry has changed."""
    time: float | None = None
    """When it changed last, as the document says (seconds since 1970)."""
    source: str = "http"


@dataclass(frozen=True, slots=True)
class NamedEntries:
    """All entries of a feed or a sitemap."""

    entries: Sequence[NamedEntry]
    complete: bool
    """Whether the document names all elements of its site."""
    meta: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    """Chooses the entries that count."""

    discover: bool
    wanted: tuple[str, ...]
    only: tuple[str, ...]
    own_host: bool
    nested: int
    """How many sitemap indexes have led to this document; there is a limit."""
    given: Mapping[str, Json]
    """The options from which this was made."""
    rest: Mapping[str, Json]
    """All other options, for the source that fetches the document."""

    @classmethod
    def of(cls, options: Mapping[str, Json], *, own_host: bool) -> EntryFilter:
        """Return the filter that the options describe, or raise `InvalidInput`."""
        discover, wanted = discovery(options)
        hosts = options.get("hosts", "own" if own_host else "any")
        if hosts not in ("own", "any"):
            raise InvalidInput(f"hosts must be 'own' or 'any'; it is {hosts!r}")
        nested = options.get("nested", 0)
        if not isinstance(nested, int):
            raise InvalidInput(f"nested must be a whole number; it is {nested!r}")
        names = {"discover", "hosts", "nested", "only"}
        return cls(
            discover=discover,
            wanted=wanted,
            only=patterns_of("only", options.get("only")),
            own_host=hosts == "own",
            nested=nested,
            given={name: value for name, value in options.items() if name in names},
            rest={name: value for name, value in options.items() if name not in names},
        )

    @property
    def digest(self) -> str:
        """Differs if any option differs, those for the fetching source included."""
        text = json.dumps([dict(self.given), dict(self.rest)], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    def counts(self, key: str, hosts: frozenset[str]) -> bool:
        """Tell whether an entry counts; ``hosts`` are those of the document itself."""
        if self.own_host and hosts and site_of(key) not in hosts:
            return False
        return not self.only or any(fnmatchcase(key, pattern) for pattern in self.only)

    def adds(self, key: str) -> bool:
        """Tell whether an entry becomes an element."""
        return self.discover and (not self.wanted or any(fnmatchcase(key, one) for one in self.wanted))
