"""``unstale simulate`` shows what the library simulates, for elements, histories and named distributions."""

import io
import json
import math
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

import unstale
from cli.elements import RATES, ROWS, SIZES, WEIGHTS, write_csv
from unstale.cli.shared.options import POLICIES, RULES, SLOTTED
from unstale.cli.simulate.rate_distributions import DISTRIBUTIONS, read_distribution
from unstale.quantities import time_unit
from unstale.schedule.windows import Windows
from unstale.simulation import NAMES, Conditions, World, align, simulate, zipf
from unstale.simulation import RULES as LIBRARY_RULES

SHORT = ["--horizon", "100 days", "--budget", "10/day"]
DAY = time_unit("unit", "day")


def same(row, outcome):
    """An entry of the list of policies, and an outcome of the library."""
    for name in ("freshness", "age", "missed_updates"):
        assert row[name] == getattr(outcome, name)
        assert row[f"{name}_error"] == getattr(outcome, f"{name}_error")
    for name in ("polls", "failed", "found", "spent", "accesses"):
        assert row[name] == getattr(outcome, name)
    assert row["never_polled"] == np.count_nonzero(outcome.elements.polls == 0)


def test_policies_are_those_of_the_library():
    assert tuple(RULES) == tuple(LIBRARY_RULES)
    assert sorted([*POLICIES, *SLOTTED, *RULES]) == sorted(NAMES)


