"""Files and folders: what is read, what is not, and what cannot be."""

import asyncio
import os
import socket
import threading
import time
import zipfile
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import known_implementations
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Settings
from unstale.mirror.source import Known, New, Terms
from unstale.mirror.sources.contract import learned
from unstale.mirror.sources.files import folders as trees
from unstale.mirror.sources.files import locations, reading
from unstale.mirror.sources.files.source import FileSource


@pytest.fixture
def poll(tmp_path):
    """Poll an element by its name, knowing what the poll before brought."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source, memory = FileSource(), {}

    def look(text, timeout=10.0, max_size=10_000_000, own=(), **options):
        key = source.key(str(text), options)
        known = memory.get(key, Known(key))
        known = Known(key, options, known.validators, known.fingerprint)
        found = asyncio.run(source.poll(known, Terms(scratch, max_size, timeout, own=own)))
        memory[key] = learned(known, found)
        return found

    return look


def aged(path, seconds=1000):
    """Let the time of a file be long ago, and the system's own time of change be a while ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))
    time.sleep(0.12)


def test_a_file_that_looks_the_same_is_not_read(tmp_path, poll, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("1")
    aged(path)
    assert poll(path).media_type == "text/csv"
    opened = []
    monkeypatch.setattr(locations.LocalFile, "open", lambda self: opened.append(self.path))
    assert poll(path).outcome == "unchanged"
    assert not opened


def test_a_mirror_does_not_mirror_itself(tmp_path, poll):
    tree = tmp_path / "tree"
    (tree / "copies" / "ab").mkdir(parents=True)
    (tree / "sub").mkdir()
    for name in ("a.csv", "mirror.db", "copies/ab/abcd", "sub/mirror.db"):
        (tree / name).write_text(name)
    (tree / "link").symlink_to(tree / "copies" / "ab" / "abcd")
    (tmp_path / "elsewhere").symlink_to(tree, target_is_directory=True)
    own = (tmp_path / "elsewhere" / "copies", tree / "mirror.db", tree / "mirror.db-wal")
    for root in (tree, tmp_path / "elsewhere"):
        names = [line.split("\t")[0] for line in poll(f"{root}/", own=own).body.decode().splitlines()]
        assert names == ["a.csv", "sub/mirror.db"]
    for name in ("mirror.db", "copies/", "copies/ab/abcd", "link"):
        found = poll(f"{tree}/{name}", own=own)
        assert (found.outcome, found.body) == ("refused", None)
        assert "cannot mirror itself" in found.detail
    assert poll(tree / "a.csv", own=own).body == b"a.csv"


def test_a_folder_that_holds_the_mirror_is_mirrored_without_it(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1000.0)) as mirror:
        mirror.add(f"{tmp_path}/")
        for _ in range(3):
            mirror.step()
        assert sorted(Path(one.key).name for one in mirror.elements() if one.via) == ["a.txt", "b.txt"]


def test_a_file_is_read_if_its_time_cannot_be_trusted(tmp_path, poll):
    path = tmp_path / "a.csv"
    path.write_text("1")
    aged(path)
    poll(path, trust_mtime=False)
    assert poll(path, trust_mtime=False).outcome == "changed"
    assert poll(path, trust_mtime="true").outcome == "unchanged"


def test_a_change_that_leaves_size_and_time_alone_is_seen(tmp_path, poll):
    path = tmp_path / "a.csv"
    path.write_text("1")
    aged(path)
    before = path.stat().st_mtime_ns
    poll(path)
    path.write_text("2")
    os.utime(path, ns=(before, before))
    assert poll(path).body == b"2"


def test_a_file_that_was_just_written_is_read_again(tmp_path, poll):
    """Its time may be too coarse to show that it was written once more, just after it was read."""
    path = tmp_path / "a.csv"
    path.write_text("1")
    assert poll(path).validators["settled"] is False
    assert poll(path).outcome == "changed"


def test_large_content_goes_to_the_disk(tmp_path, poll):
    path = tmp_path / "a.bin"
    body = os.urandom(3_000_000)
    path.write_bytes(body)
    found = poll(path)
    assert isinstance(found.body, Path)
    assert found.body.parent == tmp_path / "scratch"
    assert found.body.read_bytes() == body
    assert found.traffic == len(body)


