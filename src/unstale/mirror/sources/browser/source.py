"""Pages that are rendered: the source ``browser``, by the address of a page.

A page is fetched as any other first (see `unstale.mirror.sources.http`). Once, and again now and then, it is
also rendered: if most of the text is on the page only then, the page is a shell, and is rendered from then
on; otherwise it never is. What is learned stands in the validators of the element. With ``render =
"always"``, or if there is something to wait for, to click, a login or a screenshot, it is always rendered.

A rendered poll costs the bytes that the browser moved, and ``[browser] second`` bytes for each second that it
took, so that it has its price in a budget of bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.contained import SMALL_BYTES, LimitExceeded, parsers
from unstale.mirror.secrets import secret_values
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, Source, Terms
from unstale.mirror.sources.http.amounts import unless_enough
from unstale.mirror.sources.http.fingerprint import NoContent, fingerprint_of, visible_text
from unstale.mirror.sources.http.options import expanded_headers, own_headers
from unstale.mirror.sources.http.poll import Poller, without_secrets_sent
from unstale.mirror.sources.http.private_addresses import Lookup, is_public, look_up, named_private
from unstale.mirror.sources.http.source import HttpSource
from unstale.mirror.sources.http.urls import host_of

from .chromium import Chromium
from .guarded_proxy import GuardedProxy
from .options import RenderOptions
from .rendering import PageRenderer, Rendered, Unrendered, check_logins

_SHELL_SHARE = 0.7
"""A page is a shell if it has less of the words that are there once it is rendered."""
_LOOK_AGAIN = 30
"""Polls after which it is looked again whether a page is a shell."""
_WORD = re.compile(r"\w+")


def browser_source(settings: Settings) -> Source:
    """Return the source of rendered pages."""
    return BrowserSource(settings)


class BrowserSource:
    """The source of rendered pages; ``lookup`` and ``public`` are for tests."""

    def __init__(
        self, settings: Settings, *, lookup: Lookup = look_up, public: Callable[[str], bool] = is_public
    ) -> None:
        check_logins(settings)
        self._settings, self._lookup, self._public = settings, lookup, public
        self._pages = HttpSource(settings, Poller(settings, lookup=lookup, public=public))
        self._threads = ThreadPoolExecutor(8, thread_name_prefix="unstale-browser")
        self.chromium = Chromium(settings)
        self._renderer = PageRenderer(settings, self.chromium)

    def key(self, text: str, options: Mapping[str, Json]) -> str:
        """Return the address as it is written here, or raise `InvalidInput`."""
        RenderOptions.of(options)
        return self._pages.key(text, {})

    def group(self, key: str, options: Mapping[str, Json]) -> str:
        """Return the same group as for pages that are not rendered."""
        return self._pages.group(key, options)

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Poll a page, and render it if it must be."""
        try:
            options = RenderOptions.of(known.options)
        except (InvalidInput, MissingExtra) as error:
            return Found("failed", str(error))
        if options.always:
            refused = await self._pages.permitted(known, terms)
            return refused or await self._rendered(known, terms, options)
        return await self._static_first(known, terms, options)

    async def _static_first(self, known: Known, terms: Terms, options: RenderOptions) -> Found:
        kept = dict(known.validators)
        learned = kept.get("shell")
        polls = kept.get("polls")
        polls = polls if isinstance(polls, int) else 0
        due = not isinstance(learned, bool) or polls % _LOOK_AGAIN == 0
        if learned is True and not due:
            refused = await self._pages.permitted(known, terms)
            found = refused or await self._rendered(known, terms, options)
            return _learned(found, kept, is_shell=True, polls=polls + 1)
        static = kept.get("static")
        plain = replace(known, validators=static if isinstance(static, dict) and not due else {})
        found = await self._pages.poll(plain, terms)
        if found.outcome != "changed":
            return (
                found if found.validators is None else _learned(found, kept, is_shell=False, polls=polls + 1)
            )
        if not due:
            return _learned(found, kept, is_shell=False, polls=polls + 1)
        rendered = await self._rendered(known, replace(terms, start=None), options)
        if rendered.outcome != "changed":  # it is known as it was fetched, and that it cannot be rendered
            note = f"rendered: {rendered.detail}" if rendered.detail else ""
            shown = replace(found, detail="; ".join(filter(None, (found.detail, note))))
            return _learned(
                replace(shown, traffic=found.traffic + rendered.traffic), kept, is_shell=False, polls=0
            )
        shell = await _compared(_bytes(found), _bytes(rendered))
        chosen, other = (rendered, found) if shell else (found, rendered)
        if other.body is not None and not isinstance(other.body, bytes):
            other.body.unlink(missing_ok=True)
        chosen.traffic = found.traffic + rendered.traffic
        return _learned(chosen, kept, is_shell=shell, polls=1)

    async def _rendered(self, known: Known, terms: Terms, options: RenderOptions) -> Found:
        """Render a page, once there is room in the browser."""
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(terms.timeout):
                await self.chromium.slots.acquire()
        except TimeoutError:
            return Found("failed", f"not begun within {terms.timeout:g} seconds: the browser has no room")
        try:
            left = terms.timeout - (asyncio.get_running_loop().time() - began)
            found = await self._render(known, replace(terms, timeout=max(left, 1.0)), options)
            return without_secrets_sent(found, _secrets_of(known))
        finally:
            self.chromium.slots.release()

    async def _render(self, known: Known, terms: Terms, options: RenderOptions) -> Found:
        limits, host = self._settings.browser, host_of(known.key)
        if terms.start is not None:
            terms.start()
        traffic, refused = 0, ""
        loop = asyncio.get_running_loop()
        began = loop.time()

        def cost() -> int:
            return traffic + int(limits.second * (loop.time() - began))

        try:
            headers = expanded_headers(own_headers(known.options)) if "headers" in known.options else {}
            async with (
                asyncio.timeout(min(limits.seconds, terms.timeout)),
                GuardedProxy(
                    inside=host if named_private(host) else "", private=self._settings.http.private,
                    max_bytes=limits.bytes, lookup=self._lookup, public=self._public, threads=self._threads,
                    spend=terms.spend,
                ) as proxy,
            ):  # fmt: skip
                try:
                    got = await self._renderer.render(
                        known.key, options, proxy=proxy.address, max_size=terms.max_size, headers=headers
                    )
                finally:
                    traffic = proxy.traffic
                    if proxy.too_much:
                        refused = f"it asks for more than {limits.bytes:,} bytes"
                    elif proxy.refused and host in proxy.refused:
                        refused = f"{host} is a private address"
        except TimeoutError:
            words = refused or f"not rendered within {min(limits.seconds, terms.timeout):g} seconds"
            return Found("failed", words, traffic=cost())
        except (Unrendered, InvalidInput, MissingExtra) as error:
            outcome = "refused" if refused.endswith("private address") else "failed"
            return Found(outcome, refused or str(error), traffic=cost())  # type: ignore[arg-type]
        if refused:
            outcome = "refused" if refused.endswith("private address") else "failed"
            return Found(outcome, refused, traffic=cost())  # type: ignore[arg-type]
        return await self._found(known, options, got, cost())

    async def _found(self, known: Known, options: RenderOptions, got: Rendered, cost: int) -> Found:
        """Return what a rendered page means."""
        said = f"{got.status} {got.status_text}".strip()
        if got.status in {404, 410}:
            return Found("gone", said, traffic=cost)
        if not 200 <= got.status < 300:
            return Found("failed", said, traffic=cost)
        detail = "; ".join((f"{said}, rendered in {got.seconds:.1f} s", *got.notes))
        if got.pixels:
            fingerprint, notes = f"pixels:{got.pixels}", ""
        else:
            try:
                wanted = options.definition
                if len(got.body) > SMALL_BYTES:
                    made = await parsers.run(fingerprint_of, wanted, got.body, got.media_type)
                else:
                    made = await asyncio.to_thread(fingerprint_of, wanted, got.body, got.media_type)
            except (NoContent, LimitExceeded, InvalidInput, MissingExtra) as error:
                return Found("failed", str(error)[:300], traffic=cost)
            fingerprint = unless_enough(made, known.fingerprint, wanted.threshold)
            notes = made.note
        found = Found(
            "changed",
            "; ".join(filter(None, (detail, notes))),
            body=got.body,
            fingerprint=fingerprint,
            media_type=got.media_type,
            traffic=cost,
            origins=got.origins,
            meta={"status": got.status, "title": got.title, "url": got.url, "rendered": True},
        )
        if "links" in known.options and not got.pixels:
            from unstale.mirror.sources.http.links import with_links

            return await with_links(found, known, private=self._settings.http.private)
        return found

    async def close(self) -> None:
        """End the browser and close all connections."""
        await self.chromium.close()
        await self._pages.close()


