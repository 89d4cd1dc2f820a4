"""Jobs that have moved together: clocks that fail at the same time say by how much."""

import numpy as np
import pytest

from unstale.estimation.learning.clockwork_learner import ClockworkLearner
from unstale.estimation.learning.compiled.clockwork import BET, BINS, HITS, NUMBERS, PERIOD_DAYS, SPREAD

TABLES = 24
PHASES = np.linspace(2.0, 5.0, TABLES) / 24.0


def polled(learner, rows, run, days, *, last, seed=1):
    """Poll tables, each an hour after it is due and half of them at any later time; jobs run as told."""
    rng = np.random.default_rng(seed)
    bets = (np.zeros(TABLES, np.float32), np.zeros(TABLES, np.float32))
    for day in range(*days):
        looks = [(day + PHASES[i] + 1.0 / 24.0, i) for i in range(TABLES)]
        some = rng.choice(TABLES, TABLES // 2, replace=False).tolist()
        looks += [(day + 0.3 + 0.6 * rng.random(), i) for i in some]
        for time, i in sorted(looks):
            changed = any(last[i] < moment <= time for moment in run(i, day))
            gap = time - last[i]
            against = -np.log(-np.expm1(-gap)) if changed else gap  # of changes once a day, at any time
            learner.learn(
                rows, bets, np.array([i]), np.zeros(1, np.intp), day=1.0, last=last[[i]],
                time=np.array([time]), changed=np.array([changed]), ages=np.array([np.nan]),
                typical=np.ones((1, 168)), against=np.array([against]), sizes=np.array([float(TABLES)]),
            )  # fmt: skip
            last[i] = time
    return last


def nightly(shift=0.0, *, since=10**9, left_out=()):
    """Return when jobs ran, up to a day: from one on later, on some not at all."""

    def run(i, day):
        nights = [one for one in range(day - 2, day + 1) if one not in left_out]
        return [one + PHASES[i] + (shift if one >= since else 0.0) for one in nights]

    return run


@pytest.fixture
def learned():
    """Return a learner that knows all clocks to a quarter of an hour, the rows of tables, and last polls."""
    numbers = np.zeros((TABLES + 1, NUMBERS), np.float32)
    numbers[1:, [PERIOD_DAYS, BET, HITS, SPREAD]] = 1.0, 10.0, 30.0, 30.0
    phases = np.zeros((TABLES + 1, BINS), np.uint16)
    phases[np.arange(1, TABLES + 1), (PHASES * BINS).astype(int)] = 60_000
    owners = np.where(np.arange(TABLES + 1) > 0, 0, -1)
    kept = {"phases": phases, "numbers": numbers, "classes": owners, "shares": np.array([0.9]), "heard": 0}
    return ClockworkLearner.resume(kept), np.arange(1, TABLES + 1, dtype=np.int32), 13.0 + PHASES + 1.0 / 24.0


def moved_by(learner, rows):
    """Return by how many hours phases are later than they were."""
    turns = np.array([learner.clock(int(row)).phase for row in rows]) - PHASES
    return 24.0 * ((turns + 0.5) % 1.0 - 0.5)


def test_all_that_moved_by_some_hours_is_known_within_days(learned):
    learner, rows, last = learned
    polled(learner, rows, nightly(5.0 / 24.0, since=14), (14, 19), last=last)
    assert learner.followed(rows).all()
    np.testing.assert_allclose(moved_by(learner, rows), 5.0, atol=1.0)


def test_a_day_that_is_left_out_changes_nothing(learned):
    learner, rows, last = learned
    polled(learner, rows, nightly(left_out=(14,)), (14, 17), last=last)
    assert learner.followed(rows).all()
    np.testing.assert_allclose(moved_by(learner, rows), 0.0, atol=1.0)
    assert not learner.moved.suspects(0)


def test_a_few_that_fail_are_no_sign(learned):
    learner, rows, last = learned
    some = nightly(5.0 / 24.0, since=14)
    polled(learner, rows, lambda i, day: (some if i < 4 else nightly())(i, day), (14, 15), last=last)
    assert not learner.moved.suspects(0)


def test_what_is_being_found_out_goes_on_after_a_state(learned):
    learner, rows, last = learned
    last = polled(learner, rows, nightly(5.0 / 24.0, since=14), (14, 15), last=last)
    assert learner.moved.suspects(0)
    again, other = ClockworkLearner.resume(learner.state()), rows.copy()
    for one, of_it in ((learner, rows), (again, other)):
        polled(one, of_it, nightly(5.0 / 24.0, since=14), (15, 18), last=last.copy(), seed=3)
    np.testing.assert_array_equal(again.phases, learner.phases)
