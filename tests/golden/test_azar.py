"""Azar et al. (2018): random polls, and what their best rates are worth at constant intervals."""

import numpy as np

from unstale import plan
from unstale.planning.azar import algorithm_2, random_optimal, random_optimal_slots
from unstale.poisson import (
    burn_in,
    curve_peak,
    decaying_freshness,
    discrete_decaying_freshness,
    discrete_freshness,
    freshness,
    perceived_freshness,
)

from .records import EXACT, grid, records, same


@records("azar-eq3")
def test_freshness_in_slots(record):
    """Equation 3."""
    same(discrete_freshness(record["given"]["change"], record["given"]["poll"]), record["value"])


@records("azar-eq8")
def test_derivatives_of_freshness_in_slots(record):
    """Equation 8, by differences."""
    d, p, h = record["given"]["change"], record["given"]["poll"], 1e-4
    low, middle, high = discrete_freshness(d, [p - h, p, p + h])
    busy = p + d - p * d
    same((high - low) / (2 * h) - d / busy**2, record["value"], atol=1e-6)
    same((high - 2 * middle + low) / h**2 + 2 * d * (1 - d) / busy**3, record["value"], atol=1e-5)


@records("azar-eq5")
def test_freshness_under_random_polls(record):
    """Equation 5, and the equal formula of remark 4."""
    rate, frequency = record["given"]["rate"], record["given"]["frequency"]
    ours = [f(rate, frequency, "purely-random") for f in (freshness, decaying_freshness)]
    same(np.array(ours) - frequency / (frequency + rate), record["value"], atol=1e-15)


@records("azar-ineq")
def test_constant_intervals_are_never_worse_than_random_ones(record):
    """Derandomising: (1-e^-x)/x >= 1/(1+x)."""
    x = grid(record["given"]["ratios"])
    excess = freshness(x, 1.0) - freshness(x, 1.0, "purely-random")
    assert record["value"] is bool((excess >= -1e-15).all())  # both are near 1 where polls are frequent


@records("azar-remark4")
def test_decaying_freshness_in_slots(record):
    """Remark 4 gives the formula for continuous time; in slots it is another."""
    decay, p, value = record["given"]["decay"], record["given"]["poll"], record["value"]
    ours = discrete_decaying_freshness(decay, p)
    same(ours, value["slot_start"])
    same(-np.expm1(-decay), value["problem1_with_D"])
    same(discrete_freshness(value["problem1_with_D"], p), value["p_over"])
    same(decaying_freshness(decay, p, "purely-random"), value["continuous"])
    assert abs(ours - value["continuous"]) > 0.1


@records("azar-burnin")
def test_slots_to_burn_in(record):
    """Proofs."""
    given = record["given"]
    slots = burn_in(given["change"], given["error"])
    assert slots == record["value"]
    for p in (1e-9, 0.1, 0.9):
        late = discrete_freshness(given["change"], p, slots) / discrete_freshness(given["change"], p)
        assert 1.0 - late <= given["error"]


@records("azar-guarantee")
def test_least_freshness_of_random_over_constant_intervals(record):
    """What rates for random polls are worth at the least when played at constant intervals."""
    least, at = record["value"]

    def ratio(x):
        return freshness(x, 1.0, "purely-random") / freshness(x, 1.0)

    same(ratio(at), least)
    assert (ratio(grid([1e-6, 1e6])) >= least * (1 - EXACT)).all()
    rate, frequency = curve_peak(1.0)
    same(rate / frequency, at)


@records("azar-alg1")
def test_poll_probabilities_in_slots_are_optimal(record):
    """Algorithm 1: pages polled have the same worth, the others no more, and one is polled in each slot."""
    given, rng = record["given"], np.random.default_rng(1)
    violation = excess = 0.0
    for _ in range(given["instances"]):
        n = rng.integers(1, given["most"])
        change, weights = 1.0 - rng.random(n), 10.0 ** rng.uniform(-3, 3, n)
        p = random_optimal_slots(change, weights)
        worth = weights * change / (p + change - p * change) ** 2
        price = worth[p > 0].max()
        violation = max(violation, np.max(worth / price - 1), np.max(1 - worth[p > 0] / price))
        excess = max(excess, abs(p.sum() - 1.0))
        assert (p >= 0).all()
    same([violation, excess], record["value"], atol=EXACT)


