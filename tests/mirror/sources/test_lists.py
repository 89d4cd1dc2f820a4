"""Lists of elements: what is read from them, and what is rejected with the line and the reason."""

import gzip
import io
import sys
import time
import tracemalloc
from types import SimpleNamespace

import pytest

from unstale import InvalidInput
from unstale.mirror.source import New
from unstale.mirror.sources import lists
from unstale.mirror.sources.lists import Listed, Rejected, read_list


@pytest.fixture
def read(tmp_path):
    def reading(content, format=None, name="list"):  # noqa: A002
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        reader = read_list(path, format)
        return list(reader), reader

    return reading


def test_a_plain_list(read):
    text = (
        "# pages\n\nhttps://example.org/\n  feed:https://example.org/rss  \r\n/srv/data/\nshop#orders\n\n#end"
    )
    listed, reader = read(text)
    assert reader.format == "list"
    assert [(one.new, one.line) for one in listed] == [
        (New("https://example.org/", "http"), 3),
        (New("https://example.org/rss", "feed"), 4),
        (New("/srv/data/", "file"), 5),
        (New("shop#orders", "sql"), 6),
    ]
    assert reader.rejected == []


def test_lines_that_cannot_be_elements_are_rejected_and_told(read):
    text = (
        b"https://a.org/\nexample.org\ngopher://b/\nhttps://c.org/\xff\nhttps://d.org/\x07\nhttps://e.org/\n"
    )
    listed, reader = read(text)
    assert [one.new.key for one in listed] == ["https://a.org/", "https://e.org/"]
    assert [one.line for one in reader.rejected] == [2, 3, 4, 5]
    assert [one.text for one in reader.rejected][:2] == ["example.org", "gopher://b/"]
    assert "write https://example.org for a page" in reader.rejected[0].why
    assert "gopher:" in reader.rejected[1].why
    assert reader.rejected[2] == Rejected(
        4, "https://c.org/\\udcff", "it has characters that cannot be printed, or are not UTF-8"
    )
    assert reader.rejections == 4


def test_a_table(read):
    text = (
        "Key,Title,Weight,max_age,min_interval,jitter,windows,group,source\n"
        'https://a.org/,"A, B",2.5,6h,90,0.1,mon-fri 22:00-06:00,slow,\n'
        '"https://b.org/",,,,,,,,feed\n'
        ",,,,,,,,\n"
        ",no key,,,,,,,\n"
        "https://c.org/,,heavy,,,,,,\n"
        "https://d.org/,,,6 parsecs,,,,,\n"
        "https://e.org/,,-1,,,,,,\n"
        "https://f.org/,,,-1,,,,,\n"
        "https://g.org/\n"
    )
    listed, reader = read(text)
    assert reader.format == "csv"
    assert reader.ignored == ("title",)
    given = {
        "weight": 2.5, "max_age": 21600.0, "min_interval": 90.0, "jitter": 0.1,
        "windows": "mon-fri 22:00-06:00", "group": "slow",
    }  # fmt: skip
    assert listed == [
        Listed(New("https://a.org/", "http"), given, 2),
        Listed(New("https://b.org/", "feed"), {}, 3),
        Listed(New("https://g.org/", "http"), {}, 10),
    ]
    assert [(one.line, one.why.partition(";")[0]) for one in reader.rejected] == [
        (5, "it has no key"),
        (6, "weight must be a number >= 0"),
        (7, "max_age must be a time, such as 90s, 6h, 1.5 days or 2 weeks"),
        (8, "weight must be a number >= 0"),
        (9, "max_age must be a time > 0, such as 6h, or seconds"),
    ]


@pytest.mark.parametrize("delimiter", ",;\t")
def test_tables_with_any_separator(read, delimiter):
    listed, _ = read(f"weight{delimiter}url\n3{delimiter}https://a.org/\n")
    assert listed == [Listed(New("https://a.org/", "http"), {"weight": 3.0}, 2)]


def test_a_table_without_keys_is_refused(read):
    with pytest.raises(InvalidInput, match=r"list: there is no column 'key' among 'a', 'b'$"):
        read("a,b\n1,2\n", "csv")
    with pytest.raises(InvalidInput, match="empty; it needs a header line with at least the column 'key'"):
        read("", "csv")
    with pytest.raises(InvalidInput, match="the header has the column 'key' 2 times"):
        read("key,key\na,b\n")


OPML = """<?xml version="1.0" encoding="UTF-8"?>
<opml version="2.0"><head><title>t</title></head><body>
<outline text="News">
  <outline text="A" type="rss" xmlUrl="https://a.org/rss?x=1&y=2" htmlUrl="https://a.org/"/>
  <outline text="Deep"><outline text="B" type="rss" XMLURL="feed://b.org/rss"/></outline>
  <outline text="A again" xmlUrl="https://a.org/rss?x=1&amp;y=2"/>
</outline>
<outline type="link" url="https://c.org/page"/>
<outline type="include" url="https://d.org/more.opml"/>
<outline type="rss" xmlUrl="/etc/passwd"/>
<outline text="empty" xmlUrl=""/>
</body></opml>"""


