"""What is simulated: elements from a file, a recorded history, or rates from a named distribution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats
from unstale.cli.shared.mirror_elements import names_mirror
from unstale.cli.shared.problem import LoadedProblem, load, load_or_example, pose
from unstale.cli.shared.progress import progress
from unstale.draws import generator_of
from unstale.errors import InvalidInput
from unstale.quantities import Flow
from unstale.simulation import World, align, zipf
from unstale.simulation.worlds import Alignment
from unstale.tables import (
    HISTORY_ROLES,
    ROLES,
    ParquetFile,
    TableElements,
    TextFile,
    as_list,
    bad_file,
    history_table,
    is_history,
    open_file,
)

from .rate_distributions import Distribution

_DEFAULT_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
"""Time 0 of worlds without a date."""
_ALIGNMENT_DRAWS = 101
"""Of random numbers, unlike those of `unstale.draws`."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Elements as a problem of planning, and the world that they live in."""

    problem: LoadedProblem
    world: World
    begin: float
    """Time 0, in seconds since 1970."""
    drawn: bool = False
    """Whether rates are drawn from a distribution."""

    @property
    def recorded(self) -> bool:
        """Whether changes are those of a history."""
        return self.world.history is not None

    @property
    def moment(self) -> datetime:
        """Time 0."""
        try:
            return datetime.fromtimestamp(self.begin, UTC)
        except (ValueError, OverflowError, OSError):
            raise InvalidInput(
                f"--window needs a history of our era; it begins {self.begin:g} seconds after 1970"
            ) from None


def set_scene(
    file: str | None,
    *,
    rates: Distribution | None,
    count: int | None,
    begin: float | None,
    seed: int,
    accesses: Flow | None,
    skew: float | None,
    alignment: Alignment | None,
    **options: Any,  # noqa: ANN401
) -> Scene:
    """Read or draw what is to be simulated."""
    _check(file, rates, count, options)
    history = None
    if rates is not None and count is not None:
        _count_polls(rates.text, options)
        drawn = TableElements(rates.draw(count, options["rate_unit"], seed), range(1, count + 1))
        problem = pose(rates.text, drawn, **options)
    elif file is None or names_mirror(file):
        problem = load_or_example(file, options)
    else:
        opened = open_file(file)
        if is_history(opened, dict(options["columns"])):
            _count_polls(file, options)
            history = _history(opened, begin, options)
            problem = pose(file, history.elements, **options)
        else:
            _check_columns(opened, dict(options["columns"]))
            problem = load(opened, **options)
    if skew is not None:
        problem = _with_profile(problem, skew, alignment or "shuffled", seed)
    elif alignment is not None:
        raise InvalidInput("--alignment needs --zipf, whose profile it deals out")
    elements = problem.elements
    wanted = accesses.per(problem.task.unit) if accesses is not None else 0.0

    if history is None:
        world = World(elements.rates, weights=elements.weights, sizes=elements.sizes, accesses=wanted)
        zero = _DEFAULT_BEGIN.timestamp() if begin is None else begin
        return Scene(problem, world, zero, drawn=rates is not None)
    world = World.recorded(
        history.places,
        history.times,
        end=history.end,
        count=len(elements),
        weights=elements.weights,
        accesses=wanted,
    )
    return Scene(problem, world, history.begin)


def _check(file: str | None, rates: Distribution | None, count: int | None, options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if (rates is None) != (count is None):
        raise InvalidInput(
            "--rates and --elements go together: --rates gamma:mean=1/day,spread=1 --elements 1000"
        )
    if rates is not None and file is not None:
        raise InvalidInput(f"--rates must not be given with FILE, which is {file!r}; choose one")
    if rates is not None and options["columns"]:
        raise InvalidInput("--column needs FILE")


def _count_polls(name: str, options: dict[str, Any]) -> None:
    """Refuse groups and bytes where there are none."""
    budget: Flow | None = options["budget"]
    if options["group_limit"] is not None:
        raise bad_file(name, "it has no groups, which --group-limit needs")
    if budget is not None and budget.kind == "bytes":
        raise bad_file(name, f"it has no sizes, which a budget of {budget} needs; count polls: 1000/day")


def _check_columns(file: TextFile | ParquetFile, columns: dict[str, str]) -> None:
    """Refuse a file that is neither elements nor a history, naming both."""
    names = file.names
    if "rate" not in columns and "rate" not in names and len(names) > 1:
        have = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
        raise bad_file(
            file.path,
            f"there is neither a column 'rate' (of elements) nor 't' (of a history) among {have}; "
            "say which one it is with --column rate=NAME, or --column element=NAME --column t=NAME",
        )


@dataclass(frozen=True, eq=False)
class _History:
    """Changes in the unit of the rates, from ``begin`` on, and the elements that plans are for."""

    elements: TableElements
    places: NDArray[np.int64]
    times: Floats
    end: float
    begin: float


def _history(file: TextFile | ParquetFile, begin: float | None, options: dict[str, Any]) -> _History:
    """Read a history; the rate of an element is how often it changed in it."""
    columns = dict(options["columns"])
    if extra := set(columns) & set(ROLES):
        roles = ", ".join(HISTORY_ROLES)
        raise bad_file(file.path, f"a history has the columns {roles}; leave out --column {extra.pop()}=...")
    table = history_table(file, columns)
    with progress(f"reading {Path(file.path).name}", table.length) as advance:
        history = table.read(advance)
    seconds = options["rate_unit"].seconds
    zero = float(history.times.min()) if begin is None else begin
    end = (float(history.times.max()) - zero) / seconds
    if not end > 0:
        why = "all changes are at the same time" if begin is None else "no change is after --from"
        raise bad_file(file.path, f"{why}, so there is nothing to simulate")
    kept = history.times >= zero
    places, times = history.elements[kept], (history.times[kept] - zero) / seconds
    rates = np.bincount(places, minlength=len(history.keys)) / end
    return _History(TableElements(rates, as_list(history.keys)), places, times, end, zero)


def _with_profile(problem: LoadedProblem, skew: float, alignment: Alignment, seed: int) -> LoadedProblem:
    """Give elements the weights of a Zipf profile."""
    elements = problem.elements
    if elements.weights is not None:
        raise InvalidInput(
            f"--zipf gives weights, but there are some in {problem.task.file} already; leave one of them out"
        )
    profile = align(
        zipf(len(elements), skew), elements.rates, alignment, generator_of(seed, _ALIGNMENT_DRAWS)
    )
    return replace(problem, elements=replace(elements, weights=profile))