def _secrets_of(known: Known) -> tuple[str, ...]:
    try:
        return secret_values(expanded_headers(own_headers(known.options)))
    except InvalidInput:  # then nothing was sent
        return ()


def _learned(found: Found, kept: Mapping[str, Json], *, is_shell: bool, polls: int) -> Found:
    """Return a finding with what was learned of the page among its validators."""
    if found.outcome not in {"changed", "unchanged"}:
        return found
    static = kept.get("static") if found.validators is None else dict(found.validators)
    found.validators = {"shell": is_shell, "polls": polls, "static": None if is_shell else static}
    return found


def _bytes(found: Found) -> bytes:
    if found.body is None:
        return b""
    return found.body if isinstance(found.body, bytes) else found.body.read_bytes()


async def _compared(static: bytes, rendered: bytes) -> bool:
    """Tell whether a page is a shell; one that takes too much memory or time to be compared is none."""
    if len(static) + len(rendered) <= SMALL_BYTES:
        return await asyncio.to_thread(_is_shell, static, rendered)
    try:
        return await parsers.run(_is_shell, static, rendered)
    except LimitExceeded:
        return False


def _is_shell(static: bytes, rendered: bytes) -> bool:
    """Tell whether a page lacks most of its text unless it is rendered.

    >>> _is_shell(b"<div id=app></div>", b"<div id=app>one two three</div>")
    True
    >>> _is_shell(b"<p>one two three</p>", b"<p>one two three</p><p>four</p>")
    False
    """
    shown = Counter(_WORD.findall(visible_text(rendered, "text/html")))
    there = Counter(_WORD.findall(visible_text(static, "text/html")))
    return (shown & there).total() < _SHELL_SHARE * shown.total()
