"""``GET /copies/KEY``: a copy, with what is known of it.

The key stands in one segment, percent-encoded, or plainly: ``/copies/https://example.org/page?x=1``. What is
served may be hostile: it is put into a sandbox, where it can run no script and knows nothing of the origin
that it came from.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from math import isfinite
from typing import Any, BinaryIO, cast
from urllib.parse import quote, unquote

import zstandard
from fastapi import APIRouter, HTTPException, Request, Response
from starlette.responses import StreamingResponse

from unstale.dashboard.copy_freshness import CopyFreshness, FreshnessEstimator
from unstale.dashboard.freshest_replica import FreshestReplica
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.dashboard.poll_on_read import ON_READ, PollsForReaders, ReadersWish
from unstale.errors import InvalidInput
from unstale.mirror.json_values import moment
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.contract import Element, Version

from .copy_headers import safe_key, safe_type
from .edits import find
from .models import problems

_BLOCK_BYTES = 1 << 20
"""Up to so many a copy is read at once, and checked; a larger one is sent in such blocks."""
_RECENT_SECONDS, _MOST_RECENT_BYTES = 1.0, 1 << 25
"""For how long what was read just now is served again, and how much of it is kept."""
_SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_PARTS_OF_PAGES = frozenset(
    {
        "audioworklet", "embed", "manifest", "object", "paintworklet", "script", "serviceworker",
        "sharedworker", "style", "worker", "xslt",
    }
)  # fmt: skip
"""What a copy must not be for a page."""
_DAMAGED = "the copy is lost or damaged; 'unstale doctor' tells more"
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII).fullmatch
_VERSION = re.compile(r"[0-9]{1,18}", re.ASCII).fullmatch


_Wanted = tuple[tuple[str, int | None], ...]
"""Keys that may be meant, the likeliest first, each with the number of a version."""


def router(gateway: MirrorGateway) -> APIRouter:
    """Return the routes."""
    routes = APIRouter(tags=["copies"])
    recent = _RecentCopies(min(gateway.fresh_for, _RECENT_SECONDS))
    errors = problems(
        on404="There is no such element, or it has no copy, or no such version.",
        on416="The copy does not have these bytes.",
    )
    polls = PollsForReaders(gateway)
    replicas = FreshestReplica(gateway.mirror.settings.replicas)
    statuses: dict[int | str, dict[str, Any]] = {
        200: {"description": "The copy, with its own content type.", "content": {"*/*": {}}},
        206: {"description": "Some bytes of it.", "content": {"*/*": {}}},
        304: {"description": "It is the one that you have."},
        307: {"description": "Another replica has polled it later, and is there."},
    }

    async def copy(request: Request) -> Response:
        """Return the copy of an element.

        The headers `X-Unstale-Polled` (moment of the last poll that saw something), `X-Unstale-Fresh`
        (probability that it is fresh), `X-Unstale-Age` (expected age in seconds), `X-Unstale-Version` and
        `X-Unstale-Key` (percent-encoded) say what is known of it. It counts as a read.

        A request with `Cache-Control: max-age=SECONDS` or `X-Unstale-Min-Fresh: SHARE` wants a copy that
        was polled no longer ago, or is so probably fresh. If it is not, it is polled at once, within
        limits and the share of the budget that `[reads] poll_share` gives; `X-Unstale-On-Read` says what
        came of it: `fresh enough`, an outcome (`changed`, `unchanged`, ...), `not in time`, `too many wait`,
        `nobody polls` or `off`. The other headers tell the truth about what is returned in any case.

        If the mirror has replicas, and `[replicas] addresses` says where they are, a request for a copy that
        another of them has polled later is sent there.
        """
        if request.headers.get("sec-fetch-dest") in _PARTS_OF_PAGES:
            raise HTTPException(403, "a copy is no part of a page")
        wish = ReadersWish.of(request)
        estimator = await gateway.freshness_estimator()
        wanted = _wanted(request)
        served = recent.get(wanted)
        told: dict[str, str] = {}
        if served is None:
            look = partial(_look, wanted=wanted, estimator=estimator)
            served, told = await _looked(gateway, request, look, polls)
            recent.put(wanted, served)
        elsewhere = partial(_elsewhere, request=request, replicas=replicas, served=served)
        if (there := await gateway.do(elsewhere)) is not None:
            return Response(status_code=307, headers={"Location": f"{there}{_path(request)}"} | told)
        if not told and wish is not None and served.version.id == served.element.version:
            since = gateway.mirror.clock.now() - served.element.last
            if wish.met(since, served.freshness.fresh):
                told = {ON_READ: "fresh enough"}
            else:
                told = {ON_READ: await polls.poll(served.element.id)}
                served = await gateway.do(partial(_look, wanted=wanted, estimator=estimator))
                recent.put(wanted, served)
        if request.method == "GET" and request.headers.get("sec-fetch-site") != "cross-site":
            gateway.read(served.element.id, await gateway.reader_of(request))
        answer = await _answer(gateway, request, served)
        answer.headers.update(told)
        return answer

    for method in ("GET", "HEAD"):
        routes.add_api_route(
            "/copies/{key:path}",
            copy,
            methods=[method],
            name=f"{method.lower()}_copy",
            response_class=Response,
            responses={**statuses, **errors},
            openapi_extra={"parameters": _PARAMETERS},
        )
    return routes


_PARAMETERS = [
    {
        "name": "key",
        "in": "path",
        "required": True,
        "description": "Key of the element, percent-encoded.",
        "schema": {"type": "string", "minLength": 1},
    },
    {
        "name": "version",
        "in": "query",
        "required": False,
        "description": "Number of a version; without it, the latest.",
        "schema": {"type": "integer", "minimum": 1, "maximum": 10**18 - 1},
    },
]


def _wanted(request: Request) -> _Wanted:
    """Return the keys that a request may mean, the likeliest first, each with the number of a version."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    given = raw.partition(b"?")[0].decode("latin-1").removeprefix("/copies/")
    query = request.scope["query_string"].decode("latin-1")
    version = _version(query)
    if "/" not in given:
        if version is None and "version=" in query:
            raise HTTPException(422, "version must be a whole number")
        return (unquote(given), version), (given, version)
    bare: _Wanted = ((given, version), (unquote(given), version))
    if not query:
        return bare
    whole: _Wanted = ((f"{given}?{query}", None), (f"{unquote(given)}?{unquote(query)}", None))
    return whole if version is None else (*whole, *bare)


