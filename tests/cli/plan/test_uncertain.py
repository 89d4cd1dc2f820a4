"""Rates that are known only as a law stay uncertain through files: what the library plans for the law."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import unstale
from cli.elements import RATES, ROWS, WEIGHTS, about, close, frequencies, write_csv
from unstale import Poisson, UncertainPoisson
from unstale.polling import mean_cost

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SHAPES = np.array([0.4, 1.0, 2.5, 0.8, 30.0, 3.0])
SCALES = RATES / SHAPES
LAW = UncertainPoisson(SHAPES, SCALES)


@pytest.fixture(autouse=True)
def uncertain(folder):
    """The six elements with their laws; their column of rates says something else."""
    rows = [
        (row[0], 7.0, row[2], row[4], a, s)
        for row, a, s in zip(ROWS, SHAPES.tolist(), SCALES.tolist(), strict=True)
    ]
    header = ("key", "rate", "weight", "group", "shape", "scale")
    write_csv("laws.csv", ",".join(header), rows)
    write_csv("lawful.csv", "key,weight,shape,scale", [(k, w, a, s) for k, _, w, _, a, s in rows])
    pq.write_table(
        pa.table(dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))), "laws.parquet"
    )
    return folder


def planned(budget, law=LAW, **options):
    return unstale.plan(law, budget, **{"weights": WEIGHTS, **options})


@pytest.mark.parametrize("file", ["laws.csv", "lawful.csv", "laws.parquet"])
@pytest.mark.parametrize("objective", ["freshness", "age", "missed-updates"])
def test_plan_is_that_of_the_law(file, objective, ask):
    answer = ask("plan", file, "--budget", "24/day", "--objective", objective, "--out", "plan.csv")
    plan = planned(24.0, objective=objective)
    close(frequencies(), plan.frequencies)
    assert answer["uncertain"] == 6
    assert answer["freshness"] == pytest.approx(plan.freshness, rel=1e-9)
    assert answer["cost"] == pytest.approx(plan.cost, rel=1e-9)
    uniform = planned(24.0, objective=objective, policy="uniform")
    assert answer["against"]["uniform"]["cost"] == pytest.approx(uniform.cost, rel=1e-9)


def test_limits_and_bounds_go_with_laws(run):
    command = ["plan", "laws.csv", "--budget", "20/day", "--group-limit", "9/day", "--max-frequency", "8/day"]
    run(*command, "--out", "plan.csv")
    hosts = [row[4] for row in ROWS]
    limits = dict.fromkeys(hosts, 9.0)
    close(frequencies(), planned(20.0, groups=hosts, limits=limits, max_frequency=8.0).frequencies)


def test_output_says_that_rates_are_uncertain(run):
    out, _ = run("plan", "laws.csv", "--budget", "24/day", "--out", "plan.csv")
    assert out.startswith(
        "6 elements with uncertain rates, about 81.1 changes/day, a budget of 24 polls/day\n"
    )
    out, _ = run("plan", "pages.csv", "--budget", "24/day", "--out", "plan.csv")
    assert "uncertain" not in out


def test_certain_takes_the_rates(ask, refuse):
    answer = ask("plan", "laws.csv", "--budget", "24/day", "--certain", "--out", "plan.csv")
    close(frequencies(), planned(24.0, np.full(6, 7.0)).frequencies)
    assert answer["uncertain"] == 0
    assert refuse("plan", "lawful.csv", "--budget", "1/h", "--certain").startswith(
        "lawful.csv, line 1: there is no column 'rate' among 'key', 'weight', 'shape', 'scale'"
    )
    told = refuse("plan", "laws.csv", "--budget", "1/h", "--certain", "--column", "shape=a")
    assert told == "--certain cannot be combined with --column shape=a"


def test_columns_of_laws_have_any_name(run, refuse):
    text = Path("lawful.csv").read_text().replace("shape,scale", "a,s")
    Path("odd.csv").write_text(text)
    run(
        "plan",
        "odd.csv",
        "--budget",
        "9/day",
        "--column",
        "shape=a",
        "--column",
        "scale=s",
        "--out",
        "plan.csv",
    )
    close(frequencies(), planned(9.0).frequencies)
    told = refuse("plan", "odd.csv", "--budget", "9/day", "--column", "shape=a")
    assert told == (
        "odd.csv, line 1: there is no column 'scale' among 'key', 'weight', 'a', 's'; "
        "say which one it is with --column scale=NAME"
    )


def test_one_of_the_columns_is_no_law(run):
    write_csv("half.csv", "key,rate,weight,shape", [(k, r, w, "round") for k, r, w, _, _ in ROWS])
    run("plan", "half.csv", "--budget", "9/day", "--out", "plan.csv")
    close(frequencies(), planned(9.0, RATES).frequencies)


@pytest.mark.parametrize("kind", ["csv", "parquet", "stream"])
@pytest.mark.parametrize("rest", [0.5, 0.0])
def test_rows_without_a_law_have_certain_rates(kind, rest, ask):
    rows = [
        ("c", 3.0, 1.0, "", 2.0),
        ("a", "", 1.0, 0.5, 4.0),
        ("d", rest, 2.0, "", ""),
        ("b", 9.0, 3.0, 2.0, 0.25),
    ]
    write_csv("mixed.csv", "key,rate,weight,shape,scale", rows)
    columns = zip(*[[None if value == "" else value for value in row] for row in rows], strict=True)
    table = pa.table(dict(zip(("key", "rate", "weight", "shape", "scale"), map(list, columns), strict=True)))
    pq.write_table(table, "mixed.parquet")
    file = "mixed.csv" if kind == "csv" else "mixed.parquet"
    more = ["--stream"] * (kind == "stream")
    answer = ask("plan", file, "--budget", "5/day", "--objective", "age", "--out", "plan.parquet", *more)
    laws = [Poisson(3.0), UncertainPoisson(0.5, 4.0), Poisson(rest), UncertainPoisson(2.0, 0.25)]
    plan = unstale.plan(laws, 5.0, weights=[1.0, 1.0, 2.0, 3.0], objective="age")
    np.testing.assert_allclose(pq.read_table("plan.parquet")["frequency"], plan.frequencies, rtol=1e-7)
    assert answer["uncertain"] == 2
    assert answer["elements"] == 4
    assert answer["age"] == pytest.approx(plan.age, rel=1e-7)
    assert answer["freshness"] == pytest.approx(plan.freshness, rel=1e-7)


@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic", "currency:6h"])
def test_stream_plans_the_same(objective, ask, monkeypatch):
    monkeypatch.setattr("unstale.tables.files.BATCH_ROWS", 500)
    rng, n = np.random.default_rng(1), 1500
    shape = pa.array(rng.gamma(2.0, 1.0, n) + 0.2, mask=rng.random(n) < 0.2)
    columns = {
        "key": np.arange(n),
        "rate": rng.lognormal(0, 1.5, n),
        "weight": rng.random(n),
        "shape": shape,
        "scale": rng.lognormal(0, 1.5, n),
    }
    pq.write_table(pa.table(columns), "many.parquet")
    command = ["plan", "many.parquet", "--budget", "300/day", "--objective", objective, "--out"]
    whole, parts = ask(*command, "whole.parquet"), ask(*command, "parts.parquet", "--stream")
    one, other = (pq.read_table(f"{name}.parquet")["frequency"] for name in ("whole", "parts"))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    assert whole["uncertain"] == parts["uncertain"] == n - shape.null_count
    for name in ("freshness", "age", "cost", "spent"):
        assert parts[name] == about(whole[name], rel=1e-7)
        for policy in ("uniform", "proportional"):
            assert parts["against"][policy][name] == about(whole["against"][policy][name], rel=1e-7)


def test_compare_judges_by_the_law(ask):
    answer = ask("compare", "laws.csv", "--budget", "24/day")
    got = {(one["policy"], one["objective"]): one for one in answer["policies"]}
    for (policy, objective), one in got.items():
        if policy == "random-optimal":  # for known rates: it goes by the mean ones
            f = planned(24.0, RATES, policy=policy).frequencies
        else:
            f = planned(24.0, policy=policy, objective=objective or "freshness").frequencies
        for kind in ("freshness", "age"):
            cost = float(WEIGHTS @ mean_cost(kind, LAW, f) / WEIGHTS.sum())
            assert one[kind] == about(1.0 - cost if kind == "freshness" else cost, rel=1e-9)
    assert max(answer["policies"], key=lambda one: one["freshness"])["objective"] == "freshness"


def test_whatif_goes_by_the_law(ask):
    answer = ask("whatif", "laws.csv", "--freshness", "70%", "--budget", "24/day")
    row = next(row for row in answer["curve"] if row["budget"] == 24.0)
    assert row["freshness"] == pytest.approx(planned(24.0).freshness, rel=1e-9)
    wanted = unstale.budget_for(LAW, freshness=0.7, weights=WEIGHTS)
    assert answer["targets"][0]["budget"] == pytest.approx(wanted, rel=1e-9)


def test_schedule_goes_by_the_law(ask):
    command = ["schedule", "laws.csv", "--budget", "24/day", "--for", "1day"]
    answer = ask(*command)
    assert answer["freshness"] == pytest.approx(planned(24.0).freshness, rel=1e-9)
    jittered = ask(*command, "--jitter", "50%")
    assert 0.9 * answer["freshness"] < jittered["freshness"] < answer["freshness"]


def test_estimates_stay_uncertain(run, ask):
    polls = [
        (key, day, int(day % every == 0)) for key, every in (("a", 2), ("b", 5), ("c", 9)) for day in range(9)
    ]
    days = [(key, 86400 * day, changed) for key, day, changed in polls]
    write_csv("polls.csv", "key,time,changed", [*days, ("d", 0, 0)])
    for out in ("rates.csv", "rates.parquet"):
        run("estimate", "polls.csv", "--no-law", "--out", out)
        answer = ask("plan", out, "--budget", "2/day")
        with Path("rates.csv").open() as file:
            rows = list(csv.DictReader(file))
        law = UncertainPoisson(*(np.array([float(row[name]) for row in rows]) for name in ("shape", "scale")))
        wanted = unstale.plan(law, 2.0)
        close([one["frequency"] for one in answer["allocation"]], wanted.frequencies)
        assert answer["uncertain"] == 4
        assert answer["freshness"] == pytest.approx(wanted.freshness, rel=1e-9)
        known = unstale.plan([float(row["rate"]) for row in rows], 2.0)
        assert abs(wanted.freshness - known.freshness) > 1e-3


def test_weights_of_accesses_leave_laws_as_they_are(run):
    write_csv("log.csv", "key,time", [("a", 1), ("a", 2), ("b", 3)])
    write_csv("some.csv", "key,rate,shape,scale", [("a", 7, 2.5, 0.5), ("b", 3, "", "")])
    for out in ("weighted.csv", "weighted.parquet"):
        run("profile", "log.csv", "--elements", "some.csv", "--out", out)
    table = pq.read_table("weighted.parquet").to_pydict()
    assert table["shape"] == [2.5, None]
    assert table["scale"] == [0.5, None]
    assert table["rate"] == pytest.approx([1.25, 3.0], rel=1e-14)
    with Path("weighted.csv").open() as file:
        assert [(row["shape"], row["scale"]) for row in csv.DictReader(file)] == [("2.5", "0.5"), ("", "")]
    assert json.loads(run("plan", "weighted.csv", "--budget", "1/day", "--json")[0])["uncertain"] == 1


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ("b,1,0,1", "column 'shape': must be finite and > 0; it is '0'"),
        ("b,1,-1,1", "column 'shape': must be finite and > 0; it is '-1'"),
        ("b,1,1e16,1", "column 'shape': must be between 1e-100 and 1e15; it is '1e16'"),
        ("b,1,nan,1", "column 'shape': must be finite and > 0; it is 'nan'"),
        ("b,1,1,inf", "column 'scale': must be finite and > 0; it is 'inf'"),
        ("b,1,1,0", "column 'scale': must be finite and > 0; it is '0'"),
        ("b,1,1,x", "column 'scale': must be a number; it is 'x'"),
        ("b,-2,1,1", "column 'rate': must be finite and >= 0; it is '-2'"),
        ("b,,1,", "column 'rate': must be a number; it is ''"),
        ("b,,,", "column 'rate': must be a number; it is ''"),
    ],
)
def test_mistakes_have_their_place(row, complaint, refuse):
    Path("bad.csv").write_text(f"key,rate,shape,scale\na,1,2,0.5\n{row}\nc,,,\n")
    assert refuse("plan", "bad.csv", "--budget", "1/h") == f"bad.csv, line 3, {complaint}"


def test_mistakes_without_rates_have_their_place(refuse):
    Path("bad.csv").write_text("key,shape,scale\na,2,0.5\nb,1,\n")
    told = "line 3, column 'scale': must be a number; it is ''"
    assert refuse("plan", "bad.csv", "--budget", "1/h") == f"bad.csv, {told}"
    columns = {"shape": [1.0, None], "scale": [1.0, 2.0]}
    pq.write_table(pa.table(columns), "bad.parquet")
    for more in ([], ["--stream"]):
        told = refuse("plan", "bad.parquet", "--budget", "1/h", "--out", "plan.parquet", *more)
        assert told == "bad.parquet, row 2, column 'shape': must be a number; it is None"
    pq.write_table(pa.table({"shape": [1.0, 1e16], "scale": [1.0, 2.0]}), "bad.parquet")
    told = refuse("plan", "bad.parquet", "--budget", "1/h", "--out", "plan.parquet")
    assert told == "bad.parquet, row 2, column 'shape': must be between 1e-100 and 1e15; it is 1e+16"
