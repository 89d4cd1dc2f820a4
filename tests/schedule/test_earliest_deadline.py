"""Earliest deadline first: every element is within one poll of its share, all the time."""

import io
from fractions import Fraction
from itertools import islice
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unstale import plan
from unstale.errors import InvalidInput
from unstale.schedule.compiled.slots import lags_of, overload, put_back
from unstale.schedule.earliest_deadline import EarliestDeadline, _balanced

whole = st.integers(0, 9).map(float)
decades = st.floats(-8.0, 8.0).map(lambda exponent: 10.0**exponent)
ratios = st.tuples(st.integers(1, 9), st.integers(1, 9)).map(lambda pair: pair[0] / pair[1])
some_frequencies = st.one_of(
    *(st.lists(entry, min_size=1, max_size=12).filter(any) for entry in (whole, ratios, decades)),
    st.lists(st.one_of(whole, ratios, decades), min_size=1, max_size=12).filter(any),
)


def in_proportion(numbers):
    """Exact shares of floats or integers."""
    parts = [Fraction(number) for number in numbers]
    return [part / sum(parts) for part in parts]


def quantised(schedule):
    return in_proportion(schedule.state()["share"].tolist())


def slots(schedule, count):
    """Draw so many slots."""
    end = schedule._time(schedule._slot + count - 0.75)  # halfway from the last poll to the end of its slot
    return schedule.until(max(end, schedule.now)).elements.tolist()


def naive(rho, count):
    """Algorithm 3 to the letter of the paper, in exact numbers, ties by index."""
    delta, out = [Fraction(0)] * len(rho), []
    for _ in range(count):
        delta = [d + r for d, r in zip(delta, rho, strict=True)]
        due = [(ceil((1 - d) / r), k) for k, (d, r) in enumerate(zip(delta, rho, strict=True)) if d > 0]
        _, chosen = min(due)
        delta[chosen] -= 1
        out.append(chosen)
    return out


def distances(rho, elements):
    """Yield the slot and the distance of each element from its share, for every prefix."""
    polled = [0] * len(rho)
    for t, k in enumerate(elements, 1):
        polled[k] += 1
        yield t, [abs(t * r - made) for r, made in zip(rho, polled, strict=True)]


def worst(rho, elements):
    return max(max(each) for _, each in distances(rho, elements))


def lags(schedule):
    """How far elements are behind the share that they count on."""
    records, out = schedule._records.copy(), np.zeros(len(schedule))
    put_back(records, schedule._total, schedule._heap, schedule._ready)
    lags_of(records, schedule._total, schedule._slot, out)
    return out


# --- Algorithm 3 ------------------------------------------------------------------------------------


@given(some_frequencies)
def test_every_prefix_is_within_one_poll_of_its_share(frequencies):
    schedule = EarliestDeadline(frequencies)
    elements = slots(schedule, 150)
    assert worst(quantised(schedule), elements) < 1
    rho, n = in_proportion(frequencies), len(frequencies)
    for t, each in distances(rho, elements):
        for share, distance in zip(rho, each, strict=True):
            assert distance <= 1 + t * (1 + n * share) / Fraction(2**59)


@given(some_frequencies)
def test_sequence_is_that_of_the_paper(frequencies):
    schedule = EarliestDeadline(frequencies)
    rho = [(k, share) for k, share in enumerate(quantised(schedule)) if share > 0]
    expected = [rho[i][0] for i in naive([share for _, share in rho], 80)]
    assert slots(schedule, 80) == expected


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9))
def test_whole_frequencies_keep_their_exact_proportions(frequencies):
    schedule = EarliestDeadline(frequencies)
    assert quantised(schedule) == in_proportion(frequencies)
    assert slots(schedule, 60) == naive(in_proportion(frequencies), 60)


@given(some_frequencies, st.integers(1, 200))
def test_shares_after_some_slots(frequencies, count):
    """The theorem as the paper states it: |rho - N/T| <= 1/T."""
    schedule = EarliestDeadline(frequencies)
    made = np.bincount(slots(schedule, count), minlength=len(frequencies)) / count
    assert np.all(np.abs(np.array(frequencies) / sum(frequencies) - made) <= 1 / count + 1e-12)


def test_equal_frequencies_take_turns():
    assert slots(EarliestDeadline(np.ones(5)), 12) == [0, 1, 2, 3, 4] * 2 + [0, 1]


