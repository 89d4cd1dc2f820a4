"""Copies: whole, under the right name, or not at all."""

import asyncio
import hashlib
import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.errors import Trouble
from unstale.mirror.mirror import Mirror
from unstale.mirror.store.copies import Copies

TEXT = b"<p>some text that repeats itself</p>\n" * 1000
NOISE = os.urandom(5000)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("body", [b"", b"a", TEXT, NOISE, b"PAR1" + TEXT, b"\x1f\x8b" + TEXT], ids=range(6))
def test_what_was_put_is_read_whether_given_as_bytes_or_as_a_file(copies, body):
    digest, size = copies.put(body)
    assert (digest, size) == (hashlib.sha256(body).hexdigest(), len(body))
    assert copies.read(digest) == body
    with copies.open(digest) as stream:
        assert stream.read() == body
    copies.delete([digest])
    assert not copies.has(digest)
    file = copies.scratch / "body"
    file.write_bytes(body)
    assert copies.put(file) == (digest, size)
    assert copies.read(digest) == body
    assert not file.exists()
    assert len(files(copies.place.folder)) == 1


@given(st.lists(st.binary(max_size=200) | st.text().map(str.encode), max_size=20))
def test_any_bodies_come_back(tmp_path_factory, bodies):
    copies = Copies(tmp_path_factory.mktemp("copies"))
    digests = [copies.put(body)[0] for body in bodies]
    assert [copies.read(digest) for digest in digests] == bodies
    assert len(files(copies.place.folder)) == len(set(bodies))


def test_text_is_compressed_and_what_is_compressed_already_is_not(copies):
    assert copies.place.path(copies.put(TEXT)[0]).suffix == ".zst"
    assert copies.place.path(copies.put(TEXT)[0]).stat().st_size < len(TEXT) / 20
    for body in (NOISE, b"PAR1" + TEXT):
        assert copies.place.path(copies.put(body)[0]).read_bytes() == body


def test_a_large_file_is_not_read_into_memory_at_once(copies):
    import tracemalloc

    file = copies.scratch / "large"
    with file.open("wb") as stream:
        for _ in range(300):
            stream.write(TEXT[:1000] * 100)
    copies.put(b"")
    tracemalloc.start()
    _, size = copies.put(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 30_000_000
    assert peak < 10_000_000


def test_a_file_that_is_not_in_scratch_is_left_alone(copies, tmp_path):
    file = tmp_path / "mine"
    file.write_bytes(TEXT)
    digest, _ = copies.put(file)
    copies.discard(file)
    assert file.read_bytes() == copies.read(digest)
    there = copies.scratch / "a"
    there.write_bytes(b"a")
    copies.discard(there)
    copies.discard(b"bytes")
    assert not there.exists()


def test_a_name_appears_only_when_the_content_is_on_disk(copies, monkeypatch):
    steps = []
    sync, replace = os.fsync, Path.replace

    def noted_sync(number):
        path = Path(f"/proc/self/fd/{number}").readlink() if Path("/proc/self/fd").exists() else Path("?")
        steps.append(("sync", "folder" if path.is_dir() else "file"))
        sync(number)

    def noted_replace(self, target):
        steps.append(("rename", Path(target).parent.name))
        return replace(self, target)

    copies.put(b"first")  # folders are there
    digest = hashlib.sha256(TEXT).hexdigest()
    (copies.place.folder / digest[:2]).mkdir(exist_ok=True)
    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    copies.put(TEXT)
    if Path("/proc/self/fd").exists():
        assert steps == [("sync", "file"), ("rename", digest[:2]), ("sync", "folder")]
    else:
        assert [step for step, _ in steps] == ["sync", "rename", "sync"]


def test_a_damaged_copy_is_named_and_healed_when_it_is_put_again(copies):
    digest, _ = copies.put(TEXT)
    path = copies.place.path(digest)
    whole = path.read_bytes()
    for damage in (whole[:-5], b"", b"garbage", whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]):
        path.write_bytes(damage)
        with pytest.raises(InvalidInput, match=f"{path.name}.*is damaged"):
            copies.read(digest)
        assert len(copies.check([digest])) == 1
        copies.put(TEXT)
        assert copies.read(digest) == TEXT
        assert copies.check([digest]) == []


def test_what_is_missing_or_no_digest_is_named(copies):
    with pytest.raises(InvalidInput, match="no copy with the digest 'aaaa"):
        copies.read("a" * 64)
    for wrong in ("../../etc/passwd", "", "A" * 64, "a" * 63):
        with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
            copies.has(wrong)
    assert copies.check(["a" * 64])[0].startswith("there is no copy")


