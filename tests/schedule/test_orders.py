"""The orders as streams: what they promise holds whatever is asked of them, and in whichever pieces."""

import io
from itertools import islice, pairwise
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from unstale import InvalidInput, plan
from unstale.schedule import Polls, Schedule, some
from unstale.schedule.compiled.orders import put_in_order
from unstale.schedule.orders import spread

ORDERS = ("fixed", "random", "purely-random")
CLOCK_RATE = 2.0


class Mornings:
    """A clock that goes during the first half of each unit of time, twice as fast; in binary fractions."""

    @staticmethod
    def worked(t):
        day = np.floor(t)
        return day + np.minimum(CLOCK_RATE * (np.asarray(t, float) - day), 1.0)

    @staticmethod
    def when(v):
        day = np.floor(v)
        return day + (np.asarray(v, float) - day) / CLOCK_RATE


MODES = {
    **{order: {"order": order} for order in ORDERS},
    "jitter": {"jitter": 0.3},
    **{f"even-{order}": {"order": order, "even": True} for order in ORDERS},
    "even-jitter": {"jitter": 1.0, "even": True},
    "windows": {"windows": Mornings()},
    "windows-random": {"windows": Mornings(), "order": "random"},
    "groups": {"windows": {"am": Mornings()}, "order": "purely-random"},
}
modes = st.sampled_from(list(MODES))
apart = st.sampled_from([mode for mode in MODES if not mode.startswith("even")])
"""Modes in which elements do not share slots."""
seeds = st.integers(0, 2**32 - 1)
rates = st.one_of(st.just(0.0), st.sampled_from([0.5, 1.0, 2.0]), st.floats(0.01, 20.0))
columns = st.lists(rates, min_size=1, max_size=6)
starts = st.sampled_from([0.0, -7.25, -1e6, 1e9])
PHASES = spread(np.arange(100))
"""Where elements are in their first cell, in random order."""


def made(mode, frequencies, seed=0, start=0.0):
    options = dict(MODES[mode])
    if mode == "groups":
        options["groups"] = (["am", "none", "am"] * len(frequencies))[: len(frequencies)]
    return Schedule(frequencies, seed=seed, start=start, **options)


def drawn(schedule, *ends):
    parts = [schedule.until(end) for end in ends]
    return Polls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "elements")))


def same(one, other):
    assert_array_equal(one.times, other.times)
    assert_array_equal(one.elements, other.elements)


def of(polls, element):
    return polls.times[polls.elements == element]


def counts(polls, n):
    return np.bincount(polls.elements, minlength=n)


# --- pieces -------------------------------------------------------------------------------------------------


@given(modes, columns, seeds, starts, st.data())
def test_pieces_of_time_do_not_matter(mode, frequencies, seed, start, data):
    whole = made(mode, frequencies, seed, start).until(start + 30.0)
    cuts = data.draw(st.lists(st.floats(0.0, 30.0), max_size=8))
    at = [] if not len(whole) else data.draw(st.lists(st.sampled_from(whole.times.tolist()), max_size=4))
    ends = sorted([*(start + cut for cut in cuts), *at])  # some exactly where there is a poll
    same(drawn(made(mode, frequencies, seed, start), *ends, start + 30.0), whole)


@given(modes, columns, seeds, starts)
def test_polls_are_in_order_and_within_their_span(mode, frequencies, seed, start):
    schedule = made(mode, frequencies, seed, start)
    for begin, end in pairwise(start + np.array([0.0, 0.0, 0.3, 5.0, 5.5, 20.0])):
        polls = schedule.until(end)
        assert schedule.now == end
        assert np.all(np.diff(polls.times) >= 0)
        assert np.all((polls.times >= begin) & (polls.times < end))
        assert np.all(np.array(frequencies)[polls.elements] > 0)


steps = st.lists(
    st.tuples(
        st.floats(0.01, 6.0), st.sampled_from(["swap", "add", "add at once", "remove", "nothing"]), columns
    ),
    max_size=6,
)


def follow(schedule, changes, *, pieces=1, saved_as=None):
    """Draw polls while frequencies change and elements come and go."""
    parts = []
    for length, what, values in changes:
        begin = schedule.now
        parts += [schedule.until(begin + length * (k + 1) / pieces) for k in range(pieces - 1)]
        parts.append(schedule.until(begin + length))
        there = np.flatnonzero(~np.isnan(schedule.state()["point"]))
        if saved_as is not None:
            schedule = reopened(schedule, saved_as)
        if what == "swap":
            wanted = np.zeros(len(schedule))
            wanted[there] = np.resize(values, there.size)
            schedule.swap(wanted)
        elif what.startswith("add"):
            schedule.add(values, groups=groups_for(schedule, values), at_once=what.endswith("once"))
        elif what == "remove" and there.size:
            schedule.remove(there[:: max(1, len(values) // 2)])
    parts.append(schedule.until(schedule.now + 5.0))
    return Polls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "elements")))


