"""Change rates from named distributions: ``--rates gamma:mean=1/day,spread=1``.

gamma:mean=1/day,spread=1        spread is the standard deviation over the mean
lognormal:mean=1/day,spread=2
pareto:mean=1/day,shape=1.5      a heavy tail: P(rate > x) falls like x to the power of -shape
exponential:mean=1/day
uniform:low=0/day,high=2/day
constant:rate=1/day
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from unstale import quantities
from unstale.errors import InvalidInput
from unstale.quantities import LEAST, MOST, TimeUnit

if TYPE_CHECKING:
    import numpy as np

    from unstale.arguments import Floats

_PARAMETERS_PER_TIME = {"mean", "low", "high", "rate"}
"""Parameters that are changes per time; the others have no unit."""
_RATE_DRAWS = 100
"""Of random numbers, unlike those of `unstale.draws`."""


class _Family(NamedTuple):
    """A family of distributions: an example, the parameters that may be left out, and how to draw."""

    example: str
    defaults: dict[str, float]
    draw: Callable[[np.random.Generator, int, dict[str, float]], Floats]

    @property
    def parameters(self) -> list[str]:
        return [part.partition("=")[0] for part in self.example.partition(":")[2].split(",")]


def _gamma(rng: np.random.Generator, count: int, of: dict[str, float]) -> Floats:
    return rng.gamma(of["spread"] ** -2, of["mean"] * of["spread"] ** 2, count)


def _lognormal(rng: np.random.Generator, count: int, of: dict[str, float]) -> Floats:
    variance = math.log1p(of["spread"] ** 2)
    return rng.lognormal(math.log(of["mean"]) - variance / 2, math.sqrt(variance), count)


def _pareto(rng: np.random.Generator, count: int, of: dict[str, float]) -> Floats:
    return of["mean"] * (1 - 1 / of["shape"]) * (1 + rng.pareto(of["shape"], count))


def _constant(_: np.random.Generator, count: int, of: dict[str, float]) -> Floats:
    import numpy as np

    return np.full(count, of["rate"])


DISTRIBUTIONS = {
    "gamma": _Family("gamma:mean=1/day,spread=1", {"spread": 1.0}, _gamma),
    "lognormal": _Family("lognormal:mean=1/day,spread=2", {"spread": 1.0}, _lognormal),
    "pareto": _Family("pareto:mean=1/day,shape=1.5", {"shape": 2.0}, _pareto),
    "exponential": _Family(
        "exponential:mean=1/day", {}, lambda rng, count, of: rng.exponential(of["mean"], count)
    ),
    "uniform": _Family(
        "uniform:low=0/day,high=2/day",
        {"low": 0.0},
        lambda rng, count, of: rng.uniform(of["low"], of["high"], count),
    ),
    "constant": _Family("constant:rate=1/day", {}, _constant),
}


class Distribution(NamedTuple):
    """A distribution of change rates, with rates per second."""

    text: str
    family: str
    parameters: dict[str, float]

    def draw(self, count: int, unit: TimeUnit, seed: int) -> Floats:
        """Draw change rates per unit of time."""
        import numpy as np

        from unstale.draws import generator_of

        scaled = {
            name: value * unit.seconds if name in _PARAMETERS_PER_TIME else value
            for name, value in self.parameters.items()
        }
        rates = DISTRIBUTIONS[self.family].draw(generator_of(seed, _RATE_DRAWS), count, scaled)
        return np.where(rates > 0, np.clip(rates, LEAST, MOST), 0.0)


def read_distribution(name: str, text: str) -> Distribution:
    """Read a distribution; what is left out has a usual value.

    >>> read_distribution("--rates", "gamma:mean=86400/day").parameters
    {'spread': 1.0, 'mean': 1.0}
    >>> read_distribution("--rates", "zipf:mean=1/day")
    Traceback (most recent call last):
    unstale.errors.InvalidInput: --rates must be one of gamma, lognormal, pareto, exponential, uniform,
        constant, such as gamma:mean=1/day,spread=1; it is 'zipf:mean=1/day'
    """
    family, _, rest = text.strip().partition(":")
    if family not in DISTRIBUTIONS:
        example = DISTRIBUTIONS["gamma"].example
        raise InvalidInput(
            f"{name} must be one of {', '.join(DISTRIBUTIONS)}, such as {example}; it is {text!r}"
        )
    known = DISTRIBUTIONS[family]
    found = dict(known.defaults)
    for part in filter(None, rest.split(",")):
        parameter, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or parameter not in known.parameters:
            raise InvalidInput(
                f"{name} must be like {known.example}; {part.strip()!r} is none of its parameters"
            )
        found[parameter] = _value(f"{name} {family}:{parameter}", parameter, value)
    if missing := [parameter for parameter in known.parameters if parameter not in found]:
        raise InvalidInput(f"{name} must be like {known.example}; {missing[0]!r} is missing in {text!r}")
    if family == "uniform" and found["low"] > found["high"]:
        raise InvalidInput(f"{name} uniform must have low <= high; it is {text!r}")
    return Distribution(text.strip(), family, found)


def _value(name: str, parameter: str, text: str) -> float:
    if parameter in _PARAMETERS_PER_TIME:
        try:
            flow = quantities.flow(name, text)
        except InvalidInput:
            flow = None
        if flow is None or flow.kind != "polls":
            raise InvalidInput(f"{name} must be changes per time, such as 1/day; it is {text!r}")
        if not flow.amount and parameter == "mean":
            raise InvalidInput(f"{name} must be more than nothing; it is {text!r}")
        return flow.amount / flow.unit.seconds
    least = 1.0 if parameter == "shape" else 0.0
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not least < number <= 1e3:
        raise InvalidInput(f"{name} must be a number above {least:g}, up to 1000; it is {text!r}")
    return number
