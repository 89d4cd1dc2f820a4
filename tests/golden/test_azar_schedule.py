"""Azar et al. (2018), Algorithm 3: rates turned into a sequence of polls."""

from math import ceil
from time import process_time

import numpy as np

from unstale import plan
from unstale.poisson import perceived_freshness
from unstale.schedule import EarliestDeadline

from .records import records, same
from .test_azar import random_pages


def sequence(frequencies, slots):
    schedule = EarliestDeadline(np.asarray(frequencies, float))
    elements = schedule.until(slots / schedule.rate).elements
    assert elements.size == slots
    return elements


def distance(whole, elements):
    """Largest |t rho - N| over all elements and prefixes, for frequencies that are whole numbers."""
    t, n = np.arange(1, elements.size + 1), len(whole)
    made = np.cumsum(elements[:, None] == np.arange(n), axis=0)
    return np.abs(t[:, None] * whole - made * np.sum(whole)).max() / np.sum(whole)


def as_printed(rho, slots):
    """The paper's lines, in whatever numbers rho is made of; ties by index."""
    delta, out = [0 * r for r in rho], []
    for _ in range(slots):
        delta = [d + r for d, r in zip(delta, rho, strict=True)]
        due = ((ceil((1 - d) / r), k) for k, (d, r) in enumerate(zip(delta, rho, strict=True)) if d > 0)
        _, chosen = min(due)
        delta[chosen] -= 1
        out.append(chosen)
    return np.array(out)


def in_whole_numbers(whole, slots):
    """The same, for all pages at once, in multiples of 1/sum."""
    total = whole.sum()
    delta, out = np.zeros_like(whole), np.empty(slots, np.int64)
    for t in range(slots):
        delta += whole
        due = np.where(delta > 0, -((delta - total) // whole), slots + total)
        out[t] = np.argmin(due)
        delta[out[t]] -= total
    return out


@records("azar-alg3-disc")
def test_every_prefix_is_within_one_poll(record):
    """Exact rational instances; elements in other orders are other rules for ties."""
    given, rng = record["given"], np.random.default_rng(1)
    worst = 0.0
    for _ in range(given["instances"]):
        whole = rng.integers(1, 200, rng.integers(2, 12))
        for order in (whole, whole[::-1], rng.permutation(whole)):
            worst = max(worst, distance(order, sequence(order, given["slots"])))
    assert worst < record["printed"]
    same(worst, record["value"], rtol=0, atol=2e-3)


@records("azar-alg3-eps")
def test_shares_are_right_after_one_over_the_error_slots(record):
    """The promise of the algorithm: T = ceil(1/error) slots, shares off by no more than the error."""
    rng = np.random.default_rng(2)
    kept = []
    for error in record["given"]["errors"]:
        slots = ceil(1.0 / error)
        for _ in range(20):
            frequencies = 10.0 ** rng.uniform(-3, 3, rng.integers(1, 60))
            made = np.bincount(sequence(frequencies, slots), minlength=frequencies.size) / slots
            off = np.abs(frequencies / frequencies.sum() - made).max()
            kept.append(off <= 1.0 / slots <= error)
    assert all(kept) is record["value"]


@records("azar-alg3-float")
def test_whole_numbers_keep_the_bound_that_floats_touch(record):
    """Where slots are due at the same time, sums of floats slip by one slot; whole numbers do not."""
    given, rng = record["given"], np.random.default_rng(3)
    floats = ours = 0.0
    for _ in range(given["instances"]):
        whole = rng.integers(1, 8, rng.integers(2, 8))
        floats = max(floats, distance(whole, as_printed((whole / whole.sum()).tolist(), 500)))
        ours = max(ours, distance(whole, sequence(whole, given["slots"])))
    same(floats, record["value"], rtol=1e-12)
    assert ours < record["printed"]


def freshness_of_carousel(rates, weights, polls, period):
    """Weighted mean freshness, expected if these polls are repeated for ever."""
    order = np.argsort(polls.elements, kind="stable")
    element, time = polls.elements[order], polls.times[order]
    first, last = np.append(True, np.diff(element) > 0), np.append(np.diff(element) > 0, True)
    following = np.append(time[1:], 0.0)
    following[last] = time[first] + period
    fresh = -np.expm1(-rates[element] * (following - time)) / rates[element]
    return np.dot(weights[element], fresh) / weights.sum() / period


@records("azar-alg3-fresh")
def test_sequences_of_a_thousand_pages(record):
    """Figure 1 to sampling error: freshness over the best, of the sequence of Azar's rates, of that of the
    best rates, and of Azar's rates at constant intervals.
    """
    given = record["given"]
    for utilities, budgets in record["value"].items():
        for budget, expected in budgets.items():
            ratios = []
            for seed in range(3):
                rates, weights = random_pages(seed, given, utilities)
                end = given["slots"] / float(budget)
                best = plan(rates, float(budget), weights=weights)
                azar = plan(rates, float(budget), weights=weights, order="purely-random")
                bought = [
                    freshness_of_carousel(rates, weights, EarliestDeadline(rule).until(end), end)
                    for rule in (azar, best)
                ]
                constant = perceived_freshness(weights, rates, azar.frequencies)
                ratios.append(np.array([*bought, constant]) / best.freshness)
            means = np.mean(ratios, axis=0)
            same(means, expected, rtol=0, atol=2e-3)
            same(means[1], expected[1], rtol=0, atol=1e-4)
            same(means[2] - means[0], expected[2] - expected[0], rtol=0, atol=1e-4)  # what the slots cost
            same(means[0], record["printed"], rtol=0, atol=0.011)


@records("azar-alg3-heap")
def test_a_calendar_and_a_heap_give_the_same_sequence(record):
    """As many slots as in the record are drawn at once; its seconds are another machine's."""
    given, (identical, _) = record["given"], record["value"]
    rng = np.random.default_rng(4)
    equal = []
    for _ in range(given["instances"]):
        whole = rng.integers(1, 50, rng.integers(1, 40))
        equal.append(np.array_equal(sequence(whole, 300), in_whole_numbers(whole, 300)))
    assert all(equal) is identical
    frequencies = rng.random(given["pages"])
    elements = sequence(frequencies, given["slots"])
    wanted = given["slots"] * frequencies / frequencies.sum()
    assert np.abs(wanted - np.bincount(elements, minlength=wanted.size)).max() < 1


@records("azar-alg3-cost")
def test_a_slot_does_not_look_at_every_page(record):
    """With 64 times as many pages the paper's algorithm takes 64 times as long; this one does not."""
    given = record["given"]
    rng = np.random.default_rng(5)
    few, many = (rng.integers(1, 1 << 20, count * given["pages"]) for count in (1, 64))
    assert np.array_equal(sequence(few, 3000), in_whole_numbers(few, 3000))
    assert seconds_of(many, given["slots"]) < 16.0 * seconds_of(few, given["slots"])


def seconds_of(frequencies, slots):
    """Least time to draw so many slots, once it has started."""
    schedule = EarliestDeadline(frequencies)
    times = []
    for _ in range(3):
        begin = process_time()
        schedule.until(schedule.now + slots / schedule.rate)
        times.append(process_time() - begin)
    return min(times)
