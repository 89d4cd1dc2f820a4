"""The evaluator that follows events, against plain Python that looks at each moment on its own."""

from dataclasses import dataclass
from itertools import chain, pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from unstale import InvalidInput, SourcePenalty, UpdatePenalty, World, currency, penalties
from unstale.simulation.compiled.tracking import (
    ACCESSES,
    AGE,
    CHANGES,
    COST,
    FAILED,
    FOUND,
    FRESH,
    FRESH_ACCESSES,
    HARMONIC,
    MEASURES,
    MISSED,
    POLLS,
)
from unstale.simulation.events import Events
from unstale.simulation.outcome import Outcome, error_of_mean
from unstale.simulation.poll_execution import Visits
from unstale.simulation.tracking import Tracker

END = 12.0
PENALTIES = [
    penalties.named("log(1+x)"),
    penalties.named("1/(1+x)"),
    penalties.power(0.5),
    penalties.power(2.0),
    penalties.decay(1.3),
    penalties.beyond(0.7),
]
OBJECTIVES = [
    *(SourcePenalty(w) for w in PENALTIES),
    *(UpdatePenalty(w) for w in PENALTIES),
    UpdatePenalty("x"),
]


@dataclass(frozen=True)
class Story:
    """What happens to one element: changes, polls as (start, end, success), and requests."""

    changes: list
    polls: list
    requests: list


# --- by hand ------------------------------------------------------------------------------------------------


def seen(story, t):
    """When the copy that is there at time t was read: polls replace it when they are done."""
    return max((start for start, done, ok in story.polls if ok and done <= t), default=-1.0)


def missed(story, t):
    """Changes up to time t that the copy lacks."""
    read = seen(story, t)
    return [c for c in story.changes if read < c <= t]


def integrals(story, begin, end):
    """Add up all costs from one moment to another, between moments at which something happens."""
    moments = {begin, end, *story.changes, *(done for _, done, _ in story.polls)}
    moments = sorted(t for t in moments if begin <= t <= end)
    total = {"fresh": 0.0, "age": 0.0, "missed": 0.0, "harmonic": 0.0}
    copies, updates = [(0.0, 0.0)], [(0.0, 0.0)]  # lags at both ends of each stretch
    for a, b in pairwise(moments):
        lacking = missed(story, a)
        if not lacking:
            total["fresh"] += b - a
            continue
        total["age"] += ((b - lacking[0]) ** 2 - (a - lacking[0]) ** 2) / 2.0
        total["missed"] += len(lacking) * (b - a)
        total["harmonic"] += sum(1.0 / k for k in range(1, len(lacking) + 1)) * (b - a)
        copies.append((a - lacking[0], b - lacking[0]))
        updates += [(a - c, b - c) for c in lacking]
    costs = []
    for objective in OBJECTIVES:
        low, high = np.array(copies if isinstance(objective, SourcePenalty) else updates).T
        costs.append(float(np.sum(objective.penalty.once(high) - objective.penalty.once(low))))
    return {**total, "costs": np.array(costs)}


def counts(story, begin, end):
    asked = [r for r in story.requests if begin <= r < end]
    polls, found, before = [], 0, -1.0
    for start, done, ok in story.polls:
        if begin <= start < end:
            polls.append((start, done, ok))
            found += ok and any(before < c <= start for c in story.changes)
        before = start if ok else before
    return {
        "changes": sum(begin <= c < end for c in story.changes),
        "polls": len(polls),
        "failed": sum(not ok for _, _, ok in polls),
        "found": found,
        "accesses": len(asked),
        "fresh accesses": sum(not missed(story, r) for r in asked),
    }


def beyond(story, begin, end, lag):
    """Time for which the copy is further behind than so much."""
    moments = {begin, end, *story.changes, *(c + lag for c in story.changes), *(d for _, d, _ in story.polls)}
    moments = sorted(t for t in moments if begin <= t <= end)
    time = 0.0
    for a, b in pairwise(moments):
        lacking = missed(story, a)
        time += (b - a) if lacking and 0.5 * (a + b) - lacking[0] > lag else 0.0
    return time


# --- by the library -----------------------------------------------------------------------------------------


