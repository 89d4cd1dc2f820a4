"""``unstale lab``: published results beside ours, and policies on recorded histories."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import (
    Count,
    column_option,
    json_option,
)
from unstale.cli.shared.printing import print_json
from unstale.cli.shared.progress import progress
from unstale.errors import InvalidInput, need
from unstale.tables import HISTORY_ROLES

from .history import history as history_command
from .shootout import shootout

if TYPE_CHECKING:
    from unstale.lab.experiment import Experiment, Run
    from unstale.lab.running import Done

_EXAMPLES = """\b
Examples:
  unstale lab list
  unstale lab run cho-figure-6
  unstale lab run 'azar-*' my_experiment.py
  unstale lab run --all --quick
  unstale lab history ~/src/project
  unstale lab shootout history.parquet
"""
_RUNS = """\b
Examples:
  unstale lab run cho-figure-6
  unstale lab run 'azar-*' --out azar
  unstale lab run my_experiment.py --report
  unstale lab run --all --quick
  unstale lab run 'li-*' --history changes.parquet --column element=url
"""


@click.group(epilog=_EXAMPLES)
def lab() -> None:
    """See each published result beside ours, and try policies on recorded histories."""


@lab.command("list")
@json_option
def list_(*, as_json: bool) -> None:
    """List all experiments: the paper, its table or figure, what it shows, and how long it takes in full."""
    from unstale.lab.catalogue import every_experiment

    from .report import experiment_as_json, print_list

    found = every_experiment()
    if as_json:
        print_json({"experiments": [experiment_as_json(one) for one in found]})
    else:
        print_list(found)


@lab.command(epilog=_RUNS)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "every", is_flag=True, help="Run all, and write a report.")
@click.option("--report", "reported", is_flag=True, help="Write report.html, one file with all of it.")
@click.option("--quick", is_flag=True, help="Take smaller sizes and fewer repetitions.")
@click.option("--seed", type=Count(0), default=1, help="Of all random numbers.")
@click.option("--out", default="unstale-lab", metavar="FOLDER", help="Where figures and data go.")
@click.option(
    "--history",
    metavar="HISTORY",
    help="For experiments on a recorded history: CSV, TSV or Parquet with columns element and t, or a git "
    "repository.  [default: the one that comes with unstale]",
)
@column_option(HISTORY_ROLES, "What --history calls a column: --column element=path.")
@click.option("--jobs", type=Count(1), help="Run so many at a time.  [default: cores, at most 4]")
@json_option
def run(
    *,
    names: tuple[str, ...],
    every: bool,
    reported: bool,
    quick: bool,
    seed: int,
    out: str,
    history: str | None,
    columns: tuple[tuple[str, str], ...],
    jobs: int | None,
    as_json: bool,
) -> int:
    """Run experiments by NAME, and show what is published beside what is computed.

    A NAME may be a pattern, such as 'cho-*', or a Python file with experiments of your own. Figures are drawn
    as SVG and PNG, and their data written as CSV; --report, or --all, also writes report.html and
    results.json.

    The exit code is 0 if each claim is reproduced, explained or excused, and 1 if not.
    """
    if not (every or names):
        raise InvalidInput("unstale lab run needs names of experiments, or --all")
    if columns and history is None:
        raise InvalidInput("--column needs --history")
    from unstale.lab.catalogue import choose
    from unstale.lab.experiment import Run

    experiments = choose(("*", *names) if every else names)
    _check_folder(out)
    for module in ("matplotlib.figure", *(("jinja2",) if every or reported else ())):
        need(module, extra="lab", needed_for="the figures and the report of the lab")
    how = Run(quick=quick, seed=seed, history=history, columns=dict(columns))
    if history is not None:
        _check_history(history, dict(columns))
    done = _carried_out(experiments, how, jobs, out)

    from unstale.lab.results import Results, write_files

    from .report import print_results

    results = Results(how, done)
    report = None
    if every or reported:
        from unstale.lab.report import report_files

        report = str(Path(out) / "report.html")
        write_files(out, report_files(results))
    if as_json:
        print_json(results.as_json() | {"out": out, "report": report})
    else:
        print_results(results, out, report)
    for one in done:
        if one.failure:
            click.echo(f"unstale: {one.experiment.name} failed: {one.failure}", err=True)
    return 0 if results.agree else 1


for command in (history_command, shootout):
    lab.add_command(command)


def _check_folder(path: str) -> None:
    """Refuse, before any work is done, a folder that cannot be made or written to."""
    folder = Path(path)
    if not path:
        raise InvalidInput("--out must be a folder; it is ''")
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"--out must be a folder; {path!r} is a file")
    if not folder.resolve().parent.is_dir():
        raise InvalidInput(f"--out must be in a directory that exists; it is {path!r}")
    new = not folder.exists()
    try:
        folder.mkdir(exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(
            f"--out must be a folder that can be written; {path!r}: {error.strerror}"
        ) from error
    finally:
        if new:
            with suppress(OSError):  # there may be nothing to write in the end
                folder.rmdir()


def _check_history(path: str, columns: dict[str, str]) -> None:
    """Refuse a history before experiments fail for it, one by one."""
    if path == "-":
        raise InvalidInput("--history must be a file: several experiments read it")
    from unstale.lab.histories import load

    with progress(f"reading {Path(path).resolve().name}"):
        load(path, columns)


def _carried_out(experiments: list[Experiment], run: Run, jobs: int | None, out: str) -> list[Done]:
    """Run experiments, write the files of each as it is done, and return all in the order of the list."""
    from unstale.lab.results import files_of, write_files
    from unstale.lab.running import carry_out, usual_jobs

    finished: dict[str, Done] = {}

    def reached(_: float) -> str:
        return f"{len(finished)} of {len(experiments)}"

    total = sum(one.seconds for one in experiments)
    label = experiments[0].name if len(experiments) == 1 else "experiments"
    with progress(label, total, reached if len(experiments) > 1 else None) as advance:
        for one in carry_out(experiments, run, jobs=jobs or usual_jobs(), advance=advance):
            finished[one.experiment.name] = one
            if files := files_of(one):
                write_files(out, files)
    return [finished[one.name] for one in experiments]
