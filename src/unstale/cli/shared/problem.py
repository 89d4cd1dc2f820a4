"""The problem that a file and the options of a command pose: read, checked, and with units for showing it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale import quantities
from unstale.errors import InvalidInput
from unstale.quantities import Flow, Kind, TimeUnit, show_duration, show_flow, show_number, time_unit
from unstale.tables import (
    LAW_ROLES,
    ParquetFile,
    TableElements,
    TableReader,
    TextFile,
    bad_column,
    bad_file,
    element_table,
    law_of,
)
from unstale.wording import noun_after, plural

from .mirror_elements import elements_of, names_mirror
from .progress import progress

if TYPE_CHECKING:
    from unstale.arguments import Order
    from unstale.objectives import Objective
    from unstale.planning import Plan

OBJECTIVES = ("freshness", "age", "missed-updates", "harmonic", "currency:TIME")
"""Objectives as the command line spells them."""
EXAMPLE = "the bundled example"
"""What messages call the elements that are there without a file."""


@dataclass(frozen=True)
class Task:
    """What is asked. Numbers are in the unit of time of the rates, but shown in that of the budget."""

    file: str
    """Name for messages."""
    count: int
    changes: float
    unit: TimeUnit
    budget: Flow
    """An amount of 0 if none is given."""
    order: Order
    objective: str | None
    """As given on the command line; None if not."""
    uncertain: int = 0
    """How many of the rates are known only as a law."""

    @property
    def goal(self) -> str:
        """The objective of a plan."""
        return self.objective or "freshness"

    @property
    def amount(self) -> float:
        """The budget."""
        return self.budget.per(self.unit)

    @property
    def budget_as_typed(self) -> str:
        """The budget as one types it."""
        amount = f"{self.budget.amount:.12g}{'B' if self.budget.kind == 'bytes' else ''}"
        return f"{amount}/{self.budget.unit.name}"

    def show(self, amount: float) -> str:
        """Return an amount of budget with its unit."""
        return show_flow(
            amount * (self.budget.unit.seconds / self.unit.seconds), self.budget.kind, self.budget.unit
        )

    def show_time(self, span: float) -> str:
        """Return a time with its unit."""
        return show_duration(span * self.unit.seconds)

    def __str__(self) -> str:
        """Return the line that says what is planned."""
        changes = f"about {show_number(self.changes)} {noun_after(self.changes, 'change')}/{self.unit.name}"
        budget = f", a budget of {self.budget}" if self.budget.amount else ""
        elements = plural(self.count, "element")
        if self.uncertain:
            rates = "an uncertain rate" if self.uncertain == 1 else "uncertain rates"
            elements += (
                f" with {rates}" if self.uncertain == self.count else f" ({self.uncertain:,} with {rates})"
            )
        return f"{elements}, {changes}{budget}"

    def as_json(self) -> dict[str, Any]:
        """Return what the JSON of all commands starts with."""
        return {
            "file": self.file,
            "elements": self.count,
            "uncertain": self.uncertain,
            "time_unit": self.unit.name,
            "budget_unit": f"{self.budget.kind}/{self.unit.name}",
            "budget": self.amount,
            "objective": self.goal,
            "order": self.order,
        }


@dataclass(frozen=True, eq=False)
class LoadedProblem:
    """A task with its elements in memory."""

    task: Task
    elements: TableElements
    limits: dict[str, Any]
    """Groups and bounds, as arguments of `unstale.plan`."""

    @cached_property
    def law(self) -> Any:  # noqa: ANN401  (rates, a law, or one for each)
        """How the elements change, as `unstale.plan` takes it."""
        return law_of(self.elements)

    def plan(self, policy: str, objective: str | None = None, budget: float | None = None) -> Plan:
        """Plan; the objective and the budget are those of the task if not given here."""
        from unstale import planning

        options, amount = self.options(policy, objective), self.task.amount if budget is None else budget
        if policy != "random-optimal" or not self.task.uncertain:
            return planning.plan(self.law, amount, **options)
        # This policy is for known rates. It takes the mean ones, and the laws say what that buys.
        known = planning.plan(self.elements.rates, amount, **options)
        judged = planning.plan(self.law, amount, **options | {"policy": "uniform"})
        return replace(
            judged, frequencies=known.frequencies, spent=known.spent, policy="random-optimal", _summary=None
        )

    def options(self, policy: str, objective: str | None = None) -> dict[str, Any]:
        """Return the arguments of `unstale.plan`; the objective is the task's if not given here."""
        return {
            "policy": policy,
            "weights": self.elements.weights,
            "sizes": self.elements.sizes,
            "order": self.task.order,
            "objective": as_objective(objective or self.task.goal, self.task.unit),
            **self.limits,
        }


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


