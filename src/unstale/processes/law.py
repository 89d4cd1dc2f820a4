"""What a process is, and the checks and limits that all laws share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, broadcast, generator, numbers, unwrap, whole
from unstale.errors import InvalidInput

Size = int | tuple[int, ...] | None


class Process(Protocol):
    """What the layers above use of a process; see the top of `unstale.processes` for the moments."""

    @property
    def rate(self) -> Floats:
        """Mean events per unit time."""

    @property
    def shape_of(self) -> tuple[int, ...]:
        """Shape of the parameters: ``()`` for one element."""

    @property
    def kinks(self) -> Floats:
        """Gaps at which ``S`` jumps or bends, for quadrature."""

    @property
    def span(self) -> float | None:
        """Span of the lattice on which events can keep in step; None if there is none."""

    def survival(self, gap: ArrayLike) -> Floats:
        """Probability that a gap exceeds ``gap``."""

    def residual_cdf(self, t: ArrayLike) -> Floats:
        """G(t): probability that the next event comes within ``t`` of a random moment."""

    def residual_survival(self, t: ArrayLike) -> Floats:
        """1 - G(t), to full relative precision."""

    def moment(self, k: int, t: ArrayLike) -> Floats:
        """Integral of y^k dG(y) from 0 to t; t may be inf."""

    def sample(self, rng: np.random.Generator, size: Size = None) -> Floats:
        """Draw gaps, successive ones along the last axis.

        With array parameters ``size`` ends in their shape, and successive gaps run along the first axis.
        """

    def sample_residual(self, rng: np.random.Generator, size: Size = None) -> Floats:
        """Draw times from a random moment to the next event."""

    def at_rate(self, rate: ArrayLike) -> Process:
        """Return the same process with time stretched to another mean rate."""

    def element(self, index: tuple[int, ...]) -> Process:
        """Return the process of one element, by its index in a shape that the parameters broadcast to."""

    def take(self, index: slice | NDArray[np.intp]) -> Process:
        """Return the process of some elements, by their places; the process itself if it is one for all."""


def process(name: str, value: object) -> Process:
    """Return a process, checked."""
    if not all(hasattr(value, part) for part in ("rate", "survival", "residual_survival", "moment", "kinks")):
        raise InvalidInput(f"{name} must be a process, such as Poisson(rate=1.0); {name} is {value!r}")
    return value  # type: ignore[return-value]


class Law(ABC):
    """Checks and limits shared by all laws; each law supplies the underscored parts."""

    def __post_init__(self) -> None:
        checked = {
            part.name: numbers(part.name, getattr(self, part.name), **part.metadata)
            for part in fields(self)  # type: ignore[arg-type]
        }
        broadcast(**checked)
        for name, array in checked.items():
            own = array.copy()  # a law is a value: it never changes
            own.setflags(write=False)
            object.__setattr__(self, name, unwrap(own))

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        pairs = zip(self._values(), other._values(), strict=True)
        return all(bool(np.all(np.shape(a) == np.shape(b) and a == b)) for a, b in pairs)

    def __hash__(self) -> int:
        return hash((type(self), *(v.tobytes() if isinstance(v, np.ndarray) else v for v in self._values())))

    def __repr__(self) -> str:
        names = (part.name for part in fields(self))  # type: ignore[arg-type]
        shown = (v.tolist() if isinstance(v, np.generic) else v for v in self._values())
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in zip(names, shown, strict=True))})"

    @property
    def shape_of(self) -> tuple[int, ...]:
        return np.broadcast_shapes(*(np.shape(getattr(self, part.name)) for part in fields(self)))  # type: ignore[arg-type]

    @property
    def kinks(self) -> Floats:
        return np.empty(0)

    @property
    def span(self) -> float | None:
        return None

    def element(self, index: tuple[int, ...]) -> Self:
        own = self.shape_of
        inner = tuple(0 if n == 1 else i for n, i in zip(own, index[len(index) - len(own) :], strict=True))
        return type(self)(
            *(np.broadcast_to(getattr(self, part.name), own)[inner] for part in fields(self))  # type: ignore[arg-type]
        )

    def take(self, index: slice | NDArray[np.intp]) -> Self:
        shape = self.shape_of
        if not shape:
            return self
        return type(self)(
            *(np.broadcast_to(getattr(self, part.name), shape).ravel()[index] for part in fields(self))  # type: ignore[arg-type]
        )

    def survival(self, gap: ArrayLike) -> Floats:
        y = numbers("gap", gap, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            return unwrap(np.where(np.isinf(y), 0.0, self._survival(np.where(np.isinf(y), 1.0, y))))

    def residual_cdf(self, t: ArrayLike) -> Floats:
        return self.moment(0, t)

    def residual_survival(self, t: ArrayLike) -> Floats:
        t = numbers("t", t, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            inside = self._residual_survival(np.where(np.isinf(t), 1.0, t))
        return unwrap(np.where(np.isinf(t), np.where(self.rate > 0, 0.0, 1.0), inside))

    def moment(self, k: int, t: ArrayLike) -> Floats:
        if isinstance(k, bool) or k not in (0, 1, 2):
            raise InvalidInput(f"k must be 0, 1 or 2; k is {k!r}")
        t = numbers("t", t, at_least=0, infinite=True)
        with np.errstate(all="ignore"):
            inside = self._moment(k, np.where(np.isinf(t), 1.0, t))
            return unwrap(np.where(np.isinf(t), self._limit(k), inside))

    def sample(self, rng: np.random.Generator, size: Size = None) -> Floats:
        with np.errstate(divide="ignore"):
            return self._sample(generator("rng", rng), self._size(size))

    def sample_residual(self, rng: np.random.Generator, size: Size = None) -> Floats:
        with np.errstate(divide="ignore"):
            return self._sample_residual(generator("rng", rng), self._size(size))

    if TYPE_CHECKING:  # a field of one law, a property of the others

        @property
        def rate(self) -> Floats: ...

    @abstractmethod
    def _survival(self, y: Floats) -> Floats: ...

    @abstractmethod
    def _residual_survival(self, t: Floats) -> Floats: ...

    @abstractmethod
    def _moment(self, k: int, t: Floats) -> Floats: ...

    @abstractmethod
    def _limit(self, k: int) -> Floats: ...

    @abstractmethod
    def _sample(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats: ...

    @abstractmethod
    def _sample_residual(self, rng: np.random.Generator, size: tuple[int, ...]) -> Floats: ...

    @abstractmethod
    def _stretched(self, factor: Floats) -> Self: ...

    def _one(self, value: Floats) -> float:
        if self.shape_of:
            raise InvalidInput(
                f"span is asked of one process; this one stands for elements of shape {self.shape_of}"
            )
        return float(value)

    def _size(self, size: Size) -> tuple[int, ...]:
        own = self.shape_of
        if size is None:
            return own
        try:
            wanted = (size,) if isinstance(size, int | np.integer) else tuple(size)
        except TypeError:
            raise InvalidInput(f"size must be a whole number or a tuple of them; size is {size!r}") from None
        shape = tuple(whole("size", n) for n in wanted)
        last = shape[max(0, len(shape) - len(own)) :]
        if len(last) < len(own) or any(n not in (1, m) for n, m in zip(own, last, strict=True)):
            raise InvalidInput(f"size must end in the shape of the parameters, {own}; size is {size!r}")
        return shape

    def at_rate(self, rate: ArrayLike) -> Self:
        wanted = numbers("rate", rate, above=0)
        if not np.all(self.rate > 0):
            raise InvalidInput("a process with rate 0 has no other rate; its rate must be > 0")
        return self._stretched(self.rate / wanted)


if TYPE_CHECKING:

    class Parameter:
        """A parameter of a law: anything like an array goes in, an array of floats comes out."""

        def __get__(self, instance: object, owner: type | None = None) -> Floats: ...

        def __set__(self, instance: object, value: ArrayLike) -> None: ...

else:
    Parameter = Floats


def parameter(**rules: float) -> Parameter:
    """Declare a parameter with the rules of `arguments.numbers` that it must keep."""
    declared: Parameter = field(metadata=rules)
    return declared
