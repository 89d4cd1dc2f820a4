"""Simulations as a whole: the same seed gives the same run, whoever else is in it, and edges have answers."""

import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from unstale import (
    Conditions,
    Empirical,
    Gamma,
    InvalidInput,
    Periodic,
    Poisson,
    SourcePenalty,
    UpdatePenalty,
    Weibull,
    World,
    plan,
    simulate,
)
from unstale.schedule import Polls, Schedule
from unstale.simulation import NAMES, RULES, Outcomes, expect, simulator
from unstale.simulation.poll_execution import PollExecutor

RATES = np.array([0.05, 0.4, 1.0, 3.0])
ROUGH = Conditions(late=0.05, takes=0.1, fails=0.2)
LOG = SourcePenalty("log(1+x)")
SMOOTH_AND_ROUGH = pytest.mark.parametrize(
    "conditions", [pytest.param(None, marks=pytest.mark.long), ROUGH], ids=["smooth", "rough"]
)


def numbers_of(outcome):
    """Everything that was measured, bit for bit."""
    lengths, fresh = outcome.freshness_over_time
    own = outcome.elements
    return np.concatenate(
        [lengths, fresh, *(getattr(own, part.name) for part in fields(own)), outcome.lag([0.5, 0.9])]
    )


def same(one, other):
    assert_array_equal(numbers_of(one), numbers_of(other))


def run(policies=NAMES, **options):
    options = {"rates": RATES, "budget": 4.0, "horizon": 90.0, "seed": 3, "accesses": 10.0, **options}
    return simulate(options.pop("rates"), options.pop("budget"), policies=policies, **options)


# --- the same again -----------------------------------------------------------------------------------------


@SMOOTH_AND_ROUGH
def test_a_seed_reproduces_a_run_bit_for_bit(conditions):
    first, again, other = (run(seed=seed, conditions=conditions, horizon=30.0) for seed in (3, 3, 4))
    for name in NAMES:
        same(first[name], again[name])
        assert not np.array_equal(numbers_of(first[name]), numbers_of(other[name]))


@SMOOTH_AND_ROUGH
def test_a_policy_does_the_same_alone_as_with_others(conditions):
    options = {"conditions": conditions, "horizon": 30.0}
    together, backwards = run(**options), run(NAMES[::-1], **options)
    for name in NAMES:
        same(run([name], **options)[name], together[name])
        same(backwards[name], together[name])


def test_a_busy_neighbour_changes_nothing(monkeypatch):
    """Time is then cut into more pieces, and that is all."""
    monkeypatch.setattr(simulator, "_EVENTS_PER_SPAN", 64)
    alone = run(["uniform", "estimated-proportional", "nutch"], conditions=ROUGH)
    names = {name: name for name in alone}
    beside = run({**names, "busy": Schedule(np.full(4, 100.0))}, conditions=ROUGH)
    for name in alone:
        assert_allclose(numbers_of(beside[name]), numbers_of(alone[name]), rtol=1e-9, atol=1e-9)
        assert beside[name].polls == alone[name].polls


def test_all_policies_meet_the_same_changes_and_requests():
    result = run(horizon=30.0)
    for name in NAMES[1:]:
        assert_array_equal(result[name].elements.changes, result["uniform"].elements.changes)
        assert_array_equal(result[name].elements.accesses, result["uniform"].elements.accesses)


@pytest.mark.every(5)
@pytest.mark.parametrize("conditions", [None, ROUGH], ids=["smooth", "rough"])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_time_do_not_matter(name, conditions, monkeypatch):
    """Neither how much is held in memory at once, nor how many batches there are."""
    objectives = [LOG, UpdatePenalty("x")]
    options = {"conditions": conditions, "objectives": objectives, "horizon": 40.0}
    whole = run([name], **options)[name]
    batches = run([name], **options, batches=7)[name]
    monkeypatch.setattr(simulator, "_EVENTS_PER_SPAN", 9)
    pieces = run([name], **options)[name]
    for other in (batches, pieces):
        for measure in ("changes", "polls", "failed", "found", "accesses"):
            assert getattr(other, measure) == getattr(whole, measure)
        for measure in ("freshness", "age", "missed_updates", "spent", "perceived_freshness"):
            assert getattr(other, measure) == pytest.approx(getattr(whole, measure), rel=1e-9)
        for objective in (*objectives, "harmonic"):
            assert other.cost(objective) == pytest.approx(whole.cost(objective), rel=1e-9)
        assert_allclose(other.elements.freshness, whole.elements.freshness, rtol=1e-9)
        assert_allclose(other.lag([0.3, 0.9, 1.0]), whole.lag([0.3, 0.9, 1.0]), rtol=1e-6, atol=1e-9)


