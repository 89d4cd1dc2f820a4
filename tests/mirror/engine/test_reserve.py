"""A mirror with a reserve: first copies at once; no day above its budget and the reserve."""

import math

import numpy as np
import pytest

from unstale import InvalidInput, Mirror
from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import Found

from .worlds import DAY, START, add, events_of, make, run

GONE = Found("gone", "404")


def most_in(times, window):
    times = np.sort(times)
    return int(np.max(np.searchsorted(times, times + window, "left") - np.arange(times.size), initial=0))


def test_sixty_first_copies_come_as_fast_as_politeness_allows_at_the_default_budget(tmp_path):
    groups = (GroupLimit("*", spacing=1.0, concurrency=2),)
    mirror, world = make(tmp_path, reserve=DAY, groups=groups, tick=5.0)
    with mirror:
        add(mirror, *(f"host/{i}" for i in range(60)))
        ticks = [event.data["first_copies"] for event in events_of(mirror, 20.0) if event.kind == "tick"]
        told = mirror.status().first_copies
        assert told is not None
        assert (told.done, told.total) == (len(world.polls), 60)
        assert told.seconds == pytest.approx(1.1 * (60 - told.done), rel=0.2)
        assert ticks[0]["total"] == 60
        run(mirror, 60.0)
        assert sorted(key for _, key in world.polls) == sorted(f"python:host/{i}" for i in range(60))
        assert world.polls[-1][0] - world.polls[0][0] < 75.0
        run(mirror, 5.0)
        assert mirror.status().first_copies is None


def test_strictly_without_a_reserve_they_take_as_long_as_the_budget_says(tmp_path):
    mirror, world = make(tmp_path, tick=5.0)
    with mirror:
        add(mirror, *(f"host/{i}" for i in range(60)))
        run(mirror, 600.0)
        assert len(world.polls) <= math.ceil(600.0 * 1000 / DAY)
        assert mirror.status().reserve is None


def test_known_elements_are_not_polled_again_before_first_copies_unless_they_are_worth_it(tmp_path):
    groups = (GroupLimit("*", spacing=1.0, concurrency=2),)
    content = {"python:host/0": lambda now: str(now).encode(), "python:host/1": lambda now: str(now).encode()}
    mirror, world = make(tmp_path, reserve=DAY, groups=groups, tick=5.0, content=content)
    with mirror:
        add(mirror, *(f"host/{i}" for i in range(60)))
        run(mirror, 90.0)
        assert len({key for _, key in world.polls}) == 60
        assert len(world.polls) <= 62


@pytest.mark.parametrize("budgets", [{"budget": 40 / DAY}, {"budget": None, "byte_budget": 40 * 209 / DAY}])
def test_no_day_spends_more_than_its_budget_and_the_reserve_across_restarts(tmp_path, budgets):
    """Elements are added all the time, and the mirror is opened anew again and again."""
    rng, times, clock, left = np.random.default_rng(4), [], None, None
    for day in range(6):
        mirror, world = make(tmp_path, reserve=0.5 * DAY, tick=2400.0, clock=clock, **budgets)
        with mirror:
            clock = mirror.clock
            add(mirror, *(f"g/{day}-{i}" for i in range(int(rng.integers(0, 50)))))
            run(mirror, float(rng.uniform(0.2, 1.0)) * DAY)
            left = mirror.status().reserve
        times += [time for time, _ in world.polls]
        clock = type(clock)(clock.now() + float(rng.uniform(0.0, 0.5)) * DAY)
    for length in (1.0, 2.0, 4.0):
        assert most_in(np.array(times), length * DAY) <= math.ceil(40 * (length + 0.5))
    if budgets["budget"]:
        assert most_in(np.array(times), DAY) > 45  # the reserve was used
    assert 0.0 <= left.level <= 1.0


