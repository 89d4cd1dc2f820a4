"""Objectives, policies and orders of mirrors, and targets: the real loop does as well as the plan says."""

from itertools import pairwise
from math import nan

import numpy as np
import pytest
from scipy.optimize import brentq

from unstale import InvalidInput, budget_for, plan
from unstale.mirror.settings import GroupLimit, Rule
from unstale.objectives import Fading, SourcePenalty, currency
from unstale.penalties import named, scaled
from unstale.policy.terms import ElementTerms

from .worlds import DAY, START, add, evenly_polled, make, run

COUNT, DAYS, WARM = 40, 40.0, 12.0


COSTS = {
    "age": "age", "missed-updates": "missed-updates", "currency:12h": currency(0.5), "harmonic": "harmonic",
    "lag:log(1+x):12h": SourcePenalty(scaled(named("log(1+x)"), 0.5)),
}  # fmt: skip
"""Objectives of mirrors, with those of the library in days, in the order of what is measured."""


def world_of(rates, seed):
    rng = np.random.default_rng(seed)
    changes = [np.sort(rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS))) for rate in rates]
    content = {
        f"python:{'a' if i % 2 else 'b'}/{i}": lambda now, i=i: str(
            np.searchsorted(changes[i], (now - START) / DAY)
        ).encode()
        for i in range(len(rates))
    }
    return changes, content


def measured(polls, changes):
    """Return what elements had: freshness, and the costs that `COSTS` names."""
    found = np.zeros((len(changes), 1 + len(COSTS)))
    for i, times in enumerate(changes):
        for first, last in pairwise([*polls[i], DAYS]):
            late = times[(times > first) & (times < last)]
            begin = max(first, WARM)
            if last <= WARM:
                continue
            stale = max(last - max(late[0], begin), 0.0) if late.size else 0.0
            found[i, 0] += last - begin - stale
            if late.size:
                found[i, 1] += 0.5 * ((last - late[0]) ** 2 - max(begin - late[0], 0.0) ** 2)
                missed = np.maximum(last - np.maximum(late, begin), 0.0)
                found[i, 2] += float(missed.sum())
                found[i, 3] += max(last - max(late[0] + 0.5, begin), 0.0)
                found[i, 4] += float(np.sum(missed / np.arange(1.0, late.size + 1.0)))
                found[i, 5] += lagged(last - late[0]) - lagged(max(begin - late[0], 0.0))
    return found / (DAYS - WARM)


def lagged(lag):
    """Return the integral of log(1 + x / 12 hours) up to a lag in days."""
    u = lag / 0.5
    return 0.5 * ((1.0 + u) * np.log1p(u) - u)


def played(folder, rates, seed, budget, **settings):
    changes, content = world_of(rates, seed)
    mirror, world = make(folder, tick=7200.0, content=content, budget=budget / DAY, reserve=DAY, **settings)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, DAYS * DAY)
        status = mirror.status()
        shown = mirror.what_if(points=3)
    polls = polls_of(world, rates)
    assert len(world.polls) >= 0.96 * budget * DAYS
    return measured(polls, changes), status, shown


def polls_of(world, rates):
    polls = [[] for _ in rates]
    for time, key in world.polls:
        polls[int(key.split("/")[1])].append((time - START) / DAY)
    return polls


def rates_of(seed, count=COUNT):
    return np.random.default_rng(50 + seed).gamma(1.0, 1.0, count) + 0.02


