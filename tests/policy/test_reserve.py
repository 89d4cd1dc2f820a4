"""A budget with a reserve: what it may spend at most, and that it is spent where that is worth most.

The laws: no window of any length spends more than its budget and the reserve; no minute has more polls than
``max_rate`` allows; going on from a state gives no more; nothing is lost while there is something to poll.
"""

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import Learning, World, simulate
from unstale.policy import RateLimits
from unstale.policy.reserve_price import SET_POINT, ReservePrice
from unstale.simulation import LearningAtPlay

GRACE = 0.5
SEEDS = st.integers(0, 2**32)


def random_of(seed):
    return Random(seed)  # noqa: S311


def assign(limits, sizes, now, end, **options):
    return limits.assign(
        np.zeros(len(sizes), int), np.array(sizes, float), now=now, end=end, room=999, **options
    )


def played(limits, random, *, ticks=60, tick=7.0, most=80, size=lambda: 1.0, restarts=False):
    """Give slots tick by tick, with idle times between; return when polls start, and their sizes."""
    now, starts, sizes = 1e6, [], []
    for _ in range(ticks):
        wanted = [size() for _ in range(random.randrange(most))]
        slots = assign(limits, wanted, now, now + tick)
        starts += [
            start + random.random() * late for start, late in zip(slots.start, slots.late, strict=True)
        ]
        sizes += [wanted[which] for which in slots.which]
        limits.hand_out([])
        if restarts and random.random() < 0.3:
            limits = RateLimits.resume(limits.state())
        now += tick + random.choice([0.0, 0.0, 0.0, 5.0, 100.0, 3000.0])
    return np.array(starts), np.array(sizes)


def most_in(starts, amounts, window):
    """Return the most that is spent in any window of a length."""
    order = np.argsort(starts)
    times, total = starts[order], np.concatenate([[0.0], np.cumsum(amounts[order])])
    ends = np.searchsorted(times, times + window, "left")
    return np.max(total[ends] - total[np.arange(times.size)], initial=0.0)


@given(st.floats(0.01, 5.0), st.floats(0.0, 5000.0), st.booleans(), SEEDS)
def test_no_window_spends_more_than_its_budget_and_the_reserve(budget, reserve, restarts, seed):
    random = random_of(seed)
    limits = RateLimits(budget, grace=GRACE, reserve=reserve, max_rate=20.0)
    starts, polls = played(limits, random, restarts=restarts)
    for window in (60.0, 61.7, 300.0, 3600.0, 86400.0):
        assert most_in(starts, polls, window) <= math.ceil(budget * (window + reserve) + 1e-6)


@given(st.floats(10.0, 1e4), st.floats(0.0, 5000.0), SEEDS)
def test_bytes_have_a_reserve_as_polls_have(byte_budget, reserve, seed):
    """The last poll of a window may take more than was left: that much is paid for before the next."""
    random = random_of(seed)
    limits = RateLimits(None, byte_budget, grace=GRACE, reserve=reserve)
    starts, sizes = played(limits, random, size=lambda: 10.0 ** random.uniform(1.0, 4.0))
    for window in (60.0, 300.0, 3600.0):
        most = byte_budget * (window + reserve) + sizes.max(initial=0.0)
        assert most_in(starts, sizes, window) <= most * (1.0 + 1e-9)


@given(st.floats(0.1, 10.0), SEEDS)
def test_no_minute_has_more_polls_than_the_highest_rate(max_rate, seed):
    limits = RateLimits(5.0, grace=GRACE, reserve=1e5, max_rate=max_rate)
    starts, polls = played(limits, random_of(seed))
    assert most_in(starts, polls, 60.0) <= math.ceil(60.0 * max_rate + 1e-6)
    assert starts.size > 10


