"""unstale lab shootout: what it prints, draws and writes."""

import os
import shutil
import subprocess

import numpy as np
import pytest

GIT = shutil.which("git") or ""
ONE = ("--seeds", "1", "--jobs", "1")
QUICK = (*ONE, "--rule", "heritrix", "--policy", "optimal", "--policy", "learning")


@pytest.fixture
def changes(folder):
    """Two months of ten pages, one of which never changes."""
    rng = np.random.default_rng(1)
    rows = [("quiet", 0)]
    for i in range(9):
        times = np.cumsum(rng.exponential(86400.0 * (i + 1), 200))
        rows += [(f"p{i}", 0), *((f"p{i}", round(t)) for t in times if t < 60 * 86400)]
    lines = "".join(f"{key},{t}\n" for key, t in rows)
    (folder / "changes.csv").write_text(f"element,t\n{lines}")
    (folder / "odd.csv").write_text(f"url,when\n{lines}")
    (folder / "weights.csv").write_text("key,weight\np0,5\np1,1\np8,1\n")
    return folder


@pytest.mark.usefixtures("changes")
def test_what_is_printed(run):
    out, err = run("lab", "shootout", "changes.csv", *QUICK)
    assert err == ""
    text = " ".join(out.split())
    assert text.startswith("changes.csv: 10 elements, ")
    assert "the first 19.9 days are played, but not measured" in text
    assert "Planning for freshness" in out
    assert "Planning for age" in out
    assert "heritrix" in out
    assert "learning is ahead in" in text
    assert "proportional" not in text
    assert out.count("\nuniform ") == 8
    assert max(map(len, out.splitlines())) <= 100
    tables = out[out.index("Planning for") : out.index("fresh: the share")]
    assert "heritrix" in tables
    assert max(len(line.rstrip()) for line in tables.splitlines()) <= 80, "of a usual terminal"


@pytest.mark.usefixtures("changes")
def test_json(ask):
    answer = ask("lab", "shootout", "changes.csv", *QUICK, "--budget", "10/day", "--objective", "freshness")
    assert list(answer) == [
        "history", "elements", "later", "changes", "days", "skipped", "seeds", "weighted", "told", "hints",
        "cases", "notes", "plot", "out",
    ]  # fmt: skip
    assert answer["told"] is False
    assert answer["hints"] is None
    told = ask("lab", "shootout", "changes.csv", *QUICK, "--told", "--budget", "10/day", "--objective", "age")
    assert told["told"] is True
    hinted = ask("lab", "shootout", "changes.csv", *QUICK, "--hints", "60%,100%", "--budget", "10/day",
                 "--objective", "freshness")  # fmt: skip
    assert hinted["hints"] == {"recall": 0.6, "precision": 1.0, "delay": 0.0}
    given, ruled = answer["cases"]
    assert (given["rule"], given["budget"], ruled["rule"]) == (None, 10.0, "heritrix")
    assert [row["policy"] for row in ruled["rows"]] == ["uniform", "learning", "optimal", "heritrix"]
    row = ruled["rows"][1]
    assert list(row) == ["policy", "polls", "freshness", "age", "perceived", "ahead", "needed"]
    assert set(row["ahead"]) == {"uniform", "heritrix"}
    assert set(row["needed"]) == {"polls", "bound"}
    assert 0 < row["freshness"]["value"] < 1


@pytest.mark.usefixtures("changes")
@pytest.mark.parametrize("hints", ["60%", "60%,often", "0%,50%"])
def test_hints_that_cannot_be_read_are_refused(refuse, hints):
    assert "--hints must be" in refuse("lab", "shootout", "changes.csv", *QUICK, "--hints", hints)


