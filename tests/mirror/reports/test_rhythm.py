"""A mirror learns rhythms, keeps them, and tells of them in words."""

from types import SimpleNamespace

import numpy as np

from mirror.engine.worlds import DAY, add, make, run
from unstale.dashboard.pages import figures
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.reports.rhythm import rhythm_words

HOUR = np.arange(168)


def nightly(phase):
    """Return content that changes each day at about 02:00, at a moment of its own."""

    def content(now):
        return str(int((now - 7200.0 - phase) // DAY)).encode()

    return content


def test_it_is_learned_kept_and_told(tmp_path):
    content = {f"python:{i}": nightly(120.0 * i) for i in range(12)}
    made, _ = make(tmp_path, budget=24 / (DAY / 3), content=content, tick=900.0)
    with made:
        add(made, *(str(i) for i in range(12)))
        run(made, 9 * DAY)
        found, now = made.explain("python:3"), made.clock.now()
    assert found.rhythm.startswith(("mostly", "once a day at about 0"))
    assert found.rhythm_levels.argmax() % 24 in {1, 2, 3}  # polls come some hours apart
    told = found.to_json()
    assert told["rhythm"] == found.rhythm
    assert len(told["rhythm_levels"]) in {24, 168}
    again, _ = make(tmp_path, budget=24 / DAY, content=content, clock=SimulatedClock(now))
    with again:
        np.testing.assert_allclose(again.explain("python:3").rhythm_levels, found.rhythm_levels)


def test_a_table_that_is_filled_at_night_has_a_clock_of_its_own(tmp_path):
    content = {f"python:{i}": nightly(3600.0 * i + 600.0) for i in range(6)}
    made, _ = make(tmp_path, budget=24 / DAY, reserve=DAY, content=content, tick=1800.0)
    with made:
        add(made, *(str(i) for i in range(6)))
        run(made, 12 * DAY)
        found, now = [made.explain(f"python:{i}") for i in range(6)], made.clock.now()
    words = [one.rhythm for one in found]
    own = [i for i in range(6) if words[i].startswith("once a day at about ")]
    assert len(own) >= 3
    for i in own:
        hours, minutes = words[i].split()[5].split(":")
        assert abs(int(hours) + int(minutes) / 60.0 - (2.0 + i + 1.0 / 6.0)) < 1.0
        assert 0.7 < DAY * found[i].rate < 1.01
        assert DAY * found[i].low <= DAY * found[i].rate <= DAY * found[i].high
        assert found[i].rhythm_levels.argmax() in {1 + i, 2 + i, 3 + i}
        assert 0.0 < found[i].next_poll - now < 2.0 * DAY
    again, _ = make(tmp_path, budget=24 / DAY, reserve=DAY, content=content, clock=SimulatedClock(now))
    with again:
        assert again.explain(f"python:{own[0]}").rhythm == words[own[0]]


def test_a_state_without_a_rhythm_is_read_too():
    assert "rhythm" not in PlannerState().kept()
    assert PlannerState.read({}).rhythm is None


def test_words_name_days_and_hours():
    assert rhythm_words(np.empty(0)) == ""
    assert rhythm_words(np.where(HOUR[:24] >= 23, 20.0, 0.1)) == "mostly at 23:00 to 00:00 UTC"
    two = np.where((HOUR[:24] == 6) | (HOUR[:24] == 15), 10.0, 0.3)
    assert rhythm_words(two) == "mostly at 06:00 to 07:00 and 15:00 to 16:00 UTC"
    thursday = np.where(HOUR < 24, 6.0, 0.1)
    assert rhythm_words(thursday) == "mostly on Thursdays"


def test_a_figure_draws_it():
    week = np.where((HOUR % 24 == 14) & ((HOUR < 48) | (HOUR >= 96)), 20.0, 0.3)
    figure = figures.rhythm(SimpleNamespace(rhythm_levels=week, rhythm=rhythm_words(week)))
    assert "on weekdays at 14:00 to 15:00 UTC" in figure.svg
    assert figure.rows[14][0] == "Thu 14:00"
    assert len(figure.rows) == 168
    assert figures.rhythm(SimpleNamespace(rhythm_levels=np.empty(0), rhythm="")) is None
