"""The learning policy at play: ahead of those that do not know either, and near the one that knows."""

import numpy as np
import pytest

from unstale import World, simulate
from unstale.lab.histories import load
from unstale.policy import Learning
from unstale.processes import Lognormal, Weibull
from unstale.simulation import RULES, Conditions, LearningAtPlay
from unstale.simulation.policies import Outcomes, Policy

MANY = 1000
ADAPTIVE = {
    "nutch": 730.0, "stormcrawler": 200.0, "news-crawl": 730.0, "heritrix": 200.0, "miniflux": 60.0,
    "commafeed": 40.0,
}  # fmt: skip
"""Rules, and days in which they settle and are measured."""


def rates_of(kind: str, seed: int, count: int = MANY) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.gamma(0.5, 2.0, count) if kind == "gamma" else rng.lognormal(-0.5, 1.0, count)


def choosing_seldom(count: int, budget: float, **options: float) -> LearningAtPlay:
    """The policy that chooses ten times a round, not fifty: it takes a fifth of the time."""
    return LearningAtPlay(Learning(count, budget, steps=10.0, seed=1, **options))


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("gamma", 1), ("lognormal", 2),
        *(pytest.param(*one, marks=pytest.mark.long) for one in (("lognormal", 1), ("gamma", 2))),
    ],
)  # fmt: skip
def test_ahead_of_those_that_do_not_know_and_near_the_one_that_does(kind: str, seed: int) -> None:
    others = ["uniform", "estimated-optimal", "estimated-proportional"]
    result = simulate(
        rates_of(kind, seed),
        MANY,
        policies=[*others, "learning", "optimal"],
        horizon=45.0,
        burn_in=15.0,
        seed=seed,
    )
    for name in others:
        lead, error = result.ahead("learning", name)
        assert lead > 3.0 * error, name
    gain = result["optimal"].freshness - result["uniform"].freshness
    assert result["learning"].freshness > result["uniform"].freshness + 0.4 * gain
    assert result["learning"].polls == pytest.approx(result["uniform"].polls, rel=2e-3)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    ("name", "days"),
    [  # the rule that polls by far the most takes by far the longest
        pytest.param(*one, marks=[pytest.mark.long] if one[0] == "commafeed" else [])
        for one in ADAPTIVE.items()
    ],
)
def test_ahead_of_every_rule_at_equal_polls(name: str, days: float) -> None:
    rates = np.random.default_rng(1).lognormal(np.log(0.22), 1.0, 500)
    rule = simulate(rates, 0.0, policies=[name], horizon=days, burn_in=days / 2, seed=1)[name]
    budget = rule.polls / (days / 2)
    policies = {"learning": choosing_seldom(500, budget)}
    learning = simulate(rates, budget, policies=policies, horizon=days, burn_in=days / 2, seed=1)["learning"]
    assert learning.polls <= rule.polls + 1
    assert learning.freshness > rule.freshness + 3.0 * np.hypot(
        learning.freshness_error, rule.freshness_error
    )


def test_every_adaptive_rule_is_among_them() -> None:
    assert set(RULES) - {"nutch-default", "miniflux-round-robin"} == set(ADAPTIVE)


def test_equal_elements_lose_next_to_nothing_to_uniform() -> None:
    for rate in (0.05, 1.0, 5.0):
        policies = {"uniform": "uniform", "learning": choosing_seldom(MANY, MANY)}
        result = simulate(np.full(MANY, rate), MANY, policies=policies, horizon=24.0, seed=3)
        lead, error = result.ahead("learning", "uniform")
        assert lead > -0.002 - 3.0 * error, rate


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "objective", ["age", "harmonic", pytest.param("missed-updates", marks=pytest.mark.long)]
)
def test_ahead_for_other_objectives(objective: str) -> None:
    policies, rates = ["uniform", "learning"], rates_of("gamma", 5, 600)
    result = simulate(
        rates, 600.0, policies=policies, objective=objective, horizon=40.0, burn_in=15.0, seed=5
    )
    assert result["learning"].cost(objective) < 0.95 * result["uniform"].cost(objective)


