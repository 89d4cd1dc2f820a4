"""A schedule that learns: polls where they seem to be worth most, and sees whether they were.

It starts knowing nothing but the budget, and polls everything equally often. What polls saw goes to a
`Learner`, which says how each element changes as far as is known: a gamma law of its rate. The worth of a
poll, averaged over that law, does the rest. It makes slow elements wait, gives up those that change too fast
to be kept fresh, and as doubt keeps the worth growing with time, comes back to both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import kernels
from ..arguments import Floats, numbers, scalar, whole
from ..draws import PHASES, generator_of
from ..errors import InvalidInput
from ..estimation.learner import Learner
from ..objectives import Objective, objective_named
from ..polling import worth
from ..processes import UncertainPoisson
from .compiled_learning import gamma_worths
from .polls import Elements, Polls, later

__all__ = ["Learning"]

_MOST = 50
"""Polls of an element in a step."""
_PATIENCE = 50.0
"""Rounds after which an element is polled whatever that seems to be worth, for a fiftieth of the budget."""


class Learning:
    """Polls within a budget from the first moment on, and better the more it has seen.

    ``polls`` says what to poll until a moment, ``learn`` takes in what polls saw. ``classes`` and
    ``half_life`` are those of `Learner`. ``budget`` and ``weights`` may be set anew at any time, and count at
    once. ``steps`` is how many times polls are chosen in the time in which the budget pays for one of each
    element; fewer are less work, and what polls saw counts a little later.

    >>> learning = Learning(2, budget=1.0)
    >>> for day in range(1, 200):
    ...     polls = learning.polls(float(day))
    ...     learning.learn(polls.elements, np.full(len(polls), 2.0), polls.elements == 0)   # only 0 changes
    >>> law = learning.learner.law(since=0.0)
    >>> bool(law.rate[0] > 1.0), bool(law.rate[1] < 0.1)
    (True, True)
    """

    def __init__(
        self,
        n: int,
        budget: float,
        *,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        objective: str | Objective = "freshness",
        classes: ArrayLike | None = None,
        half_life: float | None = None,
        steps: float = 50.0,
        seed: int = 0,
        start: float = 0.0,
    ) -> None:
        whole("n", n, at_least=1)
        self._steps = scalar("steps", steps, above=0)
        self._now = self._chosen_until = scalar("start", start)
        self._times, self._elements, self._before = np.empty(0), np.empty(0, np.int64), np.empty(0)
        self._weights = _column("weights", weights, n)
        self._sizes = _column("sizes", sizes, n)
        self._objective = objective_named(objective)
        self._growth = _growth(self._objective)
        self._debt, self._price, self._budget = 0.0, 0.0, 0.0
        self.learner = Learner(n, round=1.0, classes=classes, half_life=half_life)
        self.budget = budget
        span = self._round if np.isfinite(self._round) else 1.0
        turns = generator_of(whole("seed", seed), PHASES).permutation(n)
        self._last = self._now - span * (turns + 0.5) / n
        self._look_again()

    def __len__(self) -> int:
        return self._last.size

    @property
    def now(self) -> float:
        """The moment up to which polls have been given."""
        return self._now

    @property
    def budget(self) -> float:
        """What all polls together may cost per unit time."""
        return self._budget

    @budget.setter
    def budget(self, value: float) -> None:
        budget = scalar("budget", value, at_least=0)
        total = float(self._sizes.sum())
        if budget > 0 and not 1e-100 < total / budget < 1e100:
            msg = f"budget must buy a poll of each in 1e-100 to 1e100 units of time; budget is {budget:g}"
            raise InvalidInput(msg)
        self._reconsider()
        self._budget = budget
        if np.isfinite(self._round) and not 0.5 < self._round / self.learner.round < 2.0:
            self.learner.rescale(self._round)

    @property
    def weights(self) -> Floats:
        """How much each element matters."""
        return self._weights.copy()

    @weights.setter
    def weights(self, value: ArrayLike) -> None:
        weights = _column("weights", value, len(self))
        self._reconsider()
        self._weights = weights
        self._look_again()

    def _reconsider(self) -> None:
        """Take back the polls that have been chosen but not yet given, as if the step ended now."""
        if self._elements.size:
            self._debt = self._budget * (float(self._times[0]) - self._now)
            self._last[self._elements[::-1]] = self._before[::-1]  # of several polls the first counts
            self._look[self._elements] = -np.inf
            self._times, self._elements, self._before = np.empty(0), np.empty(0, np.int64), np.empty(0)
        elif np.isfinite(self._chosen_until):
            self._debt += self._budget * (self._chosen_until - self._now)
        self._chosen_until = self._now

    @property
    def _round(self) -> float:
        """Time in which the budget pays for one poll of each element that is wanted."""
        total = float(self._sizes @ (self._weights > 0))
        return total / self._budget if self._budget > 0 and total > 0 else np.inf

    @property
    def step(self) -> float:
        """How far ahead it should be asked for polls: what they see counts from the next step on."""
        one = float(self._sizes.mean() / self._budget) if self._budget else np.inf
        return max(self._round / self._steps, one)

    def polls(self, end: float) -> Polls:
        """Return the polls from now on to just before ``end``, which is now afterwards.

        They are chosen a step at a time, whatever part of it is asked for.
        """
        end = later(self._now, end)
        while self._chosen_until < end:
            start = self._chosen_until
            self._choose(start, max(start + self.step, np.nextafter(start, np.inf)))
        self._now = end
        due = int(np.searchsorted(self._times, end))
        polls = Polls(self._times[:due], self._elements[:due])
        self._times, self._elements = self._times[due:], self._elements[due:]
        self._before = self._before[due:]
        return polls

    def _choose(self, start: float, end: float) -> None:
        """Choose the polls of a step."""
        self._chosen_until = end
        if end == np.inf:  # there is no budget
            return
        allowed = self._budget * (end - start) - self._debt
        elements = self._worthiest(end, allowed) if allowed > 0.0 else np.empty(0, np.int64)
        paid = np.concatenate([[0.0], np.cumsum(self._sizes[elements])])
        count = int(np.searchsorted(paid[:-1], allowed))  # a poll waits until those before it are paid
        elements, spent = elements[:count], float(paid[count])
        times = start + (self._debt + paid[:count]) / self._budget
        self._debt = max(spent - allowed, 0.0)
        times = np.clip(times, start, np.nextafter(end, start))
        self._before = np.concatenate([self._before, self._last[elements]])
        self._last[elements] = times  # of several polls of one element the last counts
        self._look[elements] = end
        self._times = np.concatenate([self._times, times])
        self._elements = np.concatenate([self._elements, elements])

    def _worthiest(self, end: float, allowed: float) -> Elements:
        """Return the polls before ``end`` that are worth most, in turn.

        Of m polls since the last one, equally far apart, each is worth what one is after that part of time.
        """
        places = np.flatnonzero(self._look <= end)
        if self._sizes[places].sum() < allowed:
            self._look_again()
            places = np.flatnonzero(self._look <= end)
        since = end - self._last[places]
        law, hope = self.learner.outlook(since, places)
        values = hope * self._worths(law, since, places)
        values[since > _PATIENCE * self._round] = np.inf
        polls, worths, several = np.arange(places.size), values, np.arange(places.size)
        for count in range(2, _MOST + 2):
            chosen = self._affordable(places[polls], worths, allowed)
            price = worths[chosen[-1]] if chosen.size else 0.0
            several = several[worths[-several.size :] >= price]
            again = hope[several] * self._worths(law.take(several), since[several] / count, places[several])
            if count > _MOST or not (again > price).any():
                break
            polls, worths = np.concatenate([polls, several]), np.concatenate([worths, again])
        self._wait(places, since, values, price)
        return _in_turn(places[polls[chosen]])

    def _wait(self, places: Elements, since: Floats, values: Floats, price: float) -> None:
        """Note when it is worth looking at elements again.

        At constant rates worth grows at most with a power of time, so it takes that long to reach the price.
        """
        if price == np.inf:
            return
        if price < 0.8 * self._price:
            self._look_again()
        else:
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                reach = np.nan_to_num(0.9 * (price / values) ** (1.0 / self._growth), nan=1.0)
            soon = 0.1 * float(self.learner.half_life.min())
            self._look[places] = self._chosen_until + np.clip((reach - 1.0) * since, 0.0, soon)
        if not 0.8 * self._price <= price <= self._price:
            self._price = price

    def _look_again(self) -> None:
        """Look at all elements that are wanted."""
        self._look = np.where(self._weights > 0, -np.inf, np.inf)

    def _worths(self, law: UncertainPoisson, since: Floats, places: Elements) -> Floats:
        """Return what polls are worth so long after the last ones, per cost."""
        unit = self._weights[places] / self._sizes[places]
        if self._objective.kernel != kernels.FRESHNESS:
            return unit * worth(self._objective, law, since)
        values = np.empty(since.size)
        gamma_worths(np.asarray(law.shape), 1.0 / np.asarray(law.scale), since, unit, values)
        return values

    def _affordable(self, polls: Elements, worths: Floats, allowed: float) -> Elements:
        """Return the places of the polls that are worth most, best first, until they cost what is allowed."""
        if not worths.size:
            return np.empty(0, np.int64)
        most = int(min(allowed / self._sizes.min(), worths.size - 1)) + 1
        best = np.argpartition(-worths, most - 1)[:most]
        best = best[np.lexsort((polls[best], -worths[best]))]
        paid = np.cumsum(self._sizes[polls[best]])
        return best[: int(np.searchsorted(paid, allowed)) + 1]

    def learn(self, elements: ArrayLike, elapsed: ArrayLike, changed: ArrayLike) -> None:
        """Take in what polls saw, in the order of time: how long after the last one, and whether it changed.

        Polls that failed are left out: they saw nothing.
        """
        self.learner.learn(elements, elapsed, changed)

    def add(
        self,
        count: int,
        *,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        classes: ArrayLike | None = None,
    ) -> None:
        """Add elements; they are soon polled for the first time."""
        whole("count", count, at_least=0)
        weight, size = _column("weights", weights, count), _column("sizes", sizes, count)
        self.learner.add(count, classes=classes)
        self._weights = np.concatenate([self._weights, weight])
        self._sizes = np.concatenate([self._sizes, size])
        waited = self._round if np.isfinite(self._round) else 1.0
        self._last = np.concatenate([self._last, np.full(count, self._now - waited)])
        self._look_again()

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is needed to go on later, as numbers and arrays; an objective is given again.

        >>> learning = Learning(3, budget=2.0)
        >>> _ = learning.polls(5.0)
        >>> again = Learning.resume(learning.state())
        >>> bool((again.polls(9.0).elements == learning.polls(9.0).elements).all())
        True
        """
        mine = {name: np.copy(getattr(self, f"_{name}")) for name in _STATE}
        return {**mine, **{f"learner_{name}": part for name, part in self.learner.state().items()}}

    @classmethod
    def resume(cls, state: Mapping[str, Any], *, objective: str | Objective = "freshness") -> Self:
        """Go on where `state` was taken, poll for poll."""
        known = state if hasattr(state, "__getitem__") and hasattr(state, "keys") else {}
        if missing := [name for name in _STATE if name not in known]:
            msg = f"state must be what Learning.state returned; it has no {missing[0]!r}"
            raise InvalidInput(msg)
        self = cls.__new__(cls)
        for name in _STATE:
            value = np.array(state[name])
            setattr(self, f"_{name}", value if value.ndim else value.item())
        mark = "learner_"
        self.learner = Learner.resume(
            {name.removeprefix(mark): state[name] for name in state if name.startswith(mark)}
        )
        n = len(self.learner)
        for name in ("weights", "sizes", "last", "look"):
            if (shape := np.shape(getattr(self, f"_{name}"))) != (n,):
                msg = f"state must be what Learning.state returned; {name!r} has shape {shape}, not {(n,)}"
                raise InvalidInput(msg)
        scalar("state['budget']", self._budget, at_least=0)
        self._objective = objective_named(objective)
        self._growth = _growth(self._objective)
        return self


