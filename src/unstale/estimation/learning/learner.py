"""How elements change, learned while they are polled: rates, what is typical, how soon it is forgotten.

In the mirror this is step 8 of a poll.

Real changes come in bursts, and rates drift: what an element did long ago says less about what it does now
than what it did lately. So evidence fades. What polls saw of an element, joined to a prior that its class of
elements shares, is a gamma law of its rate; with each half-life that passes, the evidence counts half as
much, until the element is one like any other again.

What is typical of a class (shape and mean of the prior) and its half-life are learned from the polls
themselves. Each poll settles a bet on whether there was a change, at the odds that the law had given before
it. There are several half-lives; for each the prior follows, by recursive Fisher scoring, whatever would have
bet best on the polls of late, and the half-life that has lost least is the one in use (of those that lost
about as much, the longest). Elements that change
at constant rates choose a long one; where changes come in bursts, or rates drift, it is shorter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, as_floats, numbers, scalar, whole
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import flags
from unstale.estimation.rates.posterior import GammaPrior
from unstale.processes import UncertainPoisson

from .compiled.learner import hear, present
from .evidence_rows import (
    FORMER_HALF_LIVES,
    FORMER_ROWS,
    HALF_LIVES,
    LONGEST_ROUND,
    SHORTEST_ROUND,
    clocks_of,
    nearest_half_lives,
    packed_rows,
    rescale_rows,
    unpacked_rows,
)

_LEVEL_STAKE = 4.0
_LEVEL_LOSS_RATIO = 0.995
"""What going by the level must have lost less than going by time, in nats and over all that was lost, before
a class goes by its level."""
_PRIOR_MEMORY_ROUNDS, _BET_MEMORY_ROUNDS = 20.0, 500.0
"""Rounds in which what is known of priors, and of half-lives, fades to 1/e; at first it takes fewer. Bets are
remembered longer, since elements may be quiet for most of the time, and win and lose nothing then."""
_TIED_LOSS_RATIO = 1.02
"""Losses that are the same but for chance, over the least. Where one cause changes many elements at once, so
small a difference says little, and the longest half-life does least harm."""
_MOST_CLASSES = 100_000
"""More classes than anyone has."""
_SHORTEST_ELAPSED_ROUNDS, _LONGEST_ELAPSED_ROUNDS = 1e-12, 1e12
"""Parts of a round that are too short to say anything, and too long to be true."""
_STIFF, _PULL = 0.05, 0.005
"""How slowly priors move: as if there had been so much information, per element of the class, before any
poll. It takes a part of a round to outweigh that, since polls of one moment may all see the same cause. A
tenth of it says that shape and rate are about 1, and 1 per round: they are finite if polls say nothing."""
_QUIET_POLLS = 0.05
"""Polls of a round without a change that each element is taken to have had besides (Laplace's rule of
succession). Where nearly every poll sees a change, the likelihood of the mean rate is flat from some rate on:
what polls cannot tell is not learned, and does not run off. Where polls do see no change, that is nothing."""
_FIRST_LOG_RATE_DEVIATION = 1.5
"""Standard deviation of the logarithm of a class's mean rate before any poll: in nine cases of ten that is a
factor of twelve either way."""


class Learner:
    """Learns from polls how elements change.

    Parameters
    ----------
    n
        The number of elements.
    round
        About the time between two polls of an element.
    classes
        The class of each element, as a number from 0 on; one class has one prior and one half-life.
    half_life
        The half-life of evidence, the same for all elements; without it the learner finds it. With ``inf``
        nothing is forgotten, as if elements changed at constant rates.
    prior
        A prior, such as `GammaPrior.learned` from older polls. The learner then learns no other.

    Examples
    --------
    >>> learner = Learner(2, round=1.0)
    >>> for _ in range(50):
    ...     learner.learn([0, 1], [1.0, 1.0], [True, False])
    >>> law = learner.law(since=0.0)
    >>> bool(law.rate[0] > 1.0), bool(law.rate[1] < 0.1)
    (True, True)
    """

    def __init__(
        self,
        n: int,
        *,
        round: float,  # noqa: A002
        classes: ArrayLike | None = None,
        half_life: float | None = None,
        prior: GammaPrior | None = None,
    ) -> None:
        whole("n", n, at_least=0)
        if not (prior is None or isinstance(prior, GammaPrior)):
            raise InvalidInput(f"prior must be a GammaPrior; prior is {prior!r}")
        self._round = scalar("round", round, at_least=SHORTEST_ROUND, at_most=LONGEST_ROUND)
        self._half_lives = self._round * HALF_LIVES
        if half_life is not None:
            self._half_lives = np.array([scalar("half_life", half_life, above=0, infinite=True)])
        self._clocks = clocks_of(self._half_lives)
        self._classes = _classes(classes, n)
        groups = int(self._classes.max(initial=0)) + 1
        start = self._opinion if prior is None else np.log([prior.shape, prior.rate])
        self._priors = np.tile(start, (groups, self._half_lives.size, 1))
        self._surprise = np.zeros((groups, self._half_lives.size))
        self._information = np.zeros((groups, self._half_lives.size, 2, 2))
        self._evidence = np.zeros((n, self._half_lives.size, 5), np.float32)
        self._parents = np.full(groups, -1, np.int64)
        self._heard = 0.0
        self._fixed = prior is not None
        self._may_follow = True
        self._unsaid_round = self._round
        """Under which rows of evidence were written that do not say it."""
        self._count()
        self._judge()

    def __len__(self) -> int:
        return int(self._evidence.shape[0])

    @property
    def round(self) -> float:
        """About the time between two polls of an element."""
        return self._round

    def classes_of(self, elements: NDArray[np.integer]) -> NDArray[np.intp]:
        """Return the numbers of the classes of elements."""
        known = self._classes.size > 0
        return self._classes[elements].astype(np.intp) if known else np.zeros(elements.size, np.intp)

    @property
    def has_classes(self) -> bool:
        """Whether elements belong to several classes, or did."""
        return bool(self._classes.size)

    @property
    def class_sizes(self) -> Floats:
        """How many elements each class has."""
        return self._sizes

    def _count(self) -> None:
        """Count how many elements each class has."""
        self._sizes = np.bincount(self._classes, minlength=self._surprise.shape[0]).astype(float)
        if not self._classes.size:
            self._sizes[0] = len(self)

    @property
    def _opinion(self) -> Floats:
        """Logarithms of the shape and the mean rate that are expected before any poll."""
        return np.array([0.0, -np.log(self._round)])

    @property
    def _opinions(self) -> Floats:
        """The same by class: one that was split off another is expected to be like that."""
        if (self._parents < 0).all():
            return self._opinion
        found = np.broadcast_to(self._opinion, self._priors.shape).copy()
        split = np.flatnonzero(self._parents >= 0)
        found[split] = self._priors[self._parents[split]]
        return found

    @property
    def heard(self) -> float:
        """How many polls of each element it has heard of, on average."""
        return self._heard

    @property
    def may_follow(self) -> bool:
        """Whether classes may go by their levels; without, shoot-outs show what levels are good for."""
        return self._may_follow

    @may_follow.setter
    def may_follow(self, may: bool) -> None:
        self._may_follow = may
        self._judge()

    def _judge(self) -> None:
        """Find the half-life that has lost least of each class, and whether it goes by the class's level."""
        self._chosen, least = self._best_by(0)
        self._chosen_by_level = self._chosen
        self._by_level = np.zeros(self.class_count, np.bool_)
        if self.can_follow:
            self._chosen_by_level, least_by_level = self._best_by(1)
            if self._may_follow:
                self._by_level = least_by_level < np.minimum(least - _LEVEL_STAKE, _LEVEL_LOSS_RATIO * least)
            self._chosen = np.where(self.by_level, self._chosen_by_level, self._chosen)

    @property
    def by_level(self) -> NDArray[np.bool_]:
        """Of each class, whether its operational time is that of its level, because that has bet better."""
        return self._by_level

    def _best_by(self, clock: int) -> tuple[NDArray[np.intp], Floats]:
        """Return the best half-life of each class, of those that go by a clock, and what it has lost.

        Of those that are about as good it is the longest.
        """
        which = np.flatnonzero(self._clocks == clock)
        lost = self._surprise[:, which]
        least = lost.min(axis=-1)
        tied = lost[:, ::-1] <= _TIED_LOSS_RATIO * least[:, None]
        return which[which.size - 1 - np.argmax(tied, axis=-1)], least

    @property
    def can_follow(self) -> bool:
        """Whether there are half-lives that go by the levels of classes."""
        return bool(self._clocks.any())

    @property
    def class_count(self) -> int:
        """How many classes there are."""
        return int(self._surprise.shape[0])

    @property
    def half_life(self) -> Floats:
        """In what time evidence counts half as much, for each class."""
        return np.take(self._half_lives, self._chosen)

    @property
    def prior(self) -> UncertainPoisson:
        """The prior that each class has learned."""
        shape, rate = np.exp(self._priors[np.arange(self._chosen.size), self._chosen].T)
        return UncertainPoisson(shape, rate / shape)

    def prior_slopes(self, since: Floats, elements: NDArray[np.integer]) -> Floats:
        """Return by how much freshness falls, over itself, if the class of an element is e times as fast.

        The more is known of an element itself, the less that matters.
        """
        shape, time, _ = self.gammas(since, elements)
        prior_time = (1.0 / np.asarray(self.prior.scale))[self.classes_of(elements)]
        return np.asarray(shape * since / (time + since) * np.minimum(prior_time / time, 1.0))

    def stirred(self, elements: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Tell of which elements the last poll saw a change, and was not told when that was."""
        chosen = self._chosen[0] if not self._classes.size else self._chosen[self._classes[elements]]
        return np.asarray(self._evidence[elements, chosen, 4] > 0)

    @property
    def prior_variances(self) -> Floats:
        """Of each class, the variance of the logarithm of its mean rate: how far its prior may be off.

        Polls move a prior only so far, as it is stiff, and the rest of what was not known is still unknown.
        """
        if self._fixed:
            return np.zeros(self.class_count)
        told = self._information[np.arange(self.class_count), self._chosen, 1, 1]
        stiff = _STIFF * np.maximum(self._sizes, 1.0)
        return np.asarray((stiff**2 * _FIRST_LOG_RATE_DEVIATION**2 + told) / (stiff + told) ** 2)

    @property
    def evidence(self) -> NDArray[np.float32]:
        """What is kept of each element: a row of numbers for each half-life, to be saved and written back."""
        return self._evidence

    def rows(self, elements: NDArray[np.integer]) -> list[bytes]:
        """Return the `evidence` of elements as bytes, each with the round under which it is written.

        The last byte says by which half-lives: they have changed since earlier versions.
        """
        return packed_rows(self._evidence[elements], self._round)

    def write(self, elements: NDArray[np.integer], rows: Sequence[bytes]) -> None:
        """Write `rows` back that were saved, also under another round.

        Those without a round are of older versions, which wrote all anew at each `rescale`; their numbers may
        have eight bytes. One that is empty, or of a strange length, says nothing.
        """
        self._evidence[elements] = 0.0
        for which, found, rounds in unpacked_rows(rows, self._evidence.shape[1:], self._unsaid_round):
            rescale_rows(found, rounds, self._round, self._half_lives)
            self._evidence[elements[which]] = found

    @property
    def shared(self) -> dict[str, Any]:
        """What has been learned of all elements together: the `state` but for the evidence and classes."""
        shared = self._parts(*(name for name in _STATE if name not in {"evidence", "classes"}))
        return {**shared, "classes": np.empty(0, np.int32)}

    def learn(
        self,
        elements: ArrayLike,
        elapsed: ArrayLike,
        changed: ArrayLike,
        *,
        modified: ArrayLike | None = None,
        by_level: tuple[Floats, Floats | None] | None = None,
    ) -> None:
        """Take in what polls saw, in the order of time.

        Parameters
        ----------
        elements
            The number of the element of each poll.
        elapsed
            The time since the poll before of that element.
        changed
            Whether the poll saw a change.
        modified
            How long before the poll the last change was, where that is known; nan elsewhere.
        by_level
            The same two by the levels of classes (`LevelLearner`); by default classes have none.
        """
        places, times, seen = self.checked(elements, elapsed, changed)
        ages = _ages(modified, times)
        if not places.size:
            return
        lived, lived_ages = (times, ages) if by_level is None else by_level
        both = np.stack([times, lived])
        both_ages = np.stack([ages, ages if lived_ages is None else lived_ages])
        self._heard += places.size / len(self)
        fade, fade_bets = (
            np.exp(-places.size / len(self) / min(most, 1.0 + 0.5 * self._heard))
            for most in (_PRIOR_MEMORY_ROUNDS, _BET_MEMORY_ROUNDS)
        )
        slope = np.zeros(self._priors.shape)
        self._surprise *= fade_bets
        self._information *= fade
        hear(
            places, both, seen, both_ages, _SHORTEST_ELAPSED_ROUNDS * self._round, self._classes,
            self._half_lives, self._clocks, self._priors, self._evidence, self._surprise, slope,
            self._information,
        )  # fmt: skip
        self._judge()
        if self._fixed:
            return
        size = np.maximum(self._sizes, 1.0)[:, None, None]
        slope -= (1.0 - fade) * _PULL * size * (self._priors - self._opinions)
        mean = np.exp(self._priors[..., 1]) * self._round
        silence = mean / (1.0 + mean / np.exp(self._priors[..., 0]))  # how it depends on log(mean)
        slope[..., 1] -= (1.0 - fade) * _QUIET_POLLS * size[..., 0] * silence
        stiff = self._information + _STIFF * size[..., None] * np.eye(2)
        move = np.linalg.solve(stiff, slope[..., None])[..., 0]
        self._priors += np.clip(move, -1.0, 1.0)

    def begin(self, elements: NDArray[np.integer], ages: Floats) -> None:
        """Take in how long ago elements had changed last when they were first looked at.

        At constant rates the time since the last change has the density rate exp(-rate age): that is one
        change, and quiet since then, of which so much counts as has not faded. An element may be there
        several times, for its last changes: n of them have the density rate^n exp(-rate age) of the first.
        """
        decay = np.log(2.0) / self._half_lives
        np.add.at(self._evidence[:, :, 0], elements, np.exp(-ages[:, None] * decay))
        places, which = np.unique(elements, return_inverse=True)
        span = np.zeros((places.size, 1))
        np.maximum.at(span[:, 0], which, ages)
        self._evidence[places, :, 3] += np.where(
            decay > 0, -np.expm1(-span * decay) / np.where(decay > 0, decay, 1.0), span
        )

    def credit(self, elements: NDArray[np.integer], changes: Floats, others: Floats, back: Floats) -> None:
        """Take in parts of changes that are known otherwise than by polls, such as by hints.

        Parameters
        ----------
        elements
            Whose they are.
        changes
            Changes to be counted besides those that polls saw; less than 0 if those were not sure.
        others, back
            Polls, or parts of them, that saw a change, and how far they had looked back: by time, and by the
            levels of classes.
        """
        for k, clock in enumerate(self._clocks.tolist()):
            for column, more in ((0, changes), (1, others), (2, others * back[clock])):
                np.add.at(self._evidence[:, k, column], elements, more.astype(np.float32))
            self._evidence[elements, k, 0] = np.maximum(self._evidence[elements, k, 0], 0.0)

    def checked(
        self, elements: ArrayLike, elapsed: ArrayLike, changed: ArrayLike
    ) -> tuple[NDArray[np.intp], Floats, NDArray[np.bool_]]:
        """Return the arguments of `learn` as columns, checked."""
        places, times = np.asarray(elements), numbers("elapsed", elapsed, at_least=0)
        if places.shape != times.shape or places.ndim != 1:
            shapes = f"their shapes are {places.shape} and {times.shape}"
            raise InvalidInput(f"elements and elapsed must be lists of equal length; {shapes}")
        seen = flags("changed", changed, places.size)
        if (far := times > _LONGEST_ELAPSED_ROUNDS * self._round).any():
            longest = f"there is {times[np.argmax(far)]:g}"
            raise InvalidInput(
                f"elapsed must be at most {_LONGEST_ELAPSED_ROUNDS:g} rounds of {self._round:g}; {longest}"
            )
        if places.size and (places.dtype.kind not in "iu" or places.min() < 0 or places.max() >= len(self)):
            raise InvalidInput(
                f"elements must be whole numbers from 0 to {len(self) - 1}; they are {elements!r}"
            )
        return places.astype(np.intp), times, seen

    def law(self, since: ArrayLike, elements: NDArray[np.integer] | None = None) -> UncertainPoisson:
        """Return how all elements, or these, seem to change, so long after the last poll of each."""
        return self.outlook(since, elements)[0]

    def outlook(
        self, since: ArrayLike, elements: NDArray[np.integer] | None = None
    ) -> tuple[UncertainPoisson, Floats]:
        """Return the law, and the probability that there is hope: that changes do not come all the time."""
        places = np.arange(len(self)) if elements is None else elements
        ages = np.ascontiguousarray(np.broadcast_to(numbers("since", since, at_least=0), places.size))
        shape, time, hope = self.gammas(ages, places)
        return UncertainPoisson(shape, 1.0 / time), hope

    def gammas(
        self, since: Floats, elements: NDArray[np.integer], *, by_level: bool = False
    ) -> tuple[Floats, Floats, Floats]:
        """Return shapes and times (1/scale) of the laws, and hope, so long after the last poll of each.

        Times are those of the clock that each class goes by; with ``by_level`` of its level in any case.
        """
        shape, time, hope = np.empty((3, elements.size))
        if not elements.size:
            return shape, time, hope
        since = since.view()
        since.flags.writeable = False  # that of some callers is, and compiled code takes one kind
        chosen = self._chosen_by_level if by_level else self._chosen
        present(
            elements, since, self._classes, chosen, self._half_lives, self._priors, self._evidence,
            shape, time, hope,
        )  # fmt: skip
        return shape, time, hope

    def seen(self, elements: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return about how many changes were seen of elements, and in which time: 0 of those without polls.

        A gamma law is its prior, and so many changes in so much time.
        """
        shape, time, _ = self.gammas(np.zeros(elements.size), elements)
        classes, prior = self.classes_of(elements), self.prior
        changes = np.maximum(shape - np.asarray(prior.shape)[classes], 0.0)
        times = np.maximum(time - 1.0 / np.asarray(prior.scale)[classes], 0.0)
        said = self._evidence[elements, self._chosen[classes], :4].any(axis=1)
        return np.where(said, changes, 0.0), np.where(said, times, 0.0)

    def split(self, one: int, parent: int, *, share: float = 0.0) -> None:
        """Let a class begin with all that is known of another; its elements are told by `assign`.

        Parameters
        ----------
        one
            Its number: a new one, or that of a class that has no elements any more.
        parent
            The class that it is like.
        share
            Which share of that class's elements it takes, and of what these have told of the prior.
        """
        if (more := one + 1 - self.class_count) > 0:
            for name in ("priors", "surprise", "information", "parents"):
                former = getattr(self, f"_{name}")
                setattr(self, f"_{name}", np.concatenate([former, np.repeat(former[:1], more, axis=0)]))
        self._parents[one] = parent
        self._priors[one], self._surprise[one] = self._priors[parent], self._surprise[parent]
        self._information[one] = share * self._information[parent]
        self._information[parent] *= 1.0 - share
        self._count()
        self._judge()

    def set_prior(self, one: int, prior: Floats) -> None:
        """Let a class have another prior, by logarithms of shape and mean rate."""
        if not self._fixed:
            self._priors[one] += prior - self._priors[one, self._chosen[one]]

    def assign(self, elements: NDArray[np.integer], classes: NDArray[np.integer] | int) -> None:
        """Let elements belong to classes that are there."""
        if not self._classes.size:
            if not np.any(classes):
                return
            self._classes = np.zeros(len(self), np.int32)
        self._classes[elements] = classes
        self._count()

    def reorder(self, order: NDArray[np.integer]) -> None:
        """Let elements have other numbers: the first is the one that was ``order[0]``, and so on."""
        self._evidence[:] = self._evidence[order]
        if self._classes.size:
            self._classes = self._classes[order]

    def rescale(self, round: float) -> None:  # noqa: A002
        """Set another time between polls from now on; half-lives that are not given are multiples of it."""
        span = scalar("round", round, at_least=SHORTEST_ROUND, at_most=LONGEST_ROUND)
        if self._half_lives.size > 1:
            lives = span * HALF_LIVES
            nearest = nearest_half_lives(lives, self._half_lives, self._clocks)
            self._half_lives = lives
            self._evidence = self._evidence[:, nearest].copy()
            for name in ("priors", "surprise", "information"):
                setattr(self, f"_{name}", getattr(self, f"_{name}")[:, nearest].copy())
            self._judge()
        self._round = span
        if self._heard == 0.0 and not self._fixed:
            self._priors[:] = self._opinion

    def add(self, count: int, *, classes: ArrayLike | None = None) -> None:
        """Add elements of which nothing is known yet but their classes, which must be known ones."""
        whole("count", count, at_least=0)
        new = _classes(classes, count)
        if (self._classes.size == 0) != (new.size == 0) and len(self) and count:
            raise InvalidInput(
                f"classes must be given for new elements if and only if others have them; it is {classes!r}"
            )
        if new.max(initial=0) >= self._chosen.size:
            raise InvalidInput(
                f"classes must be below {self._chosen.size}, the number of classes; there is {new.max()}"
            )
        self._classes = np.concatenate([self._classes, new])
        blank = np.zeros((count, *self._evidence.shape[1:]), np.float32)
        self._evidence = np.concatenate([self._evidence, blank]) if len(self) else blank
        self._count()

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that has been learned, as numbers and arrays.

        >>> learner = Learner(1, round=1.0)
        >>> learner.learn([0], [2.0], [True])
        >>> again = Learner.resume(learner.state())
        >>> bool(again.law(0.0).rate == learner.law(0.0).rate)
        True
        """
        return self._parts(*_STATE)

    def _parts(self, *names: str) -> dict[str, Any]:
        own = {"fixed": self._fixed, "unsaid_round": self._unsaid_round, "parents": self._parents.copy()}
        return {**own, **{name: np.copy(getattr(self, f"_{name}")) for name in names}}

    def _take_former(self) -> None:
        """Take in what an earlier version learned, whose half-lives were others."""
        lives = self._half_lives
        if lives.size == FORMER_HALF_LIVES.size and (np.diff(lives) > 0).all():
            self._half_lives = lives[FORMER_ROWS]
            for name in ("priors", "surprise", "information", "evidence"):
                if (found := getattr(self, f"_{name}")).ndim > 1 and found.shape[1] == lives.size:
                    setattr(self, f"_{name}", found[:, FORMER_ROWS].copy())

    @classmethod
    def resume(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state` was taken."""
        if missing := [name for name in _STATE if name not in state]:
            raise InvalidInput(f"state must be what Learner.state returned; it has no {missing[0]!r}")
        self = cls.__new__(cls)
        for name in _STATE:
            setattr(self, f"_{name}", np.array(state[name]))
        self._take_former()
        self._clocks = clocks_of(self._half_lives)
        self._round, self._heard = float(self._round), float(self._heard)
        self._evidence = self._evidence.astype(np.float32, copy=False)
        self._classes = self._classes.astype(np.int32, copy=False)
        self._fixed, self._may_follow = bool(state.get("fixed", False)), True
        self._unsaid_round = float(state.get("unsaid_round", self._round))
        n, lives = len(self), self._half_lives.size
        groups = max(int(self._classes.max(initial=0)) + 1, self._priors.shape[0] if self._priors.ndim else 0)
        self._parents = np.array(state.get("parents", np.full(groups, -1)), np.int64)
        shapes = {
            "evidence": (n, lives, 5),
            "priors": (groups, lives, 2),
            "surprise": (groups, lives),
            "information": (groups, lives, 2, 2),
            "classes": (n if self._classes.size else 0,),
            "parents": (groups,),
        }
        for name, shape in shapes.items():
            found = getattr(self, f"_{name}")
            if found.shape != shape or not np.isfinite(found).all():
                wrong = f"{name!r} has shape {found.shape}, not {shape}, or is not finite"
                raise InvalidInput(f"state must be what Learner.state returned; {wrong}")
        self._count()
        self._judge()
        return self


_STATE = ("round", "half_lives", "classes", "priors", "surprise", "information", "evidence", "heard")


def _ages(modified: ArrayLike | None, times: Floats) -> Floats:
    """Return how long before each poll the last change was; nothing at all if that is known of none."""
    if modified is None:
        return np.empty(0)
    ages = as_floats("modified", modified)
    if ages.shape != times.shape:
        raise InvalidInput(
            f"modified must be one for each of the {times.size} polls; it has shape {ages.shape}"
        )
    numbers("modified", np.where(np.isnan(ages), 0.0, ages), at_least=0)
    return ages


def _classes(classes: ArrayLike | None, n: int) -> NDArray[np.int32]:
    """Return the class of each element; nothing at all if there is but one."""
    if classes is None:
        return np.empty(0, np.int32)
    found = np.asarray(classes)
    whole_numbers = found.shape == (n,) and found.dtype.kind in "iu"
    if not whole_numbers or not 0 <= found.min(initial=0) <= found.max(initial=0) < _MOST_CLASSES:
        raise InvalidInput(
            f"classes must be whole numbers from 0 to {_MOST_CLASSES}, one for each of {n}; it is {classes!r}"
        )
    return found.astype(np.int32)
