"""Li, Cline & Loguinov (2015): changes and polls at intervals of any distribution."""

import numpy as np
import pytest
from scipy import optimize

from unstale import (
    Empirical,
    Pareto,
    Periodic,
    Poisson,
    UpdatePenalty,
    frequency_for,
    interval,
    mean_cost,
    penalties,
    plan,
    worth,
)
from unstale.poisson import age
from unstale.renewal import (
    lag_cdf,
    missed_updates,
    phase_lock,
    share_within,
    source_penalty,
    staleness,
    update_penalty,
)

from .records import EXACT, behind, records, same

BURSTY = Pareto(3.0, 1.0)  # mean 1/2: the updates of case (a), the downloads of case (b)
REGULAR = Periodic(0.5)
CASES = {"a": (BURSTY, REGULAR), "b": (REGULAR, BURSTY)}


@records("li-14-const")
def test_staleness_at_constant_intervals(record):
    """Equation 14."""
    rate, f = record["given"]["rate"], record["given"]["frequency"]
    same(staleness(Poisson(rate), Periodic(1.0 / f)), record["value"])


@records("li-14-exp")
def test_staleness_at_random_intervals(record):
    """Equation 14."""
    rate, f = record["given"]["rate"], record["given"]["frequency"]
    same(staleness(Poisson(rate), Poisson(f)), record["value"])


@records("li-18")
def test_lag_at_constant_intervals(record):
    """Equation 18, the fixed-order age."""
    rate, f = record["given"]["rate"], record["given"]["frequency"]
    same(source_penalty(Poisson(rate), Periodic(1.0 / f), "x"), record["value"])
    same(age(rate, f), record["value"])


@records("li-19")
def test_lag_at_random_intervals(record):
    """Equation 19, the purely random age."""
    rate, f = record["given"]["rate"], record["given"]["frequency"]
    same(source_penalty(Poisson(rate), Poisson(f), "x"), record["value"])
    same(age(rate, f, "purely-random"), record["value"])


@records("li-F3[ab]")
def test_staleness_of_bursty_updates_and_under_bursty_downloads(record):
    """Figure 3."""
    same(staleness(*CASES[record["id"][-1]]), record["value"])
    same(record["printed"], record["value"], rtol=0, atol=1e-2)


@records("li-F3-4x")
def test_downloads_that_make_up_for_being_bursty(record):
    """Section IV-B: exactly 4 times as many."""
    for f in record["given"]["frequencies"]:
        regular = staleness(BURSTY, Periodic(1.0 / f))
        same(staleness(REGULAR, BURSTY.at_rate(record["value"] * f)), regular)


@records("li-F4[ab]")
def test_currency_of_bursty_updates_and_under_bursty_downloads(record):
    """Equation 16, Figure 4."""
    same(share_within(*CASES[record["id"][-1]], record["given"]["tau"]), record["value"])
    assert round(record["value"], 2) == record["printed"]


@records("li-15-16")
def test_currency_and_the_distribution_of_the_lag(record):
    """Equations 15 and 16 in case (a): c(0) = 1-p, and c(tau) = 1 - p (1 - lag_cdf(tau))."""
    p = staleness(BURSTY, REGULAR)
    same([share_within(BURSTY, REGULAR, 0.0), 1.0 - p], record["value"])
    tau = np.array(record["given"]["taus"])
    same(share_within(BURSTY, REGULAR, tau), 1.0 - p * (1.0 - lag_cdf(BURSTY, REGULAR, tau)))


@records("li-F5[ab]")
def test_lag_of_bursty_updates_and_under_bursty_downloads(record):
    """Equation 17, Figure 5, in days and hours."""
    days = source_penalty(*CASES[record["id"][-1]], "x")
    same([days, 24.0 * days], record["value"])
    same(record["value"], record["printed"], rtol=0.03)


def constant_and_random(given, penalty):
    changes, f = Poisson(given["rate"]), given["frequency"]
    return [update_penalty(changes, polls, penalty) for polls in (Periodic(1.0 / f), Poisson(f))]


