"""The options that commands share, and the problem that they and the file pose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from unstale import quantities
from unstale.errors import InvalidInput
from unstale.quantities import Flow, Kind, TimeUnit
from unstale.tables import (
    LAW_ROLES,
    ROLES,
    Elements,
    ParquetFile,
    ParquetTable,
    TextFile,
    TextTable,
    bad_column,
    bad_file,
    check_writable,
    open_table,
)

from .problem import Problem, Task
from .progress import progress

if TYPE_CHECKING:
    from unstale.arguments import Order
    from unstale.objectives import Objective

__all__ = [
    "OBJECTIVES",
    "POLICIES",
    "Quantity",
    "as_objective",
    "check_out",
    "column_of",
    "fitted",
    "load",
    "no_weight",
    "one_for_each_role",
    "open_elements",
    "pose",
    "problem_options",
]

OBJECTIVES = ("freshness", "age", "missed-updates", "harmonic", "currency:TIME")
POLICIES = ("optimal", "uniform", "proportional", "random-optimal", "square-root")
_Command = TypeVar("_Command", bound=Callable[..., object])


class Quantity(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.3
    """A value with a unit, read by a function of `unstale.quantities`."""

    def __init__(self, name: str, read: Callable[[str, str], object]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> object:  # noqa: ANN401, ARG002
        """Read it; the error names the option."""
        return self._read(param.opts[0] if param else self.name, value) if isinstance(value, str) else value


def column_of(roles: Sequence[str], name: str, text: str) -> tuple[str, str]:
    """Read what a file calls a column: role=name."""
    role, equals, column = text.partition("=")
    if role not in roles or not equals or not column:
        raise InvalidInput(f"{name} must be ROLE=NAME with a role among {', '.join(roles)}; it is {text!r}")
    return role, column


def one_for_each_role(
    _context: click.Context, _option: click.Parameter, columns: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Insist on one column for each role."""
    names: dict[str, str] = {}
    for role, column in columns:
        if names.setdefault(role, column) != column:
            both = f"{names[role]!r} and {column!r}"
            raise InvalidInput(f"--column must name one column for each role; {role} is {both}")
    return columns


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
            show_default=True,
            help="The column rate counts changes per second, minute, hour, day, week, month or year.",
        ),
        click.option(
            "--column",
            "columns",
            type=Quantity("ROLE=NAME", partial(column_of, roles)),
            multiple=True,
            callback=one_for_each_role,
            help="What the file calls a column: --column rate=changes_per_day.",
        ),
        click.option(
            "--objective",
            metavar="OBJECTIVE",
            help=f"What is to be made best: {', '.join(OBJECTIVES)}.  [default: freshness]",
        ),
        click.option(
            "--order",
            type=click.Choice(["fixed", "random", "purely-random"]),
            default="fixed",
            show_default=True,
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
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
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


def as_objective(name: str, unit: TimeUnit) -> str | Objective:
    """Return the objective of a name on the command line."""
    kind, colon, time = name.partition(":")
    if kind == "currency" and colon:
        from unstale.objectives import currency

        return currency(quantities.duration("--objective currency:TIME", time) / unit.seconds)
    if colon or name not in OBJECTIVES[:-1]:
        raise InvalidInput(
            f"--objective must be one of {', '.join(OBJECTIVES)}, such as currency:6h; it is {name!r}"
        )
    return name


def load(file: str | TextFile | ParquetFile, **options: Any) -> Problem:  # noqa: ANN401
    """Read the file and check that the options fit it."""
    if options["objective"] is not None:
        as_objective(options["objective"], options["rate_unit"])
    table = open_elements(file, **options)
    with progress(f"reading {Path(table.path).name}", table.length) as advance:
        elements = table.read(advance)
    return pose(table.path, elements, **options)


def open_elements(
    file: str | TextFile | ParquetFile,
    *,
    columns: tuple[tuple[str, str], ...],
    certain: bool = True,
    **_: object,
) -> TextTable | ParquetTable:
    """Return the table of a file; the laws of its rates count unless they are to be taken for certain."""
    named = dict(columns)
    for role in LAW_ROLES:
        if certain and role in named:
            raise InvalidInput(f"--certain cannot be had together with --column {role}={named[role]}")
    return open_table(file, named, certain=certain)


def pose(
    file: str,
    elements: Elements,
    *,
    budget: Flow | None,
    rate_unit: TimeUnit,
    columns: tuple[tuple[str, str], ...],
    objective: str | None,
    order: Order,
    min_frequency: Flow | None,
    max_frequency: Flow | None,
    group_limit: Flow | None,
    ignore_sizes: bool,
    certain: bool = True,  # noqa: ARG001  (the elements have been read)
) -> Problem:
    """Return the problem of elements, having checked that the options fit them."""
    if elements.weights is not None and not elements.weights.any():
        raise no_weight(file, columns)
    elements = fitted(file, elements, budget, ignore_sizes=ignore_sizes)
    kind: Kind = "polls" if elements.sizes is None else "bytes"
    task = Task(
        file=file,
        count=len(elements),
        changes=float(elements.rates.sum()),
        unit=rate_unit,
        budget=budget or Flow(0.0, kind, rate_unit),
        order=order,
        objective=objective,
        uncertain=elements.uncertain,
    )
    return Problem(task, elements, _limits(task, elements, min_frequency, max_frequency, group_limit))


def _limits(
    task: Task, elements: Elements, low: Flow | None, high: Flow | None, group_limit: Flow | None
) -> dict[str, Any]:
    """Return bounds and limits as `unstale.plan` takes them, having checked that they can be kept."""
    import numpy as np

    limits: dict[str, Any] = {}
    sizes = np.ones(len(elements)) if elements.sizes is None else elements.sizes
    least = low.per(task.unit) if low is not None else 0.0
    if low is not None:
        limits["min_frequency"] = least
        taken = least * float(sizes.sum())
        if task.amount and taken > task.amount * (1 + 1e-12):
            raise InvalidInput(
                f"--min-frequency takes {task.show(taken)}, which is more than the budget of {task.budget}"
            )
    if high is not None:
        limits["max_frequency"] = high.per(task.unit)
        if limits["max_frequency"] < least:
            raise InvalidInput(f"--max-frequency must be at least --min-frequency; it is {high}")
    if group_limit is not None:
        if elements.groups is None:
            raise bad_file(task.file, "--group-limit needs a column 'group'; --column group=NAME says which")
        if group_limit.kind != task.budget.kind:
            counts = f"it counts {group_limit.kind}, and the budget {task.budget.kind}"
            raise InvalidInput(f"--group-limit must be in the unit of the budget; {counts}")
        limit = group_limit.per(task.unit)
        taken_by = least * np.bincount(elements.groups, sizes)
        if (taken_by > limit * (1 + 1e-12)).any():
            worst = int(np.argmax(taken_by))
            taken_there = f"{task.show(taken_by[worst])} in group {elements.group_names[worst]!r}"
            raise InvalidInput(
                f"--min-frequency takes {taken_there}, which is more than the limit of {group_limit}"
            )
        limits["groups"] = elements.groups
        limits["limits"] = np.full(len(elements.group_names), limit)
    return limits


def no_weight(file: str, columns: tuple[tuple[str, str], ...]) -> InvalidInput:
    """Return the error that says that no element matters."""
    return bad_column(file, dict(columns).get("weight", "weight"), "must not be 0 for all elements")


def fitted(file: str, elements: Elements, budget: Flow | None, *, ignore_sizes: bool) -> Elements:
    """Insist that sizes and the budget go together: bytes with sizes, polls without."""
    if ignore_sizes:
        elements = replace(elements, sizes=None)
    if budget is None:
        return elements
    if budget.kind == "bytes" and elements.sizes is None:
        raise bad_file(
            file,
            "a budget in bytes needs the bytes of a poll in a column 'size'; "
            "--column size=NAME says which, and a budget such as 1000/day counts polls",
        )
    if budget.kind == "polls" and elements.sizes is not None:
        raise bad_file(
            file,
            "it has a column 'size', but the budget counts polls; "
            "give a budget in bytes, such as 20MB/h, or --ignore-sizes",
        )
    return elements