async def _looked(
    gateway: MirrorGateway, request: Request, look: Callable[[Mirror], _Served], polls: PollsForReaders
) -> tuple[_Served, dict[str, str]]:
    """Return what is to be served, and what came of a poll for this reader if the copy had been dropped."""
    try:
        return await gateway.do(look), {}
    except _Dropped as dropped:  # a reader wants it: that counts, and may bring it back
        gateway.read(dropped.element.id, await gateway.reader_of(request))
        told = {ON_READ: await polls.poll(dropped.element.id)}
        try:
            return await gateway.do(look), told
        except _Dropped:
            raise HTTPException(404, dropped.words(told[ON_READ]), told) from None


def _path(request: Request) -> str:
    """Return path and query of a request, as they came."""
    raw = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
    query = request.scope["query_string"].decode("latin-1")
    return raw.partition(b"?")[0].decode("latin-1") + (f"?{query}" if query else "")


def _elsewhere(mirror: Mirror, request: Request, replicas: FreshestReplica, served: _Served) -> str | None:
    """Return the address of the replica that has polled a copy later; None if none has.

    Of versions each replica has its own. What is served may have been read a moment ago: what is recorded now
    counts, or two would send readers in circles.
    """
    element, now = served.element, mirror.clock.now()
    if _version(request.scope["query_string"].decode("latin-1")) is not None:
        return None
    if replicas.address(element.key, element.last, now) is None:
        return None
    return replicas.address(element.key, mirror.numbered(element.id).last, now)


def _version(query: str) -> int | None:
    """Return the number of a version, if that is all that is asked for."""
    name, _, value = query.partition("=")
    return int(value) if name == "version" and _VERSION(value) else None


@dataclass(frozen=True)
class _Served:
    """What is to be served."""

    element: Element
    version: Version
    freshness: CopyFreshness
    body: bytes | None
    """None if it is large."""


