"""Bodies that are hard to read fail alone: in a child process, not in that of the mirror."""

import asyncio
import gzip
import re
import resource
import time

import pytest

from unstale.errors import InvalidInput
from unstale.mirror.contained import Children
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.feeds.sitemaps import gunzip
from unstale.mirror.sources.feeds.source import feed_source, sitemap_source
from unstale.mirror.sources.http.decode import accepted, decoder
from unstale.mirror.sources.http.fingerprint import ChangeDefinition, NoContent, fingerprint_of
from unstale.mirror.sources.http.source import http_source

from .hostile import Hostile, answer

MEMORY = 160 << 20
EMPTY = gzip.compress(b"", mtime=0)
RSS = b"<?xml version='1.0'?><rss version='2.0'><channel>"

HOSTILE = {
    "main text": (http_source, {"change": "text"}, b"<html><body>" + b"a<br>" * 800_000),
    "selector": (http_source, {"selector": "p"}, b"<html><body>" + b"<p>a" * 4_000_000),
    "markup": (http_source, {"selector": "b", "change": "bytes"}, b"<html>" + b"<b>a</b>" * 2_000_000),
    "JSON": (http_source, {"change": "json"}, b"[" + b"[]," * 5_000_000 + b"0]"),
    "feed": (feed_source, {}, RSS + b"<item><link>http://a/</link></item>" * 250_000),
    "sitemap": (sitemap_source, {}, b"<urlset><url><loc>" + b"<![CDATA[" * 1_000_000),
    "packed sitemap": (
        sitemap_source,
        {},
        gzip.compress(b"<urlset>" + b"<url>\n</url>" * 1_200_000, 1, mtime=0),
    ),
    "packed feed": (feed_source, {}, gzip.compress(RSS + b"<a>" * 2_500_000, 1, mtime=0)),
}


@pytest.fixture
def impatient(monkeypatch):
    """Children with little memory and time."""
    children = Children(1, memory=MEMORY, seconds=2.0)
    for module in ("http.poll", "feeds.source"):
        monkeypatch.setattr(f"unstale.mirror.sources.{module}.parsers", children)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_body_fails_alone(visitor, kind):
    source_of, options, body = HOSTILE[kind]
    good = b"<html><body><p>good" + b" " * 300_000

    async def main():
        async with Hostile(
            {"/bad": answer(body), "/good": answer(good), "/robots.txt": answer(b"")}
        ) as server:
            source, pages = source_of(visitor.settings), http_source(visitor.settings)
            terms = Terms(visitor.scratch, 30_000_000, 100.0)
            try:
                began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                bad = await source.poll(Known(server.url("/bad"), options), terms)
                spent = time.process_time() - began
                grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
                found = await pages.poll(Known(server.url("/good"), {"selector": "p"}), terms)
            finally:
                await source.close()
                await pages.close()
            return bad, found, spent, grown * 1024

    bad, found, spent, grown = asyncio.run(main())
    assert found.outcome == "changed"
    assert bad.outcome == "failed"
    assert "cannot be read" in bad.detail
    if "sitemap" not in kind:  # the reader of sitemaps has limits of its own
        assert re.search("more than 160 MB of memory|more than 2 seconds of processor time", bad.detail)
    assert spent < 2.0, "in this process; a child worked for as long as it may"
    assert grown < 5 * len(body) + 50_000_000, "in this process"
    assert not list(visitor.scratch.iterdir())


def test_what_is_small_or_plain_needs_no_child(visitor, monkeypatch):
    """Neither small pages nor large ones whose bytes count pay for children."""
    for module in ("http.poll", "feeds.source"):
        monkeypatch.setattr(f"unstale.mirror.sources.{module}.parsers", None)
    pages = {"/small": answer(b"<html><p>x" + b" " * 200_000), "/large": answer(b"x" * 2_000_000)}

    async def main():
        async with Hostile(pages) as server, visitor:
            small = [
                await visitor.poll(server.url("/small"), options=options)
                for options in ({}, {"change": "text"}, {"selector": "p"}, {"ignore": "y"})
            ]
            return [*small, await visitor.poll(server.url("/large"))]

    assert [found.outcome for found in asyncio.run(main())] == ["changed"] * 5


def test_large_bodies_count_as_small_ones_do(visitor):
    """A child finds what this process would find, in memory and in a file."""
    for size in (300_000, 1_500_000):
        body = b"<html><body><p>one</p><p>two</p>" + b" " * size
        for options in ({"change": "text"}, {"selector": "p"}, {"ignore": ["two"]}):

            async def main(body=body, options=options):
                async with Hostile({"/a": answer(body, Content_Type="text/html")}) as server, visitor:
                    return await visitor.poll(server.url("/a"), options=options)

            found = asyncio.run(main())
            assert found.outcome == "changed"
            if isinstance(found.body, bytes):
                assert found.body == body
            else:
                assert found.body.read_bytes() == body
                found.body.unlink()


def test_a_selector_that_finds_nothing_in_a_large_page(visitor):
    async def main():
        async with Hostile({"/a": answer(b"<html><p>x" + b" " * 300_000)}) as server, visitor:
            return await visitor.poll(server.url("/a"), options={"selector": "table"})

    found = asyncio.run(main())
    assert (found.outcome, found.detail) == ("failed", "the selector 'table' finds nothing on the page")


def test_many_empty_parts_are_unpacked_in_linear_time():
    began = time.process_time()
    assert gunzip(EMPTY * 200_000, 1000) == b""
    assert time.process_time() - began < 10.0, "it took a minute when each part copied all that follows it"
    assert gunzip((EMPTY + b"\0" * 5000 + gzip.compress(b"ab", mtime=0)) * 3 + b"\0" * 9000, 6) == b"ababab"
    with pytest.raises(InvalidInput, match="more than 5 bytes"):
        gunzip(gzip.compress(b"ab", mtime=0) * 3, 5)
    with pytest.raises(InvalidInput, match="ends too early"):
        gunzip((EMPTY * 1000)[:-1], 5)


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_many_empty_members_are_decoded_in_linear_time(coding):
    if coding not in accepted():
        pytest.skip(f"{coding} cannot be decoded here")
    if coding == "gzip":
        one, last = EMPTY, gzip.compress(b"x" * 9000, mtime=0)
    else:
        zstandard = pytest.importorskip("zstandard")
        one, last = zstandard.compress(b""), zstandard.compress(b"x" * 9000)
    out = []
    decoding = decoder(coding, out.append, lambda _: None)
    began = time.process_time()
    decoding.feed(one * 200_000 + last)
    decoding.end()
    assert time.process_time() - began < 15.0, "it took minutes when each member copied all that follows it"
    assert b"".join(out) == b"x" * 9000


def test_nested_nodes_are_selected_in_bounded_time():
    page = b"<html><body><script></script>" + b"<div>" * 240 + b"a<br>" * 12_000
    began = time.process_time()
    assert fingerprint_of(ChangeDefinition("text", "div"), page, "text/html")
    assert time.process_time() - began < 7.0, (
        "it took fifteen seconds when all ancestors of each text were asked"
    )


def test_nodes_within_nodes_are_not_read_for_long():
    page = b"<html><body>" + b"<div>" * 200 + b"a<br>" * 50_000
    for change in ("text", "bytes"):
        with pytest.raises(NoContent, match="nodes within nodes"):
            fingerprint_of(ChangeDefinition(change, "div"), page, "text/html")
    assert fingerprint_of(ChangeDefinition("text", "body"), page, "text/html")