def test_simulate_has_a_bundled_example(run):
    out, err = run("simulate", "--horizon", "100 days")
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == "220 elements, about 2,167 changes/day, a budget of 220 polls/day"
    assert re.fullmatch(
        r"100 days simulated, measured after a burn-in of 20 days: [\d,]+ changes, seed 0", lines[1]
    )
    assert re.search(r"^uniform +6\d\.\d+ ± 0\.\d+% +61\.\d+% ", out, re.MULTILINE)
    assert re.search(r"^optimal +220 polls/day +\d\d\.\d%$", out, re.MULTILINE)
    words = " ".join(out.split())
    assert re.search(
        r"optimal is ahead of uniform by [\d.]+ ± [\d.]+ points, both on the same changes", words
    )
    assert words.endswith("Your own elements: unstale simulate FILE --budget 1000/day")


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--seed", "7"], {"seed": 7}),
        (["--order", "purely-random"], {"order": "purely-random"}),
        (["--jitter", "20%"], {"jitter": 0.2}),
        (["--burn-in", "1 day"], {"burn_in": 1.0}),
        (["--burn-in", "0"], {"burn_in": 0.0}),
        (["--batches", "8"], {"batches": 8}),
        (["--objective", "age"], {"objective": "age"}),
        (["--fails", "10%", "--takes", "1h"], {"conditions": Conditions(takes=1 / 24, fails=0.1)}),
        (["--late", "2h"], {"conditions": Conditions(late=1 / 12)}),
        (["--window", "every 1 from 0.5 to 0.75"], {"windows": Windows.every(1, 0.5, 0.75).clock()}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_simulate_shows_what_the_library_simulates(arguments, options, ask):
    answer = ask("simulate", "pages.csv", *SHORT, *arguments)
    result = simulate(World(RATES, weights=WEIGHTS), 10.0, horizon=100.0, **options)
    assert [row["policy"] for row in answer["policies"]] == ["uniform", "proportional", "optimal"]
    assert (answer["horizon"], answer["burn_in"], answer["seed"]) == (100.0, result.burn_in, result.seed)
    for row in answer["policies"]:
        same(row, result[row["policy"]])
    objective = options.get("objective", "freshness")
    assert answer["policies"][0]["cost"] == result["uniform"].cost(objective)


def test_simulate_json(ask):
    answer = ask("simulate", "pages.csv", *SHORT, "--policy", "uniform", "--policy", "nutch")
    assert list(answer) == [
        "file", "elements", "uncertain", "time_unit", "budget_unit", "budget", "objective", "order",
        "history", "horizon", "burn_in", "seed", "changes", "policies", "plot", "out",
    ]  # fmt: skip
    uniform, nutch = answer["policies"]
    assert list(uniform) == [
        "policy", "freshness", "freshness_error", "age", "age_error", "missed_updates",
        "missed_updates_error", "cost", "cost_error", "perceived_freshness", "perceived_freshness_error",
        "accesses", "lags", "polls", "failed", "found", "spent", "never_polled", "gives_up", "ahead_of_first",
        "ahead_of_first_error", "expected", "same_polls",
    ]  # fmt: skip
    assert list(uniform) == list(nutch)
    assert (answer["file"], answer["elements"], answer["history"]) == ("pages.csv", 6, False)
    assert list(uniform["lags"]) == ["50%", "90%", "99%"]
    assert uniform["ahead_of_first"] == 0.0
    assert uniform["perceived_freshness"] is None  # nobody asked
    assert nutch["expected"] is uniform["same_polls"] is None
    plan = unstale.plan(RATES, 10.0, weights=WEIGHTS, policy="uniform")
    assert uniform["expected"]["freshness"] == pytest.approx(plan.freshness, rel=1e-12)
    assert nutch["ahead_of_first"] == pytest.approx(nutch["freshness"] - uniform["freshness"])
    for way, share in nutch["same_polls"].items():
        plan = unstale.plan(RATES, nutch["spent"], weights=WEIGHTS, policy=way)
        assert share == pytest.approx(plan.freshness, rel=1e-12)


def test_what_is_infinite_is_null(ask):
    optimal = ask("simulate", "pages.csv", *SHORT, "--policy", "optimal")["policies"][0]
    assert optimal["gives_up"]
    assert optimal["expected"]["age"] is None
    assert math.isfinite(optimal["age"])  # as long as it was simulated


def test_a_seed_reproduces_a_run(run):
    first = run("simulate", "pages.csv", *SHORT, "--seed", "3")
    assert run("simulate", "pages.csv", *SHORT, "--seed", "3") == first
    assert run("simulate", "pages.csv", *SHORT, "--seed", "4") != first


def test_all_policies(run, ask):
    out, _ = run("simulate", "pages.csv", *SHORT, "--policy", "all")
    names = [*POLICIES, *SLOTTED, *RULES]
    assert re.findall(r"^([a-z-]+) +[\d.]+ ± ", out, re.MULTILINE) == names
    assert "optimal, random-optimal, edf and index never poll some elements that change" in " ".join(
        out.split()
    )
    twice = ask("simulate", "pages.csv", *SHORT, "--policy", "edf", "--policy", "edf")
    assert [row["policy"] for row in twice["policies"]] == ["edf"]


def test_rules_need_no_budget_and_are_held_against_as_many_polls(run):
    out, _ = run("simulate", "pages.csv", "--policy", "heritrix", "--horizon", "2y")
    assert out.startswith("6 elements, about 81.1 changes/day\n")
    assert "fresh if as many" in out
    assert "heritrix is less fresh than uniform polling with as many polls" in " ".join(out.split())


def test_windows_are_for_plans(run, ask):
    command = ["simulate", "pages.csv", "--horizon", "1y", "--policy", "nutch"]
    window = ["--window", "every 1 from 0 to 0.1"]
    assert ask(*command) == ask(*command, *window)
    assert "--window and --jitter are for plans; nutch does without." in run(*command, *window)[0]
    failing = ["--fails", "10%"]
    assert ask(*command, *failing) == ask(*command, *failing, *window)


def test_limits_are_kept(ask):
    limited = ["--max-frequency", "2/day", "--min-frequency", "1/day", "--group-limit", "5/day"]
    answer = ask("simulate", "pages.csv", *SHORT, *limited, "--policy", "optimal")
    plan = unstale.plan(
        RATES, 10.0, weights=WEIGHTS, max_frequency=2.0, min_frequency=1.0,
        groups=[row[4] for row in ROWS], limits=dict.fromkeys(["a.example", "b.example", "c.example"], 5.0),
    )  # fmt: skip
    (optimal,) = answer["policies"]
    same(optimal, simulate(World(RATES, weights=WEIGHTS), 10.0, policies={"p": plan}, horizon=100.0)["p"])


def test_bytes(run, ask):
    answer = ask("simulate", "files.csv", "--budget", "1MB/h", "--horizon", "100d", "--policy", "optimal")
    world = World(RATES, weights=WEIGHTS, sizes=SIZES)
    (optimal,) = answer["policies"]
    same(optimal, simulate(world, 24e6, policies=["optimal"], horizon=100.0)["optimal"])
    assert answer["budget_unit"] == "bytes/day"
    assert re.search(
        r"^optimal +[\d.]+ MB/hour", run("simulate", "files.csv", "--budget", "1MB/h")[0], re.MULTILINE
    )


def test_requests_and_profiles(run, ask):
    options = ["--accesses", "1/min", "--zipf", "1.5", "--alignment", "reverse"]
    Path("rates.csv").write_text("rate\n" + "\n".join(map(str, RATES)))
    out, _ = run("simulate", "rates.csv", *SHORT, *options)
    assert "requests that" in out
    answer = ask("simulate", "rates.csv", *SHORT, *options)
    profile = align(zipf(6, 1.5), RATES, "reverse")
    result = simulate(World(RATES, weights=profile, accesses=1440.0), 10.0, horizon=100.0)
    for row in answer["policies"]:
        same(row, result[row["policy"]])
        assert row["perceived_freshness"] == result[row["policy"]].perceived_freshness
        assert row["accesses"] > 100_000
    dealt = [
        ask("simulate", "rates.csv", *SHORT, "--zipf", "1", "--seed", seed)["policies"] for seed in (1, 2)
    ]
    assert dealt[0] != dealt[1]


@pytest.mark.parametrize("objective", ["harmonic", "currency:6h", "missed-updates"])
def test_other_objectives_are_measured(objective, run, ask):
    out, _ = run("simulate", "pages.csv", *SHORT, "--objective", objective)
    assert f"optimal for {objective}" in out
    goal = unstale.currency(0.25) if ":" in objective else objective
    answer = ask("simulate", "pages.csv", *SHORT, "--objective", objective)
    result = simulate(World(RATES, weights=WEIGHTS), 10.0, horizon=100.0, objective=goal, objectives=[goal])
    for row in answer["policies"]:
        assert row["cost"] == result[row["policy"]].cost(goal)
        assert row["cost_error"] == result[row["policy"]].cost_error(goal)


# --- histories -----------------------------------------------------------------------------------------


def write_history(path="changes.csv", *, shift=0.0, count=400):
    rng = np.random.default_rng(1)
    times, keys = (
        np.sort(rng.uniform(0, 40 * 86400, count)).round(),
        rng.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1]),
    )
    rows = [(key, t + shift) for key, t in zip(keys.tolist(), times.tolist(), strict=True)]
    write_csv(path, "element,t", rng.permutation(np.array(rows, object)).tolist())
    return rows


