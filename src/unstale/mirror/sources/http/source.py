"""Pages: elements that are polled over HTTP and HTTPS.

The key of a page is its address, written as `urls` says; its group is ``http:HOST``. If the last answer had
an ETag or a Last-Modified, a poll asks for the page on condition that it has changed. What a poll makes of
the answer:

=======================  =========  ==========================================================================
200, 203                 changed    with the decoded body and its fingerprint (see `fingerprint`)
304                      unchanged
404, 410                 gone
301, 302, 303, 307, 308  followed   ``moved`` if all of them are permanent (301, 308) and there is a page
429, 503                 failed     with ``wait`` for the whole group, if Retry-After says how long
all others, and trouble  failed     with the reason in words
robots.txt says no       refused
private address          refused    if a public one led there (see `private_addresses`)
=======================  =========  ==========================================================================

Options: see `options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, Source, Terms

from .options import check_options, checked_headers, expanded_headers, user_agent
from .urls import canonical, host_of

if TYPE_CHECKING:
    from .poll import Poller


def http_source(settings: Settings) -> Source:
    """Return the source of pages."""
    return HttpSource(settings)


class HttpSource:
    """The source of pages; ``poller`` is for tests."""

    def __init__(self, settings: Settings, poller: Poller | None = None) -> None:
        user_agent(settings)
        expanded_headers(checked_headers(settings.http.headers))
        self._settings, self._poller = settings, poller

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the address as it is written here, or raise `InvalidInput`."""
        if options:
            check_options(options)
        return canonical(text)

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Return ``http:HOST``, with the port if it is not the default one."""
        return f"http:{host_of(key, port=True)}"

    def warm_up(self) -> None:
        """Load what polls need: only they need what comes with aiohttp, which takes a quarter of a second."""
        self._loaded()

    def _loaded(self) -> Poller:
        """Return the poller, which is loaded when it is first asked for."""
        if self._poller is None:
            from .poll import Poller

            self._poller = Poller(self._settings)
        return self._poller

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Ask for a page."""
        found = await (self._poller or self._loaded()).poll(known, terms)
        if found.outcome != "changed" or "links" not in known.options:
            return found
        from .links import with_links

        return await with_links(found, known, private=self._settings.http.private)

    async def permitted(self, known: Known, terms: Terms) -> Found | None:
        """Return why a page must not be asked for; None if it may be. It is not asked for here."""
        return await self._loaded().permitted(known, terms)

    async def close(self) -> None:
        """Close all connections."""
        poller, self._poller = self._poller, None
        if poller is not None:
            await poller.close()
