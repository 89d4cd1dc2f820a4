"""``unstale schedule`` writes the polls that the library schedules."""

import csv
import gzip
import io
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

import unstale
from cli.elements import RATES, ROWS, WEIGHTS, expected
from unstale.cli.schedule.report import ScheduleCounts, in_milliseconds, times_of
from unstale.polling import mean_cost
from unstale.schedule import Schedule
from unstale.schedule.earliest_deadline import EarliestDeadline
from unstale.schedule.window_costs import jittered_cost, windowed_cost
from unstale.schedule.windows import Windows

KEYS = [row[0] for row in ROWS]
DAY = ["--budget", "10/day", "--for", "1day"]
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def read_polls(path="polls.csv"):
    """Times and keys."""
    data = Path(path).read_bytes()
    text = (gzip.decompress(data) if path.endswith(".gz") else data).decode()
    rows = list(csv.reader(text.splitlines(), delimiter="\t" if ".tsv" in path else ","))
    assert rows[0] == ["time", "key"]
    return [row[0] for row in rows[1:]], [row[1] for row in rows[1:]]


def scheduled(length, stream):
    """What the library schedules: seconds and keys."""
    polls = stream.until(length)
    return 86400 * polls.times, [KEYS[i] for i in polls.elements.tolist()]


def close(times, wanted):
    """To the millisecond, and never later."""
    assert len(times) == len(wanted)
    late = np.asarray(times, float) - wanted
    assert (late < 1e-6).all()
    assert (late > -1.001e-3).all()


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--order", "random"], {"order": "random"}),
        (["--order", "purely-random", "--seed", "9"], {"order": "purely-random", "seed": 9}),
        (["--jitter", "30%"], {"jitter": 0.3}),
        (["--even"], {"even": True}),
        (["--even", "--order", "random"], {"even": True, "order": "random"}),
        (["--window", "every 1 from 0.5 to 0.75"], {"windows": Windows.every(1, 0.5, 0.75).clock()}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_schedule_writes_what_the_library_schedules(arguments, options, run):
    out, err = run(
        "schedule", "pages.csv", "--budget", "50/day", "--for", "9d", *arguments, "--out", "polls.csv"
    )
    assert err == ""
    order = {"order": options["order"]} if "order" in options else {}
    times, keys = scheduled(9.0, Schedule(expected(50.0, **order), **options))
    got = read_polls()
    close(got[0], times)
    assert got[1] == keys
    assert f"9 days: {len(keys)} polls, " in out
    assert "polls.csv has the polls, in the order of time; times are seconds from the beginning." in out


def test_earliest_deadline_first(run, ask):
    run("schedule", "pages.csv", *DAY, "--edf", "--out", "polls.csv")
    times, keys = scheduled(1.0, EarliestDeadline(expected(10.0)))
    got = read_polls()
    close(got[0], times)
    assert got[1] == keys
    assert ask("schedule", "pages.csv", *DAY, "--edf")["freshness"] is None  # no formula tells


@pytest.mark.parametrize("suffix", ["csv", "tsv", "csv.gz", "tsv.gz"])
def test_timestamps_in_text(suffix, run):
    path = f"polls.{suffix}"
    out, _ = run("schedule", "pages.csv", *DAY, "--start", "2026-01-05T01:00+01:00", "--out", path)
    assert "1 day from 2026-01-05 00:00:00 UTC: 10 polls" in out
    assert "times are timestamps in UTC" in out
    stamps, keys = read_polls(path)
    assert all(re.fullmatch(r"2026-01-05T\d\d:\d\d:\d\d\.\d{3}Z", stamp) for stamp in stamps)
    times, wanted = scheduled(1.0, Schedule(expected(10.0)))
    close([(datetime.fromisoformat(stamp) - MONDAY).total_seconds() for stamp in stamps], times)
    assert keys == wanted


def test_parquet(run):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    times, keys = scheduled(1.0, Schedule(expected(10.0)))
    run("schedule", "pages.parquet", *DAY, "--out", "polls.parquet")
    table = pq.read_table("polls.parquet")
    assert table.schema.field("time").metadata == {b"unit": b"second"}
    close(table.column("time").to_pylist(), times)
    assert table.column("key").to_pylist() == keys
    run("schedule", "pages.csv", *DAY, "--start", "2026-01-05", "--out", "polls.parquet")
    table = pq.read_table("polls.parquet")
    assert table.schema.field("time").type == pa.timestamp("ms", "UTC")
    close([(when - MONDAY).total_seconds() for when in table.column("time").to_pylist()], times)


def test_a_pipe_gets_all_polls_and_the_rest_goes_to_stderr(run):
    out, err = run("schedule", "pages.csv", *DAY)
    Path("polls.csv").write_text(out)
    times, keys = read_polls()
    assert len(times) == 10
    assert set(keys) <= set(KEYS)
    assert err.startswith("6 elements, about 81.1 changes/day, a budget of 10 polls/day\n1 day: 10 polls")


def test_standard_input(run, monkeypatch):
    wanted, _ = run("schedule", "pages.csv", *DAY)
    data = Path("pages.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert run("schedule", "-", *DAY)[0] == wanted


@pytest.mark.parametrize("window", [None, "every 1 from 0.5 to 0.75", "every 1 from 0.5 to 0.75 at_start=1"])
def test_blocks_make_no_difference(window, run, ask, monkeypatch):
    command = ["schedule", "pages.csv", "--budget", "500/day", "--for", "3d"]
    command += ["--window", window] if window else []
    whole, answer = run(*command)[0], ask(*command)
    monkeypatch.setattr(sys.modules["unstale.cli.schedule.command"], "_POLLS_PER_BLOCK", 7)
    assert run(*command)[0] == whole
    assert ask(*command) == answer


def test_polls_are_inside_windows(run):
    text = "mon-fri 22:00-06:00 Europe/Berlin"
    options = ["--start", "2026-01-05", "--window", text]
    run("schedule", "pages.csv", "--budget", "10k/day", "--for", "1week", *options, "--out", "polls.csv")
    stamps, keys = read_polls()
    clock = Windows.parse(text).clock(MONDAY, 86400.0)
    times, wanted = scheduled(7.0, Schedule(expected(10_000.0), windows=clock))
    close([(datetime.fromisoformat(stamp) - MONDAY).total_seconds() for stamp in stamps], times)
    assert keys == wanted
    hours = {(datetime.fromisoformat(stamp) + timedelta(hours=1)).hour for stamp in stamps}
    assert hours == {22, 23, 0, 1, 2, 3, 4, 5}


# --- the report ----------------------------------------------------------------------------------------


def test_schedule_json(ask):
    answer = ask("schedule", "pages.csv", *DAY, "--start", "2026-01-05")
    assert list(answer) == [
        "file", "elements", "uncertain", "time_unit", "budget_unit", "budget", "objective", "order", "policy",
        "start",
        "seconds", "polls", "polls_per_hour", "busiest_minute", "freshness_planned", "freshness", "first",
        "out",
    ]  # fmt: skip
    plan = unstale.plan(RATES, 10.0, weights=WEIGHTS)
    assert answer["freshness"] == answer["freshness_planned"] == plan.freshness
    assert (answer["start"], answer["seconds"]) == ("2026-01-05T00:00:00+00:00", 86400.0)
    assert answer["polls_per_hour"] == pytest.approx(answer["polls"] / 24)
    times, keys = scheduled(1.0, Schedule(plan.frequencies))
    assert answer["polls"] == len(times)
    assert [row["key"] for row in answer["first"]] == keys[:10]
    plain = ask("schedule", "pages.csv", *DAY, "--out", "polls.csv")
    assert (plain["start"], plain["out"]) == (None, "polls.csv")
    close([row["time"] for row in plain["first"]], times[:10])


def fresh(costs):
    return 1 - float(WEIGHTS @ costs / WEIGHTS.sum())


@pytest.mark.parametrize("order", ["fixed", "random", "purely-random"])
def test_what_windows_cost(order, run, ask):
    options = [*DAY, "--order", order, "--window", "every 1 from 0.5 to 0.75"]
    clock = Windows.every(1, 0.5, 0.75).clock()
    frequencies = expected(10.0, order=order)
    answer = ask("schedule", "pages.csv", *options)
    planned, windowed = answer["freshness_planned"], answer["freshness"]
    assert planned == pytest.approx(fresh(mean_cost("freshness", RATES, frequencies, order)))
    assert windowed == pytest.approx(fresh(windowed_cost("freshness", RATES, frequencies, clock, order)))
    out, _ = run("schedule", "pages.csv", *options, "--out", "polls.csv")
    said = re.search(r"The windows cost ([\d.]+) points of freshness: copies are ([\d.]+)% fresh", out)
    assert float(said[1]) == pytest.approx(100 * (planned - windowed), rel=0.01)
    assert float(said[2]) == pytest.approx(100 * windowed, abs=0.051)


def test_what_jitter_costs(run, ask):
    answer = ask("schedule", "pages.csv", *DAY, "--jitter", "50%")
    assert answer["freshness"] == pytest.approx(fresh(jittered_cost("freshness", RATES, expected(10.0), 0.5)))
    out, _ = run("schedule", "pages.csv", *DAY, "--jitter", "1%", "--out", "polls.csv")
    assert re.search(r"Jitter costs [\d.e-]+ points of freshness: copies are still [\d.]+% fresh\.", out)
    both = ["--jitter", "50%", "--window", "every 1 from 0.5 to 0.75", "--out", "polls.csv"]
    assert "The windows and jitter cost " in run("schedule", "pages.csv", *DAY, *both)[0]


def test_what_takes_long_is_worked_out_for_some_elements(ask, monkeypatch):
    rng = np.random.default_rng(1)
    Path("many.csv").write_text("rate\n" + "\n".join(map(str, rng.gamma(1.0, 1.0, 60).tolist())))
    options = ["--budget", "60/day", "--for", "1h", "--order", "random", "--window", "every 1 from 0 to 0.5"]
    exact = ask("schedule", "many.csv", *options)["freshness"]
    monkeypatch.setattr("unstale.cli.schedule.report._ELEMENTS_SAMPLED", 20)
    assert ask("schedule", "many.csv", *options)["freshness"] == pytest.approx(exact, abs=0.01)


def test_the_busiest_minute_is_counted_across_blocks():
    rng = np.random.default_rng(1)
    times = np.sort(rng.integers(0, 600_000, 1000))
    counts = np.bincount(times // 60_000)
    for size in (1000, 100, 7, 1):
        counted = ScheduleCounts()
        for first in range(0, 1000, size):
            counted.add(times[first : first + size])
            counted.add(times[:0])
        assert (counted.polls, counted.busiest) == (1000, counts.max())
        assert counts[counted.busiest_minute] == counts.max()


def test_milliseconds_are_never_rounded_up():
    seconds = np.random.default_rng(1).uniform(0, 1e6, 1000)
    milliseconds = in_milliseconds(seconds)
    assert (milliseconds <= 1e3 * seconds + 1e-3).all()
    assert (milliseconds > 1e3 * seconds - 1.001).all()
    assert in_milliseconds(np.array([0.1, 0.2, 0.3]) * 86400).tolist() == [8640000, 17280000, 25920000]
    assert times_of(milliseconds, None).tolist() == (milliseconds / 1e3).tolist()
    assert times_of(np.array([1500]), MONDAY)[0] == np.datetime64("2026-01-05T00:00:01.500", "ms")


# --- nothing much --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("how", [[], ["--even"], ["--edf"], ["--window", "every 1 from 0 to 0.5"]])
def test_no_polls(suffix, how, run):
    from unstale.tables import open_file

    out, _ = run(
        "schedule", "pages.csv", "--budget", "0/day", "--for", "1d", *how, "--out", f"polls.{suffix}"
    )
    assert "1 day: 0 polls\n" in out
    assert open_file(f"polls.{suffix}").names == ["time", "key"]


def test_elements_that_never_change(run, refuse):
    Path("still.csv").write_text("rate\n0\n0\n")
    assert len(run("schedule", "still.csv", *DAY)[0].splitlines()) == 11
    assert refuse("schedule", "still.csv", *DAY, "--policy", "proportional") == (
        "still.csv: no element changes, so there is nothing for --policy proportional to go by"
    )


# --- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "1/h"], "Missing option '--for'; see unstale schedule --help"),
        (["--for", "1d"], "Missing option '--budget'; see unstale schedule --help"),
        (
            [*DAY, "--for", "0d"],
            (
                "--for must be a time, such as 90s, 6h, 1.5 days or 2 weeks; it is '0d', "
                "and it must be finite and > 0"
            ),
        ),
        (
            [*DAY, "--start", "today"],
            "--start must be a moment, such as 2026-01-31 or 2026-01-31T12:00Z; it is 'today'",
        ),
        ([*DAY, "--start", "9999-12-31T12:00"], "--for must not go beyond the year 9999"),
        (
            [*DAY, "--edf", "--even"],
            "--edf cannot be combined with --even; it has a sequence of its own",
        ),
        (
            [*DAY, "--edf", "--order", "random"],
            "--edf cannot be combined with --order random; it has a sequence of its own",
        ),
        (
            [*DAY, "--even", "--window", "every 1 from 0 to 0.5"],
            "--even cannot be combined with --window; it spaces polls over all time",
        ),
        (
            [*DAY, "--jitter", "5%", "--order", "random"],
            "--jitter cannot be combined with --order random, which needs none",
        ),
        (
            [*DAY, "--window", "mon-fri 22:00-06:00 Europe/Berlin"],
            "--window needs --start, the moment at which the schedule begins: --start 2026-01-31",
        ),
        (
            [*DAY, "--out", "./pages.csv"],
            "--out must not be the file that is read; it is './pages.csv'",
        ),
        (
            [*DAY, "--out", "polls.doc"],
            "--out must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet; it is 'polls.doc'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_cannot_be(arguments, message, refuse):
    assert refuse("schedule", "pages.csv", *arguments) == message


def test_windows_that_make_no_sense(refuse):
    message = refuse("schedule", "pages.csv", *DAY, "--start", "2026-01-05", "--window", "at night")
    assert message.startswith("--window must be like 'mon-fri 22:00-06:00 Europe/Berlin'; in 'at night' ")


def test_a_failure_while_writing_leaves_nothing(refuse, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("unstale.tables.atomic_files.os.fsync", full)
    assert refuse("schedule", "pages.csv", *DAY, "--out", "polls.csv") == (
        "polls.csv: cannot be written: no space left on device; make room there, or name another place"
    )
