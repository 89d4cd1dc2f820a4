"""The calendar of looks: what is due comes out once it is, and nothing is touched that is not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.policy.element_table import ElementTable
from unstale.policy.look_calendar import LookCalendar

COUNT = 200


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3), st.floats(0.0, 2e9))
def test_what_is_due_comes_out_in_time_and_not_before_its_day(seed, day, start):
    chance = np.random.default_rng(seed)

    def ahead(size):
        return day * chance.exponential(size=size) * 10.0 ** chance.uniform(-1, 7, size)

    calendar, look, now = LookCalendar(start, day), start + ahead(COUNT), start
    calendar.enter(np.arange(COUNT), look)
    inside = np.ones(COUNT, bool)
    for _ in range(60):
        now += float(ahead(1)[0])
        due = np.unique(calendar.turn(now, look))
        assert set(np.flatnonzero(inside & (look <= now))) <= set(due)
        assert inside[due].all()
        assert (look[due] < calendar.until + 1e-6 * day).all()
        inside[due] = False
        again = np.union1d(due, chance.choice(COUNT, 20, replace=False))  # some of them before their day
        look[again] = np.where(chance.random(again.size) < 0.1, np.inf, calendar.until + ahead(again.size))
        calendar.enter(again, look[again])
        inside[again] = look[again] < np.inf


def test_entries_that_count_no_more_are_cleared_out():
    table = ElementTable()
    table.extend(10, weight=1.0)
    for turn in range(1, 3000):
        now = float(turn)
        places = table.due(now, now + 1.0)
        table["look", places] = now + 1e4
        table.touch(np.arange(10))
    assert table.due(3000.0, 3001.0).tolist() == list(range(10))
    assert sum(len(days) for days in table._calendar._days) < 5000


@pytest.mark.parametrize("stop", [1.0, 500.0])
def test_the_table_gives_out_what_is_due_whatever_was_touched(stop):
    chance, table = np.random.default_rng(5), ElementTable()
    table.extend(COUNT, weight=1.0)
    look, now = np.full(COUNT, -np.inf), 0.0
    while now < stop:
        end = now + chance.choice([0.01, 1.0])
        if chance.random() < 0.05:
            table.hurry(3.0)
            look -= 3.0
        found = table.due(now, end)
        assert np.unique(found).size == found.size
        assert set(found) == set(np.flatnonzero(look <= end)), now
        assert np.allclose(table.state()["look"], look)
        some = found[chance.random(found.size) < 0.7]
        look[some] = end + chance.exponential(50.0, some.size)
        table.look_at(some, look[some])
        touched = chance.choice(len(table), 3)
        table.touch(touched)
        look[touched] = -np.inf
        if chance.random() < 0.01:
            table.extend(5, weight=1.0)
            look = np.concatenate([look, np.full(5, -np.inf)])
        now = end