def test_a_longer_run_of_a_schedule_begins_as_a_shorter_one():
    short, long = (
        run(["optimal"], horizon=h, burn_in=0.0, batches=b)["optimal"] for h, b in ((50.0, 5), (100.0, 10))
    )
    assert_allclose(long.freshness_over_time[1][:5], short.freshness_over_time[1], rtol=1e-12)


# --- by hand ------------------------------------------------------------------------------------------------


def test_a_small_record_by_hand():
    """One element, changes at 1.25, 1.5, 3.75; polls at 0.5, 1.5, 2.5, ...; the second sees two changes."""
    world = World.recorded([0, 0, 0], [1.25, 1.5, 3.75], end=8.0, requests=([0, 0, 0], [1.3, 2.0, 3.8]))
    schedule = Schedule([1.0], phases=[0.5])
    outcome = simulate(world, 1.0, policies={"it": schedule}, burn_in=0.0, batches=2, objectives=[LOG])["it"]
    stale = 0.25 + 0.75
    assert outcome.freshness == 1.0 - stale / 8.0
    assert outcome.age == pytest.approx((0.25**2 + 0.75**2) / 2.0 / 8.0)
    assert outcome.missed_updates == pytest.approx(stale / 8.0)
    assert (outcome.polls, outcome.found, outcome.changes, outcome.accesses) == (8, 2, 3, 3)
    assert outcome.perceived_freshness == pytest.approx(1.0 / 3.0)
    once = LOG.penalty.once
    assert outcome.cost(LOG) == pytest.approx(float(once(0.25) + once(0.75)) / 8.0)
    assert outcome.within(0.25) == pytest.approx(1.0 - 0.5 / 8.0, abs=0.005)
    assert outcome.lag(1.0) == pytest.approx(0.75)
    assert outcome.duration == 8.0
    assert outcome.expected is None


def test_weights_count():
    world = World.recorded([0, 1], [2.0, 1e-9], end=10.0, weights=[3.0, 1.0])
    outcome = simulate(world, 0.0, policies=["uniform"], burn_in=0.0)["uniform"]
    assert outcome.freshness == pytest.approx(0.75 * 0.2)
    assert outcome.elements.freshness.tolist() == pytest.approx([0.2, 0.0], abs=1e-9)
    assert outcome.changes == 2


def test_the_burn_in_is_not_measured():
    world = World.recorded([0, 0], [2.0, 7.0], end=10.0)
    outcome = simulate(world, 0.0, policies=["uniform"], burn_in=5.0)["uniform"]
    assert (outcome.freshness, outcome.duration, outcome.changes) == (0.0, 5.0, 1)
    assert outcome.missed_updates == pytest.approx((2.0 + 2.0 * 3.0) / 5.0)
    assert outcome.age == pytest.approx(5.5)
    assert outcome.lag(1.0) == pytest.approx(8.0)
    result = simulate(world, 0.0, policies=["uniform"])
    assert (result.burn_in, result.horizon) == (2.0, 10.0)


# --- policies that learn ------------------------------------------------------------------------------------


class Curious:
    """A policy that polls at its own moments, and keeps all it is told."""

    def __init__(self, n, step=1.0, seed=0):
        self._n, self.step, self._rng = n, step, np.random.default_rng(seed)
        self.now, self.asked, self.made, self.told = 0.0, [], [], []

    def polls(self, end):
        self.asked.append((self.now, end))
        count = self._rng.poisson(3.0 * (end - self.now))
        times = np.sort(self._rng.uniform(self.now, end, count))
        times = times[times < end]
        self.now = end
        self.made.append(Polls(times, self._rng.integers(self._n, size=times.size)))
        return self.made[-1]

    def learn(self, outcomes):
        assert isinstance(outcomes, Outcomes)
        self.told.append((self.now, outcomes))

    def all_told(self):
        names = ("elements", "times", "elapsed", "changed", "ok")
        return {name: np.concatenate([getattr(told, name) for _, told in self.told]) for name in names}


