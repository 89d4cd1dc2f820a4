"""``unstale lab shootout``: policies on a recorded history, all with as many polls."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale import quantities
from unstale.cli.shared.options import (
    PAPERS,
    RULES,
    SHARE,
    Count,
    Quantity,
    check_out,
    column_option,
    json_option,
    out_option,
    plot_option,
)
from unstale.cli.shared.plots import check_plot
from unstale.cli.shared.printing import print_json
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.quantities import Flow
from unstale.tables import HISTORY_ROLES, open_rows

if TYPE_CHECKING:
    from unstale.lab.histories import Recorded
    from unstale.lab.shootout import Shootout
    from unstale.simulation.noisy_hints import NoisyHints

_POLICIES = (
    "uniform", "proportional", "aduana", "estimated-optimal", "learning", "optimal", "optimal-law"
)  # fmt: skip
_BY_THE_CLOCK = "learning-by-the-clock"
_PLAYABLE = (*_POLICIES, _BY_THE_CLOCK, *PAPERS, "mirror")
_WEIGHT_ROLES = ("key", "weight")
_EXAMPLES = f"""\b
Examples:
  unstale lab shootout
  unstale lab shootout ~/src/project --rule nutch --rule heritrix --plot shootout.svg
  unstale lab shootout changes.parquet --column element=url --budget 100/day
  unstale lab shootout changes.csv --weights pages.csv --seeds 5 --out rows.csv

\b
Policies:
  {", ".join(_POLICIES)};
    if asked for, {_BY_THE_CLOCK}: learning with rhythms and a reserve of a day;
    {", ".join(PAPERS)}: learners of papers;
    and mirror: the mirror itself in simulated time, which takes minutes
Rules of tools:
  {", ".join(RULES[:5])},
    {", ".join(RULES[5:])}
"""


@click.command(epilog=_EXAMPLES)
@click.argument("history", required=False, metavar="[HISTORY]")
@click.option(
    "--budget",
    "budgets",
    type=Quantity("POLLS/TIME", quantities.frequency),
    multiple=True,
    help="Polls of all elements together: 100/day. May be given several times.  "
    "[default: a quarter of the changes, as many, and four times as many]",
)
@click.option("--seeds", type=Count(1), default=3, help="How many.")
@click.option(
    "--objective",
    "objectives",
    type=click.Choice(["freshness", "age"]),
    multiple=True,
    help="What policies plan for.  [default: both, one after the other]",
)
@click.option("--weights", metavar="FILE", help="How much elements matter: columns key and weight.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice(_PLAYABLE),
    multiple=True,
    metavar="POLICY",
    help="Only these, and uniform; see below.  [default: all]",
)
@click.option(
    "--rule",
    "rules",
    type=click.Choice([*RULES, "none"]),
    multiple=True,
    metavar="RULE",
    help="Only these rules of tools, or none.  [default: all]",
)
@click.option(
    "--skip",
    type=SHARE,
    help="First part of the history that is played but not measured: 20%.  [default: a third]",
)
@click.option(
    "--told", is_flag=True, help="Each poll also learns when the last change was, as Last-Modified says it."
)
@click.option(
    "--hints",
    metavar="RECALL,PRECISION",
    help="Changes give hints: 60%,80% is a hint of 60 % of them, and 80 % of hints come of a change.",
)
@column_option(
    (*HISTORY_ROLES, *_WEIGHT_ROLES),
    "What a file calls a column: --column element=url --column weight=views.",
)
@click.option("--jobs", type=Count(1), help="Processes.  [default: one for each core]")
@plot_option
@out_option("all rows")
@json_option
def shootout(
    *,
    history: str | None,
    budgets: tuple[Flow, ...],
    seeds: int,
    objectives: tuple[Any, ...],
    weights: str | None,
    policies: tuple[str, ...],
    rules: tuple[str, ...],
    skip: float | None,
    told: bool,
    hints: str | None,
    columns: tuple[tuple[str, str], ...],
    jobs: int | None,
    plot: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Play policies on a recorded history, all with the same number of polls.

    HISTORY is a file with the columns element and t, one row for each change (the first row of an element is
    how it came about), or the folder of a git repository. Without it, it is the bundled one: releases of
    well-known Python packages.

    Each rule of tools polls as much as it likes, and all others get as many polls; besides, there are the
    budgets given. Tools with one fixed interval (changedetection.io, urlwatch, FreshRSS, Uptime Kuma) are
    uniform.

    It begins when half of the elements exist, and is played with those; what comes later is left out.
    """
    check_plot(plot)
    check_out(out, history)
    if "none" in rules and len(rules) > 1:
        raise InvalidInput("--rule none cannot be combined with other rules")
    named = dict(columns)
    if history is None and (extra := [role for role in HISTORY_ROLES if role in named]):
        raise InvalidInput(f"--column {extra[0]}=... needs HISTORY; the bundled one has its own columns")
    if weights is None and (extra := [role for role in _WEIGHT_ROLES if role in named]):
        raise InvalidInput(f"--column {extra[0]}=... needs --weights, whose file has that column")
    from unstale.lab.histories import load_weights
    from unstale.lab.running import usual_jobs
    from unstale.lab.shootout import OBJECTIVES
    from unstale.lab.shootout import shootout as play

    recorded = _load(history, named)
    matter = None if weights is None else load_weights(weights, recorded, named)
    day = quantities.time_unit("unit", "day")
    with told_of_compilation(), progress("playing", 1.0) as advance:
        played = play(
            recorded,
            budgets=[one.per(day) for one in budgets] or None,
            seeds=seeds,
            objectives=[one for one in OBJECTIVES if not objectives or one in objectives],
            policies=policies or _POLICIES,
            rules=[one for one in RULES if not rules or one in rules],
            weights=matter,
            skip=1 / 3 if skip is None else skip,
            told=told,
            hints=_hints(hints),
            jobs=jobs or usual_jobs(),
            advance=advance,
        )
    if plot is not None:
        from .shootout_plot import draw_shootout

        with progress("drawing"):
            draw_shootout(plot, played)
    if out is not None:
        _write(out, played)
    if as_json:
        print_json(asdict(played) | {"plot": plot, "out": out})
    else:
        from .shootout_report import print_shootout

        print_shootout(played, plot, out)


