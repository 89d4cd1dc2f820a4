"""Deleting old copies on a slow file system does not hold up polls."""

import itertools
import threading
import time

import pytest

import unstale
from unstale.mirror.settings import GroupLimit, Settings

from .worlds import START, add, make, run

ELEMENTS = 40


@pytest.fixture
def slow(tmp_path):
    """A mirror of what is different at each look, whose file system takes its time to delete a file."""
    done = []
    settings = Settings(budget=60.0, reserve=0.0, keep=1, groups=(GroupLimit("*", concurrency=100),))
    number = itertools.count()
    with unstale.Mirror(tmp_path / "mirror.db", settings=settings, tidy_every=1.0) as mirror:
        delete = mirror.copies.delete

        def slowly(digests):
            time.sleep(0.04)
            done.append(("delete", threading.current_thread().name))
            return delete(digests)

        mirror.copies.delete = slowly
        for n in range(ELEMENTS):
            mirror.add(f"python:{n}", poll=lambda: f"{next(number)}")
        yield mirror, done


def test_polls_go_on_while_old_copies_are_deleted(slow):
    mirror, done = slow

    def note(event):
        if event.kind == "poll":
            done.append(("poll", ""))
        if sum(kind == "delete" for kind, _ in done) >= 40:
            mirror.stop()

    mirror.run(mirror.clock.now() + 120, on_event=note)
    kinds = [kind for kind, _ in done]
    assert kinds.count("delete") >= 40
    while_running = kinds[: len(kinds) - kinds[::-1].index("poll")]  # what is left is deleted at the end
    in_a_row = [len(list(some)) for kind, some in itertools.groupby(while_running) if kind == "delete"]
    assert max(in_a_row) <= 20  # it was all that were due, a thousand at most
    assert not any(name.startswith("unstale-store") for kind, name in done if kind == "delete")


def test_in_simulated_time_files_are_deleted_before_time_goes_on(tmp_path):
    mirror, _ = make(
        tmp_path, keep=1, tick=600.0, tidy_every=60.0, content={"python:a/1": lambda now: f"{now}".encode()}
    )
    add(mirror, "a/1")
    with mirror:
        run(mirror, 20_000.0)
        assert mirror.clock.now() == pytest.approx(START + 20_000.0)
        assert len([digest for some in mirror.copies.digests() for digest in some]) <= 3


def test_copies_are_looked_for_in_a_thread_and_those_that_are_missing_are_fetched(tmp_path):
    settings = Settings(budget=60.0, reserve=0.0, groups=(GroupLimit("*", concurrency=100),))
    asked, events = set(), []
    with unstale.Mirror(tmp_path / "mirror.db", settings=settings, tidy_every=0.5) as mirror:
        for n in range(3):
            mirror.add(f"python:{n}", poll=lambda: "same")
        while len(mirror.changes()) < 3:  # on a busy machine one step may come too late for some
            mirror.step()
        has = mirror.copies.has

        def noting(digest):
            asked.add(threading.current_thread().name.rpartition("_")[0])
            return has(digest)

        def note(event):
            events.append(event.detail)
            if "missing in" in event.detail:
                mirror.stop()

        mirror.copies.has = noting
        mirror.copies.delete([version.digest for version in mirror.changes()])
        mirror.set_budget(1 / 3600)  # a poll would put its copy again
        mirror.run(mirror.clock.now() + 120, on_event=note)
        assert any("3 copies are missing in" in detail for detail in events)
        assert "unstale-copies" in asked
        mirror.copies.has = has
        mirror.set_budget(60.0)
        for _ in range(3):
            mirror.step()
        assert mirror.read("python:0").body == b"same"