def groups_for(schedule, values):
    return ["am"] * len(values) if schedule.state()["clock"].size else None


def reopened(schedule, mode):
    """Save a schedule to a file, and go on from that."""
    file = io.BytesIO()
    np.savez(file, **schedule.state())
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        return Schedule.resume(saved, windows=MODES[mode].get("windows"))


@given(modes, columns, seeds, steps)
def test_pieces_of_time_do_not_matter_while_things_change(mode, frequencies, seed, changes):
    whole = follow(made(mode, frequencies, seed), changes)
    same(follow(made(mode, frequencies, seed), changes, pieces=3), whole)


@given(modes, columns, seeds, steps)
def test_a_schedule_goes_on_from_a_file_poll_for_poll(mode, frequencies, seed, changes):
    whole = follow(made(mode, frequencies, seed), changes)
    same(follow(made(mode, frequencies, seed), changes, saved_as=mode), whole)


def test_a_state_does_not_change_when_the_schedule_goes_on():
    schedule = Schedule([1.0, 2.0], order="random", even=True)
    schedule.until(3.0)
    state = schedule.state()
    before = {name: np.array(part) for name, part in state.items()}
    schedule.until(20.0)
    schedule.swap([3.0, 1.0])
    schedule.remove([0])
    for name, part in before.items():
        assert_array_equal(state[name], part)
    first, second = Schedule.resume(state).until(9.0), Schedule.resume(state).until(9.0)
    same(first, second)


@given(modes, columns, seeds)
def test_one_by_one_gives_the_same_polls(mode, frequencies, seed):
    schedule = made(mode, frequencies, seed)
    some_polls = list(islice(schedule, 50))
    assert len(some_polls) == (50 if any(frequencies) else 0)
    if some_polls:
        whole = made(mode, frequencies, seed).until(schedule.now)
        assert some_polls == list(zip(whole.times[:50].tolist(), whole.elements[:50].tolist(), strict=True))


def test_blocks_have_a_convenient_length():
    blocks = list(islice(some(Schedule(np.full(100, 7.0))), 3))
    assert [len(block) for block in blocks] == pytest.approx([65536] * 3, abs=1)


def test_seeds_reproduce_and_differ():
    for order in ORDERS[1:]:
        first, again, other = (Schedule([1.0, 2.0], order=order, seed=s).until(50.0) for s in (1, 1, 2))
        same(first, again)
        assert not np.array_equal(first.times[:20], other.times[:20])


# --- how often ----------------------------------------------------------------------------------------------


@given(columns, starts, st.lists(st.floats(0.0, 50.0), min_size=1, max_size=5))
def test_fixed_order_is_never_off_by_more_than_one(frequencies, start, ends):
    schedule = Schedule(frequencies, start=start)
    total = np.zeros(len(frequencies))
    for end in sorted(ends):
        total += counts(schedule.until(start + end), len(frequencies))
        elapsed = (start + end) - start  # as floats have it
        assert np.all(np.abs(total - np.array(frequencies) * elapsed) <= 1.0 + 1e-5)


@given(st.lists(st.floats(0.05, 20.0), min_size=1, max_size=5), seeds)
def test_random_order_polls_once_in_each_cell(frequencies, seed):
    polls = Schedule(frequencies, order="random", seed=seed).until(20.0)
    for i, f in enumerate(frequencies):
        cells = np.floor(of(polls, i) * f + PHASES[i] + 1e-9)
        assert_array_equal(cells, cells[:1].sum() + np.arange(cells.size))
        assert cells.size == 0 or cells[0] in (0.0, 1.0)
        assert abs(cells.size - 20.0 * f) < 2.0  # the first and the last cell are cut


def test_random_order_is_uniform_in_each_cell_and_independent():
    times = of(Schedule([0.5, 3.0], order="random", seed=3).until(10_000.0), 1)
    part = (times * 3.0 + PHASES[1]) % 1.0
    assert stats.kstest(part, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(part[1:], part[:-1])[0, 1]) < 4.0 / np.sqrt(part.size)


