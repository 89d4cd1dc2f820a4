"""Polls come before the readers, where these have hours."""

import numpy as np
import pytest

from unstale import InvalidInput, Learning
from unstale.policy.read_hours import clock_of_readers, hours_of_reads

HOUR = np.arange(24)
MORNING = np.where((HOUR >= 8) & (HOUR < 12), 1.0, 0.02)
READ_AT = (8.0 + np.arange(40) / 10) / 24


def changes_of(elements, days, rates=1.0, levels=None, seed=1):
    """Draw changes, by the hours of a day if levels are given."""
    rng = np.random.default_rng(seed)
    relative = np.ones(24) if levels is None else levels / levels.mean()
    passed = np.concatenate([[0.0], np.cumsum(relative)]) / 24
    found = []
    for _ in range(elements):
        times = np.sort(rng.uniform(0.0, days, rng.poisson(rates * days)))
        found.append(np.floor(times) + np.interp(times % 1.0, passed, np.arange(25) / 24))
    return found


def met(learning, changes, days, *, told=True, since=10.0):
    """Let it poll; return the share of fresh copies that readers find, and how many polls there were."""
    polls, last = [[0.0] for _ in changes], np.zeros(len(changes))
    while learning.now < days:
        made = learning.polls(min(learning.now + min(learning.step, 0.1), days))
        if not len(made):
            continue
        order = np.argsort(made.times, kind="stable")
        times, elements, seen = made.times[order], made.elements[order], []
        for element, time in zip(elements.tolist(), times.tolist(), strict=True):
            before, latest = np.searchsorted(changes[element], [last[element], time], side="right")
            age = time - changes[element][latest - 1] if latest > before else np.nan
            seen.append((time - last[element], latest > before, age))
            last[element] = time
            polls[element].append(time)
        elapsed, changed, age = (np.array(column) for column in zip(*seen, strict=True))
        learning.learn(elements, elapsed, changed, time=times, modified=age if told else None)
    asked = (np.arange(since, days)[:, None] + READ_AT).ravel()
    fresh = [
        np.searchsorted(of_it, np.array(own)[np.searchsorted(own, asked, side="right") - 1], side="right")
        == np.searchsorted(of_it, asked, side="right")
        for of_it, own in zip(changes, polls, strict=True)
    ]
    return float(np.mean(fresh)), sum(len(own) for own in polls)


def test_copies_are_fresh_when_they_are_read():
    """A poll a day of each, and a change: 63 % at a moment, and 92 % in the four hours after a poll."""
    changes, given = changes_of(12, 12), {"reserve": 1.0, "day": 1.0}
    plain, polls = met(Learning(12, 12.0, **given), changes, 12.0, since=4.0)
    timed, as_many = met(Learning(12, 12.0, **given, readers=MORNING), changes, 12.0, since=4.0)
    assert timed > plain + 0.15
    assert as_many == pytest.approx(polls, abs=6)


@pytest.mark.long
def test_after_the_changes_and_before_the_readers():
    """Changes come in the evening, readers at 8: polls in between are as good as any in the night."""
    evening = np.where((HOUR >= 18) & (HOUR < 22), 5.0, 0.2)
    changes = changes_of(20, 30, levels=evening)
    by_hours, _ = met(Learning(20, 20.0, reserve=1.0, day=1.0), changes, 30.0)
    timed, _ = met(Learning(20, 20.0, reserve=1.0, day=1.0, readers=MORNING), changes, 30.0)
    assert timed > by_hours - 0.01
    assert timed > 0.9


def test_without_a_reserve_readers_change_nothing():
    changes = changes_of(10, 12)
    plain = met(Learning(10, 10.0, day=1.0), changes, 12.0, since=4.0)
    assert met(Learning(10, 10.0, day=1.0, readers=MORNING), changes, 12.0, since=4.0) == plain


def test_for_age_readers_change_nothing():
    learning = Learning(3, 3.0, reserve=1.0, day=1.0, readers=MORNING, objective="age")
    assert learning.policy.known.clocks.readers is None


def test_it_goes_on_where_it_was():
    learning = Learning(6, 6.0, reserve=1.0, day=1.0, readers=MORNING)
    learning.polls(3.3)
    again = Learning.resume(learning.state())
    assert (again.polls(5.0).times == learning.polls(5.0).times).all()


def test_the_clock_of_readers_keeps_hours_without_any():
    clock = clock_of_readers(np.where(HOUR == 9, 1.0, 0.0), hour=1.0)
    assert clock.period == 168.0
    assert clock.levels.min() > 0.0
    assert clock.moments(clock.at(np.linspace(0.0, 200.0, 77))) == pytest.approx(np.linspace(0.0, 200.0, 77))


@pytest.mark.parametrize("readers", [[1.0] * 23, [0.0] * 24, [-1.0] * 24])
def test_what_are_no_hours_is_refused(readers):
    with pytest.raises(InvalidInput, match="readers must"):
        Learning(3, 3.0, day=1.0, readers=readers)


def test_readers_need_a_day():
    with pytest.raises(InvalidInput, match="as day"):
        Learning(3, 3.0, readers=MORNING)


@pytest.mark.parametrize("seed", range(4))
def test_bursts_of_reads_are_no_hours(seed):
    """Few hours with very many reads each, at any time."""
    rng = np.random.default_rng(seed)
    hours = np.sort(rng.choice(24 * 28, 40, replace=False))
    assert not hours_of_reads(hours * 1.0, rng.integers(100, 5000, 40), until=672.0, hour=1.0).size


def test_hours_of_weekdays_are_found():
    rng = np.random.default_rng(1)
    hours = np.arange(24 * 28)
    office = (hours % 24 >= 8) & (hours % 24 < 18) & (hours // 24 % 7 < 5)
    counts = rng.poisson(np.where(office, 20.0, 1.0))
    levels = hours_of_reads(hours[counts > 0] * 1.0, counts[counts > 0], until=672.0, hour=1.0)
    assert levels.reshape(7, 24)[2, 10] > 3.0 * levels.reshape(7, 24)[6, 10]


def test_one_day_of_reads_says_nothing_yet():
    assert not hours_of_reads([9.0, 10.0], [50, 60], until=30.0, hour=1.0).size
    assert not hours_of_reads([], [], until=30.0, hour=1.0).size
