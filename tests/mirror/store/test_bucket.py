"""Copies in a bucket of a real S3 server: as in a folder, and with its own troubles."""

import gc
import hashlib
import os
import re
import socket
import threading
import time
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import zstandard

from unstale import InvalidInput, Mirror
from unstale.cli import main
from unstale.errors import Trouble
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.config.file import load
from unstale.mirror.store import bucket as bucket_module
from unstale.mirror.store.copies import Copies

TEXT = b"<p>some text that repeats itself</p>\n" * 1000
NOISE = os.urandom(5000)


@pytest.fixture(params=["folder", "bucket"])
def anywhere(request, tmp_path):
    return Copies(tmp_path / "copies" if request.param == "folder" else request.getfixturevalue("bucket"))


@pytest.mark.parametrize("body", [b"", b"a", TEXT, NOISE, b"PAR1" + TEXT], ids=range(5))
def test_what_was_put_is_read_as_bytes_as_a_file_and_in_parts(anywhere, body):
    digest, size = anywhere.put(body)
    assert (digest, size) == (hashlib.sha256(body).hexdigest(), len(body))
    assert anywhere.read(digest) == body
    with anywhere.open(digest) as stream:
        assert stream.read(3) == body[:3]
        assert stream.read() == body[3:]
    assert anywhere.delete([digest]) == 1
    assert not anywhere.has(digest)
    file = anywhere.scratch / "body"
    file.write_bytes(body)
    assert anywhere.put(file) == (digest, size)
    assert anywhere.read(digest) == body
    assert list(anywhere.scratch.iterdir()) == []
    assert list(anywhere.digests(older_than=-10.0)) == [[digest]]


def test_a_part_of_a_plain_copy_is_found_by_its_place(anywhere):
    digest, _ = anywhere.put(NOISE)
    with anywhere.open(digest) as stream:
        stream.seek(4000)
        assert stream.read(100) == NOISE[4000:4100]
        assert stream.read() == NOISE[4100:]


def test_copies_that_are_there_are_not_put_again(anywhere):
    digest, _ = anywhere.put(TEXT)
    for _ in range(3):
        assert anywhere.put(TEXT)[0] == digest
    assert anywhere.written == 1
    others = {anywhere.put(b"%d" % n)[0] for n in range(10)}
    assert anywhere.have([digest, "0" * 64, *others]) == {digest, *others}


def test_what_is_missing_or_damaged_is_named_and_healed_when_it_is_put_again(anywhere):
    with pytest.raises(InvalidInput, match="no copy with the digest '0000"):
        anywhere.read("0" * 64)
    digest, _ = anywhere.put(TEXT)
    for damage in (b"", b"garbage"):
        anywhere.place.put(anywhere.stored(digest).name, damage)
        assert anywhere.is_damaged(digest)
        with pytest.raises(InvalidInput, match=r"\.zst' in .* is damaged"):
            anywhere.read(digest)
        assert len(anywhere.check([digest, "0" * 64])) == 2
        anywhere.put(TEXT, doubt=True)
        assert anywhere.read(digest) == TEXT


def test_orphans_are_swept_and_what_is_not_ours_is_left(anywhere):
    kept, lost = anywhere.put(b"kept")[0], anywhere.put(b"lost")[0]
    anywhere.identify("mine")
    anywhere.place.put("ab/notes.txt", b"somebody's")
    assert anywhere.sweep(lambda some: {kept} & set(some), older_than=3600.0) == 0
    assert anywhere.sweep(lambda some: {kept} & set(some), older_than=-10.0) == 1
    assert (anywhere.has(kept), anywhere.has(lost)) == (True, False)
    assert anywhere.identity() == "mine"
    assert anywhere.place.note("ab/notes.txt") == "somebody's"


def test_new_content_is_put_in_a_bucket_with_one_request(bucket, monkeypatch):
    copies, looks = Copies(bucket), []
    find = bucket_module.Bucket.find
    monkeypatch.setattr(
        bucket_module.Bucket, "find", lambda self, digest: looks.append(digest) or find(self, digest)
    )
    digest, _ = copies.put(TEXT)
    assert looks == []
    copies.put(TEXT)
    assert looks == [digest]
    assert copies.written == 1


def test_a_mirror_keeps_its_copies_in_a_bucket(tmp_path, bucket):
    clock = SimulatedClock(1.7e9)
    with Mirror(tmp_path / "mirror.db", copies=bucket, budget="1/h", clock=clock, tick=600.0) as mirror:
        mirror.add("python:a", poll=lambda: TEXT if clock.now() > 1.7e9 + 9000.0 else b"%d" % clock.now())
        mirror.run(1.7e9 + 6 * 3600.0)
        assert mirror.read("python:a").body == TEXT
        assert len(list(mirror.changes())) > 2
        assert mirror.store.check() == []
    assert not (tmp_path / "copies").exists()
    with Mirror(tmp_path / "other.db", copies=bucket) as other:
        other.add("python:a", poll=lambda: b"one")
        other.step()
        assert other.read("python:a").body == b"one"


def test_workers_that_do_not_see_the_same_bucket_are_refused(postgres_url, bucket):
    with Mirror(postgres_url, copies=bucket) as one:
        one.add("python:a", poll=lambda: "something")
        assert one.step() == 1
    with Mirror(postgres_url, copies=f"{bucket}/elsewhere") as other:
        other.add("python:a", poll=lambda: "something")
        with pytest.raises(InvalidInput, match="elsewhere is not the one of this mirror"):
            other.step()