def load(file: str | TextFile | ParquetFile, **options: Any) -> LoadedProblem:  # noqa: ANN401
    """Read the file and check that the options fit it."""
    if options["objective"] is not None:
        as_objective(options["objective"], options["rate_unit"])
    if isinstance(file, str) and names_mirror(file):
        return _of_mirror(file, options)
    table = open_elements(file, **options)
    with progress(f"reading {Path(table.path).name}", table.length) as advance:
        elements = table.read(advance)
    return pose(table.path, elements, **options)


def _of_mirror(file: str, options: dict[str, Any]) -> LoadedProblem:
    """Return the problem that a mirror has with its own elements; its budget counts if none is given."""
    for name, given in (
        ("--column", options["columns"]),
        ("--group-limit", options["group_limit"]),
        ("--rate-unit", options["rate_unit"].name != "day"),
    ):
        if given:
            raise InvalidInput(f"{name} is for tables of elements; {file} is a mirror, which knows its own")
    with progress(f"reading {file}"):
        elements, budget, limits = elements_of(file, options["rate_unit"])
    if options.get("certain"):
        elements = replace(elements, shapes=None, scales=None)
    problem = pose(file, elements, **options | {"budget": options["budget"] or budget})
    return replace(problem, limits=limits | problem.limits)


def open_elements(
    file: str | TextFile | ParquetFile,
    *,
    columns: tuple[tuple[str, str], ...],
    certain: bool = True,
    **_: object,
) -> TableReader[TableElements]:
    """Return the table of a file; the laws of its rates count unless they are to be taken for certain."""
    named = dict(columns)
    for role in LAW_ROLES:
        if certain and role in named:
            raise InvalidInput(f"--certain cannot be combined with --column {role}={named[role]}")
    return element_table(file, named, certain=certain)


def pose(
    file: str,
    elements: TableElements,
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
) -> LoadedProblem:
    """Return the problem that elements and options pose, checked that they fit."""
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
    return LoadedProblem(task, elements, _limits(task, elements, min_frequency, max_frequency, group_limit))


def _limits(
    task: Task, elements: TableElements, low: Flow | None, high: Flow | None, group_limit: Flow | None
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


def fitted(file: str, elements: TableElements, budget: Flow | None, *, ignore_sizes: bool) -> TableElements:
    """Return the elements, checked that sizes and the budget go together: bytes with sizes, polls without."""
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


def load_or_example(file: str | None, options: dict[str, Any]) -> LoadedProblem:
    """Read the file; without one, take the bundled example."""
    if file is not None:
        return load(file, **options)
    if options["columns"] or options["rate_unit"].name != "day":
        raise InvalidInput("--column and --rate-unit need FILE; the bundled example has its own")
    budget = options["budget"] or Flow(220.0, "polls", time_unit("--rate-unit", "day"))
    with as_file(files("unstale").joinpath("data/example.csv")) as path:
        problem = load(str(path), **options | {"budget": budget})
    return replace(problem, task=replace(problem.task, file=EXAMPLE))