def test_a_file_that_changes_while_it_is_read_is_read_once_more(tmp_path, poll, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text("old")
    reads = []

    def meddle(real):
        def opened(self):
            stream = real(self)
            reads.append(1)
            if len(reads) in meddling:
                path.write_text(f"new {len(reads)}")
            return stream

        return opened

    monkeypatch.setattr(locations.LocalFile, "open", meddle(locations.LocalFile.open))
    meddling = {1}
    assert poll(path).body == b"new 1"
    assert len(reads) == 2
    reads.clear()
    meddling = range(100)
    found = poll(path)
    assert (found.outcome, found.detail) == ("failed", "it changes while it is being read")
    assert not list((tmp_path / "scratch").iterdir())


def test_pipes_devices_and_sockets_are_refused_at_once(tmp_path, poll):
    os.mkfifo(tmp_path / "pipe")
    began = time.monotonic()
    found = poll(tmp_path / "pipe")
    assert (found.outcome, found.detail) == ("refused", "it is a pipe, a socket or a device, not a file")
    assert poll("/dev/zero").outcome == "refused"
    here = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(here))
        assert poll(here).outcome == "refused"
    assert time.monotonic() - began < 60  # whoever waits for a pipe waits for ever


def test_a_file_that_becomes_a_pipe_does_not_block(tmp_path, poll, monkeypatch):
    path = tmp_path / "a"
    path.write_text("1")
    look = locations.LocalFile.status

    def swap(self):
        seen = look(self)
        path.unlink()
        os.mkfifo(path)
        return seen

    monkeypatch.setattr(locations.LocalFile, "status", swap)
    found = poll(path, timeout=5)
    assert found.outcome == "failed"
    assert "not a regular file any more" in found.detail


def test_links(tmp_path, poll):
    (tmp_path / "a").write_text("1")
    (tmp_path / "good").symlink_to(tmp_path / "a")
    (tmp_path / "bad").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert poll(tmp_path / "good").body == b"1"
    assert poll(tmp_path / "bad").detail == "it is a link that leads nowhere"
    assert poll(tmp_path / "bad").outcome == "failed"
    assert poll(tmp_path / "loop").outcome == "failed"


