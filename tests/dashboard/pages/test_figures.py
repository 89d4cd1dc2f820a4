"""What the pages draw and say of a mirror's figures."""

import re
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import Mirror
from unstale.dashboard.mirror_gateway import _view
from unstale.dashboard.pages import figures
from unstale.mirror.reports.audit import Audit
from unstale.mirror.reports.what_if import WhatIf
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found
from unstale.mirror.store.contract import Sample
from unstale.policy.knowledge import Share

NOW = 1.7e9
shares = st.floats(0, 1) | st.just(nan)


def sample(time, freshness=0.7, **more):
    given = {"low": freshness - 0.05, "high": freshness + 0.05, "age": 60.0, "predicted": 0.72, "price": 3.0}
    counts = {"polls": 60, "failed": 1, "traffic": 1000}
    return Sample(time=time, freshness=freshness, **(given | counts | more))


def audit(time, true=0.6, predicted=0.65):
    return Audit(time, 100, predicted, true, true - 0.1, true + 0.1, agrees=True, failed=0)


def curves_of(objective="freshness"):
    budgets = np.geomspace(1 / 16, 16.0, 41)
    best = budgets / (1 + budgets)
    curves = best, best**1.2, best**1.5
    if objective == "age":
        curves = tuple(1 / curve for curve in curves)
    return WhatIf(budgets, *curves, present=1.0, present_value=0.5 if objective == "freshness" else 2.0,
                    objective=objective, unit="polls")  # fmt: skip


def test_all_that_is_known_is_drawn():
    samples = [sample(NOW + n, beside={"true": 0.7, "uniform": 0.5}) for n in range(100)]
    figure = figures.freshness(samples, [audit(NOW + 50)], NOW + 100)
    assert [kind for kind, _, _ in figure.legend] == ["estimated", "true", "uniform", "predicted", "audit"]
    for kind in ("estimated", "true", "uniform", "predicted"):
        assert f'class="line {kind}"' in figure.svg
    assert 'class="dot audit"' in figure.svg
    assert 10 <= len(figure.rows) == len(figure.places) <= 40
    assert list(figure.places) == sorted(figure.places, reverse=True)
    assert len(figure.rows[0]) == len(figure.columns)


def test_an_audit_corrects_the_estimate_by_how_far_it_was_off():
    figure = figures.freshness([sample(NOW, 0.8)], [audit(NOW, true=0.6, predicted=0.65)], NOW)
    assert figure.legend[-1] == ("audit", "Corrected by audits", "75.0 %")


@given(st.lists(st.tuples(st.floats(0, 1e6), shares, shares), max_size=20), st.lists(shares, max_size=3))
def test_freshness_of_anything(rows, audits):
    samples = [sample(NOW + t, f, predicted=p) for t, f, p in sorted(rows, key=lambda row: row[0])]
    figures.freshness(samples, [audit(NOW + 1, true) for true in audits], NOW + 1e6)
    assert len(figures.small_multiples(samples, "freshness")) == 5


def status(**more):
    known = {"now": NOW + 30, "freshness": Share(0.5, 0.4, 0.6), "age": 9.0, "predicted": 0.9, "price": 2.0}
    return SimpleNamespace(**(known | more))


def test_the_present_is_the_last_sample():
    before = [sample(NOW, 0.0, predicted=0.1, beside={"true": 0.3}), sample(NOW + 31)]
    samples = figures.up_to_now(before, status())
    assert [one.time for one in samples] == [NOW, NOW + 30]  # nothing after what all else is of
    legend = {name: value for _, name, value in figures.freshness(samples, [], NOW + 30).legend}
    assert legend == {"Estimated": "50.0 %", "True": "30.0 %", "Plan predicts": "90.0 %"}
    small = {one.name: one for one in figures.small_multiples(samples, "freshness", present=True)}
    assert small["Expected age of a copy"].value == "9 seconds"
    assert small["Price of a poll"].value == "2 s"
    assert small["Polls"].value == "not yet"
    assert figures.up_to_now(before, status(freshness=Share(nan, nan, nan))) == before[:1]


def test_the_present_counts_no_polls():
    samples = figures.up_to_now([sample(NOW - 60), sample(NOW, polls=6)], status())
    small = {one.name: one for one in figures.small_multiples(samples, "freshness", present=True)}
    assert (small["Polls"].value, small["Polls"].when) == ("6 polls/minute", "in the last minute")


