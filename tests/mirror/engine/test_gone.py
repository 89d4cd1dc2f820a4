"""What is known to be gone is no stale copy: the real loop, in simulated time."""

from dataclasses import replace
from math import isnan

import numpy as np
import pytest

from unstale import InvalidInput
from unstale.mirror.reports.audit import audit_of
from unstale.mirror.source import Found
from unstale.policy.element_table import GONE

from .worlds import DAY, START, add, events_of, make, run

HOUR = 3600.0
LIVE = [f"live/{n}" for n in range(12)]
LOST = [f"lost/{n}" for n in range(20)]
GONE_AT = START + 2 * DAY


def missing(_):
    return Found("gone", "404 Not Found", traffic=150)


def page(every, until=np.inf):
    """A page that changes now and then, and is gone from a moment on."""

    def content(now):
        return missing(now) if now >= until else f"{int(now // every)}".encode()

    return content


@pytest.fixture
def ran(tmp_path):
    """Two days with all pages; then most of them are gone, and half a day passes."""
    mirror, world = make(tmp_path, budget=400 / DAY, tick=1200.0)
    world.content = {f"python:{key}": page(1e9) for key in LIVE}
    world.content |= {f"python:{key}": page(2 * HOUR, GONE_AT) for key in LOST}
    add(mirror, *LIVE, *LOST)
    events = events_of(mirror, GONE_AT - START)
    assert not [event for event in events if event.kind == "trouble"]
    with mirror:
        yield mirror, world, events_of(mirror, 0.5 * DAY)


def test_what_is_gone_has_a_figure_of_its_own_and_is_in_no_other(ran):
    mirror, _, _ = ran
    got = mirror.status()
    assert got.elements["gone"] == len(LOST)
    # All copies of what is there are as their sources are, and have been for days.
    assert got.freshness.value > 0.95
    assert got.predicted > 0.95
    assert {group.name: group.freshness > 0.95 for group in got.groups}["group:live"]
    assert isnan({group.name: group.freshness for group in got.groups}["group:lost"])
    assert mirror.what_if().present_value > 0.95
    assert isnan(mirror.explain("python:lost/3").fresh)
    assert mirror.explain("python:live/3").fresh > 0.9


def test_losing_most_of_a_group_at_once_is_an_alarm_and_nothing_is_deleted(ran):
    mirror, world, events = ran
    told = [event.detail for event in events if event.kind == "trouble"]
    assert len(told) == 1
    assert "group:lost has lost" in told[0]
    assert any("group:lost has lost 20 of its 20 elements" in line for line in mirror.status().trouble)
    assert all(mirror.read(f"python:{key}").body for key in LOST)
    world.content |= {f"python:{key}": page(2 * HOUR) for key in LOST}
    mirror.hint([f"python:{key}" for key in LOST])
    events = events_of(mirror, 0.5 * DAY)  # whoever runs it anew knows what has been told
    assert [event.kind for event in events if event.kind in {"trouble", "recovered"}] == ["recovered"]
    assert not mirror.status().trouble
    assert mirror.status().elements.get("gone", 0) == 0


def test_what_goes_little_by_little_is_no_alarm(tmp_path):
    mirror, world = make(tmp_path, budget=60 / DAY, tick=4 * HOUR)
    keys = [f"site/{n}" for n in range(12)]
    world.content = {
        f"python:{key}": page(6 * HOUR, START + (2 + 2 * n) * DAY) for n, key in enumerate(keys[:10])
    }
    add(mirror, *keys)
    with mirror:
        events = events_of(mirror, 24 * DAY)
        assert mirror.status().elements["gone"] == 10
        assert not [event for event in events if event.kind == "trouble"]
        assert not mirror.status().trouble


def test_what_was_never_there_is_no_loss(tmp_path):
    mirror, world = make(tmp_path, budget=400 / DAY, tick=1200.0)
    keys = [f"site/{n}" for n in range(8)]
    world.content = {f"python:{key}": missing for key in keys}
    add(mirror, *keys)
    with mirror:
        run(mirror, 0.5 * DAY)
        assert mirror.status().elements["gone"] == 8
        assert not mirror.status().trouble


