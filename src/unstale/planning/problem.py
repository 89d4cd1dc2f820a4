"""What is to be planned: the arguments of a plan, checked, as a market."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats, as_floats, numbers, order_code
from ..errors import InvalidInput
from ..processes import Empirical, Observed, Poisson, Process, UncertainPoisson, process
from .compiled.demand import copied
from .elements import Elements, Goal, poisson_of
from .limits import Groups, group_codes
from .market import Market

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class ProblemColumn(NamedTuple):
    """Numbers, one for all or one for each, as they were given, and what there is among them."""

    values: Floats
    below: int
    """How many are below 0, or nan."""
    zeros: int
    infinite: int
    total: float

    @classmethod
    def of(cls, array: Floats) -> ProblemColumn:
        """Copy an array: what was given may be changed later, and a plan is asked again."""
        own = np.empty(array.shape)
        return cls(own, *copied(np.ascontiguousarray(array).reshape(-1), own.reshape(-1)))

    def good(self, *, zero: bool = True, infinite: bool = False) -> bool:
        """Whether all are numbers >= 0, or > 0, and finite."""
        return not self.below and (zero or not self.zeros) and (infinite or not self.infinite)


@dataclass(frozen=True, eq=False)
class Problem:
    """Elements, bounds, limits and a goal, as given; `market` has them checked and in order of their laws."""

    n: int
    laws: tuple[tuple[Process | ProblemColumn, NDArray[np.intp] | None], ...]
    """Laws (a column: rates of Poisson changes), each with the places of its elements, if not all."""
    given: Mapping[str, ProblemColumn]
    """Weights, sizes and so on: one number for all, or one for each."""
    goal: Goal
    groups: Groups | None

    @classmethod
    def of(
        cls,
        rates: ArrayLike | Process | Sequence[Process],
        *,
        goal: Goal,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        change_sizes: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        limits: Mapping[object, float] | ArrayLike | None = None,
        min_frequency: ArrayLike = 0.0,
        max_frequency: ArrayLike = np.inf,
    ) -> Self:
        """Read the arguments of a plan."""
        order_code(goal.order)
        n, found = laws_of(rates)
        laws = tuple(
            (ProblemColumn.of(law) if isinstance(law, np.ndarray) else law, place) for law, place in found
        )
        given = {
            "weights": _column("weights", 1.0 if weights is None else weights, n),
            "sizes": _column("sizes", 1.0 if sizes is None else sizes, n),
            "change_sizes": _column("change_sizes", 0.0 if change_sizes is None else change_sizes, n),
            "min_frequency": _column("min_frequency", min_frequency, n),
            "max_frequency": _column("max_frequency", max_frequency, n),
        }
        if (groups is None) != (limits is None):
            raise InvalidInput(
                f"groups and limits go together; {'groups' if groups is None else 'limits'} is missing"
            )
        numbered = None
        if groups is not None and limits is not None:
            numbered = group_codes(groups, limits, n)
        problem = cls(n, laws, given, goal, numbered)
        if numbered is not None and problem.index is not None:
            numbered.codes = numbered.codes[problem.index]
        return problem

    @property
    def index(self) -> NDArray[np.intp] | None:
        """Places of the elements in the input, in the order of the market; None if they are the same."""
        places = [place for _, place in self.laws if place is not None]
        return np.concatenate(places) if places else None

    def unsorted(self, column: Floats) -> Floats:
        """A column of the market, in the order of the input."""
        if self.index is None:
            return column
        out = np.empty(column.shape)
        out[self.index] = column
        return out

    def sorted(self, column: Floats) -> Floats:
        """A column of the input, in the order of the market."""
        return column if self.index is None else column[self.index]

    def check(self) -> None:
        """Raise an error that names the first number that cannot be."""
        given = self.given
        for law, _ in self.laws:
            if isinstance(law, ProblemColumn) and not law.good():
                numbers("rates", law.values, at_least=0)
        for name in ("weights", "change_sizes", "min_frequency"):
            if not given[name].good():
                numbers(name, given[name].values, at_least=0)
        if not given["sizes"].good(zero=False):
            numbers("sizes", given["sizes"].values, above=0)
        if not given["max_frequency"].good(infinite=True):
            numbers("max_frequency", given["max_frequency"].values, at_least=0, infinite=True)
        low, high = given["min_frequency"].values, given["max_frequency"].values
        if (crossed := low > high).any():
            i = int(np.argmax(crossed))
            most, least = (float(np.broadcast_to(column, crossed.shape).ravel()[i]) for column in (high, low))
            place = f"[{i}]" if crossed.ndim else ""
            raise InvalidInput(
                "min_frequency must not exceed max_frequency; "
                f"min_frequency{place} is {least:g}, max_frequency{place} is {most:g}"
            )
        if given["change_sizes"].total:
            self._check_conditional()

    def _check_conditional(self) -> None:
        """Insist on what makes a poll worth more per cost the later it is made."""
        for law, _ in self.laws:
            known = isinstance(law, ProblemColumn | Poisson)
            if not known and not (isinstance(law, UncertainPoisson) and self.goal.order == "fixed"):
                raise InvalidInput(
                    "change_sizes needs Poisson changes, or uncertain rates polled in fixed order; "
                    f"the law is {law!r} in {self.goal.order} order"
                )
        penalty = getattr(self.goal.objective, "penalty", None)
        rises = penalty is None or penalty.name == "log(1+x)"
        if not rises and penalty.exponent is None and penalty.threshold is None:  # type: ignore[union-attr]
            raise InvalidInput(
                f"change_sizes needs a weight of lags that does not fall; it is {self.goal.objective.name}"
            )

    @cached_property
    def market(self) -> Market:
        """The elements as a market."""
        names = {
            "weights": "weight",
            "sizes": "size",
            "change_sizes": "change_size",
            "min_frequency": "low",
            "max_frequency": "high",
        }
        parts = []
        for law, place in self.laws:
            columns = {
                names[name]: values if place is None or not values.ndim else values[place]
                for name, (values, *_) in self.given.items()
            }
            n = self.n if place is None else place.size
            changes = poisson_of(law.values) if isinstance(law, ProblemColumn) else law
            parts.append(Elements(n=n, law=changes, count=np.asarray(1.0), **columns))
        return Market(tuple(parts), self.goal)

    @cached_property
    def weight(self) -> float:
        """Sum of the weights."""
        weights = self.given["weights"]
        return weights.total if weights.values.ndim else self.n * weights.total

    def simple(self, what: str) -> tuple[Floats, Floats, Floats]:
        """Rates, weights and sizes for a policy that knows nothing else."""
        given, (law, _) = self.given, self.laws[0]
        plain = isinstance(law, ProblemColumn) and self.goal.objective.kernel == kernels.FRESHNESS
        bare = given["change_sizes"].total == given["min_frequency"].total == 0.0
        if not (plain and bare and self.groups is None and given["max_frequency"].values.min() == np.inf):
            raise InvalidInput(
                f"{what} takes rates, weights and sizes, for freshness; leave out all other options"
            )
        columns = (law.values, given["weights"].values, given["sizes"].values)  # type: ignore[union-attr]
        rate, weight, size = (np.broadcast_to(column, (self.n,)) for column in columns)
        return rate, weight, size


def _column(name: str, value: ArrayLike, n: int) -> ProblemColumn:
    array = as_floats(name, value)
    if array.shape not in {(), (n,)}:
        raise InvalidInput(
            f"{name} must be one number or one for each element; {name} has shape {array.shape}, rates ({n},)"
        )
    return ProblemColumn.of(array)


Laws = tuple[tuple[Process | Floats, NDArray[np.intp] | None], ...]


def laws_of(rates: ArrayLike | Process | Sequence[Process]) -> tuple[int, Laws]:
    """Sort out how elements change: rates (as given), one process for all, or a list of processes."""
    if hasattr(rates, "survival"):
        law = process("rates", rates)
        if len(law.shape_of) > 1:
            raise InvalidInput(
                f"rates must be a process with one entry for each element; its shape is {law.shape_of}"
            )
        return (law.shape_of or (1,))[0], ((law, None),)
    if isinstance(rates, Sequence) and any(hasattr(entry, "survival") for entry in rates):
        return len(rates), _sorted_laws([process(f"rates[{i}]", entry) for i, entry in enumerate(rates)])
    array = as_floats("rates", rates)  # type: ignore[arg-type]
    if array.ndim != 1:
        raise InvalidInput(f"rates must be one-dimensional; it has shape {array.shape}")
    if array.size == 0:
        raise InvalidInput("rates must not be empty; give at least one number")
    return array.size, ((array, None),)


def _sorted_laws(laws: list[Process]) -> Laws:
    """Put laws of a family together as one, and equal ones that cannot be put together."""
    places: dict[object, list[int]] = {}
    for i, law in enumerate(laws):
        if law.shape_of:
            raise InvalidInput(
                f"rates must list one process for each element; rates[{i}] stands for shape {law.shape_of}"
            )
        joint = _numeric(law) or isinstance(law, Empirical)
        places.setdefault(type(law) if joint else law, []).append(i)
    out: list[tuple[Process | Floats, NDArray[np.intp] | None]] = []
    for kind, own in places.items():
        joined = laws[own[0]]
        if kind is Empirical:
            joined = Observed.of([laws[i] for i in own])  # type: ignore[misc]
        elif isinstance(kind, type):
            parameters = (part.name for part in fields(joined))  # type: ignore[arg-type]
            joined = kind(*(np.array([getattr(laws[i], name) for i in own]) for name in parameters))
        out.append((joined, np.array(own, np.intp)))
    return tuple(out)


def _numeric(law: Process) -> bool:
    """Whether a law is a dataclass of plain numbers, so that many can be one with arrays."""
    try:
        parameters = fields(law)  # type: ignore[arg-type]
    except TypeError:
        return False
    return all(isinstance(getattr(law, part.name), float | np.floating) for part in parameters)
