"""unstale profile: from access logs to weights."""

import csv
import gzip
import io
import re
import sys
from pathlib import Path

import pytest

from cli.test_program import on_a_terminal

HOUR = 3600


def line(key, *, day=1, hour=0, user="-", address="192.0.2.7", status=200, method="GET"):
    return (
        f'{address} - {user} [{day:02}/Jan/2026:{hour:02}:00:00 +0000] "{method} {key} HTTP/1.1" {status} 7\n'
    )


@pytest.fixture(autouse=True)
def logs(folder):
    text = "".join(line("/a", hour=hour) for hour in range(24)) + "".join(
        line("/b", hour=h) for h in range(0, 24, 4)
    )
    text += line("/c?x=1", day=2) + line("/c?x=2", day=2) + line("/gone", status=404) + "nonsense\n"
    Path("access.log").write_text(text)
    Path("access.log.gz").write_bytes(gzip.compress(text.encode()))
    Path("elements.csv").write_text("key,rate,size,group\n/a,1,10,x\n/b,2,20,y\n/c,3,30,x\n/d,4,40,y\n")
    users = [("ann", "/a")] * 9 + [("ann", "/b"), ("bob", "/b")]
    Path("users.csv").write_text(
        "user,key,time\n" + "".join(f"{u},{k},{i}\n" for i, (u, k) in enumerate(users))
    )
    return folder


def rows(name):
    with Path(name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_screen(run):
    out, err = run("profile", "access.log", "--half-life", "none", "--strip-query")
    assert err == ""
    assert out.splitlines() == [
        "32 accesses to 3 elements in 1 day",
        "from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z",
        "",
        "key  accesses/day  share  cumulated",
        "/a             24  75.0%      75.0%",
        "/b              6  18.8%      93.8%",
        "/c              2   6.2%     100.0%",
        "",
        "1 other request is not counted, for method or status: see --method and --status.",
        "",
        "1 line cannot be read:",
        "  access.log, line 34: no time in brackets",
        "",
        "--out weights.csv writes all weights to a file.",
    ]


def test_json(ask):
    got = ask("profile", "access.log", "access.log.gz", "--half-life", "none", "--top", "2")
    assert got["logs"] == ["access.log", "access.log.gz"]
    assert got["formats"] == ["combined", "combined"]
    assert (got["lines"], got["accesses"], got["not_counted"], got["malformed"]) == (68, 64, 2, 2)
    assert got["malformed_lines"][1] == {"log": "access.log.gz", "line": 34, "reason": "no time in brackets"}
    assert (got["elements"], got["users"], got["half_life"], got["out"]) == (4, None, None, None)
    assert (got["from"], got["until"]) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")
    assert got["top"] == [
        {"key": "/a", "accesses_per_day": 48.0, "share": 0.75, "cumulated": 0.75},
        {"key": "/b", "accesses_per_day": 12.0, "share": 0.1875, "cumulated": 0.9375},
    ]
    assert got["share_error"] == 0.0


def test_a_half_life(ask):
    whole = ask("profile", "access.log", "--half-life", "none")["top"]
    recent = ask("profile", "access.log", "--half-life", "1h", "--strip-query")["top"]
    assert whole[0]["key"] == "/a"
    assert recent[0]["key"] == "/c"
    assert recent[0]["share"] == pytest.approx(
        2 / (2 + sum(2.0**-h for h in range(1, 25)) + sum(2.0**-h for h in range(4, 25, 4)))
    )


def test_requests_that_count(ask):
    assert ask("profile", "access.log", "--status", "4xx")["top"][0]["key"] == "/gone"
    assert ask("profile", "access.log", "--status", "any", "--method", "any")["not_counted"] == 0


def test_weights_in_a_file(run):
    run("profile", "access.log", "--half-life", "none", "--out", "weights.csv")
    assert [(row["key"], float(row["weight"])) for row in rows("weights.csv")] == [
        ("/a", 0.75), ("/b", 0.1875), ("/c?x=1", 0.03125), ("/c?x=2", 0.03125)
    ]  # fmt: skip
    parquet = pytest.importorskip("pyarrow.parquet")
    out, _ = run("profile", "access.log", "--half-life", "none", "--out", "weights.parquet")
    assert "Weights of 4 elements are in weights.parquet." in out
    assert parquet.read_table("weights.parquet").to_pydict()["key"] == ["/a", "/b", "/c?x=1", "/c?x=2"]


@pytest.mark.parametrize("name", ["weighted.csv", "weighted.parquet"])
def test_elements_get_weights_for_a_plan(name, run, ask):
    out, _ = run("profile", "access.log", "--half-life", "none", "--elements", "elements.csv", "--out", name)
    assert "Of 4 elements in elements.csv, 2 have accesses; the 2 others share " in out
    assert "6.2% of the accesses went to other elements." in " ".join(out.split())
    assert f"unstale plan {name} --budget 1000/day" in out
    plan = ask("plan", name, "--budget", "100B/day")
    assert plan["elements"] == 4
    if name.endswith(".csv"):
        found = rows(name)
        assert list(found[0]) == ["key", "rate", "weight", "size", "group"]
        assert [row["group"] for row in found] == ["x", "y", "x", "y"]
        weights = [float(row["weight"]) for row in found]
        assert sum(weights) == pytest.approx(1.0)
        assert weights[0] / weights[1] == pytest.approx(4.0)
        assert 0 < weights[2] == weights[3] < weights[1]


def test_shares_of_unseen_elements(ask):
    command = ["profile", "access.log", "--strip-query", "--half-life", "none", "--elements", "elements.csv"]
    got = ask(*command, "--unseen", "10%")
    assert [one["weight"] for one in got["weights"]] == pytest.approx([0.675, 0.16875, 0.05625, 0.1])
    assert (got["seen"], got["elsewhere"]) == (3, pytest.approx(0.0))


def test_keys_can_be_made_to_fit(run):
    Path("urls.csv").write_text("url,rate\nhttps://a.example/a,1\nhttps://a.example/c,1\n")
    command = ["profile", "access.log", "--elements", "urls.csv", "--column", "key=url"]
    out, _ = run(*command)
    assert "None of the 2 elements in urls.csv has an access, so all have the same weight." in out
    out, _ = run(*command, "--prefix", "https://a.example", "--strip-query")
    assert "Of 2 elements in urls.csv, 2 have accesses." in out


def test_users(ask, run):
    Path("weights.csv").write_text("user,weight\nann,3\n")
    shares = [
        {
            row["key"]: row["share"]
            for row in ask("profile", "users.csv", "--half-life", "none", *options)["top"]
        }
        for options in ([], ["--by", "user"], ["--by", "user", "--user-weights", "weights.csv"])
    ]
    assert [one["/a"] for one in shares] == pytest.approx([9 / 11, 0.45, 0.675])
    assert (
        "11 accesses to 2 elements by 2 users in 10 seconds" in run("profile", "users.csv", "--by", "user")[0]
    )


def test_standard_input(run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("access.log").read_bytes())))
    out, _ = run("profile", "-", "--top", "0")
    assert "standard input, line 34: no time in brackets" in out
    assert "accesses/day" not in out


