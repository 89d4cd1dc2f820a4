"""What is fuzzed: each target takes any bytes, and may raise nothing but what its callers expect.

What is larger than `SMALL_BYTES` is read in child processes by polls, and so it is here. If the first byte is
0xF0 or more, an input is large: the lower four bits are the power of two by which the rest is repeated.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from unstale import InvalidInput
from unstale.errors import UnstaleError
from unstale.mirror.contained import SMALL_BYTES, LimitExceeded, parsers
from unstale.mirror.settings import Settings
from unstale.mirror.store.storable import text_of

MEGABYTE = 1_000_000
BASE = "https://example.org/doc"
MOST_ELEMENTS = 50
"""That imports leave in the mirror: the time of an input must not grow with the inputs before it."""


@dataclass(frozen=True)
class Target:
    """A function of bytes, and how many it reads at most."""

    call: Callable[[bytes], object]
    most: int = SMALL_BYTES

    def __call__(self, data: bytes, *, repeat: bool = True) -> None:
        """Read one input, repeated as its first byte says, unless ``repeat`` is false."""
        times = 1 << (data[0] & 15) if repeat and data[:1] >= b"\xf0" else 1
        body = data[1:]
        self.call(body * min(times, max(self.most // max(len(body), 1), 1)))


TARGETS: dict[str, Target] = {}


def target(most: int = SMALL_BYTES) -> Callable[[Callable[[bytes], object]], Callable[[bytes], object]]:
    """Make a function a target under its own name."""

    def made(call: Callable[[bytes], object]) -> Callable[[bytes], object]:
        TARGETS[call.__name__] = Target(call, most)
        return call

    return made


def apart(call: Callable[..., object], body: bytes, *more: object) -> None:
    """Read what is small here, and what is large in a child process, as polls do."""
    if len(body) <= SMALL_BYTES:
        call(body, *more)
        return
    try:
        parsers.wait(call, body, *more, timeout=4.0)
    except LimitExceeded:
        pass


@cache
def folder() -> Path:
    """Return a folder for files, which goes with the process."""
    made = Path(tempfile.mkdtemp(prefix="unstale-fuzz-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def in_file(body: bytes, name: str) -> str:
    """Return a file that holds these bytes."""
    path = folder() / name
    path.write_bytes(body)
    return str(path)


@cache
def mirror() -> Any:
    """Return a mirror in memory."""
    from unstale import Mirror

    made = Mirror(folder() / "mirror.db", settings=Settings(budget=1.0))
    atexit.register(made.close)
    return made


def check_elements() -> None:
    """Insist that files brought elements of the web only; forget them when they are many."""
    there = list(mirror().elements())
    assert all(element.source in {"http", "feed", "sitemap", "python"} for element in there)
    if len(there) > MOST_ELEMENTS:
        mirror().remove([element.key for element in there], forget=True)


# --- what polls read


@cache
def _rules() -> Any:
    from unstale.mirror.sources.http.robots import Robots, RobotsAnswer

    async def no_fetch(_: str, __: bool) -> RobotsAnswer:
        return RobotsAnswer(404)

    return Robots(no_fetch, "unstale/1.0", max_age=86400.0)


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return the loop in which all that waits is run."""
    made = asyncio.new_event_loop()
    atexit.register(made.close)
    return made


@target(512_000)
def robots(body: bytes) -> None:
    from unstale.mirror.sources.http.robots import RobotsAnswer, RobotsTooLong

    found = _rules()._judged(RobotsAnswer(200, body.decode("utf-8", "replace")), None)
    assert 0.0 <= found.spacing <= 1e9
    try:
        loop().run_until_complete(_rules().allowed(found, "https://example.org/a/b?c=d"))
    except RobotsTooLong:
        pass


@target(10 * MEGABYTE)
def feed(body: bytes) -> None:
    apart(_feed, body)


def _feed(body: bytes) -> None:
    from unstale.mirror.sources.feeds.formats import read_feed

    try:
        found = read_feed(body, BASE, media_type="application/xml")
    except InvalidInput:
        return
    assert len(found.entries) <= 10_000


@target(20 * MEGABYTE)
def sitemap(body: bytes) -> None:
    apart(_sitemap, body)


def _sitemap(body: bytes) -> None:
    from unstale.mirror.sources.feeds.sitemaps import read_sitemap

    try:
        found = read_sitemap(body, BASE, max_size=20 * MEGABYTE)
    except InvalidInput:
        return
    assert len(found.entries) <= 50_000


