"""``unstale lab history``: the history of git repositories as a history of changes."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any

import click

from unstale.cli.shared.options import json_option
from unstale.cli.shared.printing import console, print_json, say
from unstale.cli.shared.progress import progress
from unstale.cli.shared.when import MOMENT
from unstale.errors import InvalidInput
from unstale.tables import check_writable, open_rows
from unstale.wording import plural

_EXAMPLES = """\b
Examples:
  unstale lab history .
  unstale lab history ~/src/one ~/src/two --since 2024-01-01 --out changes.csv.gz
  unstale lab shootout history.parquet
"""


@click.command(epilog=_EXAMPLES)
@click.argument("folders", nargs=-1, required=True, metavar="GIT_REPOSITORY...")
@click.option(
    "--out", metavar="FILE", default="history.parquet", help="Write changes: .parquet, .csv, .csv.gz, .tsv."
)
@click.option("--since", type=MOMENT, help="Begin there, with the files that there are then: 2024-01-31.")
@click.option("--branch", metavar="REF", help="End at this branch, tag or commit.  [default: HEAD]")
@json_option
def history(
    *, folders: tuple[str, ...], out: str, since: datetime | None, branch: str | None, as_json: bool
) -> None:
    """Turn the history of local git repositories into a history of changes.

    Each file is an element, and each commit that gives it other content is a change, at the time of the
    commit. A merge is one change, at its own time; a deletion is a change; a new mode is none; and a file
    that is moved as it is stays the same element. With several repositories, the names of files begin with
    that of theirs.

    The file has the columns element and t (seconds since 1970). The first row of an element is how it came
    about. unstale simulate and unstale lab shootout read it.
    """
    check_writable("--out", out)
    from unstale.lab.git_history import Repository, histories_of

    if len({Path(folder).resolve() for folder in folders}) < len(folders):
        raise InvalidInput("a repository must not be given twice")
    repositories = [Repository(folder, branch) for folder in folders]
    commits = sum(one.count() for one in repositories)
    begin = None if since is None else ceil(since.timestamp())
    with progress("reading commits", commits, lambda done: f"{done:,.0f} of {commits:,}") as advance:
        found = histories_of(repositories, begin, advance)
    if since is not None and not found.commits:
        last = datetime.fromtimestamp(found.last, UTC)
        raise InvalidInput(
            f"--since must not be after the last commit, of {last:%Y-%m-%d %H:%M:%S} UTC; it is "
            f"{since.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
    if not len(found):
        where = "the repository" if len(folders) == 1 else "the repositories"
        when = "" if since is None else " since then"
        raise InvalidInput(f"{where} had no files{when}, so there is no history")
    with progress(f"writing {out}"), open_rows(out, {"element": "", "t": "second"}) as write:
        keys = found.keys
        write([keys[place] for place in found.elements.tolist()], found.times)
    answer = {
        "repositories": [
            {"folder": one.folder, "commit": one.commit, "shallow": one.is_shallow} for one in repositories
        ],
        "commits": found.commits,
        "elements": len(found.keys),
        "changes": len(found) - len(found.keys),
        "first": int(found.times.min()),
        "last": int(found.times.max()),
        "out": out,
    }
    for one in repositories:
        if one.is_shallow:
            warning = (
                f"warning: {one.folder} is a shallow clone: its history is cut, and files seem to begin at "
                "the cut; git fetch --unshallow gets the rest"
            )
            click.echo(warning, err=True)
    if as_json:
        print_json(answer)
    else:
        _print(answer)


def _print(answer: dict[str, Any]) -> None:
    screen = console()
    first, last = (f"{datetime.fromtimestamp(answer[end], UTC):%Y-%m-%d}" for end in ("first", "last"))
    files, changes, commits = answer["elements"], answer["changes"], answer["commits"]
    say(
        screen,
        f"{plural(files, 'file')} and {plural(changes, 'change')}, "
        f"from {plural(commits, 'commit')}, {first} to {last}; "
        f"written to {answer['out']}",
        apart=False,
    )
    if changes:
        say(screen, f"Who would have kept copies freshest: unstale lab shootout {shlex.quote(answer['out'])}")
    else:
        say(screen, "No file has changed since it was added, so there is nothing to play on it.")