@pytest.mark.parametrize(
    ("objective", "seed"),
    [
        pytest.param(
            name,
            seed,
            marks=[] if (name, seed) == ("currency:12h", 1) else [pytest.mark.long],
        )
        for name in COSTS
        for seed in (1, 6)
    ],
)
def test_a_mirror_does_what_the_plan_for_its_objective_says(tmp_path, objective, seed):
    rates, column = rates_of(seed), 1 + list(COSTS).index(objective)
    found, status, shown = played(tmp_path, rates, seed, 40.0, objective=objective)
    best = plan(rates, 40.0, objective=COSTS[objective])
    cost = float(found[:, column].mean())
    expected = by_plan(np.maximum(best.frequencies, 1e-2), "fixed", world_of(rates, seed)[0], seed)
    assert cost == pytest.approx(expected[column], abs=0.02)  # in hundredths of the unit of the objective
    assert found[:, 0].mean() == pytest.approx(expected[0], abs=0.02)
    assert cost == pytest.approx(best.cost, rel=0.12)  # with other changes
    if objective == "currency:12h":
        assert shown.present_value == pytest.approx(cost, abs=0.03)
    assert status.predicted == pytest.approx(float(found[:, 0].mean()), abs=0.04)
    assert shown.objective == objective
    assert (np.diff(shown.optimal) < 0).all()


