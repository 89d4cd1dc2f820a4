"""Copies go out as WARC and come back; archives of others are read; what is damaged is named."""

import io
import random
import subprocess
import sys
from contextlib import suppress

import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from unstale import InvalidInput
from unstale.mirror.exchange.tables import export_elements, export_history, import_elements, import_history
from unstale.mirror.exchange.warc import export_warc, import_warc

from .conftest import OURS, START, copies, history, open_mirror, poll_all, said


def _check(path):
    """What ``warcio check`` says."""
    return subprocess.run(  # noqa: S603
        [sys.executable, "-m", "warcio.cli", "check", str(path)], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("suffix", [".warc", ".warc.gz"])
def test_an_archive_is_valid(mirror, tmp_path, suffix):
    path = tmp_path / f"copies{suffix}"
    count = export_warc(mirror, path)
    assert count == len(copies(mirror)) > 8
    checked = _check(path)
    assert checked.returncode == 0, checked.stdout
    with path.open("rb") as file:
        records = [
            (
                record.rec_type,
                record.rec_headers.get_header("WARC-Target-URI"),
                record.content_stream().read(),
            )
            for record in ArchiveIterator(file, check_digests=True)
        ]
    assert records[0][0] == "warcinfo"
    assert {kind for kind, _, _ in records[1:]} == {"response", "resource"}
    assert [body for _, _, body in records[1:]] == [mirror.copies.read(copy[2]) for copy in copies(mirror)]
    assert {uri for _, uri, _ in records[1:]} >= {
        "https://a.example/",
        "unstale:python%3Athree%2C%20or%20%22more%22",
    }


def test_the_headers_of_a_page_are_those_of_its_answer(mirror, tmp_path):
    path = tmp_path / "copies.warc"
    export_warc(mirror, path, pattern="https://b.example/z", latest=True)
    with path.open("rb") as file:
        pages = [
            (one.http_headers, one.rec_headers.protocol, one.content_stream().read())
            for one in ArchiveIterator(file)
            if one.rec_type == "response"
        ]
    ((headers, protocol, body),) = pages
    assert protocol == "WARC/1.1"
    assert headers.statusline == "200 OK"
    assert headers.get_header("Content-Type") == "text/html; charset=utf-8"
    assert headers.get_header("ETag")
    assert int(headers.get_header("Content-Length")) == len(body) > 0


def _whole(mirror):
    """All of a mirror, in words that do not depend on numbers."""
    keys = {element.id: element.key for element in mirror.elements()}
    with mirror.store.begin() as t:
        versions = {version.id: version for version in t.versions(limit=1_000_000)}
        polls = [
            (keys[poll.element], poll.time, poll.version and versions[poll.version].digest)
            for poll in t.polls(None, 1_000_000, -1)
        ]
    known = {
        element.key: (
            element.fingerprint,
            dict(element.validators),
            element.version and versions[element.version].time,
        )
        for element in mirror.elements()
    }
    return said(mirror), history(mirror), copies(mirror), polls, known


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_restore_everything(mirror, tmp_path, where, request):
    files = [tmp_path / name for name in ("elements.parquet", "history.csv.gz", "copies.warc.gz")]
    export_elements(mirror, files[0])
    export_history(mirror, files[1], failures=True)
    export_warc(mirror, files[2])
    place = tmp_path / "new.db" if where == "sqlite" else request.getfixturevalue("postgres_url")
    with open_mirror(place, tmp_path / "copies") as new:
        import_elements(new, files[0], allow=OURS)
        import_history(new, files[1])
        got = import_warc(new, files[2], allow=OURS)
        assert (got.copies, got.elements, got.skipped) == (len(copies(mirror)), 0, [])
        assert _whole(new) == _whole(mirror)
        assert not new.store.check()
        again = import_warc(new, files[2], allow=OURS)
        assert (again.copies, again.elements) == (0, 0)
        assert _whole(new) == _whole(mirror)
        poll_all(new, START + 1000.0, 8)
        assert len(copies(new)) > len(copies(mirror))
        # what is older than what there is stays out
        assert import_warc(new, files[2], allow=OURS).copies == 0


def test_copies_alone_bring_their_elements(mirror, tmp_path):
    path = tmp_path / "copies.warc.gz"
    export_warc(mirror, path, latest=True)
    with open_mirror(tmp_path / "new.db") as new:
        got = import_warc(new, path)
        assert (got.copies, got.elements, got.skipped) == (8, 8, [])
        assert {poll[2] for poll in history(new)} == {None}  # nothing is learned from them
        for element in mirror.elements():
            assert new.read(element.key).body == mirror.read(element.key).body


def _archive(path, records):
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=path.suffix == ".gz")
        for kind, uri, status, body, headers in records:
            http = StatusAndHeaders(status, list(headers.items()), protocol="HTTP/1.1") if status else None
            writer.write_record(
                writer.create_warc_record(
                    uri,
                    kind,
                    payload=io.BytesIO(body),
                    length=len(body),
                    http_headers=http,
                    warc_headers_dict={"WARC-Date": "2024-05-06T07:08:09Z"},
                )
            )