@records("azar-alg2")
def test_plan_for_random_polls_is_optimal(record):
    """Algorithm 2: the frequencies have the closed form at the price, and spend the budget."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = rng.integers(1, 40)
        rates, weights = 10.0 ** rng.uniform(-3, 3, (2, n))
        budget = 10.0 ** rng.uniform(-2, 2) * rates.sum()
        best = plan(rates, budget, weights=weights, order="purely-random")
        closed = rates * np.maximum(np.sqrt(weights / (best.price * rates)) - 1.0, 0.0)
        same(best.frequencies.sum() / budget - 1.0, record["value"], atol=EXACT)
        same(np.abs(best.frequencies - closed).max() / budget, record["value"], atol=1e-10)


@records("azar-alg2-cancel")
def test_plan_survives_pages_that_drown_the_rest(record):
    """Algorithm 2 with running sums overspends by 7 % here; the plan does not."""
    (fast, light, count), (slow, weight) = record["given"]["fast"], record["given"]["slow"]
    rates, weights = [fast] * count + [slow], [light] * count + [weight]
    budget = record["given"]["budget"]
    best = plan(rates, budget, weights=weights, order="purely-random")
    running, right = record["value"]
    same(best.spent / budget, right)
    same(best.frequencies[-1] / budget, right)
    assert abs(best.spent / budget - running) > 0.07


@records("azar-alg2-tie")
def test_plan_at_a_tie(record):
    """Algorithm 2, line 4: pages exactly at the threshold get nothing."""
    given = record["given"]
    best = plan([given["rate"]] * 3, given["budget"], weights=given["weights"], order="purely-random")
    same(best.frequencies, record["value"], atol=1e-12)


@records("azar-alg2")
def test_both_ways_to_the_best_random_rates_agree(record):
    """Algorithm 2 as printed, and ours: equal where the running sums do no harm."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        rates, weights = 10.0 ** rng.uniform(-1, 1, (2, 40))
        budget = 10.0 ** rng.uniform(-1, 1) * rates.sum()
        ours, printed = random_optimal(rates, weights, 1.0, budget), algorithm_2(rates, weights, budget)
        best = plan(rates, budget, weights=weights, order="purely-random").frequencies
        same(np.abs(ours - printed).max() / budget, record["value"], atol=EXACT)
        same(np.abs(ours - best).max() / budget, record["value"], atol=1e-10)


@records("azar-alg2-cancel")
def test_running_sums_miss_the_budget(record):
    """Algorithm 2 as printed. By how much depends on the last digits of the fast rates: ours are not those of
    the record, which misses by 7 %.
    """
    (fast, light, count), (slow, weight) = record["given"]["fast"], record["given"]["slow"]
    rng, budget = np.random.default_rng(1), record["given"]["budget"]
    weights = [light] * count + [weight]
    misses = []
    for _ in range(10):
        rates = [*(fast * rng.uniform(0.5, 1.5, count)), slow]
        same(random_optimal(rates, weights, 1.0, budget).sum() / budget, record["value"][1])
        misses.append(abs(algorithm_2(rates, weights, budget).sum() / budget - 1.0))
    assert max(misses) > abs(record["value"][0] - 1.0) / 3


@records("azar-alg2-tie")
def test_random_rates_at_a_tie(record):
    """Algorithm 2, line 4."""
    given = record["given"]
    ours = random_optimal([given["rate"]] * 3, given["weights"], 1.0, given["budget"])
    same(ours, record["value"], atol=1e-12)


@records("azar-Lambda")
def test_not_every_feasible_restriction_is_optimal(record):
    """After claim 2: two feasible solutions of different value, of which the paper calls both optimal."""
    given = record["given"]
    ours = [np.dot(given["weights"], discrete_freshness(given["change"], polls)) for polls in given["polls"]]
    same(ours, record["value"])
    assert ours[0] > ours[1] + 0.3


def best_and_random(rates, weights, budget):
    """Best plan, best plan for random polls, and freshness of the latter's rates at constant intervals."""
    best = plan(rates, budget, weights=weights)
    random = plan(rates, budget, weights=weights, order="purely-random")
    return best, random, perceived_freshness(weights, rates, random.frequencies)


def ratio_to_best(rates, weights, budget):
    """Freshness of the best rates for random polls, played at constant intervals, over the best."""
    best, _, derandomised = best_and_random(rates, weights, budget)
    return derandomised / best.freshness