def in_file():
    """Keys in the order of the file."""
    return list(
        dict.fromkeys(line.split(",")[0] for line in Path("changes.csv").read_text().splitlines()[1:])
    )


def recorded(rows, begin, unit=86400.0):
    keys = in_file()
    kept = [(keys.index(key), (t - begin) / unit) for key, t in rows if t >= begin]
    end = (max(t for _, t in rows) - begin) / unit
    elements, times = zip(*sorted(set(kept)), strict=True)
    return World.recorded(np.array(elements), times, end=end, count=len(keys))


@pytest.mark.parametrize("begin", [None, 864000.0])
def test_a_history_is_replayed(begin, ask, run):
    rows = write_history()
    options = ["--budget", "6/day"] + (["--from", begin] if begin else [])
    answer = ask("simulate", "changes.csv", *options)
    world = recorded(rows, begin or min(t for _, t in rows))
    assert answer["history"]
    assert answer["horizon"] == pytest.approx(world.end)
    result = simulate(world, 6.0)
    for row in answer["policies"]:
        same(row, result[row["policy"]])
        assert row["expected"] is None
    out, _ = run("simulate", "changes.csv", *options)
    assert re.search(
        r"^[\d.]+ days replayed, measured after a burn-in of [\d.]+ days: \d+ changes$", out, re.MULTILINE
    )
    assert "by formula" not in out
    assert "Plans know how often each element changes over all of the history" in out


def test_rules_on_a_history_are_held_against_simulations(ask):
    rows = write_history()
    (rule,) = ask("simulate", "changes.csv", "--policy", "heritrix")["policies"]
    world = recorded(rows, min(t for _, t in rows))
    result = simulate(world, rule["spent"], policies=["uniform", "optimal"])
    assert rule["same_polls"] == {name: result[name].freshness for name in result}