@records("li-21-[1x]")
def test_missed_updates_and_their_age_at_constant_and_random_intervals(record):
    """Equation 21 with w = 1 and w = x."""
    same(constant_and_random(record["given"], record["id"][-1]), record["value"])


@records("li-21-ratios")
def test_penalty_of_random_over_constant_intervals(record):
    """After equation 21."""
    for penalty, ratio in zip(("1", "x"), record["value"], strict=True):
        constant, random = constant_and_random(record["given"], penalty)
        same(random / constant, ratio)


def missed_at_bursty_intervals(given):
    return missed_updates(Poisson(given["rate"]), Pareto(given["shape"], 1.0).at_rate(given["frequency"]))


@records("li-23-a*")
def test_missed_updates_at_bursty_intervals(record):
    """Equations 22 and 23."""
    same(missed_at_bursty_intervals(record["given"]), record["value"])


@records("li-23-quad")
def test_missed_updates_at_bursty_over_other_intervals(record):
    """After equation 23."""
    given = record["given"]
    same(missed_at_bursty_intervals(given) / np.array(constant_and_random(given, "1")), record["value"])


@records("li-24")
def test_fading_update_penalty_at_constant_intervals(record):
    """Equation 24, w = 1/(1+x)."""
    rate, f = record["given"]["rate"], record["given"]["frequency"]
    same(update_penalty(Poisson(rate), Periodic(1.0 / f), "1/(1+x)"), record["value"])


@records("li-25")
def test_fading_update_penalty_at_bursty_intervals(record):
    """Equation 25, and its limit at frequency 2, where it is 0/0."""
    changes = Poisson(record["given"]["rate"])
    ours = [update_penalty(changes, BURSTY.at_rate(f), "1/(1+x)") for f in record["given"]["frequencies"]]
    same(ours, record["value"])


def saved_by_constant_intervals(rate, f):
    changes = Poisson(rate)
    constant, bursty = (
        update_penalty(changes, polls, "1/(1+x)") for polls in (Periodic(1.0 / f), BURSTY.at_rate(f))
    )
    return 1.0 - constant / bursty


@records("li-F6-60")
def test_penalty_saved_by_constant_intervals(record):
    """Figure 6: the printed 60 % is one point of a range."""
    given = record["given"]
    for f, saved in record["value"]:
        same(saved_by_constant_intervals(given["rate"], f), saved)
    at_print = saved_by_constant_intervals(given["rate"], given["printed_at"])
    same(at_print, record["printed"], rtol=0, atol=5e-7)
    saved = [saved for _, saved in record["value"]]
    assert min(saved) < 0.3
    assert max(saved) > 0.65


SOURCES = np.array([0.1, 0.4, 0.7, 1.3, 2.0, 5.0, 11.0])  # change rates
BUDGET = 8.0
EQUAL = np.full(SOURCES.size, 1.0 / SOURCES.size)
BY_RATE = SOURCES / SOURCES.sum()


def least_missed(weights):
    best = plan(SOURCES, BUDGET, weights=weights, objective="missed-updates")
    return best, float(np.dot(weights, mean_cost("missed-updates", SOURCES, best.frequencies)))


@records("li-28-29")
def test_square_root_rule(record):
    """Equations 28 and 29."""
    weights = np.array([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0]) / 25.0
    best, cost = least_missed(weights)
    roots = np.sqrt(weights * SOURCES)
    same(best.frequencies, BUDGET * roots / roots.sum())
    same(cost - roots.sum() ** 2 / (2.0 * BUDGET), record["value"], atol=EXACT)


@records("li-30")
def test_square_root_rule_with_equal_weights(record):
    """Equation 30."""
    _, cost = least_missed(EQUAL)
    same(cost - SOURCES.size * np.sqrt(SOURCES).mean() ** 2 / (2.0 * BUDGET), record["value"], atol=EXACT)


@records("li-31")
def test_square_root_rule_with_weights_like_the_rates(record):
    """Equation 31: frequencies are then like the rates too."""
    best, cost = least_missed(BY_RATE)
    same(best.frequencies, BUDGET * BY_RATE)
    same(cost - SOURCES.size * SOURCES.mean() / (2.0 * BUDGET), record["value"], atol=EXACT)