def changes_of(world, seed, end):
    events = world.changes(seed).until(end)
    return np.split(events.times, events.offsets[1:-1])


def visits_of(policy, world, conditions, seed):
    """The polls that were carried out, and what they saw, worked out after the event."""
    made = Polls(
        np.concatenate([part.times for part in policy.made]),
        np.concatenate([part.elements for part in policy.made]),
    )
    visits = PollExecutor(len(world), conditions, seed).carry_out(made, np.inf)
    changes, rows = changes_of(world, seed, 60.0), []
    for i in range(len(world)):
        last = 0.0
        for k in range(visits.offsets[i], visits.offsets[i + 1]):
            start, done, ok = visits.start[k], visits.done[k], bool(visits.ok[k])
            seen = (
                np.any((changes[i] > last) & (changes[i] <= start)) if last else np.any(changes[i] <= start)
            )
            rows.append((done, i, start, start - last, bool(seen) and ok, ok))
            last = start if ok else last
    return sorted(rows)


@pytest.mark.parametrize("conditions", [Conditions(), ROUGH], ids=["smooth", "rough"])
def test_a_policy_is_told_what_its_polls_saw_and_not_before_they_are_done(conditions, monkeypatch):
    world, policy = World([0.2, 1.0, 4.0]), Curious(3, step=0.7)
    monkeypatch.setattr(
        simulator, "_EVENTS_PER_SPAN", 40
    )  # several spans in a batch, and steps across their ends
    simulate(world, 1.0, policies={"curious": policy}, horizon=60.0, seed=5, conditions=conditions, batches=5)
    begin, end = np.array(policy.asked).T
    assert begin[0] == 0.0
    assert end[-1] == 60.0
    assert_array_equal(begin[1:], end[:-1])
    assert np.all((end > begin) & (end - begin <= 0.7 + 1e-12))
    rows = visits_of(policy, world, conditions, 5)
    due = [row for row in rows if row[0] <= policy.told[-1][0]]  # the last step is not over
    assert policy.told[-1][0] > 60.0 - 0.7
    told = policy.all_told()
    assert told["times"].size == len(due)
    for name, column in (("elements", 1), ("times", 2), ("elapsed", 3), ("changed", 4), ("ok", 5)):
        assert_allclose(told[name].astype(float), [float(row[column]) for row in due], atol=1e-9)
    at = 0
    for now, outcomes in policy.told:  # neither before it is done nor later than the next time it is asked
        done = [row[0] for row in due[at : at + outcomes.times.size]]
        at += outcomes.times.size
        assert all(moment <= now for moment in done)
        assert all(moment > now for moment in [row[0] for row in due[at : at + 1]])


def test_a_policy_hears_of_a_failure_but_sees_nothing():
    policy = Curious(2)
    simulate([5.0, 5.0], 1.0, policies={"it": policy}, horizon=30.0, conditions=Conditions(fails=1.0))
    told = policy.all_told()
    assert told["ok"].size > 20
    assert not told["ok"].any()
    assert not told["changed"].any()
    assert_allclose(told["elapsed"], told["times"])


def test_a_policy_that_learns_is_followed_like_any_other():
    """Where its polls are those of a schedule, its numbers are those of the schedule."""

    class Dull:
        def __init__(self):
            self.schedule, self.step = Schedule([1.0, 2.0], order="random", seed=9), 0.9

        def polls(self, end):
            return self.schedule.until(end)

        def learn(self, outcomes):
            pass

    for conditions in (None, ROUGH):
        policies = {"closed": Dull(), "open": Schedule([1.0, 2.0], order="random", seed=9)}
        result = simulate([1.0, 0.5], 1.0, policies=policies, horizon=200.0, conditions=conditions)
        same(result["closed"], result["open"])


def test_estimated_proportional_spends_the_budget_and_finds_the_rates():
    rates = np.array([0.05, 0.1, 0.2, 0.4, 0.8])
    sizes = np.array([1.0, 2.0, 1.0, 3.0, 1.0])
    world = World(rates, sizes=sizes)
    outcome = simulate(world, 20.0, policies=["estimated-proportional"], horizon=1000.0, seed=2)[
        "estimated-proportional"
    ]
    assert outcome.spent == pytest.approx(20.0, rel=0.01)
    frequencies = outcome.elements.polls / outcome.duration
    assert_allclose(frequencies / rates, 20.0 / (sizes @ rates), rtol=0.25)
    known = plan(rates, 20.0, sizes=sizes, policy="proportional")
    assert outcome.freshness == pytest.approx(expect(world, known.frequencies).freshness, abs=0.02)


