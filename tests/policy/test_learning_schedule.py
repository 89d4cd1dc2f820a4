"""The schedule that learns: budget, order, growth, and that it goes on where it stopped."""

import doctest
from pathlib import Path

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import Windows, worth
from unstale.errors import InvalidInput
from unstale.policy import Learning


def play(learning: Learning, rates: np.ndarray, end: float, rng: np.random.Generator) -> np.ndarray:
    """Poll elements with Poisson changes until a moment; return how often each was polled."""
    last = np.full(rates.size, learning.now)
    counts = np.zeros(rates.size, np.int64)
    while learning.now < end:
        polls = learning.polls(min(learning.now + learning.step, end))
        elapsed, changed = np.empty(len(polls)), np.empty(len(polls), np.bool_)
        for j, (time, i) in enumerate(zip(polls.times, polls.elements, strict=True)):
            elapsed[j] = time - last[i]
            changed[j] = rng.random() < -np.expm1(-rates[i] * elapsed[j])
            last[i] = time
            counts[i] += 1
        learning.learn(polls.elements, elapsed, changed)
    return counts


@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic", "missed-updates"])
def test_worths_are_those_of_the_law(objective: str) -> None:
    """What the policy makes of weights, sizes and what was learned is the worth of the library."""
    rng = np.random.default_rng(0)
    learning = Learning(
        50, 25.0, weights=rng.random(50), sizes=rng.uniform(0.5, 2.0, 50), objective=objective
    )
    play(learning, rng.gamma(0.5, 2.0, 50), 30.0, rng)
    since, policy = 10.0 ** rng.uniform(-3, 2, 50), learning.policy
    law, hope = learning.learner.outlook(since)
    expected = hope * learning.weights / policy.table["size"] * worth(objective, law, since)
    assert policy.known.worths(np.arange(50), since) == pytest.approx(expected, rel=1e-9)


@settings(max_examples=percent(40))
@given(
    n=st.integers(1, 30),
    budget=st.floats(0.1, 50.0),
    seed=st.integers(0, 100),
    equal=st.booleans(),
    cuts=st.lists(st.floats(0.01, 3.0), min_size=1, max_size=6),
)
def test_the_budget_is_spent_and_never_exceeded(
    n: int, budget: float, seed: int, equal: bool, cuts: list[float]
) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.ones(n) if equal else rng.uniform(0.2, 5.0, n)
    learning = Learning(n, budget, sizes=sizes, weights=rng.random(n) + 0.1, seed=seed)
    spent = 0.0
    for cut in cuts:
        start = learning.now
        polls = learning.polls(start + cut * learning.step)
        assert (np.diff(polls.times) >= 0).all()
        assert (polls.times >= start).all()
        assert (polls.times < learning.now).all()
        for time, element in zip(polls.times, polls.elements, strict=True):
            assert spent <= budget * time + 1e-9 * (1.0 + spent)  # a poll waits until the last is paid
            spent += sizes[element]
        learning.learn(polls.elements, np.full(len(polls), 0.1), rng.random(len(polls)) < 0.5)
    assert spent >= budget * learning.now - 1e-9
    assert spent <= budget * learning.now + sizes.max() + 1e-9


def test_at_first_everything_is_polled_once() -> None:
    learning = Learning(200, 100.0)
    polls = learning.polls(1.999)
    assert sorted(polls.elements) == list(range(200))


def test_slow_ones_and_hopeless_ones_get_less() -> None:
    rates = np.repeat([0.02, 1.0, 40.0], 100)
    learning = Learning(300, 150.0, steps=10, seed=1)
    play(learning, rates, 60.0, np.random.default_rng(0))
    counts = play(learning, rates, 200.0, np.random.default_rng(1)).reshape(3, -1).mean(axis=1) / 140.0
    slow, middle, fast = counts
    assert middle > 3.0 * slow
    assert middle > 1.5 * fast  # of which is known only that it changes between any two polls
    assert slow > 0.1


def test_what_seems_not_worth_a_poll_is_polled_at_last() -> None:
    learning = Learning(50, 50.0, weights=np.r_[1e-9, np.ones(49)], steps=10, seed=2)
    counts = play(learning, np.ones(50), 160.0, np.random.default_rng(0))
    assert 1 <= counts[0] <= 4
    learning = Learning(50, 50.0, weights=np.r_[0.0, np.ones(49)], steps=10, seed=2)
    assert play(learning, np.ones(50), 160.0, np.random.default_rng(0))[0] == 0


def test_giving_up_has_a_limit() -> None:
    """One in twenty changes all the time: a poll is worth nothing, and it gets one in about 5 rounds."""
    learning = Learning(100, 100.0, steps=10, seed=2)
    for _ in range(400):
        learning.learn(np.arange(5), np.full(5, 0.01), np.ones(5, np.bool_))
    counts = play(learning, np.r_[np.full(5, 1e4), np.full(95, 0.3)], 100.0, np.random.default_rng(0))
    assert (counts[:5] >= 100.0 / 6.0).all()
    assert (counts[:5] <= 100.0 / 4.0).all()


def test_cheap_polls_are_preferred() -> None:
    sizes = np.tile([1.0, 9.0], 100)
    learning = Learning(200, 300.0, sizes=sizes, seed=1)
    counts = play(learning, np.full(200, 1.0), 60.0, np.random.default_rng(0))
    assert counts[sizes == 1.0].mean() > 2.0 * counts[sizes == 9.0].mean()