def ratios_to_best(rates, weights, budget):
    """Freshness of the best plan, and those of other plans relative to it."""
    best, random, derandomised = best_and_random(rates, weights, budget)
    others = (
        derandomised,
        random.freshness,
        perceived_freshness(weights, rates, plan(rates, budget).frequencies),
        plan(rates, budget, weights=weights, policy="uniform").freshness,
    )
    return [best.freshness, *(other / best.freshness for other in others)]


def random_pages(seed, given, utilities):
    """Change rates and utilities as Figure 1 draws them, with our own seeds."""
    rng = np.random.default_rng(seed)
    n = given["pages"]
    rates = 1.0 - rng.random(n)
    if utilities == "uniform":
        return rates, 1.0 - rng.random(n)
    ranks = np.arange(1.0, given["range"] + 1.0)
    weights = ranks ** -given["exponent"]
    return rates, rng.choice(ranks, n, p=weights / weights.sum())


@records("azar-fig1-uniform", "azar-fig1-zipf")
def test_random_rates_at_constant_intervals_reach_99_percent(record):
    """Figure 1 to sampling error: best freshness; relative to it, rates for random polls played at constant
    and at random intervals, best rates for equal weights, uniform rates.
    """
    given = record["given"]
    noise = {"uniform": 0.02, "zipf": 0.08}[given["utilities"]]  # with Zipf utilities a few pages weigh most
    pages = [random_pages(seed, given, given["utilities"]) for seed in range(8)]
    for budget, *expected in record["value"]:
        means = np.mean([ratios_to_best(*page, budget) for page in pages], axis=0)
        same(means, expected, rtol=0, atol=noise)
        same(means[1], expected[1], rtol=0, atol=3e-3)
        same(means[1], record["printed"], rtol=0, atol=0.011)


@records("azar-fig1-worstR")
def test_budget_at_which_random_rates_do_worst(record):
    """Figure 1 to sampling error: no budget is much below 99 %."""
    given = record["given"]
    for utilities, (worst, _) in record["value"].items():
        pages = [random_pages(seed, given, utilities) for seed in range(6)]
        means = [
            np.mean([ratio_to_best(*page, budget) for page in pages])
            for budget in grid(given["budgets"], given["steps"])
        ]
        same(min(means), worst, rtol=0, atol=3e-3)
        same(min(means), record["printed"], rtol=0, atol=5e-3)


@records("azar-worstcase")
def test_an_instance_that_falls_short_of_99_percent(record):
    """Abstract: 99 % is no guarantee."""
    ours = ratio_to_best(**record["given"])
    same(ours, record["value"])
    assert ours < record["printed"] - 0.07


def ratio_of_types(rates, weights, counts, budget):
    """Ratio for n pages of each type: polled at f each they are one of n times the rate, polled at n*f."""
    return ratio_to_best(np.multiply(rates, counts), np.multiply(weights, counts), budget)


@records("azar-worstcase-2type")
def test_worst_case_of_two_types_of_pages(record):
    """Abstract."""
    rate, weight, budget, count = 10.0 ** np.array(record["given"]["logs"])
    ours = ratio_of_types([1.0, rate], [1.0, weight], [1.0, count], budget)
    same(ours, record["value"], rtol=1e-10)
    assert ours < record["printed"] - 0.08


@records("azar-worstcase-mtype")
def test_worst_case_of_several_types_of_pages(record):
    """Abstract. The records for 3 and 4 types are good to 1.4e-5 only, by a check with 60 digits."""
    for name, logs in record["given"]["logs"].items():
        *parts, budget = 10.0 ** np.array(logs)
        rates, density, counts = (np.array([1.0, *part]) for part in np.reshape(parts, (3, -1)))
        ours = ratio_of_types(rates, density * rates, counts, budget)
        same(ours, record["value"][name], rtol=1e-10 if name == "2" else 2e-5)
        assert ours < record["printed"] - 0.08


@records("azar-worstcase-limit")
def test_worst_case_of_one_page_among_infinitely_fast_ones(record):
    """Abstract: the infinitely fast pages are one that changes 1e9 times as often."""
    given = record["given"]
    ours = ratio_of_types([1.0, 1e9], [1.0, 1e9 * given["density"]], [1.0, 1.0], given["budget"])
    same(ours, record["value"], rtol=1e-8)
    assert ours < record["printed"] - 0.08