def test_estimated_proportional_copes_with_failures_and_with_what_never_changes():
    outcome = simulate(
        [0.0, 0.0, 1.0],
        6.0,
        policies=["estimated-proportional"],
        horizon=500.0,
        conditions=Conditions(fails=0.5),
    )["estimated-proportional"]
    assert outcome.spent == pytest.approx(6.0, rel=0.02)
    assert np.all(outcome.elements.polls > 0)
    assert outcome.elements.freshness[:2].tolist() == [1.0, 1.0]


# --- budgets ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RULES])
def test_policies_with_a_budget_spend_it(name):
    sizes = np.array([1.0, 2.0, 0.5, 4.0])
    outcome = simulate(World(RATES, sizes=sizes), 9.0, policies=[name], horizon=200.0)[name]
    assert outcome.spent == pytest.approx(9.0, rel=0.03)
    assert outcome.spent == pytest.approx(float(outcome.elements.polls @ sizes) / outcome.duration)


def test_sizes_of_changes_are_part_of_the_budget_of_a_plan():
    world = World(RATES, change_sizes=np.array([5.0, 1.0, 2.0, 3.0]))
    result = simulate(world, 9.0, policies=["optimal"], horizon=4000.0)
    assert result["optimal"].spent == pytest.approx(9.0, rel=0.02)


def test_a_plan_and_its_frequencies_are_the_same_policy():
    best = plan(RATES, 4.0)
    result = run({"a plan": best, "its schedule": Schedule(best, seed=3), "by name": "optimal"})
    same(result["a plan"], result["its schedule"])
    same(result["a plan"], result["by name"])
    assert result["a plan"].expected is not None
    assert result["a plan"].expected.freshness == pytest.approx(result["by name"].expected.freshness)


def test_a_rule_by_name_or_as_it_is():
    result = run({"one": RULES["heritrix"], "other": "heritrix"})
    same(result["one"], result["other"])


def test_policies_can_have_any_name():
    result = run({"ours": "optimal", "theirs": "uniform"})
    assert list(result) == ["ours", "theirs"]
    assert result["ours"].name == "ours"
    assert "optimal" not in result
    assert len(result) == 2
    assert repr(result["ours"]).startswith("<ours: freshness 0.")
    with pytest.raises(KeyError, match="no policy 'optimal' was simulated; there are 'ours', 'theirs'"):
        result["optimal"]


def test_windows_and_groups_hold_for_planned_policies():
    class Mornings:
        @staticmethod
        def worked(t):
            return np.floor(t) + np.minimum(2.0 * (np.asarray(t, float) - np.floor(t)), 1.0)

        @staticmethod
        def when(v):
            return np.floor(v) + (np.asarray(v, float) - np.floor(v)) / 2.0

    free = run(["uniform"], rates=np.full(4, 2.0), budget=16.0)["uniform"]
    held = run(["uniform"], rates=np.full(4, 2.0), budget=16.0, windows=Mornings())["uniform"]
    some = run(
        ["uniform"],
        rates=np.full(4, 2.0),
        budget=16.0,
        windows={"am": Mornings()},
        groups=["am", "am", "x", "x"],
    )["uniform"]
    assert held.polls == pytest.approx(free.polls, abs=8)
    assert held.freshness < free.freshness - 0.05
    assert_array_equal(some.elements.freshness[2:], free.elements.freshness[2:])
    assert_array_equal(some.elements.freshness[:2], held.elements.freshness[:2])
    assert held.expected is None


def test_progress_is_told_the_time():
    seen = []
    run(["uniform"], progress=seen.append, batches=10)
    assert seen == sorted(seen)
    assert seen[-1] == 90.0
    assert len(seen) >= 11