@given(
    st.one_of(st.none(), st.floats(0.1, 5.0)),
    st.one_of(st.none(), st.floats(1.0, 50.0)),
    st.floats(0.0, 30.0),
    st.lists(st.floats(0.1, 10.0), min_size=1, max_size=40),
    st.floats(0.0, 1.0),
)
def test_slots_in_a_row_from_the_reserve_are_those_one_by_one(budget, byte_budget, reserve, sizes, apart):
    quick, slow = (RateLimits(budget, byte_budget, reserve=reserve, max_rate=7.0) for _ in range(2))
    for limits in (quick, slow):
        limits.paid = limits.paid_bytes = 80.0
    one = quick._in_a_row(np.zeros(len(sizes), int), np.array(sizes), 100.0, 130.0, 99, apart)
    other = slow._one_by_one(np.zeros(len(sizes), int), np.array(sizes), 100.0, 130.0, 99, apart)
    assert one.which.tolist() == other.which.tolist()
    assert one.start == pytest.approx(other.start)
    assert [quick.paid, quick.paid_bytes, quick.paced] == pytest.approx(
        [slow.paid, slow.paid_bytes, slow.paced]
    )


@given(st.floats(0.1, 10.0), SEEDS)
def test_without_a_reserve_each_slot_is_a_step_after_the_one_before(budget, seed):
    """As it was before there were reserves, to the last bit."""
    random = random_of(seed)
    limits, paid, now = RateLimits(budget, grace=GRACE), -math.inf, 1e6
    step = 1.0 / budget * (1.0 + GRACE / 60.0)
    for _ in range(20):
        end, wanted = now + 7.0, random.randrange(40)
        expected = max(now, paid) + np.concatenate([[0.0], np.cumsum(np.full(max(wanted, 1), step))])[:wanted]
        expected = expected[expected < end]
        assert assign(limits, [1.0] * wanted, now, end).start.tolist() == expected.tolist()
        paid = float(expected[-1]) + step if expected.size else paid
        limits.hand_out([])
        now = end + random.choice([0.0, 30.0])


def test_a_new_budget_has_its_reserve_and_spends_it_at_once():
    limits = RateLimits(budget=1000 / 86400, reserve=86400.0)
    assert assign(limits, [1.0] * 60, 0.0, 5.0).start.tolist() == [0.0] * 60
    assert limits.left(5.0, 5.0) / 86400.0 == pytest.approx(0.94, abs=1e-3)


@pytest.mark.parametrize("after", [0.1, 1.0, 10.0])
def test_another_budget_keeps_the_polls_in_reserve(after):
    limits = RateLimits(budget=1.0, reserve=100.0)
    assign(limits, [1.0] * 40, 0.0, 1e-9)
    limits.change_budget(0.0, after, None)
    assert len(assign(limits, [1.0] * 200, 0.0, 1e-9).start) == pytest.approx(min(60, 100 * after), abs=1)


@pytest.mark.parametrize(("budget", "byte_budget"), [(2.0, None), (None, 2.0)])
def test_what_was_not_made_is_given_back_to_the_reserve(budget, byte_budget):
    limits = RateLimits(budget, byte_budget, reserve=50.0)
    assign(limits, [1.0] * 20, 0.0, 10.0)
    before = limits.paid, limits.paid_bytes
    slots = assign(limits, [1.0] * 30, 0.0, 10.0)
    limits.give_back(np.zeros(slots.start.size, int), np.ones(slots.start.size), slots.start)
    assert (limits.paid, limits.paid_bytes) == pytest.approx(before)


def test_what_an_older_version_kept_of_limits_has_no_reserve():
    state = RateLimits(budget=2.0).state()
    again = RateLimits.resume({**state, "own": state["own"][:7]})
    assert (again.budget, again.reserve, again.max_rate) == (2.0, 0.0, None)


# --- the price ----------------------------------------------------------------------------------------------


@given(st.floats(1e-3, 1e3), st.floats(0.0, 0.999), st.floats(0.0, 0.999))
def test_the_fuller_the_reserve_the_lower_the_price(base, one, other):
    price = ReservePrice(base)
    low, high = sorted([one, other])
    assert price.at(low) >= price.at(high) > 0.0
    assert price.at(SET_POINT) == pytest.approx(base)


def changes_of(rates, days, seed):
    rng = np.random.default_rng(seed)
    return [np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) for rate in rates]


def world_of(times, days):
    elements = np.repeat(np.arange(len(times)), [one.size for one in times])
    return World.recorded(elements, np.concatenate(times), end=days, count=len(times))