@pytest.mark.every(2)
@pytest.mark.parametrize("rate", [1e4, pytest.param(100.0, marks=pytest.mark.long)])
def test_a_home_page_with_the_time_of_day_on_it(rate: float) -> None:
    """What is wanted most and changes all the time must not eat the budget; what only changes often may."""
    rates = np.r_[rate, np.random.default_rng(3).lognormal(0.0, 1.5, 199)]
    result = simulate(
        rates, 200.0, policies=["uniform", "learning", "optimal"], horizon=60.0, seed=1,
        weights=np.r_[1000.0, np.ones(199)],
    )  # fmt: skip
    gain = result["optimal"].freshness - result["uniform"].freshness
    assert result["learning"].freshness > result["uniform"].freshness + 0.25 * gain


def test_weights_and_sizes_count() -> None:
    rng = np.random.default_rng(8)
    n = 600
    result = simulate(
        rng.gamma(0.5, 2.0, n), 600.0, policies=["uniform", "learning", "optimal"], horizon=60.0, burn_in=20,
        seed=2, weights=rng.pareto(1.5, n) + 0.01, sizes=rng.uniform(0.2, 3.0, n),
    )  # fmt: skip
    gain = result["optimal"].freshness - result["uniform"].freshness
    assert result["learning"].freshness > result["uniform"].freshness + 0.7 * gain
    assert result["learning"].spent == pytest.approx(result["uniform"].spent, rel=0.01)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "law", [Weibull(shape=0.4, scale=1.0), Lognormal(log_mean=0.0, log_sd=1.8)], ids=["weibull", "lognormal"]
)
def test_in_bursts_it_is_ahead_of_the_same_without_forgetting(law: Weibull | Lognormal) -> None:
    n = 800
    pace = np.random.default_rng(3).gamma(0.7, 1.0, n) + 0.01
    world = World(law.at_rate(pace))
    learners = {
        "learning": choosing_seldom(n, 0.5 * n), "constant": choosing_seldom(n, 0.5 * n, half_life=np.inf),
    }  # fmt: skip
    policies = {"uniform": "uniform"} | learners
    result = simulate(world, 0.5 * n, policies=policies, horizon=200.0, burn_in=60.0, seed=4)
    for name in ("uniform", "constant"):
        lead, error = result.ahead("learning", name)
        assert lead > 2.0 * error, name


class Turning:
    """A policy that is told of another budget half-way."""

    def __init__(self, learning: Learning, at: float, budget: float) -> None:
        self._learning, self._inner, self._at, self._budget = learning, LearningAtPlay(learning), at, budget

    @property
    def step(self) -> float:
        return self._inner.step

    def polls(self, end: float) -> object:
        if self._learning.now >= self._at:
            self._learning.budget = self._budget
        return self._inner.polls(end)

    def learn(self, outcomes: Outcomes) -> None:
        self._inner.learn(outcomes)


def daily_rush(n: int, days: int, rng: np.random.Generator) -> World:
    """Return a world in which most elements change twice each working day, all within the same two hours."""
    elements, times = [], []
    for day in range(days):
        for turn in range(2):
            share = (1.0 if day % 7 < 5 else 0.3) * np.where(np.arange(n) % 2 == turn, 1.0, 0.3)
            who = np.flatnonzero(rng.random(n) < share)
            elements.append(who)
            times.append(day + 0.55 + 0.04 * turn + 0.03 * rng.random(who.size))
    return World.recorded(np.concatenate(elements), np.concatenate(times), end=float(days), count=n)


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_where_nearly_every_poll_sees_a_change_the_prior_does_not_run_off(seed: int) -> None:
    """There are four changes of an element in a round, most of them at the same hours."""
    world = daily_rush(150, 60, np.random.default_rng(seed))
    budget = 0.25 * float(world.mean_rates.sum())
    learning = Learning(150, budget, seed=seed)
    policies = {"uniform": "uniform", "learning": LearningAtPlay(learning)}
    found = simulate(world, budget, policies=policies, burn_in=20.0, seed=seed)
    assert 2.0 < float(learning.learner.prior.rate[0]) * learning.policy.round < 6.0  # it was 7 to 9
    assert found["learning"].age < 1.05 * found["uniform"].age  # elements were given up: it was 1.12 to 1.13
    assert found["learning"].freshness > found["uniform"].freshness - 0.003


