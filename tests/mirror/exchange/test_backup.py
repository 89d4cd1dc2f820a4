"""A back-up is taken while the mirror runs, and what is restored from it is a mirror that goes on."""

import json
import shutil
import threading
from itertools import count

import pytest
from click.testing import CliRunner

from unstale import InvalidInput, Mirror
from unstale.cli.program import cli
from unstale.mirror.exchange.backup import back_up, restore

PAGES = 6
BUDGET = "1000/s"


def with_pages(mirror):
    """Add pages that are others at each poll."""
    numbers = count()
    for page in range(PAGES):
        mirror.add(f"python:page-{page}", poll=lambda: f"content {next(numbers)} " * 50)
    return mirror


def digests(mirror):
    return [digest for some in mirror.store.digests() for digest in some]


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "mirror.toml").write_text(f'[mirror]\nbudget = "{BUDGET}"\n')
    with Mirror(tmp_path / "mirror.db", budget=BUDGET, keep=1) as one:
        with_pages(one).step()
        yield one


@pytest.fixture
def saved(mirror, tmp_path):
    back_up(mirror.store, tmp_path / "mirror.toml", tmp_path / "saved")
    return tmp_path / "saved"


def test_a_mirror_that_runs_is_saved_and_restored_and_goes_on(mirror, tmp_path):
    stop, begun = threading.Event(), threading.Event()

    def poll():
        while not stop.is_set():
            mirror.step()
            begun.set()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        assert begun.wait(60)
        saved = tmp_path / "saved"
        written = back_up(mirror.store, tmp_path / "mirror.toml", saved)
        polled = mirror.status().polls
        with pytest.raises(InvalidInput, match=r"mirror\.db' is there already"):
            restore(saved, tmp_path / "mirror.db", tmp_path / "copies")
    finally:
        stop.set()
        thread.join()
    assert sorted(path.name for path in saved.iterdir()) == ["copies", "mirror.db", "mirror.toml"]
    assert {path.stat().st_mode & 0o077 for path in (saved, *saved.rglob("*"))} == {0}
    home = tmp_path / "elsewhere"
    home.mkdir()
    done = restore(saved, home / "mirror.db", home / "copies")
    assert done.copies == written.copies >= PAGES
    assert sorted(path.name for path in home.iterdir()) == ["copies", "mirror.db"]
    with Mirror(home / "mirror.db", budget=BUDGET, keep=1) as again:
        assert again.store.check() == []
        assert again.store.copies.check(digests(again)) == []
        assert all(again.read(f"python:page-{page}").body.startswith(b"content") for page in range(PAGES))
        assert 0 < sum(again.status().polls.values()) <= sum(polled.values())
        assert with_pages(again).step() > 0


def test_copies_that_are_deleted_meanwhile_are_not_spoken_of(mirror, tmp_path):
    rounds = []

    class Busy:
        """A store whose mirror forgets a page just after the database was saved."""

        def __getattr__(self, name):
            return getattr(mirror.store, name)

        def backup(self, path):
            written = mirror.store.backup(path)
            rounds.append(len(digests(mirror)))
            if len(rounds) == 1:
                mirror.remove(["python:page-0"], forget=True)
            return written

    written = back_up(Busy(), None, tmp_path / "saved")
    done = restore(tmp_path / "saved", tmp_path / "again.db", tmp_path / "others")
    assert rounds == [PAGES, PAGES - 1]
    assert done.copies == written.copies == PAGES - 1


def test_a_damaged_one_restores_nothing(saved, tmp_path):
    home = tmp_path / "elsewhere"
    home.mkdir()
    one = next((saved / "copies").glob("??/*"))
    one.write_bytes(b"something else")
    with pytest.raises(InvalidInput, match="the back-up is damaged"):
        restore(saved, home / "mirror.db", home / "copies")
    one.unlink()
    with pytest.raises(
        InvalidInput, match=r"the back-up is damaged: python:page-\d: its copy \w+ is missing"
    ):
        restore(saved, home / "mirror.db", home / "copies")
    assert list(home.iterdir()) == []


def test_names_that_are_taken(mirror, saved, tmp_path):
    with pytest.raises(InvalidInput, match="is there already: name another folder"):
        back_up(mirror.store, None, saved)
    with pytest.raises(InvalidInput, match=r"is no back-up: it has no mirror\.db"):
        restore(tmp_path / "copies", tmp_path / "a.db", tmp_path / "a")


def test_a_folder_of_somebody_is_not_taken_for_an_unfinished_back_up(mirror, tmp_path):
    mine = tmp_path / "saved.tmp" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("years of work")
    with pytest.raises(InvalidInput, match=r"saved\.tmp' is in the way"):
        back_up(mirror.store, None, tmp_path / "saved")
    assert mine.read_text() == "years of work"
    mine.unlink()
    (mine.parent / "mirror.db").write_bytes(b"half")  # one that was killed
    assert back_up(mirror.store, None, tmp_path / "saved").copies
    assert not mine.parent.exists()


@pytest.mark.usefixtures("mirror")
def test_the_commands(tmp_path, monkeypatch):
    call = CliRunner().invoke
    saved = tmp_path / "saved"
    monkeypatch.chdir(tmp_path)
    told = call(cli, ["backup", str(saved)], catch_exceptions=False)
    assert told.exit_code == 0
    assert f"Saved {PAGES} copies, " in told.output
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    told = call(cli, ["restore", str(saved), "--json"], catch_exceptions=False)
    assert json.loads(told.output)["copies"] == PAGES
    assert (elsewhere / "mirror.toml").read_text() == (tmp_path / "mirror.toml").read_text()
    shutil.rmtree(elsewhere / "copies")
    with pytest.raises(InvalidInput, match="is there already"):
        call(cli, ["restore", str(saved)], catch_exceptions=False)
    (elsewhere / "mirror.db").unlink()
    told = call(cli, ["restore", str(saved)], catch_exceptions=False)  # where mirror.toml says
    assert "To go on: unstale run" in told.output