def test_purely_random_order_is_a_poisson_process():
    frequencies = np.array([0.7, 2.0, 5.0])
    polls = Schedule(frequencies, order="purely-random", seed=11).until(4000.0)
    for i, f in enumerate(frequencies):
        times = of(polls, i)
        assert stats.kstest(np.diff(times) * f, "expon").pvalue > 1e-3
        # numbers in windows of mean 3 are Poisson
        n = np.histogram(times, np.arange(0.0, 4000.0, 3.0 / f))[0]
        seen = np.bincount(np.minimum(n, 9), minlength=10)
        law = np.append(stats.poisson.pmf(np.arange(9), 3.0), stats.poisson.sf(8, 3.0))
        assert stats.chisquare(seen, law * n.size).pvalue > 1e-3
    first = [Schedule([1.0], order="purely-random", seed=s).until(20.0).times[0] for s in range(2000)]
    assert stats.kstest(first, "expon").pvalue > 1e-3


def test_elements_do_not_depend_on_each_other():
    for order in ORDERS[1:]:
        polls = Schedule(np.full(2, 1.0), order=order, seed=5).until(20_000.0)
        gaps = [np.diff(of(polls, i))[:19_000] for i in range(2)]
        assert abs(np.corrcoef(*gaps)[0, 1]) < 4.0 / np.sqrt(19_000)


@pytest.mark.parametrize("mode", ["jitter", "random", "purely-random", "even-random", "even-purely-random"])
def test_mean_frequencies(mode):
    frequencies = np.array([0.2, 1.0, 1.0, 7.3])
    seen = counts(made(mode, frequencies, seed=2).until(4000.0), 4)
    assert_allclose(seen, frequencies * 4000.0, atol=4.0 * np.sqrt(7.3 * 4000.0))
    assert_allclose(seen / 4000.0, frequencies, rtol=0.15)


def test_fifteen_decades_of_frequencies():
    frequencies = 10.0 ** np.arange(-9.0, 6.0)
    for order in ORDERS:
        polls = drawn(Schedule(frequencies, order=order, seed=1), 0.1, 5.0)
        bound = 1.0 if order != "purely-random" else 1.0 + 5.0 * np.sqrt(5.0 * frequencies)
        assert np.all(np.abs(counts(polls, 15) - 5.0 * frequencies) <= bound)
        assert np.all(np.diff(polls.times) >= 0)


def test_times_stay_exact_far_from_zero():
    for start in (1e9, -1e9):
        polls = Schedule([0.3, 40.0], start=start).until(start + 1000.0)
        assert counts(polls, 2).tolist() == pytest.approx([300, 40_000], abs=1)
        assert_allclose(np.diff(of(polls, 1)), 1.0 / 40.0, atol=3e-7)
    long = Schedule([1000.0 / 1024.0])
    long.until(0.0)
    for k in range(1, 6):
        end = 1e9 * k
        long.swap([1e-6])
        long.until(end)
        long.swap([1024.0])
        assert_allclose(np.diff(long.until(end + 10.0).times), 1.0 / 1024.0, atol=3e-6)


# --- equal distances: Algorithms B.1 to B.3 -----------------------------------------------------------------


@given(st.integers(1, 9), st.sampled_from([0.25, 1.0, 3.7]), st.sampled_from(list(ORDERS)), seeds)
def test_even_polls_come_at_equal_distances(n, f, order, seed):
    polls = Schedule(np.full(n, f), order=order, even=True, seed=seed).until(20.0 / f)
    assert len(polls) == 20 * n
    assert_allclose(polls.times, (np.arange(20 * n) + 0.5) / (n * f), rtol=1e-12)


@given(st.integers(1, 9), st.floats(0.01, 100.0))
def test_even_fixed_order_is_round_robin(n, f):
    rounds = Schedule(np.full(n, f), even=True).until(12.0 / f).elements[: 11 * n].reshape(11, n)
    assert sorted(rounds[0].tolist()) == list(range(n))
    assert np.all(rounds == rounds[0])


def test_even_random_order_is_a_new_permutation_in_each_round():
    rounds = Schedule(np.full(3, 0.7), order="random", even=True, seed=8).until(9000.0).elements[:18_900]
    rounds = rounds.reshape(-1, 3)
    assert np.all(np.sort(rounds, axis=1) == np.arange(3))
    code = rounds @ np.array([9, 3, 1])
    _, seen = np.unique(code, return_counts=True)
    assert seen.size == 6
    assert stats.chisquare(seen).pvalue > 1e-3
    pairs = np.unique(np.stack([code[:-1], code[1:]]), axis=1, return_counts=True)[1]
    assert pairs.size == 36
    assert stats.chisquare(pairs).pvalue > 1e-3


