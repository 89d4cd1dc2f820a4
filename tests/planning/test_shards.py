"""Plans over shards: the same price as one plan for all, wherever and in whatever order the shards are."""

import functools
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from unstale import InvalidInput, Pareto, Poisson, UncertainPoisson, Weibull, currency, plan, plan_shards
from unstale.planning import summary_of

from .instances import EVERYTHING, ORDERS, Instance, decades, instances

OBJECTIVES = ("freshness", "age", "harmonic")
SAME = 1e-9  # relative distance of prices
SPENT = 1e-9
SOME = max(2, settings().max_examples // 4)
rng = np.random.default_rng


def cut(columns, count, by=None):
    """Cut columns into shards: in order of a key, or as they come."""
    n = len(columns["rates"])
    order = np.arange(n) if by is None else np.argsort(columns[by])
    pieces = np.array_split(order, count)
    return [
        {name: np.asarray(value)[piece] if np.ndim(value) else value for name, value in columns.items()}
        for piece in pieces
    ]


def elements(n=3000, seed=1, **more):
    rates, weights, sizes = 10.0 ** rng(seed).uniform(-2, 2, (3, n))
    return {"rates": rates, "weights": weights, "sizes": sizes, **more}


def assert_as_one(shards, whole, budget, **options):
    """A plan over shards is the plan for all of them: same price, same cost, and the budget is spent."""
    arguments = {name: value for name, value in whole.items() if name != "rates"}
    goal = {name: value for name, value in options.items() if name != "executor"}
    found, one = plan_shards(shards, budget, **options), plan(whole["rates"], budget, **arguments, **goal)
    assert found.price == pytest.approx(one.price, rel=SAME)
    assert found.spent == pytest.approx(one.spent, rel=SPENT)
    assert found.budget == budget
    f = np.concatenate([found.frequencies(shard) for shard in shards])
    instance = Instance(
        whole["rates"], budget, goal.get("objective", "freshness"), goal.get("order", "fixed")
    )
    instance.options = arguments
    assert np.sum(instance.spending(f)) == pytest.approx(found.spent, rel=SPENT)
    cost = instance.cost(f)
    assert cost == pytest.approx(one.cost, rel=SAME)
    scale = one.cost + one.price * budget / np.sum(instance.column("weights"))
    assert 0 <= found.gap <= 1e-8 * scale
    assert one.cost - one.gap <= cost * (1.0 + SPENT)
    assert cost - found.gap <= one.cost * (1.0 + SPENT)
    return found


# --- summaries --------------------------------------------------------------------------------------


def totals(summary):
    """Sums over the cells that do not depend on how elements are put into cells."""
    out = []
    for part in summary.cells.parts:
        count, weight, size, rate = (part.column(name) for name in ("count", "weight", "size", "rate"))
        out.append(((count * weight).sum(), (count * size * rate).sum()))
    return np.sum(out, axis=0)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_summaries_can_be_added_in_any_order(objective, order):
    goal = {"objective": objective, "order": order}
    a, b, c = (summary_of(**elements(700, seed), **goal) for seed in (1, 2, 3))
    first = (a + b) + c
    for other in (a + (b + c), (c + b) + a, b + c + a):
        assert_allclose(totals(other), totals(first), rtol=1e-12)
        for budget in (1e-3, 10.0, 1e5):
            left, right = first.outlook(budget), other.outlook(budget)
            assert right.price == pytest.approx(left.price, rel=1e-12)
            assert right.cost == pytest.approx(left.cost, rel=1e-12)
    assert_allclose(totals(first), totals(a) + totals(b) + totals(c), rtol=1e-12)


@settings(max_examples=SOME)
@given(
    st.lists(
        st.lists(st.tuples(decades(-6, 6), decades(-6, 6)), min_size=1, max_size=20), min_size=3, max_size=3
    ),
    decades(-3, 3),
)
def test_sums_of_any_summaries(parts, budget):
    a, b, c = (summary_of([r for r, _ in part], weights=[w for _, w in part]) for part in parts)
    left, right = (a + b) + c, c + (a + b)
    other = a + (b + c)
    assert_allclose(totals(left), totals(right), rtol=1e-12)
    assert_allclose(totals(left), totals(other), rtol=1e-12)
    assert left.outlook(budget).price == pytest.approx(right.outlook(budget).price, rel=1e-12)


def test_a_summary_foresees_what_a_plan_buys():
    columns = elements(20_000)
    summary = summary_of(**columns)
    assert len(summary.cells) < 20_000
    for budget in (1.0, 1e4, 1e7):
        one = plan(**columns, budget=budget)
        outlook = summary.outlook(budget)
        assert outlook.price == pytest.approx(one.price, rel=1e-3)
        assert outlook.cost == pytest.approx(one.cost, rel=1e-4)
        assert outlook.age == pytest.approx(one.age, rel=1e-2)


def test_summaries_of_other_goals_do_not_add_up():
    with pytest.raises(
        InvalidInput, match="must share objective and order; they are for freshness in fixed order"
    ):
        summary_of([1.0]) + summary_of([1.0], objective="age")
    with pytest.raises(InvalidInput, match="freshness in random order"):
        summary_of([1.0]) + summary_of([1.0], order="random")
    with pytest.raises(TypeError):
        summary_of([1.0]) + 1


# --- plans ------------------------------------------------------------------------------------------


@pytest.mark.every(4)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("objective", [*OBJECTIVES, "missed-updates"])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_the_price_is_that_of_one_plan(objective, order, count):
    columns = elements()
    for budget in (3.0, 3e4, 3e6):
        assert_as_one(cut(columns, count), columns, budget, objective=objective, order=order)


@pytest.mark.parametrize("key", ["rates", "weights", "sizes"])
def test_sorted_input(key):
    columns = elements(20_000)
    assert_as_one(cut(columns, 7, by=key), {**cut(columns, 1, by=key)[0]}, 1e5)


@pytest.mark.every(3)
@pytest.mark.parametrize("objective", [*OBJECTIVES, "missed-updates"])
@pytest.mark.parametrize(
    "more",
    [
        {"max_frequency": 0.5},
        {"min_frequency": 0.01, "max_frequency": 3.0},
        {"change_sizes": 2.0},
        {"change_sizes": 2.0, "min_frequency": 0.01},
    ],
    ids=" ".join,
)
def test_bounds_and_costly_changes(objective, more):
    columns = elements(300, **more)
    assert_as_one(cut(columns, 5), columns, 2e3, objective=objective)


@pytest.mark.parametrize("objective", [*OBJECTIVES, "missed-updates", currency(0.05)])
def test_idle_elements_and_shards_of_them(objective):
    columns = elements(900)
    columns["weights"][::3] = 0.0
    columns["rates"][1::7] = 0.0
    columns["weights"][300:600] = 0.0
    columns["min_frequency"] = np.full(900, 1e-3)
    assert_as_one(cut(columns, 3), columns, 300.0, objective=objective)


@settings(max_examples=SOME)
@given(
    instances(
        (*OBJECTIVES, "missed-updates"),
        [name for name in EVERYTHING if name != "groups"],
        budgets=(-3.0, 2.0),
    ),
    st.integers(1, 4),
)
def test_any_shards(instance, count):
    columns = {"rates": instance.rates, **instance.options}
    shards = cut(columns, count)
    found, one = (
        plan_shards(shards, instance.budget, objective=instance.objective, order=instance.order),
        instance.plan(),
    )
    f = np.concatenate([found.frequencies(shard) for shard in shards])
    assert found.spent == pytest.approx(one.spent, rel=SPENT)
    assert np.sum(instance.spending(f)) == pytest.approx(one.spent, rel=SPENT)
    assert instance.cost(f) == pytest.approx(one.cost, rel=1e-8)
    assert instance.cost(f) - found.gap <= one.cost * (1.0 + 1e-12)
    assert found.gap >= 0


def test_ties_that_the_budget_cuts_through():
    rates = np.tile([1.0, 2.0], 500)
    for budget in (1e-3, 1.0, 5.0, 20.0):
        assert_as_one(cut({"rates": rates}, 3), {"rates": rates}, budget)


def test_other_laws():
    laws = [Pareto([2.0, 3.0], 1.0), Weibull([0.7, 2.0], [1.0, 2.0]), UncertainPoisson([0.5, 3.0], 1.0)]
    shards = [{"rates": law, "weights": [1.0, 2.0]} for law in laws] + [{"rates": [1.0, 5.0]}]
    each = [law.element((i,)) for law in laws for i in range(2)]
    for objective in ("freshness", "age"):
        found = plan_shards(shards, 4.0, objective=objective)
        f = np.concatenate([found.frequencies(shard) for shard in shards])
        one = plan(
            [*each, Poisson(1.0), Poisson(5.0)], 4.0, weights=[1.0, 2.0] * 3 + [1.0, 1.0], objective=objective
        )
        assert_allclose(f, one.frequencies, rtol=1e-7)
        assert found.price == pytest.approx(one.price, rel=SAME)


def test_laws_of_several_kinds_in_one_shard():
    laws = [
        Poisson(1.0),
        UncertainPoisson(0.5, 3.0),
        Poisson(4.0),
        Pareto(3.0, 1.0),
        UncertainPoisson(2.0, 1.0),
    ]
    weights = [1.0, 2.0, 3.0, 0.5, 1.0]
    found = plan_shards([{"rates": laws, "weights": weights}], 3.0)
    one = plan(laws, 3.0, weights=weights)
    assert_allclose(found.frequencies({"rates": laws, "weights": weights}), one.frequencies, rtol=1e-7)


def test_known_and_uncertain_rates_as_one_law():
    rng, n = np.random.default_rng(5), 2000
    rate, shape = (
        rng.lognormal(0.0, 2.0, n),
        np.where(rng.random(n) < 0.5, 1e15, rng.gamma(2.0, 1.0, n) + 0.1),
    )
    law = UncertainPoisson(shape, rate / shape)
    found, one = plan_shards([{"rates": law}], 300.0), plan(law, 300.0)
    assert_allclose(found.frequencies({"rates": law}), one.frequencies, rtol=1e-5, atol=1e-8)
    assert found.outlook(600.0).cost == pytest.approx(plan(law, 600.0).cost, rel=1e-5)


def test_elements_without_any_change():
    shards = [{"rates": [0.0, 0.0]}, {"rates": [0.0]}]
    found = plan_shards(shards, 3.0)
    assert found.spent == pytest.approx(3.0)
    assert [found.frequencies(shard).tolist() for shard in shards] == [[1.0, 1.0], [1.0]]


def test_budgets_at_the_ends():
    shards = [
        {"rates": [1.0, 2.0], "min_frequency": 0.5, "max_frequency": 1.0},
        {"rates": [3.0], "max_frequency": 2.0},
    ]
    least, most = plan_shards(shards, 1.0), plan_shards(shards, 99.0)
    assert [least.frequencies(shard).tolist() for shard in shards] == [[0.5, 0.5], [0.0]]
    assert [most.frequencies(shard).tolist() for shard in shards] == [[1.0, 1.0], [2.0]]
    assert (least.spent, most.spent, most.price, least.gap, most.gap) == (1.0, 4.0, 0.0, 0.0, 0.0)
    with pytest.raises(
        InvalidInput, match=r"budget must be at least 1, which min_frequency needs; budget is 0\.5"
    ):
        plan_shards(shards, 0.5)
    nothing = plan_shards([{"rates": [4.0, 5.0]}], 0.0)
    assert nothing.frequencies({"rates": [4.0, 5.0]}).tolist() == [0.0, 0.0]
    assert nothing.price == pytest.approx(0.25)


def test_shards_without_elements():
    shards = [{"rates": []}, {"rates": [1.0, 2.0]}, {"rates": np.empty(0), "weights": np.empty(0)}]
    found = plan_shards(shards, 1.0)
    assert found.price == pytest.approx(plan([1.0, 2.0], 1.0).price, rel=SAME)
    assert [found.frequencies(shard).size for shard in shards] == [0, 2, 0]


def test_a_shard_that_the_plan_has_not_seen():
    columns = elements(500)
    found = plan_shards(cut(columns, 4), 100.0)
    same = np.concatenate([found.frequencies(shard) for shard in cut(columns, 9)])
    assert_allclose(same, found.frequencies(columns), rtol=1e-12)


def test_outlooks_over_shards():
    columns = elements(5000)
    found = plan_shards(cut(columns, 4), 1e4)
    for budget in (1e2, 1e4, 1e6):
        one = plan(**columns, budget=budget)
        assert found.outlook(budget).price == pytest.approx(one.price, rel=1e-3)
        assert found.outlook(budget).freshness == pytest.approx(one.freshness, rel=1e-4)


# --- where the work is done -----------------------------------------------------------------------------


def load(seed):
    """A shard that is loaded where it is needed."""
    return elements(400, seed)


class Anew:
    """Shards that are read anew each time."""

    def __iter__(self):
        return (load(seed) for seed in range(5))


def in_processes():
    return ProcessPoolExecutor(2, mp_context=get_context("spawn"))


@pytest.mark.parametrize(
    "executor",
    [nullcontext, lambda: ThreadPoolExecutor(2), in_processes],
    ids=["none", "threads", "processes"],
)
def test_executors(executor):
    shards = [functools.partial(load, seed) for seed in range(5)]
    parts = [load(seed) for seed in range(5)]
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    expected = assert_as_one(parts, whole, 5e3)
    with executor() as pool:
        for given_shards in (shards, parts, Anew()):
            found = plan_shards(given_shards, 5e3, executor=pool)
            assert found.price == pytest.approx(expected.price, rel=1e-12)
            assert found.spent == pytest.approx(5e3, rel=SPENT)
            assert_allclose(found.frequencies(shards[2]), expected.frequencies(parts[2]), rtol=1e-9)


def in_a_cluster(**options):
    """A client of a Dask cluster on this machine."""
    from distributed import Client

    return Client(n_workers=2, threads_per_worker=1, dashboard_address=None, **options)


def load_and_note(log, seed):
    with log.open("a") as file:
        file.write(f"{seed} ")
    return load(seed)


def test_workers_of_a_cluster_load_each_shard_once(tmp_path):
    log = tmp_path / "log"
    parts = [load(seed) for seed in range(5)]
    expected = plan_shards(parts, 5e3)
    with in_a_cluster(processes=False) as client:
        shards = [functools.partial(load_and_note, log, seed) for seed in range(5)]
        found = plan_shards(shards, 5e3, executor=client)
        assert sorted(log.read_text().split()) == ["0", "1", "2", "3", "4"]
        assert found.price == pytest.approx(expected.price, rel=1e-12)
        again = plan_shards([*parts, {"rates": []}], 5e3, executor=client)
        assert again.price == pytest.approx(expected.price, rel=1e-12)
        there = client.submit(found.frequencies, functools.partial(load, 2)).result()
        assert_allclose(there, expected.frequencies(parts[2]), rtol=1e-9)
        with pytest.raises(InvalidInput, match=r"shards\[1\]: rates"):
            plan_shards([parts[0], {"rates": [-1.0]}], 1.0, executor=client)


@pytest.mark.long
def test_a_cluster_of_processes_finds_the_same():
    parts = [load(seed) for seed in range(5)]
    with in_a_cluster(processes=True) as client:
        found = plan_shards([functools.partial(load, seed) for seed in range(5)], 5e3, executor=client)
    assert found.price == pytest.approx(plan_shards(parts, 5e3).price, rel=1e-12)


def test_more_shards_than_are_handed_out_at_once():
    columns = elements(1000)
    with ThreadPoolExecutor(2) as pool:
        assert_as_one(cut(columns, 100), columns, 1e3, executor=pool)


# --- what is refused ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shards", "words"),
    [
        ([], ("shards must not be empty", "at least one")),
        ([{"rates": []}], ("shards must not be empty",)),
        (iter([{"rates": [1.0]}]), ("shards must be", "several times")),
        (({"rates": [1.0]} for _ in range(3)), ("shards must be", "several times")),
        (None, ("shards must be", "None")),
        (3, ("shards must be", "3")),
        ([3], ("a shard must be a mapping with rates", "int")),
        ({"rates": [1.0]}, ("a shard must be a mapping with rates", "str")),
        ([{"weights": [1.0]}], ("a shard must be a mapping with rates", "['weights']")),
        ([{"rates": [1.0], "groups": [0]}], ("a shard must be a mapping with rates", "groups")),
        ([lambda: 3], ("a shard must be a mapping with rates", "int")),
        ([{"rates": [1.0, -2.0]}], ("rates must be finite and >= 0", "rates[1] is -2.0")),
        ([{"rates": [1.0]}, {"rates": [1.0, np.nan]}], ("rates[1] is nan",)),
        ([{"rates": [1.0], "weights": [1.0, 2.0]}], ("weights must be one number or one for each",)),
        ([{"rates": [1.0], "sizes": [0.0]}], ("sizes must be finite and > 0", "sizes[0] is 0.0")),
        ([{"rates": [1.0], "min_frequency": 2.0, "max_frequency": 1.0}], ("min_frequency must not exceed",)),
        (
            [{"rates": [1.0], "weights": [0.0]}, {"rates": [1.0], "weights": 0.0}],
            ("weights must not all be 0",),
        ),
    ],
)
@pytest.mark.parametrize("threads", [False, True])
def test_bad_shards(shards, words, threads):
    if threads and hasattr(shards, "send"):
        shards = (shard for shard in ())
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidInput) as caught:
        plan_shards(shards, 1.0, executor=pool if threads else None)
    for word in words:
        assert word in str(caught.value)