def test_accesses_at_one_moment_have_no_frequency(run, ask):
    Path("one.csv").write_text("key,time\na,5\nb,5\n")
    out, _ = run("profile", "one.csv")
    assert "accesses/day" not in out
    assert re.search(r"^a +50.0% +50.0%$", out, re.MULTILINE)
    assert ask("profile", "one.csv")["top"][0]["accesses_per_day"] is None


def test_more_elements_than_are_kept(run):
    Path("many.csv").write_text("key,time\n" + "".join(f"{i % 500},{i}\nbig,{i}\n" for i in range(2000)))
    out, _ = run("profile", "many.csv", "--most", "100", "--half-life", "none", "--top", "1")
    found = re.search(r"shares may be too low by up to ([\d.]+)%", " ".join(out.split()))
    assert 0 < float(found[1]) <= 2.0
    assert re.search(r"^big ", out, re.MULTILINE)


def test_a_terminal():
    shown = on_a_terminal("-m", "unstale", "profile", "access.log", "--top", "2", columns=60)
    assert re.search(r"^/a +24(\.\d)? +", shown, re.MULTILINE)
    assert "... and 2 more" in shown


def test_one_element(run):
    Path("one.csv").write_text("key,time\na,5\n")
    out, _ = run("profile", "one.csv", "--out", "weights.csv")
    assert "The weight of 1 element is in weights.csv." in out


def test_shares_of_all_sum_to_all(run, ask):
    texts = [f"u{i % 7},/{i % 9},{i * 1e4}\n" for i in range(60)]
    Path("sums.csv").write_text("user,key,time\n" + "".join(texts))
    for options in ([], ["--by", "user"]):
        assert ask("profile", "sums.csv", *options)["top"][-1]["cumulated"] == 1.0
        out, _ = run("profile", "sums.csv", *options)
        assert re.search(r"^/\d .* 100\.0%$", out, re.MULTILINE)
        assert "99.9" not in out