@pytest.mark.parametrize("spread", [0.0, 1.0, 3.0, 15.0])
def test_many_elements_are_within_one_poll_of_their_share(spread):
    rng = np.random.default_rng(1)
    frequencies = 10.0 ** rng.uniform(-spread / 2, spread / 2, 50_000)
    schedule = EarliestDeadline(frequencies)
    rho = frequencies / frequencies.sum()
    made, t = np.zeros(frequencies.size), 0
    for count in (1, 10, 1000, 20_000, 49_999, 70_001, 100_000):
        made += np.bincount(slots(schedule, count), minlength=rho.size)
        t += count
        assert made.sum() == t
        assert np.abs(t * rho - made).max() < 1 + 1e-9


def test_frequencies_over_fifteen_decades():
    frequencies = 10.0 ** np.arange(-15.0, 1.0)
    schedule = EarliestDeadline(frequencies)
    elements = slots(schedule, 2000)
    assert worst(quantised(schedule), elements) < 1
    assert abs(elements.count(15) - 1800) <= 1


def test_frequencies_too_low_for_their_share_get_the_least_one():
    schedule = EarliestDeadline([1.0, 1e-300, 5e-324, 0.0])
    assert schedule.state()["share"].tolist() == [2**59, 1, 1, 0]
    assert slots(schedule, 1000).count(0) >= 999


def test_frequencies_may_be_a_plan():
    best = plan([1.0, 2.0, 3.0], 5.0)
    assert slots(EarliestDeadline(best), 40) == slots(EarliestDeadline(best.frequencies), 40)


# --- the stream -------------------------------------------------------------------------------------


def test_polls_are_in_the_middle_of_slots():
    polls = EarliestDeadline([1.0, 3.0], start=10.0).until(12.0)
    assert polls.times.tolist() == [10.125 + i / 4 for i in range(8)]


def test_polls_at_the_end_are_left_for_later():
    schedule = EarliestDeadline([1.0, 1.0])
    assert len(schedule.until(0.25)) == 0
    assert schedule.until(0.75).times.tolist() == [0.25]
    assert schedule.until(0.75).times.tolist() == []
    assert schedule.now == 0.75


@given(some_frequencies, st.lists(st.floats(0.0, 40.0), max_size=8))
def test_polls_are_the_same_however_they_are_drawn(frequencies, ends):
    whole, parts = EarliestDeadline(frequencies), EarliestDeadline(frequencies)
    scale = 1.0 / whole.rate
    drawn = [parts.until(end * scale) for end in [*sorted(ends), 40.0]]
    polls = whole.until(40.0 * scale)
    assert_array_equal(np.concatenate([part.elements for part in drawn]), polls.elements)
    assert_array_equal(np.concatenate([part.times for part in drawn]), polls.times)
    assert abs(len(polls) - 40) <= 1


def test_polls_one_by_one():
    schedule = EarliestDeadline([1.0, 3.0, 4.0])
    polls = EarliestDeadline([1.0, 3.0, 4.0]).until(1.0)
    assert list(islice(schedule, 8)) == list(zip(polls.times, polls.elements, strict=True))


def test_time_far_from_zero_is_as_good_as_floats_are():
    schedule = EarliestDeadline([1.0, 2.0], start=1e15)
    polls = schedule.until(1e15 + 64.0)
    assert len(polls) == 192
    assert (np.diff(polls.times) >= 0).all()


@pytest.mark.parametrize("frequencies", [[], [0.0], [0.0, 0.0, 0.0]])
def test_nothing_to_poll(frequencies):
    schedule = EarliestDeadline(frequencies)
    assert len(schedule) == len(frequencies)
    assert schedule.rate == 0.0
    assert len(schedule.until(1e9)) == 0
    assert schedule.now == 1e9
    assert list(schedule) == []


def test_one_element():
    schedule = EarliestDeadline([0.5])
    assert schedule.until(10.0).times.tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]


def test_elements_of_frequency_0_are_never_polled():
    assert set(slots(EarliestDeadline([0.0, 1.0, 0.0, 2.0]), 100)) == {1, 3}


# --- to be continued --------------------------------------------------------------------------------


