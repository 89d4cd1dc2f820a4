"""What polls of pages find: conditions, redirects, headers, bodies, what they spend."""

import asyncio
import gzip
import zlib
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random

import brotli
import pytest
import zstandard

from unstale.errors import InvalidInput
from unstale.mirror.settings import Http, Settings
from unstale.mirror.sources.http.fingerprint import NoContent
from unstale.mirror.sources.http.headers import promised
from unstale.mirror.sources.http.source import HttpSource, http_source

from .hostile import Hostile, answer, then_close

PAGE = b"<!DOCTYPE html><html><head><title>A &amp; B</title></head><body><p>text</p></body></html>"


def conditional(body, etag="", modified=""):
    """A page that says 304 to who has it."""
    headers = {"ETag": etag} if etag else {}
    headers |= {"Last_Modified": modified} if modified else {}

    async def handler(request, writer):
        asked = request.headers.get("If-None-Match"), request.headers.get("If-Modified-Since")
        same = asked[0] == etag if asked[0] else (asked[1] == modified if asked[1] else False)
        page = answer(b"", "304 Not Modified", **headers) if same else answer(body, **headers)
        writer.write(page.replace(b"Content-Length: 0\r\n", b"") if same else page)
        await writer.drain()

    return handler


def polled(visitor, pages, *paths, **more):
    """Poll these one after the other, and return what was found and the server."""

    async def main():
        async with Hostile(pages) as server, visitor:
            found = [await visitor.poll(server.url(path), **more) for path in paths]
        return found, server

    return asyncio.run(main())


def test_a_page_comes_with_all_that_is_known_of_it(visitor):
    modified = "Wed, 21 Oct 2015 07:28:00 GMT"
    kind = "Text/HTML; charset=UTF-8"
    page = answer(
        PAGE, Content_Type=kind, ETag='"1"', Last_Modified=modified, X_Odd="yes", Set_Cookie="secret=1"
    )
    (found,), server = polled(visitor, {"/a": page}, "/a")
    assert found.outcome == "changed"
    assert found.detail == "200 OK"
    assert found.body == PAGE
    assert found.fingerprint == f"bytes:{sha256(PAGE).hexdigest()}"
    assert found.media_type == "text/html"
    assert found.modified == 1445412480.0
    assert found.moved is None
    assert found.wait is None
    assert found.meta["title"] == "A & B"
    assert found.meta["url"] == server.url("/a")
    assert found.meta["status"] == 200
    assert found.meta["headers"]["x-odd"] == "yes"
    assert "set-cookie" not in found.meta["headers"]
    assert found.validators == {
        "url": server.url("/a"),
        "status": 200,
        "type": kind,
        "etag": '"1"',
        "modified": modified,
    }
    assert len(PAGE) + 200 < found.traffic < len(PAGE) + 1000