def test_a_planner_that_dies_after_handing_out_has_paid(tmp_path):
    """What a planner handed out is charged to the reserve, also if nobody ever makes these polls."""
    mirror, world = make(tmp_path, reserve=DAY, budget=100 / DAY, tick=60.0)
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(30)))
        run(mirror, 600.0)
        before = mirror.status().reserve
        with mirror.store.begin() as t:
            kept = PlannerState.read(t.state())
    again, _ = make(tmp_path, reserve=DAY, budget=100 / DAY, tick=60.0, clock=world.clock)
    with again:
        after = again.status().reserve
    assert len(world.polls) == 30
    assert before.polls == pytest.approx(70, abs=2)
    assert after == before
    assert kept.paced >= world.polls[-1][0]


def test_no_minute_exceeds_max_rate(tmp_path):
    mirror, world = make(tmp_path, reserve=DAY, max_rate=0.5, tick=5.0)
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(200)))
        run(mirror, 120.0)
    times = np.array([time for time, _ in world.polls])
    assert most_in(times, 60.0) <= 30
    assert times.size > 50


def test_the_whole_budget_is_spent_in_the_long_run(tmp_path):
    rng = np.random.default_rng(8)
    changes = [np.sort(rng.uniform(0, 30 * DAY, rng.poisson(30 * rate))) for rate in rng.gamma(1.0, 1.5, 40)]
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], now - START)).encode()
        for i in range(40)
    }
    mirror, world = make(tmp_path, reserve=DAY, budget=60 / DAY, tick=7200.0, content=content)
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(40)))
        run(mirror, 30 * DAY)
        kept = mirror.status().reserve
    assert kept is not None
    assert len(world.polls) >= 0.98 * 30 * 60  # a grace of half a second in a minute costs 0.8 %
    assert 0.2 < kept.level < 0.8


def test_a_hint_overrides_the_back_off_of_a_page_that_was_gone(tmp_path):
    content = {"python:g/0": lambda now: GONE if now < START + 600 else b"back"}
    mirror, world = make(tmp_path, reserve=DAY, tick=60.0, content=content)
    with mirror:
        add(mirror, "g/0")
        run(mirror, 660.0)
        assert len(world.polls) == 1  # it is left alone for an hour
        mirror.hint(["python:g/0"])
        run(mirror, 180.0)
        assert world.polls[1][0] < START + 720.0
        assert mirror.find("python:g/0").state == "ok"


def test_a_hint_does_not_override_what_the_source_asked_for(tmp_path):
    content = {"python:g/0": lambda _: Found("failed", "503", wait=7200.0)}
    mirror, world = make(tmp_path, reserve=DAY, tick=60.0, content=content)
    with mirror:
        add(mirror, "g/0")
        run(mirror, 120.0)
        mirror.hint(["python:g/0"])
        run(mirror, 3600.0)
        assert len(world.polls) == 1


# --- in the words of mirror.toml ----------------------------------------------------------------------------


def test_a_mirror_takes_what_mirror_toml_says_in_the_same_words(tmp_path):
    said = {"budget": "60/min", "reserve": "6h", "max_rate": "5/s", "objective": "age", "keep": 3}
    with Mirror(tmp_path / "mirror.db", **said) as mirror:
        assert mirror.settings == Settings(budget=1.0, reserve=21600.0, max_rate=5.0, objective="age", keep=3)
    with Mirror(tmp_path / "mirror.db", bytes="20MB/h", reserve="0") as mirror:
        assert (mirror.settings.budget, mirror.settings.reserve) == (None, 0.0)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"budget": "lots"}, "budget"),
        ({"budget": 3}, "in quotes"),
        ({"reserve": "-1 day"}, "reserve"),
        ({"budgets": "1/s"}, "did you mean 'budget'"),
        ({"store": "x"}, "multiple values|no key 'store'"),
    ],
)
def test_what_it_does_not_understand_is_refused_in_one_line(tmp_path, said, complaint):
    with pytest.raises((InvalidInput, TypeError), match=complaint):
        Mirror(tmp_path / "mirror.db", **said)


@pytest.mark.parametrize("wrong", [{"reserve": -1.0}, {"reserve": math.nan}, {"max_rate": 0.0}])
def test_settings_with_an_impossible_reserve_are_refused(tmp_path, wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        make(tmp_path, **wrong)
