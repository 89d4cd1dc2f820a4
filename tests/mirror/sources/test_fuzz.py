"""Whatever a document holds: reading it ends soon, with an answer or with InvalidInput."""

import asyncio
import gzip
import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Known, Terms
from unstale.mirror.sources.contract import _check_found
from unstale.mirror.sources.feeds.formats import read_feed
from unstale.mirror.sources.feeds.sitemaps import read_sitemap
from unstale.mirror.sources.feeds.source import DocumentSource, _read_feed, _read_sitemap
from unstale.mirror.sources.http.source import http_source
from unstale.mirror.sources.lists import FORMATS, read_list

from .test_lists import OPML
from .worlds import atom, json_feed, rss, sitemap

BOMB = (
    b"<!DOCTYPE z [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;&a;&a;&a;&a;&a;'><!ENTITY c '&b;&b;&b;&b;&b;&b;'>]>"
)
VALID = [
    rss(3, 0), atom(3, 0), json_feed(3, 0), sitemap(3, 0), OPML.encode(), gzip.compress(sitemap(2, 0)),
    b"key,weight,max_age\nhttps://a.org/,2,6h\nhttps://b.org/,3,\n", b"https://a.org/\n# b\n/srv/x\ngopher://c\n",
    BOMB + b"<urlset><url><loc>http://a/&c;</loc><lastmod>&c;</lastmod></url></urlset>",
    BOMB + b"<rss version='2.0'><channel><item><link>http://a/&c;</link></item></channel></rss>",
    BOMB + b"<opml><body><outline xmlUrl='http://a/&c;'/></body></opml>",
]  # fmt: skip
PIECES = [
    b"<", b">", b"&", b"&amp;", b"&#0;", b"&#x110000;", b"&c;", b"'", b'"', b"\0", b"\xff\xfe", b"\n", b",",
    b"\xef\xbb\xbf", b"<![CDATA[", b"]]>", b"<!--", b"-->", b"<?xml version='1.0' encoding='utf-7'?>", b"{",
    b"<!DOCTYPE", b"<urlset>", b"<sitemapindex>", b"<loc>", b"http://[", b"http://a:99999/", b"[" * 2000,
    b"9999-99-99", b"0001-01-01T00:00:00+23:59", b"\xed\xa0\x80", b"\\ud800", b"key", b"xmlns:a='b'",
    b"encoding='utf-16'", b"<updated>", b"<entry>", b"<item>", b"x" * 5000, b"\x1f\x8b", b"1e999", b"}",
    b"<a:b/>", b'""',
]  # fmt: skip


@st.composite
def mutated(draw):
    """A valid document, with parts of it cut, doubled, swapped or replaced."""
    body = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(body)))
        upto = min(len(body), at + draw(st.integers(0, 60)))
        what = draw(st.sampled_from(["cut", "insert", "double", "byte", "end"]))
        if what == "cut":
            del body[at:upto]
        elif what == "insert":
            body[at:at] = draw(st.sampled_from(PIECES))
        elif what == "double":
            body[at:at] = body[at:upto]
        elif what == "byte" and at < len(body):
            body[at] = draw(st.integers(0, 255))
        elif what == "end":
            del body[at:]
    return bytes(body)


documents = st.one_of(
    st.binary(max_size=200), mutated(), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)
)


class Fetched:
    """A source that has fetched a body."""

    key = staticmethod(http_source(Settings()).key)

    def __init__(self, body):
        self.body = body

    async def poll(self, known, terms):  # noqa: ARG002
        return Found("changed", body=self.body, fingerprint=None, validators={"etag": "x"})

    async def close(self):
        pass


@pytest.mark.parametrize("read", [_read_feed, _read_sitemap])
@given(documents, documents)
def test_polls_of_any_document_do_not_raise(tmp_path, read, one, two):
    known = Known("https://example.org/doc")

    async def play():
        nonlocal known
        for body in (one, two):
            source = DocumentSource("feed", read, Fetched(body), Fetched(body), own_host=False)
            found = await source.poll(known, Terms(tmp_path, 1_000_000, 20.0))
            assert found.outcome in {"changed", "failed"}
            assert found.detail
            _check_found(found, tmp_path)
            if found.outcome == "changed":
                assert all(new.key.startswith("http") for new in found.discovered)
                for new in found.discovered:
                    assert new.key == Fetched.key(new.key, {})
                    new.key.encode()
                known = Known(known.key, {}, json.loads(json.dumps(found.validators)), found.fingerprint)

    asyncio.run(play())


@given(documents)
def test_documents_are_read_or_refused(body):
    for read in (read_feed, read_sitemap):
        try:
            told = read(body, "https://example.org/doc")
        except InvalidInput:
            pass
        else:
            assert len(told.entries) <= 50_000
            assert all(isinstance(entry.state, str) for entry in told.entries)


@pytest.mark.parametrize("form", [None, *FORMATS])
@given(documents)
def test_lists_are_read_or_refused(tmp_path, form, body):
    path = tmp_path / "list"
    path.write_bytes(body)
    reader = read_list(path, form)
    try:
        listed = list(reader)
    except InvalidInput:
        return
    for one in listed:
        assert one.new.key
        assert one.new.key.isprintable()
        assert one.new.source
        assert all(isinstance(value, str) or 0 <= value < float("inf") for value in one.given.values())
    for one in reader.rejected:
        assert one.why
        one.text.encode()


urls = st.from_regex(r"https://[a-z]{1,8}\.org/[a-z0-9/]{0,10}", fullmatch=True)


@given(st.lists(urls, min_size=1, unique=True), st.randoms(use_true_random=False))
def test_what_is_written_is_read(links, random):
    text = "".join(f"<url><lastmod>2024</lastmod><loc>{link}</loc></url>" for link in links)
    assert [entry.name for entry in read_sitemap(f"<urlset>{text}</urlset>".encode()).entries] == links
    assert [entry.name for entry in read_sitemap("\n".join(links).encode()).entries] == links
    items = [f"<item><link>{link}</link></item>" for link in links]
    random.shuffle(items)
    told = read_feed(f"<rss version='2.0'><channel>{''.join(items)}</channel></rss>".encode())
    assert {entry.name for entry in told.entries} == set(links)


printable = st.text(st.characters(exclude_categories=("C", "Z")), max_size=20)


@given(printable, printable)
def test_states_of_entries_differ_with_their_text(one, two):
    assume(one != two)

    def entries(text):
        items = [{"id": "1", "content_text": text}]
        return read_feed(
            json.dumps({"version": "https://jsonfeed.org/version/1", "items": items}).encode()
        ).entries

    assert entries(one) != entries(two)
    assert entries(one) == entries(one)