def test_even_purely_random_order_is_a_new_choice_each_time():
    chosen = Schedule(np.full(4, 2.0), order="purely-random", even=True, seed=9).until(5000.0).elements
    assert stats.chisquare(np.bincount(chosen)).pvalue > 1e-3
    for lag in (1, 2, 3, 4):
        pairs = np.bincount(4 * chosen[:-lag] + chosen[lag:])
        assert pairs.size == 16
        assert stats.chisquare(pairs).pvalue > 1e-3


def test_even_purely_random_order_chooses_by_frequency():
    f = np.array([1.0, 2.0, 5.0])
    chosen = Schedule(f, order="purely-random", even=True, seed=10).until(5000.0).elements
    assert stats.chisquare(np.bincount(chosen), chosen.size * f / f.sum()).pvalue > 1e-3
    pairs = np.bincount(3 * chosen[:-1] + chosen[1:])
    assert stats.chisquare(pairs, (chosen.size - 1) * np.outer(f, f).ravel() / f.sum() ** 2).pvalue > 1e-3


@given(st.lists(st.floats(0.05, 20.0), min_size=1, max_size=6))
def test_even_fixed_order_keeps_to_the_frequencies(frequencies):
    f = np.array(frequencies)
    polls = Schedule(f, even=True).until(30.0)
    assert_allclose(np.diff(polls.times), 1.0 / f.sum(), rtol=1e-9)
    for t in (1.0, 7.7, 30.0):
        seen = np.bincount(polls.elements[polls.times < t], minlength=f.size)
        assert np.all(np.abs(seen - f * t) <= 2.0 + 1e-9)


# --- jitter -------------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1.0), st.floats(0.1, 10.0), seeds)
def test_jittered_intervals_are_within_their_bounds(jitter, f, seed):
    gaps = np.diff(Schedule([f], jitter=jitter, seed=seed).until(40.0 / f).times) * f
    assert gaps.size >= 15
    assert np.all((gaps > 1.0 - jitter - 1e-9) & (gaps < 1.0 + jitter + 1e-9))


def test_jittered_intervals_are_uniform_and_phases_wander():
    times = Schedule([1.0], jitter=0.2, seed=4).until(50_000.0).times
    gaps = np.diff(times)
    assert stats.kstest((gaps - 0.8) / 0.4, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4.0 / np.sqrt(gaps.size)
    assert stats.kstest(times[::500] % 1.0, "uniform").pvalue > 1e-3  # 500 gaps apart, phases are far apart
    assert np.unique(np.round(gaps, 12)).size == gaps.size
    steady = Schedule([1.0], seed=4).until(5000.0).times
    assert np.ptp(steady % 1.0) < 1e-9


# --- other frequencies --------------------------------------------------------------------------------------

swaps = st.lists(
    st.tuples(st.floats(0.01, 8.0), st.lists(rates, min_size=3, max_size=3)), min_size=1, max_size=8
)


class Progress:
    """How far elements are in their own time, when frequencies change at some moments."""

    def __init__(self, phases):
        self.moments = np.concatenate([[0.0], np.cumsum([length for length, _ in phases])])
        self.frequencies = np.array([f for _, f in phases])
        steps = np.diff(self.moments)[:, None] * self.frequencies
        self.reached = np.concatenate([np.zeros((1, 3)), np.cumsum(steps, axis=0)])

    def at(self, t, element):
        return np.interp(t, self.moments, self.reached[:, element])

    def in_all(self, t):
        return np.interp(t, self.moments, self.reached.sum(axis=1))


def swapped(phases, **options):
    """Polls under successive frequencies, each for some time."""
    schedule = Schedule(phases[0][1], **options)
    parts, now = [], 0.0
    for k, (length, f) in enumerate(phases):
        if k:
            schedule.swap(f)
        now += length
        parts.append(schedule.until(now))
    return Polls(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("times", "elements")))


@given(swaps)
def test_swaps_leave_one_unit_of_own_time_between_polls_in_fixed_order(phases):
    polls, progress = swapped(phases), Progress(phases)
    for i in range(3):
        points = progress.at(of(polls, i), i)
        assert_allclose(np.diff(points), 1.0, atol=1e-9)
        if points.size:
            assert points[0] <= 1.0 + 1e-9
            assert progress.reached[-1, i] - points[-1] <= 1.0 + 1e-9
        else:
            assert progress.reached[-1, i] <= 1.0 + 1e-9


@given(swaps, st.floats(0.01, 1.0), seeds)
def test_swaps_keep_jittered_intervals_within_their_bounds(phases, jitter, seed):
    polls, progress = swapped(phases, jitter=jitter, seed=seed), Progress(phases)
    for i in range(3):
        gaps = np.diff(progress.at(of(polls, i), i))
        assert np.all((gaps > 1.0 - jitter - 1e-9) & (gaps < 1.0 + jitter + 1e-9))


