"""The options that commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from unstale import quantities
from unstale.errors import InvalidInput
from unstale.tables import LAW_ROLES, ROLES, check_writable

from .problem import OBJECTIVES

POLICIES = ("optimal", "uniform", "proportional", "random-optimal", "square-root")
"""Policies that share the budget by an allocation."""
LIKE_OPTIMAL = ("edf", "index")
"""Policies that poll what the optimal allocation polls, slot by slot."""
PAPERS = ("lambda-crawl", "explore-commit", "mirror-sync", "greedy-ncis")
"""Learners of papers."""
LEARNING = ("learning", "estimated-optimal", "estimated-proportional", *PAPERS)
"""Policies that learn rates from their polls."""
SLOTTED = (*LIKE_OPTIMAL, *LEARNING)
"""Policies that share the budget in other ways than by an allocation and an order."""
RULES = (
    "nutch", "nutch-default", "stormcrawler", "news-crawl", "heritrix", "miniflux", "miniflux-round-robin",
    "commafeed",
)  # fmt: skip
"""Rules of tools in use, which poll as much as they like."""
_Command = TypeVar("_Command", bound=Callable[..., object])


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A value with a unit, read by a function of `unstale.quantities`."""

    def __init__(self, name: str, read: Callable[[str, str], object]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:  # noqa: ANN401, ARG002
        """Read it; the error names the option."""
        return self._read(param.opts[0] if param else self.name, value) if isinstance(value, str) else value


class Count(click.IntRange):
    """A whole number between bounds, which help shows as N."""

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:  # noqa: ARG002
        """Return what stands for the number."""
        return "N"


DURATION = Quantity("TIME", quantities.duration)
SHARE = Quantity("SHARE", quantities.share)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
plot_option = click.option("--plot", metavar="FILE", help="Draw it: .svg, .png or .pdf.")
policy_option = click.option(
    "--policy", type=click.Choice(POLICIES), default="optimal", help="How the budget is shared."
)
seed_option = click.option("--seed", type=Count(0), default=0, help="Of random numbers.")


def out_option(written: str) -> Callable[[_Command], _Command]:
    """Return the option of the file that a command writes; ``written`` says what is in it."""
    return click.option("--out", metavar="FILE", help=f"Write {written}: .csv, .tsv, .csv.gz, .parquet.")


def column_of(roles: Sequence[str], name: str, text: str) -> tuple[str, str]:
    """Read what a file calls a column: role=name."""
    role, equals, column = text.partition("=")
    if role not in roles or not equals or not column:
        raise InvalidInput(f"{name} must be ROLE=NAME with a role among {', '.join(roles)}; it is {text!r}")
    return role, column


def _one_for_each_role(
    _context: click.Context, _option: click.Parameter, columns: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Refuse two columns for one role."""
    names: dict[str, str] = {}
    for role, column in columns:
        if names.setdefault(role, column) != column:
            both = f"{names[role]!r} and {column!r}"
            raise InvalidInput(f"--column must name one column for each role; {role} is {both}")
    return columns


def column_option(roles: Sequence[str], told: str) -> Callable[[_Command], _Command]:
    """Return the option that says what a file calls its columns; ``told`` is its help."""
    return click.option(
        "--column",
        "columns",
        type=Quantity("ROLE=NAME", partial(column_of, roles)),
        multiple=True,
        callback=_one_for_each_role,
        help=told,
    )


def problem_options(
    *, file_required: bool, budget_required: bool, roles: Sequence[str] = (*ROLES, *LAW_ROLES)
) -> Callable[[_Command], _Command]:
    """Add the file and the options that say what is to be planned; ``roles`` are those of its columns."""
    flow, frequency = Quantity("AMOUNT/TIME", quantities.flow), Quantity("POLLS/TIME", quantities.frequency)
    options = [
        click.argument("file", required=file_required, metavar="FILE" if file_required else "[FILE]"),
        click.option(
            "--budget",
            type=flow,
            required=budget_required,
            help="What all elements together may cost: 1000/day, 50/s, 20MB/h. Bytes need a column size.",
        ),
        click.option(
            "--rate-unit",
            type=Quantity("UNIT", quantities.time_unit),
            default="day",
            help="The column rate counts changes per second, minute, hour, day, week, month or year.",
        ),
        column_option(roles, "What the file calls a column: --column rate=changes_per_day."),
        click.option(
            "--objective",
            metavar="OBJECTIVE",
            help=f"What is to be made best: {', '.join(OBJECTIVES)}.  [default: freshness]",
        ),
        click.option(
            "--order",
            type=click.Choice(["fixed", "random", "purely-random"]),
            default="fixed",
            help="How polls are spread over time.",
        ),
        click.option("--min-frequency", type=frequency, help="Poll each element at least so often: 1/week."),
        click.option("--max-frequency", type=frequency, help="Poll no element more often than this: 4/h."),
        click.option(
            "--group-limit",
            type=flow,
            help="What the elements of one group (column group) may cost together: 60/h.",
        ),
        click.option(
            "--ignore-sizes", is_flag=True, help="Count polls, although the file has a column size."
        ),
        json_option,
    ]
    if set(LAW_ROLES) <= set(roles):
        certain = "Take the column rate for certain, although the file has columns shape and scale."
        options.insert(-1, click.option("--certain", is_flag=True, help=certain))

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def check_out(out: str | None, file: str | None) -> None:
    """Refuse, before any work is done, an --out that cannot be written or is the file that is read."""
    if out is None:
        return
    check_writable("--out", out)
    if file is not None and Path(file).exists() and Path(out).exists() and Path(file).samefile(out):
        raise InvalidInput(f"--out must not be the file that is read; it is {out!r}")