def test_archives_of_others(tmp_path):
    import gzip

    path = tmp_path / "theirs.warc.gz"
    html = {"Content-Type": "text/html; charset=UTF-8", "ETag": '"x"'}
    packed = {"Content-Encoding": "gzip"}
    page = ("response", "https://x.example/a", "200 OK", b"hello", html)
    _archive(
        path,
        [
            page,
            ("request", "https://x.example/a", "GET / HTTP/1.1", b"", {}),
            ("response", "https://x.example/b", "404 Not Found", b"no", {}),
            ("response", "https://x.example/c", "200 OK", gzip.compress(b"packed"), packed),
            ("resource", "https://x.example/large", None, b"x" * 3_000_000, {}),
            ("resource", "dns:x.example", None, b"1.2.3.4", {}),
            page,
        ],
    )
    with open_mirror(tmp_path / "new.db", max_size=2_000_000) as new:
        got = import_warc(new, path)
        assert (got.copies, got.elements) == (2, 2)
        assert [uri for uri, _ in got.skipped] == [
            "https://x.example/b",
            "https://x.example/large",
            "dns:x.example",
        ]
        assert "404" in got.skipped[0][1]
        assert "max_size" in got.skipped[1][1]
        assert new.read("https://x.example/a").body == b"hello"
        assert new.read("https://x.example/c").body == b"packed"
        element = new.find("https://x.example/a")
        assert element.validators["etag"] == '"x"'
        assert new.read("https://x.example/a").version.first
        assert new.read("https://x.example/a").version.time == 1714979289.0
        assert not list(new.copies.scratch.iterdir())


def test_damage_is_named_and_nothing_is_recorded(mirror, tmp_path):
    path = tmp_path / "copies.warc"
    export_warc(mirror, path, pattern="https://b.example/*")
    whole = path.read_bytes()
    at = whole.rindex(b"content https://b.example/z")
    path.write_bytes(whole[:at] + b"CONTENT" + whole[at + 7 :])
    with open_mirror(tmp_path / "new.db") as new:
        with pytest.raises(InvalidInput, match=r"copies\.warc: not a WARC file, or cut short or damaged"):
            import_warc(new, path)
        path.write_bytes(whole[: at + 5])
        with pytest.raises(InvalidInput, match="damaged"):
            import_warc(new, path)
        path.write_text("hello\n")
        with pytest.raises(InvalidInput, match="not a WARC file"):
            import_warc(new, path)
        with pytest.raises(InvalidInput, match="no such file"):
            import_warc(new, tmp_path / "none.warc")
        with pytest.raises(InvalidInput, match=r"must end in \.warc"):
            export_warc(new, tmp_path / "copies.zip")
        assert not copies(new)


@pytest.mark.every(5)
@pytest.mark.parametrize("name", ["copies.warc", "copies.warc.gz"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.31, 0.5, 0.9, 0.999])
def test_an_archive_that_is_cut_short_is_refused_as_a_whole(mirror, tmp_path, name, share):
    path = tmp_path / name
    export_warc(mirror, path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with open_mirror(tmp_path / "new.db") as new:
        with pytest.raises(InvalidInput, match="cut short"):
            import_warc(new, path)
        assert not copies(new)
        assert not list(new.elements())


@given(st.integers(0, 2**32), st.integers(1, 20))
@settings(max_examples=percent(25))
def test_garbled_archives_never_crash(mirror, tmp_path, seed, count):
    path = tmp_path / "copies.warc"
    if not path.exists():
        export_warc(mirror, path, pattern="https://b.example/*")
    dice = random.Random(seed)  # noqa: S311
    content = bytearray(path.read_bytes())
    for _ in range(count):
        content[dice.randrange(len(content))] = dice.randrange(256)
    bad = tmp_path / "bad.warc"
    bad.write_bytes(content)
    with open_mirror(tmp_path / "new.db") as new:
        with suppress(InvalidInput):
            import_warc(new, bad)
        assert not new.store.check()
