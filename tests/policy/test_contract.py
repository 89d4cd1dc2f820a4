"""What every policy and every learner keeps: one suite over all of them.

1. The unit of time does not matter.
2. Neither does the order in which it is told what polls of different elements saw.
3. What was learned goes on from a file, poll for poll.
4. No policy beats the plan that knows the rates; and those that choose for freshness are never worse than
   uniform polling. (Proportional polling, rules of tools and guesses that are taken for certain may be: that
   is what they are compared for.)
"""

import io

import numpy as np
import pytest

from unstale import GammaPrior, Learner, Learning, Weibull, plan, simulate
from unstale.simulation import NAMES, RULES
from unstale.simulation.policy_lookup import PAPERS

FOR_FRESHNESS = ("optimal", "random-optimal", "edf", "index", "learning")
"""Policies that choose polls for freshness, by the rates or by what is known of them."""
OTHERS = (
    "uniform", "proportional", "square-root", "estimated-optimal", "estimated-proportional", *PAPERS, *RULES
)  # fmt: skip
"""Policies that go by something else; the estimated ones take the likeliest rates for certain."""
CHANCE = 3.0
"""Standard errors that a paired comparison may be off."""
WORLDS = {
    "alike": np.full(200, 0.7),
    "gamma": np.random.default_rng(1).gamma(0.5, 2.0, 200),
    "lognormal": np.random.default_rng(2).lognormal(0.0, 2.0, 200),
    "bursts": Weibull(0.5, np.random.default_rng(3).gamma(1.0, 2.0, 200) + 0.1),
}


def test_every_policy_is_in_the_contract():
    assert sorted((*FOR_FRESHNESS, *OTHERS)) == sorted(NAMES)


# --- policies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_unit_of_time_does_not_matter(name):
    """Rules are told the unit, and others need none; a power of 2 changes no rounding."""
    rates = WORLDS["gamma"][:20]
    unit, scale = ("hour", 24.0) if name in RULES else ("day", 1024.0)
    one = simulate(rates, 20.0, policies=[name], horizon=30.0, seed=3)[name]
    other = simulate(rates / scale, 20.0 / scale, policies=[name], horizon=30.0 * scale, seed=3, unit=unit)[
        name
    ]
    assert other.polls == one.polls
    assert other.freshness == pytest.approx(one.freshness, rel=1e-6)
    assert other.age == pytest.approx(scale * one.age, rel=1e-6)
    assert other.spent == pytest.approx(one.spent / scale, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_none_beats_the_plan_that_knows_the_rates(name):
    rates = WORLDS["gamma"]
    found = simulate(rates, 200.0, policies=[name], horizon=40.0, burn_in=10.0, seed=1)[name]
    best = plan(rates, found.polls / 30.0).freshness
    assert found.freshness <= best + CHANCE * found.freshness_error + 1e-3


@pytest.mark.parametrize(
    "world", [pytest.param(one, marks=pytest.mark.long) if one == "gamma" else one for one in WORLDS]
)
def test_those_for_freshness_are_never_worse_than_uniform(world):
    """Where there is nothing to gain, learning costs a little: two copies in a thousand."""
    rates = WORLDS[world]
    names = [name for name in FOR_FRESHNESS if world != "bursts" or name == "learning"]
    result = simulate(rates, 200.0, policies=["uniform", *names], horizon=40.0, burn_in=15.0, seed=2)
    for name in names:
        lead, error = result.ahead(name, "uniform")
        assert lead > -0.002 - CHANCE * error, name


# --- learners -----------------------------------------------------------------------------------------------


def polled(learning, rates, steps, rng):
    """Poll for some steps; return the polls and what they saw."""
    told = []
    last = np.full(rates.size, learning.now)
    for _ in range(steps):
        polls = learning.polls(learning.now + learning.step)
        elapsed = np.empty(len(polls))
        for at, (time, element) in enumerate(zip(polls.times, polls.elements, strict=True)):
            elapsed[at], last[element] = time - last[element], time
        changed = rng.random(len(polls)) < -np.expm1(-rates[polls.elements] * elapsed)
        learning.learn(polls.elements, elapsed, changed)
        told.append((polls, elapsed, changed))
    return told


@pytest.mark.parametrize("options", [{}, {"half_life": 30.0}, {"classes": np.arange(40) % 3}], ids=str)
def test_the_order_of_elements_does_not_matter(options):
    """Nor, for those who are told of one poll of each, whose is told first."""
    rng = np.random.default_rng(5)
    one, other = (Learning(40, 40.0, seed=1, **options) for _ in range(2))
    for polls, elapsed, changed in polled(one, WORLDS["gamma"][:40], 150, rng):
        mine = other.polls(other.now + other.step)
        assert (mine.elements == polls.elements).all()
        shuffled = np.argsort(rng.random(40)[polls.elements], kind="stable")  # polls of one stay in order
        other.learn(polls.elements[shuffled], elapsed[shuffled], changed[shuffled])
    assert other.learner.law(1.0).rate == pytest.approx(one.learner.law(1.0).rate, rel=1e-6)


def through_a_file(state):
    file = io.BytesIO()
    np.savez(file, **state)
    file.seek(0)
    return np.load(file)


@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic", "missed-updates"])
def test_a_policy_goes_on_from_a_file_poll_for_poll(objective):
    rng = np.random.default_rng(4)
    learning = Learning(60, 30.0, objective=objective, sizes=rng.uniform(0.5, 2.0, 60), seed=5)
    polled(learning, rng.gamma(0.5, 2.0, 60), 600, rng)
    again = Learning.resume(through_a_file(learning.state()), objective=objective)
    for _ in range(5):
        one, other = learning.polls(learning.now + 1.0), again.polls(again.now + 1.0)
        assert (one.elements == other.elements).all()
        assert (one.times == other.times).all()
        for part in (learning, again):
            part.learn(one.elements, np.ones(len(one)), np.arange(len(one)) % 2 == 0)


@pytest.mark.parametrize(
    "options",
    [
        lambda _: {},
        lambda unit: {"half_life": 5.0 * unit},
        lambda unit: {"half_life": 5.0 * unit, "prior": GammaPrior(0.5, 2.0 / unit)},
    ],
    ids=["nothing given", "half-life", "half-life and prior"],
)
@pytest.mark.parametrize("unit", [1.0, 1024.0])
def test_a_learner_goes_on_from_a_file_in_any_unit(options, unit):
    rng = np.random.default_rng(6)
    one, other = Learner(30, round=1.0, **options(1.0)), Learner(30, round=unit, **options(unit))
    for turn in range(40):
        elapsed, changed = rng.random(30), rng.random(30) < 0.4
        one.learn(np.arange(30), elapsed, changed)
        other.learn(np.arange(30), unit * elapsed, changed)
        if turn == 20:
            other = Learner.resume(through_a_file(other.state()))
    assert unit * other.law(unit).rate == pytest.approx(one.law(1.0).rate, rel=1e-6)