@given(swaps, seeds)
def test_swaps_leave_one_poll_in_each_cell_in_random_order(phases, seed):
    polls, progress = swapped(phases, order="random", seed=seed), Progress(phases)
    for i in range(3):
        cells = np.floor(progress.at(of(polls, i), i) + PHASES[i] + 1e-9)
        assert_array_equal(cells, cells[:1].sum() + np.arange(cells.size))


def test_swaps_keep_purely_random_order_a_poisson_process():
    phases = [(300.0, [1.0, 2.0, 0.1]), (200.0, [5.0, 0.1, 0.0]), (400.0, [0.0, 3.0, 9.0])] * 3
    polls, progress = swapped(phases, order="purely-random", seed=7), Progress(phases)
    for i in range(3):
        assert stats.kstest(np.diff(progress.at(of(polls, i), i)), "expon").pvalue > 1e-3


@given(swaps, st.sampled_from(["fixed", "random", "even"]), seeds)
def test_swaps_bring_neither_a_burst_nor_a_gap(phases, what, seed):
    options = {"even": True} if what == "even" else {"order": what}
    polls, progress = swapped(phases, seed=seed, **options), Progress(phases)
    moments = np.concatenate([progress.moments, np.linspace(0.0, progress.moments[-1], 23)])
    total = np.searchsorted(polls.times, moments) - progress.in_all(moments)
    spread = {"even": 1.0, "fixed": 3.0, "random": 6.0}[what]  # per element: one, and two in random order
    assert np.ptp(total) <= spread + 1e-6


@given(modes, columns, seeds, st.floats(0.0, 9.0))
def test_a_swap_to_the_same_frequencies_changes_nothing(mode, frequencies, seed, when):
    plain, touched = made(mode, frequencies, seed), made(mode, frequencies, seed)
    first = plain.until(when), touched.until(when)
    touched.swap(frequencies)
    same(*first)
    same(touched.until(15.0), plain.until(15.0))


@given(apart, columns, columns, seeds, st.floats(0.5, 9.0))
def test_a_swap_leaves_those_alone_whose_frequency_stays(mode, frequencies, others, seed, when):
    n = len(frequencies)
    plain, touched = (made(mode, [*frequencies, *others], seed) for _ in range(2))
    same(plain.until(when), touched.until(when))
    touched.swap([*frequencies, *(2.0 * f + 1.0 for f in others)])
    one, other = touched.until(15.0), plain.until(15.0)
    for i in range(n):
        assert_array_equal(of(one, i), of(other, i))


def test_many_swaps_do_not_starve_anybody():
    for options in ({}, {"order": "random"}, {"order": "purely-random"}, {"even": True}):
        schedule, seen = Schedule([1.0, 1.0], **options), np.zeros(2)
        for k in range(1, 4001):
            seen += counts(schedule.until(0.05 * k), 2)
            schedule.swap([1.0, 1.0] if k % 2 else [1.0 + 1e-6, 1.0 - 1e-6])
        assert_allclose(seen, 200.0, atol=60.0 if options.get("order") == "purely-random" else 3.0)


def test_a_rest_at_frequency_0_keeps_the_place():
    schedule = Schedule([1.0], phases=[0.25])
    assert schedule.until(1.0).times.tolist() == [0.25]
    schedule.swap([0.0])  # three quarters of the way to the next
    assert schedule.rate == 0.0
    assert len(schedule.until(101.0)) == 0
    schedule.swap([0.5])
    assert schedule.until(105.0).times.tolist() == [101.5, 103.5]


# --- elements that come and go ------------------------------------------------------------------------------


@given(apart, columns, columns, seeds, st.tuples(st.floats(0.0, 9.0), st.floats(0.0, 9.0)))
def test_who_comes_and_goes_does_not_disturb_the_others(mode, frequencies, new, seed, moments):
    plain, busy = made(mode, frequencies, seed), made(mode, frequencies, seed)
    n, (first, second) = len(frequencies), sorted(moments)
    ours = [busy.until(first)]
    places = busy.add(new, groups=groups_for(busy, new))
    assert places.tolist() == list(range(n, n + len(new)))
    ours.append(busy.until(second))
    busy.remove(places)
    ours.append(busy.until(second + 2.0))
    assert np.all(ours[2].elements < n)
    assert busy.add([3.0], groups=groups_for(busy, [3.0])).tolist() == [n]
    ours.append(busy.until(20.0))
    theirs = plain.until(20.0)
    for i in range(n):
        assert_array_equal(np.concatenate([of(part, i) for part in ours]), of(theirs, i))