@records("li-32")
def test_cost_of_weights_like_the_rates_over_equal_weights(record):
    """Equation 32."""
    roots = np.sqrt(SOURCES)
    ratio = least_missed(BY_RATE)[1] / least_missed(EQUAL)[1]
    same(ratio - 1.0 - roots.var() / roots.mean() ** 2, record["value"], atol=EXACT)


@records("li-L2")
def test_polls_per_second_for_one_missed_update(record):
    """Section VI-C."""
    given = record["given"]
    rate, each = given["rate_per_day"] / 86400.0, record["value"] / given["sources"]
    same(missed_updates(Poisson(rate), Periodic(1.0 / each)), 1.0)
    assert round(record["value"], -5) == record["printed"]


@records("li-wiki-paretomean")
def test_mean_gap_of_the_printed_fit(record):
    """Section VI-B: shape 1.4 does not give the printed mean, shape 1.5 does."""
    given = record["given"]
    ours = [1.0 / Pareto(shape, given["scale"]).rate for shape in given["shapes"]]
    same(ours, record["value"])
    assert abs(ours[0] - record["printed"]) > 0.4


@records("li-wiki-95")
def test_polls_a_day_for_80_percent_freshness(record):
    """Section VI-B prints 95, near what an inverted mean gap gives; the formula gives 28."""
    given = record["given"]
    rates = {
        "mean gap": 24.0 / given["gap"],
        "ten years": given["updates"] / given["days"],
        "Pareto mean": 24.0 / given["pareto_gap"],
        "purely random": 24.0 / given["gap"],
        "inverted": 24.0 * given["gap"],
    }
    ours = {
        name: float(
            frequency_for(rate, given["fresh"], "purely-random" if name == "purely random" else "fixed")
        )
        for name, rate in rates.items()
    }
    assert ours == pytest.approx(record["value"], rel=EXACT)
    assert min(abs(polls - record["printed"]) for polls in ours.values()) > 1
    assert abs(ours["mean gap"] - record["printed"]) > 60


@records("li-wiki-8")
def test_polls_a_day_for_80_percent_freshness_of_bursty_updates(record):
    """Section VI-B prints 8; the printed fit and its likely corrections give 13 to 21."""
    for shape, scale, per_day, hours in record["value"]:
        same(staleness(Pareto(shape, scale), Periodic(hours)), record["given"]["stale"])
        same(24.0 / hours, per_day)
        assert per_day > record["printed"] + 5


def fits(given):
    """The printed fit of the gaps in hours, and the Poisson process of the printed mean gap."""
    return Pareto(given["shape"], given["scale"]), Poisson(1.0 / given["gap"])


@records("li-F8b")
def test_polls_a_day_by_staleness(record):
    """Figure 8(b): polls by the Poisson formula, by the printed fit, their ratio, and that at equal means."""
    bursty, smooth = fits(record["given"])
    for stale, by_poisson, by_fit, ratio, ratio_at_same_mean in record["value"]:
        same(frequency_for(24.0 * smooth.rate, 1.0 - stale), by_poisson)
        same(staleness(bursty, Periodic(24.0 / by_fit)), stale)
        same(by_poisson / by_fit, ratio)
        same(frequency_for(24.0 * bursty.rate, 1.0 - stale) / by_fit, ratio_at_same_mean)


@records("li-F7d")
def test_staleness_by_interval(record):
    """Figure 7(d): by the Poisson formula, by the printed fit, and its error, printed as over 100 %."""
    bursty, smooth = fits(record["given"])
    for hours, by_poisson, by_fit, error in record["value"]:
        ours = staleness(smooth, Periodic(hours)), staleness(bursty, Periodic(hours))
        same(ours, [by_poisson, by_fit])
        same(ours[0] / ours[1] - 1.0, error)
        assert error < record["printed"]