FUTURE = '::1 - - [19/Jan/2999:11:47:57 +0000] "GET /future HTTP/1.1" 200 5\n'
LATER = '::1 - - [19/Jan/2026:11:47:57 +0000] "GET /later HTTP/1.1" 200 5\n'


def test_accesses_that_are_still_to_come_are_left_out_and_named(run, ask):
    before = ask("profile", "access.log")
    Path("access.log").write_text(Path("access.log").read_text() + FUTURE)
    after = ask("profile", "access.log")
    assert (before["late"], after["late"], after["apart"]) == (0, 1, 0)
    assert (after["top"], after["accesses"], after["until"]) == (
        before["top"],
        before["accesses"],
        before["until"],
    )
    out = " ".join(run("profile", "access.log")[0].split())
    assert "1 access is left out, as it is later than now; --until none counts all." in out
    assert "The last is to /future at 2999-01-19T11:47:57Z, in access.log." in out


def test_accesses_far_from_all_others_are_named(run, ask):
    Path("access.log").write_text(LATER + Path("access.log").read_text())
    assert ask("profile", "access.log", "--half-life", "2d")["apart"] == 0
    assert ask("profile", "access.log", "--half-life", "none")["apart"] == 0
    got = ask("profile", "access.log", "--half-life", "1d")
    assert (got["apart"], got["late"], got["top"][0]["key"]) == (1, 0, "/later")
    out = " ".join(run("profile", "access.log", "--half-life", "1d")[0].split())
    assert "1 access comes more than ten half-lives after all others" in out
    assert "The last is to /later at 2026-01-19T11:47:57Z, in access.log." in out
    got = ask("profile", "access.log", "--half-life", "1d", "--until", "2026-01-10")
    assert (got["apart"], got["late"], got["accesses"]) == (0, 1, 32)
    assert "later than --until." in run("profile", "access.log", "--until", "2026-01-10")[0]


def test_all_accesses_count_if_asked_for(ask, refuse):
    Path("future.log").write_text(FUTURE)
    assert refuse("profile", "future.log").startswith("future.log: all accesses are too late; --until says")
    assert ask("profile", "future.log", "--until", "none")["accesses"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["access.log", "--until", "soon"], "--until must be a moment, such as 2026-01-31"),
        ([], "Missing argument 'LOG...'; see unstale profile --help"),
        (["none.log"], "none.log: no such file or directory"),
        (
            ["access.log", "--half-life", "long"],
            "--half-life must be a time, such as 90s, 6h, 1.5 days or 2 weeks",
        ),
        (["access.log", "--status", "200"], "--status must be 1xx, 2xx, 3xx, 4xx, 5xx or any; it is '200'"),
        (["access.log", "--field", "page=x"], "--field must be ROLE=NAME with a role among key, time, user"),
        (["access.log", "--user-weights", "u.csv"], "--user-weights needs --by user"),
        (["access.log", "--unseen", "5%"], "--unseen needs --elements"),
        (["access.log", "--column", "key=url"], "--column needs --elements"),
        (["-", "-"], "standard input (-) can be read only once"),
        (
            ["access.log", "--out", "weights.doc"],
            "--out must end in .csv, .csv.gz, .tsv, .tsv.gz or .parquet",
        ),
        (["access.log", "--out", "access.log"], "--out must end in"),
        (["users.csv", "--out", "users.csv"], "--out must not be the file that is read; it is 'users.csv'"),
        (
            ["access.log", "--elements", "elements.csv", "--out", "elements.csv"],
            "--out must not be the file that",
        ),
        (["access.log", "--elements", "users.csv"], "users.csv, line 1: there is no column 'rate'"),
        (["access.log", "--format", "json"], "access.log: its first lines are not JSON; --format says"),
        (
            ["access.log", "--method", "DELETE"],
            "access.log: no request counts; --method and --status say which do",
        ),
        (
            ["bad.csv", "--format", "combined"],
            "bad.csv, line 1: no time in brackets; no other line can be read as",
        ),
        (["bad.csv"], "bad.csv, line 2: 'never' is no time; no other line can be read as csv either"),
        (["bad.csv", "--by", "user"], "bad.csv: there is no user among 'key', 'time'"),
    ],
)
def test_mistakes(arguments, message, refuse):
    Path("bad.csv").write_text("key,time\na,never\n")
    assert refuse("profile", *arguments).startswith(message)


def test_users_without_weight(refuse):
    Path("nobody.csv").write_text("user,weight\n*,0\n")
    command = ["profile", "users.csv", "--by", "user", "--user-weights", "nobody.csv", "--out", "w.csv"]
    assert refuse(*command) == "--user-weights must not be 0 for all users in the logs"
