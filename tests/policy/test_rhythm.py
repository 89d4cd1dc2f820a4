"""The policy polls after the rush, where classes have a rhythm, and as ever where they have none."""

import doctest
from pathlib import Path

import numpy as np
import pytest

from unstale import InvalidInput, Learning
from unstale.estimation.learning.clockwork_learner import _END, ClockworkLearner
from unstale.estimation.learning.compiled.clockwork import BINS, NUMBERS, PERIOD_DAYS
from unstale.estimation.learning.rhythm_learner import RhythmLearner
from unstale.policy.class_clocks import ClassClocks
from unstale.policy.element_table import ElementTable

HOUR = np.arange(24)
OFFICE = np.where((HOUR >= 9) & (HOUR < 17), 2.5, 0.25)


def changes_by(levels, days, elements, *, rate=1.0, seed=1):
    """Draw changes of elements in days, with these levels by the hour."""
    rng = np.random.default_rng(seed)
    relative = np.asarray(levels, float) / np.mean(levels)
    passed = np.concatenate([[0.0], np.cumsum(relative)]) / 24
    found = []
    for one in rng.gamma(2.0, 0.5 * rate, elements):
        y = np.sort(rng.uniform(0.0, days, rng.poisson(one * days)))
        found.append(np.floor(y) + np.interp(y % 1.0, passed, np.arange(25) / 24))
    return found


def play(learning, changes, days, *, told, since):
    """Let it poll; return the share of time for which copies are fresh from a day on, and all polls."""
    last, made, now = np.zeros(len(changes)), [], learning.now
    while now < days:
        now = min(now + min(learning.step, 0.25), days)
        polls = learning.polls(now)
        order = np.argsort(polls.times, kind="stable")
        seen = []
        for element, time in zip(polls.elements[order].tolist(), polls.times[order].tolist(), strict=True):
            of_it = changes[element]
            before, latest = np.searchsorted(of_it, [last[element], time], side="right")
            age = time - of_it[latest - 1] if latest > before else np.nan
            seen.append((element, time - last[element], latest > before, time, age))
            last[element] = time
            made.append((element, time))
        if seen:
            elements, elapsed, changed, time, age = (np.array(column) for column in zip(*seen, strict=True))
            learning.learn(elements, elapsed, changed, time=time, modified=age if told else None)
    polls, fresh = np.array(made), 0.0
    for element, of_it in enumerate(changes):
        start = np.concatenate([[0.0], polls[polls[:, 0] == element, 1]])
        first = np.append(of_it, np.inf)[np.searchsorted(of_it, start, side="right")]
        end = np.minimum(first, np.append(start[1:], days))
        fresh += np.maximum(end - np.maximum(start, since), 0.0).sum()
    return fresh / len(changes) / (days - since), polls


def test_office_hours_are_learned_and_polls_come_after_them():
    changes = changes_by(OFFICE, 28, 30)
    plain, _ = play(Learning(30, 30.0, reserve=1.0), changes, 28.0, told=True, since=14.0)
    timed, polls = play(Learning(30, 30.0, reserve=1.0, day=1.0), changes, 28.0, told=True, since=14.0)
    assert timed > plain + 0.06
    hours = polls[polls[:, 1] > 14.0, 1] % 1.0 * 24.0
    assert ((hours > 17.0) & (hours < 19.0)).mean() > 0.6


@pytest.mark.parametrize("told", [False, pytest.param(True, marks=pytest.mark.long)])
def test_without_a_rhythm_polls_are_about_as_ever(told):
    changes = changes_by(np.ones(24), 14, 30)
    plain, _ = play(Learning(30, 30.0, reserve=1.0), changes, 14.0, told=told, since=0.0)
    learning = Learning(30, 30.0, reserve=1.0, day=1.0)
    timed, _ = play(learning, changes, 14.0, told=told, since=0.0)
    assert timed > plain - 0.015
    assert not learning.policy.known.clocks.rhythms.any
    assert own_clocks(learning).sum() <= 1


@pytest.mark.long
def test_without_a_rhythm_nothing_is_lost():
    lost = []
    for seed in range(8):
        changes = changes_by(np.ones(24), 40, 60, seed=seed)
        for told in (False, True):
            plain, _ = play(Learning(60, 60.0, reserve=1.0), changes, 40.0, told=told, since=0.0)
            timed, _ = play(Learning(60, 60.0, reserve=1.0, day=1.0), changes, 40.0, told=told, since=0.0)
            lost.append(plain - timed)
    assert np.mean(lost) < 0.001 + 2.0 * np.std(lost) / np.sqrt(len(lost))


def test_a_budget_that_cannot_wait_is_spent_as_ever():
    changes = changes_by(OFFICE, 21, 30)
    plain, _ = play(Learning(30, 30.0), changes, 21.0, told=True, since=10.0)
    timed, polls = play(Learning(30, 30.0, day=1.0), changes, 21.0, told=True, since=10.0)
    assert timed > plain - 0.03
    assert len(polls) == pytest.approx(30 * 21, abs=2)


def nightly(tables, nights, seed=1):
    """Draw when tables are filled: each at its own time between 01:30 and 05:00, give or take 5 minutes."""
    rng = np.random.default_rng(seed)
    return [
        np.sort(np.arange(nights) + one + rng.normal(0.0, 5.0 / 1440.0, nights))
        for one in rng.uniform(1.5, 5.0, tables) / 24.0
    ]


