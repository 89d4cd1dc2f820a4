"""Every mistake is one line on stderr and exit code 2, and nothing is written."""

import io
import os
import re
import sys
from pathlib import Path

import pytest

from unstale.cli import main

FLOW = "must be an amount per time, such as 1000/day or 20MB/h; it is"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan"], "Missing argument 'FILE'; see unstale plan --help"),
        (["plan", "pages.csv"], "Missing option '--budget'; see unstale plan --help"),
        (["frobnicate"], "No such command 'frobnicate'; see unstale --help"),
        (["wach"], "No such command 'wach'. Did you mean 'watch'? See unstale --help"),
        (["plan", "pages.csv", "--budget", "10"], f"--budget {FLOW} '10'"),
        (
            ["plan", "pages.csv", "--budget", "10/moon"],
            f"--budget {FLOW} '10/moon', and 'moon' is no unit of time",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--rate-unit", "moon"],
            "--rate-unit must be a unit of time (second, minute, hour, day, week, month, year); it is 'moon'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--column", "speed=x"],
            (
                "--column must be ROLE=NAME with a role among key, rate, weight, size, group, shape, scale; "
                "it is 'speed=x'"
            ),
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--column", "rate=a", "--column", "rate=b"],
            "--column must name one column for each role; rate is 'a' and 'b'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--column", "weight=speed"],
            "pages.csv, line 1: there is no column 'speed' among 'key', 'rate', 'weight', 'group'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--objective", "speed"],
            (
                "--objective must be one of freshness, age, missed-updates, harmonic, currency:TIME, "
                "such as currency:6h; it is 'speed'"
            ),
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--objective", "currency:6"],
            "--objective currency:TIME must be a time, such as 90s, 6h, 1.5 days or 2 weeks; it is '6'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1MB/h"],
            (
                "pages.csv: a budget in bytes needs the bytes of a poll in a column 'size'; "
                "--column size=NAME says which, and a budget such as 1000/day counts polls"
            ),
        ),
        (
            ["plan", "files.csv", "--budget", "1/h"],
            (
                "files.csv: it has a column 'size', but the budget counts polls; "
                "give a budget in bytes, such as 20MB/h, or --ignore-sizes"
            ),
        ),
        (
            ["plan", "files.parquet", "--budget", "1/h", "--stream", "--out", "plan.parquet"],
            (
                "files.parquet: it has a column 'size', but the budget counts polls; "
                "give a budget in bytes, such as 20MB/h, or --ignore-sizes"
            ),
        ),
        (
            ["plan", "pages.parquet", "--budget", "1/h", "--group-limit", "1/h"],
            "pages.parquet: --group-limit needs a column 'group'; --column group=NAME says which",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--group-limit", "1MB/h"],
            "--group-limit must be in the unit of the budget; it counts bytes, and the budget polls",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--min-frequency", "1MB/h"],
            "--min-frequency must be polls per time, such as 1/week or 4/day; it is '1MB/h'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--min-frequency", "1/h"],
            "--min-frequency takes 6 polls/hour, which is more than the budget of 1 poll/hour",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--min-frequency", "2/day", "--max-frequency", "1/day"],
            "--max-frequency must be at least --min-frequency; it is 1 poll/day",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--min-frequency", "1/day", "--group-limit", "2/day"],
            (
                "--min-frequency takes 0.125 polls/hour in group 'b.example', "
                "which is more than the limit of 2 polls/day"
            ),
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--out", "plan.doc"],
            "--out must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet; it is 'plan.doc'",
        ),
        (
            ["plan", "pages.csv", "--budget", "1/h", "--out", "./pages.csv"],
            "--out must not be the file that is read; it is './pages.csv'",
        ),
        (["plan", "none.csv", "--budget", "1/h"], "none.csv: no such file or directory"),
        (
            ["plan", "pages.xls", "--budget", "1/h"],
            (
                "pages.xls: its name must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet, "
                "or be - for CSV on standard input"
            ),
        ),
        (
            ["compare", "pages.csv"],
            "--budget must be given with FILE, and more than nothing: --budget 1000/day",
        ),
        (
            ["compare", "--column", "rate=x"],
            "--column and --rate-unit need FILE; the bundled example has its own",
        ),
        (
            ["whatif", "pages.csv", "--freshness", "80"],
            "--freshness must be a share between 0% and 100%, such as 80% or 0.8; it is '80'",
        ),
        (
            ["whatif", "pages.csv", "--age", "6"],
            "--age must be a time, such as 90s, 6h, 1.5 days or 2 weeks; it is '6'",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_options_that_cannot_be(arguments, message, refuse):
    assert refuse(*arguments) == message


BAD_FILES = {
    "bad.csv": {
        "key,size\na,1\n": (
            ", line 1: there is no column 'rate' among 'key', 'size'; "
            "say which one it is with --column rate=NAME"
        ),
        "key,rate\na,fast\n": ", line 2, column 'rate': must be a number; it is 'fast'",
        "key,rate\n" + "a,1\n" * 810 + "b,-0.2\n": (
            ", line 812, column 'rate': must be finite and >= 0; it is '-0.2'"
        ),
        "": ": empty; it needs a header line with at least the column 'rate'",
        "key,rate\n": ": it has a header line, but no elements below it",
    },
    "bad.parquet": {
        "PAR1 cut short": (
            ": not a Parquet file, or cut short or damaged; Parquet magic bytes not found in footer. "
            "Either the file is corrupted or this is not a parquet file."
        ),
    },
}


@pytest.mark.parametrize("command", ["plan", "compare", "whatif"])
@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for name, cases in BAD_FILES.items() for text in cases]
)
def test_bad_files(command, name, text, refuse):
    Path(name).write_text(text)
    out = {"plan": ["--out", "plan.csv"]}.get(command, ["--plot", "plot.svg"])
    assert refuse(command, name, "--budget", "1/h", *out) == f"{name}{BAD_FILES[name][text]}"


