"""Rhythm: exposure is exact, rates are found from changes and from polls, and moments are the best."""

from itertools import combinations

import numpy as np
import pytest
from example_counts import percent
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.estimation import best_moments, rhythm_of_changes, rhythm_of_polls
from unstale.estimation.laws.rhythm import _exposure

DAY = np.array([0.2, 1.8, 1.4, 0.6])


def changes_of(rng, relative, days, count):
    """Draw changes with these relative rates, in days."""
    place = rng.choice(relative.size, size=count, p=relative / relative.sum())
    return np.sort(rng.integers(0, days, size=count) + (place + rng.random(count)) / relative.size)


def missed(rates, times, steps=4000):
    """Count by sums over a fine grid how much change waits how long, if polls come at these moments."""
    clock = (np.arange(steps) + 0.5) / steps
    rate = np.asarray(rates)[(clock * len(rates)).astype(int)]
    moments = np.sort(np.asarray(times) % 1.0)
    following = np.append(moments, moments[0] + 1.0)[np.searchsorted(moments, clock)]
    return float((rate * (following - clock)).mean())


@settings(max_examples=percent(60))
@given(
    st.floats(-1e3, 1e3),
    st.floats(0.01, 30.0),
    st.sampled_from([1.0, 7.0, 0.3]),
    st.integers(2, 30),
)
def test_exposure_is_the_time_spent_in_each_bin(start, length, period, bins):
    found = rhythm_of_changes([], period=period, bins=bins, start=start, end=start + length)
    assert found.exposure.sum() == pytest.approx(length)
    width = period / bins
    edges = np.arange(np.floor(start / width) - 1, np.ceil((start + length) / width) + 2) * width
    inside = np.clip(edges[1:], start, start + length) - np.clip(edges[:-1], start, start + length)
    place = np.round(edges[:-1] / width).astype(int) % bins
    assert found.exposure == pytest.approx(np.bincount(place, inside, bins), abs=1e-8)
    one = _exposure(np.array([start]), np.array([start + length]), period, bins)[0]
    assert one == pytest.approx(found.exposure, abs=1e-8)


def test_rates_take_account_of_exposure():
    """Eight days from a Monday: Monday is seen twice."""
    times = [0.5, 7.5, 3.5]
    found = rhythm_of_changes(times, period=7.0, bins=7, start=0.0, end=8.0)
    assert found.exposure.tolist() == pytest.approx([2, 1, 1, 1, 1, 1, 1])
    assert found.rates.tolist() == pytest.approx([1, 0, 0, 1, 0, 0, 0])
    assert found.relative.mean() == pytest.approx(1.0)


def test_what_was_never_seen_is_not_known():
    found = rhythm_of_changes([0.1], period=1.0, bins=4, start=0.0, end=0.5)
    assert np.isnan(found.rates).tolist() == [False, False, True, True]
    assert found.relative.tolist() == pytest.approx([2.0, 0.0, 1.0, 1.0])
    assert found.edges.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_elements_come_with_spans_of_their_own():
    found = rhythm_of_changes([0.1, 1.6], period=1.0, bins=2, start=[0.0, 1.0], end=[1.0, 3.0])
    assert found.exposure.tolist() == pytest.approx([1.5, 1.5])


def test_rates_are_found_from_changes():
    rng = np.random.default_rng(1)
    found = rhythm_of_changes(changes_of(rng, DAY, 300, 6000), period=1.0, bins=4, start=0.0, end=300.0)
    assert found.relative == pytest.approx(DAY, abs=0.08)
    assert np.mean(found.rates) == pytest.approx(20.0)
    assert found.has_rhythm()
    assert found.changes == 6000


