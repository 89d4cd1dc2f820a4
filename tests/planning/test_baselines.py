"""The allocations of the papers that others are compared with: random-optimal, and by partitions."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import optimize

from unstale import kernels
from unstale.errors import InvalidInput
from unstale.planning import partitions as module
from unstale.planning.azar import algorithm_2, random_optimal, random_optimal_slots
from unstale.planning.partitions import Partitioning, partitioned
from unstale.poisson import discrete_freshness, freshness, perceived_freshness

SPENT = 1e-12  # relative error allowed in what a plan spends
KEYS = ("p", "rate", "p/rate", "pf", "pfs", "size")


def decades(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


def columns(draw, *entries, most=12):
    """Columns of equal length, with repeated entries now and then."""
    n = draw(st.integers(1, most))
    rows = draw(st.lists(st.tuples(*entries), min_size=n, max_size=n))
    copies = draw(st.lists(st.integers(0, n - 1), max_size=4))
    return [np.array(column) for column in zip(*(rows + [rows[i] for i in copies]), strict=True)]


@st.composite
def problems(draw, span=3.0):
    """Rates, weights, sizes and a budget; some rates and weights are 0, but not all weights."""
    wide = decades(-span, span)
    rates, weights, sizes = columns(draw, wide | st.just(0.0), wide | st.just(0.0), wide)
    if not weights.any():
        weights[0] = 1.0
    load = float(np.sum(rates * sizes)) or 1.0
    return rates, weights, sizes, load * draw(decades(-span, span))


def best(rates, weights, sizes, budget, counts):
    """Best frequencies at constant intervals, by bisection on the price."""
    wanted = (rates > 0) & (weights > 0)
    if not wanted.any():
        return np.full(rates.size, budget / np.sum(counts * sizes))

    def asked(log_price):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            unit = np.where(wanted, np.exp(log_price) * (sizes * rates / weights), 2.0)
            return rates / kernels.inverse_worth(kernels.FRESHNESS, kernels.FIXED, unit)

    def spent(frequencies):
        return np.sum(counts * sizes * frequencies)

    low, high = -300.0, 300.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if spent(asked(middle)) >= budget else (low, middle)
    more, less = asked(low), asked(high)
    spare = spent(more) - spent(less)
    mix = (budget - spent(less)) / spare if spare > 0 else 1.0
    chosen = mix * more + (1.0 - mix) * less
    return chosen * (budget / spent(chosen))


# --- random polls -------------------------------------------------------------------------------


@given(problems(span=9.0))
def test_random_optimal_spends_the_budget(problem):
    rates, weights, sizes, budget = problem
    f = random_optimal(*problem)
    assert (f >= 0).all()
    assert np.sum(sizes * f) == pytest.approx(budget, rel=SPENT)
    if ((rates > 0) & (weights > 0)).any():
        assert not f[(rates == 0) | (weights == 0)].any()


@given(problems())
def test_random_optimal_meets_the_price(problem):
    """Elements that are polled have the same worth per unit of size, the others no more."""
    rates, weights, sizes, _ = problem
    f = random_optimal(*problem)
    wanted = (rates > 0) & (weights > 0)
    worth = (weights * rates / sizes / np.where(wanted, f + rates, 1.0) ** 2)[wanted]
    polled = f[wanted] > 0
    if wanted.any():
        assert_allclose(worth[polled], worth.max(), rtol=1e-11)


@given(problems(span=6.0))
@settings(max_examples=30)
def test_random_optimal_against_sixty_digits(problem):
    """Each element's part of the budget is right to 1e-12 of the budget, however small the budget is."""
    rates, weights, sizes, budget = problem
    wanted = (rates > 0) & (weights > 0)
    if not wanted.any():
        return
    ours = (sizes * random_optimal(*problem) / budget)[wanted]
    with mpmath.workdps(60):
        rows = [
            [mpmath.mpf(x) for x in row]
            for row in zip(rates[wanted], weights[wanted], sizes[wanted], strict=True)
        ]
        loads, tops = [r * s for r, _, s in rows], [w / (r * s) for r, w, s in rows]
        order = sorted(range(len(rows)), key=lambda i: -tops[i])
        for k in range(len(order), 0, -1):
            active = order[:k]
            z = (mpmath.mpf(budget) + sum(loads[i] for i in active)) / sum(
                loads[i] * mpmath.sqrt(tops[i]) for i in active
            )
            if z * mpmath.sqrt(tops[active[-1]]) > 1:
                break
        exact = [float(max(0, loads[i] * (z * mpmath.sqrt(tops[i]) - 1) / budget)) for i in range(len(rows))]
    assert_allclose(ours, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_random_optimal_against_a_general_optimiser(seed):
    rng = np.random.default_rng(seed)
    rates, weights, sizes = rng.uniform(0.2, 3.0, (3, 6))
    budget = 2.0

    def staleness(f):
        return np.sum(weights * rates / (f + rates))

    found = optimize.minimize(
        staleness,
        np.full(6, budget / sizes.sum()),
        bounds=[(0, None)] * 6,
        constraints={"type": "eq", "fun": lambda f: sizes @ f - budget},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    ours = random_optimal(rates, weights, sizes, budget)
    assert staleness(ours) <= found.fun * (1 + 1e-12)
    assert_allclose(ours, found.x, atol=1e-4)


@given(problems(), decades(-3, 3), decades(-3, 3), decades(-3, 3))
def test_units_do_not_matter_to_random_optimal(problem, time, money, importance):
    rates, weights, sizes, budget = problem
    ours = random_optimal(rates * time, weights * importance, sizes * money, budget * time * money)
    theirs = random_optimal(rates, weights, sizes, budget)
    assert_allclose(ours * sizes / time, theirs * sizes, rtol=1e-9, atol=1e-11 * budget)


@given(problems())
def test_equal_elements_get_equal_frequencies(problem):
    rates, weights, sizes, budget = problem
    f = random_optimal(*(np.repeat(column, 2) for column in (rates, weights, sizes)), 2.0 * budget)
    assert_allclose(f[::2], f[1::2], rtol=1e-14)  # a vector and its rest may be rounded in other ways
    assert_allclose(f[::2] * sizes, random_optimal(*problem) * sizes, rtol=1e-9, atol=1e-11 * budget)


def test_random_optimal_for_one_element_and_for_none_that_changes():
    assert random_optimal([3.0], 2.0, 4.0, 10.0).tolist() == [2.5]
    assert random_optimal([0.0, 0.0], 1.0, [1.0, 3.0], 8.0).tolist() == [2.0, 2.0]
    assert random_optimal([0.0, 1.0, 2.0], [1.0, 0.0, 1.0], 1.0, 8.0).tolist() == [0.0, 0.0, 8.0]
    assert random_optimal([1.0, 2.0], 1.0, 1.0, 0.0).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("budget", [1e-250, 1e-20, 1.0, 1e20, 1e250])
def test_random_optimal_at_extremes(budget):
    rates, weights = np.array([1e-200, 1e-9, 1.0, 1e9, 1e200]), np.array([1e200, 1.0, 1e-200, 1e-9, 1.0])
    f = random_optimal(rates, weights, 1.0, budget)
    assert np.isfinite(f).all()
    assert f.sum() == pytest.approx(budget, rel=SPENT)


@given(problems(span=1.0))
def test_algorithm_2_agrees_where_its_totals_keep_their_digits(problem):
    rates, weights, _, budget = problem
    theirs = algorithm_2(rates, weights, budget)
    if (weights * rates).any():
        ours = random_optimal(rates, weights, 1.0, budget)
        assert_allclose(theirs, ours, rtol=0, atol=1e-9 * max(budget, rates.sum()))


# --- polls in slots -----------------------------------------------------------------------------


@st.composite
def slots(draw):
    """Probabilities of change, some of them 1, and weights, some of them 0."""
    change = st.floats(1e-6, 1.0) | st.just(1.0) | st.floats(1e-12, 1e-6).map(lambda rest: 1.0 - rest)
    changes, weights = columns(draw, change, decades(-3, 3) | st.just(0.0))
    if not weights.any():
        weights[0] = 1.0
    return changes, weights


@given(slots())
def test_one_element_is_polled_in_each_slot(problem):
    changes, weights = problem
    p = random_optimal_slots(*problem)
    assert ((p >= 0) & (p <= 1 + SPENT)).all()
    assert p.sum() == pytest.approx(1.0, rel=SPENT)
    assert not p[weights == 0].any()
    worth = weights * changes / (p + changes - p * changes) ** 2
    assert_allclose(worth[p > 0], worth.max(), rtol=1e-9)


@given(slots())
def test_slots_are_random_polls_at_other_rates_and_weights(problem):
    """p/(p+d-pd) is p/(p+r) times 1/(1-d), with the rate r = d/(1-d)."""
    changes, weights = (column[problem[0] < 0.999] for column in problem)
    if weights.any():
        ours = random_optimal_slots(changes, weights)
        theirs = random_optimal(changes / (1.0 - changes), weights / (1.0 - changes), 1.0, 1.0)
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


def test_slots_against_all_plans_on_a_grid():
    """Also with an element that changes in every slot."""
    first, second = np.meshgrid(np.linspace(0, 1, 401), np.linspace(0, 1, 401))
    kept = first + second <= 1
    plans = np.stack([first[kept], second[kept], 1 - first[kept] - second[kept]], axis=1).clip(0, 1)
    for changes in ([0.3, 0.6, 1.0], [0.3, 0.9, 0.5], [1.0, 1.0, 0.2]):
        for weights in ([1.0, 1.0, 1.0], [1.0, 3.0, 2.0], [0.1, 1.0, 5.0]):
            values = discrete_freshness(changes, plans) @ weights
            ours = discrete_freshness(changes, random_optimal_slots(changes, weights)) @ weights
            assert values.max() - 1e-12 <= ours <= values.max() + 1e-3


def test_elements_that_change_in_every_slot():
    assert random_optimal_slots([1.0, 1.0, 1.0], [2.0, 1.0, 2.0]).tolist() == [0.5, 0.0, 0.5]
    assert random_optimal_slots([1.0], 7.0).tolist() == [1.0]
    # the first is polled until a poll is worth no more than one of the second
    p = random_optimal_slots([0.25, 1.0], [1.0, 1.0])
    assert_allclose(p, [1 / 3, 2 / 3], rtol=SPENT)


# --- partitions ---------------------------------------------------------------------------------


policies = st.builds(
    Partitioning,
    key=st.sampled_from(KEYS),
    partitions=st.integers(1, 20),
    iterations=st.integers(0, 3),
    division=st.sampled_from(["bandwidth", "frequency"]),
    frequency=decades(-2, 2),
)


@given(policies, problems())
def test_partitions_spend_the_budget_and_do_not_beat_the_optimum(policy, problem):
    rates, weights, sizes, budget = problem
    f = partitioned(policy, *problem, best)
    assert (f >= 0).all()
    assert np.sum(sizes * f) == pytest.approx(budget, rel=SPENT)
    optimum = best(*problem, np.ones(rates.size))
    ours, ideal = (perceived_freshness(weights, rates, plan) for plan in (f, optimum))
    assert ours <= ideal + 1e-9


@given(st.sampled_from(KEYS), st.sampled_from(["bandwidth", "frequency"]), problems())
def test_as_many_partitions_as_elements_are_the_optimum(key, division, problem):
    rates, _, sizes, budget = problem
    f = partitioned(Partitioning(key, partitions=rates.size + 3, division=division), *problem, best)
    optimum = best(*problem, np.ones(rates.size))
    assert_allclose(f * sizes, optimum * sizes, rtol=1e-9, atol=1e-9 * budget)


@pytest.mark.parametrize("division", ["bandwidth", "frequency"])
@pytest.mark.parametrize("key", ["p", "pf", "pfs", "p/rate"])
def test_more_partitions_come_closer_to_the_optimum(key, division):
    rng = np.random.default_rng(1)
    rates, sizes = rng.gamma(2.0, 1.0, 1024), rng.pareto(2.0, 1024) + 0.5
    weights, budget = np.arange(1.0, 1025.0) ** -1.0, 500.0

    def fresh(partitions):
        policy = Partitioning(key, partitions, division=division)
        return perceived_freshness(weights, rates, partitioned(policy, rates, weights, sizes, budget, best))

    by_number = [fresh(partitions) for partitions in (1, 4, 16, 64, 1024)]
    assert (np.diff(by_number) > 0).all()


@given(problems())
def test_one_partition_is_uniform(problem):
    rates, _, sizes, budget = problem
    f = partitioned(Partitioning(partitions=1, division="frequency"), *problem, best)
    assert_allclose(f, budget / sizes.sum(), rtol=SPENT)
    f = partitioned(Partitioning(partitions=1, division="bandwidth"), *problem, best)
    assert_allclose(f * sizes, budget / rates.size, rtol=SPENT)


@given(st.integers(1, 60), st.integers(1, 80))
def test_partitions_are_cut_evenly_in_the_order_of_the_key(elements, partitions):
    key = np.random.default_rng(elements).permutation(elements).astype(float)
    labels = module._cut(key, partitions)
    counts = np.bincount(labels)
    assert counts.size == min(elements, partitions)
    assert counts.max() - counts.min() <= 1
    assert (np.diff(labels[np.argsort(key)]) >= 0).all()


def test_keys():
    rates, weights, sizes = np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), np.array([2.0, 0.5, 4.0])
    expected = {
        "p": weights,
        "rate": rates,
        "p/rate": [np.inf, 3.0, 2.5],
        "pf": weights * freshness(rates, 0.7),
        "pfs": weights * freshness(rates, 0.7 / sizes),
        "size": sizes,
    }
    for key, values in expected.items():
        assert_allclose(module._key(Partitioning(key, frequency=0.7), rates, weights, sizes), values)


def lloyd(labels, points, iterations):
    """Plain k-means."""
    for _ in range(iterations):
        centres = np.array([points[labels == label].mean(axis=0) for label in np.unique(labels)])
        labels = np.argmin(((points[:, None] - centres) ** 2).sum(axis=2), axis=1)
    return np.unique(labels, return_inverse=True)[1]


@pytest.mark.parametrize("iterations", [1, 2, 5, 40])
def test_refinement_is_plain_k_means(iterations):
    rng = np.random.default_rng(iterations)
    values = tuple(rng.lognormal(0.0, 2.0, (3, 300)))
    labels = module._cut(values[0], 20)
    points = np.transpose([column / column.sum() for column in values])
    assert (module._refined(labels, values, iterations) == lloyd(labels, points, iterations)).all()


def test_refinement_joins_equal_elements():
    ones = np.ones(10)
    f = partitioned(Partitioning(partitions=5, iterations=1), ones, ones, ones, 5.0, best)
    assert_allclose(f, 0.5, rtol=SPENT)


# --- what cannot be used ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (random_optimal, ([1.0, -0.2], 1.0, 1.0, 1.0), r"rates must be finite and >= 0; rates\[1\] is -0.2"),
        (random_optimal, ([], 1.0, 1.0, 1.0), "rates must not be empty; give at least one number"),
        (random_optimal, ([[1.0]], 1.0, 1.0, 1.0), r"rates must be one-dimensional; it has shape \(1, 1\)"),
        (random_optimal, ([1.0], [1.0, 2.0], 1.0, 1.0), "weights must be one number or as many as rates"),
        (random_optimal, ([1.0], 0.0, 1.0, 1.0), "weights must not all be 0"),
        (random_optimal, ([1.0], 1.0, [0.0], 1.0), r"sizes must be finite and > 0; sizes\[0\] is 0.0"),
        (random_optimal, ([1.0], 1.0, 1.0, -1.0), "budget must be finite and >= 0; budget is -1.0"),
        (
            random_optimal_slots,
            ([0.5, 0.0], 1.0),
            r"changes must be finite and > 0 and <= 1; changes\[1\] is 0.0",
        ),
        (random_optimal_slots, ([1.5], 1.0), r"changes must be finite and > 0 and <= 1; changes\[0\] is 1.5"),
        (random_optimal_slots, ([0.5], [1.0, 1.0]), "weights must be one number or as many as changes"),
        (algorithm_2, ([1.0], 1.0, 0.0), "budget must be finite and > 0; budget is 0.0"),
        (Partitioning, ("q",), "key must be one of 'p', 'rate', 'p/rate', 'pf', 'pfs', 'size'; key is 'q'"),
        (Partitioning, ("p", 0), "partitions must be a whole number >= 1; partitions is 0"),
        (Partitioning, ("p", 2.5), "partitions must be a whole number; partitions is 2.5"),
        (Partitioning, ("p", 2, -1), "iterations must be a whole number >= 0; iterations is -1"),
        (Partitioning, ("p", 2, 0, "even"), "division must be one of 'bandwidth', 'frequency'"),
        (Partitioning, ("p", 2, 0, "bandwidth", 0.0), "frequency must be finite and > 0; frequency is 0.0"),
    ],
)
def test_bad_input_is_named(function, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        function(*arguments)
