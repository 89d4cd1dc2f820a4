"""Why one element is polled when it is, and what its polls saw."""

import json
import shutil

import numpy as np
import pytest

from mirror.engine.worlds import DAY, add, make, run
from unstale import InvalidInput
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.load_policy import load_policy
from unstale.mirror.reports.explain import explain
from unstale.mirror.settings import Replicas

CONTENT = {"python:regular": lambda now: str(int(now // 21600)).encode(), "python:still": b"same"}


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """A mirror that has been running for some days; its folder, and the time."""
    folder = tmp_path_factory.mktemp("lived")
    made, _ = make(folder, budget=100 / DAY, content=CONTENT, keep=5, tick=3600.0)
    with made:
        add(made, "regular", "still", *(f"other/{i}" for i in range(5)))
        run(made, 15 * DAY)
        return folder, made.clock.now()


@pytest.fixture
def mirror(tmp_path, lived):
    folder, now = lived
    shutil.copytree(folder, tmp_path / "mirror")
    clock = SimulatedClock(now)
    made, _ = make(tmp_path / "mirror", budget=100 / DAY, content=CONTENT, keep=5, clock=clock)
    with made:
        yield made


def test_an_element_that_changes_is_shown_with_its_law(mirror):
    mirror.read("python:regular")
    found = mirror.explain("python:regular")
    assert 100 < len(found.polls) <= 500
    assert found.polls[0].time > found.polls[-1].time
    assert len(found.versions) == 5
    law, how_sure = found.law
    assert law is not None
    assert "sure" in how_sure
    assert found.reads_per_day == pytest.approx(1 / 15, rel=0.01)


def test_turns_of_replicas_are_told(tmp_path):
    now = 1.7e9
    told = {2: now - 7200.0, 3: now - 3600.0}
    for number, time in told.items():
        line = json.dumps({"key": "python:g", "time": time})
        (tmp_path / f"replica-{number}.jsonl").write_text(f"{line}\n")
    settings = {"budget": 10 / DAY, "replicas": Replicas(str(tmp_path), 1, 3), "clock": SimulatedClock(now)}
    mirror, _ = make(tmp_path, **settings)
    with mirror:
        add(mirror, "g", "other")
        mirror.step()
        for _ in range(3):
            mirror.step()
        found = mirror.explain("python:g")
        assert found.turn == (
            "this replica polled it last, now, so it is the turn of replica 2, and this one steps in later; "
            "this one is replica 1 of 3"
        )
        run(mirror, 10.0)
        line = json.dumps({"key": "python:g", "time": now + 5.0})
        (tmp_path / "replica-3.jsonl").write_text(f"{line}\n")
        turn = mirror.explain("python:g").turn
        assert turn.startswith("replica 3 polled it last, ")
        assert "so it is the turn of this one" in turn
        assert mirror.explain("python:other").turn.startswith("no other replica has told of a poll")


def test_the_next_poll_is_where_worth_reaches_the_price(mirror):
    for key in ("python:regular", "python:still"):
        found = mirror.explain(key)
        times, worths = found.worths
        assert times[0] == mirror.clock.now()
        assert (np.diff(worths) >= -1e-12 * np.max(worths)).all()
        assert worths[0] == pytest.approx(found.worth)
        moment = found.next_poll
        if worths[0] < found.price < worths[-1]:
            assert np.interp(found.price, worths, times) == pytest.approx(
                moment, abs=0.05 * (times[-1] - times[0])
            )


def test_after_a_long_pause_what_is_worth_the_price_is_said_to_be_so(tmp_path, lived):
    """It has waited longer than anything may, but that is not why it is polled next."""
    folder, now = lived
    shutil.copytree(folder, tmp_path / "mirror")
    clock = SimulatedClock(now + 90 * DAY)
    with make(tmp_path / "mirror", budget=100 / DAY, content=CONTENT, clock=clock)[0] as paused:
        found = paused.explain("python:regular")
    assert found.worth > found.price
    assert found.why == "A poll of it is worth the price now, so it is next in line."


def test_what_cannot_be_told_is_said(mirror):
    found = mirror.explain("python:still")
    assert found.law == (None, "0 changes have been seen; from 20 on a law can be told")
    mirror.remove(["python:still"])
    gone = mirror.explain("python:still")
    assert gone.worths[0].size == 0
    assert gone.why == "It was removed, so the mirror polls it no more."
    mirror.add("python:new")
    assert mirror.explain("python:new").worths[0].size == 0
    with pytest.raises(InvalidInput, match="no element"):
        mirror.explain("python:nobody")


def test_elements_are_paged_and_found_by_number(mirror):
    rows, total = mirror.page(search="other", sort="added", limit=2)
    assert ([e.key for e in rows], total) == (["python:other/0", "python:other/1"], 5)
    assert mirror.numbered(rows[0].id).key == "python:other/0"
    with pytest.raises(InvalidInput, match="number 99"):
        mirror.numbered(99)


def test_one_element_is_read_alone_and_explained_as_among_all(mirror):
    mirror.hint(["python:still"])
    now = mirror.clock.now()
    with mirror.store.begin() as t:
        whole = load_policy(mirror.settings, t)[0]
        for element in t.elements():
            alone = load_policy(mirror.settings, t, [element.id])[0]
            assert len(alone.table) == 1 < len(whole.table)
            assert alone.round == whole.round
            one, among = (explain(policy, t, element, now) for policy in (alone, whole))
            assert repr(one) == repr(among)  # nan is like nan