@given(some_frequencies, st.floats(0.0, 50.0), st.booleans())
def test_a_schedule_goes_on_where_it_was(frequencies, spent, swapped):
    schedule = EarliestDeadline(frequencies, start=-3.0)
    schedule.until(schedule.now + spent / schedule.rate)
    if swapped:
        schedule.swap([*frequencies[::-1], 1.0])
        schedule.until(schedule.now + spent / 3 / schedule.rate)
    file = io.BytesIO()
    np.savez(file, **schedule.state())
    file.seek(0)
    with np.load(file) as state:
        again = EarliestDeadline.resume(state)
    end = schedule.now + 60.0 / schedule.rate
    polls, others = schedule.until(end), again.until(end)
    assert_array_equal(polls.elements, others.elements)
    assert_array_equal(polls.times, others.times)
    assert (again.now, again.rate, len(again)) == (schedule.now, schedule.rate, len(schedule))


def test_a_state_is_not_changed_by_going_on():
    schedule = EarliestDeadline([1.0, 2.0, 5.0])
    state = schedule.state()
    first = slots(schedule, 20)
    assert slots(EarliestDeadline.resume(state), 20) == first
    assert slots(EarliestDeadline.resume(state), 20) == first


def test_a_state_that_was_changed_is_found_out():
    state = EarliestDeadline([1.0, 2.0, 5.0]).state()
    with pytest.raises(InvalidInput, match="nobody is ready; the state that was resumed"):
        EarliestDeadline.resume({**state, "share": [0, 0, 0]}).until(1.0)
    with pytest.raises(InvalidInput, match="one boundary and one rest for each share"):
        EarliestDeadline.resume({**state, "rest": [0, 0]})


# --- other frequencies ------------------------------------------------------------------------------


@given(st.data())
def test_after_a_swap_every_prefix_is_within_two_polls_of_its_share(data):
    frequencies = data.draw(some_frequencies)
    schedule = EarliestDeadline(frequencies)
    for _ in range(3):
        slots(schedule, data.draw(st.integers(0, 40)))
        behind = lags(schedule)
        kind = data.draw(st.sampled_from(["any", "those behind go", "those ahead go", "some come"]))
        if kind == "any":
            new = [data.draw(st.one_of(whole, decades)) for _ in frequencies]
        elif kind == "some come":
            new = [*frequencies, *data.draw(st.lists(decades, max_size=3))]
        else:
            gone = behind > 0 if kind == "those behind go" else behind < 0
            new = np.where(gone, 0.0, frequencies).tolist()
        if not any(new):
            new[0] = 1.0
        schedule.swap(new)
        frequencies = new
        assert np.abs(lags(schedule)).max() <= 1
        assert np.all(np.abs(lags(schedule)[: behind.size]) <= np.abs(behind) + 1e-12)
        elements = slots(schedule, 60)
        assert worst(quantised(schedule), elements) < 2
        assert np.abs(lags(schedule)).max() <= 1  # as a float: no deadline was missed