_STATE = (
    "now", "chosen_until", "times", "elements", "before", "budget", "debt", "price", "weights", "sizes",
    "last", "look", "steps",
)  # fmt: skip


def _growth(objective: Objective) -> float:
    """Return the power of time with which the worth of a poll grows, at most: 3 is that of age."""
    return 2.0 if objective.kernel == kernels.FRESHNESS else 3.0


def _column(name: str, given: ArrayLike | None, n: int) -> Floats:
    """Return one number for each element."""
    given = 1.0 if given is None else given
    column = numbers(name, given, at_least=0) if name == "weights" else numbers(name, given, above=0)
    if column.shape not in {(), (n,)}:
        msg = f"{name} must be one number or one for each of the {n} elements; it has shape {column.shape}"
        raise InvalidInput(msg)
    return np.array(np.broadcast_to(column, n))


def _in_turn(polls: Elements) -> Elements:
    """Put polls in order, of which the best come first: as they are, but those of one element far apart."""
    _, which, counts = np.unique(polls, return_inverse=True, return_counts=True)
    order = np.argsort(which, kind="stable")
    turn = np.empty(polls.size)
    turn[order] = np.arange(polls.size) - np.repeat(np.cumsum(counts) - counts, counts) + 0.5
    several = counts[which] > 1
    wish = np.where(several, turn / counts[which], (np.arange(polls.size) + 0.5) / polls.size)
    return polls[np.argsort(wish, kind="stable")]
