"""``unstale lab list`` and ``unstale lab run``."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unstale.lab import every_experiment

OWN = """\
import unstale
from unstale.lab import BEYOND, Line, Panel, experiment, number, ours


@experiment("own-half", paper=BEYOND, where="mine", shows="what a poll per change buys", seconds=0.1)
def half(run):
    computed = unstale.freshness(1.0, 1.0)
    yield number("freshness at r = 1", published={published}, computed=computed, within=0.005)
    yield ours("seed", computed=run.seed)
    x = [0.5, 1.0, 2.0]
    yield Panel(
        title="Freshness", x="r (changes per poll)", y="freshness (share of time)", lines=[
            Line.of("fixed", x, unstale.freshness(x, 1.0))
        ]
    )
"""
NAMED = (
    "own.py: fails when it is read: the name of an experiment must be words of a-z and 0-9 with hyphens "
    "between; it is 'Half' (line 5)"
)

WHOSE = (
    "own.py: fails when it is read: paper must be a Paper: CHO, BEYOND, or Paper(authors, title, venue); it "
    "is 'Mine' (line 5)"
)


def own(name="own.py", published=0.63, text=OWN):
    Path(name).write_text(text.replace("{published}", str(published)))
    return name


def test_list(run, ask):
    out, err = run("lab", "list")
    assert err == ""
    answer = ask("lab", "list")["experiments"]
    assert [one["name"] for one in answer] == [one.name for one in every_experiment()]
    for one in answer:
        assert f"  {one['name']} " in out
        assert set(one) == {"name", "paper", "title", "where", "shows", "seconds"}
    assert f"{len(answer)} experiments, " in out
    assert max(map(len, out.splitlines())) <= 100


def test_list_is_quick():
    script = (
        "import sys, time; from unstale.cli import main; main(['lab', 'list']);"
        "print(time.process_time(), *({'numba', 'scipy', 'matplotlib'} & set(sys.modules)),"
        " file=sys.stderr)"
    )
    done = subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    took, *heavy = done.stderr.split()
    assert heavy == []
    assert float(took) < 20.0  # of the processor; half a second on most


def test_run(run, folder):
    out, err = run("lab", "run", "cho-table-4", "--quick", "--out", "found")
    assert err == ""
    assert out.startswith("cho-table-4\nCho & Garcia-Molina, ")
    assert re.search(r"^claim +published +computed  verdict$", out, re.MULTILINE)
    assert "reproduces\n" in out
    assert "1 experiment run quickly, seed 1, " in out
    assert not (folder / "unstale-lab").exists()


def test_own_file(run, ask, folder):
    out, _ = run("lab", "run", own())
    assert "freshness at r = 1       0.63    0.6321  reproduces\n" in out
    assert out.endswith("unstale-lab has the figures and their data.\n")
    assert sorted(file.name for file in (folder / "unstale-lab").iterdir()) == [
        "own-half.csv",
        "own-half.png",
        "own-half.svg",
    ]
    answer = ask("lab", "run", "own.py", "--seed", "9")
    assert answer["agree"] is True
    assert answer["counts"] == {"reproduces": 1, "not in the paper": 1}
    assert [claim["computed"] for claim in answer["experiments"][0]["claims"]][1] == 9
    assert answer["report"] is None


def test_a_wrong_number_is_found_out(run):
    out, err = run("lab", "run", own(published=0.64), code=1)
    assert "0.64    0.6321  differs\n" in out
    assert "Neither reproduced nor explained: see own-half.\n" in out
    assert err == ""


def test_one_that_fails(run):
    own(
        "bad.py",
        text=OWN.replace("own-half", "own-bad").replace("    x = [", "    raise KeyError('x')\n    x = ["),
    )
    out, err = run("lab", "run", own(), "bad.py", "--jobs", 1, code=1)
    assert err == "unstale: own-bad failed: KeyError: 'x' (line 10)\n"
    assert "0.6321  reproduces\n" in out
    assert "Failed: own-bad.\n" in out


def test_all(run, monkeypatch, folder):
    some = tuple(one for one in every_experiment() if one.name in {"cho-table-4", "cho-figure-10"})
    monkeypatch.setattr("unstale.lab.catalogue.every_experiment", lambda: some)
    out, err = run("lab", "run", "--all", "--quick", "--jobs", 1)
    assert err == ""
    assert out.index("cho-table-4\n") > out.index("cho-figure-10\n")  # as in the list
    assert "unstale-lab/report.html has all of it, and results.json the same for programs.\n" in out
    report = (folder / "unstale-lab" / "report.html").read_text()
    assert all(f'<section id="{one.name}">' in report for one in some)
    results = json.loads((folder / "unstale-lab" / "results.json").read_text())
    assert [one["name"] for one in results["experiments"]] == [one.name for one in some]


def test_a_report_with_an_experiment_of_ones_own(run, ask, monkeypatch, folder):
    out, _ = run("lab", "run", own(), "--report", "--out", "mine")
    assert "mine/report.html has all of it" in out
    assert '<section id="own-half">' in (folder / "mine" / "report.html").read_text()
    some = tuple(one for one in every_experiment() if one.name == "cho-table-4")
    monkeypatch.setattr("unstale.lab.catalogue.every_experiment", lambda: some)
    answer = ask("lab", "run", "--all", "own.py", "cho-table-4", "--quick", "--jobs", 1)
    assert [one["name"] for one in answer["experiments"]] == ["cho-table-4", "own-half"]
    assert answer["report"] == "unstale-lab/report.html"


def test_one_that_leaves_takes_no_other_with_it(run, refuse):
    own(
        "exit.py",
        text=OWN.replace("own-half", "own-exit").replace("    x = [", "    raise SystemExit\n    x = ["),
    )
    out, err = run("lab", "run", "exit.py", own(), "--jobs", 2, code=1)
    assert err == "unstale: own-exit failed: SystemExit: (line 10)\n"
    assert "0.6321  reproduces\n" in out
    own("early.py", text="import sys\nsys.exit(0)\n")
    assert refuse("lab", "run", "early.py") == "early.py: fails when it is read: SystemExit: 0 (line 2)"


def test_usage(refuse):
    assert refuse("lab", "run") == "unstale lab run needs names of experiments, or --all"
    assert refuse("lab", "run", "--report") == "unstale lab run needs names of experiments, or --all"
    assert refuse("lab", "run", "cho-tabel-2") == (
        "there is no experiment 'cho-tabel-2'; did you mean cho-table-2?"
    )
    assert refuse("lab", "run", "none.py") == "none.py: there is no such file"
    assert refuse("lab", "run", "cho-table-2", "--out", "pages.csv") == (
        "--out must be a folder; 'pages.csv' is a file"
    )
    assert refuse("lab", "run", "cho-table-2", "--out", "") == "--out must be a folder; it is ''"
    assert refuse("lab", "run", "cho-table-2", "--out", "no/where") == (
        "--out must be in a directory that exists; it is 'no/where'"
    )
    assert refuse("lab", "run", "cho-table-2", "--column", "element=url") == "--column needs --history"
    assert refuse("lab", "run", "cho-table-2", "--history", "none.csv") == (
        "none.csv: no such file or directory"
    )
    Path("site").mkdir()
    assert refuse("lab", "run", "x-*", "--history", "site", "--column", "element=url") == (
        "there is no experiment 'x-*'; unstale lab list shows them all"
    )
    assert refuse("lab", "run", "cho-table-2", "--history", "site", "--column", "element=url") == (
        "site: columns can be named for a file, but this is a folder"
    )
    assert "several experiments read it" in refuse("lab", "run", "cho-table-2", "--history", "-")
    Path("empty.csv").write_text("element,t\n")
    assert refuse("lab", "run", "cho-table-2", "--history", "empty.csv").startswith("empty.csv: ")
    assert refuse("lab", "run", "x", "--history", "pages.csv", "--column", "key=url") == (
        "--column must be ROLE=NAME with a role among element, t; it is 'key=url'"
    )
    assert "'--jobs'" in refuse("lab", "run", "x", "--jobs", "0")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="a folder in which nobody can write")
def test_a_folder_that_cannot_be_written_is_refused_before_any_work(refuse):
    assert refuse("lab", "run", "cho-table-2", "--out", "/proc/found").startswith(
        "--out must be a folder that can be written; '/proc/found': "
    )


def test_an_experiment_of_ours_that_fails_names_no_line(run, monkeypatch):
    monkeypatch.setattr("unstale.plan", lambda *_, **__: 1 / 0)
    _, err = run("lab", "run", "cho-table-5", code=1)
    assert err == "unstale: cho-table-5 failed: ZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("module", "names"),
    [("matplotlib.figure", "cho-table-2"), ("matplotlib.figure", "--all"), ("jinja2", "--all")],
)
def test_the_optional_part_is_missing(refuse, monkeypatch, module, names):
    monkeypatch.setitem(sys.modules, module, None)
    assert refuse("lab", "run", names) == (
        "the figures and the report of the lab need an optional part: pip install 'unstale[lab]'"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "own.py: defines no experiment; see docs/how-to/add-an-experiment.md"),
        ("def f(:\n", "own.py: fails when it is read: SyntaxError: invalid syntax (line 1)"),
        ("\n1 / 0\n", "own.py: fails when it is read: ZeroDivisionError: division by zero (line 2)"),
        (
            OWN.replace("own-half", "cho-table-2"),
            "own.py: the name 'cho-table-2' is taken by another experiment; mine needs one of its own",
        ),
        (
            OWN.replace("own-half", "Half"),
            NAMED,
        ),
        (
            OWN.replace("paper=BEYOND", "paper='Mine'"),
            WHOSE,
        ),
    ],
)
def test_files_that_cannot_be_used(refuse, text, message):
    assert refuse("lab", "run", own(text=text)) == message


def test_two_files_with_the_same_name_of_an_experiment(refuse):
    own("other.py")
    assert refuse("lab", "run", own(), "other.py") == (
        "other.py: the name 'own-half' is taken by an experiment in own.py"
    )


def test_a_history_of_ones_own(ask):
    rows = [f"{place},{86400 * day + 3600 * place}\n" for day in range(40) for place in range(1 + day % 3)]
    Path("changes.csv").write_text("page,t\n" + "".join(rows))
    text = OWN.replace("run.seed", "len(load(run.history, run.columns))").replace(
        "import unstale\n", "import unstale\nfrom unstale.lab.histories import load\n"
    )
    answer = ask("lab", "run", own(text=text), "--history", "changes.csv", "--column", "element=page")
    assert answer["experiments"][0]["claims"][1]["computed"] == 3
    assert answer["history"] == "changes.csv"


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_interrupted_it_leaves_at_once(folder):
    wait = "    import pathlib, time; pathlib.Path(f'{run.seed}.begun').touch(); time.sleep(60)\n"
    text = OWN.replace("    x = [", f"{wait}    x = [")
    own("one.py", text=text)
    own("two.py", text=text.replace("own-half", "own-other").replace(".begun", ".other"))
    with subprocess.Popen(
        [sys.executable, "-m", "unstale", "lab", "run", "one.py", "two.py", "--jobs", "2"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        start_new_session=True,
    ) as program:
        while not (Path("1.begun").exists() and Path("1.other").exists()):
            assert program.poll() is None
            time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=55)  # until the last process has closed it
    assert program.returncode == 130
    assert "Traceback" not in err
