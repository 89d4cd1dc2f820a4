"""What an object store may answer that is not true: it costs bounded work, and no copy is taken for whole."""

import hashlib
import http.server
import threading
from urllib.parse import parse_qs, urlsplit

import pytest
import zstandard

from unstale.errors import InvalidInput, Trouble, UnstaleError
from unstale.mirror.store.copies import Copies

BODY = b"PAR1" + bytes(range(256)) * 4000
DIGEST = hashlib.sha256(BODY).hexdigest()
ENTRY = "<Contents><Key>p/{}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>5</Size></Contents>"
AGAIN = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>"


class LyingStore(http.server.BaseHTTPRequestHandler):
    """An object store that keeps what it gets, and lies as ``server.lie`` says."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_PUT(self):
        self.server.objects[urlsplit(self.path).path] = self.rfile.read(int(self.headers["content-length"]))
        self._answer(200, ETag="x")

    def do_GET(self):
        lie, server, address = self.server.lie, self.server, urlsplit(self.path)
        server.asked.append((address.path, dict(self.headers)))
        if "list-type" in parse_qs(address.query):
            endless = lie == "endless"
            keys = [f"ab/{i:064x}.zst" for i in range(1000)] if endless else ["../../etc/passwd"]
            entries = "".join(map(ENTRY.format, keys)) + AGAIN * endless
            self._answer(200, f"<ListBucketResult>{entries}</ListBucketResult>".encode())
            return
        if lie == "leads away" and "stolen" not in address.path:
            port = server.server_address[1]
            self._answer(302, Location=f"http://localhost:{port}/stolen")
            return
        body = server.objects.get(address.path)
        if body is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        size = {"too large": 10**15, "less than nothing": -5}.get(lie, len(body))
        dated = "Mon, 01 Jan 0001 00:00:00 GMT" if lie == "the year 1" else "Wed, 18 Nov 2026 20:00:00 GMT"
        if self.command == "HEAD":
            self._answer(200, length=size, **{"Last-Modified": dated, "ETag": "x"})
            return
        first, _, last = self.headers["range"].removeprefix("bytes=").partition("-")
        part = body[int(first) : int(last) + 1]
        part = {"other": b"z" * len(part), "more": part + b"more", "less": part[:-3]}.get(lie, part)
        said = f"bytes {first}-{int(first) + len(part) - 1}/{size}"
        self._answer(206, part, **{"Content-Range": said, "Last-Modified": dated, "ETag": "x"})

    def do_HEAD(self):
        self.do_GET()

    def _answer(self, status, body=b"", length=None, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def lying(monkeypatch):
    """A store that lies, and copies in it: one is there."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), LyingStore) as server:
        server.objects, server.asked, server.lie = {}, [], ""
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        named = {"ENDPOINT_URL": f"http://127.0.0.1:{server.server_address[1]}", "REGION": "us-east-1"}
        for name, value in (named | {"ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "an-s3-secret"}).items():
            monkeypatch.setenv(f"AWS_{name}", value)
        copies = Copies("s3://bucket/p")
        copies.put(BODY)
        yield server, copies
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("lie", ["other", "more", "less", "too large", "less than nothing", "the year 1"])
def test_no_wrong_answer_is_taken_for_the_copy(lying, lie):
    server, copies = lying
    server.lie = lie
    if lie == "the year 1":
        assert copies.read(DIGEST) == BODY
        return
    with pytest.raises(UnstaleError) as told:
        copies.read(DIGEST)
    assert "bucket s3://bucket/p" in str(told.value)
    assert "an-s3-secret" not in f"{told.value} {copies!r} {copies.place!r} {vars(copies.place)}"


def test_a_stream_is_read_in_large_parts(lying):
    """It was eight kilobytes in each request: 366 of them for 3 MB, and 15 seconds."""
    server, copies = lying
    server.asked.clear()
    with copies.open(DIGEST) as stream:
        assert stream.read() == BODY
    assert len(server.asked) < 8


def test_a_bomb_in_the_place_of_a_copy_is_not_unpacked(lying):
    server, copies = lying
    (path,) = server.objects
    pack = zstandard.ZstdCompressor().compressobj()
    bomb = b"".join(pack.compress(bytes(1 << 20)) for _ in range(300)) + pack.flush()
    server.objects = {path.replace(".raw", ".zst"): bomb}
    with pytest.raises(InvalidInput, match="is damaged: its content has another digest"):
        copies.read(DIGEST, len(BODY))


def test_a_list_that_does_not_end_or_climbs_is_refused(lying):
    server, copies = lying
    server.lie = "endless"
    with pytest.raises(Trouble, match=r"its list does not end, '.*' comes again"):
        list(copies.digests())
    server.lie = "climbs"
    with pytest.raises(Trouble, match="illegal character sequence"):
        list(copies.digests())


def test_credentials_do_not_follow_a_redirect(lying):
    server, copies = lying
    server.lie = "leads away"
    server.asked.clear()
    with pytest.raises(UnstaleError):
        copies.read(DIGEST)
    signed = {path for path, headers in server.asked if "authorization" in {name.lower() for name in headers}}
    assert "/stolen" in {path for path, _ in server.asked}
    assert "/stolen" not in signed
