"""Learn, poll after poll, how much the elements of a class change together: the level of the class.

Elements of a class do not change independently of each other. A project becomes busy or falls asleep, a site
is moved to another engine, one commit touches a thousand pages. The level of a class is the factor by which
all its elements change more, or less, than each is known to. Its integral is an operational time, in which
changes are as they would be at level 1; what the level explains does not count for the elements themselves.

Time is cut into cells, `CELLS_PER_ROUND` to a round. A change lies somewhere between two polls, and is shared
among the cells in between as far as is known (an EM algorithm whose sums are those of the last four rounds).
The level of a cell is a trend times a shock of the cell's own. The trend's logarithm wanders, and returns
slowly to 0; how much it wanders, and how large shocks are, is a matter of bets: several models predict what
each poll sees, and a class follows the one that has lost least. Whether it goes by its level at all, or by
time as it is, is the `Learner`'s bet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.errors import InvalidInput

from .compiled.levels import CELLS, NEVER, RETURN, elapsed_by, hear_levels, let_go, set_cells
from .rhythm_learner import PollsOfElements

CELLS_PER_ROUND = 16.0
_WANDERS = np.array([0.05, 0.5, 0.05, 0.5, 0.05])
"""Variance by which the logarithm of the trend wanders in a round, by model."""
_SHOCKS = np.array([0.0, 0.0, 1.0, 4.0, 4.0])
"""Relative variance of the level of a cell about the trend, by model."""
_FIRST_SPREAD = 0.05
"""Relative variance of the trend before any poll."""
_BET_MEMORY_ROUNDS = 50.0
"""Rounds in which bets fade to 1/e."""
_STATE = ("first", "counts", "exposure", "before", "before_spread", "surprise")


class LevelLearner:
    """The levels of classes, as far as polls have told.

    Parameters
    ----------
    round
        About the time between two polls of an element.
    classes
        How many classes there are; more may come.

    Examples
    --------
    >>> learner = LevelLearner(round=1.0)
    >>> learner.elapsed(np.array([0]), np.array([2.0]), np.array([5.0])).tolist()   # as it is
    [3.0]
    """

    def __init__(self, *, round: float, classes: int = 1) -> None:  # noqa: A002
        self._width = scalar("round", round, above=0) / CELLS_PER_ROUND
        models = _WANDERS.size
        self._first = np.zeros(0, np.int64)
        self._counts, self._exposure = np.zeros((2, 0, models, CELLS))
        self._before, self._after = np.ones((2, 0, models))
        self._before_spread, self._after_spread = np.full((2, 0, models), _FIRST_SPREAD)
        self._levels, self._spreads = np.ones((0, models, CELLS)), np.zeros((0, models, CELLS))
        self._passed = np.zeros((0, models, CELLS + 1))
        self._surprise = np.zeros((0, models))
        self.model = np.zeros(0, np.int64)
        """Of each class: the model that it follows, from 1 on; 0 if it goes by time as it is."""
        self.know(whole("classes", classes, at_least=1))

    @property
    def any(self) -> bool:
        """Whether any class goes by its level."""
        return bool(self.model.any())

    def know(self, classes: int) -> None:
        """Make room for so many classes."""
        more = classes - self.model.size
        if more <= 0:
            return
        models = _WANDERS.size
        for name, blank in (
            ("_first", np.full(more, NEVER, np.int64)),
            ("_counts", np.zeros((more, models, CELLS))),
            ("_exposure", np.zeros((more, models, CELLS))),
            ("_before", np.ones((more, models))),
            ("_after", np.ones((more, models))),
            ("_before_spread", np.full((more, models), _FIRST_SPREAD)),
            ("_after_spread", np.full((more, models), _FIRST_SPREAD)),
            ("_levels", np.ones((more, models, CELLS))),
            ("_spreads", np.zeros((more, models, CELLS))),
            ("_passed", np.tile(np.arange(CELLS + 1) * self._width, (more, models, 1))),
            ("_surprise", np.zeros((more, models))),
            ("model", np.zeros(more, np.int64)),
        ):
            setattr(self, name, np.concatenate([getattr(self, name), blank]))

    def split(self, one: int, parent: int) -> None:
        """Let a class begin with all that is known of another."""
        self.know(max(one, parent) + 1)
        for name in (*_STATE, "after", "after_spread", "levels", "spreads", "passed"):
            getattr(self, f"_{name}")[one] = getattr(self, f"_{name}")[parent]
        self.model[one] = self.model[parent]

    def follow(self, by_level: NDArray[np.bool_]) -> None:
        """Let classes go by their levels, those that are said to, and by the best model of each."""
        self.know(by_level.size)
        self.model = np.where(by_level, np.argmin(self._surprise[: by_level.size], axis=1) + 1, 0)

    def elapsed(
        self, classes: NDArray[np.integer], start: Floats, end: Floats, *, in_any_case: bool = False
    ) -> Floats:
        """Return the operational time of elements of classes between moments.

        What has not come yet has the level of the trend. Classes that go by time have that, unless they are
        asked for ``in_any_case``.
        """
        model = np.argmin(self._surprise, axis=1) + 1 if in_any_case else self.model
        found = np.empty(start.size)
        elapsed_by(
            classes, start, end, model, self._first, self._width, self._levels, self._passed, self._before,
            self._after, found,
        )  # fmt: skip
        return found

    @property
    def now(self) -> Floats:
        """The trend of each class as it is now; 1 for those that go by time."""
        rows = np.arange(self.model.size)
        return np.where(self.model > 0, self._after[rows, np.maximum(self.model - 1, 0)], 1.0)

    def learn(self, polls: PollsOfElements) -> None:
        """Take in what polls saw, in about the order of time; laws are those by level."""
        if not polls.time.size:
            return
        self.know(int(polls.classes.max()) + 1)
        for one in np.unique(polls.classes).tolist():
            which = np.flatnonzero(polls.classes == one) if self.model.size > 1 else slice(None)
            self._go_on(one, float(polls.time[which].max()))
            hear_levels(
                self._first[one], self._width, polls.last[which], polls.time[which], polls.shape[which],
                polls.gamma_time[which], polls.hope[which], polls.changed[which],
                polls.ages[which] if polls.ages.size else polls.ages, self._levels[one], self._passed[one],
                self._before[one], self._after[one], self._counts[one], self._exposure[one],
                self._surprise[one],
            )  # fmt: skip
            self._set(one)

    def _go_on(self, one: int, now: float) -> None:
        """Let the cells of a class end with the present one."""
        first = int(np.floor(now / self._width)) + 1 - CELLS
        if self._first[one] == NEVER:
            self._first[one] = first
        gone = min(first - int(self._first[one]), 1 << 30)
        if gone <= 0:
            return
        wander = _WANDERS / CELLS_PER_ROUND
        let_go(
            gone, wander, _SHOCKS, self._counts[one], self._exposure[one], self._before[one],
            self._before_spread[one],
        )  # fmt: skip
        self._first[one] = first
        self._surprise[one] *= np.exp(-gone / (CELLS_PER_ROUND * _BET_MEMORY_ROUNDS))
        self._set(one)

    def _set(self, one: int) -> None:
        """Set the levels of a class; one that nothing was heard of needs no compiled code: see `Worker`."""
        if self._first[one] == NEVER and (self._before[one] == 1.0).all():
            self._levels[one], self._after[one] = 1.0, 1.0
            self._passed[one] = np.arange(CELLS + 1) * self._width
            settled = _WANDERS / CELLS_PER_ROUND / (1.0 - RETURN**2)
            self._after_spread[one] = settled + RETURN ** (2 * CELLS) * (self._before_spread[one] - settled)
            return
        set_cells(
            self._width, _WANDERS / CELLS_PER_ROUND, _SHOCKS, self._counts[one], self._exposure[one],
            self._before[one], self._before_spread[one], self._levels[one], self._spreads[one],
            self._passed[one], self._after[one], self._after_spread[one],
        )  # fmt: skip

    def rescale(self, round: float) -> None:  # noqa: A002
        """Set another time between polls from now on: of levels, only trends are kept."""
        self._width = scalar("round", round, above=0) / CELLS_PER_ROUND
        self._before[:], self._before_spread[:] = self._after, self._after_spread
        self._first[:] = NEVER
        self._counts[:] = self._exposure[:] = 0.0
        for one in range(self.model.size):
            self._set(one)

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that has been learned, as arrays.

        >>> learner = LevelLearner(round=16.0)
        >>> LevelLearner.resume(learner.state()).state()["width"].item()
        1.0
        """
        kept = {name: getattr(self, f"_{name}").copy() for name in _STATE}
        return {"width": np.array(self._width), "model": self.model.copy(), **kept}

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if missing := [name for name in ("width", "model", *_STATE) if name not in state]:
            raise InvalidInput(f"state must be what LevelLearner.state returned; it has no {missing[0]!r}")
        classes = np.asarray(state["model"]).size
        self = cls(round=float(state["width"]) * CELLS_PER_ROUND, classes=max(classes, 1))
        for name in _STATE:
            blank = getattr(self, f"_{name}")
            found = np.array(state[name], blank.dtype)
            if found.shape != blank.shape:
                shapes = f"{name!r} has shape {found.shape}, not {blank.shape}"
                raise InvalidInput(f"state must be what LevelLearner.state returned; {shapes}")
            setattr(self, f"_{name}", found)
        self.model = np.array(state["model"], np.int64)
        for one in range(classes):
            self._set(one)
        return self
