"""``unstale profile``: who wants what, from access logs."""

from __future__ import annotations

from functools import partial
from math import inf
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import click

from unstale import quantities
from unstale.cli.profile.into_mirror import read_into_mirror
from unstale.cli.shared.options import (
    SHARE,
    Count,
    Quantity,
    check_out,
    column_of,
    column_option,
    json_option,
    out_option,
)
from unstale.cli.shared.printing import print_json
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.cli.shared.when import moment_or_seconds
from unstale.errors import InvalidInput
from unstale.tables import (
    FIELDS,
    FORMATS,
    ROLES,
    AccessLog,
    AccessRuns,
    Requests,
    TableElements,
    bad_file,
    element_table,
    open_rows,
    read_user_weights,
)

if TYPE_CHECKING:
    from unstale.estimation.profiles.profile import Profile
    from unstale.estimation.profiles.user_profiles import UserProfiles

_HALF_LIVES_APART = 10.0
"""Half-lives without an access after which it is said that earlier ones count for almost nothing."""
_DAY_SECONDS = 86400.0

_EXAMPLES = """\b
Examples:
  unstale profile access.log
  unstale profile access.log.*.gz --half-life 7d --strip-query --top 50
  unstale profile access.log --prefix https://example.org --elements pages.csv --out weighted.csv
  unstale profile views.jsonl --field key=page --field time=seen_at --by user
  unstale profile access.log --by user --user-weights users.csv --out weights.parquet
  ssh server zcat /var/log/nginx/access.log.gz | unstale profile -
"""


def _half_life(name: str, text: str) -> float:
    """Read a time, or none."""
    return float("inf") if text.strip() == "none" else quantities.duration(name, text)


def _until(name: str, text: str) -> float:
    """Read a moment, or none."""
    return inf if text.strip() == "none" else moment_or_seconds(name, text)


def _status(name: str, text: str) -> int:
    """Read a class of statuses: 2xx; 0 for any."""
    if text == "any":
        return 0
    if len(text) != 3 or text[0] not in "12345" or text[1:].lower() != "xx":
        raise InvalidInput(f"{name} must be 1xx, 2xx, 3xx, 4xx, 5xx or any; it is {text!r}")
    return int(text[0])


@click.command(epilog=_EXAMPLES)
@click.argument("logs", nargs=-1, required=True, metavar="LOG...")
@click.option(
    "--half-life",
    type=Quantity("TIME", _half_life),
    default="30d",
    help="Accesses of so long ago count half: 7d, or none if all count the same.",
)
@click.option(
    "--until",
    type=Quantity("TIME", _until),
    help="Leave out later accesses: 2026-01-31, or none to count all.  [default: tomorrow]",
)
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Of the logs.  [default: seen from them]")
@click.option(
    "--field",
    "fields",
    type=Quantity("ROLE=NAME", partial(column_of, tuple(FIELDS))),
    multiple=True,
    help=f"What a log calls a field, with a role among {', '.join(FIELDS)}.",
)
@click.option("--strip-query", is_flag=True, help="/page?id=7 is /page.")
@click.option("--prefix", metavar="TEXT", help="Put it before each key: https://example.org.")
@click.option(
    "--method",
    "methods",
    multiple=True,
    default=("GET", "HEAD"),
    metavar="METHOD",
    help="Requests that count; any for all.",
)
@click.option(
    "--status",
    "statuses",
    type=Quantity("CLASS", _status),
    multiple=True,
    default=("2xx", "3xx"),
    help="Responses that count; any for all.",
)
@click.option("--by", type=click.Choice(["user"]), help="Give each user the same weight, however busy.")
@click.option("--user-weights", metavar="FILE", help="With --by user: CSV with the columns user and weight.")
@click.option(
    "--elements", "elements_file", metavar="FILE", help="Give weights to these, as for unstale plan."
)
@column_option(ROLES, "What --elements calls a column: --column key=url.")
@click.option(
    "--into-mirror",
    "mirror_file",
    metavar="FILE",
    help="Count the accesses as reads of copies of this mirror instead: mirror.toml.",
)
@click.option("--unseen", type=SHARE, help="Weight of all elements without an access.  [default: learned]")
@click.option("--top", type=Count(0), default=20, help="Show so many.")
@click.option(
    "--most",
    type=Count(100),
    default=10_000_000,
    help="Keep at most so many elements (with --by user: pairs) in memory.",
)
@out_option("the weights here")
@json_option
def profile(
    *,
    logs: tuple[str, ...],
    half_life: float,
    until: float | None,
    kind: str | None,
    fields: tuple[tuple[str, str], ...],
    elements_file: str | None,
    columns: tuple[tuple[str, str], ...],
    by: str | None,
    user_weights: str | None,
    unseen: float | None,
    mirror_file: str | None,
    top: int,
    most: int,
    out: str | None,
    as_json: bool,
    **requests: Any,  # noqa: ANN401
) -> None:
    """Count accesses in LOGs, and make them weights for a plan.

    A LOG is in the common or combined log format of web servers, JSON lines, or CSV or TSV with the columns
    key and time, and perhaps user and count; it may be compressed, and - is standard input. Lines that cannot
    be read are counted, and the first ones shown.

    With --into-mirror they become reads of a mirror: what was counted before is left out, so a log can be
    given again when it has grown. Users are told apart if [reads] users of the mirror says so.

    The weights go to --out with the columns key and weight; with --elements, with all that is known of these
    elements, ready for unstale plan.
    """
    from .report import ProfileReport, WeightedElements

    if mirror_file is not None:
        read_into_mirror(
            mirror_file,
            logs,
            _requests(**requests),
            kind=kind,
            fields=dict(fields),
            until=until,
            as_json=as_json,
        )
        return
    for file in (*logs, elements_file, user_weights):
        check_out(out, file)
    if user_weights is not None and by is None:
        raise InvalidInput("--user-weights needs --by user")
    if elements_file is None and (columns or unseen is not None):
        given = "--column" if columns else "--unseen"
        raise InvalidInput(f"{given} needs --elements")
    if len([log for log in (*logs, elements_file, user_weights) if log == "-"]) > 1:
        raise InvalidInput("standard input (-) can be read only once")
    elements = None if elements_file is None else _elements(elements_file, dict(columns))
    weights = None if user_weights is None else read_user_weights(user_weights)
    latest = time() + _DAY_SECONDS if until is None else until  # clocks may be off by a zone
    readers = [
        AccessLog(
            log,
            kind=kind,
            fields=dict(fields),
            requests=_requests(**requests),
            users=by is not None,
            until=latest,
        )
        for log in logs
    ]
    runs = AccessRuns(_HALF_LIVES_APART * half_life)
    counted = _counted(readers, runs, half_life, most, by_user=by is not None)
    _check_counted(readers)
    master, users = _master(counted, weights)
    weighted = None if elements is None else WeightedElements.of(str(elements_file), elements, master, unseen)
    profiled = ProfileReport(master, readers, users, top, weighted, runs.apart(), until)
    if out is not None:
        with progress(f"writing {out}"), open_rows(out, profiled.columns) as write:
            write(*profiled.rows())
    if as_json:
        print_json(profiled.as_json() | {"out": out})
    else:
        profiled.print(out)