def test_bad_standard_input(refuse, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"rate\nx\n")))
    assert refuse("plan", "-", "--budget", "1/h") == (
        "standard input, line 2, column 'rate': must be a number; it is 'x'"
    )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"rate\n0\n")))
    assert refuse("whatif", "-") == "standard input: no element changes, so any budget keeps all copies fresh"


def test_a_truncated_parquet_file(refuse):
    whole = Path("pages.parquet").read_bytes()
    Path("pages.parquet").write_bytes(whole[: len(whole) // 2])
    message = refuse("plan", "pages.parquet", "--budget", "1/h", "--out", "plan.csv")
    assert message.startswith("pages.parquet: not a Parquet file, or cut short or damaged; ")


def test_a_failure_while_writing(refuse, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert refuse("plan", "pages.csv", "--budget", "1/h", "--out", "plan.csv") == (
        "plan.csv: cannot be written: no space left on device; make room there, or name another place"
    )


def test_weights_that_are_all_0(refuse):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    Path("bad.csv").write_text("rate,w\n1,0\n2,0\n")
    pq.write_table(pa.table({"rate": [1.0, 2.0], "w": [0, 0]}), "bad.parquet")
    options = ["--budget", "1/h", "--column", "weight=w"]
    said = ", column 'w': must not be 0 for all elements"
    for command in ("plan", "compare", "whatif"):
        assert refuse(command, "bad.csv", *options) == f"bad.csv{said}"
    streamed = refuse("plan", "bad.parquet", *options, "--out", "plan.parquet", "--stream")
    assert streamed == f"bad.parquet{said}"


@pytest.mark.parametrize("policy", ["proportional", "square-root"])
def test_policies_that_have_nothing_to_go_by(policy, refuse):
    Path("still.csv").write_text("rate\n0\n0\n")
    assert refuse("plan", "still.csv", "--budget", "1/h", "--policy", policy) == (
        f"still.csv: no element changes, so there is nothing for --policy {policy} to go by"
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("command", ["plan", "compare", "whatif"])
@pytest.mark.parametrize("number", ["1e308", "1e-320"])
def test_absurd_numbers(command, number, refuse):
    Path("bad.csv").write_text(f"rate\n1\n{number}\n{number}\n")
    assert refuse(command, "bad.csv", "--budget", "1/h") == (
        f"bad.csv, line 3, column 'rate': must be 0, or between 1e-100 and 1e100; it is '{number}'"
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("objective", ["freshness", "age", "harmonic", "missed-updates"])
@pytest.mark.parametrize("number", ["1e100", "1e-100"])
def test_numbers_that_are_nearly_absurd(number, objective, capsys):
    Path("odd.csv").write_text(f"rate,weight,size\n1,1,1\n{number},{number},{number}\n2,1,{number}\n")
    for command in ("plan", "compare"):
        code = main([command, "odd.csv", "--budget", "1MB/h", "--objective", objective])
        out, err = capsys.readouterr()
        assert code == 0 or re.search(r"^unstale: .* are too far apart .*\n\Z", err, re.MULTILINE)
        assert not re.search(r"(,\d{3}){5}", out + err)  # no digits without end


def test_parquet_needs_an_extra(refuse, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    needs = "Parquet files need an optional part: pip install 'unstale[parquet]'"
    assert refuse("plan", "pages.csv", "--budget", "1/h", "--out", "plan.parquet") == needs