def test_numbers_are_used_again_the_lowest_first():
    schedule = Schedule(np.ones(6))
    schedule.until(2.5)
    schedule.remove([4, 1])
    assert schedule.frequencies.tolist() == [1, 0, 1, 1, 0, 1]
    assert len(schedule) == 6
    assert not {1, 4} & set(schedule.until(9.0).elements.tolist())
    assert schedule.add([2.0, 3.0, 4.0]).tolist() == [1, 4, 6]
    assert schedule.frequencies.tolist() == [1, 2, 1, 1, 3, 1, 4]
    assert_allclose(counts(schedule.until(109.0), 7), [100, 200, 100, 100, 300, 100, 400], atol=1)


def test_who_takes_a_number_over_has_other_luck():
    for order in ORDERS[1:]:
        schedule = Schedule([1.0], order=order, seed=3)
        before = Schedule([1.0], order=order, seed=3).until(40.0).times
        before = before[: np.searchsorted(before, 20.0) + 1]  # with the poll that was still to come
        schedule.until(20.0)
        schedule.remove([0])
        schedule.add([1.0])
        after = np.append(0.0, schedule.until(40.0).times - 20.0)
        assert not np.isclose(np.diff(before)[:, None], np.diff(after)[None, :], atol=1e-9).any()


def test_new_elements_are_polled_within_their_first_interval_or_at_once():
    for order in ORDERS[:2]:
        schedule = Schedule([1.0], order=order)
        schedule.until(7.3)
        new = schedule.add(np.full(50, 0.1))
        first = [of(schedule.until(17.3), i) for i in new[:1]]
        assert all(part.size == 1 for part in first)
    spread = Schedule([1.0])
    spread.until(7.3)
    spread.add(np.full(50, 0.1))
    times = spread.until(17.3)
    times = np.sort(times.times[times.elements > 0]) - 7.3
    assert times.size == 50
    assert np.max(np.diff(times)) < 4.0 * 10.0 / 50.0
    for order in ORDERS:
        schedule = Schedule([1.0], order=order)
        schedule.until(7.3)
        (new,) = schedule.add([2.0], at_once=True)
        assert of(schedule.until(9.0), new)[0] == 7.3


def test_groups_come_with_their_windows():
    schedule = Schedule([3.0], windows={"am": Mornings()}, groups=["none"])
    schedule.until(1.0)
    (new,) = schedule.add([5.0], groups=["am"])
    polls = schedule.until(50.0)
    assert np.all(of(polls, new) % 1.0 <= 0.5)
    assert np.any(of(polls, 0) % 1.0 > 0.5)
    assert_allclose(counts(polls, 2), [3 * 49, 5 * 49], atol=2)


def test_windows_hold_polls_back_but_not_their_number():
    for order in ORDERS:
        polls = Schedule([4.0, 0.3], order=order, windows=Mornings(), seed=1).until(400.0)
        assert np.all(polls.times % 1.0 <= 0.5)
        assert_allclose(counts(polls, 2), [1600, 120], atol=1 if order != "purely-random" else 160)
    labels = Schedule([1.0, 1.0, 1.0], windows={"am": Mornings()}, groups=[None, "am", 3])
    polls = labels.until(100.0)
    assert np.all(of(polls, 1) % 1.0 <= 0.5)
    assert counts(polls, 3).tolist() == pytest.approx([100, 100, 100], abs=1)


# --- sorting ------------------------------------------------------------------------------------------------

SPREADS = {
    "even": lambda rng, n: rng.random(n),
    "ties": lambda rng, n: np.floor(8.0 * rng.random(n)) / 8.0,
    "crowd": lambda rng, n: np.where(rng.random(n) < 0.9, 0.5 + 1e-9 * rng.random(n), rng.random(n)),
    "one moment": lambda _, n: np.full(n, 0.25),
    "beginning": lambda rng, n: rng.random(n) ** 20,
    "end": lambda rng, n: np.minimum(1.0 - rng.random(n) ** 20, np.nextafter(1.0, 0.0)),
    "falling": lambda _, n: 0.999 - 0.99 * np.linspace(0.0, 1.0, n),
}


@pytest.mark.parametrize("with_points", [False, True], ids=["times", "points"])
@pytest.mark.parametrize("name", SPREADS)
def test_polls_are_sorted_and_ties_keep_their_order(name, with_points):
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 3, 100, 4097, 70_000, 200_000):
        given_times = 5.0 + 2.0 * SPREADS[name](rng, n)
        order = np.argsort(given_times, kind="stable")
        times, elements = given_times.copy(), np.arange(n)
        points = np.arange(n) * 0.5 if with_points else np.empty(0)
        if not put_in_order(
            times, elements, points, 5.0, 7.0
        ):  # then ties are, and the rest is left to others
            again = np.argsort(times, kind="stable")
            times, elements, points = times[again], elements[again], points[again] if with_points else points
        assert_array_equal(elements, order)
        assert_array_equal(times, given_times[order])
        assert_array_equal(points, 0.5 * order if with_points else [])


