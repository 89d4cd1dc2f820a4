"""One poll of a page, step 4: robots.txt, redirects, the response, its body and its fingerprint."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from aiohttp import ClientResponse

from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.contained import SMALL_BYTES, LimitExceeded, parsers
from unstale.mirror.secrets import HARMLESS_HEADERS, hidden, secret_values
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Known, Late, Terms

from .amounts import unless_enough
from .body import ResponseBody
from .deadlines import Deadlines
from .fetch import Failure, PageFetcher, Progress, silence_words
from .fingerprint import (
    BYTES,
    ChangeDefinition,
    Fingerprint,
    NoContent,
    definition_of,
    fingerprint_of,
    fingerprint_of_file,
    title_of,
)
from .headers import (
    media_type,
    parse_date,
    printable,
    promised,
    retry_after,
    sendable,
    status_line,
    validators,
    version_meta,
)
from .options import checked_headers, expanded_headers, is_conditional, own_headers, user_agent
from .private_addresses import Lookup, is_public, look_up, named_private
from .robots import MAX_ROBOTS_BYTES, Robots, RobotsAnswer, RobotsRules, RobotsTooLong
from .urls import host_of, joined, origin_of

_CONTENT_STATUSES = frozenset({200, 203})
_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_PERMANENT_STATUSES = frozenset({301, 308})
_MAX_KEY_CHARACTERS = 2048
_MAX_ROBOTS_REDIRECTS = 5
_TITLE_WITHIN_BYTES = 16384
"""The title of a page is searched in this many bytes."""


@dataclass(slots=True)
class _Visit:
    """The state of one poll."""

    known: Known
    terms: Terms
    progress: Progress
    wanted: ChangeDefinition
    url: str = ""
    """The current address, after the redirects so far."""
    seen: set[str] = field(default_factory=set)
    inside: bool = True
    """Whether the poll may go to private addresses: the user named one, and no redirect led outside."""
    permanent: bool = True
    """Whether all redirects so far are permanent."""
    asked: bool = False
    """Whether the last request had conditions."""
    spacing: float | None = None

    @property
    def moved(self) -> str | None:
        """The new address of the page, if all redirects are permanent."""
        return (
            self.url
            if self.permanent and len(self.seen) > 1 and len(self.url) <= _MAX_KEY_CHARACTERS
            else None
        )


class Poller:
    """Polls pages, in one event loop at a time.

    Parameters
    ----------
    settings
        The settings of the mirror.
    lookup
        Looks the addresses of a name up.
    public
        Tells whether an address is public.
    now
        The time, in seconds since 1970.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        lookup: Lookup = look_up,
        public: Callable[[str], bool] = is_public,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._http, self._now = settings.http, now
        self._headers = expanded_headers(checked_headers(settings.http.headers))
        self._elsewhere = {
            name: text for name, text in self._headers.items() if name.lower() in HARMLESS_HEADERS
        }
        self._has_secrets = len(self._elsewhere) < len(self._headers)
        self._deadlines = Deadlines(settings.http.read_timeout)
        agent = user_agent(settings)
        common = {"User-Agent": agent, "Accept": "*/*"}
        self._fetcher = PageFetcher(settings, common, lookup=lookup, public=public)
        product = re.split(r"[\s/(]", agent.strip(), maxsplit=1)[0] or agent
        self._robots = Robots(self._fetch_robots, product, max_age=self._http.robots_max_age)

    async def close(self) -> None:
        """Close all connections."""
        self._deadlines.close()
        await self._robots.close()
        await self._fetcher.close()

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Poll a page, within its time limit; what it was sent in secret is in none of its words."""
        found = await self._poll(known, terms)
        if not self._has_secrets and "headers" not in known.options:
            return found
        try:
            sent = secret_values({**self._headers, **expanded_headers(own_headers(known.options))})
        except InvalidInput:  # then nothing was sent
            return found
        return without_secrets_sent(found, sent)

    async def _poll(self, known: Known, terms: Terms) -> Found:
        progress = Progress(start=terms.start)
        task = self._deadlines.start(terms.timeout, progress)
        try:
            visit = _Visit(known, terms, progress, definition_of(known.options))
            response = await self._arrive(visit)
            if response.status in _CONTENT_STATUSES:
                return await self._content(visit, response)
            return self._answer(visit, response)
        except Failure as failure:
            return Found(
                failure.outcome,
                str(failure),
                traffic=progress.traffic,
                wait=failure.wait,
                spacing=failure.spacing,
            )
        except (
            InvalidInput,
            MissingExtra,
        ) as error:  # a rule has given the page such options since it was added
            return Found("failed", str(error), traffic=progress.traffic)
        except Late as late:
            late.traffic = progress.traffic
            raise
        except asyncio.CancelledError:
            if not (why := self._deadlines.ended(task)):
                raise
            if why == "late":
                words = _late(progress, terms.timeout)
            else:
                words = silence_words(progress, self._http.read_timeout)
            return Found("failed", words, traffic=progress.traffic)
        finally:
            self._deadlines.stop(task)

    async def permitted(self, known: Known, terms: Terms) -> Found | None:
        """Return why robots.txt does not allow a page; None if it does."""
        if not self._http.robots:
            return None
        progress = Progress()
        task = self._deadlines.start(terms.timeout, progress)
        try:
            visit = _Visit(known, terms, progress, BYTES, url=known.key)
            visit.inside = self._http.private or named_private(host_of(known.key))
            origin = origin_of(known.key)
            await self._permit(
                visit, self._robots.known(origin, visit.inside) or await self._learn(visit, origin)
            )
        except Failure as failure:
            return Found(
                failure.outcome, str(failure), traffic=progress.traffic, wait=failure.wait,
                spacing=failure.spacing,
            )  # fmt: skip
        except asyncio.CancelledError:
            if not self._deadlines.ended(task):
                raise
            return Found("failed", _late(progress, terms.timeout), traffic=progress.traffic)
        finally:
            self._deadlines.stop(task)
        return None

    async def _arrive(self, visit: _Visit) -> ClientResponse:
        """Follow redirects, and return the first response that is not one; raise `Failure`."""
        known = visit.known
        visit.url, home = known.key, origin_of(known.key)
        headers = self._headers
        if "headers" in known.options:
            headers = {**headers, **expanded_headers(own_headers(known.options))}
        while True:
            visit.seen.add(visit.url)
            visit.inside = visit.inside and (self._http.private or named_private(host_of(visit.url)))
            origin = origin_of(visit.url)
            if origin != home:
                headers = (
                    self._elsewhere
                )  # also if a redirect leads back: another host has chosen that address
            if self._http.robots:
                rules = self._robots.known(origin, visit.inside)
                await self._permit(visit, rules or await self._learn(visit, origin))
            conditions = _conditions(known, visit.url, visit.wanted)
            visit.asked = bool(conditions)
            response = await self._fetcher.ask(
                visit.url, {**headers, **conditions}, visit.progress, inside=visit.inside
            )
            if response.status not in _REDIRECT_STATUSES:
                return response
            response.release()
            visit.permanent = visit.permanent and response.status in _PERMANENT_STATUSES
            visit.url = _target(response, visit.url)
            if visit.url in visit.seen:
                raise Failure(f"a redirect loop: {visit.url[:200]} was there already")
            if len(visit.seen) > self._http.max_redirects:
                raise Failure(f"more than {self._http.max_redirects} redirects")

    async def _learn(self, visit: _Visit, origin: str) -> RobotsRules:
        visit.progress.phase = "robots"
        rules, traffic = await self._robots.learn(origin, visit.inside)
        visit.progress.traffic += traffic
        return rules

    async def _permit(self, visit: _Visit, rules: RobotsRules) -> None:
        """Raise `Failure` if robots.txt does not allow the page, or is not known."""
        url, spacing = visit.url, rules.spacing
        if rules.trouble:
            host = host_of(url, port=True)
            detail = f"robots.txt of {host} cannot be fetched, so nothing is polled: {rules.trouble}"
            if rules.unreachable:  # so is the page, and that is what matters
                detail = f"{rules.trouble} (robots.txt of {host} is asked for first)"
            if rules.refused:
                raise Failure(detail, "refused")
            raise Failure(detail, wait=max(self._robots.left(rules), 1.0))
        try:
            allowed = rules.allows is None or await self._robots.allowed(rules, url)
        except RobotsTooLong as error:
            detail = f"robots.txt of {host_of(url, port=True)} cannot be obeyed in time: {error}"
            raise Failure(detail, "refused", spacing=spacing) from None
        if not allowed:
            detail = f"robots.txt of {host_of(url, port=True)} does not allow {url[:200]}"
            raise Failure(detail, "refused", spacing=spacing)
        visit.spacing = spacing if visit.spacing is None else max(visit.spacing, spacing)

    def _answer(self, visit: _Visit, response: ClientResponse) -> Found:
        """Return what a response without content means."""
        status, traffic = response.status, visit.progress.traffic
        response.release()
        if status == 304 and visit.asked:
            return Found(
                "unchanged",
                status_line(response),
                traffic=traffic,
                stays=self._stays(response),
                moved=visit.moved,
                spacing=visit.spacing,
            )
        if status in {404, 410}:
            words = status_line(response)
            if visit.url != visit.known.key:
                words += f": it redirects to {visit.url[:200]}, which is not there"
            return Found("gone", words, traffic=traffic, spacing=visit.spacing)
        detail, wait = status_line(response), retry_after(response, self._now())
        if status == 304:
            detail += ", though that was not the question"
        if wait is not None:
            detail += f"; it wants to be left alone for {wait:.0f} seconds"
        return Found("failed", detail, traffic=traffic, wait=wait, spacing=visit.spacing)

    def _stays(self, response: ClientResponse) -> float | None:
        """Return for how long the page stays as it is, as its server promises, if that counts."""
        return promised(response.headers) if self._http.expiry else None

    async def _content(self, visit: _Visit, response: ClientResponse) -> Found:
        terms, progress = visit.terms, visit.progress
        content = ResponseBody(terms.max_size, self._http.max_ratio, terms.scratch)
        kind = printable(response.headers.get("Content-Type", ""), 200)
        try:
            await self._fetcher.read(response, content, progress, terms.spend)
            progress.phase = "content"
            body, head, fingerprint = await self._digested(visit.wanted, content, kind)
        except NoContent as error:
            content.discard()
            raise Failure(printable(str(error), 300)) from None
        except LimitExceeded as error:
            content.discard()
            raise Failure(f"the content cannot be read: {error}") from None
        except BaseException:
            content.discard()
            raise
        counted = unless_enough(fingerprint, visit.known.fingerprint, visit.wanted.threshold)
        same = counted == visit.known.fingerprint  # then the mirror keeps no new version, and needs no more
        modified = None if same else parse_date(response.headers.get("Last-Modified"))
        return Found(
            "changed",
            "; ".join(filter(None, (status_line(response), fingerprint.note))),
            body=body,
            fingerprint=str(counted),
            media_type=media_type(kind),
            validators=validators(response, visit.url, kind),
            traffic=progress.traffic,
            modified=modified if modified is not None and 0 < modified <= self._now() + 86400 else None,
            stays=self._stays(response),
            moved=visit.moved,
            spacing=visit.spacing,
            origins=tuple(sorted(set(map(origin_of, visit.seen)))) if len(visit.seen) > 1 else (),
            meta={}
            if same and "links" not in visit.known.options
            else version_meta(response, visit.url, title_of(head, kind)),
        )

    async def _digested(
        self, wanted: ChangeDefinition, content: ResponseBody, kind: str
    ) -> tuple[bytes | Path, bytes, Fingerprint]:
        """Return the body, its beginning, and its fingerprint; a child process looks at what is large."""
        run = asyncio.get_running_loop().run_in_executor
        if content.large:
            body, head = await run(self._fetcher.workers, _finished, content)
        else:
            body, head = _finished(content)
        if wanted is BYTES:
            large = Fingerprint(f"bytes:{content.digest()}") if content.large else None
            return body, head, large or fingerprint_of(wanted, head)
        if content.size > SMALL_BYTES:
            return body, head, await parsers.run(fingerprint_of_file, wanted, body, kind)
        return body, head, await run(self._fetcher.workers, fingerprint_of, wanted, head, kind)

    async def _fetch_robots(self, url: str, inside: bool) -> RobotsAnswer:  # noqa: FBT001
        """Fetch robots.txt, with less time than a page has."""
        progress = Progress()
        task = self._deadlines.start(self._http.connect_timeout + self._http.read_timeout, progress)
        try:
            return await self._ask_robots(url, progress, inside=inside)
        except Failure as failure:
            refused = failure.outcome == "refused"
            return RobotsAnswer(None, detail=str(failure), traffic=progress.traffic, refused=refused)
        except asyncio.CancelledError:
            if not (why := self._deadlines.ended(task)):
                raise
            late = why == "late"
            words = "it does not come in time" if late else silence_words(progress, self._http.read_timeout)
            return RobotsAnswer(None, detail=words, traffic=progress.traffic)
        finally:
            self._deadlines.stop(task)

    async def _ask_robots(self, url: str, progress: Progress, *, inside: bool) -> RobotsAnswer:
        for _ in range(_MAX_ROBOTS_REDIRECTS + 1):
            response = await self._fetcher.ask(url, dict(self._elsewhere), progress, inside=inside)
            if response.status not in _REDIRECT_STATUSES:
                break
            response.release()
            try:
                url = _target(response, url)
            except Failure:
                return RobotsAnswer(404, traffic=progress.traffic)
            inside = inside and (self._http.private or named_private(host_of(url)))
        else:  # too many redirects: there is none (RFC 9309, section 2.3.1.2)
            return RobotsAnswer(404, traffic=progress.traffic)
        content = ResponseBody(MAX_ROBOTS_BYTES, self._http.max_ratio, Path(), cut=True)
        if 200 <= response.status < 300:
            await self._fetcher.read(response, content, progress)
        response.release()
        text = content.finish()
        age = re.search(r"max-age\s*=\s*(\d{1,9})", response.headers.get("Cache-Control", ""), re.ASCII)
        return RobotsAnswer(
            response.status,
            text.decode("utf-8", "replace") if isinstance(text, bytes) else "",
            status_line(response),
            float(age[1]) if age else None,
            retry_after(response, self._now()),
            progress.traffic,
        )


def without_secrets_sent(found: Found, sent: Collection[str]) -> Found:
    """Return a finding with stars for what was sent in secret and a server repeats in its words."""
    if not sent:
        return found
    meta = hidden(dict(found.meta), sent)
    return replace(found, detail=str(hidden(found.detail, sent)), meta=meta if isinstance(meta, dict) else {})


def _conditions(known: Known, url: str, wanted: ChangeDefinition) -> dict[str, str]:
    """Return the headers that make the request conditional on a change of the page.

    There are none if there is no copy, if the address is not the one that gave the validators, or if the
    definition of a change is another one than when the copy was made.
    """
    kept = known.validators
    if not kept or kept.get("url") != url or not (known.fingerprint or "").startswith(f"{wanted.name}:"):
        return {}
    if "conditional" in known.options and not is_conditional(known.options):
        return {}
    conditions = {}
    for name, header in (("etag", "If-None-Match"), ("modified", "If-Modified-Since")):
        value = kept.get(name)
        if isinstance(value, str) and value and sendable(value):  # an archive may have brought it
            conditions[header] = value
    return conditions


def _target(response: ClientResponse, url: str) -> str:
    """Return the address to which a redirect leads; raise `Failure`."""
    location = response.headers.get("Location", "")
    if not location.strip():
        raise Failure(f"{status_line(response)}, but not where to")
    try:
        return joined(url, location)
    except InvalidInput as error:
        raise Failure(
            printable(f"{status_line(response)}, but it cannot be followed: {error}", 300)
        ) from None


def _finished(content: ResponseBody) -> tuple[bytes | Path, bytes]:
    """Return the body, and its beginning. This may block."""
    body = content.finish()
    if isinstance(body, bytes):
        return body, body
    with body.open("rb") as file:
        return body, file.read(_TITLE_WITHIN_BYTES)


def _late(progress: Progress, timeout: float) -> str:
    done = {
        "robots": "still waiting for robots.txt",
        "name": "still looking up the name",
        "connection": "still connecting",
        "handshake": "still in the TLS handshake",
        "answer": "still without an answer",
        "budget": f"waiting for the budget of bytes, after {progress.received:,} bytes",
        "content": "still looking for what counts as a change",
    }
    said = done.get(progress.phase, f"after {progress.received:,} bytes of the body")
    return f"not done within {timeout:g} seconds: {said}"