def part(stories, begin, end):
    """What happens in a span, as the simulator hands it over."""

    def offsets(columns):
        return np.concatenate([[0], np.cumsum([len(column) for column in columns])]).astype(np.int64)

    changes = [[c for c in story.changes if begin <= c < end] for story in stories]
    requests = [[r for r in story.requests if begin <= r < end] for story in stories]
    polls = [[poll for poll in story.polls if begin <= poll[0] < end] for story in stories]
    flat = [poll for own in polls for poll in own]
    start, done = (np.array([poll[k] for poll in flat], float) for k in (0, 1))
    return (
        Events(offsets(changes), np.array(list(chain(*changes)), float)),
        Visits(offsets(polls), start, done, np.array([poll[2] for poll in flat], bool)),
        Events(offsets(requests), np.array(list(chain(*requests)), float)),
    )


def tracked(stories, *, world=None, burn=0.0, batches=(END,), cuts=(), objectives=OBJECTIVES):
    tracker = Tracker(world or World(np.ones(len(stories))), END, objectives)
    start = 0.0
    for end in sorted({burn, *batches, *(c for c in cuts if 0.0 < c < END)}):
        if end > start:
            changes, visits, requests = part(stories, start, end)
            tracker.follow(start, end, changes, visits, requests)
        if end == burn:
            tracker.burn()
        elif end in batches:
            tracker.close()
        start = end
    return tracker


moments = st.one_of(st.integers(0, 47).map(lambda k: 0.25 * k), st.floats(0.0, 11.99))
lengths = st.one_of(st.just(0.0), st.sampled_from([0.25, 0.5, 3.0]), st.floats(0.0, 4.0))


@st.composite
def stories(draw, at_once=False):
    """Changes, polls and requests that often fall on the same moment."""
    polls, free = [], 0.0
    for wait, length, ok in draw(st.lists(st.tuples(lengths, lengths, st.booleans()), max_size=8)):
        start = free + wait
        free = start + (0.0 if at_once else length)
        if start < END:
            polls.append((start, free, ok or at_once))
    changes = draw(st.lists(moments, max_size=12, unique=True))
    return Story(sorted(changes), polls, sorted(draw(st.lists(moments, max_size=6))))


several = st.lists(stories(), min_size=1, max_size=3)
pieces = st.lists(st.one_of(st.integers(0, 24).map(lambda k: 0.5 * k), st.floats(0.01, 11.9)), max_size=6)


def check(tracker, those, begin, *, sizes=1.0, change_sizes=0.0):
    for i, story in enumerate(those):
        row, by_hand, n = tracker.sums[i], integrals(story, begin, END), counts(story, begin, END)
        size, more = np.broadcast_to(sizes, len(those))[i], np.broadcast_to(change_sizes, len(those))[i]
        expected = {
            FRESH: by_hand["fresh"],
            AGE: by_hand["age"],
            MISSED: by_hand["missed"],
            HARMONIC: by_hand["harmonic"],
            CHANGES: n["changes"],
            POLLS: n["polls"],
            FAILED: n["failed"],
            FOUND: n["found"],
            COST: size * n["polls"] + more * n["found"],
            ACCESSES: n["accesses"],
            FRESH_ACCESSES: n["fresh accesses"],
        }
        assert_allclose(row[list(expected)], list(expected.values()), rtol=1e-9, atol=1e-9)
        assert_allclose(row[MEASURES:], by_hand["costs"], rtol=1e-9, atol=1e-9)


# --- the two agree ------------------------------------------------------------------------------------------


@given(several, pieces)
def test_all_measures_are_those_of_plain_python(those, cuts):
    check(tracked(those, cuts=cuts), those, 0.0)


@given(several, pieces, st.sampled_from([0.25, 3.0, 7.7]))
def test_nothing_before_the_end_of_the_burn_in_is_measured(those, cuts, burn):
    check(tracked(those, burn=burn, cuts=cuts), those, burn)


@given(several, st.data())
def test_sizes_and_more_if_a_change_is_found(those, data):
    n = len(those)
    numbers = st.lists(st.floats(0.1, 9.0), min_size=n, max_size=n)
    sizes, more = data.draw(numbers), data.draw(numbers)
    world = World(np.ones(n), sizes=sizes, change_sizes=more)
    check(tracked(those, world=world, cuts=(3.0,)), those, 0.0, sizes=sizes, change_sizes=more)