def by_plan(frequencies, order, changes, seed, draws=8):
    """Return what polls of these frequencies have on average, at these changes, as `measured` does."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(draws):
        polls = []
        for often in frequencies:
            count = int(3 * often * DAYS) + 20
            gaps = {
                "fixed": np.ones(count), "random": 1.0 + rng.uniform(size=count) - rng.uniform(size=count),
                "purely-random": rng.exponential(size=count),
            }[order]  # fmt: skip
            polls.append(np.concatenate([[0.0], rng.uniform() / often + np.cumsum(gaps) / often]))
        polls = [own[own < DAYS] for own in polls]
        found.append(measured(polls, changes).mean(axis=0))
    return np.mean(found, axis=0)


@pytest.mark.parametrize(
    ("policy", "order", "seed", "count"),
    [
        ("uniform", "random", 1, 24),
        *(
            pytest.param(policy, order, seed, 2 * COUNT, marks=pytest.mark.long)
            for policy, order in (
                ("uniform", "fixed"), ("proportional", "fixed"), ("optimal", "random"),
                ("optimal", "purely-random"),
            )
            for seed in (1, 6)
        ),
    ],
)  # fmt: skip
def test_a_mirror_does_what_its_policy_and_its_order_say(tmp_path, policy, order, seed, count):
    rates, budget = rates_of(seed, count), float(count)
    found, status, shown = played(tmp_path, rates, seed, budget, policy=policy, order=order)
    plans = plan(rates, budget, policy=policy, order=order)
    fresh = float(found[:, 0].mean())
    expected = by_plan(np.maximum(plans.frequencies, 1e-2), order, world_of(rates, seed)[0], seed)[0]
    assert fresh == pytest.approx(expected, abs=0.02)
    assert fresh == pytest.approx(plans.freshness, abs=0.04)  # with other changes
    assert status.predicted == pytest.approx(fresh, abs=0.04)
    assert shown.present_value == pytest.approx(status.predicted, abs=0.005)
    best = plan(rates, budget).freshness
    if order == "purely-random":
        assert fresh < best - 0.05


def test_a_policy_without_objective_takes_no_targets(tmp_path):
    for rule in (Rule("*", target=0.9), Rule("*", objective="age")):
        with pytest.raises(InvalidInput, match="policy 'uniform' looks at no objective, and the rule for"):
            make(tmp_path, policy="uniform", rules=(rule,))
    with pytest.raises(InvalidInput, match=r"and the group for '\*' has a target"):
        make(tmp_path, policy="uniform", groups=(GroupLimit("*", target=0.9),))
    with pytest.raises(InvalidInput, match="order must be one of fixed, random, purely-random"):
        make(tmp_path, order="shuffled")


def terms_of(mirror, key):
    """Return what is said of an element: its objective, target, and what promises that."""
    return ElementTerms.read(mirror.find(f"python:{key}").terms)[:3]


def test_an_element_a_pattern_and_a_group_may_have_an_objective_and_a_target(tmp_path):
    groups = (GroupLimit("group:a", target=0.8), GroupLimit("group:*", objective="age", target=0.7))
    mirror, _ = make(tmp_path, groups=groups)
    with mirror:
        add(mirror, "a/1", "b/1", "b/own")
        add(mirror, "a/2", objective="harmonic", target=0.6)
        assert terms_of(mirror, "a/1") == ("age", 0.8, "group:a")
        assert terms_of(mirror, "a/2") == ("harmonic", 0.6, "python:a/2")
        assert terms_of(mirror, "b/1") == ("age", 0.7, "group:*")
    rules = (Rule("*own", objective="freshness", target=0.9),)
    mirror, _ = make(tmp_path, groups=groups, rules=rules)
    with mirror:
        assert mirror.apply_rules() == 1
        assert terms_of(mirror, "b/own") == ("freshness", 0.9, "*own")
        assert terms_of(mirror, "b/1") == ("age", 0.7, "group:*")
    mirror, _ = make(tmp_path)
    with mirror:
        assert mirror.apply_rules() == 3
        assert terms_of(mirror, "b/own") == pytest.approx(("", nan, ""), nan_ok=True)


def test_the_budget_that_max_age_needs_is_told(tmp_path):
    mirror, _ = make(tmp_path, budget=10 / DAY, rules=(Rule("python:a/*", max_age=DAY / 4),))
    with mirror:
        add(mirror, "a/1", "a/2", "b/1")
        assert not mirror.status().trouble
        add(mirror, "a/3", "a/4")
        (told,) = mirror.status().trouble
    assert "max_age of 4 elements is out of reach: it needs 16 polls a day, and the budget has" in told


@pytest.mark.parametrize(
    "objective",
    [
        "missed-updates",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in (*COSTS, "freshness", "decay:6h", "missed:log(1+x):1h")
            if name != "missed-updates"
        ),
    ],
)
def test_under_each_objective_what_is_said_of_copies_is_true(tmp_path, objective):
    """P(fresh) is a promise whatever the budget is spent for: by planned polls, and by an audit."""
    _, content = world_of(rates_of(5, 20), 5)
    mirror, _ = make(
        tmp_path, tick=7200.0, content=content, budget=20 / DAY, reserve=DAY, objective=objective
    )
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, 14.0 * DAY)
        polls = [poll for poll in mirror.polls(limit=200) if poll.outcome in {"changed", "unchanged"}]
        explained = mirror.explain("python:a/1")
        status, shown = mirror.status(), mirror.what_if(points=3)
        audit = mirror.audit(20, seed=1)
    said, seen = zip(*((poll.predicted, poll.outcome == "unchanged") for poll in polls), strict=True)
    assert np.mean(seen) == pytest.approx(np.mean(said), abs=0.06)  # 200 polls: 1.8 of their errors
    assert audit.sample == 20
    assert audit.agrees
    assert explained.worth >= 0
    assert explained.polled_for.get("objective", "freshness") == objective
    assert status.price > 0
    assert shown.objective == objective
    assert (np.diff(shown.optimal if objective != "freshness" else -shown.optimal) < 0).all()


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_copies_that_fade_are_polled_by_weight_whatever_they_change(tmp_path, seed):
    rates = rates_of(seed)[:20]
    rates[:2] = 50.0  # they differ at each look
    _, content = world_of(rates, seed)
    rules = (Rule("python:a/*", weight=4.0),)
    mirror, world = make(
        tmp_path, tick=7200.0, content=content, budget=20 / DAY, reserve=DAY, objective="decay:1 day",
        rules=rules,
    )  # fmt: skip
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, DAYS * DAY)
    weights = np.where(np.arange(20) % 2, 4.0, 1.0)
    best = plan(rates, 20.0, objective=Fading(1.0), weights=weights)
    polls = [np.array(own) for own in polls_of(world, rates)]
    often = np.array([np.count_nonzero(own > WARM) for own in polls]) / (DAYS - WARM)
    assert often == pytest.approx(best.frequencies, abs=0.15)
    at = np.linspace(WARM, DAYS, 5000, endpoint=False)
    kept = [np.exp(-(at - own[np.searchsorted(own, at, "right") - 1])).mean() for own in polls]
    assert np.average(kept, weights=weights) == pytest.approx(1.0 - best.cost, abs=0.02)


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.long)])
def test_rules_with_other_objectives_share_the_price(tmp_path, seed):
    """Elements for age are never given up; those for freshness that change too often are."""
    rates = rates_of(seed)
    rates[:4] = 20.0
    found, status, _ = played(tmp_path, rates, seed, 40.0, rules=(Rule("python:a/*", objective="age"),))
    assert status.predicted == pytest.approx(float(found[:, 0].mean()), abs=0.04)
    aged, fresh = found[[1, 3], 1], found[[0, 2], 1]
    assert aged.max() < 0.8 * fresh.min()
    mine = np.arange(COUNT) % 2 == 1

    def plans(part):
        return plan(rates[mine], part, objective="age"), plan(rates[~mine], 40.0 - part)

    def dearer(part):
        first, second = plans(part)
        return second.price - first.price

    young, often = plans(brentq(dearer, 1.0, 39.0, xtol=1e-6))
    frequencies = np.zeros(COUNT)
    frequencies[mine], frequencies[~mine] = young.frequencies, often.frequencies
    polled = evenly_polled(world_of(rates, seed)[0], frequencies, DAYS, WARM)
    expected = np.mean([one[~mine].mean() for one in polled])
    assert found[~mine, 0].mean() == pytest.approx(expected, abs=0.02)
    assert found[mine, 1].mean() == pytest.approx(young.cost, abs=0.02)


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.long) for seed in (5, 6))])
def test_a_target_is_served_first(tmp_path, seed):
    rates = rates_of(seed)
    mine = np.arange(COUNT) % 2 == 1
    needed = budget_for(rates[mine], freshness=0.85)
    budget = 1.3 * needed
    found, status, _ = played(tmp_path, rates, seed, budget, rules=(Rule("python:a/*", target=0.85),))
    assert found[mine, 0].mean() == pytest.approx(0.85, abs=0.02)
    assert found[~mine, 0].mean() < 0.7
    assert not status.trouble


def test_a_target_beyond_the_budget_is_told_with_the_budget_that_could(tmp_path):
    rates = rates_of(4)
    mine = np.arange(COUNT) % 2 == 1
    needed = budget_for(rates[mine], freshness=0.9)
    found, status, _ = played(tmp_path, rates, 4, 0.4 * needed, rules=(Rule("python:a/*", target=0.9),))
    (told,) = status.trouble
    assert "the target of 90 % for python:a/* is out of reach" in told
    said = float(told.split("it needs ")[1].split(" polls")[0].replace(",", ""))
    assert said == pytest.approx(needed, rel=0.15)
    assert found[mine, 0].mean() > found[~mine, 0].mean() + 0.2


def test_a_target_for_which_others_leave_nothing_is_told_too(tmp_path):
    rules = (Rule("python:a/*", target=0.9), Rule("python:b/*", target=0.6), Rule("python:c/*", target=0.5))
    content = {f"python:{rule}/{i}": lambda now: str(now).encode() for rule in "abc" for i in range(3)}
    mirror, _ = make(tmp_path, tick=7200.0, content=content, budget=2 / DAY, rules=rules)
    with mirror:
        add(mirror, "a/0", "b/0", "b/1", "c/0", "c/1", "c/2")
        run(mirror, 4 * DAY)
        status = mirror.status()
    first, *others = status.trouble
    assert "for python:a/* is out of reach" in first
    assert " polls a day make " in first
    assert [one.split(" is ")[0] for one in others] == [
        "the target of 60 % for python:b/*", "the target of 50 % for python:c/*"
    ]  # fmt: skip
    for one in others:
        assert "other targets, of fewer elements, take all of the budget that is for targets" in one
    assert [one.gets > 0 for one in status.targets] == [True, False, False]


@pytest.mark.parametrize("wrong", ["speed", "currency:", "currency:soon", "lag:sin(x)", "lag:x:never"])
def test_what_is_no_objective_is_refused(tmp_path, wrong):
    with pytest.raises(InvalidInput, match="objective"):
        make(tmp_path, objective=wrong)