def _load(history: str | None, named: dict[str, str]) -> Recorded:
    from unstale.lab.git_history import Repository
    from unstale.lab.histories import load

    if history is not None and Path(history).is_dir() and Repository(history).is_shallow:
        click.echo(f"warning: {history} is a shallow clone: its history is cut", err=True)
    if history is not None and not Path(history).exists() and history != "-":
        raise InvalidInput(f"{history}: there is no such file or folder")
    with progress(f"reading {'the history' if history is None else Path(history).name}"):
        return load(history, {role: named[role] for role in HISTORY_ROLES if role in named})


def _hints(text: str | None) -> NoisyHints | None:
    """Read how reliable hints are: 60%,80%."""
    if text is None:
        return None
    from unstale.simulation.noisy_hints import NoisyHints

    recall, comma, precision = text.partition(",")
    if not comma:
        raise InvalidInput(f"--hints must be RECALL,PRECISION, such as 60%,80%; it is {text!r}")
    whole = {"1", "100%"}
    return NoisyHints(
        *(1.0 if one.strip() in whole else quantities.share("--hints", one) for one in (recall, precision))
    )


def _write(path: str, played: Shootout) -> None:
    """Write a row for each case and policy; times are in days, polls per day."""
    rows: list[dict[str, Any]] = []
    for case in played.cases:
        for row in case.rows:
            values: dict[str, Any] = {
                "objective": case.objective,
                "case": case.rule or "budget",
                "budget": case.budget,
                "policy": row.policy,
                "polls": row.polls,
            }
            for name in ("freshness", "age", "perceived"):
                measured = getattr(row, name)
                values |= {name: measured.value, f"{name}_error": measured.error}
            for name, other in (("ahead_of_uniform", "uniform"), ("ahead_of_rule", case.rule or "")):
                lead = row.ahead.get(other)
                values |= {
                    name: lead.value if lead else float("nan"),
                    f"{name}_error": lead.error if lead else float("nan"),
                }
            rows.append(values | {"needed": row.needed.polls, "needed_bound": row.needed.bound})
    units = {
        "budget": "polls/day",
        "polls": "polls/day",
        "needed": "polls/day",
        "age": "day",
        "age_error": "day",
    }
    with (
        progress(f"writing {path}"),
        open_rows(path, {name: units.get(name, "") for name in rows[0]}) as write,
    ):
        write(*([row[name] for row in rows] for name in rows[0]))