@given(several, pieces)
def test_pieces_of_time_do_not_matter(those, cuts):
    whole, cut = tracked(those), tracked(those, cuts=cuts)
    assert_allclose(cut.sums, whole.sums, rtol=1e-10, atol=1e-10)
    counted = slice(CHANGES, MEASURES)
    assert_array_equal(cut.sums[:, counted], whole.sums[:, counted])
    assert cut.longest == pytest.approx(whole.longest, abs=1e-12)


@given(st.lists(stories(at_once=True), min_size=1, max_size=3))
def test_polls_that_take_no_time(those):
    check(tracked(those), those, 0.0)


@given(several, st.lists(st.floats(0.5, 9.0), min_size=3, max_size=3))
def test_totals_are_means_by_weight_and_counts_by_number(those, weights):
    world = World(np.ones(len(those)), weights=weights[: len(those)])
    tracker = tracked(those, world=world, burn=2.0, batches=(4.0, 7.0, END))
    outcome = Outcome("any", world, tracker, None)
    by_hand = [integrals(story, 2.0, END) for story in those]
    share = world.weight / world.weight.sum() / 10.0

    def mean(name):
        return float(share @ [total[name] for total in by_hand])

    assert outcome.duration == pytest.approx(10.0)
    assert outcome.freshness == pytest.approx(mean("fresh"), abs=1e-9)
    assert outcome.age == pytest.approx(mean("age"), abs=1e-9)
    assert outcome.missed_updates == pytest.approx(mean("missed"), abs=1e-9)
    assert outcome.cost("harmonic") == pytest.approx(mean("harmonic"), abs=1e-9)
    assert outcome.cost("freshness") == pytest.approx(1.0 - mean("fresh"), abs=1e-9)
    for k, objective in enumerate(OBJECTIVES):
        expected = float(share @ [total["costs"][k] for total in by_hand])
        assert outcome.cost(objective) == pytest.approx(expected, abs=1e-9)
    n = [counts(story, 2.0, END) for story in those]
    for name in ("changes", "polls", "failed", "found", "accesses"):
        assert getattr(outcome, name) == sum(own[name] for own in n)
    asked, fresh = (sum(own[name] for own in n) for name in ("accesses", "fresh accesses"))
    assert outcome.perceived_freshness == pytest.approx(fresh / asked if asked else np.nan, nan_ok=True)
    assert outcome.spent == pytest.approx(sum(own["polls"] for own in n) / 10.0)
    lengths, fresh = outcome.freshness_over_time
    assert lengths.tolist() == pytest.approx([2.0, 3.0, 5.0])
    in_batches = [
        float(world.weight @ [integrals(s, a, b)["fresh"] for s in those]) / world.weight.sum() / (b - a)
        for a, b in ((2.0, 4.0), (4.0, 7.0), (7.0, END))
    ]
    assert_allclose(fresh, in_batches, atol=1e-9)
    assert_allclose(outcome.elements.freshness, [total["fresh"] / 10.0 for total in by_hand], atol=1e-9)
    assert_allclose(outcome.elements.age, [total["age"] / 10.0 for total in by_hand], atol=1e-9)
    assert outcome.elements.polls.tolist() == [own["polls"] for own in n]


# --- lags ---------------------------------------------------------------------------------------------------


@given(several, pieces, st.lists(st.floats(0.5, 9.0), min_size=3, max_size=3), st.sampled_from([0.0, 3.0]))
def test_the_distribution_of_lags(those, cuts, weights, burn):
    """Exact at the edges of the bins, and between its neighbours elsewhere."""
    world = World(np.ones(len(those)), weights=weights[: len(those)])
    tracker = tracked(those, world=world, cuts=cuts, burn=burn)
    edges, time = tracker.lags()
    some = np.arange(edges.size)[::9]
    for k in some:
        by_hand = float(world.weight @ [beyond(story, burn, END, edges[k]) for story in those])
        assert time[k] == pytest.approx(by_hand, abs=1e-7)
    outcome = Outcome("any", world, tracker, None)
    whole = world.weight.sum() * (END - burn)
    assert outcome.within(0.0) == pytest.approx(outcome.freshness)
    within = outcome.within(edges)
    assert np.all(np.diff(within) >= -1e-9)
    assert_allclose(1.0 - within, time / whole, atol=1e-9)
    assert outcome.within(END) == pytest.approx(1.0)