# --- edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_edges_have_answers(name):
    def one(rates, budget=1.0, **options):
        outcome = simulate(rates, budget, policies=[name], horizon=60.0, seed=1, **options)[name]
        assert 0.0 <= outcome.freshness <= 1.0
        assert np.isfinite(
            [outcome.age, outcome.missed_updates, outcome.spent, outcome.freshness_error]
        ).all()
        assert np.isfinite(outcome.lag([0.0, 0.5, 1.0])).all()
        assert np.isnan(outcome.perceived_freshness)
        assert np.isnan(outcome.perceived_freshness_error)
        return outcome

    never = one([0.0, 0.0])  # nothing ever changes
    assert (never.freshness, never.age, never.changes, never.found) == (1.0, 0.0, 0, 0)
    assert never.lag(1.0) == 0.0
    assert one([2.0]).changes > 100
    assert one([0.0, 2.0]).elements.freshness[0] == 1.0
    assert one([1.0, 2.0], weights=[0.0, 1.0]).freshness > 0.0
    assert one([1e-12, 1.0]).freshness > 0.4
    assert one([1.0, 1e-300]).freshness > 0.4
    free = one([0.1, 1.0], 0.0)
    if name not in RULES:
        assert free.polls == 0
        assert free.elements.freshness.max() == 0.0


def test_a_record_of_a_single_change():
    outcome = simulate(World.recorded([0], [1.0], end=2.0), 1.0, policies=["uniform"])["uniform"]
    assert outcome.changes == 1


def test_other_laws_are_simulated_too():
    for world in (
        Gamma(np.full(5, 0.5), 2.0),
        [Poisson(1.0), Weibull(0.5, 1.0), Empirical([1.0, 3.0]), Periodic(0.3)],
        Empirical([0.5, 1.0]),
    ):
        result = simulate(world, 5.0, policies=["uniform", "proportional", "optimal"], horizon=50.0)
        for outcome in result.values():
            assert 0.0 < outcome.freshness < 1.0
            assert outcome.spent == pytest.approx(5.0, rel=0.1)


def test_very_short_and_very_long_runs():
    short = simulate([1.0], 1.0, policies=["uniform"], horizon=1e-9)["uniform"]
    assert short.polls == 0
    assert 0.0 <= short.freshness <= 1.0
    slow = simulate([1e-9], 1e-9, policies=["uniform"], horizon=1e12)["uniform"]
    fast = simulate([1.0], 1.0, policies=["uniform"], horizon=1e3)["uniform"]
    assert slow.freshness == pytest.approx(fast.freshness, rel=1e-6)


