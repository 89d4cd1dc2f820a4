"""Worlds: elements that change, their weights, and the requests for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats, choice, generator, numbers, numbers_of_elements, scalar, whole
from unstale.draws import CHANGES, REQUESTS
from unstale.errors import InvalidInput
from unstale.operational_time import OperationalClock
from unstale.planning.problem import Laws, laws_of
from unstale.processes import Poisson, Process

from .events import Drawn, Events, EventSource, Nothing, RecordedEvents, RhythmEvents, by_element
from .noisy_hints import HintSource, NoisyHints

Alignment = Literal["aligned", "reverse", "shuffled"]


@dataclass(frozen=True, eq=False)
class World:
    """Elements that change by processes or as recorded, with weights, sizes and requests.

    ``rates`` says how they change: rates of Poisson changes, a process, or one process for each element.
    A poll costs ``sizes``, and ``change_sizes`` more if it finds a change. ``accesses`` is the number of
    requests per unit time, all elements together; who is asked for is drawn by the weights, which are the
    profile (Carney, Lee & Zdonik 2003, section 2). With ``told``, each poll also learns when the last change
    was, as Last-Modified says it; with ``hints``, changes give hints to policies that take them.

    >>> world = World([0.5, 1.0, 2.0], weights=[1.0, 1.0, 4.0], accesses=60.0)
    >>> len(world), world.profile.tolist()
    (3, [10.0, 10.0, 40.0])
    """

    rates: ArrayLike | Process | Sequence[Process]
    weights: ArrayLike | None = None
    sizes: ArrayLike | None = None
    change_sizes: ArrayLike | None = None
    accesses: float = 0.0
    history: Events | None = field(default=None, repr=False, kw_only=True)
    """Changes as they were recorded, in place of the processes."""
    requests: Events | None = field(default=None, repr=False, kw_only=True)
    """Requests as they were recorded, in place of ``accesses``."""
    end: float = field(default=np.inf, repr=False, kw_only=True)
    """End of the record."""
    told: bool = field(default=False, kw_only=True)
    """Whether polls learn when the last change was."""
    rhythm: OperationalClock | None = field(default=None, kw_only=True)
    """How fast changes come at what time of a day or a week; None: always the same."""
    hints: NoisyHints | None = field(default=None, kw_only=True)
    """How reliable hints of changes are; None: there are none."""

    def __post_init__(self) -> None:
        n, laws = laws_of(self.rates)
        if len(laws) == 1 and isinstance(laws[0][0], np.ndarray):
            laws = ((numbers("rates", laws[0][0], at_least=0).copy(), None),)
        object.__setattr__(self, "_laws", laws)
        object.__setattr__(self, "_n", n)
        for name in ("weights", "sizes", "change_sizes"):
            if (given := getattr(self, name)) is not None:
                column = (
                    numbers(name, given, above=0) if name == "sizes" else numbers(name, given, at_least=0)
                )
                if column.shape not in {(), (n,)}:
                    shape = f"it has shape {column.shape}"
                    raise InvalidInput(
                        f"{name} must be one number or one for each of the {n} elements; {shape}"
                    )
                object.__setattr__(self, name, np.broadcast_to(column, (n,)).copy())
        if not self.weight.sum() > 0:
            raise InvalidInput("weights must not all be 0, as then nothing matters")
        scalar("accesses", self.accesses, at_least=0)
        if not isinstance(self.hints, NoisyHints | None):
            raise InvalidInput(f"hints must be NoisyHints(recall=..., precision=...); it is {self.hints!r}")
        if self.rhythm is not None:
            _check_rhythm(self.rhythm, recorded=self.history is not None)
        for name in ("history", "requests"):
            if (events := getattr(self, name)) is not None and not (
                isinstance(events, Events) and events.offsets.shape == (n + 1,)
            ):
                made = "as World.recorded makes them"
                raise InvalidInput(f"{name} must be the Events of {n} elements, {made}; it is {events!r}")

    @classmethod
    def recorded(
        cls,
        elements: ArrayLike,
        times: ArrayLike,
        *,
        end: float | None = None,
        count: int | None = None,
        requests: tuple[ArrayLike, ArrayLike] | None = None,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        change_sizes: ArrayLike | None = None,
        accesses: float = 0.0,
        told: bool = False,
        hints: NoisyHints | None = None,
    ) -> Self:
        """Return the world of a record; its rates are changes over time.

        Parameters
        ----------
        elements, times
            The number of the element of each change, and its time, from 0 on.
        end
            Where the record ends: by default at its last change, which no copy can then miss.
        count
            The number of elements; by default one more than the largest number in ``elements``.
        requests
            Elements and times of requests, recorded likewise.
        weights, sizes, change_sizes, accesses, told, hints
            As in `World`.

        Examples
        --------
        >>> world = World.recorded([0, 1, 0], [1.0, 2.5, 3.0], end=10.0)
        >>> world.mean_rates.tolist()
        [0.2, 0.1]
        """
        if count is not None:
            whole("count", count, at_least=1)
        places, moments = _listed("elements", elements, "times", times, count)
        if not moments.size:
            raise InvalidInput("times must not be empty; a record has at least one change")
        n = int(places.max()) + 1 if count is None else count
        last = float(moments.max())
        until = scalar("end", last if end is None else end, above=0)
        if until < last:
            raise InvalidInput(f"end must not be before the last change, at {last:g}; end is {until:g}")
        history = by_element(n, places, moments)
        asked = None
        if requests is not None:
            try:
                whom, when = requests
            except (TypeError, ValueError):
                raise InvalidInput(
                    f"requests must be a pair: numbers of elements, and times; it is {requests!r}"
                ) from None
            asked = by_element(n, *_listed("requests[0]", whom, "requests[1]", when, n))
        return cls(
            np.diff(history.offsets) / until,
            weights=weights,
            sizes=sizes,
            change_sizes=change_sizes,
            accesses=accesses,
            history=history,
            requests=asked,
            end=until,
            told=told,
            hints=hints,
        )

    def __len__(self) -> int:
        return int(self._n)  # type: ignore[attr-defined]

    @property
    def laws(self) -> list[tuple[Process, np.ndarray[tuple[int], np.dtype[np.intp]] | None]]:
        """How elements change: laws, each with the places of its elements (None: all)."""
        found: Laws = self._laws  # type: ignore[attr-defined]
        return [(Poisson(law) if isinstance(law, np.ndarray) else law, places) for law, places in found]

    @cached_property
    def weight(self) -> Floats:
        """The weight of each element."""
        return np.ones(len(self)) if self.weights is None else np.asarray(self.weights)

    @cached_property
    def mean_rates(self) -> Floats:
        """Mean changes per unit time of each element."""
        rates = np.empty(len(self))
        for law, places in self.laws:
            rates[slice(None) if places is None else places] = law.rate
        return rates

    @property
    def profile(self) -> Floats:
        """Requests per unit time for each element."""
        return self.accesses * self.weight / self.weight.sum()

    def changes(self, seed: int) -> EventSource:
        """Return the changes; the same for the same seed."""
        if self.history is not None:
            return RecordedEvents(self.history)
        drawn = Drawn(len(self), self.laws, seed, CHANGES)
        return drawn if self.rhythm is None else RhythmEvents(drawn, self.rhythm)

    def asked(self, seed: int) -> EventSource:
        """Return the requests; the same for the same seed."""
        if self.requests is not None:
            return RecordedEvents(self.requests)
        if self.accesses == 0.0:
            return Nothing(len(self))
        return Drawn(len(self), [(Poisson(self.profile), None)], seed, REQUESTS)

    def hinted(self, seed: int) -> HintSource | None:
        """Return the hints, the same for the same seed; None if there are none."""
        return None if self.hints is None else HintSource(self, self.hints, seed)


def _check_rhythm(rhythm: object, *, recorded: bool) -> None:
    if recorded or not isinstance(rhythm, OperationalClock):
        raise InvalidInput(
            f"rhythm must be an OperationalClock, of changes that are not recorded; it is {rhythm!r}"
        )


def _listed(
    elements_name: str, elements: ArrayLike, times_name: str, times: ArrayLike, count: int | None
) -> tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Floats]:
    places, moments = np.asarray(elements), numbers(times_name, times, at_least=0)
    if places.shape != moments.shape or places.ndim != 1:
        shapes = f"their shapes are {places.shape} and {moments.shape}"
        raise InvalidInput(f"{elements_name} and {times_name} must be lists of equal length; {shapes}")
    below = 2**31 if count is None else count
    return numbers_of_elements(elements_name, places, moments.size, "times", below=below), moments


def zipf(count: int, skew: float) -> Floats:
    """Return the Zipf profile: element i is asked for in proportion to 1/i^skew, i = 1, 2, ...

    >>> zipf(3, 1.0).round(3).tolist()
    [0.545, 0.273, 0.182]
    """
    ranks = np.arange(1.0, whole("count", count, at_least=1) + 1.0)
    shares = ranks ** -scalar("skew", skew, at_least=0)
    return shares / shares.sum()


def align(
    profile: ArrayLike, rates: ArrayLike, alignment: Alignment, rng: np.random.Generator | None = None
) -> Floats:
    """Deal a profile out to elements, as Carney, Lee & Zdonik do (2003, section 3).

    Parameters
    ----------
    profile
        Weights, in any order.
    rates
        Changes per unit time of each element.
    alignment
        "aligned": the most wanted elements change most; "reverse": they change least; "shuffled": any do.
    rng
        The generator that shuffles.

    Examples
    --------
    >>> align([0.5, 0.3, 0.2], [1.0, 3.0, 2.0], "aligned").tolist()
    [0.2, 0.5, 0.3]
    """
    shares, changing = numbers("profile", profile, at_least=0), numbers("rates", rates, at_least=0)
    if shares.shape != changing.shape or shares.ndim != 1:
        shapes = f"their shapes are {shares.shape} and {changing.shape}"
        raise InvalidInput(f"profile and rates must be lists of equal length; {shapes}")
    if choice("alignment", alignment, ("aligned", "reverse", "shuffled")) == "shuffled":
        return generator("rng", rng).permutation(shares)  # type: ignore[arg-type]
    dealt = np.empty(shares.shape)
    falling = np.argsort(-changing, kind="stable")
    dealt[falling if alignment == "aligned" else falling[::-1]] = np.sort(shares)[::-1]
    return dealt