@pytest.mark.parametrize("even", [False, True])
def test_a_hundred_thousand_polls_at_one_moment(even):
    n = 100_000
    polls = Schedule(np.ones(n), phases=np.full(n, 0.5), even=even).until(3.0)
    assert_array_equal(polls.elements, np.tile(np.arange(n), 3))
    if not even:
        assert_array_equal(polls.times, np.repeat([0.5, 1.5, 2.5], n))


# --- nothing to do, and mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"even": True}, {"order": "random"}], ids=str)
def test_nothing_to_poll(options):
    for nothing in (Schedule([], **options), Schedule([0.0, 0.0], **options)):
        assert nothing.rate == 0.0
        assert list(nothing) == []
        assert len(nothing.until(1e6)) == 0
        assert nothing.now == 1e6
        same(Schedule.resume(nothing.state()).until(2e6), nothing.until(2e6))
    grown = Schedule([], **options)
    grown.until(5.0)
    assert grown.add([1.0, 1.0]).tolist() == [0, 1]
    assert len(grown.until(25.0)) == pytest.approx(40, abs=2)
    grown.remove([0, 1])
    assert list(grown) == []


def test_what_is_polled_is_shown_but_cannot_be_changed_from_outside():
    frequencies = np.array([1.0, 2.0])
    schedule = Schedule(frequencies)
    frequencies[0] = 100.0
    assert schedule.frequencies.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="read-only"):
        schedule.frequencies[0] = 5.0
    wanted = np.array([3.0, 4.0])
    schedule.swap(wanted)
    wanted[0] = 100.0
    assert schedule.rate == 7.0
    phases = np.array([0.5, 0.0])
    schedule = Schedule([1.0, 1.0], phases=phases)
    phases[:] = 0.9
    assert schedule.until(1.0).times.tolist() == [0.0, 0.5]


def test_a_plan_is_taken_for_its_frequencies():
    best = plan([1.0, 2.0, 3.0], 4.0)
    assert_array_equal(Schedule(best).frequencies, best.frequencies)
    schedule = Schedule(np.zeros(3))
    schedule.swap(best)
    assert schedule.rate == pytest.approx(4.0)


