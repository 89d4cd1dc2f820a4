"""Cho & Garcia-Molina (2000): one element under three orders, and a database with gamma-distributed rates."""

import numpy as np
import pytest
from numpy.testing import assert_array_less

from unstale import frequency_for
from unstale.poisson import age, age_after, database_age, database_freshness, freshness

from .records import EXACT, ORDERS, grid, records, same


@records("cho-2.2-EA")
def test_expected_age_after_a_poll(record):
    """Section 2.2."""
    same(age_after(**record["given"]), record["value"])


@records("cho-T2-r*")
def test_freshness_and_age_under_the_three_orders(record):
    """Table 2, the poll interval as unit of time."""
    r = record["given"]["ratio"]
    ours = [freshness(r, 1.0, order) for order in ORDERS] + [age(r, 1.0, order) for order in ORDERS]
    same(ours, record["value"])


@records("cho-F6-grid")
def test_curves_of_freshness_and_age(record):
    """Figure 6."""
    r, *columns = np.array(record["value"]).T
    same([freshness(r, 1.0, order) for order in ORDERS], columns[:3])
    same([age(r, 1.0, order) for order in ORDERS], columns[3:])


@records("cho-F6-limits")
def test_age_is_bounded_by_the_poll_interval(record):
    """Figure 6 far to the right: 1/2, 7/12 and 1 interval."""
    same([age(record["given"]["ratio"], 1.0, order) for order in ORDERS], record["value"])


@records("cho-4-063")
def test_freshness_when_changes_and_polls_are_equally_frequent(record):
    """Section 4: (e-1)/e."""
    same(freshness(1.0, 1.0), record["value"])
    assert record["printed"] == round(record["value"], 2)


@records("cho-4-r046")
def test_changes_per_poll_at_80_percent_freshness(record):
    """Section 4: r = 0.46."""
    same(1.0 / frequency_for(1.0, record["given"]["freshness"]), record["value"])
    same(record["printed"], record["value"], rtol=0, atol=5e-3)


@records("cho-4-2x")
def test_polls_per_change_for_80_percent_freshness(record):
    """Section 4 says about twice as often as changes; twice is not enough."""
    given = record["given"]
    same(frequency_for(1.0, given["freshness"]), record["value"])
    same(freshness(1.0, record["printed"]), given["bought"], rtol=0, atol=5e-7)
    assert freshness(1.0, record["printed"]) < given["freshness"]


@records("cho-4-30pc")
def test_gain_of_fixed_order_in_freshness(record):
    """Section 4 says 30 %; it is 26 %."""
    same(freshness(1.0, 1.0) / freshness(1.0, 1.0, "purely-random") - 1.0, record["value"])
    assert abs(record["printed"] - record["value"]) > 0.03


@records("cho-4-age4")
def test_gain_of_fixed_order_in_age(record):
    """Section 4 says a quarter of random order; that is so of purely random order only."""
    fixed, random, pure = (age(1.0, 1.0, order) for order in ORDERS)
    ours = {
        "fixed": fixed,
        "random_order": random,
        "purely_random": pure,
        "fixed_over_random": fixed / random,
        "fixed_over_pure": fixed / pure,
    }
    assert ours == pytest.approx(record["value"], rel=EXACT)
    assert abs(ours["fixed_over_random"] - record["printed"]) > 0.4
    assert abs(ours["fixed_over_pure"] - record["printed"]) < 0.02


@records("cho-4-order")
def test_fixed_order_is_best_and_purely_random_worst(record):
    """Section 4."""
    r = grid(record["given"]["ratios"])
    assert record["value"] is True
    fresh, old = ([f(r, 1.0, order) for order in ORDERS] for f in (freshness, age))
    assert_array_less(fresh[1], fresh[0])
    assert_array_less(fresh[2], fresh[1])
    assert_array_less(old[0], old[1])
    assert_array_less(old[1], old[2])


@records("cho-AppD-convex")
def test_freshness_is_convex_and_age_concave_in_the_rate(record):
    """Appendix D, footnote 7."""
    r = grid(record["given"]["ratios"], 60)
    assert record["value"] is True
    for order in ORDERS:
        assert (np.diff(np.diff(freshness(r, 1.0, order)) / np.diff(r)) > 0).all()
        assert (np.diff(np.diff(age(r, 1.0, order)) / np.diff(r)) < 0).all()


@records("cho-T3-0.*")
def test_database_with_gamma_distributed_rates(record):
    """Table 3: uniform freshness and age, proportional freshness and age."""
    r, spread = record["given"]["ratio"], record["given"]["variance"] ** 0.5
    ours = [
        f(r, spread, 1.0, how)
        for how in ("uniform", "proportional")
        for f in (database_freshness, database_age)
    ]
    same(ours, record["value"])


@records("cho-T3-lim-*")
def test_database_where_the_printed_formulas_are_undefined(record):
    """Table 3: freshness at spread 1, age at spread 1 and sqrt(1/2)."""
    given = record["given"]
    average = {"F": database_freshness, "A": database_age}[record["id"].split("-")[3]]
    same(average(given["ratio"], given["variance"] ** 0.5, 1.0), record["value"])


@records("cho-T3-Ap-diverges")
def test_proportional_age_is_infinite_from_spread_1_on(record):
    """Table 3: the printed formula is infinite at spread 1 and negative beyond."""
    r, variance = record["given"]["ratio"], record["given"]["variance"]
    assert (database_age(r, [1.0, variance**0.5, 10.0], 1.0, "proportional") == np.inf).all()
    assert age(r, 1.0) / (1.0 - variance) < 0
    same(database_age(r, variance**0.5, 1.0), record["value"], rtol=0, atol=5e-11)


def axes(given):
    return np.array(given["ratios"])[:, None], np.array(given["spreads"])


def ratio_of_ages(r, spread):
    return database_age(r, spread, 1.0) / database_age(r, spread, 1.0, "proportional")


@records("cho-F7-Fratio")
def test_freshness_of_proportional_over_uniform_allocation(record):
    """Figure 7: as the spread grows the ratio tends to the proportional freshness, not to 0."""
    r, spread = axes(record["given"])
    proportional = database_freshness(r, spread, 1.0, "proportional")
    ratio = proportional / database_freshness(r, spread, 1.0)
    same(ratio, record["value"])
    assert (ratio < 1).all()
    assert (ratio > proportional).all()
    assert (proportional > record["printed"]).all()


@records("cho-F7-Aratio")
def test_age_of_uniform_over_proportional_allocation(record):
    """Figure 7."""
    same(ratio_of_ages(*axes(record["given"])), record["value"])


@records("cho-F7-Aratio-spread")
def test_ratio_of_ages_depends_little_on_the_frequency(record):
    """Figure 7: lowest and highest ratio over the frequencies, by spread."""
    ratio = ratio_of_ages(*axes(record["given"]))
    same(np.transpose([ratio.min(axis=0), ratio.max(axis=0)]), record["value"])


@records("cho-F7-Aratio-limits")
def test_ratio_of_ages_at_both_ends(record):
    """Figure 7: 1 - spread^2 for very slow and very fast changes."""
    same(ratio_of_ages(np.array(record["given"]["ratios"]), record["given"]["spread"]), record["value"])
