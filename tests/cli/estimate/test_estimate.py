"""``unstale estimate`` writes what the library estimates, and says which law the changes follow."""

import csv
import io
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.elements import write_csv
from unstale.cli.estimate.command import METHODS
from unstale.cli.estimate.plot import Watched
from unstale.estimation.rates.estimators import METHODS as ALL_METHODS
from unstale.estimation.rates.posterior import GammaPrior
from unstale.estimation.rates.rates_of_many import estimate_rates
from unstale.processes import Poisson
from unstale.tables import as_list, element_table, poll_table

N, POLLS = 40, 25
COLUMNS = ["key", "rate", "low", "high", "polls", "changes", "shape", "scale"]


def histories(seed=1, n=N, polls=POLLS, draw=None):
    """Polls of elements: number, days since the poll before, whether it saw a change, age of the last one."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.5, 0.4, n) + 0.02
    elements, elapsed, changed, ages = [], [], [], []
    for element, rate in enumerate(rates.tolist()):
        gaps = rng.exponential(size=800) if draw is None else draw(rng, 800)
        changes = np.cumsum(gaps) / rate - 30.0
        times = np.cumsum(rng.exponential(1.0, polls + 1))
        before = np.searchsorted(changes, times)
        elements += [element] * polls
        elapsed += np.diff(times).tolist()
        changed += (np.diff(before) > 0).tolist()
        ages += (times - changes[np.maximum(before - 1, 0)])[1:].tolist()
    return np.array(elements), np.array(elapsed), np.array(changed), np.array(ages)


def write_polls(path, elements, elapsed, changed, ages=None, *, hosts=False):
    """Write polls to a file, latest first; the first poll of each element knows nothing."""
    rows = []
    for element in np.unique(elements).tolist():
        own = elements == element
        ends = 86400.0 * (1000.0 + np.cumsum(elapsed[own]))
        host = [f"h{element % 2}"] if hosts else []
        rows.append([f"e{element}", 86400.0 * 1000.0, "", *([""] if ages is not None else []), *host])
        for k, (end, seen) in enumerate(zip(ends.tolist(), changed[own].tolist(), strict=True)):
            modified = [repr(float(end - 86400.0 * ages[own][k]))] if ages is not None else []
            rows.append([f"e{element}", repr(end), int(seen), *modified, *host])
    names = [
        "key",
        "time",
        "changed",
        *(["modified"] if ages is not None else []),
        *(["host"] if hosts else []),
    ]
    keys = rows[0][0]
    write_csv(path, ",".join(names), sorted(rows, key=lambda row: (row[0] != keys, -float(row[1]))))


@pytest.fixture
def polls():
    """Polls in a file, and as the library takes them."""
    columns = histories()
    write_polls("polls.csv", *columns[:3])
    return columns[:3]


def read_rates(path="rates.csv"):
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    keys = [row.pop("key") for row in rows]
    classes = [row.pop("class", None) for row in rows]
    order = np.argsort([int(key[1:]) for key in keys])
    numbers = {name: np.array([float(row[name]) for row in rows])[order] for name in rows[0]}
    return numbers | {"class": [classes[at] for at in order]}


def close(got, wanted, rtol=1e-6):
    np.testing.assert_allclose(got, wanted, rtol=rtol)


def check(got, rates):
    """Compare a file with the library."""
    close(got["rate"], rates.rate)
    close(got["low"], rates.low)
    close(got["high"], rates.high)
    close(got["shape"], rates.law.shape)
    close(got["scale"], rates.law.scale)
    np.testing.assert_array_equal(got["polls"], rates.polls)
    np.testing.assert_array_equal(got["changes"], rates.changes)


def test_it_writes_what_the_library_estimates(polls, run):
    out, err = run("estimate", "polls.csv", "--no-law", "--out", "rates.csv")
    assert err == ""
    check(read_rates(), estimate_rates(*polls))
    with Path("rates.csv").open() as file:
        assert file.readline().strip().split(",") == COLUMNS
    assert out.startswith(f"{N} elements, {N * POLLS:,} polls in ")
    assert f", {polls[2].sum()} of which saw a change\n" in out
    for words in (
        "changes/day",
        "... and 30 more, which change less",
        "with a probability of 90%, the rate is between them",
        "What is typical: ",
        "rates.csv has the rates, in changes/day. A plan with them: unstale plan rates.csv --budget 1000/day",
    ):
        assert words in out
    assert "Poisson" not in out


def test_the_table_has_the_fastest_first(polls, run):
    out, _ = run("estimate", "polls.csv", "--no-law", "--out", "rates.csv", "--top", "3")
    rates = estimate_rates(*polls)
    table = [line.split() for line in out.split("\n\n")[1].splitlines()]
    assert table[0] == ["key", "polls", "changes", "changes/day", "low", "high"]
    assert [row[0] for row in table[1:4]] == [f"e{at}" for at in np.argsort(-rates.rate)[:3]]
    assert float(table[1][3]) == pytest.approx(rates.rate.max(), rel=0.01)
    out, _ = run("estimate", "polls.csv", "--no-law", "--out", "rates.csv", "--top", "0")
    assert "e0" not in out


@pytest.mark.parametrize("target", ["rates.csv", "rates.csv.gz", "rates.tsv", "rates.parquet"])
def test_a_plan_takes_the_file_as_it_is(target, polls, run, ask):
    run("estimate", "polls.csv", "--no-law", "--out", target)
    rates = estimate_rates(*polls)
    answer = ask("plan", target, "--budget", "10/day")
    assert answer["elements"] == N
    got = element_table(target, {"key": "key"}).read()
    order = np.argsort([int(key[1:]) for key in as_list(got.keys)])
    close(got.rates[order], rates.rate)


def test_parquet_notes_units(run, polls):  # noqa: ARG001  (which writes the file)
    run("estimate", "polls.csv", "--no-law", "--out", "rates.parquet", "--rate-unit", "hour")
    schema = pytest.importorskip("pyarrow.parquet").read_schema("rates.parquet")
    assert schema.names == COLUMNS
    assert schema.field("rate").metadata == {b"unit": b"changes/hour"}
    assert schema.field("polls").metadata is None


def test_a_pipe_gets_rates_and_a_plan_can_follow(polls, run, monkeypatch):
    out, err = run("estimate", "polls.csv", "--no-law")
    Path("rates.csv").write_text(out)
    check(read_rates(), estimate_rates(*polls))
    assert err.startswith(f"{N} elements, ")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    planned, _ = run("plan", "-", "--budget", "10/day")
    assert planned.startswith("key,frequency\n")


def test_it_reads_standard_input_and_parquet(polls, run, monkeypatch):
    arrow_csv, parquet = pytest.importorskip("pyarrow.csv"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("polls.csv").read_bytes())))
    run("estimate", "-", "--no-law", "--out", "rates.csv")
    check(read_rates(), estimate_rates(*polls))
    parquet.write_table(arrow_csv.read_csv("polls.csv"), "polls.parquet")
    run("estimate", "polls.parquet", "--no-law", "--out", "rates.csv")
    check(read_rates(), estimate_rates(*polls))


@pytest.mark.parametrize("method", METHODS)
def test_methods(method, run):
    elements, elapsed, changed, ages = histories()
    write_polls("polls.csv", elements, elapsed, changed, ages)
    run("estimate", "polls.csv", "--no-law", "--method", method, "--out", "rates.csv")
    check(read_rates(), estimate_rates(elements, elapsed, changed, method=method, modified=ages))


def test_all_methods_are_offered():
    assert sorted(METHODS) == sorted(ALL_METHODS)


@pytest.mark.parametrize("option", ["--rate-unit", "--unit"])
def test_the_unit_of_time_does_not_matter(option, polls, run):
    run("estimate", "polls.csv", "--no-law", option, "week", "--out", "rates.csv")
    rates, got = estimate_rates(*polls), read_rates()
    for name in ("rate", "low", "high"):
        close(got[name], 7.0 * getattr(rates, name), rtol=1e-4)
    out, _ = run("estimate", "polls.csv", "--no-law", "--unit", "week", "--out", "rates.csv")
    assert "changes/week" in out
    assert "unstale plan rates.csv --budget 1000/day --rate-unit week" in " ".join(out.split())


def test_surer_intervals_are_wider(polls, run):
    run("estimate", "polls.csv", "--no-law", "--level", "99%", "--out", "rates.csv")
    check(read_rates(), estimate_rates(*polls, level=0.99))


def test_classes_have_their_own_prior(run, ask):
    elements, elapsed, changed, _ = histories()
    write_polls("polls.csv", elements, elapsed, changed, hosts=True)
    classes = np.arange(N) % 2
    rates = estimate_rates(elements, elapsed, changed, classes=classes)
    out, _ = run("estimate", "polls.csv", "--no-law", "--by", "host", "--out", "rates.csv")
    got = read_rates()
    check(got, rates)
    assert got["class"] == [f"h{at}" for at in classes]
    assert "What is typical of a class:\nclass " in out
    answer = ask("estimate", "polls.csv", "--no-law", "--by", "host")
    by_name = {one["class"]: one for one in answer["classes"]}
    for at in (0, 1):
        one, own = by_name[f"h{at}"], elements % 2 == at
        assert (one["elements"], one["polls"]) == (N // 2, own.sum())
        assert one["changes"] == changed[own].sum()
        assert one["mean_rate"] == pytest.approx(rates.prior[at].rate, rel=1e-6)
        assert one["spread"] == pytest.approx(rates.prior[at].shape ** -0.5, rel=1e-6)


@pytest.mark.parametrize("by", [[], ["--by", "host"]])
def test_forgetting(by, run):
    elements, elapsed, changed, ages = histories()
    write_polls("polls.csv", elements, elapsed, changed, ages, hosts=True)
    classes = np.arange(N) % 2 if by else np.zeros(N, int)
    rates = estimate_rates(
        elements, elapsed, changed, modified=ages, classes=classes, half_life=2.0, level=0.8
    )
    run(
        "estimate", "polls.csv", "--no-law", "--half-life", "48h", "--level", "80%", *by, "--out", "rates.csv"
    )
    got = read_rates()
    for name, column in (("rate", rates.rate), ("low", rates.low), ("high", rates.high)):
        close(got[name], column)
    close(got["shape"], rates.law.shape)


def test_a_very_long_half_life_forgets_nothing(run):
    """Of a single element too, whose prior is in doubt."""
    write_polls("polls.csv", np.zeros(3, int), np.ones(3), np.array([False, True, False]))
    got = []
    for options in ([], ["--half-life", "1e9y"]):
        run("estimate", "polls.csv", "--no-law", *options, "--out", "rates.csv")
        got.append(read_rates())
    for name in ("rate", "low", "high", "shape"):
        close(got[1][name], got[0][name])


def test_when_changes_were_makes_rates_surer(run):
    elements, elapsed, changed, ages = histories()
    width = {}
    for name, known in (("with", ages), ("without", None)):
        write_polls("polls.csv", elements, elapsed, changed, known)
        run("estimate", "polls.csv", "--no-law", "--out", "rates.csv")
        got = read_rates()
        width[name] = np.median(np.log(got["high"] / got["low"])[got["changes"] > 5])
    assert width["with"] < width["without"]


def test_elements_of_which_little_is_known(run):
    rows = [("a", 1, 0), ("a", 2, 1), ("a", 3, 0), ("a", 3, 0), ("b", 1, 1), ("c", 1, 0), ("c", 9, 0)]
    write_csv("polls.csv", "key,time,changed", rows)
    for method in ("bayes", "mle"):
        out, _ = run("estimate", "polls.csv", "--method", method, "--out", "rates.csv")
        with Path("rates.csv").open(newline="") as file:
            got = {row["key"]: row for row in csv.DictReader(file)}
        assert [got[key]["polls"] for key in "abc"] == ["2", "0", "1"]
        assert all(float(row["low"]) <= float(row["rate"]) <= float(row["high"]) for row in got.values())
        assert float(got["b"]["rate"]) > 0  # a guess, whatever the method
        assert "1 element was polled only once; its rate is a guess from the others." in out
        assert "1 row repeats the element and the time of another, and counts once." in out
        assert "Which law changes follow cannot be told from so few polls." in out
        run("plan", "rates.csv", "--budget", "1/h", "--out", "plan.csv")


@pytest.mark.parametrize("seen", [0, 1])
def test_elements_that_never_or_always_change(seen, run):
    write_csv("polls.csv", "key,time,changed", [(key, 3600 * t, seen) for key in "abc" for t in range(20)])
    out, _ = run("estimate", "polls.csv", "--out", "rates.csv")
    with Path("rates.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert 0 < float(row["low"]) < float(row["rate"]) < float(row["high"]) < 1e5
    assert "Which law changes follow cannot be told from so few polls." in out


def test_changes_that_are_dated_after_their_poll(run, ask):
    write_csv("polls.csv", "key,time,changed,modified", [("a", 1, 0, ""), ("a", 5, 1, 6), ("a", 9, 1, 7)])
    out, _ = run("estimate", "polls.csv", "--no-law", "--out", "rates.csv")
    assert "1 poll says that the last change was after the poll; that is taken as not known." in out
    assert ask("estimate", "polls.csv", "--no-law")["dated_ahead"] == 1


# --- the law ------------------------------------------------------------------------------------------------

LAWS = {
    "poisson": (None, "Changes come at random, as Poisson changes do: Poisson fits best ("),
    "bursts": (lambda rng, size: rng.weibull(0.45, size) / 2.48, "Changes come in bursts: a "),
    "regular": (
        lambda rng, size: rng.gamma(8.0, 1 / 8.0, size),
        "Changes come more regularly than at random: a ",
    ),
}


@pytest.mark.parametrize("kind", ["poisson", "bursts", pytest.param("regular", marks=pytest.mark.long)])
def test_it_says_which_law_fits(kind, run):
    draw, words = LAWS[kind]
    write_polls("polls.csv", *histories(3, 80, 50, draw)[:3])
    out, _ = run("estimate", "polls.csv", "--out", "rates.csv", "--plot", "gaps.png")
    said = " ".join(out.split())
    assert words in said
    assert ("Poisson is rejected (p" in said) == (kind != "poisson")
    assert "unstale plan takes" in said
    assert Path("gaps.png").read_bytes().startswith(b"\x89PNG")
    assert "gaps.png has the picture." in said


def test_the_law_in_json(ask):
    write_polls("polls.csv", *histories(3, 80, 50, LAWS["bursts"][0])[:3])
    law = ask("estimate", "polls.csv")["law"]
    assert law["kind"] == "bursts"
    assert law["p_value_of_poisson"] < 1e-3
    assert len(law["fits"]) == 6
    assert law["name"] == law["fits"][0]["name"]
    assert sum(one["probability"] for one in law["fits"]) == pytest.approx(1.0)


def test_each_class_has_its_law(run):
    elements, elapsed, changed, _ = histories(3, 50, 50)
    other = histories(4, 50, 50, LAWS["bursts"][0])
    write_polls(
        "polls.csv",
        np.concatenate([2 * elements, 2 * other[0] + 1]),
        np.concatenate([elapsed, other[1]]),
        np.concatenate([changed, other[2]]),
        hosts=True,
    )
    out, _ = run("estimate", "polls.csv", "--by", "host", "--out", "rates.csv", "--top", "0")
    assert "Changes come at random, as Poisson changes do: h0. " in out
    assert "Changes come in bursts: h1. " in out


def test_many_classes_share_one_law(ask):
    elements, elapsed, changed, _ = histories(3, 27, 20)
    write_polls("polls.csv", elements, elapsed, changed)
    rows = list(csv.reader(Path("polls.csv").read_text().splitlines()))
    write_csv("polls.csv", "key,time,changed,host", [[*row, int(row[0][1:]) % 9] for row in rows[1:]])
    answer = ask("estimate", "polls.csv", "--by", "host")
    assert len(answer["classes"]) == 9
    assert all(one["law"] is None for one in answer["classes"])
    assert answer["law"]["kind"] in {"poisson", "unknown"}


def test_laws_are_drawn_as_the_same_polls_would_see_them():
    """Polls of Poisson changes show what simulated Poisson changes show, however rarely they come."""
    from unstale.estimation import gap_shares

    write_polls("polls.csv", *histories(5, 150, 60)[:3])
    watched = Watched.of(poll_table("polls.csv").read())
    seen, simulated = gap_shares(*watched.gaps(watched.changed)), gap_shares(*watched.gaps_of(Poisson(1.0)))
    assert simulated.gaps > 20 * seen.gaps
    error = np.sqrt(simulated.shares / seen.gaps)
    np.testing.assert_array_less(np.abs(seen.shares - simulated.shares), 4.5 * error + 2.0 / seen.gaps)


# --- the program --------------------------------------------------------------------------------------------


def test_json(polls, ask):
    answer = ask("estimate", "polls.csv", "--no-law", "--half-life", "1w", "--rate-unit", "hour")
    assert list(answer) == [
        "file", "elements", "polls", "changes", "time_unit", "method", "half_life", "level", "polled_once",
        "repeated", "dated_ahead", "classes", "law", "rates", "plot", "out",
    ]  # fmt: skip
    assert (answer["file"], answer["elements"], answer["polls"]) == ("polls.csv", N, N * POLLS)
    assert (answer["time_unit"], answer["half_life"], answer["level"]) == ("hour", 168.0, 0.9)
    assert list(answer["rates"][0]) == COLUMNS
    assert answer["changes"] == sum(one["changes"] for one in answer["rates"]) == polls[2].sum()
    prior = GammaPrior.learned(*polls)
    assert answer["classes"][0]["mean_rate"] == pytest.approx(prior.rate / 24.0, rel=1e-3)
    written = ask(
        "estimate", "polls.csv", "--no-law", "--half-life", "1w", "--unit", "hour", "--out", "r.csv"
    )
    assert written == {k: v for k, v in answer.items() if k != "rates"} | {"out": "r.csv"}


def test_help(run):
    out, _ = run("estimate", "--help")
    assert "Examples:\n    unstale estimate polls.csv" in out
    assert "bayes, mle, last-" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing argument 'FILE'; see unstale estimate --help"),
        (["none.csv"], "none.csv: no such file or directory"),
        (
            ["pages.csv"],
            (
                "pages.csv, line 1: there is no column 'time' among 'key', 'rate', 'weight', 'group'; "
                "say which one it is with --column time=NAME"
            ),
        ),
        (
            ["polls.csv", "--column", "rate=x"],
            "--column must be ROLE=NAME with a role among key, time, changed, modified; it is 'rate=x'",
        ),
        (
            ["polls.csv", "--by", "host"],
            "polls.csv, line 1: there is no column 'host' among 'key', 'time', 'changed'",
        ),
        (
            ["polls.csv", "--level", "90"],
            "--level must be a share between 0% and 100%, such as 80% or 0.8; it is '90'",
        ),
        (
            ["polls.csv", "--half-life", "60"],
            "--half-life must be a time, such as 90s, 6h, 1.5 days or 2 weeks; it is '60'",
        ),
        (
            ["polls.csv", "--half-life", "60d", "--method", "mle"],
            "--half-life needs --method bayes; it is mle",
        ),
        (
            ["polls.csv", "--method", "last-modified"],
            (
                "polls.csv: --method last-modified needs a column 'modified'; "
                "--column modified=NAME says which"
            ),
        ),
        (["polls.csv", "--out", "polls.csv"], "--out must not be the file that is read; it is 'polls.csv'"),
        (
            ["polls.csv", "--out", "rates.xls"],
            "--out must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet; it is 'rates.xls'",
        ),
        (["polls.csv", "--plot", "gaps.gif"], "--plot must end in .svg, .png or .pdf; it is 'gaps.gif'"),
        (
            ["still.csv", "--no-law", "--plot", "gaps.png", "--out", "rates.csv"],
            (
                "still.csv: --plot needs an element that was seen changed 6 times or more, "
                "and unchanged at least as often; there is none"
            ),
        ),
        (
            ["bad.csv", "--out", "rates.csv"],
            "bad.csv, line 4, column 'changed': must be 0 or 1, true or false, or yes or no; it is '304'",
        ),
        (
            ["some.csv", "--method", "last-modified"],
            (
                "some.csv: --method last-modified needs to know when each change was, and 1 poll that saw "
                "one does not say; --method bayes takes polls with and without it"
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.usefixtures("polls")
def test_mistakes(arguments, message, refuse):
    Path("still.csv").write_text("key,time,changed\na,1,0\na,2,0\n")
    Path("bad.csv").write_text("key,time,changed\na,1,0\na,2,0\na,3,304\n")
    Path("some.csv").write_text("key,time,changed,modified\na,1,0,\na,2,1,1.5\na,3,1,\n")
    assert refuse("estimate", *arguments) == message