def _fingerprint(body: bytes, change: str, selector: str | None) -> None:
    from unstale.mirror.sources.http.fingerprint import ChangeDefinition, NoContent, fingerprint_of

    try:
        fingerprint_of(ChangeDefinition(change, selector, (r"\d+",)), body, "text/html")
    except NoContent:
        pass


@target(20 * MEGABYTE)
def main_text(body: bytes) -> None:
    apart(_fingerprint, body, "text", None)


@target(20 * MEGABYTE)
def selector(body: bytes) -> None:
    apart(_fingerprint, body, "text", "main > p, li:nth-child(2)")


@target(20 * MEGABYTE)
def json_pointer(body: bytes) -> None:
    apart(_fingerprint, body, "json", "/items/0/name")


@target(4096)
def selector_text(body: bytes) -> None:
    from unstale.mirror.sources.http.fingerprint import check_content_options

    try:
        check_content_options({"selector": body.decode("utf-8", "replace")})
    except UnstaleError:
        pass


@target()
def title(body: bytes) -> None:
    from unstale.mirror.sources.http.fingerprint import title_of

    title_of(body, "text/html; charset=utf-8")


@target(MEGABYTE)
def decode(body: bytes) -> None:
    from unstale.mirror.sources.http.decode import BodyTooLarge, UndecodableBody, decoder

    encoding = ("gzip", "deflate", "br", "zstd", "gzip, br", "zstd, gzip")[body[0] % 6] if body else "gzip"
    total = 0

    def check(made: int) -> None:
        nonlocal total
        total = made
        if made > 20 * MEGABYTE:
            raise BodyTooLarge("too large")

    try:
        made = decoder(encoding, lambda _: None, check)
        assert made is not None
        for start in range(1, len(body), 4096):
            made.feed(body[start : start + 4096])
        made.end()
    except (UndecodableBody, BodyTooLarge):
        pass
    assert total <= 21 * MEGABYTE


@target(4 * MEGABYTE)
def links(body: bytes) -> None:
    apart(_links, body)


def _links(body: bytes) -> None:
    from unstale.mirror.sources.http.fingerprint import title_of
    from unstale.mirror.sources.http.links import MOST_LINKS, LinkOptions, followed, read_links

    first, _, page = body.partition(b"\n")
    kind = f"text/html{first[:200].decode('latin-1')}"
    found = read_links(page, BASE, kind)
    assert len(found.links) <= MOST_LINKS
    options = LinkOptions.of({"links": 2})
    assert options is not None
    for one in followed(found, BASE, BASE, options, private=False):
        assert one.key.startswith(("http://example.org/", "https://example.org/", "https://www.example.org/"))
        assert len(one.key) <= 1000
    title_of(page, kind)


@target(16384)
def promises(body: bytes) -> None:
    from multidict import CIMultiDict

    from unstale.mirror.sources.http.headers import promised
    from unstale.mirror.sources.told_dates import moment_of, to_the_minute

    values = body.decode("utf-8", "surrogateescape").split("\n")
    said = promised(CIMultiDict(zip(("Cache-Control", "Age", "Expires", "Date"), values, strict=False)))
    assert said is None or 0.0 < said <= 366 * 86400.0
    for value in values:
        told = to_the_minute(moment_of(value))
        assert told is None or 0.0 < told < 1e12


@target(16384)
def headers(body: bytes) -> None:
    from multidict import CIMultiDict

    from unstale.mirror.sources.http import headers as read

    names = ("Retry-After", "Date", "ETag", "Last-Modified", "Content-Type", "Link", "Location")
    values = body.decode("utf-8", "surrogateescape").split("\n")
    told: Any = SimpleNamespace(
        status=429, reason=values[0], headers=CIMultiDict(zip(names, values, strict=False))
    )
    wait = read.retry_after(told, 1.7e9)
    assert wait is not None
    assert 0.0 < wait < 1e9
    json.dumps(read.validators(told, BASE, read.media_type(values[0])))
    json.dumps(read.version_meta(told, BASE, None))
    read.status_line(told)
    for value in values:
        read.parse_date(value)


@target(16384)
def addresses(body: bytes) -> None:
    from unstale.mirror.secrets import origin
    from unstale.mirror.sources.http.private_addresses import is_public, named_private
    from unstale.mirror.sources.http.urls import canonical, host_of, joined

    text = body.decode("utf-8", "surrogateescape")
    try:
        found = canonical(text)
    except InvalidInput:
        return
    assert canonical(found) == found
    assert found.isascii()
    assert found.isprintable()
    named_private(host_of(found))
    origin(found)
    try:
        is_public(host_of(found).strip("[]"))
    except ValueError:
        pass
    for reference in (text, f"/{text}", f"//{text}", f"?{text}"):
        try:
            joined(found, reference)
        except InvalidInput:
            pass


