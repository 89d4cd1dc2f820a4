"""Limits hold over every window, whatever comes, and are used as far as they go."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.policy import RateLimits

GRACE = 0.5


def limits_of(*, budget=None, byte_budget=None, groups=1, spacing=0.0, concurrency=1_000_000):
    limits = RateLimits(budget, byte_budget, grace=GRACE)
    for number in range(groups):
        limits.know(number, name=f"g{number}", spacing=spacing, concurrency=concurrency)
    return limits


def assign(limits, groups, sizes, now, end, room):  # noqa: PLR0917
    """Give slots; return (which, start, late) of each."""
    slots = limits.assign(np.array(groups, int), np.array(sizes, float), now=now, end=end, room=room)
    return list(zip(*(column.tolist() for column in slots), strict=True))


def is_open(limits, now, end):
    return bool(limits.free(np.array([0]), now, end)[0] > 0)


def fail(limits, *, failed, now):
    limits.saw(np.array([0]), np.array([failed]), np.array([now]))


def play(limits, wishes, ticks, tick, *, gap=0.0, room=10_000):
    """Give slots tick by tick, with idle times between; polls end at once."""
    now, starts = 0.0, []
    for k in range(ticks):
        groups = wishes[k % len(wishes)]
        for which, slot, late in assign(limits, groups, [1000.0] * len(groups), now, now + tick, room):
            assert now <= slot < now + tick
            starts.append((slot, groups[which], late))
        limits.hand_out([])
        now += tick + gap * (k % 3)
    return starts


def most_in(times, window):
    times = np.sort(times)
    return np.max(np.searchsorted(times, times + window, "left") - np.arange(times.size), initial=0)


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
    limits = limits_of(budget=budget, groups=groups)
    wishes = [[random.randrange(groups) for _ in range(random.randrange(60))] for _ in range(7)]
    starts = play(limits, wishes, 60, tick, gap=gap)
    late = np.array([slot + random.random() * late for slot, _, late in starts])
    for window in (60.0, 61.7, 300.0, 3600.0):
        assert most_in(late, window) <= math.ceil(budget * window + 1e-6)
    for window in (1.0, 10.0, 59.0):  # a shorter one may have the polls of half a second more, and one
        most = budget * (window + limits.grace) / (1.0 + limits.grace / 60.0) + 1.0
        assert most_in(late, window) <= math.floor(most + 1e-6)


def test_the_bound_of_short_windows_is_reached_but_for_one_poll():
    slots = np.array([slot for slot, _, _ in play(limits_of(budget=20.0), [[0] * 60], 40, 1.0)])
    moment = slots[slots >= 10.0][0]
    late = np.where((slots >= moment) & (slots < moment + 0.5), moment + 0.5, slots)
    assert 28 <= most_in(late, 1.0) <= 20 * 1.5 + 1


def test_the_budget_is_used():
    starts = play(limits_of(budget=10.0), [[0] * 200], 100, 1.0)
    assert 985 <= len(starts) <= 1000


@given(st.floats(0.05, 10.0), st.integers(1, 4), st.floats(0.2, 10.0))
def test_polls_of_a_group_keep_their_distance_though_late(spacing, groups, tick):
    limits = limits_of(budget=100.0, groups=groups, spacing=spacing)
    starts = play(limits, [[i % groups for i in range(40)]], 40, tick)
    for group in range(groups):
        mine = sorted((slot, late) for slot, g, late in starts if g == group)
        for (first, late), (second, _) in itertools.pairwise(mine):
            assert second - (first + late) >= spacing * (1 - 1e-9)


def test_a_spacing_is_used_as_far_as_it_goes():
    starts = play(limits_of(budget=100.0, spacing=3.0), [[0] * 10], 30, 1.0)
    gaps = np.diff([slot for slot, _, _ in starts])
    assert gaps.min() >= 3.0
    assert gaps.max() < 5.0


def test_a_group_that_must_wait_lets_others_go_first():
    limits = limits_of(budget=10.0, groups=2, spacing=5.0)
    limits.know(1)
    given_ = assign(limits, [0, 0, 1, 1, 1], [1.0] * 5, 0.0, 1.0, 100)
    assert [which for which, _, _ in given_] == [0, 2, 3, 4]


def test_no_more_of_a_group_at_a_time_than_it_may_have():
    limits = limits_of(budget=1000.0, concurrency=2)
    assert len(assign(limits, [0] * 10, [1.0] * 10, 0.0, 5.0, 100)) == 2
    assert assign(limits, [0] * 10, [1.0] * 10, 1.0, 5.0, 100) == []
    limits.hand_out([0])
    assert len(assign(limits, [0] * 10, [1.0] * 10, 2.0, 5.0, 100)) == 1
    limits.hand_out([])
    limits.crowd({0: 2.5})  # one worker makes them, one after the other
    assert len(assign(limits, [0] * 10, [1.0] * 10, 3.0, 5.0, 100)) == 5


def test_a_blocked_group_waits():
    limits = limits_of(budget=10.0, groups=2)
    limits.know(0, blocked=100.0, why="429")
    assert limits.group(0).why == "429"
    assert [which for which, _, _ in assign(limits, [0, 1], [1.0, 1.0], 50.0, 60.0, 9)] == [1]
    assert not is_open(limits, 50.0, 60.0)
    assert len(assign(limits, [0], [1.0], 100.0, 101.0, 9)) == 1


def test_no_burst_after_an_idle_time():
    limits = limits_of(budget=1.0)
    assert len(assign(limits, [0] * 50, [1.0] * 50, 0.0, 10.0, 100)) == 10
    limits.hand_out([])
    assert len(assign(limits, [0] * 50, [1.0] * 50, 100_000.0, 100_010.0, 100)) == 10


@given(st.floats(1e3, 1e6), st.lists(st.floats(1.0, 1e5), min_size=1, max_size=40))
def test_bytes_are_paid_for_in_advance_and_set_right_later(byte_budget, sizes):
    limits = limits_of(byte_budget=byte_budget)
    now, paid = 0.0, 0.0
    for size in sizes:
        given_ = assign(limits, [0], [1000.0], now, math.inf, 1)
        limits.hand_out([])
        limits.settle(1000.0, size, given_[0][1])
        paid += max(size, 1000.0)
        now = given_[0][1]
    assert limits.next(now) >= paid / byte_budget * (1 - 1e-9)


def test_a_poll_that_took_more_bytes_than_thought_delays_the_next():
    limits = limits_of(byte_budget=1000.0)
    assign(limits, [0], [1000.0], 0.0, 10.0, 1)
    limits.settle(1000.0, 100_000.0, 1.0)
    assert limits.next(1.0) >= 99.0


def test_a_group_whose_polls_all_fail_is_left_alone_for_longer_and_longer_and_one_success_ends_that():
    limits = limits_of(budget=10.0)
    for _ in range(4):
        fail(limits, failed=True, now=0.0)
    assert is_open(limits, 0.0, 1.0)
    fail(limits, failed=True, now=0.0)
    first = limits.group(0).paid
    fail(limits, failed=True, now=first)
    assert first == 30.0
    assert limits.group(0).paid == first + 60.0
    fail(limits, failed=False, now=200.0)
    fail(limits, failed=True, now=300.0)
    assert limits.group(0).paid == first + 60.0


def test_a_clock_that_was_set_back_does_not_stop_the_mirror():
    limits = limits_of(budget=1.0, spacing=2.0)
    assign(limits, [0] * 5, [1.0] * 5, 1e6, 1e6 + 20.0, 9)
    limits.set_back(1000.0, 5.0, largest=1e6)
    assert limits.next(1000.0) <= 1010.0
    assert limits.group(0).paid <= 1000.0 + 3700.0


def test_without_a_budget_nothing_waits():
    limits = limits_of()
    assert limits.rate(1000.0) == math.inf
    assert len(assign(limits, [0] * 500, [1.0] * 500, 0.0, 1.0, 400)) == 400


@pytest.mark.parametrize(
    ("spacing", "expected"), [(0.0, GRACE), (0.1, 0.025), (0.4, 0.05), (1.0, 0.1), (3.0, 0.3), (100.0, GRACE)]
)
def test_how_late_a_poll_may_be(spacing, expected):
    limits = limits_of(budget=1.0, spacing=spacing)
    ((_, _, late),) = assign(limits, [0], [1.0], 0.0, 1.0, 1)
    assert late == pytest.approx(expected)


def test_a_group_nobody_knows_of_has_no_limit():
    limits = RateLimits(budget=10.0)
    assert len(assign(limits, [7, 9, 7], [1.0] * 3, 0.0, 1.0, 9)) == 3
    assert limits.unknown([7, 9]) == [7, 9]
    assert list(limits.groups()) == []


@given(st.floats(0.1, 100.0), st.lists(st.floats(0.1, 10.0), min_size=1, max_size=30), st.integers(1, 40))
def test_slots_in_a_row_are_those_one_by_one(budget, sizes, room):
    """The quick way, for groups without limits, gives the slots that the other gives."""
    quick, slow = RateLimits(byte_budget=budget), RateLimits(byte_budget=budget)
    groups = np.zeros(len(sizes), int)
    end = 0.7 * sum(sizes) / budget + 1e-3
    one = assign(quick, groups, sizes, 0.0, end, room)
    other = slow._one_by_one(groups, np.array(sizes), 0.0, end, room)
    assert [which for which, _, _ in one] == other.which.tolist()
    assert [start for _, start, _ in one] == pytest.approx(other.start.tolist(), rel=1e-12, abs=1e-12)
    assert quick.paid_bytes == pytest.approx(slow.paid_bytes, rel=1e-12)


@pytest.mark.parametrize("after", [0.5, 1.0, 20.0])
def test_what_was_spent_is_paid_for_at_another_budget(after):
    limits = RateLimits(budget=1.0)
    assert len(assign(limits, [0] * 9, [1.0] * 9, 0.0, 0.5, 9)) == 1
    limits.change_budget(0.5, after, None)
    assert limits.next(0.5) == pytest.approx(0.5 + 0.5 / after)


def test_it_goes_on_where_it_stopped():
    limits = limits_of(budget=3.0, byte_budget=100.0, groups=3, spacing=0.7)
    assign(limits, [0, 1, 2, 0], [5.0] * 4, 0.0, 2.0, 9)
    again = RateLimits.resume(limits.state())
    asked = [0, 1, 2], [9.0] * 3, 2.0, 5.0, 9
    assert assign(again, *asked) == assign(limits, *asked)
