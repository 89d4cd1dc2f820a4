"""The price when a budget can wait: it follows the level of the reserve, and its base follows the price.

With a reserve, polls are not made because there is budget, but because they are worth the price. The price is

    price(level) = base * exp(STIFFNESS * (SET_POINT - level))

where the level is the share of the reserve that is left, between 0 and 1. So a rush of polls that are worth
much draws on the reserve while the price rises little, and a lull fills it up while the price falls little.
The base moves toward the price, in the time of several reserves, so that in the long run the level comes back
to the set point, and as much is spent as the budget gives. In the terms of control, that is a proportional
and integral controller of the level; it does not swing, as the base takes at least four times as long as the
level does.

At its ends the level says nothing more. A reserve that is full is not lost: what is worth most is polled, as
far as the budget goes, whatever it is worth. One that is empty leaves what the budget gives. In both cases
what the last poll was worth is the price that the base follows; so a rush does not move it much.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

SET_POINT = 0.5
"""Share of the reserve that is kept on average: there is as much room for a lull as for a rush."""
STIFFNESS = 1.0
"""Logarithm of the factor between the prices of an empty reserve and of a full one."""
_FOLLOW_WITHIN_RESERVES = 6.0
"""Time in which the base moves toward the price, in reserves."""
_NEARLY_FULL_SHARE = 1.0 - 1e-9
"""Level at which polls still have a price."""


class ReservePrice:
    """The price at a level of the reserve."""

    def __init__(self, base: float = 0.0) -> None:
        self.base = base
        """The price at the set point; 0 as long as nothing is known."""
        self._time = -inf

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later."""
        return {"base": np.array(self.base), "base_time": np.array(self._time)}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions had no base."""
        self.base = float(state.get("base", 0.0))
        self._time = float(state.get("base_time", -inf))

    def at(self, level: float) -> float:
        """Return the price at a level; nothing if the reserve is full.

        >>> price = ReservePrice(base=2.0)
        >>> price.at(0.5), price.at(0.9) < 2.0 < price.at(0.1), price.at(1.0)
        (2.0, True, 0.0)
        """
        return float(self.along(np.array([level]))[0])

    def along(self, levels: Floats) -> Floats:
        """Return the prices at levels."""
        risen = self.base * np.exp(STIFFNESS * (SET_POINT - np.clip(levels, 0.0, 1.0)))
        return np.where(levels >= 1.0, 0.0, risen)

    def begin(self, price: float, level: float) -> None:
        """Take a price for the right one at a level, as nothing else is known."""
        self.base = price / _factor(level)

    def offered(
        self, values: Floats, left: float, reserve: float, rate: float
    ) -> tuple[NDArray[np.intp], float, int]:
        """Return which polls are worth the price, the price, and how many polls may be made, at most.

        Parameters
        ----------
        values
            What each poll is worth.
        left, reserve
            What is left in reserve, and what it may be, as time.
        rate
            Polls that the budget pays for per unit time.

        If the reserve is full, those that are worth most are made whatever they are worth, as many as it
        takes not to lose any.
        """
        floor = self.at(left / reserve)
        enough = int(np.count_nonzero(values >= self.at(_NEARLY_FULL_SHARE)))
        over = max(left - _NEARLY_FULL_SHARE * reserve, 0.0) * min(rate, 1e15)
        return np.flatnonzero(values >= floor), floor, enough + int(min(over, 1e15)) + 2

    def pays_for(self, worths: Floats, steps: Floats, left: float, reserve: float) -> NDArray[np.bool_]:
        """Tell which polls are worth the price that is reached when those before them are paid for.

        Parameters
        ----------
        worths
            What polls are worth; nan for those that are made at any price.
        steps
            The time in which the budget pays for each.
        left, reserve
            As for `offered`.
        """
        prices = self.along((left - np.cumsum(steps) + steps) / reserve)
        return np.isnan(worths) | (worths >= prices)

    def follow(self, paid: Floats, *, now: float, left: float, reserve: float, empty: bool) -> float:
        """Let the base follow, and return the price from now on.

        Parameters
        ----------
        paid
            What the polls were worth that were chosen.
        now, left, reserve
            The time, and the reserve after that, as for `offered`.
        empty
            Whether there would have been more polls, had there been more budget.
        """
        level = left / reserve
        elapsed = min(max(now - self._time, 0.0), reserve) if self._time > -inf else 0.0
        self._time, paid = now, paid[np.isfinite(paid)]
        way = _factor(level)
        if paid.size and self.base > 0 and (empty or level >= 1.0):
            way = max(float(paid.min()), 1e-300) / (self.base * _factor(level))
        self.base *= way ** -np.expm1(-elapsed / (_FOLLOW_WITHIN_RESERVES * reserve))
        return self.at(min(level, _NEARLY_FULL_SHARE))


def _factor(level: float) -> float:
    """Return the price at a level, as a multiple of the base."""
    return exp(STIFFNESS * (SET_POINT - min(max(level, 0.0), 1.0)))
