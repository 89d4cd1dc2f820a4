"""What ideas of the papers would buy for a mirror's own elements: the library's plans say the same."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize

from mirror.engine.worlds import DAY, add, make, run
from unstale import InvalidInput, Periodic, Poisson, plan, renewal
from unstale.estimation import HintedChanges, plan_hinted
from unstale.mirror.reports.ideas import TrialChoice, ideas, try_idea
from unstale.mirror.reports.promised_times import PromisedTimes
from unstale.mirror.reports.trial_gains import FALSE_SHARE, ComposedParts, HintsGiven, KnownRhythm, Unplanned
from unstale.mirror.reports.what_if import PlannerInput
from unstale.operational_time import OperationalClock
from unstale.planning import plan_within
from unstale.planning.by_rhythm import plan_by_rhythm
from unstale.policy.terms import aim_of
from unstale.polling import mean_cost
from unstale.processes import UncertainPoisson
from unstale.schedule.window_costs import jitter_loss

COUNT = 30
RNG = np.random.default_rng(3)
RATES = RNG.gamma(1.0, 1.0, COUNT) / DAY + 1e-7
LAW = UncertainPoisson(np.full(COUNT, 1e9), RATES / 1e9)
ROOM = RNG.uniform(1e3, 1e5, COUNT)
RATE = COUNT / DAY


def elements(**changed):
    ones = np.ones(COUNT)
    made = PlannerInput(
        law=LAW, weights=ones, sizes=ones, groups=np.zeros(COUNT, np.int64), limits=np.array([np.inf]),
        rate=RATE, hope=1.0, aim=aim_of("freshness"), parts=[], ids=np.arange(COUNT),
    )  # fmt: skip
    return replace(made, **changed)


def fresh(choice, **changed):
    return try_idea(elements(**changed), choice, ROOM).freshness


@pytest.mark.parametrize("objective", ["freshness", "age", "missed-updates", "decay:6h", "currency:6h"])
def test_objectives_buy_what_their_plans_say(objective):
    best = plan(LAW, RATE, objective=aim_of(objective).objective)
    found = try_idea(elements(), TrialChoice(objective=objective), ROOM)
    assert found.freshness == pytest.approx(best.freshness, rel=1e-6)
    if objective == "age":
        assert found.age == pytest.approx(best.age, rel=1e-6)


@pytest.mark.parametrize("order", ["fixed", "random", "purely-random"])
@pytest.mark.parametrize("policy", ["optimal", "uniform", "proportional"])
def test_policies_and_orders_buy_what_their_plans_say(policy, order):
    expected = plan(LAW, RATE, policy=policy, order=order).freshness
    assert fresh(TrialChoice(policy=policy, order=order)) == pytest.approx(expected, rel=1e-6)


def test_budgets_elements_and_turns_are_the_same_question():
    twice = plan(LAW, 2 * RATE).freshness
    assert fresh(TrialChoice(budget=2.0)) == pytest.approx(twice, rel=1e-9)
    assert fresh(TrialChoice(replicas=2)) == pytest.approx(twice, rel=1e-9)
    assert fresh(TrialChoice(replicas=2, elements=2 * COUNT)) == pytest.approx(
        plan(LAW, RATE).freshness, rel=1e-9
    )


@pytest.mark.parametrize("count", [2, 5])
def test_replicas_each_for_itself_are_as_fresh_as_their_superposition(count):
    often = 0.7 / DAY
    same = UncertainPoisson(np.full(COUNT, 1e9), np.full(COUNT, 1e-9 / DAY))
    got = fresh(TrialChoice(replicas=count, turns=False), law=same, rate=often * COUNT)
    each = Periodic(1.0 / 0.7)
    stale = float(renewal.staleness(Poisson(1.0), renewal.replicas(each, count, coordinated=False)))
    assert got == pytest.approx(1.0 - stale, abs=1e-5)
    assert got < fresh(TrialChoice(replicas=count), law=same, rate=often * COUNT)


def test_less_room_buys_what_the_plan_within_it_says():
    space = 0.4 * ROOM.sum()
    found = try_idea(elements(), TrialChoice(space=space), ROOM)
    best = plan_within(LAW, RATE, room=ROOM, space=space)
    assert found.freshness == pytest.approx(best.freshness, rel=1e-9)
    assert found.kept == pytest.approx(best.kept.mean())
    assert fresh(TrialChoice(space=2 * ROOM.sum())) == fresh(TrialChoice())
    half = try_idea(elements(share=0.5), TrialChoice(space=2 * space), ROOM)  # a sample of twice as many
    assert half.freshness == pytest.approx(best.freshness, rel=1e-9)


@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0, 1e6])
def test_freshness_under_promises_is_the_integral(shape):
    law, often = UncertainPoisson(np.array([shape]), np.array([2.0 / shape])), np.array([0.8])
    for stays, speed in ((0.0, 1.0), (0.4, 0.2), (2.0, 0.01), (1.25, 1.0)):
        promised = PromisedTimes(np.array([speed]), np.array([stays]))
        value, _ = quad(
            lambda t, p=promised: (1.0 + 2.0 / shape * p.passed(np.array([t]))[0]) ** -shape, 0.0, 1.25,
            points=[min(stays, 1.25)],
        )  # fmt: skip
        assert promised.fresh(law, often)[0] == pytest.approx(value / 1.25, rel=1e-6)
        if speed == 1.0:
            assert promised.fresh(law, often)[0] == pytest.approx(
                1.0 - float(mean_cost("freshness", law, often)[0]), rel=1e-6
            )


def test_promises_that_are_kept_buy_freshness():
    promised = PromisedTimes(np.full(COUNT, 0.1), np.full(COUNT, 0.5 * DAY))
    with_them = fresh(TrialChoice(), promised=promised)
    assert with_them > fresh(TrialChoice(expiry=False), promised=promised) + 0.05
    told = ideas(elements(promised=promised), ROOM)
    assert told.as_it_is.freshness == pytest.approx(with_them)
    assert "[http] expiry = false" in {one.key for one in told.ideas}


def test_a_mirror_tries_ideas_on_its_own_elements(tmp_path):
    periods = {f"g/{i}": 10 ** (3.5 + i / 8.0) for i in range(20)}
    content = {f"python:{key}": (lambda now, p=p: str(int(now // p)).encode()) for key, p in periods.items()}
    mirror, _ = make(tmp_path, budget=100 / DAY, content=content, tick=3600.0)
    with mirror:
        with pytest.raises(InvalidInput, match="nothing to plan yet"):
            mirror.ideas()
        add(mirror, *periods)
        run(mirror, 2 * DAY)
        told = mirror.ideas(TrialChoice(order="random", budget=3.0))
        assert told.as_it_is.freshness == pytest.approx(mirror.status().predicted, rel=1e-6)
        demand = mirror.demand("freshness").elements
        (made,) = mirror.ideas(TrialChoice(composed=("python:g/1", "python:g/?"))).composed
        with pytest.raises(InvalidInput, match="'python:h' matches no element"):
            mirror.ideas(TrialChoice(composed=("python:h",)))
    assert (made.name, made.parts) == ("as tried", 10)
    assert made.as_one > made.by_themselves
    by_name = {one.name: one for one in told.ideas}
    assert len(by_name) == len(told.ideas) >= 10
    assert told.tried.freshness == pytest.approx(
        plan(demand.law, 3 * demand.rate, order="random", **demand.options).freshness * demand.hope, rel=1e-6
    )
    assert by_name["all equally often"].freshness <= told.as_it_is.freshness + 1e-9
    assert by_name["two replicas in turns"].freshness > by_name["two replicas, each for itself"].freshness
    assert by_name["room for half of the bytes"].kept < 1.0
    assert by_name["the best for age"].age <= min(
        one.age
        for one in told.ideas
        if one.kept == 1.0 and one.age > 0 and one.name != "two replicas in turns"
    ) * (1 + 1e-6)


@pytest.mark.parametrize("jitter", [0.1, 1.0])
def test_jitter_costs_what_the_library_says(jitter):
    often = plan(LAW, RATE).frequencies
    able = often > 0
    expected = (
        plan(LAW, RATE).freshness - jitter_loss("freshness", RATES[able], often[able], jitter).sum() / COUNT
    )
    assert fresh(TrialChoice(jitter=jitter)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("objective", ["freshness", "age"])
def test_hints_buy_what_their_plan_says(objective):
    hinted = HintedChanges(RATES, 0.7, 0.7 * RATES * FALSE_SHARE / (1 - FALSE_SHARE))
    best = plan_hinted(hinted, RATE).freshness
    assert fresh(TrialChoice(hints=0.7), aim=aim_of(objective)) == pytest.approx(best, rel=1e-5)
    assert fresh(TrialChoice(hints=0.0)) == pytest.approx(fresh(TrialChoice()), rel=1e-6)
    known = Unplanned(hints=HintsGiven(np.full(COUNT, 0.7), np.full(COUNT, FALSE_SHARE)))
    (told,) = (one for one in ideas(elements(), ROOM, beside=known).ideas if "hints" in one.name)
    assert told.key == "by itself"
    assert told.freshness == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("budget", [1e-20, 1e-38, 1e-112])
@pytest.mark.parametrize("more", [{"hints": 0.5, "replicas": 32}, {"hints": 0.0}, {"replicas": 4}, {}])
def test_of_a_budget_next_to_nothing_a_share_is_bought(budget, more):
    """What the API was asked (schemathesis): an error, or less freshness than none."""
    assert 0.0 <= fresh(TrialChoice(budget=budget, jitter=6e-20, **more)) <= 1e-6


def test_hours_buy_what_their_plan_says():
    """Two elements in three have hours; they keep the polls that they have."""
    clock = OperationalClock(np.where(np.arange(24) // 8 == 1, 3.0, 0.0), DAY)
    few = {name: np.repeat(value, 3) for name, value in (("shape", 1e9), ("rate", 1.0 / DAY))}
    law = UncertainPoisson(few["shape"], few["rate"] / few["shape"])
    ones = np.ones(3)
    three = elements(
        law=law, weights=ones, sizes=ones, rate=3 / DAY, groups=np.zeros(3, np.int64), ids=np.arange(3)
    )
    known = Unplanned(rhythms=[KnownRhythm(clock, np.array([0, 2]))])
    (told,) = (one for one in ideas(three, ones, beside=known).ideas if "rush" in one.name)
    timed = plan_by_rhythm(law.take(np.array([0, 2])), 2 / DAY, clock).freshness
    assert told.freshness == pytest.approx((2 * timed + plan(law, 3 / DAY).freshness) / 3, abs=2e-3)
    assert timed > plan(law, 3 / DAY).freshness + 0.1
    assert told.key == '[mirror] reserve = "1 day"'
    (told,) = (
        one for one in ideas(three, ones, beside=replace(known, timed=True)).ideas if "rush" in one.name
    )
    assert told.key == "by itself"


@pytest.mark.parametrize("one_suffices", [False, True])
def test_what_is_made_from_several_is_planned_as_well_as_can_be(one_suffices):
    """No other frequencies of its parts and of the rest make it and them fresher together."""
    parts, weight = np.array([0, 3, 7]), 4.0
    made = ComposedParts("report", weight, parts, one_suffices)
    (told,) = ideas(elements(), ROOM, beside=Unplanned(composed=[made])).composed

    def value(often):
        each = 1.0 - np.asarray(mean_cost("freshness", LAW, often))
        return each.sum() + weight * made.fresh(each), each

    def bought(extra):
        weights = np.ones(COUNT)
        weights[parts] += np.maximum(extra, 0.0)
        return plan(LAW, RATE, weights=weights).frequencies

    best = minimize(lambda extra: -value(bought(extra))[0], np.full(3, weight / 2), method="Nelder-Mead")
    _, each = value(bought(best.x))
    before = 1.0 - np.asarray(mean_cost("freshness", LAW, bought(np.zeros(3))))
    assert told.by_themselves == pytest.approx(made.fresh(before), rel=1e-6)
    assert COUNT * told.others + weight * told.as_one == pytest.approx(-best.fun, rel=2e-3)
    if not one_suffices:
        assert told.as_one == pytest.approx(made.fresh(each), abs=0.02)
    assert told.as_one > told.by_themselves
    assert told.others < told.others_by_themselves


@pytest.mark.parametrize(
    "wrong",
    [{"policy": "best"}, {"order": "x"}, {"replicas": 0}, {"space": -1.0}, {"elements": 0}, {"budget": 0.0},
     {"objective": "speed"}, {"hints": 1.5}, {"jitter": -0.1}, {"jitter": 0.1, "order": "random"},
     {"hints": 0.5, "policy": "uniform"}],
)  # fmt: skip
def test_what_cannot_be_tried_is_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        TrialChoice(**wrong)
