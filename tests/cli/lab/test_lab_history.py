"""unstale lab history: from repositories to files that other commands read."""

import json
import os
import shutil
import subprocess

import pytest

GIT = shutil.which("git") or ""
pytestmark = pytest.mark.skipif(not GIT, reason="there is no git")
WHO = {f"GIT_{one}_{part}": "x@example" for one in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def git(folder, *arguments, at=0):
    own = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_COMMITTER_DATE": f"@{at} +0000",
    }
    subprocess.run(  # noqa: S603
        [GIT, *arguments], cwd=folder, env=os.environ | WHO | own, check=True, capture_output=True
    )


@pytest.fixture
def pages(folder):
    """A repository with a page for each day, and one that changes every day."""
    made = folder / "site"
    made.mkdir()
    git(made, "init", "--quiet")
    for day in range(20):
        (made / 'index, "all".html').write_text(f"{day}")
        (made / f"day-{day % 7}.html").write_text(f"{day}")
        git(made, "add", "--all")
        git(made, "commit", "--quiet", "--message", "x", at=1_700_000_000 + 86400 * day)
    return made


@pytest.mark.usefixtures("pages")
def test_a_history_is_written_and_read_again(run, ask):
    out, err = run("lab", "history", "site")
    assert err == ""
    assert out.startswith(
        "8 files and 32 changes, from 20 commits, 2023-11-14 to 2023-12-03; written to history"
    )
    assert "unstale lab shootout history.parquet" in out
    table = pytest.importorskip("pyarrow.parquet").read_table("history.parquet")
    assert table.column_names == ["element", "t"]
    assert [str(kind) for kind in table.schema.types] == ["string", "int64"]
    assert table.num_rows == 40
    answer = ask("simulate", "history.parquet", "--budget", "5/day")
    assert (answer["history"], answer["elements"]) == (True, 8)


@pytest.mark.parametrize("name", ["h.csv", "h.csv.gz", "h.tsv", "h.parquet"])
@pytest.mark.usefixtures("pages")
def test_other_formats_hold_the_same(ask, name):
    ask("lab", "history", "site", "--out", name)
    same = ask("simulate", name, "--budget", "5/day")
    ask("lab", "history", "site")
    expected = ask("simulate", "history.parquet", "--budget", "5/day")
    same["file"] = expected["file"]
    assert same == expected


@pytest.mark.usefixtures("pages")
def test_json(ask):
    answer = ask("lab", "history", "site", "--since", "2023-11-20", "--branch", "HEAD~1", "--out", "h.csv")
    assert answer.pop("repositories")[0]["shallow"] is False
    assert answer == {
        "commits": 13, "elements": 8, "changes": 25, "first": 1700438400, "last": 1700000000 + 86400 * 18,
        "out": "h.csv",
    }  # fmt: skip


def test_several_repositories_and_a_shallow_one(run, pages, folder):
    git(folder, "clone", "--quiet", "--depth=3", pages.as_uri(), "cut")
    out, err = run("lab", "history", "site", "cut", "--json", "--out", "h.csv")
    assert err == (
        "warning: cut is a shallow clone: its history is cut, and files seem to begin at the cut; "
        "git fetch --unshallow gets the rest\n"
    )
    assert json.loads(out)["elements"] == 16
    assert {line.split("/")[0].strip('"') for line in (folder / "h.csv").read_text().splitlines()[1:]} == {
        "site", "cut",
    }  # fmt: skip


@pytest.mark.usefixtures("pages")
def test_refusals(refuse, folder):
    (folder / "empty").mkdir()
    git(folder / "empty", "init", "--quiet")
    (folder / "plain").mkdir()
    assert refuse("lab", "history", "nowhere") == "nowhere: does not exist"
    assert refuse("lab", "history", "pages.csv") == "pages.csv: is not a folder"
    assert refuse("lab", "history", "plain") == "plain: is not a git repository, or not its top folder"
    assert refuse("lab", "history", "empty") == "empty: it has no commits"
    assert "it has no branch, tag or commit 'x'" in refuse("lab", "history", "site", "--branch", "x")
    assert "must not be given twice" in refuse("lab", "history", "site", "./site")
    assert "--out must end in" in refuse("lab", "history", "site", "--out", "history.txt")
    assert refuse("lab", "history", "site", "--since", "2030-01-01") == (
        "--since must not be after the last commit, of 2023-12-03 22:13:20 UTC; it is 2030-01-01 00:00:00 UTC"
    )
    assert "--since must be a moment" in refuse("lab", "history", "site", "--since", "soon")
    git(folder / "empty", "commit", "--quiet", "--allow-empty", "--message", "x")
    assert refuse("lab", "history", "empty") == "the repository had no files, so there is no history"
    assert "GIT_REPOSITORY" in refuse("lab", "history")
