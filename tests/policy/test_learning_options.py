"""What `Learning` is told of elements: sizes, groups, windows, hints, and how often they may be polled."""

import numpy as np
import pytest

from unstale import Windows
from unstale.policy import Learning

DAYTIME = Windows.every(1.0, 0.375, 0.7083).clock()  # from nine to five


def play(learning: Learning, days: float, rates: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poll until so much later; return (time, element) of all polls."""
    last = np.full(len(learning), learning.now)
    found, end = [], learning.now + days
    while learning.now < end:
        polls = learning.polls(min(learning.now + learning.step, end))
        elapsed = np.empty(len(polls))
        for k, (time, element) in enumerate(zip(polls.times, polls.elements, strict=True)):
            elapsed[k], last[element] = time - last[element], time
        learning.learn(
            polls.elements, elapsed, rng.random(len(polls)) < -np.expm1(-rates[polls.elements] * elapsed)
        )
        found += zip(polls.times.tolist(), polls.elements.tolist(), strict=True)
    return np.array(found).reshape(-1, 2)


@pytest.mark.parametrize("spread", [0.5, 2.0, 3.0])
def test_the_budget_is_spent_however_uneven_sizes_are(spread: float) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.lognormal(0.0, spread, 400)
    learning = Learning(400, float(sizes.sum()) / 4.0, sizes=sizes, seed=1)
    polls = play(learning, 12.0, rng.gamma(0.5, 2.0, 400), rng)
    spent = sizes[polls[:, 1].astype(int)].sum()
    assert spent == pytest.approx(learning.budget * 12.0, abs=sizes.max() + 1e-6)


def test_a_slow_group_starves_nobody() -> None:
    """Only so many of its elements are thought of as can have a slot."""
    rng = np.random.default_rng(2)
    groups = np.array(["slow"] * 1000 + ["free"] * 100)
    learning = Learning(1100, 100.0, groups=groups, limits={"slow": 1.0}, seed=1)
    polls = play(learning, 40.0, np.ones(1100), rng)
    slow = polls[polls[:, 1] < 1000, 0]
    assert len(polls) == pytest.approx(100.0 * 40.0, rel=0.02)
    assert 35 <= slow.size <= 41
    assert np.diff(slow).min() >= 1.0 - 1e-9


def test_limits_hold_when_polls_are_reconsidered() -> None:
    groups = np.array(["slow"] * 20 + ["free"] * 80)
    learning = Learning(100, 50.0, groups=groups, limits={"slow": 5.0}, seed=1)
    slow = []
    for k in range(400):
        polls = learning.polls(learning.now + 0.5 * learning.step)
        learning.learn(polls.elements, np.ones(len(polls)), np.ones(len(polls), bool))
        slow += polls.times[polls.elements < 20].tolist()
        learning.hint(20 + k % 80)
    assert len(slow) >= 0.8 * 5.0 * learning.now
    assert np.diff(slow).min() >= 0.2 - 1e-9


@pytest.mark.parametrize(("count", "budget"), [(50, 1.0), (1000, 10.0), (200, 100.0)])
def test_windows_are_kept_and_used(count: int, budget: float) -> None:
    """Whether a step is as long as a day, or longer, or shorter."""
    learning = Learning(count, budget, windows=DAYTIME, seed=1)
    polls = play(learning, 60.0, np.ones(count), np.random.default_rng(3))
    hour = polls[:, 0] % 1.0
    assert ((hour > 0.375 - 1e-6) & (hour < 0.7083 + 1e-6)).all()
    assert len(polls) > 0.3 * budget * 60.0
    learning.add(10)
    more = play(learning, 20.0, np.ones(count + 10), np.random.default_rng(4))[:, 0] % 1.0
    assert ((more > 0.375 - 1e-6) & (more < 0.7083 + 1e-6)).all()


def test_no_element_is_polled_sooner_than_it_may_be() -> None:
    weights = np.r_[1e6, np.ones(99)]
    learning = Learning(100, 100.0, weights=weights, min_interval=0.5, seed=1)
    polls = play(learning, 10.0, np.full(100, 5.0), np.random.default_rng(5))
    for element in range(100):
        mine = polls[polls[:, 1] == element, 0]
        assert mine.size < 2 or np.diff(mine).min() >= 0.5 - 0.03  # by the end of the step in which it is due


def test_max_age_is_kept() -> None:
    learning = Learning(100, 100.0, weights=np.r_[1e-9, np.ones(99)], max_age=3.0, seed=1)
    polls = play(learning, 30.0, np.ones(100), np.random.default_rng(6))
    assert np.diff(polls[polls[:, 1] == 0, 0]).max() < 3.2


def test_a_channel_that_never_errs_is_believed() -> None:
    """Every change is hinted at, and nothing else: it is learned, and one hint makes one poll."""
    rng = np.random.default_rng(7)
    learning = Learning(40, 20.0, seed=1)
    last, stale = np.zeros(40), np.zeros(40, bool)
    followed = []
    for _ in range(1500):
        for element in np.flatnonzero(rng.random(40) < 0.005).tolist():
            stale[element] = True
            learning.hint(element, "feed")
        polls = learning.polls(learning.now + learning.step)
        for time, element in zip(polls.times.tolist(), polls.elements.tolist(), strict=True):
            learning.learn([element], [time - last[element]], [bool(stale[element])])
            followed.append(bool(stale[element]))
            last[element], stale[element] = time, False
    feed = learning.policy.known.channels.channels[1]
    assert feed.polls > 100
    assert feed.recall > 0.8
    assert feed.factor < 0.2
    assert stale.mean() < 0.2


def test_hints_outlive_a_change_of_mind() -> None:
    learning = Learning(100, 10.0, seed=1)
    learning.polls(learning.step)
    made = set()
    for element in (3, 4, 5):
        learning.hint(element)
        made |= set(learning.polls(learning.now + 0.01 * learning.step).elements.tolist())  # chooses more
    learning.budget = 11.0
    assert len(made) < 3
    assert set(np.flatnonzero(learning.policy.table["hints"]).tolist()) == {3, 4, 5} - made


def test_a_budget_that_comes_and_goes_forgives_nothing() -> None:
    learning = Learning(10, 1.0)
    polls = 0
    for _ in range(100):
        polls += len(learning.polls(learning.now + 0.001))
        learning.budget = 0.0
        learning.budget = 1.0
    assert polls == 1


def test_first_copies_are_brought_before_anything_is_learned() -> None:
    learning = Learning(30, 30.0, copies=False)
    assert np.isnan(learning.policy.table["last"]).all()
    polls = learning.polls(2.1)  # they get half of the polls
    assert set(polls.elements.tolist()) == set(range(30))


def test_jitter_is_drawn_by_element_and_poll_wherever_the_element_stands() -> None:
    from unstale.policy.compiled.jitter import stretch

    rng = np.random.default_rng(4)
    ids, last = np.arange(5000), rng.uniform(0.0, 1e9, 5000)
    since, jitter = np.ones(5000), np.full(5000, 0.3, np.float32)

    def stretched(which: np.ndarray, last: np.ndarray) -> np.ndarray:
        found = np.empty(which.size)
        stretch(since[which], jitter[which], ids[which], last[which], found)
        return found

    factors = stretched(ids, last)
    shuffled = rng.permutation(5000)
    assert np.array_equal(stretched(shuffled, last), factors[shuffled])
    assert np.count_nonzero(stretched(ids, last + 1.0) == factors) == 0
    assert 1.0 / 1.3001 < factors.min() < 0.78
    assert 1.42 < factors.max() < 1.0 / 0.6999
    assert np.mean(1.0 / factors) == pytest.approx(1.0, abs=0.02)
