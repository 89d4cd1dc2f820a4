"""A schedule that learns: polls where they seem to be worth most, and sees whether they were.

It is the policy of the mirror with a plain face: numbered elements, a budget, and a step at a time. It starts
knowing nothing but the budget, and polls everything equally often. What polls saw goes to a `Learner`, which
says how each element changes as far as is known: a gamma law of its rate. The worth of a poll, averaged over
that law, does the rest. It makes slow elements wait, gives up those that change too fast to be kept fresh,
and as doubt keeps the worth growing with time, comes back to both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, scalar, whole
from unstale.draws import PHASES, generator_of
from unstale.errors import InvalidInput
from unstale.estimation.learning.clockwork_learner import ClockworkLearner
from unstale.estimation.learning.learner import Learner
from unstale.estimation.learning.level_learner import LevelLearner
from unstale.estimation.learning.rhythm_learner import RhythmLearner
from unstale.objectives import Objective
from unstale.planning import DemandCurve, summary_of
from unstale.schedule.element_clocks import Clocks, WindowClock
from unstale.schedule.polls import Polls, later

from .budget_and_limits import RateLimits
from .class_clocks import ClassClocks
from .class_tree import BETWEEN_LEVELS, ClassTree
from .element_table import NEW, OK, ElementTable, OpeningHours
from .learning_policy import STEPS_PER_ROUND, LearningPolicy

_MOST_POLLS_OF_ONE = 50
"""Polls of an element in a step."""
_UNLIMITED_ROOM_POLLS = 1 << 62
"""Polls that may be chosen at once."""
_LOOKS, _HALVINGS = 512, 40
"""Moments of a step at which windows are looked at, and how often the time between two of them is halved."""


class Learning:
    """Polls within a budget from the first moment on, and better the more it has seen.

    ``polls`` says what to poll until a moment, ``learn`` takes in what polls saw. Times, rates and the budget
    share one unit of time.

    Parameters
    ----------
    n
        How many elements there are.
    budget
        Polls (or bytes, with ``sizes``) per unit of time; it may be set anew at any time, and counts at once.
    weights
        How much each element matters; they may be set anew, too.
    sizes
        What one poll of each element costs.
    objective
        What polls are chosen for: "freshness", "age", or an `Objective`.
    classes
        A number for each element: elements of a class share a prior and a half-life, as in `Learner`.
    paths
        What each element is, from coarse to fine, such as "host/folder": instead of ``classes``, which are
        then found, as fine as there is evidence for.
    half_life
        Time in which evidence counts half; None: it is learned.
    steps
        How many times polls are chosen in the time in which the budget pays for one poll of each element;
        fewer are less work, and what polls saw counts a little later.
    groups, limits
        A label for each element, and a mapping from label to polls per unit of time that its elements share.
    windows
        The times at which polls are allowed, for all elements or by group.
    max_age, min_interval, jitter
        Of all elements or of each: poll at least this often, no more often than this, and stretch intervals
        at random by up to this share.
    copies
        Whether there are copies in the beginning; if not, the first poll of an element brings the first copy,
        and says nothing of changes.
    reserve, max_rate
        Time of which unspent budget is kept, to be spent when polls are worth more; and polls per unit of
        time that are never exceeded, None: any.
    in_reserve
        The share of the reserve that is there in the beginning.
    day
        The length of a day, in the unit of time: rhythms of the day and of the week are learned, and time 0
        is the first moment of both. None: changes come by no clock.
    epoch
        Time 0, in seconds since 1970, if clocks that change in spring and autumn are to be told from UTC.
    readers
        How much is read in each hour of the day or of the week, 24 or 168 numbers of which only the ratios
        matter: copies are to be fresh when they are read. It needs a ``day``, and a reserve of half of it.
    seed
        Of the phases of polls and of the jitter.
    start
        The moment at which it begins.

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
        paths: Sequence[str] | None = None,
        half_life: float | None = None,
        steps: float = STEPS_PER_ROUND,
        groups: ArrayLike | None = None,
        limits: Mapping[Any, float] | None = None,
        windows: WindowClock | Mapping[Any, WindowClock] | None = None,
        max_age: ArrayLike = np.inf,
        min_interval: ArrayLike = 0.0,
        jitter: ArrayLike = 0.0,
        copies: bool = True,
        reserve: float = 0.0,
        max_rate: float | None = None,
        in_reserve: float = 1.0,
        day: float | None = None,
        epoch: float | None = None,
        readers: ArrayLike | None = None,
        seed: int = 0,
        start: float = 0.0,
    ) -> None:
        whole("n", n, at_least=1)
        self._steps = scalar("steps", steps, above=0)
        self._now = self._chosen_until = scalar("start", start)
        self._seed = whole("seed", seed)
        self._times, self._elements, self._before = np.empty(0), np.empty(0, np.int64), np.empty(0)
        table = ElementTable()
        table.start(0, Learner(n, round=1.0, classes=classes, half_life=half_life))
        if paths is not None and classes is not None:
            raise InvalidInput("classes are found by the paths of elements; give one of the two")
        labels, codes = _groups(groups, n)
        table.extend(
            n,
            weight=_column("weights", weights, n),
            size=_column("sizes", sizes, n),
            max_age=_column("max_age", max_age, n),
            min_interval=_column("min_interval", min_interval, n),
            jitter=_column("jitter", jitter, n),
            group=codes,
            node=_nodes(table, paths, n),
            added=self._now,
            state=OK if copies else NEW,
        )
        by_size = sizes is not None
        rates = RateLimits(
            None if by_size else 0.0,
            0.0 if by_size else None,
            reserve=scalar("reserve", reserve, at_least=0),
            max_rate=None if max_rate is None else scalar("max_rate", max_rate, above=0),
        )
        _limit(rates, limits, labels)
        _open(table, windows, groups)
        self._policy: LearningPolicy[RateLimits] = LearningPolicy(
            table,
            rates,
            objective=objective,
            clocks=None
            if day is None
            else ClassClocks(RhythmLearner(day=day), table.clockworks, epoch=epoch),
        )
        if readers is not None:
            if day is None:
                raise InvalidInput("readers come by the hours of a day; give its length as day")
            self._policy.read_by_hour(readers)
        self.budget = budget
        if reserve:
            kept = scalar("in_reserve", in_reserve, at_least=0, at_most=1) * reserve
            rates.paid = rates.paid_bytes = self._now - kept
        if copies:
            turns = generator_of(self._seed, PHASES).permutation(n)
            table["last", :] = self._now - self._span * (turns + 0.5) / n

    def __len__(self) -> int:
        return len(self._policy.table)

    @property
    def policy(self) -> LearningPolicy[RateLimits]:
        """The policy itself: what is known of elements, what polls are worth, and the price."""
        return self._policy

    @property
    def learner(self) -> Learner:
        """What is known of how elements change."""
        return self._policy.table.learner

    @property
    def now(self) -> float:
        """The moment up to which polls have been given."""
        return self._now

    @property
    def price(self) -> float:
        """The worth at which elements are polled."""
        return self._policy.price

    @property
    def _limits(self) -> RateLimits:
        return self._policy.limits

    @property
    def budget(self) -> float:
        """What all polls together may cost per unit time."""
        limits = self._limits
        budget = limits.budget if limits.byte_budget is None else limits.byte_budget
        return 0.0 if budget is None else budget

    @budget.setter
    def budget(self, value: float) -> None:
        budget = scalar("budget", value, at_least=0)
        total = float(self._policy.table["size"].sum())
        if budget > 0 and not 1e-15 < total / budget < 1e15:
            raise InvalidInput(
                f"budget must buy a poll of each in 1e-15 to 1e15 units of time; budget is {budget:g}"
            )
        self._reconsider()
        by_size = self._limits.byte_budget is not None
        self._limits.change_budget(self._now, None if by_size else budget, budget if by_size else None)
        self._measure()

    def demand(self) -> DemandCurve:
        """Return what its elements would spend at prices: at the present one, what they do spend.

        Those that share a budget show these to one another now and then, and `share_budget` tells each its
        part.
        """
        known, table, now = self._policy.known, self._policy.table, self._now
        places = np.arange(len(self))
        by_size = self._limits.byte_budget is not None
        elements = summary_of(
            self.learner.law(np.maximum(table.since(places, now), 0.0), places),
            objective=known.aim.objective,
            weights=known.aim.factor * self.weights,
            sizes=known.sizes(places) if by_size else 1.0,
        )
        if self.price > 0:
            return DemandCurve.of(elements, self.price).through(self.price, self.budget)
        return DemandCurve.of(elements, max(elements.outlook(self.budget).price, 1e-300))

    @property
    def weights(self) -> Floats:
        """How much each element matters."""
        return self._policy.table["weight"].astype(np.float64)

    @weights.setter
    def weights(self, value: ArrayLike) -> None:
        weights = _column("weights", value, len(self))
        self._reconsider()
        self._policy.table.weigh(weights)
        self._measure()

    def _measure(self) -> None:
        """See what a poll takes on average, and how long a round is."""
        table = self._policy.table
        if (wanted := table.wanted).any():
            self._policy.known.mean_size = float(table["size"][wanted].mean())
        self._policy.rescaled()

    def _reconsider(self) -> None:
        """Take back the polls that have been chosen but not yet given, as if the step ended now."""
        if self._elements.size:
            groups = self._policy.table["group"][self._elements]
            self._limits.give_back(groups, self._policy.known.sizes(self._elements), self._times)
            first, which = np.unique(self._elements, return_index=True)  # of several polls the first counts
            self._policy.take_back(first, self._before[which])
            self._times, self._elements, self._before = np.empty(0), np.empty(0, np.int64), np.empty(0)
        self._chosen_until = self._now

    @property
    def _span(self) -> float:
        """The length of a round; 1 as long as there is no budget."""
        span = self._policy.round
        return span if 0 < span < np.inf else 1.0

    @property
    def step(self) -> float:
        """How far ahead it should be asked for polls: what they see counts from the next step on."""
        if not (self.budget and self._policy.round):
            return np.inf
        clocks = self._policy.known.clocks
        return min(self._policy.round / self._steps, np.inf if clocks is None else clocks.step)

    def polls(self, end: float) -> Polls:
        """Return the polls from now on to just before ``end``, which is now afterwards.

        They are chosen a step at a time, whatever part of it is asked for.
        """
        end = later(self._now, end)
        while self._chosen_until < end:
            start = self._chosen_until
            stop = self._next_hours(start, start + self.step)
            self._choose(start, max(stop, np.nextafter(start, np.inf)))
        self._now = end
        due = int(np.searchsorted(self._times, end))
        polls = Polls(self._times[:due], self._elements[:due])
        self._times, self._elements = self._times[due:], self._elements[due:]
        self._before = self._before[due:]
        return polls

    def _next_hours(self, start: float, end: float) -> float:
        """Return the end of a step, or the moment in it at which windows open or close."""
        for hours in self._policy.table.hours:
            if hours is None or not end < np.inf:
                continue
            moments = np.linspace(start, end, _LOOKS + 1)
            is_open = np.asarray(hours.is_open(moments))
            if (others := np.flatnonzero(is_open[1:] != is_open[0])).size:
                low, high = moments[others[0]], moments[others[0] + 1]
                for _ in range(_HALVINGS):
                    middle = 0.5 * (low + high)
                    same = bool(hours.is_open(middle)) == bool(is_open[0])
                    low, high = (middle, high) if same else (low, middle)
                end = float(high)
        return end

    def _choose(self, start: float, end: float) -> None:
        """Choose the polls of a step."""
        self._chosen_until = end
        if end == np.inf:  # there is no budget
            return
        chosen = self._policy.choose(start, end, room=_UNLIMITED_ROOM_POLLS, each=_MOST_POLLS_OF_ONE)
        before = self._policy.table["last"][chosen.places]
        order = np.lexsort((chosen.start, chosen.places))
        again = np.flatnonzero(np.diff(chosen.places[order]) == 0)
        before[order[again + 1]] = chosen.start[order[again]]  # of several polls, the one before
        self._before = np.concatenate([self._before, before])
        self._policy.polled(chosen.places, chosen.start)
        self._times = np.concatenate([self._times, chosen.start])
        self._elements = np.concatenate([self._elements, chosen.places])

    def learn(
        self,
        elements: ArrayLike,
        elapsed: ArrayLike,
        changed: ArrayLike,
        *,
        time: ArrayLike | None = None,
        modified: ArrayLike | None = None,
    ) -> None:
        """Take in what polls saw, in the order of time.

        Polls that failed are left out: they saw nothing. So are those that brought a first copy.

        Parameters
        ----------
        elements
            The number of the element of each poll.
        elapsed, changed
            How long it was after the poll before, and whether the element had changed.
        time
            When the poll was; without it nothing is learned of rhythms.
        modified
            How long before the poll the last change was, where that is told; nan elsewhere. What proves
            wrong is not believed.
        """
        places, gone, seen = self.learner.checked(elements, elapsed, changed)
        moments, ages = _of_polls("time", time, gone.size), _of_polls("modified", modified, gone.size)
        self._policy.learn(places, gone, seen, moments, ages)

    def hint(self, element: int, channel: str = "hints", *, time: float = np.inf) -> None:
        """Take in that an element may have changed; who says so is believed as far as it proves right.

        With a ``time``, the hint says when: what has been polled since then is not hinted.
        """
        if not 0 <= whole("element", element) < len(self):
            raise InvalidInput(f"element must be a number below {len(self)}; it is {element}")
        self._reconsider()
        self._policy.hint(element, channel, time, moments=None if np.isfinite(time) else [self._now])

    def add(
        self,
        count: int,
        *,
        weights: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        paths: Sequence[str] | None = None,
    ) -> None:
        """Add elements; they are soon polled for the first time.

        Parameters
        ----------
        count
            How many.
        weights, sizes, classes, paths
            Of each of them, as in `Learning`.
        """
        whole("count", count, at_least=0)
        weight, size = _column("weights", weights, count), _column("sizes", sizes, count)
        table = self._policy.table
        if sizes is not None and self._limits.byte_budget is None:
            raise InvalidInput("sizes of new elements need sizes of all: give them when you start")
        if table["group"].any() or len(table.hours) > 2:
            raise InvalidInput("elements cannot be added to groups; start anew with all of them")
        nodes = _nodes(table, paths, count)
        if classes is None and self.learner.has_classes and len(table.tree) > 1:
            classes = np.zeros(count, np.intp)
        self.learner.add(count, classes=classes)
        last, window = self._now - self._span, len(table.hours) - 1
        places = table.extend(
            count, weight=weight, size=size, added=self._now, last=last, state=OK, window=window, node=nodes
        )
        if paths is not None:
            table.settle_classes(places)
        self._measure()

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
        parts = {
            "learner": self.learner.state(),
            "table": self._policy.table.state(),
            "limits": self._limits.state(),
            "policy": self._policy.state(),
            "levels": self._policy.known.levels.state(),
            "clockworks": self._policy.table.clockworks.state(),
            "rhythm": {} if self._policy.known.clocks is None else self._policy.known.clocks.state(),
            "tree": {"text": np.frombuffer(self._policy.table.tree.text(every_node=True), np.uint8)},
        }
        kept = {f"{part}_{name}": value for part, values in parts.items() for name, value in values.items()}
        return {**mine, **kept}

    @classmethod
    def resume(
        cls,
        state: Mapping[str, Any],
        *,
        objective: str | Objective = "freshness",
        windows: WindowClock | Mapping[Any, WindowClock] | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Go on where `state` was taken, poll for poll; an objective and windows are given again."""
        known = state if hasattr(state, "__getitem__") and hasattr(state, "keys") else {}
        if missing := [name for name in _STATE if name not in known]:
            raise InvalidInput(f"state must be what Learning.state returned; it has no {missing[0]!r}")
        self = cls.__new__(cls)
        for name in _STATE:
            value = np.array(state[name])
            setattr(self, f"_{name}", value if value.ndim else value.item())
        table = ElementTable.resume(
            _part(state, "table"),
            Learner.resume(_part(state, "learner")),
            ClockworkLearner.resume(_part(state, "clockworks")),
        )
        kept_tree = np.asarray(_part(state, "tree").get("text", ()), np.uint8)
        table.tree = ClassTree.read(kept_tree.tobytes())
        limits = RateLimits.resume(_part(state, "limits"))
        rhythm = _part(state, "rhythm")
        clocks = ClassClocks.resume(rhythm, table.clockworks) if rhythm else None
        if clocks is not None:
            clocks.resume_trials(rhythm, table.tree)
        levels = LevelLearner.resume(kept) if (kept := _part(state, "levels")) else None
        self._policy = LearningPolicy(table, limits, objective=objective, clocks=clocks, levels=levels)
        self._policy.resume(_part(state, "policy"))
        _open(table, windows, groups)
        if table["window"].max(initial=0) >= len(table.hours):
            raise InvalidInput("windows must be given again; the state was taken with some")
        scalar("state['budget']", self.budget, at_least=0)
        return self


_STATE = ("now", "chosen_until", "times", "elements", "before", "steps", "seed")


def _part(state: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Return the entries of a part, by their own names."""
    return {name.removeprefix(f"{part}_"): state[name] for name in state if name.startswith(f"{part}_")}


def _column(name: str, given: ArrayLike | None, n: int) -> Floats:
    """Return one number for each element."""
    given = 1.0 if given is None else given
    if name == "sizes":
        column = numbers(name, given, above=0)
    elif name == "jitter":
        column = numbers(name, given, at_least=0, below=1)
    else:
        column = numbers(name, given, at_least=0, infinite=name == "max_age")
    if column.shape not in {(), (n,)}:
        raise InvalidInput(
            f"{name} must be one number or one for each of the {n} elements; it has shape {column.shape}"
        )
    return np.array(np.broadcast_to(column, n))


def _nodes(table: ElementTable, paths: Sequence[str] | None, n: int) -> NDArray[np.int64] | int:
    """Return the nodes of elements, by their paths."""
    if paths is None:
        return 0
    if isinstance(paths, str) or len(paths) != n or not all(isinstance(path, str) for path in paths):
        raise InvalidInput(f"paths must be one text for each of the {n} elements; they are {paths!r}")
    return np.array([table.tree.number(path.replace("/", BETWEEN_LEVELS)) for path in paths], np.int64)


def _of_polls(name: str, given: ArrayLike | None, count: int) -> Floats | None:
    """Return one number for each poll; nan where ages are not known."""
    if given is None:
        return None
    found = np.asarray(given, float)
    if found.shape != (count,):
        raise InvalidInput(f"{name} must be one for each of the {count} polls; it has shape {found.shape}")
    if name == "modified":
        numbers(name, np.where(np.isnan(found), 0.0, found), at_least=0)
    else:
        numbers(name, found)
    return found


def _groups(groups: ArrayLike | None, n: int) -> tuple[dict[Any, int], NDArray[np.int64] | int]:
    """Return the number of each label, and that of each element."""
    if groups is None:
        return {}, 0
    labels = np.asarray(groups, dtype=object)
    if labels.shape != (n,):
        raise InvalidInput(f"groups must be one label for each of the {n} elements; it is {groups!r}")
    known: dict[Any, int] = {}
    return known, np.array([known.setdefault(label, len(known) + 1) for label in labels.tolist()])


def _limit(rates: RateLimits, limits: Mapping[Any, float] | None, labels: Mapping[Any, int]) -> None:
    """Let groups have no more polls per unit time than they may."""
    for label, limit in (limits or {}).items():
        most = scalar(f"limits[{label!r}]", limit, above=0)
        if label not in labels:
            raise InvalidInput(f"limits[{label!r}] is for a group that no element belongs to")
        rates.know(labels[label], name=str(label), spacing=1.0 / most)


def _open(
    table: ElementTable, windows: WindowClock | Mapping[Any, WindowClock] | None, groups: ArrayLike | None
) -> None:
    """Let elements be polled in their windows only."""
    if windows is None:
        return
    clocks = Clocks(windows)
    for clock in clocks.clocks[0 if clocks.alike else 1 :]:
        if not hasattr(clock, "is_open"):
            raise InvalidInput(f"windows must be clocks that tell when they are open; one is {clock!r}")
        table.hours.append(cast("OpeningHours", clock))
    table["window", :] = 1 if clocks.alike else clocks.of(groups, len(table))
