"""The public door: values are checked here, once, and trusted inside.

A message names the argument, the place and the value: ``rates must be finite and >= 0; rates[3] is -0.2``.
"""

import operator
from collections.abc import Collection, Mapping
from math import inf, isfinite
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput

Floats = NDArray[np.float64]
Order = Literal["fixed", "random", "purely-random"]
_ORDERS = ("fixed", "random", "purely-random")


def numbers(
    name: str,
    value: ArrayLike,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    below: float = np.inf,
    at_most: float = np.inf,
    infinite: bool = False,
    nonempty: bool = False,
) -> Floats:
    """Return ``value`` as a float64 array, or raise an error naming the first entry that is not allowed.

    >>> numbers("rates", [1, 2])
    array([1., 2.])
    >>> numbers("rates", [1, 2, 3, -0.2], at_least=0)
    Traceback (most recent call last):
    unstale.errors.InvalidInput: rates must be finite and >= 0; rates[3] is -0.2
    """
    array = as_floats(name, value)
    if nonempty and array.size == 0:
        raise InvalidInput(f"{name} must not be empty; give at least one number")
    good = ~np.isnan(array) if infinite else np.isfinite(array)
    words = ["a number" if infinite else "finite"]
    for bound, sign, holds in (
        (above, ">", np.greater),
        (at_least, ">=", np.greater_equal),
        (below, "<", np.less),
        (at_most, "<=", np.less_equal),
    ):
        if np.isfinite(bound):
            good &= holds(array, bound)
            words.append(f"{sign} {bound:g}")
    if not good.all():
        _reject(name, array, ~good, " and ".join(words))
    return array


def as_floats(name: str, value: ArrayLike) -> Floats:
    """Return ``value`` as a float64 array, whatever the numbers are."""
    if np.ma.isMaskedArray(value):
        _reject(name, np.asarray(value), np.ma.getmaskarray(value), "unmasked")
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:  # ragged nesting
        raise InvalidInput(f"{name} must be a number or an array of numbers; {error}") from None
    if array.dtype.kind in "fiu":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":  # Python integers beyond 64 bits, Fraction, Decimal; but never text or None
        flat = array.ravel()
        for i, entry in enumerate(flat):
            if isinstance(entry, str | bytes | bool) or not hasattr(type(entry), "__float__"):
                _reject(name, array, np.arange(flat.size).reshape(array.shape) == i, "a number")
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise InvalidInput(f"{name} must be a number or an array of numbers; {error}") from None
    if array.size == 0:
        return np.zeros(array.shape)
    _reject(name, array, np.ones(array.shape, bool), "a number")
    raise AssertionError  # pragma: no cover


def _reject(name: str, array: NDArray[np.generic], bad: NDArray[np.bool_], rule: str) -> None:
    """Raise an error that names the first bad entry, if there is one."""
    if not bad.any():
        return
    index = tuple(int(i) for i in np.argwhere(bad)[0]) if array.ndim else ()
    entry = array[index] if index else array[()]
    shown = entry.item() if isinstance(entry, np.generic) else entry
    place = f"{name}[{', '.join(map(str, index))}]" if index else name
    raise InvalidInput(f"{name} must be {rule}; {place} is {shown!r}")


def numbers_of_elements(
    name: str, value: ArrayLike, size: int, noun: str = "rows", *, below: int | None = None
) -> NDArray[np.int64]:
    """Return the numbers of elements in a column, one for each of ``size`` rows, perhaps ``below`` a number.

    >>> numbers_of_elements("elements", [0, 3], 2, "polls", below=3)
    Traceback (most recent call last):
    unstale.errors.InvalidInput: elements must be numbers from 0 to 2; elements[1] is 3
    """
    array = np.ma.asanyarray(value) if np.ma.isMaskedArray(value) else np.asarray(value)
    if array.shape != (size,):
        raise InvalidInput(
            f"{name} must be one number for each of the {size} {noun}; it has shape {array.shape}"
        )
    if size and array.dtype.kind not in "iu":
        if array.dtype.kind not in "fO":
            _reject(name, array, np.ones(size, bool), "whole numbers")
        array = as_floats(name, array)
        _reject(name, array, array != np.floor(array), "whole numbers")
    bad = array < 0 if below is None else (array < 0) | (array >= below)
    _reject(name, array, bad, ">= 0" if below is None else f"numbers from 0 to {below - 1}")
    return array.astype(np.int64, copy=False)


def scalar(name: str, value: float, **rules: float | bool) -> float:
    """Return one float; the rules are those of `numbers`."""
    least = rules.get("at_least", -inf)
    if type(value) is float and isfinite(value) and value >= least and not rules.keys() - {"at_least"}:
        return value  # what is asked often needs no arrays
    array = numbers(name, value, **rules)  # type: ignore[arg-type]
    if array.ndim:
        raise InvalidInput(f"{name} must be a single number; it has shape {array.shape}")
    return float(array)


def whole(name: str, value: int, *, at_least: int = 0) -> int:
    """Return an integer."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidInput(f"{name} must be a whole number; {name} is {value!r}") from None
    if isinstance(value, bool) or number < at_least:
        raise InvalidInput(f"{name} must be a whole number >= {at_least}; {name} is {value!r}")
    return number


def broadcast(**arrays: Floats) -> tuple[Floats, ...]:
    """Check that shapes fit together; the arrays come back unchanged (ufuncs broadcast by themselves)."""
    try:
        np.broadcast_shapes(*(array.shape for array in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{name} has shape {array.shape}" for name, array in arrays.items())
        raise InvalidInput(f"shapes do not fit together: {shapes}") from None
    return tuple(arrays.values())


def choice(name: str, value: object, allowed: Collection[str] | Mapping[str, object]) -> str:
    """Return one of the allowed words.

    >>> choice("order", "fixd", ["fixed", "random"])
    Traceback (most recent call last):
    unstale.errors.InvalidInput: order must be one of 'fixed', 'random'; order is 'fixd'
    """
    if not isinstance(value, str) or value not in allowed:
        raise InvalidInput(f"{name} must be one of {', '.join(map(repr, allowed))}; {name} is {value!r}")
    return value


def order_code(order: Order) -> int:
    """Return the kernels' number of an order."""
    return _ORDERS.index(choice("order", order, _ORDERS))


def generator(name: str, value: np.random.Generator) -> np.random.Generator:
    """Return a random generator, checked."""
    if not isinstance(value, np.random.Generator):
        raise InvalidInput(
            f"{name} must be a numpy Generator, such as numpy.random.default_rng(1); {name} is {value!r}"
        )
    return value


def unwrap(array: Floats) -> Floats:
    """Turn a 0-d array into a NumPy scalar, as ufuncs do."""
    return array[()]