@given(several, st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5))
def test_quantiles_of_the_lag(those, shares):
    tracker = tracked(those)
    outcome = Outcome("any", World(np.ones(len(those))), tracker, None)
    lag = outcome.lag(np.sort(shares))
    assert np.all(np.diff(lag) >= 0)
    assert np.all(lag <= tracker.longest)
    for share, behind in zip(np.sort(shares), lag, strict=True):
        assert outcome.within(behind) >= share - 1e-6
        if share <= outcome.freshness:
            assert behind == 0.0
        else:  # no lag much shorter will do: bins are a quarter of an octave wide
            assert float(outcome.within(0.8 * behind)) <= share + 1e-6
    longest = max((t - missed(s, t)[0] for s in those for t in ends(s) if missed(s, t)), default=0.0)
    assert outcome.lag(1.0) == pytest.approx(longest, abs=1e-6)


def ends(story):
    """Just before each moment at which a lag may end."""
    return [np.nextafter(t, -inf) for t in (END, *(done for _, done, _ in story.polls)) if t <= END]


# --- cases worth a look -------------------------------------------------------------------------------------


def measures(story, **options):
    return tracked([story], **options).sums[0]


def test_a_poll_reads_when_it_starts_and_replaces_when_it_ends():
    row = measures(Story([1.0, 3.0], [(2.0, 5.0, True)], [1.5, 2.5, 4.0, 5.0, 6.0]))
    assert row[FRESH] == 1.0  # until the first change; what came while polling is still missing afterwards
    assert row[MISSED] == pytest.approx(2.0 + 2.0 * 2.0 + 7.0)
    assert row[AGE] == pytest.approx(0.5 * 4.0**2 + 0.5 * (9.0**2 - 2.0**2))
    assert (row[FOUND], row[POLLS], row[ACCESSES], row[FRESH_ACCESSES]) == (1, 1, 5, 0)


def test_a_poll_that_fails_sees_nothing():
    row = measures(Story([1.0], [(2.0, 3.0, False), (6.0, 6.0, True)], []))
    assert (row[FRESH], row[FAILED], row[FOUND], row[POLLS]) == (7.0, 1, 1, 2)
    assert row[AGE] == pytest.approx(0.5 * 5.0**2)


def test_a_poll_at_the_moment_of_a_change_sees_it():
    row = measures(Story([2.0], [(2.0, 2.0, True)], [2.0]))
    assert (row[FRESH], row[FOUND], row[FRESH_ACCESSES]) == (END, 1, 1)


def test_a_poll_that_begins_in_one_span_and_ends_in_another_loses_nothing():
    story = Story([0.1, 0.3], [(0.2, 2.5, True)], [])
    whole, cut = measures(story), measures(story, cuts=(1.0, 2.0, 3.0))
    assert_allclose(cut, whole, rtol=1e-12)


def test_a_poll_that_is_not_done_by_the_end_costs_but_does_not_help():
    row = measures(Story([1.0], [(2.0, 100.0, True)], []))
    assert (row[FRESH], row[POLLS], row[FOUND]) == (1.0, 1, 1)


def test_lags_of_the_burn_in_are_forgotten():
    story = Story([0.5, 8.0], [(5.0, 5.0, True), (9.0, 9.0, True)], [])
    outcome = Outcome("any", World([1.0]), tracked([story], burn=6.0), None)
    assert outcome.lag(1.0) == pytest.approx(1.0)
    assert outcome.within(1.0) == pytest.approx(1.0)
    going_on = Outcome("any", World([1.0]), tracked([story], burn=2.0), None)
    assert going_on.lag(1.0) == pytest.approx(4.5)  # its beginning was before


def test_never_polled():
    row = measures(Story([2.0, 5.0], [], []))
    assert (row[FRESH], row[AGE], row[MISSED], row[HARMONIC]) == (2.0, 50.0, 17.0, 3.0 + 1.5 * 7.0)


