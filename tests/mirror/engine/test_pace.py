"""Limits hold over every window, whatever comes, and are used as far as they go."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.pace import GRACE, Pace
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.store import Group


def pace_of(*, budget=None, byte_budget=None, groups=1, spacing=0.0, concurrency=1_000_000, asked=0.0):
    limits = (GroupLimit("*", spacing=spacing, concurrency=concurrency),)
    pace = Pace(Settings(budget=budget, byte_budget=byte_budget, groups=limits), budget, byte_budget)
    pace.know(Group(i, f"g{i}", 0.0, "", asked, 0.0) for i in range(groups))
    return pace


def play(pace, wishes, ticks, tick, *, gap=0.0, room=10_000):
    """Give slots tick by tick, with idle times between; polls end at once."""
    now, starts = 0.0, []
    for k in range(ticks):
        groups = wishes[k % len(wishes)]
        for which, slot, late in pace.assign(groups, [1000.0] * len(groups), now, now + tick, room):
            assert now <= slot < now + tick
            starts.append((slot, groups[which], late))
        pace.out([])
        now += tick + gap * (k % 3)
    return starts


def most_in(times, window):
    times = np.sort(times)
    return (
        max(np.searchsorted(times, t + window, "left") - i for i, t in enumerate(times)) if times.size else 0
    )


@given(
    st.floats(0.01, 50.0),
    st.integers(1, 5),
    st.floats(0.1, 20.0),
    st.floats(0.0, 100.0),
    st.randoms(use_true_random=False),
)
def test_the_budget_holds_over_every_window_even_if_each_poll_is_as_late_as_it_may_be(
    budget, groups, tick, gap, random
):
    pace = pace_of(budget=budget, groups=groups)
    wishes = [[random.randrange(groups) for _ in range(random.randrange(60))] for _ in range(7)]
    starts = play(pace, wishes, 60, tick, gap=gap)
    late = np.array([slot + random.random() * late for slot, _, late in starts])
    for window in (60.0, 61.7, 300.0, 3600.0):
        assert most_in(late, window) <= math.ceil(budget * window + 1e-6)


def test_the_budget_is_used():
    starts = play(pace_of(budget=10.0), [[0] * 200], 100, 1.0)
    assert 985 <= len(starts) <= 1000


@given(st.floats(0.05, 10.0), st.integers(1, 4), st.floats(0.2, 10.0))
def test_polls_of_a_group_keep_their_distance_though_late(spacing, groups, tick):
    pace = pace_of(budget=100.0, groups=groups, spacing=spacing)
    starts = play(pace, [[i % groups for i in range(40)]], 40, tick)
    for group in range(groups):
        mine = sorted((slot, late) for slot, g, late in starts if g == group)
        for (first, late), (second, _) in itertools.pairwise(mine):
            assert second - (first + late) >= spacing * (1 - 1e-9)


def test_what_a_source_asks_for_counts_if_it_is_more():
    starts = play(pace_of(budget=100.0, spacing=1.0, asked=3.0), [[0] * 10], 30, 1.0)
    gaps = np.diff([slot for slot, _, _ in starts])
    assert gaps.min() >= 3.0
    assert gaps.max() < 5.0


def test_a_group_that_must_wait_lets_others_go_first():
    pace = pace_of(budget=10.0, groups=2, spacing=5.0)
    pace.groups[1].spacing = 0.0
    given_ = pace.assign([0, 0, 1, 1, 1], [1.0] * 5, 0.0, 1.0, 100)
    assert [which for which, _, _ in given_] == [0, 2, 3, 4]


def test_no_more_of_a_group_at_a_time_than_it_may_have():
    pace = pace_of(budget=1000.0, concurrency=2)
    assert len(pace.assign([0] * 10, [1.0] * 10, 0.0, 5.0, 100)) == 2
    assert pace.assign([0] * 10, [1.0] * 10, 1.0, 5.0, 100) == []
    pace.out([0])
    assert len(pace.assign([0] * 10, [1.0] * 10, 2.0, 5.0, 100)) == 1
    pace.out([])
    pace.crowd = {0: 2.5}  # one worker makes them, one after the other
    assert len(pace.assign([0] * 10, [1.0] * 10, 3.0, 5.0, 100)) == 5


def test_a_blocked_group_waits():
    pace = pace_of(budget=10.0, groups=2)
    pace.know([Group(0, "g0", 100.0, "429", 0.0, 0.0)])
    assert [which for which, _, _ in pace.assign([0, 1], [1.0, 1.0], 50.0, 60.0, 9)] == [1]
    assert pace.room_of(0, 50.0, 60.0) == 0
    assert len(pace.assign([0], [1.0], 100.0, 101.0, 9)) == 1


def test_no_burst_after_an_idle_time():
    pace = pace_of(budget=1.0)
    assert len(pace.assign([0] * 50, [1.0] * 50, 0.0, 10.0, 100)) == 10
    pace.out([])
    assert len(pace.assign([0] * 50, [1.0] * 50, 100_000.0, 100_010.0, 100)) == 10


@given(st.floats(1e3, 1e6), st.lists(st.floats(1.0, 1e5), min_size=1, max_size=40))
def test_bytes_are_paid_for_in_advance_and_set_right_later(byte_budget, sizes):
    pace = pace_of(byte_budget=byte_budget)
    now, paid = 0.0, 0.0
    for size in sizes:
        given_ = pace.assign([0], [1000.0], now, math.inf, 1)
        pace.out([])
        pace.settle(1000.0, size, given_[0][1])
        paid += max(size, 1000.0)
        now = given_[0][1]
    assert pace.free(now) >= paid / byte_budget * (1 - 1e-9)


def test_a_poll_that_took_more_bytes_than_thought_delays_the_next():
    pace = pace_of(byte_budget=1000.0)
    pace.assign([0], [1000.0], 0.0, 10.0, 1)
    pace.settle(1000.0, 100_000.0, 1.0)
    assert pace.free(1.0) >= 99.0


def test_a_group_whose_polls_all_fail_is_left_alone_for_longer_and_longer_and_one_success_ends_that():
    pace = pace_of(budget=10.0)
    for _ in range(4):
        pace.saw(0, failed=True, now=0.0)
    assert pace.room_of(0, 0.0, 1.0) > 0
    pace.saw(0, failed=True, now=0.0)
    first = pace.groups[0].paid
    pace.saw(0, failed=True, now=first)
    assert first == 30.0
    assert pace.groups[0].paid == first + 60.0
    pace.saw(0, failed=False, now=200.0)
    assert pace.groups[0].failures == 0


def test_a_clock_that_was_set_back_does_not_stop_the_mirror():
    pace = pace_of(budget=1.0, spacing=2.0)
    pace.assign([0] * 5, [1.0] * 5, 1e6, 1e6 + 20.0, 9)
    pace.set_back(1000.0, 5.0)
    assert pace.free(1000.0) <= 1010.0
    assert pace.groups[0].paid <= 1000.0 + 3700.0


def test_without_a_budget_nothing_waits():
    pace = pace_of()
    assert pace.rate(1000.0) == math.inf
    assert len(pace.assign([0] * 500, [1.0] * 500, 0.0, 1.0, 400)) == 400


@pytest.mark.parametrize(
    ("spacing", "expected"), [(0.0, GRACE), (0.1, 0.025), (0.4, 0.05), (1.0, 0.1), (3.0, 0.3), (100.0, GRACE)]
)
def test_how_late_a_poll_may_be(spacing, expected):
    pace = pace_of(budget=1.0, spacing=spacing)
    ((_, _, late),) = pace.assign([0], [1.0], 0.0, 1.0, 1)
    assert late == pytest.approx(expected)
