"""``unstale plan`` writes what the library plans, whatever the files and options."""

import io
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import unstale
from cli.elements import RATES, ROWS, SIZES, WEIGHTS, close, expected, frequencies


def test_plan_writes_what_the_library_plans(run):
    out, err = run("plan", "pages.csv", "--budget", "10/day", "--out", "plan.csv")
    assert err == ""
    close(frequencies(), expected(10.0))
    assert out.startswith("6 elements, about 81.1 changes/day, a budget of 10 polls/day\n")
    for word in (
        "optimal for freshness",
        "uniform",
        "proportional",
        "plan.csv has the frequencies, in polls/day",
    ):
        assert word in out


def test_plan_gives_csv_to_a_pipe_and_the_rest_to_stderr(run):
    out, err = run("plan", "pages.csv", "--budget", "10/day")
    Path("plan.csv").write_text(out)
    close(frequencies(), expected(10.0))
    assert err.startswith("6 elements, ")


def test_plan_reads_standard_input(run, monkeypatch):
    data = Path("pages.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    out, _ = run("plan", "-", "--budget", "10/day")
    Path("plan.csv").write_text(out)
    close(frequencies(), expected(10.0))


@pytest.mark.parametrize("source", ["pages.csv", "pages.parquet"])
@pytest.mark.parametrize("target", ["plan.csv", "plan.csv.gz", "plan.tsv", "plan.parquet"])
def test_plan_between_formats(source, target, run):
    from unstale.tables import as_list, element_table

    run("plan", source, "--budget", "10/day", "--out", target)
    got = element_table(target, {"rate": "frequency"}).read()
    assert as_list(got.keys) == [row[0] for row in ROWS]
    close(got.rates, expected(10.0))


def test_plan_without_keys_numbers_the_rows(run):
    Path("rates.csv").write_text("rate\n1\n2\n")
    out, _ = run("plan", "rates.csv", "--budget", "2/day")
    assert [line.split(",")[0] for line in out.splitlines()] == ["key", "1", "2"]


@pytest.mark.parametrize(
    ("arguments", "budget", "options"),
    [
        (["--objective", "age"], 10.0, {"objective": "age"}),
        (["--objective", "missed-updates"], 10.0, {"objective": "missed-updates"}),
        (["--objective", "harmonic"], 10.0, {"objective": "harmonic"}),
        (["--objective", "currency:6h"], 10.0, {"objective": unstale.currency(0.25)}),
        (["--order", "random"], 10.0, {"order": "random"}),
        (["--order", "purely-random"], 10.0, {"order": "purely-random"}),
        (["--policy", "uniform"], 10.0, {"policy": "uniform"}),
        (["--policy", "proportional"], 10.0, {"policy": "proportional"}),
        (["--policy", "square-root"], 10.0, {"policy": "square-root"}),
        (["--policy", "random-optimal"], 10.0, {"policy": "random-optimal"}),
        (["--min-frequency", "1/week"], 10.0, {"min_frequency": 1 / 7}),
        (["--max-frequency", "3/day"], 10.0, {"max_frequency": 3.0}),
        (["--budget", "1/h"], 24.0, {}),
        (["--budget", "1k/h", "--order", "fixed"], 24000.0, {}),
        (
            ["--group-limit", "1/12h"],
            10.0,
            {"groups": np.array([0, 0, 1, 1, 1, 2]), "limits": np.array([2.0, 2.0, 2.0])},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_plan_options(arguments, budget, options, run):
    run("plan", "pages.csv", "--budget", "10/day", *arguments, "--out", "plan.csv")
    close(frequencies(), expected(budget, **options))


def test_group_limits_are_kept_and_what_is_left_is_told(run):
    out, _ = run("plan", "pages.csv", "--budget", "10/day", "--group-limit", "2/day", "--out", "plan.csv")
    f = frequencies()
    for host in ("a.example", "b.example", "c.example"):
        assert sum(f[i] for i, row in enumerate(ROWS) if row[4] == host) <= 2 * (1 + 1e-9)
    assert "The limits leave 4 polls/day of the budget unspent." in out


def test_columns_and_units_of_the_file(run):
    columns = ("rate=changes", "key=url", "weight=importance", "group=host")
    named = [word for column in columns for word in ("--column", column)]
    run("plan", "odd.csv", "--budget", "10/day", *named, "--rate-unit", "week", "--out", "plan.csv")
    close(frequencies(), 7 * expected(10.0))


def test_bytes(run):
    out, _ = run("plan", "files.csv", "--budget", "1MB/h", "--out", "plan.csv")
    close(frequencies(), expected(24e6, sizes=SIZES))
    assert "a budget of 1 MB/hour" in out
    assert (frequencies() * SIZES).sum() == pytest.approx(24e6, rel=1e-9)
    run("plan", "files.csv", "--budget", "10/day", "--ignore-sizes", "--out", "plan.csv")
    close(frequencies(), expected(10.0))


@pytest.mark.parametrize(
    ("objective", "heading"),
    [("missed-updates", "changes"), ("harmonic", "cost"), ("currency:6h", "behind")],
)
def test_other_objectives_show_their_cost(objective, heading, run):
    out, _ = run("plan", "pages.csv", "--budget", "10/day", "--objective", objective, "--out", "plan.csv")
    assert re.search(rf"^policy .* {heading}$", out, re.MULTILINE)


def test_plan_json(ask):
    answer = ask("plan", "pages.csv", "--budget", "1/h")
    plan = unstale.plan(RATES, 24.0, weights=WEIGHTS)
    uniform = unstale.plan(RATES, 24.0, weights=WEIGHTS, policy="uniform")
    assert list(answer) == [
        "file", "elements", "uncertain", "time_unit", "budget_unit", "budget", "objective", "order", "policy",
        "freshness",
        "age", "cost", "spent", "never_polled", "price", "gap", "against", "out", "allocation",
    ]  # fmt: skip
    assert (answer["file"], answer["elements"], answer["out"]) == ("pages.csv", 6, None)
    assert (answer["time_unit"], answer["budget_unit"], answer["budget"]) == ("day", "polls/day", 24.0)
    assert (answer["objective"], answer["order"], answer["policy"]) == ("freshness", "fixed", "optimal")
    assert answer["freshness"] == pytest.approx(plan.freshness, rel=1e-12)
    assert answer["spent"] == pytest.approx(24.0, rel=1e-9)
    assert answer["never_polled"] == np.count_nonzero(plan.frequencies == 0)
    assert math.isinf(plan.age)
    assert answer["age"] is None
    assert list(answer["against"]) == ["uniform", "proportional"]
    assert answer["against"]["uniform"]["age"] == pytest.approx(uniform.age, rel=1e-12)
    assert [row["key"] for row in answer["allocation"]] == [row[0] for row in ROWS]
    close([row["frequency"] for row in answer["allocation"]], plan.frequencies)
    written = ask("plan", "pages.csv", "--budget", "1/h", "--out", "plan.csv")
    assert written == {k: v for k, v in answer.items() if k != "allocation"} | {"out": "plan.csv"}


def test_elements_that_never_change(ask):
    Path("still.csv").write_text("rate\n0\n0\n")
    answer = ask("plan", "still.csv", "--budget", "2/day")
    assert answer["freshness"] == 1.0
    assert list(answer["against"]) == ["uniform"]
    assert len(ask("compare", "still.csv", "--budget", "2/day")["policies"]) == 3
