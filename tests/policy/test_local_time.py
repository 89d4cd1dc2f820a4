"""Classes go by UTC or by clocks that change in spring and autumn, whichever bets better."""

from datetime import UTC, datetime

import numpy as np
import pytest

from unstale import Learning
from unstale.estimation.learning.rhythm_learner import PollsOfElements, RhythmLearner
from unstale.policy.local_time import ZONES, LocalRhythms, summers

JANUARY = datetime(2026, 1, 1, tzinfo=UTC).timestamp()  # a Thursday, as time 0 was
EU, US = 1, 2


def learned(zone, days, *, told=True, elements=20, seed=0):
    """Let elements change each day at about 14:00 by the clock of a zone, and be polled at about 20:00."""
    rng = np.random.default_rng(seed)
    found, peaks = LocalRhythms(RhythmLearner(day=1.0), epoch=JANUARY), []
    for day in range(1, days):
        summer = 0
        if zone:
            summer = np.searchsorted(summers(zone), JANUARY + 86400.0 * (day + 0.5)) % 2
        n = elements
        changes = day + (14.5 - summer) / 24.0 + rng.normal(0.0, 0.01, n)
        polls = day + 20.0 / 24.0 + rng.uniform(-0.1, 0.1, n)
        column = np.ones(n)
        found.learn(
            PollsOfElements(
                np.zeros(n, np.intp), polls - 1.0, polls, column > 0, column * 5.0, column * 5.0, column,
                polls - changes if told else np.empty(0),
            )
        )  # fmt: skip
        # the hour by UTC at which changes are expected tomorrow
        hours = day + 1.0 + (np.arange(24) + 0.5) / 24.0
        local = found.local(np.zeros(24, np.intp), hours)
        peaks.append(int(found.levels[0, (local * 24.0).astype(int) % 168].argmax()))
    return found, np.array(peaks)


@pytest.mark.parametrize("zone", [EU, US])
def test_local_time_is_found_out_and_foreseen_the_next_time(zone):
    found, peaks = learned(zone, 330)
    assert found.zones.tolist() == [zone]
    spring, autumn = (int((summers(zone)[112 + k] - JANUARY) / 86400.0) for k in (0, 1))
    assert set(peaks[20 : spring - 2]) == {14}
    assert set(peaks[spring + 14 : autumn - 2]) == {13}
    assert set(peaks[autumn:]) == {14}  # at once


def test_what_goes_by_utc_stays_with_it():
    found, peaks = learned(0, 330)
    assert found.zones.tolist() == [0]
    assert set(peaks[20:]) == {14}


def test_without_dates_there_is_no_summer():
    rhythms = LocalRhythms(RhythmLearner(day=1.0))
    times = np.array([10.0, 200.0])
    assert rhythms.local(np.zeros(2, np.intp), times).tolist() == times.tolist()


def test_state_goes_on():
    found, _ = learned(EU, 120)
    again = LocalRhythms.resume(found.state())
    assert again.zones.tolist() == found.zones.tolist() == [EU]
    times = np.linspace(0.0, 400.0, 50)
    classes = np.zeros(50, np.intp)
    np.testing.assert_allclose(again.local(classes, times), found.local(classes, times))
    np.testing.assert_allclose(again.levels, found.levels)
    assert LocalRhythms.resume(RhythmLearner(day=1.0).state()).zones.tolist() == [0]


def test_dates_of_summer_alternate():
    for zone in range(1, len(ZONES)):
        assert (np.diff(summers(zone)) > 100 * 86400.0).all()
    january = np.searchsorted(summers(EU), JANUARY) % 2
    july = np.searchsorted(summers(EU), datetime(2026, 7, 1, tzinfo=UTC).timestamp()) % 2
    assert (january, july) == (0, 1)


def test_a_policy_takes_the_date_of_time_zero():
    learning = Learning(2, 2.0, reserve=1.0, day=1.0, epoch=JANUARY)
    again = Learning.resume(learning.state())
    assert again.policy.known.clocks.rhythms.state()["epoch"] == JANUARY
