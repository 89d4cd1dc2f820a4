"""``unstale compare`` and ``unstale whatif`` say what policies and budgets buy, and draw it."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import unstale
from cli.elements import RATES, SIZES, WEIGHTS, about
from unstale.errors import NoAnswer

POLICIES = ["uniform", "proportional", "square-root", "random-optimal", "optimal", "optimal"]


def test_compare_has_a_bundled_example(run, ask):
    out, _ = run("compare")
    assert out.startswith("220 elements, about 2,167 changes/day, a budget of 220 polls/day\n")
    answer = ask("compare")
    assert (answer["file"], answer["budget"]) == ("the bundled example", 220.0)
    by_policy = {(row["policy"], row["objective"]): row["freshness"] for row in answer["policies"]}
    assert max(by_policy, key=by_policy.get) == ("optimal", "freshness")
    assert min(by_policy, key=by_policy.get) == ("proportional", None)


def test_compare_json(ask):
    answer = ask("compare", "pages.csv", "--budget", "1/h")
    assert list(answer) == [
        "file", "elements", "uncertain", "time_unit", "budget_unit", "budget", "objective", "order",
        "policies", "plot",
    ]  # fmt: skip
    assert answer["objective"] == "freshness"
    assert [row["policy"] for row in answer["policies"]] == POLICIES
    assert [row["objective"] for row in answer["policies"]] == [None] * 4 + ["freshness", "age"]
    for row in answer["policies"]:
        plan = unstale.plan(
            RATES, 24.0, weights=WEIGHTS, policy=row["policy"], objective=row["objective"] or "freshness"
        )
        assert row["freshness"] == pytest.approx(plan.freshness, rel=1e-9)
        assert row["age"] == about(plan.age, rel=1e-9)
        assert row["cost"] == pytest.approx(1 - plan.freshness, rel=1e-9)
        assert row["spent"] == pytest.approx(plan.spent, rel=1e-9)
        assert row["never_polled"] == np.count_nonzero(plan.frequencies == 0)
        fastest = 0.6 * plan.frequencies[5] / plan.frequencies.sum()  # a tenth of six is 0.6 elements
        assert row["budget_on_fastest_tenth"] == pytest.approx(fastest, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("objective", ["age", "harmonic"])
def test_compare_json_has_the_cost_of_the_objective(objective, ask):
    answer = ask("compare", "files.csv", "--budget", "1MB/h", "--objective", objective)
    assert answer["objective"] == objective
    for row in answer["policies"]:
        if row["objective"] in {None, objective}:
            plan = unstale.plan(
                RATES, 24e6, weights=WEIGHTS, sizes=SIZES, policy=row["policy"], objective=objective
            )
            assert row["cost"] == about(plan.cost, rel=1e-9)
        if objective == "age":
            assert row["cost"] == about(row["age"] if row["age"] is not None else math.inf, rel=1e-9)
        assert row["spent"] == pytest.approx(24e6, rel=1e-9)


def test_compare_shows_policies_side_by_side(run):
    out, _ = run("compare", "pages.csv", "--budget", "1/h")
    for word in (*POLICIES, "fresh", "mean age", "never", "fastest tenth"):
        assert word in out
    assert "unstale plan pages.csv --budget 1/hour writes the frequencies." in " ".join(out.split())
    assert "harmonic" in run("compare", "pages.csv", "--budget", "1/h", "--objective", "harmonic")[0]


def test_compare_counts_bytes(ask):
    answer = ask("compare", "files.csv", "--budget", "1MB/h")
    proportional = 0.6 * 50 * 1000 / (RATES * SIZES).sum()
    assert answer["policies"][1]["budget_on_fastest_tenth"] == pytest.approx(proportional, rel=1e-9)
    assert (answer["budget_unit"], answer["budget"]) == ("bytes/day", 24e6)


def test_whatif_prints_a_curve(run):
    out, err = run("whatif", "pages.csv")
    assert err == ""
    assert re.search(r"^10 polls/day +\d", out, re.MULTILINE)
    assert "unstale whatif pages.csv --freshness 80% finds the budget for a target." in out
    assert "220 elements" in run("whatif")[0]


def test_whatif_json(ask):
    answer = ask("whatif", "pages.csv", "--freshness", "80%", "--age", "6h", "--budget", "1/h")
    assert list(answer) == [
        "file", "elements", "uncertain", "time_unit", "budget_unit", "budget", "objective", "order",
        "objectives", "curve", "targets", "plot",
    ]  # fmt: skip
    curve = {name: np.array([row[name] for row in answer["curve"]], float) for name in answer["curve"][0]}
    assert list(curve) == [
        "budget", "freshness", "age", "cost", "uniform_freshness", "uniform_age", "uniform_cost"
    ]  # fmt: skip
    assert 24.0 in curve["budget"]
    for name, sign in {"budget": 1, "freshness": 1, "age": -1}.items():
        assert (sign * np.diff(curve[name]) > 0).all()
    assert (curve["freshness"] >= curve["uniform_freshness"] - 1e-9).all()
    for row in answer["curve"]:
        fresh = unstale.plan(RATES, row["budget"], weights=WEIGHTS)
        young = unstale.plan(RATES, row["budget"], weights=WEIGHTS, objective="age")
        assert row["freshness"] == pytest.approx(fresh.freshness, rel=1e-3)
        assert row["age"] == pytest.approx(young.age, rel=1e-3)
    fresh, young = answer["targets"]
    assert (fresh["freshness"], young["age"]) == (0.8, 0.25)
    assert (fresh["objective"], young["objective"]) == ("freshness", "age")
    assert answer["objective"] == "freshness"
    assert answer["objectives"] == {"freshness": "freshness", "age": "age"}
    assert unstale.plan(RATES, fresh["budget"], weights=WEIGHTS).freshness == pytest.approx(0.8, rel=1e-6)
    plan = unstale.plan(RATES, young["budget"], weights=WEIGHTS, objective="age")
    assert plan.age == pytest.approx(0.25, rel=1e-6)
    assert fresh["budget"] < fresh["uniform"]
    assert young["budget"] < young["uniform"]
    assert ask("whatif", "pages.csv")["budget"] is None


def test_whatif_answers_in_words(run):
    out, _ = run("whatif", "pages.csv", "--freshness", "80%", "--age", "6h", "--budget", "1/h")
    words = " ".join(out.split())
    assert re.search(
        r"80% fresh takes [\d,.]+ polls/hour, [\d.,]+ times the budget \([\d,.]+ polls/hour if uni", words
    )
    assert re.search(r"A mean age of 6 hours takes [\d,.]+ polls/hour, ", words)
    assert "1 poll/hour (--budget)" in out


def test_whatif_keeps_bounds_and_counts_bytes(run, ask):
    bounded = ["whatif", "pages.csv", "--max-frequency", "2/day", "--freshness", "99%"]
    assert ask(*bounded)["targets"][0]["budget"] is None
    assert "99% fresh is out of reach: no budget buys it within these limits." in run(*bounded)[0]
    least = ask("whatif", "pages.csv", "--min-frequency", "1/day")
    assert all(row["budget"] >= 6 for row in least["curve"])
    assert re.search(r"^\d+ [kM]B/day ", run("whatif", "files.csv")[0], re.MULTILINE)
    one = ask("whatif", "pages.csv", "--objective", "age", "--freshness", "50%")
    assert (one["objective"], one["targets"][0]["objective"]) == ("age", "age")
    assert one["objectives"] == {"freshness": "age", "age": "age"}


def test_whatif_says_why_a_target_is_out_of_reach(run, monkeypatch):
    def out_of_reach(*_, **__):
        raise NoAnswer

    monkeypatch.setattr("unstale.planning.budget_for", out_of_reach)
    command = ["whatif", "pages.csv", "--freshness", "99%"]
    said = "99% fresh is out of reach: no budget buys it"
    assert f"{said} with plans for harmonic." in run(*command, "--objective", "harmonic")[0]
    assert f"{said} with plans for freshness." in run(*command, "--min-frequency", "1/week")[0]
    assert f"{said} within these limits." in run(*command, "--group-limit", "1/day")[0]


STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


COMMANDS = {
    "svg": ["compare", "pages.csv", "--budget", "1/h"],
    "png": ["whatif", "pages.csv", "--freshness", "80%", "--age", "6h", "--budget", "1/h"],
    "pdf": ["whatif", "files.csv", "--objective", "freshness"],
    "": ["compare", "files.csv", "--budget", "1MB/h", "--objective", "harmonic"],
}


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        pytest.param(command, kind, marks=() if kind == own else pytest.mark.long)
        for own, command in COMMANDS.items()
        for kind in STARTS
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2]),
)
def test_plots(command, kind, run):
    pytest.importorskip("matplotlib")
    out, _ = run(*command, "--plot", f"plot.{kind}")
    assert f"plot.{kind} has the picture." in out
    first = Path(f"plot.{kind}").read_bytes()
    assert first.startswith(STARTS[kind])
    run(*command, "--plot", f"plot.{kind}")
    assert Path(f"plot.{kind}").read_bytes() == first


def test_plots_are_refused_before_the_work(refuse, monkeypatch):
    assert refuse("compare", "--plot", "p.gif") == "--plot must end in .svg, .png or .pdf; it is 'p.gif'"
    assert (
        refuse("whatif", "--plot", "no/p.svg")
        == "--plot must be in a directory that exists; it is 'no/p.svg'"
    )
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    needs = "plots need an optional part: pip install 'unstale[lab]'"
    assert refuse("compare", "--plot", "p.svg") == needs
    assert refuse("whatif", "--plot", "p.svg") == needs