@pytest.mark.parametrize("burst", [1, 6])
def test_the_test_of_changes_keeps_its_level_in_bursts_too(burst):
    rng = np.random.default_rng(burst)
    p = []
    for _ in range(300):
        times = np.repeat(rng.uniform(0.0, 40.3, size=300 // burst), burst)
        times = np.minimum(times + rng.exponential(0.01, size=times.size) * (burst > 1), 40.3)
        p.append(rhythm_of_changes(times, period=1.0, bins=12, start=0.0, end=40.3).test.p_value)
    assert 0.01 < np.mean(np.array(p) < 0.05) < 0.09


def test_smoothing_keeps_changes_and_evens_them_out():
    rng = np.random.default_rng(2)
    times = changes_of(rng, DAY, 100, 500)
    plain, smooth = (
        rhythm_of_changes(times, period=1.0, bins=24, start=0.0, end=100.0, smooth=s) for s in (0.0, 2.0)
    )
    assert np.abs(np.diff(smooth.rates)).max() < np.abs(np.diff(plain.rates)).max() / 3
    assert smooth.rates.mean() == pytest.approx(plain.rates.mean())
    assert smooth.test == plain.test
    flat = rhythm_of_changes(times, period=1.0, bins=24, start=0.0, end=100.0, smooth=1e4)
    assert flat.relative == pytest.approx(np.ones(24))


@pytest.mark.parametrize("interval", [0.15, 0.3])
def test_rates_are_found_from_polls(interval):
    rng = np.random.default_rng(3)
    changes = changes_of(rng, DAY, 2000, 5000)
    polls = np.cumsum(rng.exponential(interval, size=int(1900 / interval)))
    seen = np.diff(np.searchsorted(changes, polls)) > 0
    found = rhythm_of_polls(polls[1:], np.diff(polls), seen, period=1.0, bins=4, smooth=0.0)
    assert found.relative == pytest.approx(DAY, abs=0.25)
    assert np.nanmean(found.rates) == pytest.approx(2.5, rel=0.06)
    assert found.has_rhythm()


def test_the_rhythm_of_polls_is_shared_by_elements_of_any_rate():
    rng = np.random.default_rng(4)
    columns = []
    for number, count in enumerate((300, 1000, 3000)):
        changes = changes_of(rng, DAY, 600, count)
        polls = np.cumsum(rng.exponential(0.3, size=1900))
        columns.append(
            (polls[1:], np.diff(polls), np.diff(np.searchsorted(changes, polls)) > 0, np.full(1899, number))
        )
    times, elapsed, seen, elements = (np.concatenate(part) for part in zip(*columns, strict=True))
    found = rhythm_of_polls(times, elapsed, seen, elements, period=1.0, bins=4, smooth=0.0)
    assert found.relative == pytest.approx(DAY, abs=0.3)
    moved = rng.permutation(times.size)
    moved = moved[np.argsort(times[moved], kind="stable")]
    other = rhythm_of_polls(
        times[moved], elapsed[moved], seen[moved], elements[moved], period=1.0, bins=4, smooth=0.0
    )
    assert other.relative == pytest.approx(found.relative)


def test_the_test_of_polls_keeps_its_level():
    rng = np.random.default_rng(5)
    p = []
    for _ in range(200):
        polls = np.cumsum(rng.exponential(0.4, size=150))
        seen = np.diff(np.searchsorted(np.cumsum(rng.exponential(0.5, size=300)), polls)) > 0
        p.append(rhythm_of_polls(polls[1:], np.diff(polls), seen, period=1.0, bins=6).test.p_value)
    assert 0.01 < np.mean(np.array(p) < 0.05) < 0.1


@pytest.mark.parametrize("seen", [0.0, 1.0])
def test_polls_that_all_saw_the_same_have_no_rhythm(seen):
    found = rhythm_of_polls(np.arange(1.0, 30.0), np.ones(29), np.full(29, seen), period=7.0, bins=7)
    assert not found.has_rhythm()
    assert np.isfinite(found.rates).all()
    assert found.relative.mean() == pytest.approx(1.0)


@given(st.integers(-20, 20))
def test_the_unit_of_time_does_not_matter(power):
    unit = 2.0**power
    rng = np.random.default_rng(6)
    times = changes_of(rng, DAY, 30, 100)
    one = rhythm_of_changes(times, period=1.0, bins=8, start=0.0, end=30.0)
    other = rhythm_of_changes(times * unit, period=unit, bins=8, start=0.0, end=30.0 * unit)
    assert other.relative == pytest.approx(one.relative, rel=1e-12)
    assert other.rates * unit == pytest.approx(one.rates, rel=1e-12)
    polls = np.arange(1.0, 30.0, 0.3)
    seen = np.diff(np.searchsorted(times, polls)) > 0
    a = rhythm_of_polls(polls[1:], np.diff(polls), seen, period=1.0, bins=8)
    b = rhythm_of_polls(polls[1:] * unit, np.diff(polls * unit), seen, period=unit, bins=8)
    assert b.relative == pytest.approx(a.relative, rel=1e-9)
    assert b.test.statistic == pytest.approx(a.test.statistic, rel=1e-6)


rate_lists = st.lists(st.floats(0.0, 10.0) | st.sampled_from([0.0, 1.0, 5.0]), min_size=1, max_size=6)


@settings(max_examples=percent(40))
@given(rate_lists, st.integers(1, 3))
def test_no_moments_are_better(rates, polls):
    assume(max(rates) > 1e-3)
    found = best_moments(rates, polls)
    assert found.shape == (polls,)
    assert ((found >= 0) & (found <= 1)).all()
    size = len(rates) * {1: 20, 2: 12, 3: 4}[polls]
    best = min(missed(rates, np.array(one) / size) for one in combinations(range(size), polls))
    assert missed(rates, found) <= best + 2e-3 * max(rates)


@settings(max_examples=percent(12))
@given(rate_lists, st.integers(2, 30))
@example([1.0, 2.225073858507e-311], 2)
def test_moments_satisfy_the_condition(rates, polls):
    assume(max(rates) > 1e-3)
    rates = np.array(rates) / max(rates)
    found = best_moments(rates, polls)
    before, after = np.append(found[-1] - 1.0, found[:-1]), np.append(found[1:], found[0] + 1.0)
    bins = rates.size
    edges = np.arange(-bins, 2 * bins + 1) / bins
    total = np.concatenate([[0.0], np.cumsum(np.tile(rates, 3)) / bins])
    caught = np.interp(found, edges, total) - np.interp(before, edges, total)
    shift = 1e-7  # the rate just before and just after
    early, late = (rates[np.floor((found + s) * bins).astype(int) % bins] for s in (-shift, shift))
    assert (caught - early * (after - found) <= 1e-6).all()
    assert (caught - late * (after - found) >= -1e-6).all()


def test_moments_of_a_constant_rate_are_even():
    for polls in (1, 2, 5, 30):
        gaps = np.diff(best_moments([3.0, 3.0, 3.0], polls, period=7.0))
        assert gaps == pytest.approx(np.full(polls - 1, 7.0 / polls))


def test_many_moments_are_as_dense_as_the_root_of_the_rate():
    for polls in (100, 250):
        found = best_moments([1.0, 9.0], polls)
        assert (found > 0.5).mean() == pytest.approx(0.75, abs=0.02)


BAD = [
    (best_moments, {"rates": [1.0, 2.0], "polls": 10**6}, "polls must be at most"),
    (
        rhythm_of_polls,
        {"times": [1.0, 2.0], "elapsed": [1.0, 1.0], "changed": [1, 0], "period": 1.0, "bins": 10**9},
        "bins must be fewer",
    ),
    (
        rhythm_of_changes,
        {"times": [1.0], "period": 0.0, "bins": 2, "start": 0.0, "end": 2.0},
        "period must be",
    ),
    (rhythm_of_changes, {"times": [1.0], "period": 1.0, "bins": 1, "start": 0.0, "end": 2.0}, "bins must be"),
    (
        rhythm_of_changes,
        {"times": [3.0], "period": 1.0, "bins": 2, "start": 0.0, "end": 2.0},
        r"times\[0\] is 3",
    ),
    (
        rhythm_of_changes,
        {"times": [], "period": 1.0, "bins": 2, "start": 2.0, "end": 2.0},
        "start must be before",
    ),
    (
        rhythm_of_changes,
        {"times": [], "period": 1.0, "bins": 2, "start": [0, 1], "end": 2.0},
        "start and end must be",
    ),
    (rhythm_of_changes, {"times": [], "period": 1e-9, "bins": 2, "start": 0.0, "end": 2.0}, "too many"),
    (
        rhythm_of_changes,
        {"times": [], "period": 1.0, "bins": 2, "start": 0.0, "end": 2.0, "smooth": -1.0},
        "smooth must be",
    ),
    (
        rhythm_of_changes,
        {"times": [np.nan], "period": 1.0, "bins": 2, "start": 0.0, "end": 2.0},
        r"times\[0\]",
    ),
    (
        rhythm_of_polls,
        {"times": [], "elapsed": [], "changed": [], "period": 1.0, "bins": 2},
        "elapsed must not be",
    ),
    (
        rhythm_of_polls,
        {"times": [1.0], "elapsed": [0.0], "changed": [1], "period": 1.0, "bins": 2},
        "elapsed must",
    ),
    (
        rhythm_of_polls,
        {"times": [1.0], "elapsed": [1.0, 1.0], "changed": [1, 0], "period": 1.0, "bins": 2},
        "times",
    ),
    (
        rhythm_of_polls,
        {"times": [1.0], "elapsed": [1.0], "changed": [2], "period": 1.0, "bins": 2},
        "changed must",
    ),
    (
        rhythm_of_polls,
        {"times": [1.0], "elapsed": [1.0], "changed": [1], "period": np.inf, "bins": 2},
        "period",
    ),
    (best_moments, {"rates": [], "polls": 1}, "rates must not be empty"),
    (best_moments, {"rates": [0.0], "polls": 1}, "rates must not all be 0"),
    (best_moments, {"rates": [-1.0], "polls": 1}, r"rates\[0\] is -1"),
    (best_moments, {"rates": [1.0], "polls": 0}, "polls must be a whole number >= 1"),
    (best_moments, {"rates": [1.0], "polls": 2, "period": 0.0}, "period must be"),
]


@pytest.mark.parametrize(("function", "arguments", "words"), BAD)
def test_what_cannot_be_used_is_named(function, arguments, words):
    with pytest.raises(InvalidInput, match=words):
        function(**arguments)


def test_a_level_must_be_one():
    with pytest.raises(InvalidInput, match="level must be"):
        rhythm_of_changes([], period=1.0, bins=2, start=0.0, end=1.0).has_rhythm(2.0)