def test_what_cannot_be_read_says_why(tmp_path, poll, monkeypatch):
    (tmp_path / "a").write_text("1")
    assert poll(tmp_path / "a" / "b").outcome == "failed"

    def denied(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(locations.LocalFile, "open", denied)
    found = poll(tmp_path / "a")
    assert (found.outcome, found.detail) == ("failed", "permission denied")


def test_a_file_that_has_become_a_folder_fails(tmp_path):
    (tmp_path / "a").mkdir()
    found = asyncio.run(FileSource().poll(Known(str(tmp_path / "a")), Terms(tmp_path, 100, 1.0)))
    assert found.outcome == "failed"
    assert "a key that ends in /" in found.detail


def test_a_drive_that_hangs_stops_nobody(tmp_path, monkeypatch):
    (tmp_path / "stuck").write_text("1")
    (tmp_path / "fine").write_text("1")
    release = threading.Event()
    real = locations.LocalFile.open

    def hang(self):
        if self.path.endswith("stuck"):
            release.wait(20)
        return real(self)

    monkeypatch.setattr(locations.LocalFile, "open", hang)

    async def play():
        source = FileSource()
        stuck = [source.poll(Known(str(tmp_path / "stuck")), Terms(tmp_path, 100, 0.2)) for _ in range(3)]
        fine = [source.poll(Known(str(tmp_path / "fine")), Terms(tmp_path, 100, 15.0)) for _ in range(60)]
        found = await asyncio.gather(*stuck, *fine)
        release.set()
        return found

    outcomes = [found.outcome for found in asyncio.run(play())]
    assert outcomes == ["failed"] * 3 + ["changed"] * 60


def test_content_that_grows_beyond_what_was_announced(tmp_path, monkeypatch, poll):
    path = tmp_path / "a"
    path.write_bytes(b"x" * 2_000_000)
    look = reading._judged
    monkeypatch.setattr(
        reading,
        "_judged",
        lambda seen, known: look(locations.FileStatus("file", 10, tag=seen.tag), known),
    )
    found = poll(path, max_size=1_500_000)
    assert (found.outcome, found.detail) == ("failed", "it has more than 1,500,000 bytes, which is max_size")
    assert not list((tmp_path / "scratch").iterdir())


class TestFolders:
    @pytest.fixture
    def tree(self, tmp_path):
        root = tmp_path / "tree"
        (root / "deep" / "er").mkdir(parents=True)
        for name in ("b.csv", "a.txt", "deep/c.csv", "deep/er/d.csv"):
            (root / name).write_text("1")
            os.utime(root / name, (1e9, 1e9))
        return root

    def test_its_files_are_discovered(self, tree, poll):
        found = poll(f"{tree}/")
        names = ["a.txt", "b.csv", "deep/c.csv", "deep/er/d.csv"]
        within = {"within": f"{tree}/"}
        assert found.discovered == tuple(New(f"{tree}/{name}", "file", within) for name in names)
        assert found.complete
        assert found.hints == ()
        assert [line.split("\t")[0] for line in found.body.decode().splitlines()] == names
        assert [FileSource().key(new.key, new.options) for new in found.discovered] == [
            new.key for new in found.discovered
        ]

    def test_times_of_its_files_say_when_it_changed(self, tree, poll):
        files = sorted(one for one in tree.rglob("*") if one.is_file())
        for number, file in enumerate(files):
            os.utime(file, (1e9, 1e9 + 86400.0 * max(number, 1)))
        assert poll(tree).changes == tuple(1e9 + 86400.0 * day for day in range(len(files) - 1, 0, -1))
        files[0].write_bytes(b"another")
        assert poll(tree).changes == ()  # polls have told since

    def test_what_looks_different_gets_a_hint(self, tree, poll):
        poll(tree)
        (tree / "deep" / "c.csv").write_text("2")
        (tree / "new").write_text("1")
        found = poll(tree)
        assert {key for key, _ in found.hints} == {f"{tree}/deep/c.csv", f"{tree}/new"}
        assert all(abs(moment - time.time()) < 60 for _, moment in found.hints)
        assert poll(tree).hints == ()

    def test_what_goes_is_no_longer_named(self, tree, poll):
        poll(tree)
        (tree / "a.txt").unlink()
        found = poll(tree)
        assert f"{tree}/a.txt" not in {new.key for new in found.discovered}
        assert found.complete
        assert found.hints == ()

    @pytest.mark.parametrize(
        ("options", "names"),
        [
            ({"only": "*.csv"}, ["b.csv", "deep/c.csv", "deep/er/d.csv"]),
            ({"only": ["a.txt", "deep/er/*"]}, ["a.txt", "deep/er/d.csv"]),
            ({"skip": "deep/*"}, ["a.txt", "b.csv"]),
            ({"only": "*.csv", "skip": "d.csv"}, ["b.csv", "deep/c.csv"]),
            ({"discover": False}, []),
            ({"discover": "false"}, []),
            ({"discover": "deep/*"}, ["deep/c.csv", "deep/er/d.csv"]),
        ],
    )
    def test_patterns(self, tree, poll, options, names):
        found = poll(tree, **options)
        assert [new.key.removeprefix(f"{tree}/") for new in found.discovered] == names
        (tree / "b.csv").write_text("22")
        hinted = f"{tree}/b.csv" in {key for key, _ in poll(tree, **options).hints}
        assert hinted == ("discover" in options or "b.csv" in names)

    def test_files_get_the_options_that_concern_them(self, tree, poll):
        found = poll(tree, trust_mtime=False, only="a.txt")
        kept = {"trust_mtime": False, "within": f"{tree}/"}
        assert found.discovered == (New(f"{tree}/a.txt", "file", kept),)

    def test_odd_things_in_it_do_no_harm(self, tree, poll):
        os.mkfifo(tree / "pipe")
        (tree / "loop").symlink_to(tree)
        (tree / "broken").symlink_to(tree / "nothing")
        (tree / "itself").symlink_to("itself")
        (tree / "device").symlink_to("/dev/zero")
        (tree / "link").symlink_to(tree / "a.txt")
        (tree / "line\nbreak").touch()
        Path(os.fsdecode(bytes(tree) + b"/\xff")).touch()
        found = poll(tree)
        names = [new.key.removeprefix(f"{tree}/") for new in found.discovered]
        assert names == ["a.txt", "b.csv", "deep/c.csv", "deep/er/d.csv", "link"]
        assert "2 files left out" in found.detail

    def test_links_that_lead_out_of_it_are_not_followed(self, tree, poll, tmp_path):
        """Who can write to a shared folder must not choose which other files are mirrored."""
        secret = tmp_path / "secret"
        secret.write_text("secret")
        (tree / "out").symlink_to(secret)
        (tree / "up").symlink_to("../secret")
        (tree / "in").symlink_to("deep/c.csv")
        (tree / "deep" / "folder").symlink_to(tmp_path)
        found = poll(tree)
        names = [new.key.removeprefix(f"{tree}/") for new in found.discovered]
        assert names == ["a.txt", "b.csv", "deep/c.csv", "deep/er/d.csv", "in"]
        assert "2 links left out, which lead out of it" in found.detail
        followed = poll(tree, follow=True)
        assert {"out", "up"} <= {new.key.removeprefix(f"{tree}/") for new in followed.discovered}
        assert not any("within" in new.options for new in followed.discovered)

    def test_nor_are_files_that_become_links(self, tree, poll, tmp_path, monkeypatch):
        secret = tmp_path / "secret"
        secret.write_text("secret")
        (new,) = poll(tree, only="b.csv").discovered
        assert poll(new.key, **new.options).body == b"1"
        (tree / "b.csv").unlink()
        (tree / "b.csv").symlink_to(secret)
        found = poll(new.key, **new.options)
        assert (found.outcome, found.body) == ("refused", None)
        assert "leads out of" in found.detail
        # a file that becomes a link between the look at it and the reading
        (tree / "deep" / "c.csv").unlink()
        (tree / "deep" / "c.csv").symlink_to(secret)
        real = locations.LocalFile._check
        monkeypatch.setattr(
            locations.LocalFile, "_check", lambda self, path: real(self, path) if "/proc/" in path else None
        )
        found = poll(tree / "deep" / "c.csv", **new.options)
        assert (found.outcome, found.body) == ("refused", None)
        (tree / "whole").symlink_to(tmp_path)
        found = poll(tree / "whole" / "secret", **new.options)
        assert (found.outcome, found.body) == ("refused", None)

    def test_too_many_files_are_a_failure(self, tree, poll, monkeypatch):
        monkeypatch.setattr(trees, "MAX_FILES", 3)
        assert poll(tree).detail == "it has more than 3 files; add the folders in it one by one"

    def test_a_folder_that_cannot_be_listed_leaves_it_incomplete(self, tree, poll, monkeypatch):
        real = os.scandir

        def scandir(path):
            if str(path).endswith("er"):
                raise PermissionError(13, "Permission denied")
            return real(path)

        monkeypatch.setattr(os, "scandir", scandir)
        found = poll(tree)
        assert len(found.discovered) == 3
        assert not found.complete
        assert "1 folders in it cannot be listed" in found.detail


class TestElsewhere:
    @pytest.fixture
    def fs(self):
        fs = fsspec.filesystem("memory")
        yield fs
        fs.store.clear()
        fs.pseudo_dirs[:] = [""]

    def test_a_folder_of_another_file_system(self, fs, poll):
        fs.pipe({"/t/a": b"1", "/t/b/c": b"2"})
        found = poll("memory://t/")
        assert [new.key for new in found.discovered] == ["memory://t/a", "memory://t/b/c"]
        assert [poll(new.key).body for new in found.discovered] == [b"1", b"2"]
        fs.pipe("/t/a", b"11")
        assert [key for key, _ in poll("memory://t/").hints] == ["memory://t/a"]
        fs.rm("/t", recursive=True)
        assert poll("memory://t/").outcome == "gone"
        fs.pipe("/t", b"a file")
        assert poll("memory://t/").outcome == "failed"

    def test_files_in_an_archive(self, tmp_path, poll):
        archive = tmp_path / "x.zip"

        def pack(**files):
            with zipfile.ZipFile(archive, "w") as packed:
                for name, text in files.items():
                    packed.writestr(name.replace("__", "/"), text)

        pack(a="1", deep__b="2")
        assert poll(f"zip://a::{archive}").body == b"1"
        assert poll(f"zip://a::{archive}").outcome == "unchanged"
        found = poll(f"zip://::{archive}")
        assert [new.key for new in found.discovered] == [f"zip://a::{archive}", f"zip://deep/b::{archive}"]
        assert poll(found.discovered[1].key).body == b"2"
        pack(a="3")
        assert poll(f"zip://a::{archive}").body == b"3"
        assert poll(f"zip://deep/b::{archive}").outcome == "gone"
        archive.write_bytes(b"not an archive")
        assert poll(f"zip://a::{archive}").outcome == "failed"
        archive.unlink()
        assert poll(f"zip://a::{archive}").outcome == "gone"

    def test_what_a_driver_raises_is_a_failure(self, fs, poll, monkeypatch):
        fs.pipe("/x", b"1")

        def info(*_, **__):
            raise ZeroDivisionError

        monkeypatch.setattr(type(fs), "info", info)
        found = poll("memory://x")
        assert (found.outcome, found.detail) == ("failed", "ZeroDivisionError")

    def test_a_file_without_a_time_is_read_each_time(self, fs, poll, monkeypatch):
        fs.pipe("/x", b"1")
        monkeypatch.setattr(type(fs), "info", lambda *_: {"name": "/x", "size": 1, "type": "file"})
        monkeypatch.setattr(type(fs), "modified", lambda *_: None)
        assert [poll("memory://x").outcome for _ in range(3)] == ["changed"] * 3

    def test_an_etag_is_trusted(self, fs, poll, monkeypatch):
        fs.pipe("/x", b"1")
        told = {"name": "/x", "size": 1, "type": "file", "ETag": "a"}
        monkeypatch.setattr(type(fs), "info", lambda *_, **__: told)
        assert [poll("memory://x").outcome for _ in range(2)] == ["changed", "unchanged"]
        told["ETag"] = "b"
        assert poll("memory://x").outcome == "changed"


class TestKeys:
    def test_paths_become_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", "/home/me")
        source = FileSource()
        (tmp_path / "folder").mkdir()
        assert source.key("a.csv", {}) == f"{tmp_path}/a.csv"
        assert source.key("./x/../a.csv", {}) == f"{tmp_path}/a.csv"
        assert source.key("~/a.csv", {}) == "/home/me/a.csv"
        assert source.key("file:///srv/a.csv", {}) == "/srv/a.csv"
        assert source.key("file:a.csv", {}) == f"{tmp_path}/a.csv"
        assert source.key("folder", {}) == f"{tmp_path}/folder/"
        assert source.key("folder/", {}) == f"{tmp_path}/folder/"
        assert source.key("later", {"tree": True}) == f"{tmp_path}/later/"
        assert source.key("zip://a::x.zip", {}) == f"zip://a::{tmp_path}/x.zip"
        assert source.key("MEMORY://Bucket/A", {}) == "memory://Bucket/A"
        assert source.key("memory://t", {"tree": "true"}) == "memory://t/"
        assert source.key("/", {}) == "/"

    @pytest.mark.parametrize(
        ("key", "group"),
        [
            ("/srv/a", "file:local"), ("s3://bucket/a/b", "file:s3://bucket"), ("memory://a/b", "file:memory://"),
            ("sftp://me:secret@host:22/a", "file:sftp://host:22"), ("zip://a::/srv/x.zip", "file:local"),
            ("zip://a::s3://bucket/x.zip", "file:s3://bucket"),
        ],
    )  # fmt: skip
    def test_groups_are_places(self, key, group):
        assert FileSource().group(key, {}) == group

    def test_a_driver_that_is_missing_is_named(self, monkeypatch):
        monkeypatch.setitem(known_implementations, "s3", {"class": "s3fs.X", "err": "?"})
        with pytest.raises(
            InvalidInput, match="s3:// needs a package that is not installed: pip install s3fs"
        ):
            FileSource().key("s3://bucket/key", {})

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"tree": 3}, "tree must be true or false"),
            ({"trust_mtime": "maybe"}, "trust_mtime must be true or false"),
            ({"storage": "anon"}, "storage must be a table"),
            ({"only": 3}, "only must be a pattern"),
            ({"skip": [""]}, "skip must be a pattern"),
            ({"discover": {"a": 1}}, "discover must be a pattern"),
        ],
    )
    def test_options_that_mean_nothing_are_refused(self, options, words, tmp_path):
        with pytest.raises(InvalidInput, match=words):
            FileSource().key("/srv/a", options)
        found = asyncio.run(FileSource().poll(Known("/srv/a", options), Terms(tmp_path, 10, 1.0)))
        assert found.outcome == "failed"
        assert words in found.detail

    def test_the_home_of_nobody_is_refused(self):
        with pytest.raises(InvalidInput, match=r"'~nobody-of-this-name/x': there is no such user"):
            FileSource().key("~nobody-of-this-name/x", {})

    @given(st.text(max_size=30))
    def test_the_key_of_a_key_is_the_key(self, text):
        source = FileSource()
        try:
            key = source.key(text, {})
        except InvalidInput:
            return
        assert source.key(key, {}) == key
        assert source.group(key, {}).startswith("file:")