CLOCK = Mornings()
MISTAKES = [
    (lambda: Schedule([1.0, -2.0]), "frequencies must be finite and >= 0; frequencies[1] is -2.0"),
    (lambda: Schedule([[1.0]]), "frequencies must be one-dimensional; it has shape (1, 1)"),
    (lambda: Schedule([1e308, 1e308]), "frequencies must have a finite sum; their largest is 1e+308"),
    (lambda: Schedule([1.0], order="fixd"), "order must be one of 'fixed', 'random'"),
    (lambda: Schedule([1.0], jitter=1.5), "jitter must be finite and >= 0 and <= 1; jitter is 1.5"),
    (lambda: Schedule([1.0], jitter=0.1, order="random"), "the order is 'random'"),
    (lambda: Schedule([1.0], even=1), "even must be True or False; even is 1"),
    (lambda: Schedule([1.0], even=True, windows=CLOCK), "leave one of them out"),
    (lambda: Schedule([1.0], seed=-1), "seed must be a whole number >= 0; seed is -1"),
    (lambda: Schedule([1.0], start=np.inf), "start must be finite; start is inf"),
    (lambda: Schedule([1.0], phases=[1.0]), "phases must be finite and >= 0 and < 1; phases[0] is 1.0"),
    (lambda: Schedule([1.0], phases=[0.1, 0.2]), "phases has shape (2,), frequencies (1,)"),
    (lambda: Schedule([1.0], phases=[0.1], order="random"), "phases are for fixed order"),
    (lambda: Schedule([1.0], windows=3), "windows must be a clock"),
    (lambda: Schedule([1.0], windows={"a": 3}, groups=["a"]), "windows['a'] must be a clock"),
    (lambda: Schedule([1.0], windows={"a": CLOCK}), "need groups, one label for each element"),
    (lambda: Schedule([1.0], windows=CLOCK, groups=["a"]), "a mapping from label to clock"),
    (lambda: Schedule([1.0], windows={"a": CLOCK}, groups=["a", "b"]), "groups has shape (2,)"),
    (lambda: Schedule([1.0]).until(-1.0), "end must not be before now, which is 0; end is -1"),
    (lambda: Schedule([1.0]).until(np.nan), "end must be finite; end is nan"),
    (lambda: Schedule([1.0]).until(1e30), "end must be nearer"),
    (lambda: Schedule([1.0], even=True).until(1e30), "end must be nearer"),
    (lambda: Schedule([1.0]).swap([1.0, 2.0]), "one for each of the 1 elements; there are 2"),
    (lambda: Schedule([1.0]).add([-1.0]), "frequencies must be finite and >= 0; frequencies[0] is -1.0"),
    (lambda: Schedule([1.0]).add([1.0], at_once=1), "at_once must be True or False; at_once is 1"),
    (lambda: Schedule([1.0]).add([1.0], groups=["a"]), "a mapping from label to clock"),
    *(
        (lambda bad=bad: Schedule([1.0, 1.0]).remove(bad), f"elements that are there; {shown} is none")
        for bad, shown in (
            (2, "2"), (-1, "-1"), ([0, 5], "5"), (0.0, "0.0"), ("a", "'a'"), (None, "None"), ([True], "True"),
        )
    ),
    (lambda: Schedule.resume({}), "state must be what Schedule.state returned; it has no 'frequency'"),
    (lambda: Schedule.resume({**Schedule([1.0]).state(), "even": True}, windows=CLOCK), "must be those"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_is_named(call, words):
    with pytest.raises(InvalidInput) as caught:
        call()
    assert words in str(caught.value)


def test_who_is_gone_cannot_be_polled_or_removed_again():
    schedule = Schedule([1.0, 1.0])
    schedule.remove(1)
    with pytest.raises(InvalidInput, match="element 1 was removed; it is 2"):
        schedule.swap([1.0, 2.0])
    with pytest.raises(InvalidInput, match="1 is none"):
        schedule.remove([1])
    schedule.swap([3.0, 0.0])
    assert set(schedule.until(5.0).elements.tolist()) == {0}


@pytest.mark.parametrize("name", sorted(Schedule([1.0]).state()))
def test_a_state_without_a_part_is_refused(name):
    state = Schedule([1.0], even=True).state()
    del state[name]
    with pytest.raises(InvalidInput, match=name):
        Schedule.resume(state)


@pytest.mark.parametrize("name", ["frequency", "since", "origin", "point", "count"])
def test_a_state_of_another_length_is_refused(name):
    state = Schedule([1.0, 2.0, 3.0]).state()
    for wrong in (state[name][:1], np.append(state[name], 1), state[name][None]):
        with pytest.raises(InvalidInput, match=r"what Schedule\.state returned"):
            Schedule.resume({**state, name: wrong})


def test_windows_must_be_those_of_the_state():
    grouped = Schedule([1.0], windows={"am": CLOCK}, groups=["am"]).state()
    for windows in (None, CLOCK):
        with pytest.raises(InvalidInput, match="windows must be those of the schedule"):
            Schedule.resume(grouped, windows=windows)


def test_a_mistake_changes_nothing():
    schedule, plain = Schedule([1.0, 2.0], even=True), Schedule([1.0, 2.0], even=True)
    same(schedule.until(3.3), plain.until(3.3))
    for call in (
        lambda: schedule.until(1.0),
        lambda: schedule.swap([1.0]),
        lambda: schedule.add([np.nan]),
        lambda: schedule.remove([0, 7]),
    ):
        with pytest.raises(InvalidInput):
            call()
    same(schedule.until(9.0), plain.until(9.0))


# --- size ---------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("order", ORDERS)
def test_ten_million_elements_start_in_seconds_and_give_many_polls_per_second(order):
    frequencies = np.random.default_rng(1).gamma(1.0, size=10_000_000)
    Schedule(frequencies[:1000], order=order).until(10.0)  # compiled by now
    begin = perf_counter()
    schedule = Schedule(frequencies, order=order)
    started = perf_counter() - begin
    seen, begin = 0, perf_counter()
    for k in range(1, 5):
        seen += len(schedule.until(0.5 * k))
    per_second = seen / (perf_counter() - begin)
    assert seen == pytest.approx(2.0 * frequencies.sum(), rel=1e-2)
    assert started < 100.0  # ten times what they take at most on a usual machine
    assert per_second > 1e5


def test_polls_that_crowd_are_put_in_order():
    phases = np.random.default_rng(1).random(100_000) * 1e-6
    polls = Schedule(np.ones(phases.size), phases=phases).until(1.0)
    assert_array_equal(polls.elements, np.argsort(phases, kind="stable"))
    assert_array_equal(polls.times, np.sort(phases))