MISTAKES = [
    ({"rates": []}, "rates must not be empty"),
    ({"rates": [1.0, -2.0]}, "rates must be finite and >= 0; rates[1] is -2.0"),
    ({"rates": "abc"}, "rates must be a number; rates is 'abc'"),
    ({"budget": -1.0}, "budget must be finite and >= 0; budget is -1.0"),
    ({"budget": np.nan}, "budget must be finite and >= 0; budget is nan"),
    ({"budget": None}, "budget must be a number; budget is None"),
    *(
        ({"horizon": bad}, f"horizon must be finite and > 0; horizon is {float(bad)}")
        for bad in (0, -1, np.nan, np.inf)
    ),
    ({"horizon": None}, "horizon must be given: how long to simulate"),
    ({"burn_in": 90.0}, "burn_in must be shorter than the horizon, 90; burn_in is 90"),
    ({"burn_in": -1.0}, "burn_in must be finite and >= 0; burn_in is -1.0"),
    ({"batches": 1}, "batches must be a whole number >= 2; batches is 1"),
    ({"batches": 2.5}, "batches must be a whole number; batches is 2.5"),
    ({"seed": -1}, "seed must be a whole number >= 0; seed is -1"),
    ({"seed": 0.5}, "seed must be a whole number; seed is 0.5"),
    ({"weights": [1.0]}, "weights must be one number or one for each of the 4 elements; it has shape (1,)"),
    ({"weights": np.zeros(4)}, "weights must not all be 0"),
    ({"sizes": [1.0, 1.0, 0.0, 1.0]}, "sizes must be finite and > 0; sizes[2] is 0.0"),
    ({"accesses": -1.0}, "accesses must be finite and >= 0; accesses is -1.0"),
    ({"rates": World([1.0]), "weights": [1.0]}, "weights, sizes, accesses and rhythm belong to the World"),
    ({"rates": World([1.0])}, "weights, sizes, accesses and rhythm belong to the World"),
    ({"order": "sideways"}, "order must be one of 'fixed', 'random', 'purely-random'; order is 'sideways'"),
    ({"order": "sideways", "policies": ["nutch"]}, "order is 'sideways'"),
    ({"jitter": 2.0, "policies": ["nutch"]}, "jitter must be finite and >= 0 and <= 1; jitter is 2.0"),
    ({"windows": 3, "policies": ["nutch"]}, "windows must be a clock"),
    ({"groups": ["a"] * 4}, "groups need windows for each group"),
    ({"objective": "beauty"}, "objective must be one of 'freshness', 'age'"),
    ({"objectives": ["beauty"]}, "objective is 'beauty'"),
    ({"objectives": "age"}, "objectives must be a list"),
    ({"objectives": None}, "objectives must be a list"),
    ({"conditions": 3}, "conditions must be Conditions(late=..., takes=..., fails=...); it is 3"),
    ({"unit": "fortnight"}, "unit"),
    ({"progress": 3}, "progress must be a function"),
    ({"policies": []}, "policies must not be empty"),
    ({"policies": {}}, "policies must not be empty"),
    ({"policies": "optimal"}, "policies must be a list of names, such as ['optimal']"),
    ({"policies": None}, "policies must be a list of names"),
    ({"policies": ["optimall"]}, "policies must be one of 'uniform', 'proportional'"),
    ({"policies": [3]}, "policies is 3"),
    ({"policies": {"ours": "optimall"}}, "policies['ours'] must be one of 'uniform'"),
    ({"policies": {"ours": None}}, "policies['ours'] must be a name, a plan, a schedule, a rule or a policy"),
    ({"policies": {"ours": Schedule}}, "policies['ours'] must be a name"),
    ({"policies": {"ours": Schedule([1.0])}}, "a schedule of the 4 elements from time 0 on; it has 1"),
    ({"policies": {"ours": Schedule(np.ones(4), start=5.0)}}, "and is at 5"),
    ({"policies": {"ours": plan([1.0], 1.0)}}, "4 elements"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=[words for _, words in MISTAKES])
def test_a_mistake_is_named(options, words):
    with pytest.raises(InvalidInput) as caught:
        run(**{"policies": ["uniform"], **options})
    assert words in str(caught.value)


def test_a_schedule_cannot_be_two_policies():
    schedule = Schedule(np.ones(4))
    with pytest.raises(InvalidInput, match=r"policies\['b'\] is the same object as policies\['a'\]"):
        run({"a": schedule, "b": schedule})
    best = plan(RATES, 4.0)
    result = run({"a": best, "b": best, "c": "nutch", "d": "nutch"})
    same(result["a"], result["b"])
    same(result["c"], result["d"])


def test_a_record_ends_where_it_ends():
    world = World.recorded([0], [1.0], end=5.0)
    with pytest.raises(
        InvalidInput, match="horizon must not go beyond the record, which ends at 5; horizon is 6"
    ):
        simulate(world, 1.0, horizon=6.0)
    assert simulate(world, 1.0, horizon=4.0).horizon == 4.0
    assert simulate(world, 1.0).horizon == 5.0


def test_what_was_not_measured_is_not_known():
    outcome = run(["uniform"])["uniform"]
    with pytest.raises(InvalidInput, match="was not given to simulate"):
        outcome.cost(LOG)
    for wrong in (-1.0, 1.5):
        with pytest.raises(InvalidInput, match="shares must be"):
            outcome.lag(wrong)
    with pytest.raises(InvalidInput, match="lags must be"):
        outcome.within(-1.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda begin, _: Polls(np.array([begin]), np.array([7])), "elements of polls must be whole"),
        (lambda begin, _: Polls(np.array([begin]), np.array([-1])), "elements of polls"),
        (lambda begin, _: Polls(np.array([begin]), np.array([0.0])), "elements of polls"),
        (lambda begin, _: Polls(np.array([begin - 1.0]), np.array([0])), "times of polls must be"),
        (lambda _, end: Polls(np.array([end]), np.array([0])), "times of polls must rise"),
        (lambda begin, _: Polls(np.array([begin + 0.1, begin]), np.array([0, 0])), "times of polls"),
        (lambda *_: Polls(np.array([np.nan]), np.array([0])), "times of polls must be finite"),
        (lambda *_: Polls(np.array([1.0]), np.array([0, 1])), "a policy must return Polls"),
        (lambda *_: ([0.0], [0]), "a policy must return Polls"),
        (lambda *_: None, "a policy must return Polls; it returned None"),
        (lambda *_: Polls([0.0], [0]), "a policy must return Polls"),
    ],
)  # fmt: skip
def test_what_a_policy_returns_is_checked(make, words):
    class Wrong:
        step, now = 1.0, 0.0

        def polls(self, end):
            begin, self.now = self.now, end
            return make(begin, end)

        def learn(self, outcomes):
            pass

    class Stream:
        now, rate = 0.0, 1.0

        def __len__(self):
            return 4

        def until(self, end):
            begin, self.now = self.now, end
            return make(begin, end)

    for policy in (Wrong(), Stream()):
        with pytest.raises(InvalidInput) as caught:
            run({"it": policy})
        assert words.split(";")[0] in str(caught.value)


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, "a", None])
def test_a_policy_needs_a_step_forward(step):
    policy = Curious(4)
    policy.step = step
    with pytest.raises(InvalidInput, match="step must be"):
        run({"it": policy})