def test_a_bucket_that_may_not_be_used_or_cannot_be_reached_is_told_in_one_line(bucket, monkeypatch):
    monkeypatch.setattr(bucket_module, "_RETRIES", {"max_retries": 0})
    with monkeypatch.context() as patch:
        patch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        with pytest.raises(Trouble, match=r"it may not be used .*set credentials in the environment") as told:
            Copies(bucket).put(b"content")
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(Trouble, match="see to it that it can be reached"):
            Copies(bucket).put(b"content")
    assert "wrong" not in str(told.value)
    assert "\n" not in str(told.value)


def pass_on(source, target, most, pause):
    """Give what comes to another, up to so many bytes, with pauses."""
    try:
        while most > 0 and (block := source.recv(min(most, 2048 if pause else 65536))):
            time.sleep(pause)
            target.sendall(block)
            most -= len(block)
    except OSError:
        pass
    finally:
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@contextmanager
def through(address, wrong):
    """A way to a server that does wrong for the first requests, or is slow.

    It may ``cut`` the connection, answer ``500``, or cut the connection in the middle of an ``answer``.
    """
    host, port = address.removeprefix("http://").split(":")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        left = [wrong]

        def serve():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                kind = left.pop() if left else "fine"
                if kind == "cut":
                    client.recv(100)
                    client.close()
                elif kind == "500":
                    client.recv(65536)
                    client.sendall(b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    client.close()
                else:
                    other = socket.create_connection((host, int(port)))
                    pause = 0.005 if wrong == "slow" else 0.0
                    most = 50_000 if kind == "answer" else 1 << 60
                    for how in ((client, other, 1 << 60, pause), (other, client, most, pause)):
                        threading.Thread(target=pass_on, args=how, daemon=True).start()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("wrong", ["cut", "500", "answer", "slow"])
def test_a_server_that_fails_once_is_asked_again_and_a_slow_one_is_waited_for(
    s3_address, bucket, wrong, monkeypatch
):
    large = 40 * NOISE
    with through(s3_address, wrong) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        copies = Copies(bucket)
        digest, _ = copies.put(b"PAR1" + large)  # as it is
        assert copies.read(digest) == b"PAR1" + large
        with copies.open(digest) as stream:
            stream.seek(100_000)
            assert stream.read() == (b"PAR1" + large)[100_000:]


def test_scratch_goes_with_the_copies(bucket):
    copies = Copies(bucket)
    scratch = copies.scratch
    assert scratch.stat().st_mode & 0o777 == 0o700
    del copies
    gc.collect()
    assert not scratch.exists()


def test_the_how_to_page_works(bucket, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "copies-in-a-bucket.md").read_text()
    (said,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("mirror.toml").write_text(said.replace("s3://unstale/copies", bucket))
    Path("page.txt").write_bytes(TEXT)
    config = load(Path("mirror.toml"))
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        mirror.add(str(tmp_path / "page.txt"))
        mirror.step()
    for command in (["show", str(tmp_path / "page.txt")], ["doctor", "--deep"]):
        with suppress(SystemExit):
            main(command)
    told = capsys.readouterr().out
    assert TEXT.decode() in told
    assert f"the bucket {bucket}: an object was put, read and deleted" in " ".join(told.split())
    assert "1 latest copy read, none damaged" in " ".join(told.split())
    assert not Path("copies").exists()


def asked(address, **headers):
    """Ask for an address as anybody can; return the status and the content."""
    try:
        with urlopen(Request(address, headers=headers)) as answer:  # noqa: S310  (our own server)
            return answer.status, answer.read()
    except HTTPError as error:
        with closing(error):
            return error.code, b""


@pytest.mark.parametrize("body", [TEXT, NOISE], ids=["packed", "plain"])
def test_whoever_has_a_signed_link_gets_this_copy_whole_or_in_parts(bucket, body):
    copies = Copies(bucket)
    digest, _ = copies.put(body)
    link = copies.link(digest, 60.0)
    assert link.is_packed == (body == TEXT)
    status, content = asked(link.address)
    assert status == 200
    assert (zstandard.decompress(content, len(body)) if link.is_packed else content) == body
    assert asked(link.address, Range="bytes=10-29") == (206, content[10:30])
    other, _ = copies.put(body + b"more")
    assert asked(link.address.replace(digest, other))[0] == 403
    with pytest.raises(InvalidInput, match="must be for 1 second to 7 days; it is for 1000000"):
        copies.link(digest, 1_000_000)


def test_a_link_that_has_expired_is_refused(bucket):
    copies = Copies(bucket)
    digest, _ = copies.put(NOISE)
    link, end = copies.link(digest, 1.0), time.monotonic() + 60.0
    while (status := asked(link.address)[0]) != 403 and time.monotonic() < end:
        time.sleep(0.2)
    assert status == 403


def test_a_folder_has_no_links(tmp_path):
    copies = Copies(tmp_path / "copies")
    digest, _ = copies.put(NOISE)
    with pytest.raises(InvalidInput, match=r"copies' has no addresses: .* `unstale serve`"):
        copies.link(digest)
