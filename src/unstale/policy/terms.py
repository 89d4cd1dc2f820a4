"""What polls of an element are for: an objective, and a promise that the price serves first.

One price for all, whatever the objectives: the worths of polls are in the same unit, the cost that a poll
takes away, and costs of different kinds are made comparable by what one unit of each is:

    freshness            a copy that is stale
    currency:TIME        a copy that is more than so far behind
    missed-updates       a change that the copy lacks
    harmonic             the first change that the copy lacks; the n-th counts 1/n
    age                  a day of age
    decay:TIME           a copy whose worth is gone: it fades after each poll, to 1/e in this time
    lag:PENALTY:UNIT     the weight of the lag behind the first missed change, counted in the unit (a day)
    missed:PENALTY:UNIT  the sum of the weights of the lags behind all missed changes

So a weight of 2 says that a stale copy is as bad as two days of age elsewhere, or as two missed changes.
Penalties are ``1``, ``x``, ``x^2`` (or another power), ``log(1+x)``, ``1/(1+x)`` and ``exp(-x)``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, NamedTuple, Self

from unstale.errors import InvalidInput
from unstale.objectives import Fading, Objective, SourcePenalty, UpdatePenalty, currency, objective_named
from unstale.penalties import Penalty, decay, named, power, scaled
from unstale.quantities import duration

__all__ = ["OBJECTIVES", "Aim", "ElementTerms", "aim_of"]

DAY_SECONDS = 86400.0
_PLAIN = ("freshness", "age", "missed-updates", "harmonic")
OBJECTIVES = (*_PLAIN, "currency:TIME", "decay:TIME", "lag:PENALTY:UNIT", "missed:PENALTY:UNIT")
"""Objectives of a mirror, as they are written."""


@dataclass(frozen=True, eq=False)
class Aim:
    """An objective, and what one unit of its cost counts beside a stale copy."""

    objective: Objective
    factor: float = 1.0


class ElementTerms(NamedTuple):
    """What is said of elements beside weights: what they are polled for."""

    objective: str = ""
    """As it is written; empty: that of the mirror."""
    target: float = nan
    """Share of the elements of the rule that should be fresh; nan: none is promised."""
    rule: str = ""
    """The pattern of the rule that promises it."""
    parts: tuple[str, ...] = ()
    """Names of composed elements that it is a part of."""

    def text(self) -> str:
        """Return them as the store keeps them; empty if nothing is said.

        >>> ElementTerms().text(), ElementTerms("age").text()
        ('', '["age"]')
        """
        target = None if isnan(self.target) else self.target
        if self.parts:
            return json.dumps([self.objective, target, self.rule, self.parts])
        if target is None:
            return json.dumps([self.objective]) if self.objective else ""
        return json.dumps([self.objective, target, self.rule])

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what was kept."""
        said: list[Any] = json.loads(text) if text else []
        objective, target, rule, parts = said + ["", None, "", ()][len(said) :]
        return cls(objective, nan if target is None else target, rule, tuple(parts))


def aim_of(text: str, name: str = "objective") -> Aim:
    """Return the objective that a text names, with times in seconds, for a mirror.

    >>> aim_of("age").factor * 86400.0, aim_of("currency:6h").objective.name
    (1.0, 'source penalty 1{x>=21600}')
    """
    if text in _PLAIN:
        return Aim(objective_named(text), 1.0 / DAY_SECONDS if text == "age" else 1.0)
    kind, _, rest = text.partition(":")
    if kind == "currency" and rest:
        return Aim(currency(duration(f"{name} currency:TIME", rest)))
    if kind == "decay" and rest:
        return Aim(Fading(duration(f"{name} decay:TIME", rest)))
    if kind in {"lag", "missed"} and rest:
        written, _, unit = rest.partition(":")
        seconds = duration(f"{name} {kind}:PENALTY:UNIT", unit) if unit else DAY_SECONDS
        penalty, factor = _penalty(name, written, seconds)
        return Aim(SourcePenalty(penalty) if kind == "lag" else UpdatePenalty(penalty), factor)
    known = ", ".join(OBJECTIVES)
    raise InvalidInput(
        f"{name} must be one of {known}, such as currency:6h or lag:log(1+x):1h; it is {text!r}"
    )


def _penalty(name: str, written: str, seconds: float) -> tuple[Penalty, float]:
    """Return a penalty of lags in seconds, and the factor by which it counts."""
    if written in {"1", "x"} or (found := re.fullmatch(r"x\^(\d+(\.\d+)?)", written)):
        exponent = {"1": 0.0, "x": 1.0}.get(written)
        if exponent is None and found:
            exponent = float(found[1])
        return power(exponent or 0.0), seconds ** -(exponent or 0.0)
    if written == "exp(-x)":
        return decay(1.0 / seconds), 1.0
    if written in {"log(1+x)", "1/(1+x)"}:
        return scaled(named(written), seconds), 1.0
    allowed = "1, x, x^2, log(1+x), 1/(1+x), exp(-x)"
    raise InvalidInput(f"{name} must have one of the penalties {allowed}; {written!r} is none")