@records("li-F7d-max")
def test_largest_error_of_the_poisson_formula(record):
    """Figure 7(d): 78 %, printed as over 100 %. The record is the largest on a grid, so a little less."""
    bursty, smooth = fits(record["given"])

    def error(log_hours):
        polls = Periodic(np.exp(log_hours))
        return float(staleness(smooth, polls) / staleness(bursty, polls) - 1.0)

    found = optimize.minimize_scalar(lambda u: -error(u), bounds=(0.0, 4.0), method="bounded")
    assert -found.fun >= record["value"]
    same(-found.fun, record["value"], rtol=1e-5)
    assert -found.fun < record["printed"] - 0.2


@records("li-wiki-nostarve")
def test_very_bursty_updates_are_always_worth_a_poll(record):
    """Section VI-C: gaps of infinite variance have a first poll of infinite worth."""
    assert record["value"] is True
    for shape in record["given"]["shapes"]:
        assert worth("freshness", Pareto(shape, 1.0), np.inf) == np.inf
        assert interval("freshness", Pareto(shape, 1.0), 500.0) < np.inf
    assert worth("freshness", BURSTY, np.inf) < np.inf


@records("li-VID")
def test_extra_polls_that_random_intervals_need(record):
    """Section VI-D: 100 to 145 %, printed as 100 to 500 %."""
    for penalty, percent in zip(("1", "x"), record["value"], strict=True):
        constant = update_penalty(Poisson(2.0), Periodic(1.0), penalty)

        def excess(f, penalty=penalty, constant=constant):
            return update_penalty(Poisson(2.0), Poisson(f), penalty) - constant

        found = optimize.brentq(excess, 1.0, 10.0, xtol=1e-12)
        same(100.0 * (found - 1.0), percent, rtol=0, atol=5e-3)
    assert record["printed"][1] > 3 * record["value"][1]


@records("li-T10")
def test_irrational_gaps_can_form_a_lattice(record):
    """After theorem 10: 2 sqrt 2 and 3 sqrt 2 are irrational, not multiples, yet on a lattice."""
    root = 2**0.5
    polls = Empirical(np.array(record["given"]["multiples"]) * root)
    same(polls.span, record["value"])
    assert phase_lock(Periodic(5.0 * root), polls).possible
    assert not phase_lock(Periodic(1.0), polls).possible
    assert not phase_lock(Periodic(1.0), Empirical([1.0, root])).possible


@records("li-T11")
def test_update_penalties_can_starve_a_source(record):
    """Theorem 11 says that none is starved; with w = e^-x one is, and with w = 1 none."""
    best = plan(**record["given"], objective=UpdatePenalty(penalties.decay(1.0)))
    same(best.frequencies, record["value"], atol=1e-12)
    assert (plan(**record["given"], objective="missed-updates").frequencies > 0).all()


@records("li-phase")
def test_lattice_updates_and_polls_can_lock(record):
    """Section IV-A: gaps of 1 and 2 on both sides."""
    both = Empirical(record["given"]["gaps"])
    assert record["value"] is phase_lock(both, both).possible
    assert not phase_lock(both, Poisson(1.0)).possible


@records("li-sim-a")
def test_formulas_of_case_a_against_a_simulation(record):
    """Figures 3 to 5 (a)."""
    ours = [
        *behind(BURSTY, REGULAR, 0.4),
        missed_updates(BURSTY, REGULAR),
        update_penalty(BURSTY, REGULAR, "x"),
    ]
    same(ours, record["value"])
    same(ours, record["given"]["simulated"], rtol=1e-3)


@records("li-sim-b")
def test_formulas_of_case_b_against_a_simulation(record):
    """Figures 3 to 5 (b); the simulated lag has infinite variance."""
    ours = behind(REGULAR, BURSTY, 0.4)
    same(ours, record["value"])
    same(ours, record["given"]["simulated"], rtol=0.15)
    same(ours[::2], record["given"]["simulated"][::2], rtol=1e-3)


@records("li-sim-b6")
def test_formulas_for_less_bursty_downloads_against_a_simulation(record):
    """Equations 14 and 17."""
    ours = behind(REGULAR, Pareto(6.0, 1.0).at_rate(2.0), 0.4)[:2]
    same(ours, record["value"])
    same(ours, record["given"]["simulated"], rtol=1e-3)