def test_histories_in_other_forms_and_units(ask):
    rows = write_history(shift=1.7e9)
    days = ask("simulate", "changes.csv", "--budget", "6/day")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    order = in_file()
    rows.sort(key=lambda row: order.index(row[0]))
    stamps = pa.array([int(t) for _, t in rows], pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"path": [key for key, _ in rows], "t": stamps}), "changes.parquet")
    again = ask("simulate", "changes.parquet", "--budget", "6/day", "--column", "element=path")
    assert again | {"file": ""} == days | {"file": ""}
    hours = ask("simulate", "changes.csv", "--budget", "6/day", "--rate-unit", "hour")
    assert hours["horizon"] == pytest.approx(24 * days["horizon"])
    for one, other in zip(days["policies"], hours["policies"], strict=True):
        assert other["freshness"] == pytest.approx(one["freshness"], rel=1e-6)
        assert other["age"] == pytest.approx(24 * one["age"], rel=1e-6)


def test_windows_of_a_history_go_by_its_clock(ask):
    rows = write_history(shift=1.7e9)
    begin = min(t for _, t in rows)
    text = "all 08:00-12:00 Europe/Berlin"
    answer = ask("simulate", "changes.csv", "--budget", "6/day", "--window", text)
    clock = Windows.parse(text).clock(datetime.fromtimestamp(begin, UTC), 86400.0)
    result = simulate(recorded(rows, begin), 6.0, windows=clock)
    for row in answer["policies"]:
        same(row, result[row["policy"]])


def test_standard_input(ask, monkeypatch):
    write_history()
    for name, history in (("changes.csv", True), ("pages.csv", False)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(name).read_bytes())))
        answer = ask("simulate", "-", "--budget", "6/day", "--horizon", "30 days")
        assert (answer["file"], answer["history"]) == ("-", history)


# --- named distributions -------------------------------------------------------------------------------


@pytest.mark.parametrize("family", DISTRIBUTIONS)
def test_distributions(family, ask):
    text = DISTRIBUTIONS[family].example
    options = ["--rates", text, "--elements", 50, "--budget", "50/day", "--horizon", "50d", "--seed", 5]
    answer = ask("simulate", *options)
    assert (answer["file"], answer["elements"]) == (text, 50)
    rates = read_distribution("--rates", text).draw(50, DAY, 5)
    result = simulate(World(rates), 50.0, horizon=50.0, seed=5)
    for row in answer["policies"]:
        same(row, result[row["policy"]])


@pytest.mark.parametrize(
    ("text", "mean", "spread"),
    [
        ("gamma:mean=2/day,spread=0.5", 2.0, 0.5),
        ("gamma:mean=2/day", 2.0, 1.0),
        ("lognormal:mean=14/week,spread=0.5", 2.0, 0.5),
        ("exponential:mean=2/day", 2.0, 1.0),
        ("pareto:mean=1/12h,shape=4", 2.0, 8**-0.5),
        ("uniform:low=1/day,high=3/day", 2.0, 12**-0.5),
        ("uniform: high = 4/day", 2.0, 3**-0.5),
        ("constant:rate=2/day", 2.0, 0.0),
    ],
)
def test_means_and_spreads(text, mean, spread):
    rates = read_distribution("--rates", text).draw(200_000, DAY, 1)
    assert (rates >= 0).all()
    assert rates.mean() == pytest.approx(mean, rel=0.01)
    assert rates.std() / mean == pytest.approx(spread, rel=0.05)


# --- lengths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "days"),
    [
        (["--policy", "uniform", "--budget", "6/day"], 200.0),  # 200 polls of each element
        (["--policy", "uniform", "--budget", "1k/day"], 200 / RATES.mean()),  # 200 changes
        (["--policy", "uniform", "--budget", "60/day", "--policy", "nutch"], 5 * 365.25),
        (["--policy", "uniform", "--budget", "1G/day"], 0.01),  # ten million events
    ],
)
def test_the_usual_length(arguments, days, ask):
    answer = ask("simulate", "pages.csv", *arguments)
    assert answer["horizon"] == pytest.approx(days, rel=0.05)
    assert answer["burn_in"] == pytest.approx(answer["horizon"] / 5)