def _requests(
    *, strip_query: bool, prefix: str | None, methods: tuple[str, ...], statuses: tuple[int, ...]
) -> Requests:
    return Requests(
        methods=frozenset() if "any" in methods else frozenset(method.upper() for method in methods),
        statuses=frozenset() if 0 in statuses else frozenset(statuses),
        queries=not strip_query,
        prefix=prefix or "",
    )


def _elements(file: str, columns: dict[str, str]) -> TableElements:
    table = element_table(file, {"key": "key"} | columns)
    with progress(f"reading {Path(file).name}", table.length) as advance:
        return table.read(advance)


def _counted(
    readers: list[AccessLog], runs: AccessRuns, half_life: float, most: int, *, by_user: bool
) -> Profile | UserProfiles:
    """Count all accesses."""
    from unstale.estimation.profiles.profile import Profile
    from unstale.estimation.profiles.user_profiles import UserProfiles

    lengths = [reader.length for reader in readers]
    total = None if None in lengths else float(sum(filter(None, lengths)))
    counted = UserProfiles(half_life, most=most) if by_user else Profile(half_life, most=most)

    def lines(_: float) -> str:
        return f"{sum(reader.tally.lines for reader in readers):,} lines"

    with told_of_compilation(), progress("reading", total, lines) as advance:
        for reader in readers:
            for part in reader.read(advance):
                runs.add(reader.path, part.keys, part.times, part.places)
                if isinstance(counted, Profile):
                    counted.count(part.keys, part.times, part.counts, places=part.places)
                else:
                    counted.count(
                        part.users or [],
                        part.keys,
                        part.times,
                        part.counts,
                        user_places=part.user_places,
                        places=part.places,
                    )
    return counted


def _check_counted(readers: list[AccessLog]) -> None:
    """Refuse logs in which nothing counts."""
    if any(reader.tally.accesses for reader in readers):
        return
    if any(reader.tally.late for reader in readers):
        raise bad_file(readers[0].path, "all accesses are too late; --until says what is, or none")
    if any(reader.tally.passed for reader in readers):
        raise bad_file(readers[0].path, "no request counts; --method and --status say which do")
    for reader in readers:
        for line, why in reader.tally.examples:
            raise bad_file(
                reader.path, f"{why}; no other line can be read as {reader.kind} either", line=line
            )
    raise bad_file(readers[0].path, "no accesses")


def _master(
    counted: Profile | UserProfiles, weights: tuple[dict[str, float], float] | None
) -> tuple[Profile, int | None]:
    """Return the profile of all, and the number of users, if the logs name them."""
    from unstale.estimation.profiles.profile import Profile

    if isinstance(counted, Profile):
        return counted, None
    given, others = weights or ({}, 1.0)
    try:
        return counted.master(given, others=others), len(counted)
    except InvalidInput:
        raise InvalidInput("--user-weights must not be 0 for all users in the logs") from None