class Watched(LearningAtPlay):
    """Learning, hinted at when a list says so; the level of its reserve is noted."""

    def __init__(self, learning, hints=()):
        super().__init__(learning)
        self.learning, self.hints, self.levels = learning, list(hints), []

    def polls(self, end):
        while self.hints and self.hints[0][0] <= self.learning.now:
            self.learning.hint(self.hints.pop(0)[1], "feed")
        limits, now = self.learning.policy.limits, self.learning.now
        self.levels.append(limits.left(now, now) / limits.reserve if limits.reserve else math.nan)
        return super().polls(end)


def outcomes(times, days, budget, *, reserves, hints=(), seed=1, objective="freshness"):
    made = {
        reserve: Watched(
            Learning(
                len(times),
                budget,
                reserve=reserve,
                in_reserve=SET_POINT,
                seed=seed,
                objective=objective,
                steps=20.0,
            ),
            hints,
        )
        for reserve in reserves
    }
    found = simulate(
        world_of(times, days), budget, policies={str(name): one for name, one in made.items()},
        burn_in=days / 3, seed=seed, objective=objective,
    )  # fmt: skip
    return made, {reserve: found[str(reserve)] for reserve in reserves}


@pytest.mark.parametrize("reserve", [0.3, 1.0, 5.0])
def test_the_whole_budget_is_spent_and_the_level_stays_near_the_set_point(reserve):
    rates = np.random.default_rng(3).gamma(0.8, 1.5, 40)
    made, found = outcomes(changes_of(rates, 60.0, 4), 60.0, 30.0, reserves=[reserve])
    kept = (made[reserve].levels[-1] - SET_POINT) * reserve
    assert found[reserve].polls + kept * 30.0 >= 0.99 * 30.0 * 40.0
    late = np.array(made[reserve].levels[len(made[reserve].levels) // 3 :])
    assert np.mean(late) == pytest.approx(SET_POINT, abs=0.1)
    assert np.mean((late > 0.05) & (late < 0.95)) > 0.95


def mass_edits(days, budget, count, seed):
    """Once a week 60 % of the elements change within minutes, and a feed says which."""
    rng = np.random.default_rng(seed)
    times = changes_of(rng.gamma(0.7, 1.0, count), days, seed + 1)
    hints = []
    for start in np.arange(3.0, days - 1.0, 7.0):
        for element in np.flatnonzero(rng.random(count) < 0.6).tolist():
            moment = start + rng.uniform(0.0, 0.02)
            times[element] = np.sort(np.append(times[element], moment))
            hints.append((moment + 0.001, element))
    _, found = outcomes(times, days, budget, reserves=[0.0, 2.0], hints=sorted(hints))
    return found


def test_mass_edits_that_are_told_are_followed_from_the_reserve():
    found = [mass_edits(60.0, 20.0, 40, seed) for seed in (5, 7)]
    gains = [one[2.0].freshness - one[0.0].freshness for one in found]
    assert np.mean(gains) > 0.005
    assert sum(one[2.0].polls for one in found) <= 1.01 * sum(one[0.0].polls for one in found)


@pytest.mark.long
@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_where_nothing_bursts_a_reserve_costs_nothing(objective):
    gains = []
    for seed in range(1, 9):
        rates = np.random.default_rng(seed).gamma(0.7, 1.4, 60)
        _, found = outcomes(
            changes_of(rates, 60.0, seed), 60.0, 60.0, reserves=[0.0, 1.0], seed=seed, objective=objective
        )
        gains.append(found[1.0].freshness - found[0.0].freshness)
    assert np.mean(gains) > -2.0 * np.std(gains, ddof=1) / np.sqrt(len(gains)) - 0.001


@given(st.integers(0, 2**16))
@settings(max_examples=5)
def test_learning_with_a_reserve_goes_on_where_it_stopped(seed):
    learning = Learning(20, 10.0, reserve=2.0, max_rate=50.0, seed=seed)
    rng = np.random.default_rng(seed)
    for day in range(1, 20):
        polls = learning.polls(0.4 * day)
        learning.learn(polls.elements, np.full(len(polls), 0.5), rng.random(len(polls)) < 0.4)
    again = Learning.resume(learning.state())
    one, other = learning.polls(10.0), again.polls(10.0)
    assert one.elements.tolist() == other.elements.tolist()
    assert one.times.tolist() == other.times.tolist()
