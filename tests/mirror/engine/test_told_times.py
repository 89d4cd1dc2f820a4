"""Times of the last change that sources tell are learned from, as far as they prove true."""

import numpy as np
import pytest

from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.source import Found, New
from unstale.policy.told_times import ToldTimes

from .worlds import DAY, START, add, make, run

HOUR = 3600.0


def hourly(offset, modified):
    """Return an element that changes each hour, and says that it did so at ``modified(change, now)``."""

    def content(now):
        change = offset + HOUR * np.floor((now - offset) / HOUR)
        return Found("changed", "200 OK", body=str(change).encode(), modified=modified(change, now))

    return content


@pytest.fixture
def mirror(tmp_path):
    content = {
        f"python:{host}/{i}": hourly(HOUR * i / 7.0, modified)
        for host, modified in (("true", lambda change, _: change), ("now", lambda _, now: now))
        for i in range(4)
    }
    content["python:true/old"] = Found("changed", body=b"old", modified=1.7e9 - 1000 * DAY)
    found, world = make(tmp_path, content=content, budget=9 * 4 / DAY, tick=600.0)
    add(found, *(key.removeprefix("python:") for key in content))
    return found, world


def changes_a_day(mirror, key):
    return mirror.explain(key).rate * DAY


def test_what_is_told_is_learned_from_and_liars_are_found_out(mirror):
    """Each poll sees a change, so that only what is told says how many there were."""
    found, _ = mirror
    run(found, DAY / 2)
    assert changes_a_day(found, "python:true/old") < 0.3  # from its first copy on
    run(found, 3 * DAY)
    rates = [changes_a_day(found, f"python:true/{i}") for i in range(4)]
    assert np.mean(rates) == pytest.approx(2.0 * 24.0, rel=0.35)  # changes are regular: half a gap ago
    with found.store.begin() as t:
        numbers = {group.name: group.id for group in t.groups()}
        kept = PlannerState.read(t.state()).told
    told = ToldTimes()
    told.resume(kept)
    assert told.trusted(np.array([numbers["group:true"], numbers["group:now"]])).tolist() == [True, False]


def test_a_feed_says_at_once_how_often_it_changes_and_its_pages_when_they_did(tmp_path):
    """First polls tell it; a page says it better itself than the feed. A restart in between loses nothing."""

    def feed(gap, pages=()):
        def content(now):
            last = gap * np.floor(now / gap)
            times = tuple(last - gap * np.arange(20.0))
            return Found("changed", body=str(last).encode(), modified=now, changes=times, discovered=pages)

        return content

    pages = (
        New("python:b/old", "python", modified=START - 300 * DAY),
        New("python:b/new", "python", modified=START - HOUR),
        New("python:b/corrected", "python", modified=START - HOUR),
        New("python:b/unknown", "python"),
    )
    content = {
        "python:a/hourly": feed(HOUR),
        "python:a/monthly": feed(30 * DAY, pages),
        "python:b/corrected": Found("changed", body=b"old", modified=START - 300 * DAY),
    }
    found, world = make(tmp_path, content=content, budget=24 / DAY)
    add(found, "a/hourly", "a/monthly")
    run(found, 1.5 * HOUR)
    assert [key for _, key in world.polls] == ["python:a/hourly", "python:a/monthly"]
    assert changes_a_day(found, "python:a/hourly") == pytest.approx(24.0, rel=0.2)
    assert changes_a_day(found, "python:a/monthly") < 0.1
    found, world = make(tmp_path, content=content, budget=24 / DAY, clock=world.clock)
    pages = (*pages, New("python:c/old", "python", modified=START - 300 * DAY))
    found.add_many(pages[-1:])
    while len({key for _, key in world.polls if key[:8] in {"python:b", "python:c"}}) < len(pages):
        run(found, HOUR)
    old, new, corrected, unknown, listed = (changes_a_day(found, page.key) for page in pages)
    assert old < 0.5 * unknown < 0.5 * new
    assert [corrected, listed] == pytest.approx([old, old], rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_dates_of_feeds_are_worth_days_of_polls(seed, tmp_path):
    """How far the logarithms of rates are off after a day: less by half than without dates."""
    count, past = 120, 400 * DAY
    rng = np.random.default_rng(seed)
    rates = rng.gamma(0.5, 2.0 / DAY, count)
    changes = [
        np.sort(START - past + rng.uniform(0.0, past + 30 * DAY, rng.poisson(rate * (past + 30 * DAY))))
        for rate in rates
    ]

    def feed(own, dates):
        def content(now):
            before = own[own <= now]
            told = tuple(before[::-1][:20]) if dates else ()
            return Found("changed", body=str(before.size).encode(), changes=told)

        return content

    off = {}
    for dates in (False, True):
        content = {f"python:{i % 20}/{i}": feed(own, dates) for i, own in enumerate(changes)}
        (folder := tmp_path / str(dates)).mkdir()
        found, _ = make(folder, content=content, budget=count / 2 / DAY, tick=1800.0, reserve=2 * DAY)
        add(found, *(key.removeprefix("python:") for key in content))
        run(found, DAY)
        learned = np.array([changes_a_day(found, key) for key in content])
        logs = np.log(np.maximum(learned, 0.02)) - np.log(np.maximum(rates * DAY, 0.02))
        off[dates] = np.sqrt(np.mean(logs**2))
    assert off[True] < 0.5 * off[False]
