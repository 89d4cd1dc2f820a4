"""Beyond the papers: laws that must hold, and numbers known from formulas, typed once more."""

import numpy as np
import pytest

from unstale.lab import Verdict

from .claims import by_name, drawn

EXPERIMENTS = [
    f"beyond-{name}"
    for name in ("harmonic", "index", "hints", "uncertain-rates", "estimators", "rules", "million", "rhythm")
]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_there_is_a_right_answer_to_each_claim(findings, name):
    found = findings(name)
    assert {claim.verdict for claim in found.claims} <= {Verdict.OURS, Verdict.CANNOT}
    for claim in found.claims:
        if claim.verdict is Verdict.OURS:
            assert claim.right is not None, claim.what


def test_harmonic(findings):
    cost, gain = (drawn(panel) for panel in findings("beyond-harmonic").panels)
    random, constant = cost["LambdaCrawl (random moments)"], cost["best frequencies at constant intervals"]
    assert (constant.y < random.y).all()
    saved = gain["with frequencies of their own"].y
    np.testing.assert_allclose(saved, 1.0 - constant.y / random.y)
    assert 0.1 < saved.min() < 0.25
    assert 0.45 < saved.max() < 0.5  # half, in the limit: the mean age of a copy is half as long


def test_index(findings):
    lost, bought = (drawn(panel) for panel in findings("beyond-index").panels)
    assert (lost["index"].y < lost["earliest deadline"].y).all()
    assert lost["earliest deadline of random-optimal"].y[-1] > 0.001
    bound = bought["bound (optimal plan)"].y
    for name in ("index", "earliest deadline", "schedule of the plan"):
        line = bought[name]
        assert (np.abs(line.y - bound) < 5 * line.error).all()


def test_hints(findings):
    found = findings("beyond-hints")
    claims = by_name(found)
    plain = 0.7 * (1.0 - np.exp(-1.0 / 0.7))
    for alarms in ("0.1", "1", "10"):
        useless = claims[f"{alarms} hints per change that say nothing: as without"]
        assert useless.computed == pytest.approx(plain, abs=1e-9)
    perfect = claims["perfect hints, a budget for 0.7 of the changes: freshness"]
    assert perfect.computed == pytest.approx(0.7, abs=1e-6)
    lines = drawn(found.panels[0])
    for label in ("precision 0.1", "precision 0.9"):
        assert lines[label].y[0] == pytest.approx(plain, abs=1e-9)
    assert (lines["precision 0.9"].y[1:] > lines["precision 0.1"].y[1:]).all()


def test_uncertain_rates(findings):
    gamma, lognormal, learning = (drawn(panel) for panel in findings("beyond-uncertain-rates").panels)
    for panel in (gamma, lognormal):
        at = panel["likeliest rates"].x.tolist().index(20)
        fresh = [
            panel[label].y[at]
            for label in ("uniform", "likeliest rates", "averaged over what rates may be", "rates known")
        ]
        assert fresh == sorted(fresh)
    late = {label: line.y[-5:].mean() for label, line in learning.items()}
    assert late["likeliest rates"] < late["uniform"] < late["learning"]


def test_estimators(findings):
    found = findings("beyond-estimators")
    claims = by_name(found)
    for rate in (0.1, 0.5, 1.0, 2.0, 5.0):
        claim = claims[f"naive, 20 polls, r = {rate:g}: bias"]
        assert claim.right == pytest.approx((1.0 - np.exp(-rate)) / rate - 1.0)
    means = {"naive": 0.43, "bias-reduced": 1.00, "mle": 1.04, "last-modified": 1.00}
    for method, mean in means.items():
        claim = claims[f"{method}, 50 polls, r = 2: mean of estimate / rate"]
        assert claim.right == mean
        assert claim.computed == pytest.approx(mean, abs=0.03)
    errors = {"bias-reduced": 0.186, "mle": 0.208, "last-modified": 0.154}
    for method, error in errors.items():
        claim = claims[f"{method}, 50 polls, r = 2: root mean square error"]
        assert claim.computed == pytest.approx(error, abs=0.02)


RULES = {
    "nutch": (0.320, 0.560, 0.681, 0.695, 0.53),
    "stormcrawler": (0.647, 0.723, 0.803, 0.820, 0.57),
    "news-crawl": (0.298, 0.552, 0.667, 0.681, 0.55),
    "heritrix": (0.460, 0.648, 0.748, 0.764, 0.55),
    "miniflux": (1.292, 0.876, 0.886, 0.901, 0.78),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(findings, rule):
    found = findings("beyond-rules")
    claims = by_name(found)
    whats = (
        "polls per element and day", "freshness", "uniform", "optimal", "polls the optimum needs (share)",
    )  # fmt: skip
    for what, expected, close in zip(whats, RULES[rule], (0.15, 0.04, 0.04, 0.04, 0.08), strict=True):
        claim = claims[f"{rule}: {what}"]
        assert claim.right == expected
        assert claim.computed == pytest.approx(expected, abs=close)
    (table,) = found.tables
    row = table.columns["rule"].index(rule)
    fresh, uniform, optimal = (
        table.columns[name][row] for name in ("freshness of the rule", "uniform", "optimal")
    )
    assert fresh < uniform < optimal
    assert fresh < table.columns["learning"][row] < optimal + 0.02
    (panel,) = found.panels
    assert {one.label: one.y[row] for one in panel.lines}["learning"] == table.columns["learning"][row]


def test_million(findings):
    (table,) = findings("beyond-million").tables
    assert table.columns["elements"] == (10_000, 100_000, 1_000_000)
    assert max(table.columns["proven distance from the best plan"]) < 1e-9
    assert max(table.columns["seconds"]) < 60.0


def test_rhythm(findings):
    (above,) = (drawn(panel) for panel in findings("beyond-rhythm").panels)
    flat, rule = above["worth without rhythm"].y, above["rule"].y
    assert (rule < flat).all()
    assert rule[:3].max() < 1.0  # where intervals are not much shorter than the period