def test_a_great_many_missed_changes():
    """Harmonic numbers beyond the table."""
    times = np.linspace(0.0, 1.0, 1000, endpoint=False)
    row = measures(Story(times.tolist(), [], []))
    exact = np.cumsum(1.0 / np.arange(1.0, 1001.0))
    assert row[HARMONIC] == pytest.approx(exact[:-1].sum() / 1000.0 + 11.001 * exact[-1], rel=1e-12)


def test_any_penalty_can_be_followed():
    custom = penalties.custom(lambda x: np.sqrt(x) * (x > 0.5), kinks=[0.5])
    objectives = [SourcePenalty(custom), UpdatePenalty(custom)]
    story = Story([0.5, 1.5, 6.0], [(3.0, 4.0, True), (9.0, 9.5, True)], [])
    row = measures(story, objectives=objectives, cuts=(2.0, 3.5, 7.7))[MEASURES:]

    def once(x):
        return max(x**1.5 - 0.5**1.5, 0.0) * 2.0 / 3.0

    assert row[0] == pytest.approx(once(3.5) + once(3.5), rel=1e-7)
    assert row[1] == pytest.approx(once(3.5) + once(2.5) + once(3.5), rel=1e-7)


def test_thresholds_that_are_freshness():
    story = Story([0.5, 1.5, 6.0], [(3.0, 4.0, True)], [])
    row = measures(story, objectives=[currency(0.0), currency(1.0)], cuts=(2.0,))
    assert row[MEASURES] == pytest.approx(END - row[FRESH])
    assert row[MEASURES + 1] == pytest.approx(2.5 + 5.0)


def test_what_was_not_asked_for_is_not_known():
    tracker = tracked([Story([1.0], [], [])], objectives=[SourcePenalty("log(1+x)")])
    assert tracker.column(SourcePenalty("log(1+x)")) == MEASURES
    for one, column in (
        ("freshness", FRESH),
        ("age", AGE),
        ("missed-updates", MISSED),
        ("harmonic", HARMONIC),
    ):
        assert tracker.column(one) == column
    with pytest.raises(InvalidInput, match="was not given to simulate"):
        tracker.column(SourcePenalty("1/(1+x)"))


def test_an_objective_that_is_no_penalty_cannot_be_followed():
    class Strange:
        name = "strange"
        kernel = None
        cost = accrued = worth = slope = staticmethod(lambda *_: 0.0)

    with pytest.raises(InvalidInput, match="objectives that can be followed"):
        Tracker(World([1.0]), 1.0, [Strange()])


# --- standard errors ----------------------------------------------------------------------------------------


def test_the_error_of_independent_batches():
    rng = np.random.default_rng(1)
    means, errors = [], []
    for _ in range(400):
        values = rng.standard_normal(32)
        means.append(values.mean())
        errors.append(error_of_mean(values))
    assert np.std(means) == pytest.approx(1.0 / np.sqrt(32), rel=0.1)
    assert 0.95 / np.sqrt(32) < np.sqrt(np.mean(np.square(errors))) < 1.35 / np.sqrt(32)


def test_the_error_of_batches_of_unequal_length():
    rng = np.random.default_rng(2)
    lengths = np.array([1.0, 4.0, 2.0, 9.0, 1.0, 3.0] * 5)
    scores = []
    for _ in range(400):
        values = rng.standard_normal(30) / np.sqrt(lengths)
        scores.append((values @ lengths / lengths.sum()) / error_of_mean(values, lengths))
    assert 0.7 < np.std(scores) < 1.15


def test_the_error_sees_through_batches_that_are_alike():
    rng = np.random.default_rng(3)
    scores, plain = [], []
    for _ in range(400):
        noise = rng.standard_normal(33)
        values = noise[1:] + noise[:-1]  # neighbours have correlation 1/2
        scores.append(values.mean() / error_of_mean(values))
        plain.append(values.mean() / (values.std(ddof=1) / np.sqrt(32)))
    assert np.std(scores) < 1.2 < np.std(plain)


def test_errors_at_the_ends():
    assert error_of_mean(np.array([1.0, 1.0, 1.0])) == 0.0
    assert np.isnan(error_of_mean(np.array([1.0])))
    assert error_of_mean(np.array([0.0, 2.0])) == pytest.approx(1.0)