@target()
def differences(body: bytes) -> None:
    from unstale.mirror.differences.text import difference

    old, _, new = body.partition(b"\0")
    for kind in ("text/html", "application/json", "text/plain"):
        difference(old, new, kind)


# --- what people import


@target(10 * MEGABYTE)
def mirror_toml(body: bytes) -> None:
    from unstale.mirror.config.file import load

    try:
        load(in_file(body, "mirror.toml"))
    except UnstaleError:
        pass


def _list(body: bytes, form: Any) -> None:
    from unstale.mirror.sources.lists import read_list

    try:
        for one in read_list(in_file(body, "list"), form):
            assert one.new.key.isprintable()
    except InvalidInput:
        pass


@target(MEGABYTE)
def opml(body: bytes) -> None:
    _list(body, "opml")


@target(200_000)
def address_list(body: bytes) -> None:
    _list(body, None)


def _tables(path: str) -> None:
    from unstale.tables.elements import element_table
    from unstale.tables.history import history_table
    from unstale.tables.polls import poll_table

    for table in (element_table, history_table, poll_table):
        try:
            table(path).read()
        except UnstaleError:
            pass


@target(MEGABYTE)
def csv_table(body: bytes) -> None:
    _tables(in_file(body, "table.csv"))


@target(MEGABYTE)
def parquet_table(body: bytes) -> None:
    _tables(in_file(body, "table.parquet"))


@target(MEGABYTE)
def elements_import(body: bytes) -> None:
    from unstale.mirror.exchange.tables import import_elements

    try:
        import_elements(mirror(), in_file(body, "elements.csv"))
    except UnstaleError:
        pass
    check_elements()


@target(MEGABYTE)
def history_import(body: bytes) -> None:
    from unstale.mirror.exchange.tables import import_history

    try:
        import_history(mirror(), in_file(body, "history.csv"))
    except UnstaleError:
        pass


@target(MEGABYTE)
def warc_import(body: bytes) -> None:
    from unstale.mirror.exchange.warc import import_warc

    try:
        import_warc(mirror(), in_file(body, "pages.warc"), allow=("validators",))
    except UnstaleError:
        pass
    check_elements()


@target(MEGABYTE)
def access_log(body: bytes) -> None:
    from unstale.tables.logs.access_logs import AccessLog

    try:
        for _ in AccessLog(in_file(body, "access.log")).read():
            pass
    except UnstaleError:
        pass


@target(MEGABYTE)
def hint_file(body: bytes) -> None:
    from unstale.mirror.engine.hint_file import read_hints

    path = folder() / "hints"
    path.write_bytes(body)
    with mirror().store.begin() as t:
        read_hints(path, t, 1.7e9)


MOVED = (("urlwatch", "urls.yaml"), ("nutch", "dump"), ("stormcrawler", "a.jsonl"), ("cdx", "a.cdx"))


@target(MEGABYTE)
def moving_in(body: bytes) -> None:
    """Data of another tool; the first byte says of which."""
    from unstale.mirror.exchange.foreign import bring, read_foreign, write_changes

    kind, name = MOVED[body[0] % len(MOVED)] if body else MOVED[0]
    try:
        found = read_foreign(Path(in_file(body[1:], name)), kind)
        write_changes(found, str(folder() / "changes.csv"))
        bring(mirror(), found)
    except UnstaleError:
        pass
    check_elements()


@target(MEGABYTE)
def changedetection(body: bytes) -> None:
    """Its old file, and the history of its first watch, behind a NUL."""
    from unstale.mirror.exchange.foreign import bring, read_foreign

    data, number = folder() / "changedetection", "77e3527c-0934-4867-add9-bc5278976878"
    (data / number).mkdir(parents=True, exist_ok=True)
    said, _, history = body.partition(b"\0")
    (data / "url-watches.json").write_bytes(said)
    (data / number / "history.txt").write_bytes(history)
    try:
        bring(mirror(), read_foreign(data, "changedetection"))
    except UnstaleError:
        pass
    check_elements()


# --- what others push


