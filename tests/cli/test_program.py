"""The program: help, pipes, terminals and progress."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from unstale.cli.shared import progress as progress_module
from unstale.cli.shared.process import interrupted_in_compiled_code

from .elements import write_csv


def python(*arguments, **options):
    return subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )


def test_help(run):
    assert "Examples:\n    unstale plan pages.csv --budget 1000/day" in run("plan", "--help")[0]
    for command in ("compare", "whatif", "schedule", "simulate", "estimate", "profile", "lab"):
        assert "Examples:" in run(command, "-h")[0]
    out, err = run(code=2)
    assert out == ""
    assert err.startswith("Usage: unstale [OPTIONS] COMMAND")
    assert "unstale, version" in run("--version")[0]


@pytest.mark.parametrize(
    "command", ["", "plan", "whatif", "schedule", "simulate", "estimate", "profile", "lab", "lab run"]
)
def test_help_is_quick(command):
    script = (
        "import sys, time; from unstale.cli import main; main(sys.argv[1:]);"
        "heavy = {'numpy', 'numba', 'scipy', 'pyarrow', 'rich', 'matplotlib'} & set(sys.modules);"
        "print(time.process_time(), *heavy, file=sys.stderr)"
    )
    took, *heavy = python("-c", script, *command.split(), "--help").stderr.split()
    assert heavy == []
    assert float(took) < 10.0  # of the processor; some tenths of a second on most


def test_a_small_plan_loads_no_more_than_it_needs(tmp_path):
    (tmp_path / "pages.csv").write_text("rate\n" + "1\n2\n" * 500)
    script = (
        "import sys; from unstale.cli import main; main(sys.argv[1:]);"
        "heavy = {'pyarrow', 'scipy.optimize', 'scipy.special', 'unstale.planning.compiled.plain'}"
        "& set(sys.modules); print('heavy:', *heavy, file=sys.stderr)"
    )
    done = python("-c", script, "plan", "pages.csv", "--budget", "500/day", cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == "heavy:"


def test_after_a_warm_up_nothing_is_left_to_compile(run):
    told = json.loads(run("warm-up", "--json")[0])
    assert sorted(told) == ["kernels", "seconds", "where"]
    assert json.loads(run("warm-up", "--json")[0])["kernels"] == 0
    assert run("warm-up")[0] == "All was compiled already.\n"


def test_the_module_runs(tmp_path):
    done = python("-m", "unstale", "plan", "none.csv", "--budget", "1/h", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "unstale: none.csv: no such file or directory\n"


def test_a_reader_that_has_had_enough(tmp_path):
    (tmp_path / "many.csv").write_text("rate\n" + "1\n" * 200_000)
    program = f"{sys.executable} -m unstale plan many.csv --budget 1/h | head -n 1"
    done = subprocess.run(program, shell=True, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S602
    assert done.stdout == "key,frequency\n"
    assert "Traceback" not in done.stderr


def shell(program):
    command = f"{sys.executable} -m unstale {program}"
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False)  # noqa: S602


def test_closed_streams():
    for command in (
        "plan pages.csv --budget 1/h --json >&-",
        "plan pages.csv --budget 1/h 2>&-",
        "compare pages.csv --budget 1/h >&- 2>&-",
    ):
        done = shell(command)
        assert done.returncode == 0
        assert "Traceback" not in done.stderr
    done = shell("plan - --budget 1/h <&-")
    assert (done.returncode, done.stderr) == (2, "unstale: standard input: it is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_streams():
    for command in ("plan pages.csv --budget 1/h", "compare pages.csv --budget 1/h", "plan --help"):
        done = shell(f"{command} >/dev/full")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "unstale: standard output: cannot be used: No space left on device\n"
    assert shell("plan none.csv --budget 1/h 2>/dev/full").returncode == 2


STOPPED = """
import os, sys
from signal import SIG_DFL, {name}, signal
signal({name}, SIG_DFL)  # under nohup, programs are not stopped when the terminal goes
os.fsync = lambda _: print(*os.listdir(), sep="\\n", flush=True) or os.kill(os.getpid(), {name})
from unstale.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_program_that_is_stopped_leaves_nothing(name, folder):
    if not hasattr(signal, name):
        pytest.skip("no such signal here")
    before = sorted(folder.iterdir())
    done = python(
        "-c", STOPPED.format(name=name), "plan", "pages.csv", "--budget", "1/h", "--out", "plan.csv"
    )
    assert done.returncode == 128 + getattr(signal, name)
    assert "Traceback" not in done.stderr
    assert re.search(r"^\.plan\.csv\.\w+\.tmp$", done.stdout, re.MULTILINE)
    assert sorted(folder.iterdir()) == before


def test_signals_and_warnings_are_as_before(run):
    caught = signal.getsignal(signal.SIGTERM)
    run("plan", "pages.csv", "--budget", "1/h", "--out", "plan.csv")
    assert signal.getsignal(signal.SIGTERM) is caught


WARNING = """
import sys, warnings
from unstale.cli.plan.plan import plan
from unstale.cli import main
def warn(**_): warnings.warn("for developers", RuntimeWarning)
plan.callback = warn
sys.argv = ["unstale", "plan", "pages.csv", "--budget", "1/h"]
sys.exit(main())
"""


def test_warnings_are_for_developers():
    assert python("-c", WARNING).stderr == ""
    assert "for developers" in python("-W", "default", "-c", WARNING).stderr


def on_a_terminal(*arguments, columns=100):
    """Return what a terminal shows of a command."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1"}
    process = subprocess.Popen(  # noqa: S603  (our own program)
        [sys.executable, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    )
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 65536):
            shown += block
    except OSError:  # how a terminal says that it is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return shown.decode()


def test_a_terminal_shows_a_table():
    keys = ["\x1b[2Jwipe", "[bold]plain", *(f"k{i}" for i in range(20))]
    write_csv("tricky.csv", "key,rate", [(key, 1) for key in keys])
    shown = on_a_terminal("-m", "unstale", "plan", "tricky.csv", "--budget", "22/day")
    assert re.search(r"^\?\[2Jwipe +1 +1 day", shown, re.MULTILINE)
    assert re.search(r"^\[bold\]plain +1 +1 day", shown, re.MULTILINE)
    assert "... and 12 more" in shown
    assert "--out plan.csv writes all frequencies to a file." in shown
    assert "\x1b[2Jwipe" not in shown


SLOW = """
import time
from unstale.cli.shared.progress import progress
with progress("reading pages.csv", 100) as advance:
    for _ in range(10):
        time.sleep({pause})
        advance(10)
"""


def test_long_work_shows_a_bar_on_a_terminal():
    shown = on_a_terminal("-c", SLOW.format(pause=0.15))
    assert "reading pages.csv" in shown
    assert "90%" in shown
    assert on_a_terminal("-c", SLOW.format(pause=0.001)) == ""


def test_long_work_shows_nothing_elsewhere(capsys, monkeypatch):
    monkeypatch.setattr(progress_module, "SHOWN_AFTER_SECONDS", 0.0)
    with progress_module.progress("reading", 10) as advance:
        time.sleep(0.05)
        advance(10)
    assert capsys.readouterr() == ("", "")


def test_interrupted_in_compiled_code():
    """Compiled code that was interrupted ends with a SystemError about it."""
    with pytest.raises(click.Abort), interrupted_in_compiled_code():
        raise SystemError from KeyboardInterrupt()
    with pytest.raises(SystemError), interrupted_in_compiled_code():
        raise SystemError