def own_clocks(learning):
    """Tell which elements follow clocks of their own."""
    table = learning.policy.table
    return learning.policy.known.clocks.have_own(table, np.arange(len(table)))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("told", "least"), [(True, 0.95), (False, 0.85)])
def test_tables_that_are_filled_at_night(told, least, seed):
    learning = Learning(40, 40.0, reserve=1.0, day=1.0)
    fresh, _ = play(learning, nightly(40, 45, seed), 45.0, told=told, since=14.0)
    assert fresh > least
    assert own_clocks(learning).mean() > 0.7


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_tables_that_all_move_are_found_again(seed):
    changes = [
        np.sort(np.where(one >= 28.0, one + 5.0 / 24.0, one)) for one in nightly(40, 56, seed)
    ]  # polls alone must tell
    learning = Learning(40, 40.0, reserve=1.0, day=1.0, seed=seed)
    fresh, _ = play(learning, changes, 56.0, told=False, since=49.0)
    assert fresh > 0.8


def test_a_few_tables_that_are_filled_at_night():
    learning = Learning(12, 12.0, reserve=1.0, day=1.0)
    fresh, polls = play(learning, nightly(12, 14), 14.0, told=True, since=7.0)
    assert fresh > 0.92
    assert own_clocks(learning).mean() > 0.7
    assert len(polls) <= 12 * 14 + 12 + 2
    again = Learning.resume(learning.state())
    np.testing.assert_array_equal(again.polls(15.0).times, learning.polls(15.0).times)
    fresh = learning.policy.known.fresh(np.arange(12), 15.0)
    assert ((fresh >= 0.0) & (fresh <= 1.0)).all()


def test_limits_hold_with_a_rhythm():
    changes = changes_by(OFFICE, 14, 20)
    learning = Learning(20, 20.0, reserve=1.0, day=1.0, min_interval=0.4, max_age=1.6, jitter=0.1)
    _, polls = play(learning, changes, 14.0, told=True, since=0.0)
    assert learning.policy.known.clocks.any
    for element in range(20):
        gaps = np.diff(polls[polls[:, 0] == element, 1])
        assert gaps.min() >= 0.4 - 1e-9
        assert gaps.max() <= 1.6 + 0.2  # as soon as there is budget
    assert len(polls) <= 20 * 14 + 20 + 2


def test_it_goes_on_from_its_state():
    changes = changes_by(OFFICE, 12, 10)
    learning = Learning(10, 10.0, reserve=1.0, day=1.0)
    play(learning, changes, 10.0, told=True, since=0.0)
    assert learning.policy.known.clocks.any
    again = Learning.resume(learning.state())
    first, second = learning.polls(12.0), again.polls(12.0)
    np.testing.assert_array_equal(first.elements, second.elements)
    np.testing.assert_array_equal(first.times, second.times)


def test_moments_must_be_one_for_each_poll():
    learning = Learning(2, 1.0, day=1.0)
    with pytest.raises(InvalidInput, match="time must be one for each of the 1 polls"):
        learning.learn([0], [1.0], [True], time=[1.0, 2.0])
    with pytest.raises(InvalidInput, match="modified must"):
        learning.learn([0], [1.0], [True], time=[1.0], modified=[-1.0])


def test_the_page_about_tables_that_are_filled_at_night():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "nightly-tables.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 10
    assert failed == 0


def test_what_is_being_found_out_of_a_move_goes_on_after_a_start_with_other_rows():
    """Three clocks may have moved together; after another start, elements have other places and rows."""
    clockworks, ids = ClockworkLearner(), np.array([7, 8, 9])
    row = np.zeros(BINS, np.uint16)
    row[10] = 60_000
    one = np.zeros(NUMBERS, np.float32)
    one[PERIOD_DAYS] = 1.0
    rows, _ = clockworks.write([row.tobytes() + one.tobytes() + _END for _ in ids])
    before = np.arange(3.0)[:, None] * np.ones((3, BINS), np.float32)
    clockworks.moved.resume({
        "moved_counts": np.array([[0.0, 3.0, 3.0, 14.5, 14.1]]),
        "moved_0_since": np.array(14.1), "moved_0_rows": rows.astype(np.intp), "moved_0_before": before,
        "moved_0_trust": np.arange(3.0), "moved_0_bets": np.arange(BINS + 1.0),
    })  # fmt: skip
    table = a_table(ids, rows, clockworks)
    kept = ClassClocks(RhythmLearner(day=1.0), clockworks).moved(table)
    assert not any(name.endswith("_rows") for name in kept)

    again = ClockworkLearner()
    other_rows, _ = again.write(clockworks.kept(rows)[::-1][:2])  # of 9 and 8; 7 has gone
    resumed = ClassClocks(RhythmLearner(day=1.0), again)
    resumed.resume_moved(kept, a_table(np.array([8, 9]), other_rows[::-1], again))
    assert again.moved.suspects(0)
    found = again.moved.state()
    assert found["moved_0_rows"].tolist() == other_rows[::-1].tolist()
    assert found["moved_0_trust"].tolist() == [1.0, 2.0]
    assert found["moved_0_before"][:, 0].tolist() == [1.0, 2.0]
    assert found["moved_0_bets"].tolist() == list(range(BINS + 1))
    resumed.resume_moved({}, table)  # an older state


def a_table(ids, rows, clockworks):
    table = ElementTable()
    table.reserve(ids.size, None)
    table["id", :], table["clockwork", :] = ids, rows
    table.clockworks = clockworks
    return table