def test_orphans_are_swept_when_they_are_old(copies):
    digests = [copies.put(b"%d" % n)[0] for n in range(20)]
    wanted = set(digests[:5])
    asked = []

    def referred(some):
        asked.extend(some)
        return wanted & set(some)

    assert copies.sweep(referred, older_than=3600.0) == 0
    assert asked == []
    for digest in digests:
        os.utime(copies.place.path(digest), (0, 0))
    copies.put(b"19")  # counts as put now
    assert copies.sweep(referred, older_than=3600.0) == 14
    assert [copies.has(digest) for digest in digests] == [True] * 5 + [False] * 14 + [True]
    (copies.place.folder / "README").write_text("a file of somebody else")
    assert copies.sweep(referred, older_than=-10.0) == 1


def test_scratch_is_emptied(copies):
    old, new = copies.scratch / "old", copies.scratch / "new"
    for path in (old, new):
        path.write_bytes(b"")
    os.utime(old, (time.time() - 100.0,) * 2)
    copies.empty_scratch(older_than=50.0)
    assert files(copies.scratch) == ["new"]
    copies.empty_scratch()
    assert files(copies.scratch) == []


def test_threads_put_the_same_content_at_the_same_time(copies):
    bodies = [b"%d" % (n % 7) * 2000 for n in range(70)]
    wrong = []

    def put():
        try:
            for body in bodies:
                copies.read(copies.put(body)[0])
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(files(copies.place.folder)) == 7


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file", tmp_path / "file" / "copies"):
        copies = Copies(folder)
        with pytest.raises(Trouble, match=f"the folder of copies '{folder}'"):
            copies.put(b"content")
        with pytest.raises(Trouble, match="the folder of copies"):
            copies.empty_scratch()
        assert not copies.has("a" * 64)


def test_after_a_trouble_nothing_is_half_written_and_it_can_be_tried_again(copies, monkeypatch):
    file = copies.scratch / "body"
    file.write_bytes(TEXT)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        for body in (TEXT, file):
            with pytest.raises(Trouble, match="No space left on device; make room"):
                copies.put(body)
        assert files(copies.place.folder) == ["body"]
    assert copies.read(copies.put(file)[0]) == TEXT


def test_workers_that_do_not_see_the_same_folder_are_refused(postgres_url, tmp_path):
    """Their copies would be taken for missing, and fetched again and again."""

    def mirror(folder):
        return Mirror(postgres_url, copies=tmp_path / folder)

    def run(one):
        one.add("python:a", poll=lambda: "something")
        return one.step()

    with mirror("here") as one:
        assert run(one) == 1
        known = (tmp_path / "here" / "mirror-id").read_text().strip()
        assert one.store.foreign_copies() is None
    (tmp_path / "there").mkdir()
    with mirror("there") as other:
        with pytest.raises(InvalidInput, match=f"is not the one of this mirror.* is not there.*{known}"):
            run(other)
        assert "is not there" in other.store.foreign_copies()
        (tmp_path / "there" / "mirror-id").write_text("another\n")
        with pytest.raises(InvalidInput, match=f"mirror-id says another, where the mirror knows {known}"):
            run(other)
        (tmp_path / "there" / "mirror-id").write_text(f"{known}\n")  # as the line says, if copies are lost
        run(other)
    with mirror("here") as one:
        run(one)


def test_a_folder_that_vanishes_is_not_taken_for_lost_copies(postgres_url, tmp_path):
    """A file system that is not mounted any more: nothing is fetched again, and the reason is told once."""
    events = []
    with Mirror(postgres_url, copies=tmp_path / "copies", tidy_every=0.0) as one:
        one.add("python:a", poll=lambda: "something")
        one.step()
        with one._working(events.append) as worker:
            (tmp_path / "copies").rename(tmp_path / "away")
            (tmp_path / "copies").mkdir()
            for _ in range(3):
                asyncio.run(worker.turn())
        told = [event.detail for event in events if event.kind == "trouble"]
        assert sum("is not the one of this mirror" in line for line in told) == 1
        assert not any("fetched again" in line for line in told)
        assert one.find("python:a").fingerprint is not None


def test_the_one_runner_of_a_file_may_have_lost_its_copies(tmp_path):
    with Mirror(tmp_path / "mirror.db") as one:
        one.add("python:a", poll=lambda: "something")
        one.step()
        known = (tmp_path / "copies" / "mirror-id").read_text()
        shutil.rmtree(tmp_path / "copies")
        one.step()
        assert (tmp_path / "copies" / "mirror-id").read_text() == known
        (tmp_path / "copies" / "mirror-id").write_text("another")
        with pytest.raises(InvalidInput, match="mirror-id says another"):
            one.step()