@pytest.mark.parametrize("cut", [1e-3, 1e3])
def test_it_learns_on_after_another_budget(cut: float) -> None:
    learning = Learning(100, 100.0, seed=1)
    rates = np.random.default_rng(2).gamma(0.5, 2.0, 100)
    play(learning, rates, 10.0, np.random.default_rng(0))
    learning.budget = 100.0 * cut
    play(learning, rates, 10.0 + 10.0 / cut, np.random.default_rng(1))
    assert learning.learner.round == pytest.approx(1.0 / cut)
    assert np.isfinite(learning.learner.law(0.0).rate).all()


def test_without_a_budget_at_first_the_unit_of_time_does_not_matter() -> None:
    for unit in (1e-6, 1e6):
        learning = Learning(10, 0.0)
        learning.polls(unit)
        learning.budget = 10.0 / unit
        assert learning.learner.round == pytest.approx(unit)
        assert len(learning.polls(3.0 * unit)) == pytest.approx(20, abs=1)


def test_one_that_matters_gets_many_polls_in_a_step_far_apart() -> None:
    learning = Learning(1000, 1000.0, weights=np.r_[1e6, np.full(999, 1e-3)], seed=1)
    play(learning, np.ones(1000), 2.0, np.random.default_rng(0))
    polls = learning.polls(learning.now + learning.step)
    mine = polls.times[polls.elements == 0]
    assert mine.size >= 5
    assert np.diff(mine).max() < 2.5 * learning.step / mine.size


def test_a_new_budget_counts_from_now_on() -> None:
    learning = Learning(100, 100.0)
    assert len(learning.polls(10.0)) == pytest.approx(1000, abs=2)
    learning.budget = 10.0
    assert len(learning.polls(20.0)) == pytest.approx(100, abs=2)
    learning.budget = 0.0
    assert len(learning.polls(30.0)) == 0
    learning.budget = 1000.0
    assert len(learning.polls(31.0)) == pytest.approx(1000, abs=2)


def test_what_was_chosen_before_a_new_budget_is_reconsidered() -> None:
    learning = Learning(1000, 1.0, seed=1)  # a step is 20 units of time
    before = learning.polls(0.1)
    learning.budget = 1000.0
    polls = learning.polls(1.1)
    assert len(before) == 1
    assert len(polls) == pytest.approx(1000, abs=3)
    assert (np.diff(polls.times) >= 0).all()
    learning.budget = 0.0
    learning.budget = 10.0
    assert len(learning.polls(11.1)) == pytest.approx(100, abs=2)
    assert len(set(polls.elements.tolist())) > 900


def test_new_weights_count_at_once() -> None:
    learning = Learning(100, 100.0, seed=2)
    learning.polls(3.005)
    learning.weights = np.r_[np.zeros(50), np.ones(50)]
    polls = learning.polls(5.0)
    assert polls.elements.min() >= 50
    assert len(polls) == pytest.approx(200, abs=3)
    assert learning.weights.sum() == 50.0


def test_new_elements_are_polled_early() -> None:
    learning = Learning(100, 100.0, seed=3)
    rng = np.random.default_rng(0)
    play(learning, np.ones(100), 10.0, rng)
    learning.add(20)
    polls = learning.polls(learning.now + 0.6)
    assert set(range(100, 120)) <= set(polls.elements.tolist())


def test_not_looking_at_everything_changes_little() -> None:
    """Elements that cannot reach the price yet are not looked at; that must not cost polls that count."""
    rng = np.random.default_rng(6)
    rates = rng.gamma(0.5, 2.0, 400)
    one, other = Learning(400, 400.0, seed=1), Learning(400, 400.0, seed=1)
    table = other.policy.table
    table.due = lambda *_: np.arange(400)  # type: ignore[method-assign]
    counts = [play(each, rates, 30.0, np.random.default_rng(0)) for each in (one, other)]
    order = np.argsort(rates)
    shares = [part[order].reshape(8, 50).sum(axis=1) / part.sum() for part in counts]
    assert shares[0] == pytest.approx(shares[1], abs=0.015)


DAYTIME = Windows.every(1.0, 0.375, 0.7083).clock()  # from nine to five

BAD = [
    (lambda: Learning(0, 1.0), "n must be"),
    (lambda: Learning(2, -1.0), "budget must be"),
    (lambda: Learning(2, 1.0, weights=[1.0]), "weights must be"),
    (lambda: Learning(2, 1.0, sizes=[1.0, 0.0]), "sizes must be"),
    (lambda: Learning(2, 1.0, objective="fresh"), "objective"),
    (lambda: Learning(2, 1.0, half_life=0.0), "half_life must be"),
    (lambda: Learning(2, 1.0, classes=[1]), "classes must be"),
    (lambda: Learning(2, 1.0).polls(-1.0), "end must not be before"),
    (lambda: Learning(2, 1.0).polls(np.nan), "end must be"),
    (lambda: Learning(2, 1.0).add(-1), "must be"),
    (lambda: setattr(Learning(2, 1.0), "budget", np.nan), "budget must be"),
    (lambda: setattr(Learning(2, 1.0), "budget", 1e300), "budget must buy"),
    (lambda: setattr(Learning(2, 1.0), "weights", [1.0]), "weights must be"),
    (lambda: Learning.resume({"now": 0.0}), "Learning.state"),
    (lambda: Learning.resume(None), "Learning.state"),  # type: ignore[arg-type]
    (lambda: Learning.resume({**Learning(2, 1.0).state(), "table_last": np.zeros(1)}), "'last' has shape"),
    (
        lambda: Learning.resume({**Learning(2, 1.0).state(), "limits_own": [-5.0, np.nan, 0, 0, 0, 0, 0]}),
        "budget",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_input_is_named(call: object, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()  # type: ignore[operator]


def test_the_page_that_explains_it() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "learning.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert tried > 5
    assert failed == 0