def test_a_burn_in_that_is_too_short_is_told(run):
    out, _ = run("simulate", "pages.csv", *SHORT)
    assert "proportional polls some elements less often than once in the burn-in" in " ".join(out.split())
    assert "which ± does not tell" not in run("simulate", "pages.csv", *SHORT, "--policy", "uniform")[0]


# --- nothing much --------------------------------------------------------------------------------------


def test_one_element_and_rates_and_budgets_of_zero(run, ask):
    Path("one.csv").write_text("rate\n1\n")
    (uniform,) = ask("simulate", "one.csv", "--budget", "1/day", "--policy", "uniform")["policies"]
    assert abs(uniform["freshness"] - (1 - math.exp(-1))) < 4 * uniform["freshness_error"]
    Path("still.csv").write_text("rate\n0\n0\n")
    short = ["--budget", "1/day", "--horizon", "30d"]
    for row in ask("simulate", "still.csv", *short, "--policy", "all")["policies"]:
        assert (row["freshness"], row["age"], row["found"]) == (1.0, 0.0, 0)
    assert "told apart" not in run("simulate", "still.csv", *short)[0]
    for row in ask("simulate", "pages.csv", "--budget", "0/day", "--horizon", "50d")["policies"]:
        assert row["polls"] == 0
        assert row["freshness"] < 0.5
    out, _ = run("simulate", "pages.csv", "--budget", "0/day", "--horizon", "50d")
    assert re.search(r"^uniform .* unbounded +unbounded$", out, re.MULTILINE)


def test_nothing_is_polled_by_the_others_with_a_budget_of_zero(ask):
    free = ["--policy", "edf", "--policy", "index", "--policy", "estimated-proportional"]
    for row in ask("simulate", "pages.csv", "--budget", "0/day", "--horizon", "50d", *free)["policies"]:
        assert row["polls"] == 0


# --- files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "parquet"])
def test_results_of_each_element(suffix, run):
    pa_csv, pq = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    out, _ = run("simulate", "pages.csv", *SHORT, "--out", f"elements.{suffix}")
    assert f"elements.{suffix} has the results of each element; times are in days." in out
    if suffix == "parquet":
        table = pq.read_table("elements.parquet")
        assert table.schema.field("age").metadata == {b"unit": b"day"}
    else:
        options = pa_csv.ParseOptions(delimiter="\t" if suffix == "tsv" else ",")
        table = pa_csv.read_csv(f"elements.{suffix}", parse_options=options)
    assert table.column_names == [
        "policy", "key", "rate", "freshness", "freshness_error", "age", "age_error", "missed_updates",
        "changes", "polls", "failed", "found", "accesses", "fresh_accesses",
    ]  # fmt: skip
    result = simulate(World(RATES, weights=WEIGHTS), 10.0, horizon=100.0)
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    assert columns["policy"] == [name for name in result for _ in ROWS]
    assert columns["key"] == [row[0] for row in ROWS] * 3
    for name in ("freshness", "age_error", "polls"):
        measured = np.concatenate([getattr(one.elements, name) for one in result.values()])
        np.testing.assert_array_equal(columns[name], measured)


STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


@pytest.mark.parametrize("kind", STARTS)
def test_plots(kind, run):
    pytest.importorskip("matplotlib")
    policies = ["--policy", "uniform", "--policy", "optimal", "--policy", "nutch"]
    command = ["simulate", "pages.csv", *SHORT, *policies, "--plot", f"plot.{kind}"]
    assert f"plot.{kind} has the picture." in run(*command)[0]
    first = Path(f"plot.{kind}").read_bytes()
    assert first.startswith(STARTS[kind])
    run(*command)
    assert Path(f"plot.{kind}").read_bytes() == first


@pytest.mark.parametrize("budget", ["0/day", "1/day", "100/s"])
def test_odd_plots(budget, run):
    pytest.importorskip("matplotlib")
    Path("still.csv").write_text("rate\n0\n")
    Path("one.csv").write_text("rate\n1\n")
    for file in ("still.csv", "one.csv"):
        run("simulate", file, "--budget", budget, "--horizon", "1h", "--plot", "plot.png")
        assert Path("plot.png").read_bytes().startswith(STARTS["png"])


# --- mistakes ------------------------------------------------------------------------------------------