@pytest.mark.parametrize(
    ("etag", "modified"),
    [
        ('"1"', ""),
        ('W/"x"', ""),
        ("", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ('"1"', "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("unquoted", "yesterday"),
    ],
)
def test_the_second_poll_asks_only_for_a_change(visitor, etag, modified):
    async def main():
        async with Hostile({"/a": conditional(PAGE, etag, modified)}) as server, visitor:
            first = await visitor.poll(server.url("/a"))
            second = await visitor.poll(server.url("/a"), before=first)
            server.pages["/a"] = conditional(PAGE + b"more", f"{etag}2" if etag else "", f"{modified} 2")
            third = await visitor.poll(server.url("/a"), before=first)
            return first, second, third, server.asked("/a")

    first, second, third, asked = asyncio.run(main())
    assert (first.outcome, second.outcome, third.outcome) == ("changed", "unchanged", "changed")
    assert second.detail == "304 Not Modified"
    assert second.body is None
    assert second.validators is None, "as before"
    assert second.traffic < 500
    assert asked[1].headers.get("If-None-Match", "") == etag
    assert asked[1].headers.get("If-Modified-Since", "") == modified
    assert third.body == PAGE + b"more"
    assert third.fingerprint != first.fingerprint


def test_no_conditions_without_a_copy_or_for_another_definition_or_if_told_so(visitor):
    async def main():
        async with Hostile({"/a": conditional(PAGE, '"1"')}) as server, visitor:
            url = server.url("/a")
            first = await visitor.poll(url)
            for found in (
                await visitor.poll(url, before=replace(first, fingerprint=None)),
                await visitor.poll(url, before=first, options={"selector": "p"}),
                await visitor.poll(url, before=first, options={"conditional": False}),
                await visitor.poll(url, before=first, options={"conditional": "false"}),
                await visitor.poll(
                    url, before=replace(first, validators={**first.validators, "url": url + "b"})
                ),
                await visitor.poll(
                    url, before=replace(first, validators={"etag": 7, "url": url, "modified": []})
                ),
            ):
                assert found.outcome == "changed"
            assert (await visitor.poll(url, before=first)).outcome == "unchanged"

    asyncio.run(main())


def test_an_etag_that_lies_is_found_out_by_the_fingerprint(visitor):
    async def main():
        async with Hostile({"/a": answer(PAGE, ETag='"same"')}) as server, visitor:
            first = await visitor.poll(server.url("/a"))
            server.pages["/a"] = answer(PAGE + b"!", ETag='"same"')
            return first, await visitor.poll(server.url("/a"), before=first)

    first, second = asyncio.run(main())
    assert first.fingerprint != second.fingerprint


def test_redirects_are_followed_and_permanent_ones_are_told(visitor):
    pages = {
        "/old": answer(b"", "301 Moved Permanently", Location="/older?x=1#part"),
        "/older?x=1": answer(b"", "308 Permanent Redirect", Location="new"),
        "/new": answer(PAGE, ETag='"1"'),
        "/mixed": answer(b"", "301 Moved Permanently", Location="/temporary"),
        "/temporary": answer(b"", "302 Found", Location="/new"),
        "/303": answer(b"", "303 See Other", Location="/new"),
        "/307": answer(b"", "307 Temporary Redirect", Location="//{}/new"),
        "/again": answer(b"", "302 Found", Location="/old"),
        "/lost": answer(b"", "301 Moved Permanently", Location="/nothing"),
    }
    paths = ["/old", "/mixed", "/temporary", "/303", "/again", "/lost"]
    found, server = polled(visitor, pages, *paths)
    assert [one.outcome for one in found] == ["changed"] * 5 + ["gone"]
    assert [one.moved for one in found] == [server.url("/new")] + [None] * 5
    assert all(one.body == PAGE for one in found[:5])
    assert found[0].validators["url"] == server.url("/new")
    assert found[5].detail == f"404 Not Found: it redirects to {server.url('/nothing')}, which is not there"


def test_validators_belong_to_the_address_that_gave_them(visitor):
    async def main():
        pages = {
            "/a": answer(b"", "302 Found", Location="/b"),
            "/b": conditional(PAGE, '"1"'),
            "/c": conditional(PAGE + b"c", '"1"'),
        }
        async with Hostile(pages) as server, visitor:
            first = await visitor.poll(server.url("/a"))
            assert (await visitor.poll(server.url("/a"), before=first)).outcome == "unchanged"
            assert "If-None-Match" not in server.asked("/a")[1].headers
            server.pages["/a"] = answer(b"", "302 Found", Location="/c")
            moved = await visitor.poll(server.url("/a"), before=first)
            assert moved.body == PAGE + b"c", "the ETag of another page was asked with"

    asyncio.run(main())


def test_so_many_redirects_and_no_more(visitor):
    pages = {f"/{i}": answer(b"", "302 Found", Location=f"/{i + 1}") for i in range(10)} | {
        "/10": answer(PAGE)
    }
    (found, one_more), _ = polled(
        visitor.set(max_redirects=9), {**pages, "/-1": answer(b"", "302 Found", Location="/0")}, "/1", "/0"
    )
    assert found.outcome == "changed"
    assert one_more.outcome == "failed"
    assert one_more.detail == "more than 9 redirects"


def test_secrets_stay_with_the_host_they_are_for(visitor):
    """Also on another port, with another scheme, and on the way back."""
    secret = {"Authorization": "Bearer 1", "Cookie": "a=1", "X-Api-Key": "k", "Accept-Language": "de"}

    async def main():
        async with Hostile({"/back": answer(PAGE)}) as other, Hostile({"/end": answer(PAGE)}) as server:
            server.pages["/away"] = answer(b"", "302 Found", Location=other.url("/back"))
            server.pages["/near"] = answer(b"", "302 Found", Location="/end")
            other.pages["/back"] = answer(b"", "302 Found", Location=server.url("/end"))
            async with visitor.set(headers=secret):
                options = {"headers": {"X-Own": "o"}}
                assert (await visitor.poll(server.url("/near"), options=options)).outcome == "changed"
                near = server.asked("/end")[-1].headers
                assert (await visitor.poll(server.url("/away"), options=options)).outcome == "changed"
            return (
                near,
                server.asked("/away")[0],
                other.requests,
                server.asked("/end")[-1],
                server.requests[0],
            )

    near, first, others, back, robots = asyncio.run(main())
    assert robots.target == "/robots.txt"
    for headers in (near, first.headers):
        assert {**secret, "X-Own": "o"}.items() <= headers.items()
    for request in (*others, back, robots):
        assert request.headers["Accept-Language"] == "de"
        assert not {"Authorization", "Cookie", "X-Api-Key", "X-Own"} & request.headers.keys()


def test_cookies_are_not_kept(visitor):
    _, server = polled(visitor, {"/a": answer(PAGE, Set_Cookie="a=1; Path=/")}, "/a", "/a")
    assert all("Cookie" not in request.headers for request in server.requests)


def test_who_asks_is_told(visitor):
    visitor.settings = replace(visitor.settings, contact="mailto:me@example.org")
    _, server = polled(visitor, {"/a": answer(PAGE)}, "/a")
    agents = {request.headers["User-Agent"] for request in server.requests}
    assert len(agents) == 1
    (agent,) = agents
    assert agent.startswith("unstale/")
    assert agent.endswith(" (+mailto:me@example.org)")


@pytest.mark.parametrize(
    "coding", ["gzip", "x-gzip", "deflate", "raw", "br", "zstd", "zstd, gzip", "identity", ""]
)
def test_codings_are_undone(visitor, coding):
    raw = zlib.compressobj(9, zlib.DEFLATED, -15)
    bodies = {
        "gzip": gzip.compress(PAGE[:20]) + gzip.compress(PAGE[20:]) + b"\0\0\0",
        "x-gzip": gzip.compress(PAGE),
        "deflate": zlib.compress(PAGE),
        "raw": raw.compress(PAGE) + raw.flush(),
        "br": brotli.compress(PAGE),
        "zstd": zstandard.compress(PAGE[:9]) + zstandard.compress(PAGE[9:]),
        "zstd, gzip": gzip.compress(zstandard.compress(PAGE)),
    }
    name = "deflate" if coding == "raw" else coding
    page = answer(bodies.get(coding, PAGE), Content_Encoding=name, Content_Type="text/html")
    (found,), server = polled(visitor, {"/a": page}, "/a")
    assert found.body == PAGE
    assert "content-encoding" not in found.meta["headers"]
    assert server.asked("/a")[0].headers["Accept-Encoding"] == "gzip, deflate, br, zstd"


@pytest.mark.parametrize("options", [{}, {"ignore": "nothing"}])
@pytest.mark.parametrize("coding", ["", "zstd"])
def test_a_large_body_goes_to_a_file(visitor, coding, options):
    body = PAGE + Random(1).randbytes(20_000) * 100  # noqa: S311
    page = answer(
        zstandard.compress(body) if coding else body, Content_Encoding=coding, Content_Type="text/html"
    )
    (found,), _ = polled(visitor, {"/a": page}, "/a", options=options)
    assert isinstance(found.body, Path)
    assert found.body.parent == visitor.scratch
    assert found.body.read_bytes() == body
    assert found.meta["title"] == "A & B"
    if not options:
        assert found.fingerprint == f"bytes:{sha256(body).hexdigest()}"
    assert list(visitor.scratch.iterdir()) == [found.body]


@pytest.mark.parametrize("length", [True, False])
def test_no_more_is_read_than_was_paid_for(visitor, length):
    body = bytes(300_000)
    spent = []

    async def spend(n):
        await asyncio.sleep(0)
        spent.append(n)

    page = answer(body) if length else b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body

    async def handler(_, writer):
        writer.write(page)
        await writer.drain()
        if not length:
            writer.close()

    (found,), _ = polled(visitor, {"/a": handler}, "/a", spend=spend)
    assert found.outcome == "changed"
    assert len(found.body) == len(body)
    assert len(body) <= sum(spent) <= len(body) + (0 if length else 16384)
    assert max(spent) <= 65536


def test_nothing_is_spent_on_a_page_that_has_not_changed(visitor):
    spent = []

    async def spend(n):
        spent.append(n)

    async def main():
        async with Hostile({"/a": conditional(PAGE, '"1"')}) as server, visitor:
            first = await visitor.poll(server.url("/a"))
            return await visitor.poll(server.url("/a"), before=first, spend=spend)

    assert asyncio.run(main()).outcome == "unchanged"
    assert spent == []


def test_a_budget_that_comes_too_late_is_told(visitor):
    async def spend(_):
        await asyncio.sleep(60)

    (found,), _ = polled(visitor, {"/a": answer(PAGE)}, "/a", spend=spend, timeout=0.3)
    assert found.detail == "not done within 0.3 seconds: waiting for the budget of bytes, after 0 bytes"


@pytest.mark.parametrize(
    ("status", "after", "wait"),
    [
        (429, "30", 30.0),
        (503, " 30 ", 30.0),
        (503, "0", 1.0),
        (503, "99999999999999999999", 86400.0),
        (503, "Wed, 01 Jan 2020 00:10:00 GMT", 600.0),
        (429, "Wed, 01 Jan 1990 00:10:00 GMT", 1.0),
        (503, "Wed, 01 Jan 9999 00:10:00 GMT", 86400.0),
        (503, "soon", None),
        (503, "-5", None),
        (503, "", None),
        (429, "", 60.0),
        (429, "soon", 60.0),
        (500, "30", None),
        (404, "30", None),
    ],
)
def test_how_long_to_leave_a_host_alone(visitor, status, after, wait):
    page = answer(b"", f"{status} No", Retry_After=after, Date="Wed, 01 Jan 2020 00:00:00 GMT")
    (found,), _ = polled(visitor.set(robots=False), {"/a": page}, "/a")
    assert found.wait == wait


def test_the_main_text_and_what_a_selector_finds(visitor):
    page = answer(PAGE, Content_Type="text/html")
    (found,), _ = polled(visitor, {"/a": page}, "/a", options={"selector": "p"})
    assert found.outcome == "changed"
    assert found.fingerprint.startswith("text-")
    (found,), _ = polled(visitor, {"/a": page}, "/a", options={"selector": "article.news"})
    assert found.outcome == "failed"
    assert found.detail == "the selector 'article.news' finds nothing on the page"
    (found,), _ = polled(visitor, {"/a": page}, "/a", options={"change": "colour"})
    assert found.outcome == "failed"
    assert "change must be one of" in found.detail


def test_what_cannot_be_set_is_refused_at_the_door():
    for http in (
        Http(headers={"Host": "example.org"}),
        Http(headers={"If-None-Match": "x"}),
        Http(headers={"a b": "c"}),
        Http(headers={"A": "b\r\nC: d"}),
        Http(headers={"User-Agent": "me"}),
        Http(user_agent="a\nb"),
        Http(user_agent=" "),
    ):
        with pytest.raises(InvalidInput):
            http_source(Settings(http=http))
    with pytest.raises(InvalidInput):
        http_source(Settings(contact="me\r\nX: y"))


def test_keys_groups_and_options():
    pages = HttpSource(Settings())
    assert pages.key("HTTPS://Example.org", {}) == "https://example.org/"
    assert pages.group("https://example.org/", {}) == "http:example.org"
    assert pages.group("http://example.org:8080/", {}) == "http:example.org:8080"
    assert pages.group("http://[::1]:8080/", {}) == "http:[::1]:8080"
    pages.key("http://example.org/", {"cursor": "id", "selector": "main"})
    for options in (
        {"selctor": "main"},
        {"selector": "main["},
        {"selector": 3},
        {"change": "words"},
        {"selector": "main", "change": "json"},
        {"ignore": "("},
        {"ignore": [1]},
        {"ignore": {"a": "b"}},
        {"ignore": ["x" * 2000]},
        {"ignore": ["x"] * 101},
        {"conditional": "perhaps"},
        {"headers": ["a"]},
        {"headers": {"Host": "a"}},
        {"headers": {"A": 1}},
    ):
        with pytest.raises(InvalidInput, match=next(iter(options))):
            pages.key("http://example.org/", options)


def test_to_add_a_page_does_not_load_aiohttp():
    import subprocess
    import sys

    code = (
        "import sys; from unstale.mirror.settings import Settings;"
        "from unstale.mirror.sources.http.source import http_source;"
        "http_source(Settings()).key('http://example.org/', {}); assert 'aiohttp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # noqa: S603  no shell, no input


@pytest.mark.parametrize("coding", ["", "gzip", "no length"])
def test_a_copy_may_have_so_many_bytes_and_not_one_more(visitor, coding):
    body = Random(1).randbytes(100_000)  # noqa: S311
    page = answer(
        gzip.compress(body) if coding == "gzip" else body, Content_Encoding="gzip" if coding == "gzip" else ""
    )
    if coding == "no length":
        page = then_close(b"HTTP/1.1 200 OK\r\n\r\n" + body)
    (found,), _ = polled(visitor, {"/a": page}, "/a", max_size=100_000)
    assert found.body == body
    (found,), _ = polled(visitor, {"/a": page}, "/a", max_size=99_999)
    assert found.outcome == "failed"
    assert found.detail.startswith("larger than 99,999 bytes")


@pytest.mark.parametrize(
    ("said", "modified"),
    [
        ("Thu, 01 Jan 1970 00:01:00 GMT", 60.0),
        ("Thu, 01 Jan 1970 01:01:00 +0100", 60.0),
        ("Wed, 01 Jan 1969 00:00:00 GMT", None),
        ("Fri, 01 Jan 2999 00:00:00 GMT", None),
        ("soon", None),
        ("", None),
    ],
)
def test_when_it_changed_is_believed_if_it_can_be(visitor, said, modified):
    (found,), _ = polled(visitor, {"/a": answer(PAGE, Last_Modified=said)}, "/a")
    assert found.modified == modified


@pytest.mark.parametrize(
    ("headers", "stays"),
    [
        ({"Cache-Control": "public, max-age=600"}, 600.0),
        ({"Cache-Control": "s-maxage=9, MAX-AGE=600", "Age": "100"}, 500.0),
        ({"Cache-Control": "max-age=60", "Age": "100"}, None),
        ({"Cache-Control": "max-age=600, no-cache"}, None),
        ({"Cache-Control": "no-store, max-age=600"}, None),
        ({"Cache-Control": "max-age=999999999"}, 366 * 86400.0),
        ({"Cache-Control": "max-age=much", "Age": "x"}, None),
        ({"Expires": "Thu, 01 Jan 2026 01:00:00 GMT", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, 3600.0),
        ({"Expires": "0", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_for_how_long_a_page_stays_as_it_is(headers, stays):
    assert promised(headers) == stays


def test_a_promise_is_heard_with_content_and_without(visitor):
    headers = {"ETag": '"1"', "Cache_Control": "max-age=60"}

    async def main():
        async with Hostile({"/a": answer(PAGE, **headers)}) as server, visitor:
            first = await visitor.poll(server.url("/a"))
            server.pages["/a"] = answer(b"", "304 Not Modified", **headers)
            return first, await visitor.poll(server.url("/a"), before=first)

    first, second = asyncio.run(main())
    assert (first.stays, second.outcome, second.stays) == (60.0, "unchanged", 60.0)


def test_what_a_parser_says_is_shown_in_one_line(visitor, monkeypatch):
    def broken(*_):
        raise NoContent("one\nline\x00 and " + "more" * 1000)

    monkeypatch.setattr("unstale.mirror.sources.http.poll.fingerprint_of", broken)
    (found,), _ = polled(visitor, {"/a": answer(PAGE)}, "/a", options={"change": "text"})
    assert found.outcome == "failed"
    assert found.detail.isprintable()
    assert len(found.detail) <= 300


def test_a_poll_says_that_all_text_counts_in_place_of_the_main_text(visitor):
    page = answer(b"<html><body><span></span></body></html>", Content_Type="text/html")
    (found,), _ = polled(visitor, {"/a": page}, "/a", options={"change": "text"})
    assert found.detail.startswith("200 OK; no main text was found, so all visible text counts; a selector")
