"""Policies with the same number of polls, on small histories."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import unstale
from unstale import InvalidInput, simulate
from unstale.lab import shootout as module
from unstale.lab import shootout_cells as cells
from unstale.lab.histories import Recorded, load, load_weights
from unstale.lab.shootout import POLICIES, Measured, shootout

DAYS = 60.0
RULES = ["heritrix"]


def record(rates, seed=1, days=DAYS):
    rng = np.random.default_rng(seed)
    counts = np.maximum(rng.poisson(np.asarray(rates) * days), 0)
    elements = np.repeat(np.arange(len(counts)), counts)
    times = rng.random(counts.sum()) * days
    order = np.lexsort((times, elements))
    return Recorded(
        "made up",
        [f"e{i}" for i in range(len(counts))],
        elements,
        times[order],
        days,
        0.0,
        np.zeros(len(counts)),
    )


@pytest.fixture(scope="module")
def made_up():
    return record(np.random.default_rng(3).gamma(0.5, 0.8, 24))


@pytest.fixture(scope="module")
def played(made_up):
    return shootout(made_up, seeds=1, rules=RULES, steps=1000)


def test_all_cases_are_played(made_up, played):
    budgets = [made_up.rate / 4, made_up.rate, 4 * made_up.rate]
    assert [(case.objective, case.rule) for case in played.cases] == [
        (goal, rule) for goal in ("freshness", "age") for rule in (None, None, None, *RULES)
    ]
    assert [case.budget for case in played.cases[:3]] == pytest.approx(budgets)
    for case in played.cases:
        assert [row.policy for row in case.rows] == [*POLICIES, *([case.rule] if case.rule else [])]
    assert (played.elements, played.changes, played.days) == (24, made_up.times.size, DAYS)
    assert played.skipped == DAYS / 3
    assert not played.notes


def test_polls_are_equal(played):
    for case in played.cases:
        assert {"uniform", "learning"}.isdisjoint(
            case.unequal
        )  # the phases of others make a few more or less
        for row in case.rows:
            assert row.polls == pytest.approx(case.budget, rel=0.05), (case.rule, row.policy)
            assert (row.policy in case.unequal) == (abs(row.polls / case.budget - 1.0) > 0.01)
        if case.rule:
            assert case[case.rule].polls == pytest.approx(case.budget, rel=1e-12)


def test_unequal_polls_are_told(played):
    case = played.cases[0]
    for share, expected in ((1.009, []), (1.011, ["uniform"]), (0.989, ["uniform"])):
        row = replace(case["uniform"], polls=share * case.budget)
        assert replace(case, rows=(row,)).unequal == expected


def test_policies_plan_for_the_objective(played):
    fresh, age = ([case for case in played.cases if case.objective == goal] for goal in ("freshness", "age"))
    for name in ("optimal", "optimal-law"):
        perceived, ages = (
            [np.mean([getattr(case[name], measure).value for case in cases]) for cases in (fresh, age)]
            for measure in ("perceived", "age")
        )
        assert perceived[0] > perceived[1]
        assert ages[0] > ages[1]
    for one, other in zip(fresh, age, strict=True):
        for measure in ("polls", "freshness", "age", "perceived"):
            assert getattr(one["uniform"], measure) == getattr(other["uniform"], measure)


def test_those_who_know_are_ahead_and_leads_are_paired(played):
    for case in played.cases:
        lead = case["optimal"].ahead["uniform"]
        assert lead.value > 0
        one, other = (
            getattr(case[name], "age" if case.objective == "age" else "perceived")
            for name in ("optimal", "uniform")
        )
        sign = -1 if case.objective == "age" else 1
        assert lead.value == pytest.approx(sign * (one.value - other.value))
        assert "uniform" not in case["uniform"].ahead
        assert set(case["uniform"].ahead) == ({case.rule} if case.rule else set())
        assert lead.margin == pytest.approx(1.6449 * lead.error)


def test_without_weights_what_is_perceived_is_freshness(played):
    for case in played.cases:
        for row in case.rows:
            assert row.perceived.value == pytest.approx(row.freshness.value, rel=1e-9)
            assert row.perceived.error == pytest.approx(row.freshness.error, rel=1e-6)


def test_weights(made_up):
    weights = np.where(np.arange(24) < 6, 10.0, 0.1)
    options = {"objectives": ["freshness"], "rules": [], "policies": ["optimal"]}
    played = shootout(made_up, seeds=1, weights=weights, **options)
    assert played.weighted
    for case in played.cases:
        assert case["optimal"].perceived.value > case["uniform"].perceived.value
        assert case["optimal"].freshness.value < case["optimal"].perceived.value
        assert case["uniform"].freshness.error > 0


def test_polls_for_the_same(played):
    for case in played.cases:
        reference = case[case.reference]
        assert reference.needed.polls == reference.polls
        assert reference.needed.bound == ""
        needed = case["optimal"].needed
        assert needed.bound == "<" or needed.polls < 1.01 * reference.polls
    middle = next(case for case in played.cases if case.rule is None and case.budget > played.cases[0].budget)
    needed = middle["optimal"].needed
    assert needed.bound == ""
    assert played.cases[0].budget < needed.polls < middle.budget


class Curve:
    """A case of one policy."""

    def __init__(self, polls, reached):
        self._polls, self._reached = polls, reached

    def __contains__(self, name):
        return True

    def polls(self, _name):
        return self._polls

    def reached(self, _name):
        return self._reached


def test_polls_are_interpolated_by_their_logarithm():
    cases = [Curve(16.0, 0.9), Curve(1.0, 0.5), Curve(4.0, 0.7)]
    assert module._needed("x", 0.6, cases).polls == pytest.approx(2.0)
    assert module._needed("x", 0.8, cases).polls == pytest.approx(8.0)
    assert module._needed("x", 0.4, cases) == module.Needed(1.0, "<")
    assert module._needed("x", 0.95, cases) == module.Needed(16.0, ">")


def test_errors_of_time_and_of_seeds_add_up():
    assert module._measured([(0.5, 0.1)]) == Measured(0.5, 0.1)
    joined = module._measured([(0.4, 0.1), (0.6, 0.1)])
    assert joined.value == pytest.approx(0.5)
    assert joined.error == pytest.approx(np.sqrt(0.1**2 + 0.02 / 2))


def test_contests_are_those_with_uniform_and_with_rules(played):
    contests = played.contests("proportional")
    assert len(contests) == 2 * (3 + 2 * len(RULES))
    for case, other, lead in contests:
        assert other in {"uniform", case.rule}
        assert case["proportional"].ahead[other] == lead
    assert played.contests("nobody") == []


def test_it_begins_when_half_of_the_elements_exist():
    base = record(np.full(30, 0.5))
    born = np.linspace(0.0, 58.0, 30)  # every other day
    kept = base.times >= born[base.elements]
    late = replace(base, elements=base.elements[kept], times=base.times[kept], born=born)
    there = late.since(30.0)
    assert len(there) == 16
    assert (there.end, there.begin, there.born.max()) == (30.0, 30.0 * 86400.0, 0.0)
    assert there.keys == late.keys[:16]
    for place in range(16):
        assert there.of(place) == pytest.approx(late.of(place)[late.of(place) > 30.0] - 30.0)
    weights = np.arange(30.0)
    options = {"seeds": 1, "rules": [], "objectives": ["freshness"], "policies": ["optimal"]}
    played = shootout(late, weights=weights, **options)
    assert (played.elements, played.later, played.changes) == (16, 14, there.times.size)
    assert (played.days, played.skipped) == (30.0, 10.0)
    assert shootout(there, weights=weights[:16], **options).cases == played.cases
    over = replace(late, born=np.full(30, 60.0))
    with pytest.raises(InvalidInput, match="when half of its elements exist, nothing changes any more"):
        shootout(over, seeds=1)


def test_those_who_learn_have_no_more_polls_than_the_rule_before_measuring_begins():
    stage = cells.Stage(record(np.full(40, 0.3)), None, DAYS / 3)
    pace = cells.Pace(4.0, 20.0)
    world, _ = stage.shuffled(1)
    names = ["learning", "aduana", "estimated-optimal"]
    assert set(cells._learners(names, world, "freshness", pace, stage.burn_in, 1)) == set(names)
    counted = {
        begin: simulate(
            world, 20.0, policies=cells._learners(names, world, "freshness", pace, DAYS / 3, 1), seed=1,
            burn_in=begin,
        )
        for begin in (0.0, DAYS / 3)
    }  # fmt: skip
    for name in names:
        every, measured = (counted[begin][name].polls for begin in (0.0, DAYS / 3))
        assert measured == pytest.approx(20.0 * 2 * DAYS / 3, rel=0.06)
        assert every - measured == pytest.approx(4.0 * DAYS / 3, rel=0.25)
    early, late = cells.pace_of(stage, "nutch-default", 1)
    assert early * DAYS / 3 + late * 2 * DAYS / 3 == pytest.approx(40 * 2, abs=1)  # every 30 days


def test_polls_for_the_same_are_those_of_the_formulas():
    """Against exact freshness of Poisson elements, at budgets a factor of four apart."""
    rates = np.random.default_rng(2).gamma(0.5, 2.0, 60)
    budgets = [60.0 / 4, 60.0, 240.0]

    def exact(policy):
        return [unstale.plan(rates, budget, policy=policy).freshness for budget in budgets]

    def cases(policy):
        played = [
            {policy: (b, {"perceived": (f, 0.0)}, {})} for b, f in zip(budgets, exact(policy), strict=True)
        ]
        return [module._Played("freshness", None, b, [one]) for b, one in zip(budgets, played, strict=True)]

    for policy in ("proportional", "optimal"):
        for budget, fresh in zip(budgets[1:2], exact("uniform")[1:2], strict=True):
            target = float(np.log(fresh / (1.0 - fresh)))
            found = module._needed(policy, target, cases(policy)).polls
            true = unstale.budget_for(rates, freshness=fresh, policy=policy)
            assert found == pytest.approx(true, rel=0.05), budget


def test_too_few_polls_are_refused_or_left_out():
    short = record(np.full(12, 0.5), days=18.0)
    with pytest.raises(InvalidInput, match="polls a day elements are polled less than once"):
        shootout(short, seeds=1, budgets=[0.5])
    played = shootout(short, seeds=1, rules=["nutch-default"], policies=["optimal"], objectives=["freshness"])
    assert [case.rule for case in played.cases] == [None, None, None]
    assert "nutch-default: left out" in played.notes[0]
    with pytest.raises(InvalidInput, match="too short"):
        shootout(record(np.full(12, 0.01), days=12.0, seed=4), seeds=1, rules=[], skip=0.5)


def test_a_lead_of_rounding_errors_is_none(made_up):
    played = shootout(made_up, seeds=1, rules=["nutch-default"], policies=["optimal"], budgets=[9.0])
    assert all(lead.value == 0.0 or abs(lead.value) > 1e-12 for *_, lead in played.contests("optimal"))


def test_several_processes_find_the_same(made_up):
    options = {"budgets": [5.0], "seeds": 2, "objectives": ["freshness"], "rules": ["heritrix"]}
    told = []
    alone = shootout(made_up, policies=["optimal"], advance=told.append, **options)
    assert sum(told) == pytest.approx(1.0)
    together = shootout(made_up, policies=["optimal"], jobs=2, **options)
    assert together == alone
    assert pickle.loads(pickle.dumps(alone)) == alone  # noqa: S301


def test_elements_that_change_once_or_never():
    times = np.linspace(10.0, 90.0, 9)
    once = Recorded("once", [f"e{i}" for i in range(12)], np.arange(9), times, 100.0, 0.0, np.zeros(12))
    played = shootout(once, seeds=1, rules=["nutch"])
    for case in played.cases:
        for row in case.rows:
            assert 0.0 <= row.freshness.value <= 1.0
            assert np.isfinite([row.freshness.error, row.age.value, row.age.error, row.needed.polls]).all()


def test_elements_that_no_longer_exist():
    rng = np.random.default_rng(1)
    short = np.sort(rng.random(30)) * 20.0
    long = np.sort(rng.random(30)) * 100.0
    gone = Recorded(
        "gone", ["a", "b"], np.repeat([0, 1], 30), np.concatenate([short, long]), 100.0, 0.0, np.zeros(2)
    )
    played = shootout(gone, seeds=1, rules=["heritrix"], skip=0.5, policies=["learning"], steps=2000)
    assert all(case["learning"].freshness.value > 0.3 for case in played.cases)


def test_laws_are_for_some_and_memory_for_some_polls(monkeypatch):
    many = record(np.full(2001, 0.05), days=20.0)
    played = shootout(many, seeds=1, rules=[], objectives=["freshness"], policies=["optimal-law"])
    assert played.notes == ("optimal-law is left out: it is for 2,000 elements at most.",)
    assert [row.policy for row in played.cases[0].rows] == ["uniform"]
    monkeypatch.setattr(cells, "MOST_POLLS", 100.0)
    few = record(np.full(10, 0.5))
    played = shootout(few, seeds=1, rules=[], objectives=["freshness"], policies=["estimated-optimal"])
    assert "estimated-optimal is left out where there are more than" in played.notes[0]
    assert [row.policy for row in played.cases[-1].rows] == ["uniform"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"skip": 1.0}, "skip must be finite and >= 0 and < 1"),
        ({"seeds": 0}, "seeds must be a whole number >= 1"),
        ({"objectives": ["fresh"]}, "objectives must be one of 'freshness', 'age'"),
        ({"policies": ["best"]}, "policies must be one of"),
        ({"rules": ["cron"]}, "rules must be one of"),
        ({"budgets": [0.0]}, "budgets must be finite and > 0"),
        ({"jobs": 0}, "jobs must be a whole number >= 1"),
        ({"weights": [1.0]}, "weights must be one number or one for each of the 24 elements"),
    ],
)
def test_bad_arguments(made_up, options, message):
    with pytest.raises(InvalidInput, match=message):
        shootout(made_up, **options)


# --- weights of elements ------------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("element,t\na,0\nb,0\nc,0\na,86400\n")
    return load(str(path))


def test_weights_by_key(three, tmp_path):
    path = tmp_path / "weights.csv"
    path.write_text("key,weight\nc,2\na,0.5\nx,9\n")
    assert load_weights(str(path), three).tolist() == [0.5, 0.0, 2.0]
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    file = str(tmp_path / "weights.parquet")
    pq.write_table(pa.table({"id": ["a", "b"], "views": [None, 3.0]}), file)
    columns = {"key": "id", "weight": "views", "element": "unused"}
    numbers, numbered = str(tmp_path / "numbers.parquet"), replace(three, keys=["7", "8", "9"])
    pq.write_table(pa.table({"key": [9, 7], "weight": [2.0, 1.0]}), numbers)  # as elements may be
    assert load_weights(numbers, numbered).tolist() == [1.0, 0.0, 2.0]
    assert load_weights(file, three, columns).tolist() == [0.0, 3.0, 0.0]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,-1", "line 2, column 'weight': must be finite and >= 0"),
        ("a,much", "line 2, column 'weight': must be a number"),
        ("a,1\na,2", "line 3, column 'key': must be a key that does not come before"),
        ("x,1", "no element of history.csv has a weight there"),
        ("a,", "no element of history.csv has a weight there"),
    ],
)
def test_bad_weights(three, tmp_path, rows, message):
    path = tmp_path / "weights.csv"
    path.write_text(f"key,weight\n{rows}\n")
    with pytest.raises(InvalidInput, match=message):
        load_weights(str(path), three)


def test_the_mirror_itself_is_played(made_up):
    """With the real loop and a real store: as many polls but for what punctuality costs, and as fresh."""
    options = {"seeds": 2, "rules": [], "objectives": ["freshness"], "policies": ["learning", "mirror"]}
    (case,) = shootout(made_up, budgets=[made_up.rate], **options).cases
    mirror, learning = case["mirror"], case["learning"]
    assert 0.98 < mirror.polls / case.budget < 1.0
    assert mirror.freshness.value == pytest.approx(learning.freshness.value, abs=0.03)
    assert mirror.ahead["uniform"].value > 0.0


def test_learning_by_the_clock_polls_after_the_rush():
    """Tables that are filled once a night, each at its own time, and say when that was."""
    rng = np.random.default_rng(2)
    times = rng.uniform(0.1, 0.3, (12, 1)) + np.arange(30) + rng.normal(0.0, 0.003, (12, 30))
    elements = np.repeat(np.arange(12), 30)
    nightly = Recorded(
        "nightly", [f"e{i}" for i in range(12)], elements, times.ravel(), 30.0, 0.0, np.zeros(12)
    )
    policies = ["learning", "learning-by-the-clock"]
    (case,) = shootout(
        nightly, seeds=1, rules=[], objectives=["freshness"], policies=policies, budgets=[12.0], told=True
    ).cases
    timed, plain = case["learning-by-the-clock"], case["learning"]
    assert timed.polls <= 1.1 * case.budget
    assert timed.freshness.value > plain.freshness.value + 0.2