@pytest.mark.parametrize(("rise", "wait"), [(0.1, 10.0), (1e4, 10.0), (1.0, 0.001)])
def test_the_price_can_be_seen_whatever_a_poll_is_worth(rise, wait):
    times = NOW + np.linspace(0.0, 2.5 * wait, 121)
    found = (times, 0.5 + rise * (times - NOW))
    figure = figures.worth(SimpleNamespace(worths=found, price=1.0, next_poll=NOW + wait), NOW)
    assert 'class="level price"' in figure.svg
    labels = [float(one) for one in re.findall(r'class="y"[^>]*>([\d.]+) %', figure.svg)]
    assert 100.0 <= max(labels) <= 300.0
    across = float(re.search(r'class="mark next" x1="([\d.]+)%', figure.svg)[1])
    assert across == pytest.approx(40.0, abs=0.1)


def test_ages_are_on_a_logarithmic_axis():
    figure = figures.what_if(curves_of("age"), None)
    lines = re.findall(r'class="line optimal" d="M[\d.]+ ([\d.]+)L.* ([\d.]+)"', figure.svg)
    place = float(re.search(r'class="dot present" cx="[\d.]+%" cy="([\d.]+)"', figure.svg)[1])
    assert 0.2 < (place - 14) / (340 - 38) < 0.9, lines  # not at the bottom


def test_rates_are_per_time():
    samples = [sample(NOW + 60 * n, polls=120) for n in range(5)]
    values = {small.name: small.value for small in figures.small_multiples(samples, "freshness")}
    assert values["Polls"] == "120 polls/minute"


@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("policy", ["optimal", "uniform", "proportional"])
def test_budgets_and_what_they_buy_are_inverse(objective, policy):
    about = curves_of(objective)
    for budget in (0.1, 1.0, 3.3, 15.0):
        value = figures.bought(about, budget, policy)
        assert figures.budget_of(about, value, policy) == pytest.approx(budget, rel=1e-6)
    best = 0.999 if objective == "freshness" else 0.01
    assert figures.budget_of(about, best, policy) == inf


@pytest.mark.parametrize("objective", ["freshness", "age"])
@pytest.mark.parametrize("tried", [None, 0.1, 1.0, 16.0])
def test_the_present_and_the_tried_budget_are_marked(objective, tried):
    figure = figures.what_if(curves_of(objective), tried)
    assert 'class="dot present"' in figure.svg
    assert ('class="dot tried"' in figure.svg) == (tried is not None)
    assert len(figure.rows[0]) == len(figure.columns) == 4
    assert list(figure.places) == sorted(figure.places)
    assert len(figure.places) == len(figure.rows)


def test_outcomes_are_told_in_one_order():
    figure = figures.outcomes({"failed": 1, "changed": 2, "odd": 3, "gone": 0})
    assert [name for name, _, _ in figure.legend] == ["changed", "failed", "odd"]


def test_what_comes_next(mirror):
    found = _view(mirror).next_polls
    assert {one.key for one in found} == {"python:news", "python:about"}
    assert [one.moment for one in found] == sorted(one.moment for one in found)
    mirror.add("python:third", poll=lambda: "x")
    assert _view(mirror).next_polls[0].key == "python:third"  # who has no copy comes first
    assert _view(mirror).next_polls[0].worth == inf


def test_who_must_wait_comes_later(tmp_path):
    class Source:
        def key(self, text, _):
            return text

        def group(self, key, _):
            return key.split("/")[0]

        async def poll(self, known, _):
            if known.key.startswith("python:busy"):
                return Found("failed", "429", wait=1000.0)
            return Found("changed", "200", body=b"x")

        async def close(self):
            pass

    with Mirror(tmp_path / "m.db", settings=Settings(budget=100.0), sources={"python": Source()}) as mirror:
        for name in ("busy/1", "busy/2", "calm/1"):
            mirror.add(f"python:{name}")
        mirror.step()
        found = _view(mirror).next_polls
    assert found[0].key == "python:calm/1"
    assert all(one.moment > mirror.clock.now() + 900 for one in found if "busy" in one.key)