TIME = "must be a time, such as 90s, 6h, 1.5 days or 2 weeks; it is"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pages.csv"], "--budget must be given, such as 1000/day; only rules of tools do without"),
        (["pages.csv", *SHORT, "--horizon", "0s"], f"--horizon {TIME} '0s', and it must be finite and > 0"),
        (["pages.csv", *SHORT, "--horizon", "1"], f"--horizon {TIME} '1'"),
        (
            ["pages.csv", *SHORT, "--burn-in", "100d"],
            "--burn-in must be shorter than the horizon, 100 days; it is 100 days",
        ),
        (["pages.csv", *SHORT, "--burn-in", "-1d"], f"--burn-in {TIME} '-1d'"),
        (
            ["pages.csv", *SHORT, "--fails", "110%"],
            "--fails must be a share between 0% and 100%, such as 80% or 0.8; it is '110%'",
        ),
        (
            ["pages.csv", *SHORT, "--jitter", "5%", "--order", "random"],
            "--jitter cannot be combined with --order random, which needs none",
        ),
        (["pages.csv", *SHORT, "--from", "2026-01-01"], "--from needs a history or --window"),
        (
            ["pages.csv", *SHORT, "--from", "soon"],
            "--from must be a moment, such as 2026-01-31 or 2026-01-31T12:00Z; it is 'soon'",
        ),
        (
            ["pages.csv", *SHORT, "--from", "1e12"],
            "--from must be from -1e11 to 1e11 seconds, or a timestamp; it is '1e12'",
        ),
        (
            ["pages.csv", *SHORT, "--max-frequency", "1/h", "--policy", "nutch"],
            "--max-frequency cannot be combined with --policy nutch, which keeps no limits",
        ),
        (
            ["pages.csv", *SHORT, "--zipf", "1"],
            "--zipf gives weights, but there are some in pages.csv already; leave one of them out",
        ),
        (
            ["pages.csv", *SHORT, "--alignment", "reverse"],
            "--alignment needs --zipf, whose profile it deals out",
        ),
        (
            ["pages.csv", *SHORT, "--out", "./pages.csv"],
            "--out must not be the file that is read; it is './pages.csv'",
        ),
        (["pages.csv", *SHORT, "--plot", "p.gif"], "--plot must end in .svg, .png or .pdf; it is 'p.gif'"),
        (
            ["pages.csv", *SHORT, "--column", "speed=x"],
            (
                "--column must be ROLE=NAME with a role among key, rate, weight, size, group, element, t; "
                "it is 'speed=x'"
            ),
        ),
        (
            ["other.csv", *SHORT],
            (
                "other.csv: there is neither a column 'rate' (of elements) nor 't' (of a history) among "
                "'url', 'when'; say which one it is with --column rate=NAME, or --column element=NAME "
                "--column t=NAME"
            ),
        ),
        (
            ["--rates", "constant:rate=1/day"],
            "--rates and --elements go together: --rates gamma:mean=1/day,spread=1 --elements 1000",
        ),
        (
            ["--elements", "5"],
            "--rates and --elements go together: --rates gamma:mean=1/day,spread=1 --elements 1000",
        ),
        (
            ["pages.csv", "--rates", "constant:rate=1/day", "--elements", "5"],
            "--rates must not be given with FILE, which is 'pages.csv'; choose one",
        ),
        (["--rates", "constant:rate=1/day", "--elements", "5", "--column", "rate=x"], "--column needs FILE"),
        (
            ["--rates", "constant:rate=1/day", "--elements", "5", "--budget", "1MB/h"],
            (
                "constant:rate=1/day: it has no sizes, which a budget of 1 MB/hour needs; "
                "count polls: 1000/day"
            ),
        ),
        (
            ["--rates", "normal:mean=1/day", "--elements", "5"],
            (
                "--rates must be one of gamma, lognormal, pareto, exponential, uniform, constant, "
                "such as gamma:mean=1/day,spread=1; it is 'normal:mean=1/day'"
            ),
        ),
        (
            ["--rates", "gamma:mean=1/day,shape=2", "--elements", "5"],
            "--rates must be like gamma:mean=1/day,spread=1; 'shape=2' is none of its parameters",
        ),
        (
            ["--rates", "gamma", "--elements", "5"],
            "--rates must be like gamma:mean=1/day,spread=1; 'mean' is missing in 'gamma'",
        ),
        (
            ["--rates", "gamma:mean=1", "--elements", "5"],
            "--rates gamma:mean must be changes per time, such as 1/day; it is '1'",
        ),
        (
            ["--rates", "gamma:mean=0/day", "--elements", "5"],
            "--rates gamma:mean must be more than nothing; it is '0/day'",
        ),
        (
            ["--rates", "gamma:mean=1/day,spread=0", "--elements", "5"],
            "--rates gamma:spread must be a number above 0, up to 1000; it is '0'",
        ),
        (
            ["--rates", "pareto:mean=1/day,shape=1", "--elements", "5"],
            "--rates pareto:shape must be a number above 1, up to 1000; it is '1'",
        ),
        (
            ["--rates", "uniform:low=2/day,high=1/day", "--elements", "5"],
            "--rates uniform must have low <= high; it is 'uniform:low=2/day,high=1/day'",
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, list) else "",
)
def test_options_that_cannot_be(arguments, message, refuse):
    Path("other.csv").write_text("url,when\na,1\n")
    assert refuse("simulate", *arguments) == message


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("element,t\na,5\n", [], ": all changes are at the same time, so there is nothing to simulate"),
        (
            "element,t\na,5\nb,6\n",
            ["--from", "6"],
            ": no change is after --from, so there is nothing to simulate",
        ),
        (
            "element,t\na,0\nb,soon\n",
            [],
            (
                ", line 3, column 't': must be a time: seconds or a timestamp such as 2026-01-31T12:00:00Z; "
                "it is 'soon'"
            ),
        ),
        (
            "path,t\na,0\nb,1\n",
            [],
            (
                ", line 1: there is no column 'element' among 'path', 't'; "
                "say which one it is with --column element=NAME"
            ),
        ),
        (
            "element,t\na,0\nb,1\n",
            ["--column", "rate=x"],
            ": a history has the columns element, t; leave out --column rate=...",
        ),
        (
            "element,t\na,0\nb,1\n",
            ["--group-limit", "1/h"],
            ": it has no groups, which --group-limit needs",
        ),
        ("element,t\n", [], ": it has a header line, but no changes below it"),
        ("rate\n", [], ": it has a header line, but no elements below it"),
        ("", [], ": empty; it needs a header line with at least the column 'rate'"),
    ],
)
def test_bad_files(text, arguments, message, refuse):
    Path("bad.csv").write_text(text)
    refused = refuse("simulate", "bad.csv", "--budget", "1/h", *arguments, "--out", "out.csv")
    assert refused == f"bad.csv{message}"