def test_ampersands_are_not_mended_where_that_would_garble(read):
    with pytest.raises(InvalidInput, match="not well-formed"):
        read(OPML.replace(' encoding="UTF-8"', "").encode("utf-16"))


def test_opml(read):
    listed, reader = read(OPML)
    assert reader.format == "opml"
    assert listed == [
        Listed(New("https://a.org/rss?x=1&y=2", "feed"), {}, 4),
        Listed(New("feed://b.org/rss", "feed"), {}, 5),
        Listed(New("https://c.org/page", "http"), {}, 8),
    ]
    assert [(one.line, one.text) for one in reader.rejected] == [
        (9, "https://d.org/more.opml"),
        (10, "/etc/passwd"),
    ]


def test_sitemaps(read):
    body = "<urlset><url><loc>https://a.org/</loc></url><url><loc>https://b.org/</loc></url></urlset>"
    listed, reader = read(body)
    assert reader.format == "sitemap"
    assert [one.new for one in listed] == [New("https://a.org/", "http"), New("https://b.org/", "http")]
    listed, _ = read("<sitemapindex><sitemap><loc>https://a.org/s.xml</loc></sitemap></sitemapindex>")
    assert [one.new for one in listed] == [New("https://a.org/s.xml", "sitemap")]
    listed, _ = read("https://a.org/\nhttps://b.org/\n", "sitemap")
    assert len(listed) == 2


@pytest.mark.parametrize(
    "content", ["https://a.org/", "key\nhttps://a.org/", OPML, "<urlset><url><loc>https://a.org/</loc></url></urlset>"]
)  # fmt: skip
@pytest.mark.parametrize(
    "change",
    [
        lambda text: gzip.compress(text.encode()),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace(' encoding="UTF-8"', "").replace("&y", "&amp;y").encode("utf-16"),
        lambda text: text.replace("\n", "\r\n").encode(),
    ],
)
def test_all_formats_in_other_dress(read, content, change):
    plain, _ = read(content)
    assert plain
    assert [one.new for one in read(change(content))[0]] == [one.new for one in plain]


@pytest.mark.parametrize(
    ("content", "format", "words"),
    [
        ("<html/>", None, "neither OPML nor a sitemap"),
        ("<rss/>", None, "it is a feed: add it as an element, with the source feed"),
        (b"PAR1\x00\x00", None, "is not text"),
        ("<opml><body>", None, "cannot be read as opml: it is not well-formed XML"),
        ("<urlset/>", "opml", "its root is 'urlset', not 'opml'"),
        ("x", "yaml", "the format of a list must be one of list, csv, opml, sitemap; it is 'yaml'"),
        (gzip.compress(b"https://a.org/\n" * 1000, mtime=0)[:-20], None, "cannot be read"),
        (b"\x1f\x8bnonsense", None, "cannot be read"),
    ],
)
def test_files_that_are_no_lists_are_refused(read, content, format, words):  # noqa: A002
    with pytest.raises(InvalidInput, match=words):
        read(content, format)


def test_files_that_cannot_be_opened(tmp_path):
    with pytest.raises(InvalidInput, match="nothing cannot be read: No such file"):
        list(read_list(tmp_path / "nothing"))
    with pytest.raises(InvalidInput, match="cannot be read: Is a directory"):
        list(read_list(tmp_path))


def test_nothing_is_fine(read):
    assert read("")[0] == []
    assert read("\n# nothing\n")[0] == []
    assert read("key\n")[0] == []


def test_standard_input(monkeypatch):
    stream = io.BytesIO(b"https://a.org/\nnonsense\n")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
    reader = read_list("-")
    assert [one.new.key for one in reader] == ["https://a.org/"]
    assert reader.rejections == 1
    assert not stream.closed


def test_only_so_many_rejected_lines_are_kept(read, monkeypatch):
    monkeypatch.setattr(lists, "_REJECTED_LINES_KEPT", 10)
    _, reader = read("nonsense\n" * 100)
    assert len(reader.rejected) == 10
    assert reader.rejections == 100


def test_endless_lines_are_rejected(read):
    listed, reader = read(b"https://a.org/" + b"x" * 1_000_000 + b"\nhttps://b.org/\n")
    assert [(one.new.key, one.line) for one in listed] == [("https://b.org/", 2)]
    assert reader.rejected[0].why == "it has more than 10,000 characters"
    assert len(reader.rejected[0].text) == 200


def test_reading_again_begins_anew(read):
    _, reader = read("https://a.org/\nnonsense\n")
    assert len(list(reader)) == 1
    assert reader.rejections == 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["list", "csv"])
def test_a_million_lines_take_seconds_and_little_memory(tmp_path, kind):
    path = tmp_path / "list"
    with path.open("w") as file:
        if kind == "csv":
            file.write("key,weight\n")
        file.writelines(f"https://example.org/{n}{',2' if kind == 'csv' else ''}\n" for n in range(1_000_000))
    began = time.monotonic()
    assert sum(1 for _ in read_list(path)) == 1_000_000
    assert time.monotonic() - began < 30
    tracemalloc.start()
    for _, _one in zip(range(100_000), read_list(path), strict=False):
        pass
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()