def test_it_follows_another_budget() -> None:
    rates = rates_of("gamma", 4, 500)
    turning: Policy = Turning(Learning(500, 500.0, seed=1), 15.0, 1500.0)  # type: ignore[assignment]
    result = simulate(
        rates, 500.0, policies={"turning": turning}, horizon=30.0, burn_in=0.0, batches=6, seed=4
    )
    before = result["turning"].freshness_over_time[1][:3]
    after = result["turning"].freshness_over_time[1][3:]
    assert result["turning"].polls == pytest.approx(500 * 15 + 1500 * 15, rel=0.01)
    assert after.min() > before.max() + 0.05


def test_it_notices_when_elements_change_places() -> None:
    """Half-way, slow elements become fast ones and fast ones slow."""
    rng = np.random.default_rng(9)
    n, half = 800, 60.0
    rates = rng.gamma(0.4, 2.5, n)
    halves = ((0.0, rates), (half, rates[::-1]))
    parts = [
        (k, start + half * rng.random(rng.poisson(rate * half)))
        for start, order in halves
        for k, rate in enumerate(order)
    ]
    elements = np.concatenate([np.full(times.size, k) for k, times in parts])
    times = np.concatenate([times for _, times in parts])
    world = World.recorded(elements, times, end=2 * half, count=n)
    policies = {"uniform": "uniform", "learning": choosing_seldom(n, float(n))}
    result = simulate(world, float(n), policies=policies, burn_in=0.0, batches=12, seed=1)
    lead = result["learning"].freshness_over_time[1] - result["uniform"].freshness_over_time[1]
    assert lead[3:6].min() > 0.02
    assert lead[10:].min() > 0.015  # learned anew
    assert lead[6:8].min() < lead[3:6].min()


def test_polls_that_fail_teach_nothing_and_are_not_repeated_at_once() -> None:
    policies = {"uniform": "uniform", "learning": choosing_seldom(500, 500.0)}
    result = simulate(
        rates_of("gamma", 6, 500), 500.0, policies=policies, horizon=60.0, burn_in=20.0, seed=2,
        conditions=Conditions(fails=0.2, takes=0.01, late=0.01),
    )  # fmt: skip
    lead, error = result.ahead("learning", "uniform")
    assert lead > 3.0 * error
    assert result["learning"].failed == pytest.approx(0.2 * result["learning"].polls, rel=0.1)


# --- a recorded history -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "least"), [(0.25, 0.01), (1.0, 0.015)])
def test_ahead_on_a_recorded_history(share: float, least: float) -> None:
    """Releases of packages come in bursts, so that even the plan with the true mean rates falls behind."""
    recorded = load()
    budget = share * recorded.rate
    learning = Learning(len(recorded), budget, steps=10.0, seed=1)
    policies = {name: name for name in ("uniform", "optimal", "estimated-optimal")}
    result = simulate(
        recorded.world(), budget, policies=policies | {"learning": LearningAtPlay(learning)},
        burn_in=recorded.end / 3.0, seed=1,
    )  # fmt: skip
    for other in policies:
        lead, error = result.ahead("learning", other)
        assert lead > (max(least, 2.0 * error) if other == "uniform" else 0.0)
