"""Compiled loops that are called as NumPy ufuncs are: arrays of any shape in, broadcast, arrays out.

Numba has ufuncs of its own, but it builds each of them anew in every process (a tenth of a second each), even
if its code is in the cache. A loop over one dimension comes from the cache in milliseconds.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .arguments import Floats

__all__ = ["elementwise"]

_Loop = Callable[..., None]
_CODES = ("kind", "order")
"""Arguments that are one whole number for all elements."""


def elementwise(*, fixed: _Loop | None = None) -> Callable[[_Loop], Callable[..., Floats]]:
    """Call a compiled ``loop(..., out)``, which fills ``out``, as a function of arrays.

    Arguments that are named ``kind`` or ``order`` are one whole number for all; the others are broadcast. The
    loop always gets the same types, so that it is compiled once: contiguous arrays of float64 that it may not
    write to, and one that it fills.

    ``fixed`` takes its place if the order is 0. What most users need is compiled in a fraction of the time
    then: it has the same arguments, but no order.
    """

    def decorate(loop: _Loop) -> Callable[..., Floats]:
        code = loop.py_func.__code__  # type: ignore[attr-defined]
        names = code.co_varnames[: code.co_argcount - 1]
        at = names.index("order") if fixed else None

        def call(*arguments: ArrayLike, out: Floats | None = None) -> Floats:
            if len(arguments) != len(names):
                raise TypeError(f"takes {', '.join(names)}; {len(arguments)} arguments were given")
            if fixed is not None and at is not None and arguments[at] == 0:
                rest = tuple(zip(names, arguments, strict=True))
                return _call(fixed, (*rest[:at], *rest[at + 1 :]), out)
            return _call(loop, tuple(zip(names, arguments, strict=True)), out)

        return update_wrapper(call, loop)

    return decorate


def _call(loop: _Loop, given: tuple[tuple[str, Any], ...], out: Floats | None) -> Floats:
    values = [int(value) if name in _CODES else np.asarray(value, np.float64) for name, value in given]
    shapes = [value.shape for value in values if not isinstance(value, int)]
    shape = np.broadcast_shapes(*shapes) if out is None else out.shape
    columns = [value if isinstance(value, int) else _column(value, shape) for value in values]
    filled = np.empty(shape) if out is None else out
    flat = filled if filled.ndim == 1 and filled.flags.c_contiguous else np.empty(filled.size)
    loop(*columns, flat)
    if flat is not filled:
        filled[...] = flat.reshape(shape)
    return filled if out is not None or shape else filled[()]


def _column(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Return values in one dimension, to be read only."""
    whole = values if values.shape == shape else np.broadcast_to(values, shape)
    column = np.require(whole, requirements=["C", "A"]).reshape(-1).view()
    column.flags.writeable = False
    return column
