"""Elements that change once in a period are found out, and so is their moment; others are left alone."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.estimation.learning.clockwork_learner import ClockworkLearner
from unstale.estimation.learning.compiled.clockwork import BINS, PERIOD_DAYS, change_probability

FLAT = np.ones((1, 168))


class Polled:
    """Elements that are polled, and what a learner of clockworks makes of it; days are the unit of time."""

    def __init__(self, changes):
        self.changes, self.learner = changes, ClockworkLearner()
        n = len(changes)
        self.rows, self.last = np.zeros(n, np.int32), np.zeros(n)
        self.bets = np.zeros(n, np.float32), np.zeros(n, np.float32)

    def poll(self, times, *, told, rate):
        """Poll each element at a moment; the law of rates that bets against it knows the rate."""
        before, latest = (
            np.array([np.searchsorted(c, t) for c, t in zip(self.changes, at, strict=True)])
            for at in (self.last, times)
        )
        changed = latest > before
        ages = np.full(times.size, np.nan)
        if told:
            found = [c[k - 1] if k else 0.0 for c, k in zip(self.changes, latest, strict=True)]
            ages = np.where(changed, times - found, np.nan)
        gap = times - self.last
        against = np.where(changed, -np.log(-np.expm1(-rate * gap)), rate * gap)
        if told:
            against = np.where(changed, rate * ages - np.log(rate), against)
        n = times.size
        self.learner.learn(
            self.rows, self.bets, np.arange(n), np.zeros(n, np.intp), day=1.0, last=self.last, time=times,
            changed=changed, ages=ages, typical=FLAT, against=against, sizes=np.array([float(n)]),
        )  # fmt: skip
        self.last = times

    @property
    def followed(self):
        return self.learner.followed(self.rows)

    def phases(self, period=1.0):
        """Return the likeliest phases, as parts of a period."""
        return (self.learner.phases[self.rows].argmax(axis=1) + 0.5) / BINS * period


def clockworks(n, periods, *, period=1.0, seed=0, spread=5 / 1440):
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0.1 * period, 0.9 * period, n)  # not when polls are made
    times = phase[:, None] + period * np.arange(periods) + rng.normal(0.0, spread, (n, periods))
    return phase, [np.sort(one) for one in times]


def off(found, phase, period=1.0):
    """Return how far phases are from the true ones, on their circle."""
    return np.abs((found - phase + 0.5 * period) % period - 0.5 * period)


@pytest.mark.parametrize("period", [1.0, 7.0])
def test_told_moments_are_found_within_a_few_periods(period):
    phase, changes = clockworks(20, 12, period=period)
    polled = Polled(changes)
    for k in range(1, 9):
        polled.poll(np.full(20, k * period), told=True, rate=1.0 / period)
    assert polled.followed.all()
    assert (polled.learner.numbers[polled.rows, PERIOD_DAYS] == period).all()
    assert off(polled.phases(period), phase, period).max() < 1.5 * period / BINS


def test_moments_are_found_from_polls_alone():
    phase, changes = clockworks(20, 100)
    polled, rng = Polled(changes), np.random.default_rng(1)
    for k in range(1, 60):
        polled.poll(k + rng.uniform(-0.45, 0.45, 20), told=False, rate=1.0)
    assert polled.followed.mean() > 0.9
    assert np.median(off(polled.phases(), phase)) < 2.0 / BINS


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("gap", [0.3, 1.0, 4.0])
def test_changes_at_a_constant_rate_are_no_clockwork(gap, told):
    rng = np.random.default_rng(3)
    changes = [np.sort(rng.uniform(0.0, 70.0, rng.poisson(70.0))) for _ in range(200)]
    polled, now = Polled(changes), 0.0
    while now < 60.0:
        now += gap
        polled.poll(now + rng.uniform(0.0, 0.3 * gap, 200), told=told, rate=1.0)
    assert polled.followed.mean() < 0.02
    assert (polled.rows > 0).mean() < 0.4


def test_a_job_that_moves_is_followed_to_its_new_moment():
    phase, changes = clockworks(20, 60)
    moved = [
        np.concatenate([one[:30], np.arange(30, 60) + (p + 0.4) % 1.0])
        for one, p in zip(changes, phase, strict=True)
    ]
    polled = Polled(moved)
    for k in range(1, 31):
        polled.poll(np.full(20, float(k)), told=True, rate=1.0)
    assert off(polled.phases(), phase).max() < 1.5 / BINS
    for k in range(31, 38):
        polled.poll(np.full(20, float(k)), told=True, rate=1.0)
    assert polled.followed.all()
    assert off(polled.phases(), (phase + 0.4) % 1.0).max() < 1.5 / BINS


@given(st.integers(0, 19), st.floats(0.0, 3.0), st.lists(st.floats(0.0, 2.0), min_size=2, max_size=5))
def test_probabilities_of_a_change_grow_with_time(element, start, gaps):
    polled = _known()
    ends = start + np.cumsum(gaps)
    row, learner = polled.rows[element], polled.learner
    found = [change_probability(learner.phases, learner.numbers, row, 1.0, start, end) for end in ends]
    assert all(0.0 <= one <= 1.0 for one in found)
    assert all(late >= early - 1e-9 for early, late in pairwise(found))


_KEPT: list[Polled] = []


def _known():
    """Return elements whose moments are known."""
    if not _KEPT:
        polled = Polled(clockworks(20, 12)[1])
        for k in range(1, 9):
            polled.poll(np.full(20, float(k)), told=True, rate=1.0)
        _KEPT.append(polled)
    return _KEPT[0]


def test_rows_are_kept_with_other_bytes_and_come_back():
    polled = _known()
    kept = [b"evidence" + one for one in polled.learner.kept(polled.rows)]
    again = ClockworkLearner()
    rows, others = again.write([*kept, b"no row", b"", b"strange" + kept[0][-300:][:20]])
    assert others[:21] == [b"evidence"] * 20 + [b"no row"]
    assert (rows[:20] > 0).all()
    assert not rows[20:].any()
    np.testing.assert_array_equal(again.phases[rows[:20]], polled.learner.phases[polled.rows])
    assert len(kept[0]) - len(b"evidence") <= 240
    broken = kept[0][:-30] + b"\xff" * 20 + kept[0][-10:]
    assert not again.write([broken])[0].any()


def test_a_row_that_is_free_is_used_again():
    polled = _known()
    rows, _ = (again := ClockworkLearner()).write(polled.learner.kept(polled.rows))
    size = again.phases.shape[0]
    again.release(rows)
    assert (again.write(polled.learner.kept(polled.rows))[0] > 0).all()
    assert again.phases.shape[0] == size


def test_a_state_of_another_shape_is_refused():
    state = _known().learner.state()
    with pytest.raises(InvalidInput, match="phases"):
        ClockworkLearner.resume({**state, "phases": state["phases"][:, 1:]})
    assert ClockworkLearner.resume(state).any
    assert not ClockworkLearner.resume({}).any


def test_where_most_have_clocks_others_get_a_row_though_their_polls_say_nothing_of_phases():
    _, changes = clockworks(10, 60)
    for share, has_row in ((0.02, False), (0.8, True)):
        polled = Polled(changes)
        polled.learner.set_shares(np.array([share]))
        for night in range(1, 6):
            polled.poll(np.full(10, 3.0 * night), told=False, rate=1.0)
        assert (polled.rows > 0).all() == has_row


def test_clocks_that_are_switched_off_are_not_followed():
    _, changes = clockworks(5, 30)
    polled = Polled(changes)
    for night in range(1, 20):
        polled.poll(np.full(5, night + 0.0), told=True, rate=1.0)
    assert polled.followed.all()
    polled.learner.may_follow = False
    assert not polled.followed.any()