@pytest.mark.parametrize("gone", ["polled", "waiting"])
def test_half_of_the_elements_go_in_the_middle_of_a_round(gone):
    """The hardest case: all that are left were just polled, or none."""
    n = 1000
    schedule = EarliestDeadline(np.ones(n))
    slots(schedule, n // 2)
    frequencies = np.ones(n)
    frequencies[slice(n // 2) if gone == "polled" else slice(n // 2, n)] = 0.0
    schedule.swap(frequencies)
    elements = np.array(slots(schedule, 2 * n))
    made = np.cumsum(elements[:, None] == np.arange(n), axis=0)
    assert np.abs(np.arange(1, 2 * n + 1)[:, None] * frequencies / (n // 2) - made).max() < 2
    assert_array_equal(made[-1][frequencies > 0], 4)


def test_slots_go_on_without_a_gap():
    schedule = EarliestDeadline([1.0, 1.0])
    assert schedule.until(1.6).times.tolist() == [0.25, 0.75, 1.25]
    schedule.swap([4.0, 4.0])  # the next was due at 1.75: 0.3 slots are left
    assert_allclose(schedule.until(2.0).times, [1.6 + 0.3 / 8 + i / 8 for i in range(3)])


def test_another_unit_of_time_changes_only_the_times():
    schedule, other = EarliestDeadline([1.0, 3.0, 7.0]), EarliestDeadline([1.0, 3.0, 7.0])
    assert slots(schedule, 30) == slots(other, 30)
    other.swap([4.0, 12.0, 28.0])
    assert slots(schedule, 50) == slots(other, 50)


def test_progress_is_kept_over_many_swaps():
    """Frequencies wander, and are swapped long before slow elements are polled: none is forgotten."""
    rng = np.random.default_rng(1)
    base = rng.lognormal(0.0, 1.5, 300)
    schedule = EarliestDeadline(base)
    wanted, made = np.zeros(300), np.zeros(300)
    for _ in range(400):
        frequencies = base * rng.uniform(0.7, 1.4, 300)
        schedule.swap(frequencies)
        wanted += 20 * frequencies / frequencies.sum()
        made += np.bincount(slots(schedule, 20), minlength=300)
        assert np.abs(wanted - made).max() < 2
    assert wanted.min() < 1 < wanted.max()


def test_elements_that_come_are_polled_within_their_first_interval():
    schedule = EarliestDeadline(np.ones(10))
    slots(schedule, 13)
    schedule.swap(np.ones(15))
    assert len(schedule) == 15
    elements = slots(schedule, 15)
    assert set(range(10, 15)) <= set(elements)
    assert sorted(set(elements)) == sorted(elements)  # and nobody twice


def test_from_nothing_to_something_and_back():
    schedule = EarliestDeadline([0.0, 0.0])
    schedule.until(5.0)
    schedule.swap([1.0, 0.0])
    assert schedule.until(7.0).times.tolist() == [5.5, 6.5]
    schedule.swap([0.0, 0.0])
    assert len(schedule.until(100.0)) == 0
    schedule.swap([0.0, 2.0, 2.0])
    polls = schedule.until(102.0)
    assert polls.times.tolist() == [100.125 + i / 4 for i in range(8)]
    assert polls.elements.tolist() == [1, 2] * 4


@given(st.integers(2, 400), st.integers(0, 2**32 - 1))
def test_balanced_lags_leave_room_for_all(n, seed):
    """Any lags at all: at most x polls become due within x slots, and there is always somebody to poll."""
    rng = np.random.default_rng(seed)
    shares = (10.0 ** rng.uniform(9.0, rng.uniform(9.0, 16.0), n)).astype(np.int64)
    given = rng.uniform(-0.99, 0.99, n) + rng.uniform(-0.5, 0.5)
    given = np.clip(given, -0.99, 0.99)
    total = int(shares.sum())
    lags = _balanced(given, shares, total)
    assert np.all(np.abs(lags) <= np.abs(given))
    assert np.all(lags * given >= 0)
    assert abs(lags.sum()) < 0.5
    assert overload(lags, shares, total) < 0.5
    rho = shares / total
    for x in 2.0 ** np.arange(0.0, 30.0, 0.25):
        assert np.floor(np.maximum(lags + np.floor(x) * rho, 0.0) + 1e-9).sum() <= np.floor(x)
        assert np.ceil(np.maximum(lags + np.floor(x) * rho, 0.0) - 1e-9).sum() >= np.floor(x)


# --- what cannot be ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: EarliestDeadline([1.0, -2.0]),
            r"frequencies must be finite and >= 0; frequencies\[1\] is -2.0",
        ),
        (lambda: EarliestDeadline([np.nan]), r"frequencies\[0\] is nan"),
        (lambda: EarliestDeadline(np.ones((2, 2))), r"one-dimensional; it has shape \(2, 2\)"),
        (lambda: EarliestDeadline([1e308, 1e308]), "frequencies must have a finite sum"),
        (lambda: EarliestDeadline([1.0], start=np.inf), "start must be finite"),
        (lambda: EarliestDeadline([1.0], start=2.0).until(1.0), "end must not be before now, which is 2"),
        (lambda: EarliestDeadline([1.0]).until(np.nan), "end must be finite"),
        (lambda: EarliestDeadline([1.0, 2.0]).swap([1.0]), "each of the 2 elements; there are 1. Give 0"),
        (lambda: EarliestDeadline.resume({"share": [1]}), "it has no 'boundary'"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.long
def test_ten_million_elements():
    rng = np.random.default_rng(1)
    frequencies = rng.lognormal(0.0, 2.0, 10**7)
    schedule = EarliestDeadline(frequencies)
    made, t = np.zeros(10**7), 0
    for count in (10**6, 3 * 10**6, 7 * 10**6):
        made += np.bincount(slots(schedule, count), minlength=10**7)
        t += count
        assert np.abs(t * frequencies / frequencies.sum() - made).max() < 1 + 1e-6
