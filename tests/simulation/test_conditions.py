"""Polls that come late, take time or fail: against plain Python, and against what can be worked out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from unstale import Conditions, InvalidInput, World, freshness, simulate
from unstale.draws import FATES, key_of, uniform
from unstale.schedule import Polls, Schedule
from unstale.simulation.poll_execution import PollExecutor

LIMIT = 3.0


def carried_out(polls, conditions, n, seed=0, cuts=(np.inf,)):
    """All polls of each element as (start, end, success), carried out span by span."""
    executor, found = PollExecutor(n, conditions, seed), [[] for _ in range(n)]
    for begin, end in zip((-np.inf, *cuts), (*cuts, np.inf), strict=True):
        now = (polls.times >= begin) & (polls.times < end)
        visits = executor.carry_out(Polls(polls.times[now], polls.elements[now]), end)
        for i in range(n):
            own = slice(visits.offsets[i], visits.offsets[i + 1])
            assert np.all((visits.start[own] >= begin) & (visits.start[own] < end))
            found[i] += zip(visits.start[own], visits.done[own], visits.ok[own], strict=True)
    return found


def by_hand(polls, conditions, n, seed=0):
    key, found = key_of(seed, FATES), []
    for i in range(n):
        own, busy, count = [], -np.inf, 0
        for due in polls.times[polls.elements == i].tolist():
            if due < busy:
                continue
            u = [float(uniform(key, i, 3 * count + k)) for k in range(3)]
            start = due + (-conditions.late * math.log(u[0]) if conditions.late else 0.0)
            busy = start + (-conditions.takes * math.log(u[1]) if conditions.takes else 0.0)
            own.append((start, busy, u[2] >= conditions.fails))
            count += 1
        found.append(own)
    return found


@given(
    st.lists(st.one_of(st.floats(0.0, 20.0), st.sampled_from([1.0, 2.0, 3.0])), max_size=25),
    st.lists(st.floats(0.1, 20.0), max_size=5),
    st.sampled_from([0.0, 0.1, 2.0]),
    st.sampled_from([0.0, 0.1, 2.0]),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_polls_are_carried_out_as_in_plain_python_in_whatever_pieces(times, cuts, late, takes, fails):
    conditions = Conditions(late, takes, fails)
    polls = Polls(np.sort(times), np.arange(len(times)) // 2 % 3)  # some at the same moment
    expected = by_hand(polls, conditions, 3, seed=4)
    for pieces in ((), sorted(set(cuts))):
        found = carried_out(polls, conditions, 3, 4, tuple(pieces))
        assert [len(own) for own in found] == [len(own) for own in expected]
        for one, other in zip(found, expected, strict=True):
            assert_allclose(np.array(one, float), np.array(other, float), rtol=1e-13)
            ends = np.array([visit[:2] for visit in one]).reshape(-1, 2)
            assert np.all(ends[1:, 0] >= ends[:-1, 1])  # never two at the same time


def test_without_conditions_polls_are_carried_out_as_planned():
    polls = Schedule([1.0, 2.5], order="purely-random").until(50.0)
    for i, own in enumerate(carried_out(polls, Conditions(), 2)):
        assert [start for start, _, _ in own] == polls.times[polls.elements == i].tolist()
        assert all(start == done and ok for start, done, ok in own)


def test_lateness_and_duration_are_exponential_and_failures_independent():
    polls = Polls(np.arange(20_000) * 100.0, np.zeros(20_000, np.int64))
    (own,) = carried_out(polls, Conditions(late=0.5, takes=2.0, fails=0.2), 1)
    start, done, ok = np.array(own).T
    assert start.size == 20_000
    late, takes = start - polls.times, done - start
    assert stats.kstest(late / 0.5, "expon").pvalue > 1e-3
    assert stats.kstest(takes / 2.0, "expon").pvalue > 1e-3
    assert ok.mean() == pytest.approx(0.8, abs=4.0 * 0.4 / np.sqrt(20_000))
    for one, other in ((late, takes), (late, ok), (takes, ok), (ok[1:], ok[:-1]), (late[1:], late[:-1])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.0 / np.sqrt(20_000)


def test_fates_are_the_same_whoever_polls():
    """The first poll of an element meets the same luck in every policy."""
    one = Polls(np.array([1.0, 2.0]), np.array([0, 1]))
    other = Polls(np.array([5.0, 7.0]), np.array([1, 0]))
    rough = Conditions(late=1.0, takes=1.0, fails=0.5)
    first, second = carried_out(one, rough, 2), carried_out(other, rough, 2)
    for i, (a, b) in enumerate(((1.0, 7.0), (2.0, 5.0))):
        assert first[i][0][0] - a == pytest.approx(second[i][0][0] - b)
        assert first[i][0][2] == second[i][0][2]


# --- what it does to freshness ------------------------------------------------------------------------------

RATES = np.array([0.3, 0.8, 1.5])
N = 3 * 40


def outcome(conditions, f=1.0, order="fixed", horizon=400.0, **options):
    rates = np.tile(RATES, N // 3)
    return simulate(
        rates,
        f * N,
        policies=["uniform"],
        horizon=horizon,
        seed=9,
        order=order,
        conditions=conditions,
        **options,
    )["uniform"]


def close(found, expected):
    assert abs(found.freshness - np.mean(expected)) < LIMIT * found.freshness_error
    each = found.elements.freshness.reshape(-1, 3)
    error = each.std(axis=0) / np.sqrt(len(each))
    assert np.all(np.abs(each.mean(axis=0) - expected) < (LIMIT + 1.0) * error)


@pytest.mark.parametrize("fails", [0.1, 0.5, 0.9])
def test_failures_thin_out_purely_random_polls(fails):
    """They stay a Poisson process, at (1 - p) times the frequency."""
    found = outcome(Conditions(fails=fails), order="purely-random")
    close(found, freshness(RATES, 1.0 - fails, "purely-random"))
    assert found.failed / found.polls == pytest.approx(fails, abs=0.01)
    assert found.polls / found.duration == pytest.approx(N, rel=0.02)  # failures cost as much
    assert found.spent == pytest.approx(found.polls / found.duration)


@pytest.mark.parametrize("fails", [0.2, 0.6])
def test_failures_stretch_constant_intervals_by_a_geometric_number(fails):
    x = np.exp(-RATES)
    close(
        outcome(Conditions(fails=fails)),
        (1.0 - fails) * (1.0 - (1.0 - fails) * x / (1.0 - fails * x)) / RATES,
    )


def test_polls_that_take_time():
    """The copy is as old as the poll took: freshness is E[exp(-rate S)] = 1/(1 + rate m) of what it was."""
    takes = 0.04  # so short that hardly a poll falls away
    close(outcome(Conditions(takes=takes)), freshness(RATES, 1.0) / (1.0 + RATES * takes))


def test_polls_that_take_so_long_that_others_fall_away():
    """In purely random order a poll starts an exponential time after the last has ended."""
    takes = 0.5
    found = outcome(Conditions(takes=takes), order="purely-random")
    assert found.polls / found.duration == pytest.approx(N / (1.0 + takes), rel=0.02)
    wait, length = 1.0 / (1.0 + RATES), 1.0 / (1.0 + RATES * takes)  # E[exp(-rate T)] of both
    close(found, length * (1.0 - wait * length) / RATES / (1.0 + takes))


def test_polls_that_come_late():
    late = 0.05
    close(
        outcome(Conditions(late=late)),
        (1.0 - np.exp(-RATES) / ((1.0 + RATES * late) * (1.0 - RATES * late))) / RATES,
    )


def test_polls_that_wait_fall_away_too():
    found = outcome(Conditions(late=0.5, takes=0.25), order="purely-random")
    assert found.polls / found.duration == pytest.approx(N / 1.75, rel=0.02)


def test_all_polls_fail():
    found = outcome(Conditions(fails=1.0), horizon=200.0)
    assert found.freshness < 1e-3
    assert found.failed == found.polls > 0
    assert found.found == 0


def test_conditions_hold_for_every_policy():
    policies = [
        "uniform",
        "optimal",
        "edf",
        "index",
        "estimated-proportional",
        "nutch",
        "heritrix",
    ]
    rough = Conditions(late=0.01, takes=0.01, fails=0.4)
    result = simulate(RATES, 3.0, policies=policies, horizon=300.0, seed=3, conditions=rough)
    smooth = simulate(RATES, 3.0, policies=policies, horizon=300.0, seed=3)
    for name in policies:
        share = result[name].failed / result[name].polls
        assert share == pytest.approx(0.4, abs=0.15), name
        assert result[name].freshness < smooth[name].freshness
        assert smooth[name].failed == 0


def test_nothing_is_expected_of_what_has_no_formula():
    assert outcome(Conditions(fails=0.1), horizon=10.0).expected is None
    assert outcome(Conditions(), horizon=10.0).expected is not None
    assert outcome(None, horizon=10.0).expected is not None


def test_sizes_are_paid_for_failures_and_change_sizes_for_finds():
    world = World([0.5, 2.0], sizes=[3.0, 5.0], change_sizes=[10.0, 100.0])
    found = simulate(
        world, 8.0, policies={"it": Schedule([1.0, 0.5])}, horizon=500.0, conditions=Conditions(fails=0.25)
    )["it"]
    each = found.elements
    assert_allclose(each.cost, each.polls * [3.0, 5.0] + each.found * [10.0, 100.0])
    assert found.spent == pytest.approx(each.cost.sum() / found.duration)
    assert np.all(each.found <= each.polls - each.failed)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"late": -1.0}, "late must be finite and >= 0; late is -1.0"),
        ({"takes": np.nan}, "takes must be finite and >= 0; takes is nan"),
        ({"fails": 1.5}, "fails must be finite and >= 0 and <= 1; fails is 1.5"),
        ({"fails": "a"}, "fails must be a number; fails is 'a'"),
        ({"late": [1.0]}, "late must be a single number; it has shape (1,)"),
    ],
)
def test_a_mistake_is_named(options, words):
    with pytest.raises(InvalidInput) as caught:
        Conditions(**options)
    assert words in str(caught.value)


def test_conditions_are_values():
    assert Conditions(0.1, 0.2, 0.3) == Conditions(late=0.1, takes=0.2, fails=0.3)
    assert hash(Conditions()) == hash(Conditions(0.0, 0.0, 0.0))
    assert_array_equal(Conditions(1, 2, 0).numbers, (1.0, 2.0, 0.0))
