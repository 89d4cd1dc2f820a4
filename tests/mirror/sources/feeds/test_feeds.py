"""Feeds and sitemaps: what they discover, what they hint at, and what they cannot do."""

import asyncio
import gzip
import time
from pathlib import Path

import pytest

from mirror.sources.worlds import Server
from unstale import InvalidInput
from unstale.mirror.settings import Http, Settings
from unstale.mirror.source import Known, New, Terms
from unstale.mirror.sources.bloom_filter import BloomFilter
from unstale.mirror.sources.contract import learned
from unstale.mirror.sources.feeds import formats, safe_xml, sitemaps
from unstale.mirror.sources.feeds import source as document_source
from unstale.mirror.sources.feeds.formats import read_feed
from unstale.mirror.sources.feeds.sitemaps import read_sitemap
from unstale.mirror.sources.feeds.source import DocumentSource, feed_source, sitemap_source
from unstale.mirror.sources.http.source import http_source


@pytest.fixture
def site(tmp_path):
    """A document on loopback; poll it, knowing what the poll before brought."""
    server = Server("text/xml", validators=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    class Site:
        url = None
        memory = None

        def poll(self, make, body=None, path="/doc", **options):
            if body is not None:
                server.body = body.replace("{host}", self.url).encode() if isinstance(body, str) else body
            known = self.memory or Known("")
            known = Known(f"{self.url}{path}", options, known.validators, known.fingerprint)

            async def once():
                source = make(Settings())
                try:
                    return await source.poll(known, Terms(scratch, 20_000_000, 20.0))
                finally:
                    await source.close()

            found = asyncio.run(once())
            self.memory = learned(known, found)
            return found

    with server.running() as url:
        site = Site()
        site.url, site.server, site.scratch = url, server, scratch
        yield site


def rss(*links, head="", dates=()):
    items = "".join(
        f"<item><title>{link}</title><link>{link}</link>{date}</item>"
        for link, date in zip(links, [*dates, *[""] * len(links)], strict=False)
    )
    return f"<rss version='2.0'><channel><title>News</title>{head}{items}</channel></rss>"


def urls(*pairs, kind="urlset"):
    child = "url" if kind == "urlset" else "sitemap"
    inside = "".join(f"<{child}><loc>{loc}</loc><lastmod>{mod}</lastmod></{child}>" for loc, mod in pairs)
    return (
        f"<?xml version='1.0'?><{kind} xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{inside}</{kind}>"
    )


def keys(found):
    return [new.key for new in found.discovered]


def hanging(*_):
    time.sleep(0.6)


class TestFeeds:
    def test_its_links_are_discovered(self, site):
        body = rss("https://example.org/a", "/b", "c?x=1#part", "mailto:me@example.org", "https://[")
        found = site.poll(feed_source, body)
        assert keys(found) == ["https://example.org/a", f"{site.url}/b", f"{site.url}/c?x=1"]
        assert {new.source for new in found.discovered} == {"http"}
        assert not found.complete
        assert found.hints == ()
        assert found.body == body.encode()
        assert found.meta["title"] == "News"
        assert found.meta["format"] == "rss20"

    def test_new_entries_get_hints(self, site):
        site.poll(feed_source, rss("/a", "/b"))
        when = "<pubDate>Wed, 01 May 2024 12:00:00 GMT</pubDate>"
        found = site.poll(feed_source, rss("/c", "/a", "/b", dates=[when]))
        assert found.hints == ((f"{site.url}/c", 1714564800.0),)
        assert len(found.discovered) == 3
        assert found.detail == "200 OK, 3 entries, 1 new or changed"

    def test_changed_entries_get_hints(self, site):
        entry = "<entry><id>{0}</id><link href='/{0}'/><updated>2024-05-0{1}T00:00:00Z</updated></entry>"
        feed = "<feed xmlns='http://www.w3.org/2005/Atom'>{}{}</feed>"
        site.poll(feed_source, feed.format(entry.format("a", 1), entry.format("b", 1)))
        found = site.poll(feed_source, feed.format(entry.format("a", 1), entry.format("b", 2)))
        assert found.hints == ((f"{site.url}/b", 1714608000.0),)

    def test_entries_without_a_time_show_by_their_text(self, site):
        site.poll(feed_source, rss("/a", "/b"))
        changed = rss("/a", "/b").replace("<title>/b</title>", "<title>corrected</title>")
        found = site.poll(feed_source, changed)
        assert found.hints == ((f"{site.url}/b", 0.0),)

    def test_its_dates_say_when_it_changed_and_when_its_entries_did(self, site):
        dates = [f"<pubDate>Wed, 0{day} May 2024 12:00:{day}0 GMT</pubDate>" for day in (3, 1, 1)]
        found = site.poll(feed_source, rss("/a", "/b", "/c", "/d", dates=dates))
        assert found.changes == (1714737630.0, 1714564810.0)  # two at once are one change
        assert [new.modified for new in found.discovered] == [1714737630.0, 1714564810.0, 1714564810.0, None]
        assert found.modified is None  # of the first poll there is more
        later = ["<pubDate>Sat, 04 May 2024 12:00:00 GMT</pubDate>", *dates]
        found = site.poll(feed_source, rss("/e", "/a", dates=later))
        assert (found.changes, found.modified) == ((), 1714824000.0)
        assert (
            site.poll(feed_source, rss("/e", "/f", dates=later)).modified is None
        )  # that was not the reason

    def test_an_answer_that_is_not_modified_tells_nothing(self, site):
        first = site.poll(feed_source, rss("/a"))
        known = site.memory
        found = site.poll(feed_source)
        assert (found.outcome, found.discovered, found.validators) == ("unchanged", (), None)
        assert site.memory == known
        assert first.validators["fetched"]["etag"]
        assert site.poll(feed_source, rss("/a", "/b")).hints == ((f"{site.url}/b", 0.0),)

    def test_the_same_body_again_is_told_once(self, site):
        site.server.validators = False
        first = site.poll(feed_source, rss("/a"))
        found = site.poll(feed_source)
        assert (found.outcome, found.fingerprint) == ("changed", first.fingerprint)
        assert found.discovered == ()
        assert site.poll(feed_source, rss("/b", "/a")).hints == ((f"{site.url}/b", 0.0),)

    def test_a_time_stamp_at_the_head_is_no_change(self, site):
        first = site.poll(feed_source, rss("/a", head="<lastBuildDate>now</lastBuildDate>"))
        found = site.poll(feed_source, rss("/a", head="<lastBuildDate>then</lastBuildDate>"))
        assert found.outcome == "changed"
        assert found.fingerprint == first.fingerprint
        assert found.hints == ()

    def test_unless_the_user_says_what_counts(self, site):
        one, two = (rss("/a", head=f"<lastBuildDate>{when}</lastBuildDate>") for when in ("now", "then"))
        first = site.poll(feed_source, one, change="bytes")
        assert site.poll(feed_source, two, change="bytes").fingerprint != first.fingerprint

    @pytest.mark.parametrize(
        ("options", "discovered", "hinted"),
        [
            ({"discover": False}, [], ["/news/1", "/shop/1"]),
            ({"discover": "false"}, [], ["/news/1", "/shop/1"]),
            ({"discover": "*/news/*"}, ["/news/1"], ["/news/1", "/shop/1"]),
            ({"only": "*/news/*"}, ["/news/1"], ["/news/1"]),
            (
                {"only": ["*/news/*", "*/shop/*"], "discover": ["*/shop/*"]},
                ["/shop/1"],
                ["/news/1", "/shop/1"],
            ),
        ],
    )
    def test_options_choose(self, site, options, discovered, hinted):
        site.poll(feed_source, rss("/x"), **options)
        found = site.poll(feed_source, rss("/news/1", "/shop/1"), **options)
        assert keys(found) == [site.url + path for path in discovered]
        assert [key for key, _ in found.hints] == [site.url + path for path in hinted]

    def test_other_options_make_it_tell_all_anew(self, site):
        site.poll(feed_source, rss("/a"), discover=False)
        assert site.poll(feed_source, discover=False).outcome == "unchanged"
        found = site.poll(feed_source, discover=True)
        assert keys(found) == [f"{site.url}/a"]

    def test_hosts(self, site):
        body = rss("https://example.org/a", "/b")
        assert len(site.poll(feed_source, body).discovered) == 2
        assert keys(site.poll(feed_source, hosts="own")) == [f"{site.url}/b"]

    @pytest.mark.parametrize(
        "options",
        [
            {"hosts": "all"},
            {"hosts": ["own"]},
            {"discover": 3},
            {"only": 3},
            {"nested": "x"},
            {"change": "mood"},
        ],
    )
    def test_options_that_mean_nothing_are_refused(self, options, site):
        with pytest.raises(InvalidInput):
            feed_source(Settings()).key("https://example.org/", options)
        assert site.poll(feed_source, rss("/a"), **options).outcome == "failed"

    @pytest.mark.parametrize(
        "body", ["<html><body>Not found</body></html>", "hello", "{}", '{"a": 1}', "{", "", "[1]"]
    )
    def test_what_is_not_a_feed_fails_and_says_so(self, site, body):
        found = site.poll(feed_source, body)
        assert found.outcome == "failed"
        assert "not a feed" in found.detail
        assert found.traffic > 0

    def test_the_body_is_never_taken_for_a_name_or_an_address(self, site, tmp_path):
        secret = tmp_path / "secret.xml"
        secret.write_text(rss("/secret"))
        for text in (str(secret), f"file://{secret}", f"{site.url}/secret"):
            asked = len(site.server.asked)
            assert site.poll(feed_source, text).outcome == "failed"
            assert len(site.server.asked) == asked + 1

    def test_entries_that_share_a_link_or_have_none_count_each(self, site):
        text = "<description>{}</description>"
        items = f"<item><link>/home</link>{text}</item><item>{text}</item>"
        feed = f"<rss version='2.0'><channel>{items}{items}</channel></rss>"
        first = site.poll(feed_source, feed.format(1, 2, 3, 4))
        assert keys(first) == [f"{site.url}/home"]
        prints = {first.fingerprint}
        for numbers in ((1, 2, 3, 5), (1, 2, 4, 5), (2, 2, 4, 5), (2, 3, 4, 5)):
            found = site.poll(feed_source, feed.format(*numbers))
            prints.add(found.fingerprint)
            assert len(found.hints) <= 1
        assert len(prints) == 5

    def test_entries_are_limited(self, site, monkeypatch):
        monkeypatch.setattr(formats, "MAX_ENTRIES", 5)
        assert len(site.poll(feed_source, rss(*(f"/{n}" for n in range(9)))).discovered) == 5
        monkeypatch.setattr(formats, "MAX_FEED_BYTES", 100)
        site.memory = None
        assert "feeds are read up to 100" in site.poll(feed_source).detail

    def test_private_addresses_are_not_reached_through_a_public_feed(self, tmp_path):
        """Whoever writes a feed must not make the mirror poll what only the mirror can reach."""
        path = tmp_path / "feed.xml"
        path.write_text(
            rss("http://169.254.169.254/meta", "http://localhost/", "http://nas/", "https://example.org/")
        )

        class Fetched:
            """Answers as a public host would."""

            key = staticmethod(http_source(Settings()).key)

            async def poll(self, known, terms):  # noqa: ARG002
                from unstale.mirror.source import Found

                return Found("changed", body=path.read_bytes(), meta={"url": landed or known.key})

            async def close(self):
                pass

        landed = ""

        def keys_from(key, settings):
            source = DocumentSource(
                "feed",
                document_source._read_feed,
                Fetched(),
                Fetched(),
                own_host=False,
                private=settings.http.private,
            )
            return keys(asyncio.run(source.poll(Known(key), Terms(tmp_path, 10**6, 5.0))))

        assert keys_from("https://example.org/feed", Settings()) == ["https://example.org/"]
        assert len(keys_from("http://localhost/feed", Settings())) == 4
        assert len(keys_from("https://example.org/feed", Settings(http=Http(private=True)))) == 4
        for landed in ("https://example.org/feed", "http://93.184.216.34/feed", "http://[2606:2800::1]/feed"):
            for key in ("http://localhost/feed", "http://10.0.0.1/feed", "https://example.org/feed"):
                assert keys_from(key, Settings()) == ["https://example.org/"], (key, landed)
        landed = "http://nas/feed"
        assert len(keys_from("http://localhost/feed", Settings())) == 4
        assert keys_from("https://example.org/feed", Settings()) == ["https://example.org/"]

    @pytest.mark.parametrize("size", [0, 2_000_000])
    def test_a_parser_that_hangs_is_given_up(self, site, size):
        site.server.body = b"<rss version='2.0'><channel>" + b" " * size + b"</channel></rss>"

        async def once():
            source = document_source._documents("feed", hanging, Settings(), own_host=False)
            try:
                return await source.poll(Known(f"{site.url}/doc"), Terms(site.scratch, 10**7, 0.4))
            finally:
                await source.close()

        found = asyncio.run(once())
        assert found.outcome == "failed"
        assert "within" in found.detail
        assert not list(site.scratch.iterdir())

    def test_keys(self):
        source = feed_source(Settings())
        assert source.key("feed://example.org/rss", {}) == "http://example.org/rss"
        assert source.key("feed:https://example.org/rss", {}) == "https://example.org/rss"
        assert source.key("/srv/feed.xml", {}) == "/srv/feed.xml"
        assert source.group("https://example.org/rss", {}) == "http:example.org"
        assert source.group("/srv/feed.xml", {}) == "file:local"
        asyncio.run(source.close())


class TestSitemaps:
    def test_it_names_all_there_is(self, site):
        found = site.poll(sitemap_source, urls(("{host}/a", "2024-05-01"), ("{host}/b", "2024-05-02")))
        assert found.discovered == (
            New(f"{site.url}/a", "http", modified=1714521600.0),
            New(f"{site.url}/b", "http", modified=1714608000.0),
        )
        assert found.complete
        assert found.hints == ()

    def test_an_empty_one_is_not_taken_at_its_word(self, site):
        found = site.poll(sitemap_source, urls())
        assert (found.outcome, found.complete) == ("changed", False)

    def test_another_lastmod_is_a_hint(self, site):
        site.poll(sitemap_source, urls(("{host}/a", "2024-05-01"), ("{host}/b", "2024-05-02")))
        found = site.poll(
            sitemap_source,
            urls(("{host}/a", "2024-05-03T12:00:00Z"), ("{host}/b", "2024-05-02"), ("{host}/c", "")),
        )
        assert found.hints == ((f"{site.url}/a", 1714737600.0), (f"{site.url}/c", 0.0))
        assert found.complete

    def test_a_date_that_most_pages_share_is_that_of_the_sitemap(self, site):
        pages = [(f"{{host}}/{i}", "2024-05-02" if i else "2024-05-01") for i in range(6)]
        found = site.poll(sitemap_source, urls(*pages))
        assert [new.modified for new in found.discovered] == [1714521600.0, *[None] * 5]
        assert found.changes == (1714608000.0, 1714521600.0)
        assert site.poll(sitemap_source, urls(*pages, ("{host}/new", "2024-05-03"))).modified is None
        assert (
            site.poll(sitemap_source, urls(*pages, ("{host}/new", "2024-05-03T09:00Z"))).modified
            == 1714726800.0
        )

    def test_it_names_its_own_host_only(self, site):
        body = urls(("{host}/a", ""), ("https://example.org/", ""), ("http://127.0.0.1/x", ""))
        found = site.poll(sitemap_source, body)
        assert keys(found) == [f"{site.url}/a"]
        assert "2 left out" in found.detail
        assert len(site.poll(sitemap_source, body, hosts="any").discovered) == 3

    def test_an_index_discovers_sitemaps_that_are_read_like_it(self, site):
        body = urls(("{host}/s1.xml", "2024-05-01"), ("{host}/doc", ""), kind="sitemapindex")
        found = site.poll(sitemap_source, body, only="*.xml", conditional=False, headers={"X-A": "1"})
        options = {"only": "*.xml", "conditional": False, "nested": 1}  # no headers: they may be secrets
        assert found.discovered == (New(f"{site.url}/s1.xml", "sitemap", options, modified=1714521600.0),)
        assert found.complete
        body = urls(("{host}/s1.xml", "2024-05-02"), ("{host}/doc", ""), kind="sitemapindex")
        found = site.poll(sitemap_source, body, only="*.xml", conditional=False, headers={"X-A": "1"})
        assert found.hints == ((f"{site.url}/s1.xml", 1714608000.0),)

    def test_indexes_do_not_lead_on_for_ever(self, site):
        body = urls(("{host}/s1.xml", ""), kind="sitemapindex")
        assert site.poll(sitemap_source, body, nested=2).outcome == "changed"
        assert site.poll(sitemap_source, body, nested=3).outcome == "failed"

    @pytest.mark.parametrize(
        ("body", "words"),
        [
            (urls(("https://example.org/a", ""))[:-9], "not well-formed XML"),
            ("<html/>", "its root is 'html'"),
            ("<rss/>", "it is a feed, not a sitemap"),
            ("just some text", "line 1 is not an address"),
            ("https://example.org/\nnonsense", "line 2 is not an address"),
            ("", "there is nothing in it"),
            (b"\xff\xfa\x00", "neither XML nor text"),
            (gzip.compress(b"<urlset/>", mtime=0)[:-5], "ends too early"),
            (b"\x1f\x8bnonsense", "not well-formed gzip"),
            (gzip.compress(b" " * 30_000_000, mtime=0), "more than 20,000,000 bytes when unpacked"),
        ],
    )
    def test_what_is_broken_fails_as_a_whole(self, site, body, words):
        found = site.poll(sitemap_source, body)
        assert found.outcome == "failed"
        assert words in found.detail
        assert not list(site.scratch.iterdir())

    def test_forms(self):
        two = ["http://a/1", "http://a/2"]
        for body in (
            b"\n http://a/1\r\n\nhttp://a/2",
            b"\xef\xbb\xbfhttp://a/1\nhttp://a/2\n",
            gzip.compress(b"http://a/1\nhttp://a/2", mtime=0),
            gzip.compress(b"http://a/1\n", mtime=0) + gzip.compress(b"http://a/2", mtime=0) + b"\0\0",
            urls(("http://a/1", ""), (" http://a/2\n", "")).encode(),
            ("\ufeff" + urls(("http://a/1", ""), ("http://a/2", "")))
            .replace("<?xml version='1.0'?>", "")
            .encode("utf-16-le"),
            b"\n\n" + urls(("http://a/1", ""), ("http://a/2", "")).encode(),
            b"<urlset><url><loc><![CDATA[http://a/1]]></loc></url><url><loc>http://a/2</loc></url></urlset>",
        ):
            assert [entry.name for entry in read_sitemap(body).entries] == two

    def test_other_encodings(self):
        body = "<?xml version='1.0' encoding='{}'?><urlset><url><loc>http://a/\xe9</loc></url></urlset>"
        for name in ("utf-8", "iso-8859-1", "windows-1252"):
            assert read_sitemap(body.format(name).encode(name)).entries[0].name == "http://a/\xe9"
        for name in ("utf-7", "utf-32", "big5", "no-such-thing", "rot13", "hex"):
            with pytest.raises(InvalidInput, match="not well-formed XML"):
                read_sitemap(body.format(name).replace("\xe9", "&").encode())

    def test_limits_of_xml(self, monkeypatch):
        with pytest.raises(InvalidInput, match="nested more than 100 deep"):
            read_sitemap(b"<urlset>" * 101)
        for start, end in ((b"<url a='", b"'/>"), (b"<!--", b"-->"), (b"<?a ", b"?>"), (b"</urlset", b">")):
            with pytest.raises(InvalidInput, match="a tag or a comment of more than 1,048,576 bytes"):
                read_sitemap(b"<urlset>" + start + b" " * 1_300_000 + end)  # 50 MB took some minutes
        monkeypatch.setattr(safe_xml, "_MAX_ELEMENTS", 10)
        with pytest.raises(InvalidInput, match="more than 10 elements"):
            read_sitemap(b"<urlset>" + b"<url/>" * 20 + b"</urlset>")

    def test_ampersands_are_mended(self):
        body = b"<urlset><url><loc>http://a/?a=1&b=2&amp;c=3</loc></url></urlset>"
        assert read_sitemap(body).entries[0].name == "http://a/?a=1&b=2&c=3"

    def test_images_and_translations_are_not_pages(self):
        body = b"""<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="urn:i"><url>
            <image:image><image:loc>http://a/i.png</image:loc></image:image><image:loc>http://a/j.png</image:loc>
            <loc>http://a/</loc></url></urlset>"""
        assert [entry.name for entry in read_sitemap(body).entries] == ["http://a/"]

    def test_more_than_allowed_is_not_complete(self, monkeypatch):
        monkeypatch.setattr(sitemaps, "MAX_ADDRESSES", 2)
        body = urls(*((f"http://a/{n}", "") for n in range(3))).encode()
        told = read_sitemap(body)
        assert (len(told.entries), told.complete) == (2, False)
        assert not read_sitemap(b"http://a/1\nhttp://a/2\nhttp://a/3").complete
        with pytest.raises(InvalidInput):  # it must be well-formed to the end, all the same
            read_sitemap(body[:-3])

    @pytest.mark.parametrize("target", ["file:///etc/passwd", "http://127.0.0.1:9/x"])
    def test_nothing_outside_is_loaded(self, target):
        with pytest.raises(InvalidInput, match="declares entities"):
            read_sitemap(f"<!DOCTYPE u [<!ENTITY x SYSTEM '{target}'>]><urlset>&x;</urlset>".encode())
        body = f"<!DOCTYPE u SYSTEM '{target}'><urlset><url><loc>http://a/</loc></url></urlset>"
        assert [entry.name for entry in read_sitemap(body.encode()).entries] == ["http://a/"]

    @pytest.mark.long
    def test_a_sitemap_of_the_greatest_size(self, site):
        pairs = [(f"{{host}}/{n}", "2024-05-01") for n in range(50_000)]
        found = site.poll(sitemap_source, urls(*pairs))
        assert len(found.discovered) == 50_000
        assert len(str(found.validators)) < 110_000
        pairs[100:200] = [(loc, "2024-05-02") for loc, _ in pairs[100:200]]
        found = site.poll(sitemap_source, urls(*pairs))
        assert 95 <= len(found.hints) <= 100


BOMB = "<!DOCTYPE z [<!ENTITY a0 'ha'>{}]>".format(
    "".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>" for n in range(1, 12))
)


@pytest.mark.parametrize("read", [read_sitemap, read_feed])
def test_bombs_do_not_go_off(read):
    began = time.monotonic()
    for body in (
        f"{BOMB}<urlset><url><loc>http://a/&a11;</loc></url></urlset>",
        f"{BOMB}<rss version='2.0'><channel><item><link>http://a/&a11;</link></item></channel></rss>",
        f"{BOMB}<rss version='2.0'><channel a='&a11;'/></rss>",
        "<a>" * 20_000,
    ):
        try:
            told = read(body.encode())
        except InvalidInput:
            continue
        assert sum(len(entry.name) for entry in told.entries) < 10_000
    assert time.monotonic() - began < 20


def test_what_was_seen_is_kept_in_little_space():
    names = [f"https://example.org/{n}" for n in range(20_000)]
    seen = BloomFilter.read(str(BloomFilter.of(names)))
    assert all(name in seen for name in names)
    mistaken = sum(f"https://example.com/{n}" in seen for n in range(20_000))
    assert 0 < mistaken < 150
    assert len(str(seen)) < 2 * len(names)
    assert "x" not in BloomFilter.of([])
    for text in (None, 7, "", ":", "x:y", "5:", "0:00", "99:00", "5:\x7f"):
        assert BloomFilter.read(text) is None


def test_feeds_on_disk(tmp_path):
    path = tmp_path / "feed.xml"
    path.write_text(rss("https://example.org/a", "/relative"))

    async def once():
        source = feed_source(Settings())
        try:
            return await source.poll(Known(source.key(str(path), {})), Terms(Path(tmp_path), 10**6, 5.0))
        finally:
            await source.close()

    assert keys(asyncio.run(once())) == ["https://example.org/a"]