def test_columns_and_weights(ask, run, changes):
    (changes / "views.csv").write_text(
        (changes / "weights.csv").read_text().replace("key,weight", "url,views")
    )
    quick = (*ONE, "--policy", "optimal", "--objective", "freshness", "--budget", "10/day")
    plain = ask("lab", "shootout", "changes.csv", *quick, "--weights", "weights.csv")
    columns = ("element=url", "t=when", "key=url", "weight=views")
    named = [part for column in columns for part in ("--column", column)]
    odd = ask("lab", "shootout", "odd.csv", *quick, "--weights", "views.csv", *named)
    assert odd["cases"] == plain["cases"]
    assert plain["weighted"] is True
    out, _ = run("lab", "shootout", "changes.csv", *quick, "--weights", "weights.csv")
    assert "by weight" in out


def test_pictures_and_rows(run, changes):
    pytest.importorskip("matplotlib")
    out, _ = run("lab", "shootout", "changes.csv", *QUICK, "--plot", "s.svg", "--out", "rows.csv")
    assert "s.svg has the picture" in out
    assert (changes / "s.svg").read_text().startswith("<?xml")
    header, *rows = (changes / "rows.csv").read_text().splitlines()
    assert header.startswith("objective,case,budget,policy,polls,freshness,freshness_error")
    assert len(rows) == 2 * (3 * 3 + 4)


@pytest.mark.skipif(not GIT, reason="there is no git")
def test_a_repository_is_a_history(ask, folder):
    who = {f"GIT_{one}_{part}": "x@example" for one in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    (folder / "site").mkdir()
    for day in range(15):
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_COMMITTER_DATE": f"@{86400 * day} +0000"}
        (folder / "site" / "a").write_text(str(day))
        (folder / "site" / "b").write_text(str(day // 3))
        for command in (["init"], ["add", "--all"], ["commit", "--message", "x"]):
            subprocess.run(  # noqa: S603
                [GIT, *command, "--quiet"] if command[0] != "add" else [GIT, *command],
                cwd=folder / "site",
                env=os.environ | who | own,
                check=True,
                capture_output=True,
            )
    answer = ask("lab", "shootout", "site", *ONE, "--rule", "none", "--policy", "optimal")
    assert (answer["history"], answer["elements"], answer["changes"]) == ("site", 2, 18)


def test_the_bundled_history(ask):
    answer = ask("lab", "shootout", *ONE, "--rule", "none", "--policy", "optimal", "--objective", "freshness")
    assert (answer["elements"], answer["later"]) == (106, 105)
    assert [len(case["rows"]) for case in answer["cases"]] == [2, 2, 2]


def test_the_shortest_of_histories(run, changes):
    (changes / "tiny.csv").write_text("element,t\na,1\na,2\n")
    out, _ = run("lab", "shootout", "tiny.csv", *ONE, "--rule", "nutch")
    assert "nutch: left out, since with so few polls" in out


def test_refusals(refuse, changes):
    (changes / "empty.csv").write_text("element,t\n")
    (changes / "once.csv").write_text("element,t\na,1\nb,2\n")
    (changes / "plain").mkdir()
    assert refuse("lab", "shootout", "nowhere.csv") == "nowhere.csv: there is no such file or folder"
    assert "no changes below it" in refuse("lab", "shootout", "empty.csv")
    assert "no element has two records" in refuse("lab", "shootout", "once.csv")
    assert "is not a git repository" in refuse("lab", "shootout", "plain")
    assert "--rule none cannot be combined" in refuse("lab", "shootout", "--rule", "none", "--rule", "nutch")
    assert "needs --weights" in refuse("lab", "shootout", "changes.csv", "--column", "weight=x")
    assert "there is no column 'x'" in refuse(
        "lab", "shootout", "changes.csv", "--weights", "weights.csv", "--column", "weight=x"
    )
    assert "needs HISTORY" in refuse("lab", "shootout", "--column", "element=url")
    assert "--budget" in refuse("lab", "shootout", "changes.csv", "--budget", "20MB/day")
    few = refuse("lab", "shootout", "changes.csv", "--budget", "0.01/day")
    assert "polled less than once, on average, in the time that is measured" in few
    assert "--plot must end in" in refuse("lab", "shootout", "changes.csv", "--plot", "x.gif")
    assert "--skip" in refuse("lab", "shootout", "changes.csv", "--skip", "200%")