@target(MEGABYTE)
def pushes(body: bytes) -> None:
    """A signature, and a body; and the same as a feed that names a hub."""
    from unstale.contrib.push.hub_links import in_content, in_headers
    from unstale.contrib.push.webhooks import _json, is_signed, read_index_now, read_repository

    first, _, rest = body.partition(b"\n")
    text = first.decode("utf-8", "surrogateescape")
    is_signed("a secret of sixteen", rest, text)
    try:
        push = read_repository(rest)
        for key in (*push.addresses, f"{push.addresses[0]}/blob/main/a.md", BASE):
            push.concerns(key)
    except InvalidInput as error:
        text_of(str(error)).encode()
    try:
        sent = read_index_now(_json(rest))
        assert {one.split("/")[2].lower() for one in sent.addresses} == {sent.host}
    except InvalidInput as error:
        text_of(str(error)).encode()
    for found in (in_content(rest, BASE), in_headers([text], BASE)):
        assert not found.hub or found.hub.startswith(("http://", "https://"))


# --- cursors


@target(200_000)
def cursor(body: bytes) -> None:
    from unstale.mirror.cells.cursor import Cursor

    try:
        found = Cursor.read(body.decode("utf-8", "surrogateescape"))
    except InvalidInput:
        return
    assert Cursor.read(found.text()) == found


@target(4096)
def quantities(body: bytes) -> None:
    from unstale import Windows
    from unstale.quantities import duration, flow, frequency, share, time_unit

    text = body.decode("utf-8", "surrogateescape")
    for read in (duration, flow, frequency, share, time_unit):
        try:
            read("it", text)
        except InvalidInput:
            pass
    try:
        Windows.parse(text)
    except InvalidInput:
        pass


# --- what fetchers report


@target(MEGABYTE)
def outcomes(body: bytes) -> None:
    from fastapi import HTTPException
    from pydantic import ValidationError

    from unstale.dashboard.api.fetching import PollOutcomesReport, _outcome
    from unstale.mirror.engine.discovery import Discovery
    from unstale.mirror.engine.fetchers import FetchDesk, ReportRequest

    its = mirror()
    try:
        told = PollOutcomesReport.model_validate_json(body)
        asked = ReportRequest(told.fetcher, [_outcome(one) for one in told.outcomes])
    except (ValidationError, HTTPException):
        return
    desk = FetchDesk(its.store, its.copies, its.settings, its.clock, Discovery(its.settings, its.sources))
    (done,) = desk.serve([asked])
    assert done.recorded == 0  # type: ignore[union-attr]  # nothing was leased


# --- requests to the dashboard


@cache
def _dashboard() -> Any:
    from unstale.dashboard.access_rules import AccessRules
    from unstale.dashboard.app import create_app
    from unstale.dashboard.mirror_gateway import MirrorGateway

    made = mirror()
    made.add("python:news", poll=lambda: "one\ntwo\n")
    made.step()
    from unstale import Mirror

    gateway = MirrorGateway(Mirror(made.store.url, settings=made.settings), fresh_for=0.0)
    return create_app(gateway, AccessRules(token="token" * 8))


@target(16384)
def request(body: bytes) -> None:
    """Method, path and query, headers and body, each on a line."""
    app = _dashboard()
    method, path, query, names, *rest = [*body.split(b"\n", 4), b"", b"", b"", b"", b""]
    told = [pair.partition(b":")[::2] for pair in names.split(b"\r") if b":" in pair]
    known = [(b"host", b"127.0.0.1:8000"), (b"authorization", b"Bearer " + b"token" * 8)]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http",
        "method": method[:10].decode("latin-1").upper() or "GET",
        "path": "/" + path.decode("utf-8", "replace").lstrip("/"), "raw_path": b"/" + path,
        "query_string": query, "headers": [*known, *((name.lower(), value) for name, value in told)],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000), "root_path": "", "state": {},
    }  # fmt: skip
    status: list[int] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": rest[0], "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])
            for _, value in message["headers"]:
                assert b"\n" not in value
                assert b"\r" not in value

    async def asked() -> None:
        async with asyncio.timeout(900.0):  # a busy machine may compile first; what counts is processor time
            await app(scope, receive, send)

    if path.startswith(b"api/events") or path.endswith(b"/events"):  # it never ends
        return
    loop().run_until_complete(asked())
    assert status
    assert status[0] < 500 or status[0] == 503, (status, scope)


def warc_of(records: list[tuple[str, bytes]]) -> bytes:
    """Return an archive with these responses, for the corpus."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    out = io.BytesIO()
    writer = WARCWriter(out, gzip=False)
    for address, body in records:
        told = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
        writer.write_record(
            writer.create_warc_record(address, "response", payload=io.BytesIO(body), http_headers=told)
        )
    return out.getvalue()