def test_a_step_below_the_resolution_of_time_is_refused():
    policy = Curious(4, step=1e-30)
    with pytest.raises(InvalidInput, match="step"):
        run({"it": policy})


def test_expect_says_what_is_wrong():
    world = World(RATES)
    for call, words in (
        (
            lambda: expect(world, [1.0]),
            "frequencies must be one for each of the 4 elements; it has shape (1,)",
        ),
        (lambda: expect(world, [1.0, 1.0, 1.0, -1.0]), "frequencies[3] is -1.0"),
        (lambda: expect(world, np.ones(4), "sideways"), "order is 'sideways'"),
        (lambda: expect(RATES, np.ones(4)), "world must be a World"),
    ):
        with pytest.raises(InvalidInput) as caught:
            call()
        assert words in str(caught.value)


def test_expect_by_weight():
    found = expect(World([0.0, 1.0, 2.0], weights=[1.0, 0.0, 3.0]), [0.0, 0.0, 2.0])
    assert found.elements["freshness"].tolist() == pytest.approx([1.0, 0.0, 1.0 - np.exp(-1.0)])
    assert found.freshness == pytest.approx(0.25 + 0.75 * (1.0 - np.exp(-1.0)))
    assert np.isfinite(found.age)  # an element without weight does not matter, however old
    assert found.elements["age"][1] == np.inf


# --- size ---------------------------------------------------------------------------------------------------

MEASURE = """
import resource, sys
import numpy as np
from unstale import SourcePenalty, UpdatePenalty, World, simulate
from unstale.schedule import Schedule
from unstale.simulation import simulator
simulator._SPAN = 1 << 16  # so that even a batch of the short run takes several spans
n, horizon, what = 10_000, float(sys.argv[1]), sys.argv[2]
world = World(np.full(n, 1.0), accesses=float(n))
if what == "plain":
    simulate(world, float(n), policies=["uniform", "nutch"], horizon=horizon)
elif what == "learning":
    simulate(world, float(n), policies=["estimated-proportional"], horizon=horizon)
elif what == "penalties":
    measured = [SourcePenalty("log(1+x)"), UpdatePenalty("x")]
    simulate(world, float(n), policies=["uniform"], horizon=horizon, objectives=measured)
elif what == "beyond the budget":
    simulate(World(np.full(n, 0.01)), 0.01, policies={"it": Schedule(np.full(n, 3.0))}, horizon=horizon)
elif what == "never polled":
    simulate(World(np.full(n, 1.0)), 0.0, policies=["uniform"], horizon=horizon)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def peak(horizon, what):
    """Most memory used at once by a run, in megabytes."""
    ran = subprocess.run(  # noqa: S603  (our own interpreter)
        [sys.executable, "-c", MEASURE, str(horizon), what], check=True, capture_output=True, text=True
    )
    return float(ran.stdout)


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    ["plain", "learning", "penalties", "beyond the budget", "never polled"],
)
def test_memory_does_not_grow_with_the_number_of_events(what):
    """Five times as many events would take 100 megabytes more if they were kept."""
    short, long = (peak(horizon, what) for horizon in (500.0, 2500.0))
    assert long < short + 30.0