class _RecentCopies:
    """Has what was read in the last moment: some copies are read far more often than others."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._served: OrderedDict[_Wanted, tuple[float, _Served]] = OrderedDict()
        """In the order in which they came."""
        self._size = 0

    def get(self, wanted: _Wanted) -> _Served | None:
        """Return what was read a moment ago."""
        at, served = self._served.get(wanted, (0.0, None))
        return served if served is not None and time.monotonic() <= at + self._seconds else None

    def put(self, wanted: _Wanted, served: _Served) -> None:
        """Keep it for a moment."""
        now = time.monotonic()
        self._drop(wanted)
        self._served[wanted] = now, served
        self._size += _room(served)
        while self._served:
            first = next(iter(self._served))
            if self._size <= _MOST_RECENT_BYTES and now <= self._served[first][0] + self._seconds:
                return
            self._drop(first)

    def _drop(self, wanted: _Wanted) -> None:
        _, served = self._served.pop(wanted, (0.0, None))
        self._size -= 0 if served is None else _room(served)


class _Dropped(Exception):  # noqa: N818  (it is no error: the copy is fetched again)
    """There is no copy, as there was no room for it."""

    def __init__(self, element: Element) -> None:
        super().__init__(element.key)
        self.element = element

    def words(self, polled: str) -> str:
        """Say why there is nothing to return; ``polled``: what came of a poll for this reader."""
        todo = "[reads] poll_share in mirror.toml lets readers have it polled" if polled == "off" else polled
        return f"{self.element.key} has no copy: there was no room for it ({todo})"


def _room(served: _Served) -> int:
    return 4000 + len(served.body or b"")


def _look(mirror: Mirror, wanted: _Wanted, estimator: FreshnessEstimator) -> _Served:
    """Find a copy, and read it if it is not large."""
    for again in (True, False):
        with mirror.store.begin() as t:
            there = find(t, mirror, [key for key, _ in wanted])
            which = next((number for number, one in enumerate(there) if one is not None), None)
            if which is None:
                raise HTTPException(404, f"there is no element {wanted[0][0][:300]!r} in this mirror")
            element, number = cast("Element", there[which]), wanted[which][1]
            if number is None:
                found = t.versions(element=element.id, limit=1, latest_first=True)
            else:
                found = t.versions(number - 1, 1, element=element.id)
            columns = next(iter(t.load([element.id])), None)
        if not found and number is None and element.state == "dropped":
            raise _Dropped(element)
        if not found or (number is not None and found[0].id != number):
            what = "no copy yet" if number is None else f"no version {number}"
            raise HTTPException(404, f"{element.key} has {what}")
        freshness = estimator.of_one(columns, mirror.clock.now())
        if found[0].size > _BLOCK_BYTES:
            return _Served(element, found[0], freshness, None)
        try:
            return _Served(element, found[0], freshness, mirror.copies.read(found[0].digest, found[0].size))
        except InvalidInput:
            if again:  # it may have been deleted meanwhile, for there are later ones
                continue
    raise HTTPException(503, _DAMAGED)


async def _answer(gateway: MirrorGateway, request: Request, served: _Served) -> Response:
    """Answer with all of a copy, some of it, or that nothing is new."""
    version, size = served.version, served.version.size if served.body is None else len(served.body)
    headers = _headers(served)
    if _is_known(request, version):
        return Response(status_code=304, headers=headers)
    start, stop = 0, size
    chosen = _range(request, version, size)
    if chosen is not None:
        start, stop = chosen
        if start >= size:
            message = f'{{"error":"the copy has {size} bytes"}}'
            headers |= {"Content-Range": f"bytes */{size}", "Content-Type": "application/json"}
            return Response(message, 416, headers)
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    headers |= {"Content-Length": str(stop - start), "Accept-Ranges": "bytes"}
    status = 200 if chosen is None else 206
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers)
    if served.body is not None:
        return Response(served.body[start:stop], status, headers)
    return StreamingResponse(await _opened(gateway, version, start, stop), status, headers)


def _headers(served: _Served) -> dict[str, str]:
    element, version, freshness = served.element, served.version, served.freshness
    headers = {
        "Content-Type": _content_type(version, served.body),
        "Content-Security-Policy": _SANDBOX,
        "Cache-Control": "no-cache",
        "ETag": f'"{version.digest}"',
        "Last-Modified": formatdate(_modified(version), usegmt=True),
        "X-Unstale-Version": str(version.id),
        "X-Unstale-Key": safe_key(element.key),
    }
    if polled := moment(element.last):
        headers["X-Unstale-Polled"] = polled
    if isfinite(freshness.fresh) and version.id == element.version:
        headers["X-Unstale-Fresh"] = f"{freshness.fresh:.6f}"
        headers["X-Unstale-Age"] = f"{freshness.age:.3f}"
    return headers


def _content_type(version: Version, body: bytes | None) -> str:
    """Return the type of a copy and the letters it is written in: as its source says, or UTF-8 if it is."""
    plain = safe_type(version.media_type)
    headers = version.meta.get("headers")
    said = headers.get("content-type") if isinstance(headers, dict) else None
    if isinstance(said, str) and safe_type(said).partition(";")[0].strip().lower() == plain.lower():
        plain = safe_type(said)
    if body is None or ";" in plain or not plain.lower().startswith("text/"):
        return plain
    try:
        body.decode()
    except ValueError:
        return plain
    return f"{plain}; charset=utf-8"


def _modified(version: Version) -> int:
    """Return when a version came to be: as its source says, if that can be."""
    said, seen = version.modified, version.time if moment(version.time) else 0.0
    return int(said if said is not None and 0 <= said <= seen else max(seen, 0.0))


def _is_known(request: Request, version: Version) -> bool:
    """Tell whether the client has this version already."""
    tags = request.headers.get("if-none-match")
    if tags is not None:
        return "*" in tags.split(",") or f'"{version.digest}"' in tags
    return _not_after(request.headers.get("if-modified-since"), version)


def _not_after(date: str | None, version: Version) -> bool:
    try:
        return date is not None and _modified(version) <= parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return False


def _range(request: Request, version: Version, size: int) -> tuple[int, int] | None:
    """Return which bytes are asked for; None: all."""
    found = _RANGE(request.headers.get("range", ""))
    if found is None or request.method != "GET" or found[1] == found[2] == "":
        return None
    condition = request.headers.get("if-range")
    if condition is not None and condition != f'"{version.digest}"' and not _not_after(condition, version):
        return None
    if found[1] == "":
        return (size, size) if int(found[2]) == 0 else (max(size - int(found[2]), 0), size)
    start = int(found[1])
    if found[2] and int(found[2]) < start:
        return None
    return start, min(int(found[2]) + 1, size) if found[2] else size


async def _opened(gateway: MirrorGateway, version: Version, start: int, stop: int) -> AsyncIterator[bytes]:
    """Open a large copy, read its first block, and return what reads the others."""
    try:
        file, first = await gateway.do(partial(_begun, version=version, start=start, stop=stop))
    except (InvalidInput, EOFError):
        raise HTTPException(503, _DAMAGED) from None

    async def blocks() -> AsyncIterator[bytes]:
        left, block = stop - start, first
        try:
            while True:
                left -= len(block)
                yield block
                if left <= 0:
                    return
                block = await gateway.do(partial(_next, file, min(left, _BLOCK_BYTES)))
        finally:
            file.close()

    return blocks()


def _begun(mirror: Mirror, version: Version, start: int, stop: int) -> tuple[BinaryIO, bytes]:
    """Open a large copy, and read a block."""
    found = mirror.copies.stored(version.digest)
    if not found.is_packed and found.size != version.size:
        raise EOFError
    file = mirror.copies.open(version.digest)
    try:
        return file, _next(_skipped(file, start), min(stop - start, _BLOCK_BYTES))
    except BaseException:
        file.close()
        raise


def _next(file: BinaryIO, most: int, _: Mirror | None = None) -> bytes:
    """Read a block; `EOFError` if there is none, or only some of it."""
    try:
        block = file.read(most)
    except zstandard.ZstdError:
        block = b""
    if len(block) < most:
        raise EOFError("a copy that is being sent is damaged; 'unstale doctor' tells which")
    return block


def _skipped(file: BinaryIO, start: int) -> BinaryIO:
    """Go on to where somebody wants to read."""
    if file.seekable():
        with suppress(OSError):
            file.seek(start)
            return file
    while start > 0:
        start -= len(_next(file, min(start, _BLOCK_BYTES)))
    return file