def test_a_history_has_an_end(refuse):
    write_history()
    assert re.fullmatch(
        r"--horizon must not go beyond the history, which lasts 39\.\d days; it is 41 days",
        refuse("simulate", "changes.csv", "--budget", "1/h", "--horizon", "41 days"),
    )


def test_unknown_policies_are_listed(refuse):
    message = refuse("simulate", "pages.csv", *SHORT, "--policy", "best")
    assert all(repr(name) in message for name in NAMES)


def test_json_is_one_document(run):
    out, err = run("simulate", "--horizon", "20d", "--json")
    assert json.loads(out)["elements"] == 220
    assert err == ""


def test_rules_that_have_not_settled_are_named(run):
    many = ("simulate", "--rates", "gamma:mean=1/day", "--elements", "40", "--policy", "nutch")
    early = run(*many, "--policy", "estimated-proportional", "--budget", "40/day", "--horizon", "30day")[0]
    assert "nutch and estimated-proportional are still finding the right intervals" in " ".join(early.split())
    late = run(*many, "--horizon", "6y", "--burn-in", "2y")[0]
    assert "still finding" not in late


def test_a_rule_with_constant_intervals_is_not_blamed_for_adapting(run):
    arguments = ("simulate", "--rates", "gamma:mean=1/day", "--elements", "10", "--horizon", "6y")
    assert "polls more what changes more" not in run(*arguments, "--policy", "nutch-default")[0]


def test_a_moment_before_all_calendars_is_refused(run):
    result = run("simulate", "--budget", "10/day", "--from", "0001-01-01T00:00+14:00", code=2)
    assert result[1].count("\n") == 1