def test_polls_of_what_is_gone_do_not_make_the_price(tmp_path):
    """The price is that of the pages that are there, whether others are gone or were never added."""
    prices, polls = [], []
    for name, more in (("alone", []), ("with", LOST)):
        folder = tmp_path / name
        folder.mkdir()
        mirror, world = make(folder, budget=100 / DAY, tick=3 * HOUR)
        world.content = {f"python:{key}": page((n + 2) * 5 * HOUR) for n, key in enumerate(LIVE)}
        world.content |= {f"python:{key}": missing for key in LOST}
        add(mirror, *LIVE, *more)
        with mirror:
            lately = []  # a price of one moment is that of a few polls
            for days in (11.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5):
                run(mirror, days * DAY)
                lately.append(mirror.status().price)
            prices.append(np.median(lately))
            latest = [key for time, key in world.polls if time > START + 12 * DAY]
            polls.append(sum(key.startswith("python:live") for key in latest))
    assert prices[1] == pytest.approx(prices[0], rel=0.3)
    assert polls[1] > 0.8 * polls[0]


def test_an_audit_counts_what_nobody_knew_to_be_gone_as_not_fresh(tmp_path):
    mirror, world = make(tmp_path, budget=2000 / DAY, tick=60.0)
    world.content = {f"python:{key}": b"always the same" for key in LIVE}
    add(mirror, *LIVE)
    with mirror:
        run(mirror, DAY / 4)
        world.content |= {f"python:{key}": missing for key in LIVE[:9]}
        got = mirror.audit(12, seed=1)
        assert (got.sample, got.gone, got.failed) == (12, 9, 0)
        assert got.true == pytest.approx(3 / 12)
        assert not got.agrees
        # From then on it is known, and no audit asks for it.
        got = mirror.audit(12, seed=1)
        assert (got.sample, got.gone) == (3, 0)
        assert got.true == pytest.approx(1.0)
        unanswered = [replace(poll, outcome="failed") for poll in mirror.polls(limit=3)]
        assert (audit_of(unanswered, 0.0).sample, audit_of(unanswered, 0.0).failed) == (0, 3)


def test_the_count_of_what_is_there_follows_what_polls_see(ran):
    mirror, world, _ = ran
    seen = []

    def look(event):
        if mirror._worker is not None and mirror._worker.planner is not None and event.kind == "tick":
            table = mirror._worker.planner.policy.table
            assert table.present_count == np.count_nonzero(table.present)
            seen.append(np.count_nonzero(table["state"] == GONE))

    world.content |= {f"python:{key}": page(2 * HOUR) for key in LOST}
    mirror.run(mirror.clock.now() + 2 * DAY, on_event=look)
    assert seen[0] > seen[-1] == 0


def test_what_is_long_gone_is_archived_its_copy_stays_and_it_can_be_resumed(tmp_path):
    mirror, world = make(tmp_path, budget=400 / DAY, tick=1200.0, archive=5 * DAY)
    world.content = {"python:here": page(1e9), "python:lost": page(2 * HOUR, GONE_AT)}
    add(mirror, "here", "lost")
    with mirror:
        run(mirror, 4 * DAY)
        assert mirror.status().elements["gone"] == 1
        events = events_of(mirror, 4 * DAY)
        told = [event.detail for event in events if event.kind == "archived"]
        assert told == ["1 element archived: gone for more than 5 days"]
        assert mirror.find("python:lost").state == "archived"
        assert mirror.read("python:lost").body
        assert [one.key for one in mirror.page()[0]] == ["python:here"]
        assert "archived" in mirror.status().elements
        polls = len(world.times("python:lost"))
        run(mirror, 10 * DAY)
        assert len(world.times("python:lost")) == polls
        world.content["python:lost"] = page(2 * HOUR)
        assert mirror.resume(["python:lost"]) == 1
        run(mirror, DAY)
        assert (mirror.find("python:lost").state, mirror.explain("python:lost").fresh > 0) == ("ok", True)


def test_what_is_paused_is_not_polled_and_counts_nowhere_until_it_is_resumed(tmp_path):
    mirror, world = make(tmp_path, budget=100 / DAY, tick=1200.0)
    world.content = {f"python:{key}": page(2 * HOUR) for key in "ab"}
    add(mirror, "a", "b")
    with mirror:
        run(mirror, DAY)
        assert mirror.pause(["python:a"]) == 1
        before = len(world.times("python:a"))
        run(mirror, 5 * DAY)
        assert len(world.times("python:a")) == before
        got = mirror.status()
        assert got.elements["paused"] == 1
        assert got.freshness.value > 0.8  # of the other alone
        said = mirror.explain("python:a")
        assert (said.element.state, said.next_poll) == ("paused", np.inf)
        assert mirror.read("python:a").body  # its copy stays
        with pytest.raises(InvalidInput, match="is paused, so nothing would come of a hint"):
            mirror.hint(["python:a"])
        mirror.resume(["python:a"])
        run(mirror, DAY)
        assert len(world.times("python:a")) > before + 5
