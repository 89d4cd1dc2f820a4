"""The one policy: what is known of elements, what a poll is worth, and what to poll next (steps 1, 8).

An element is due when the worth of a poll reaches the price; as the price is whatever makes the polls add up
to the budget, those are, at any moment, the ones that are worth most. So polls are chosen best first, a
little ahead of time, until the budget is spent; what the last of them is worth is the price.

Everything else is a matter of worth, too. A copy older than its ``max_age`` is worth more than anything. An
element without a copy is worth all that a poll of it can ever be; so that many new ones do not starve the
others, they get a share of the budget, half unless it is said, and the lists that named them take turns (see
`ListShares`). What has failed, what is out of its window, what was polled less than its ``min_interval`` ago
and what is handed out already is worth nothing for now.

No clock, no store: what happens is told, and the time is an argument. The mirror runs this object, with its
budget and the limits of its groups; `unstale.Learning`, the simulator and the lab play the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Generic

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unstale import kernels
from unstale.arguments import Floats
from unstale.estimation.learning.level_learner import LevelLearner
from unstale.objectives import Objective, objective_named

from .candidates import Candidates, Chosen, Turn
from .class_clocks import ClassClocks
from .composed import ComposedElements
from .discovered import ListShares
from .element_classes import ElementClasses
from .element_table import DROPPED, FAILING, GONE, NEW, OK, REFUSED, REMOVED, STATES, ElementTable, Places
from .hint_channels import Channels
from .hinted_elements import HintedElements
from .knowledge import Knowledge
from .level_learning import learn_levels, pace_of
from .limits import AnyLimits_co
from .patience import Patience
from .poll_outcomes import PollOutcomes
from .polls_in_turn import PollsInTurn, PollsSeen
from .polls_on_read import PollsOnRead, askable
from .promises import Promises
from .ranking import far_apart, lead_after, leading_within, turns
from .replicas import ReplicaTurns
from .reserve_price import ReservePrice
from .terms import Aim
from .told_times import ToldTimes

STEPS_PER_ROUND = 50.0
"""Times that polls are chosen while the budget pays for one of each element."""
_RESCALE_FACTOR = 2.5
"""Factor by which a round may become longer or shorter before the learner is told."""
_STATE_AFTER = {
    "new": OK,
    "changed": OK,
    "unchanged": OK,
    "gone": GONE,
    "failed": FAILING,
    "refused": REFUSED,
}


_STATE = ("price", "others", "_turn", "_audited")


def no_backoff(state: str, failures: int) -> float:  # noqa: ARG001  (others look at them)
    """Leave nothing alone, whatever its polls saw."""
    return 0.0


class LearningPolicy(Generic[AnyLimits_co]):
    """Elements, what is known of them, and what to poll next.

    Parameters
    ----------
    table
        The columns of the elements, with the learner.
    limits
        The budget and the limits of groups.
    objective
        What polls are chosen for, unless the terms of an element say otherwise.
    channels
        How reliable hints are, by channel; None: nothing is known of any.
    backoff
        Says for how long an element is left alone that is in a state (of `STATES`), after so many polls in a
        row that saw nothing.
    shortest_round
        What is learned is not forgotten faster than in rounds of this length, however often a few elements
        are polled.
    price, mean_size
        They go on from where an earlier policy was: the price, and the size of a poll of which nothing is
        known.
    clocks
        The rhythms of classes; None: changes come by no clock.
    levels
        How much classes change as a whole, as far as it was learned before.
    """

    def __init__(
        self,
        table: ElementTable,
        limits: AnyLimits_co,
        *,
        objective: str | Objective | Aim = "freshness",
        channels: Channels | None = None,
        backoff: Callable[[str, int], float] = no_backoff,
        shortest_round: float = 0.0,
        price: float = 0.0,
        mean_size: float = 1.0,
        clocks: ClassClocks | None = None,
        levels: LevelLearner | None = None,
    ) -> None:
        self.table, self.limits, self.price = table, limits, price
        channels = Channels() if channels is None else channels
        if levels is None:
            levels = LevelLearner(round=table.learner.round, classes=table.learner.class_count)
        aim = objective if isinstance(objective, Aim) else Aim(objective_named(objective))
        self.known = Knowledge(table, limits, aim, channels, clocks, mean_size, levels)
        self.others = 0
        """Elements that the budget is for, too, and that are not looked at here."""
        self.audit: dict[int, str] = {}
        """Elements to be polled out of turn, and for which audit."""
        self.in_turn = PollsInTurn(self.known)
        """Elements have turns while what worths are computed by is being compiled."""
        self.hinted = HintedElements(self.known)
        """Elements with hints, and what came of those that polls have followed."""
        self._backoff, self._shortest_round = backoff, shortest_round
        self._reserve_price = ReservePrice()
        self.more_wanted = False
        """Whether polls were worth the price when some were chosen last, and got no slot."""
        self.new_share = 0.5
        """Share of the polls for elements without a copy, while others are worth theirs."""
        self._turn = self._audited = 0.0
        """By how many polls others have had more than their share than those that are new, or of an audit."""
        self._shares = ListShares(table)
        self.told_times = ToldTimes()
        """How far times of changes are believed that sources tell."""
        self.patience = Patience(table, self.known.level)
        """How long elements may be left alone."""
        self.on_read = PollsOnRead()
        """Elements that readers wait for."""
        self.composed = ComposedElements(self.known, {})
        """What is made from several elements."""
        self.replicas = ReplicaTurns(table)
        """Which of several replicas this policy polls for."""
        self.promises = Promises(self.known)
        """What rules promise of elements."""
        self._candidates = Candidates(
            self.known, self._shares, self.patience, self.composed, self.replicas, self.promises
        )
        self.classes = ElementClasses(self.known)
        """Which elements are alike."""

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on later, besides the table and the limits."""
        return {
            **self.hinted.state(),
            "mean_size": np.array(self.known.mean_size),
            "marked": np.array(self._candidates.marked),
            **{name.strip("_"): np.array(getattr(self, name)) for name in _STATE},
            **self._reserve_price.state(),
            **self.patience.state(),
            **self.told_times.state(),
            **self.known.errors.state(),
            **self.known.recalibration.state(),
            **self.known.expiries.state(),
        }

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken."""
        for name in _STATE:
            setattr(self, name, np.asarray(state[name.strip("_")]).item())
        self.known.mean_size, self._candidates.marked = float(state["mean_size"]), float(state["marked"])
        self._reserve_price.resume(state)
        self.patience.resume(state)
        self.told_times.resume(state)
        self.known.errors.resume(state)
        self.known.recalibration.resume(state)
        self.known.expiries.resume(state)
        self.hinted.resume(state)

    # --- what happens ---------------------------------------------------------------------------------------

    def hint(
        self,
        element: int,
        channel: str,
        told: float,
        count: int = 1,
        *,
        moments: Sequence[float] | None = None,
    ) -> None:
        """Take in that an element may have changed.

        Parameters
        ----------
        element
            Its number in the table.
        channel
            Who says so: hints of a channel are believed as far as they have proved true.
        told
            The moment at which it is said to have changed.
        count
            How many hints there were.
        moments
            When they came, if that was not at the moment ``told``.
        """
        if not self.table.has([element])[0]:
            return
        place = int(self.table.places([element])[0])
        if told <= self.table["last"][place]:  # it has been looked at since
            return
        self.table["not_before", place] = 0.0  # it may be back, or work again
        self.limits.forgive(int(self.table["group"][place]))
        self.hinted.add(place, channel, told, count, moments)
        self.table.touch(np.array([place]))

    def read(self, reads: Mapping[int, float]) -> None:
        """Take in how often copies are read: the more, the more they matter. Others count half the least."""
        share = np.full(len(self.table), 0.5 * min(reads.values(), default=1.0), np.float32)
        ids = self.table.known(list(reads))
        share[self.table.places(ids)] = [reads[i] for i in ids]
        if (wanted := self.table.wanted).any():
            share /= max(float(share[wanted].mean()), 1e-30)
        self.table["reads", :] = share
        self.table.look_again()

    def read_by_hour(self, levels: ArrayLike | None) -> None:
        """Take in how much is read in each hour of the day or of the week; None: at all hours alike.

        Polls come before the readers, if the budget can wait for that and copies are to be fresh.
        """
        clocks, wanted = self.known.clocks, self.known.aim.objective.kernel == kernels.FRESHNESS
        if clocks is None or ((levels is None or not wanted) and clocks.readers is None):
            return
        clocks.read_by_hour(levels if wanted else None)
        self.table.look_again()

    def polled(self, places: Places, time: Floats) -> None:
        """Take it that polls of elements see something at these moments; of several the last counts."""
        self.table["last", places] = time
        self.table["state", places] = OK
        self.table["busy", places] = False
        self.hinted.follow(places)
        self.table.touch(places)

    def take_back(self, places: Places, last: Floats) -> None:
        """Take back what `polled` was told: the last polls of elements were at these moments, or nan."""
        table = self.table
        table["last", places] = last
        table["state", places] = np.where(np.isnan(last), NEW, OK)
        self.hinted.take_back(places)
        table.touch(places)

    def hear(self, heard: PollOutcomes) -> Places:
        """Take in what polls saw; return the places of their elements, whose rows should be saved."""
        table = self.table
        for element in heard.element[~heard.planned].tolist():
            self.audit.pop(element, None)  # not before: a poll that was given back is still wanted
        if self.on_read.share:
            for element, moment in zip(heard.element.tolist(), heard.time.tolist(), strict=True):
                self.on_read.heard(element, moment)
        there = table.has(heard.element)
        which = np.flatnonzero(there)
        if not which.size:
            return np.empty(0, np.intp)
        places = table.places(heard.element[which])
        outcome = np.array([_STATE_AFTER.get(heard.outcome[i], FAILING) for i in which.tolist()], np.int8)
        changed = np.array([heard.outcome[i] == "changed" for i in which.tolist()])
        time, elapsed = heard.time[which], heard.elapsed[which]
        first = np.array([heard.outcome[i] == "new" for i in which.tolist()])
        saw = (outcome == OK) & np.isfinite(elapsed) & (table["state"][places] != GONE) & ~first
        ages = None if heard.modified is None else time - heard.modified[which]
        if first.any():
            own = np.full(time.size, np.nan) if ages is None else ages
            again, told = self.told_times.before_first(heard.element[which][first], time[first], own[first])
            self.begin(places[first][again], told)
        self.in_turn.keep(
            PollsSeen(heard.element[which][saw], elapsed[saw], changed[saw], time[saw],
                      None if ages is None else ages[saw])
        )  # fmt: skip
        late = self._learn_what_was_seen()
        if heard.stays is not None:
            table["stays", places[outcome == OK]] = np.nan_to_num(heard.stays[which][outcome == OK])
        traffic = heard.traffic[which]
        for k in which[heard.traffic[which] > heard.cost[which]].tolist():
            self.limits.settle(float(heard.cost[k]), float(heard.traffic[k]), float(heard.time[k]))
        self.limits.saw(table["group"][places], outcome == FAILING, time)
        if self._all_well(places, outcome, time):
            self._hear_well(places, time, traffic)
        else:  # the order matters
            for k, place in enumerate(places.tolist()):
                self._hear_one(place, int(outcome[k]), float(time[k]), float(traffic[k]))
        return np.unique(np.concatenate([places, late]))

    def _learn_what_was_seen(self) -> Places:
        """Learn from what polls saw, unless that has to wait; return the places of their elements."""
        learned = [np.empty(0, np.intp)]
        for seen in self.in_turn.take():
            there = np.flatnonzero(self.table.has(seen.element))
            places = self.table.places(seen.element[there])
            ages = None if seen.ages is None else seen.ages[there]
            self.learn(places, seen.elapsed[there], seen.changed[there], seen.time[there], ages)
            learned.append(places)
        return np.concatenate(learned)

    def learn(
        self,
        places: Places,
        elapsed: Floats,
        changed: NDArray[np.bool_],
        time: Floats | None = None,
        modified: Floats | None = None,
    ) -> None:
        """Learn how elements change, and how good hints are, from polls that saw something.

        Parameters
        ----------
        places
            The elements of the polls.
        elapsed, changed
            The time since the poll before of each, and whether it had changed.
        time
            When the polls were; without it nothing is learned of rhythms.
        modified
            How long before the polls the last changes were, where that is told; nan elsewhere.
        """
        learner = self.table.learner
        spans = gone = np.clip(elapsed, 0.0, 1e11 * learner.round)
        ages, tell = modified, None
        if modified is not None:
            groups = self.table["group"][places]
            ages = modified = self.told_times.believed(groups, gone, changed, modified)
            tell = self.told_times.tell(groups)
        if (clocks := self.known.clocks) is not None and time is not None and places.size:
            before = clocks.rhythms.version
            pace = pace_of(self.known, places, time - gone, time)
            gone, ages = clocks.learn(self.table, places, time, gone, changed, modified, pace)
            if before != clocks.rhythms.version:
                self.table.look_again()
        gone, ages = self.known.expiries.learn(places, spans, changed, modified, (gone, ages))
        lived, by_level = gone, None
        if time is not None and places.size:
            lived, by_level = learn_levels(self.known, places, time, gone, changed, ages, tell)
        self.hinted.learn(places, gone, changed, ages, lived, by_level)
        self.classes.reckon()
        self.known.levels.follow(learner.by_level)

    def begin(self, places: Places, ages: Floats) -> None:
        """Take in how long before their first copies elements had changed, as it is told; nan: unknown.

        An element may be there several times: then these are all its changes from the first of them on.
        """
        learner = self.table.learner
        known = np.isfinite(ages) & (ages > 0) & self.told_times.trusted(self.table["group"][places])
        learner.begin(places[known], np.minimum(ages[known], 1e11 * learner.round))

    def _all_well(self, places: Places, outcome: NDArray[np.int8], time: Floats) -> bool:
        """Tell whether polls are of different elements, and all of them saw something, just now."""
        table = self.table
        plain = bool((outcome == OK).all() and (table["state"][places] != REMOVED).all())
        return plain and not (time < table["last"][places]).any() and np.unique(places).size == places.size

    def _hear_well(self, places: Places, time: Floats, traffic: Floats) -> None:
        """Take in polls that saw something, all at once."""
        table = self.table
        moved = traffic > 0
        if moved.any():
            at, size = places[moved], traffic[moved]
            before = table["size"][at]
            table["size", at] = np.where(np.isnan(before), size, 0.7 * before + 0.3 * size)
            fade = (1.0 - 1.0 / min(100.0, max(len(table), 10))) ** size.size
            self.known.mean_size = fade * self.known.mean_size + (1.0 - fade) * float(size.mean())
        if np.isin(table["state"][places], (GONE, DROPPED)).any():
            table.recount()
        table["failures", places], table["not_before", places] = 0, 0.0
        table["last", places], table["state", places] = time, OK
        self.hinted.forget(places)
        table.touch(places)

    def _hear_one(self, place: int, outcome: int, time: float, traffic: float) -> None:
        """Take in one poll."""
        table = self.table
        if table["state"][place] == REMOVED or time < table["last"][place]:  # old news, from an import
            return
        at = np.array([place])
        if outcome == OK:
            self._hear_well(at, np.array([time]), np.array([traffic]))
            return
        before = int(table["state"][place])
        same = before == outcome
        failures = int(table["failures"][place]) + 1 if same or outcome == FAILING else 1
        table["failures", place] = failures
        table["not_before", place] = time + self._backoff(STATES[outcome], failures)
        if outcome == GONE:
            table["last", place] = time
        table["state", place] = outcome
        if not same and {outcome, before} & {GONE, DROPPED}:
            table.recount()
        self.hinted.forget(at)
        table.touch(at)
        table.look_at(at, table["not_before"][at])

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def round(self) -> float:
        """Time in which the budget pays for one poll of each element that is wanted; inf without any.

        What stands back behind others does not count, nor what is gone or was dropped.
        """
        rate = self.limits.rate(self.known.mean_size)
        count = max(self.table.polled_count - self._shares.back_count, 1)
        return (count + self.others) / rate if rate > 0 else inf

    def rescaled(self) -> bool:
        """See to it that what is learned fades as slowly as elements are polled; tell if that changed."""
        span = max(self.round, self._shortest_round)
        learner = self.table.learner
        if not 1e-18 < span < 1e18 or 1.0 / _RESCALE_FACTOR < span / learner.round < _RESCALE_FACTOR:
            return False
        self.known.recalibration.rescale(span / learner.round)
        learner.rescale(span)
        self.known.levels.rescale(span)
        self.table.look_again()
        return True

    # --- choosing -------------------------------------------------------------------------------------------

    def choose(self, now: float, end: float, *, room: int, each: int = 1) -> Chosen:
        """Return what to poll next.

        Parameters
        ----------
        now, end
            Slots lie between the two.
        room
            Polls, at most.
        each
            Polls of one element, at most.

        Elements of polls that were chosen are busy until `polled` or the holder of the table says otherwise.
        """
        table, limits = self.table, self.limits
        if room <= 0 or not len(table) or not limits.next(now) < end:
            return Chosen(np.empty(0, np.intp), np.empty(0), np.empty(0))
        affordable = limits.affordable(now, end, self.known.mean_size)
        most = int(min(affordable + 2.0, room, 1e15))
        turn = Turn(now, end, self.round, self.price, self.in_turn.on)
        return (self._choose_in_turn if turn.in_turn else self._choose_best)(
            turn, affordable, most, room, each
        )

    def _choose_in_turn(self, turn: Turn, _affordable: float, most: int, room: int, _each: int) -> Chosen:
        """Return what to poll while nobody can say what polls are worth."""
        chosen, self.more_wanted = self.in_turn.choose(self._candidates, self._shares, turn, most, room)
        return chosen

    def _choose_best(self, turn: Turn, affordable: float, most: int, room: int, each: int) -> Chosen:
        """Return the polls that are worth most."""
        table, limits, now, end = self.table, self.limits, turn.now, turn.end
        new, old, values = self._candidates.find(turn, affordable)
        offered, worth_it, floor = old, values, 0.0
        if saving := limits.reserve > 0:
            if self._reserve_price.base <= 0:
                self._first_price(old[table["state"][old] != GONE], limits.left(now, end))
            kept, floor, enough = self._reserve_price.offered(
                values, limits.left(now, end), limits.reserve, limits.rate(self.known.mean_size)
            )
            offered, worth_it = old[kept], values[kept]
            most, each = min(most, new.size + enough), each if not new.size else 1
        wanted, worths = self._in_order(
            new, offered, worth_it, most, now=now, end=end, each=each, floor=floor
        )
        readers = self._readers(now)
        asked = self._audits(beside=readers)
        if asked.size:
            rest = ~np.isin(wanted, asked)
            order = turns(asked.size, int(np.count_nonzero(rest)), self._audited)
            wanted = np.concatenate([asked, wanted[rest]])[order]
            worths = np.concatenate([np.full(asked.size, np.nan), worths[rest]])[order]
        apart, too_dear = 0.0, 0
        if saving:
            within = self._reserve_price.pays_for(
                worths, limits.steps(self.known.sizes(wanted)), limits.left(now, end), limits.reserve
            )
            too_dear = int(np.count_nonzero(~within))
            wanted, worths = wanted[within], worths[within]
            if not np.isnan(worths).any():  # those without a copy, and audits, come as soon as they may
                apart = max(end - limits.next(now), 0.0) / max(wanted.size, 1)
        slots = limits.assign(
            table["group"][wanted], self.known.sizes(wanted), now=now, end=end, room=room, apart=apart
        )
        chosen, paid = wanted[slots.which], worths[slots.which]
        self.more_wanted = chosen.size < new.size + offered.size + asked.size - too_dear
        if readers.size and (count := int(np.count_nonzero(np.isin(chosen, readers)))):
            self.on_read.pay(count, now, limits.rate(self.known.mean_size))
        self._count_turns(wanted, chosen, asked)
        table["busy", chosen] = True
        back = self._shares.stand_back(chosen)
        if (back & ~np.isnan(paid)).any():  # the others have left some of the budget: they may have all of it
            self.price = self._candidates.marked = 0.0
            table.touch(self._shares.others())
        gone = table["state"][chosen] == GONE  # what is looked for now and then says nothing of the price
        left, paid = limits.left(now, end), np.where(back | gone, np.nan, paid)
        if saving:
            empty = self.more_wanted and limits.next(now) >= end
            self.price = self._reserve_price.follow(
                paid, now=now, left=left, reserve=limits.reserve, empty=empty
            )
            short = left >= limits.reserve
        else:
            self._follow_paid(paid)
            short = chosen.size < room and limits.next(now) < end
        self._candidates.look_later(
            old,
            values,
            turn._replace(price=self.price),
            short=short,
            lowest=inf if saving else float(paid.min(initial=inf, where=np.isfinite(paid))),
        )
        return Chosen(chosen, slots.start, slots.late)

    def _first_price(self, places: Places, left: float) -> None:
        """Begin with the price that was paid last, or else with what polls are worth after a round."""
        price = self.price
        if price <= 0 and places.size and self.round < inf:
            some = places[:: max(places.size // 1000, 1)]
            price = float(np.mean(self.known.worths(some, np.full(some.size, self.round))))
        self._reserve_price.begin(price, left / self.limits.reserve)

    def _follow_paid(self, paid: Floats) -> None:
        """Let the price be what the last polls were worth."""
        paid = paid[np.isfinite(paid)]
        if paid.size:
            count = max(len(self.table) - self._shares.back_count, 1)
            share = min(0.2 * STEPS_PER_ROUND * paid.size / count, 0.5)
            self.price += (float(paid.min()) - self.price) * (share if self.price > 0 else 1.0)

    def _count_turns(self, wanted: Places, chosen: Places, asked: Places) -> None:
        """Count who had how many polls: new elements, and those that an audit asks for, beside others."""
        new = np.isnan(self.table["last"][wanted])
        self._shares.chose(chosen[np.isnan(self.table["last"][chosen])])
        if new.any() and not new.all():
            self._turn = lead_after(self._turn, np.isnan(self.table["last"][chosen]), self.new_share)
        self._audited = lead_after(self._audited, np.isin(chosen, asked)) if asked.size else 0.0

    def _readers(self, now: float) -> Places:
        """Return where elements are that readers wait for, as far as their share of the budget goes."""
        waiting = self.on_read.waiting(now)
        if not waiting:
            return np.empty(0, np.intp)
        places = askable(self.table, self.table.places(self.table.known(waiting)), now)
        return places[: self.on_read.affordable(now, self.limits.rate(self.known.mean_size))]

    def _audits(self, beside: Places) -> Places:
        """Return some elements, and where those are besides that an audit asks for."""
        if not self.audit:
            return beside
        places = self.table.places(self.table.known(sorted(self.audit)))
        places = places[self.table["state"][places] != REMOVED]
        self.audit = {i: self.audit[i] for i in self.table["id"][places].tolist()}
        return np.concatenate([beside, np.setdiff1d(places[~self.table["busy"][places]], beside)])

    def _in_order(
        self,
        new: Places,
        old: Places,
        values: Floats,
        most: int,
        *,
        now: float,
        end: float,
        each: int,
        floor: float = 0.0,
    ) -> tuple[Places, Floats]:
        """Return polls in the order in which they should be made, and what they are worth; nan for new ones.

        The best come first, and new ones have their share of the turns. Of those that must be polled in any
        case, those that were polled longest ago come first.
        """
        table, limits, left = self.table, self.limits, self.limits.left(now, end)
        free = partial(limits.free, now=now, end=end)
        new, polls, worths = self._shares.first_polls(new, 4 * most + 64, free), old, values
        if each > 1:
            polls, worths = self._candidates.repeated(old, values, left, end, each, floor)
        rank = worths
        if (overdue := np.isinf(worths)).any():
            last = table["last"][polls]
            rank = np.where(overdue, 1e290 * (1.0 + last.max() - last), worths)
        count = 4 * most + 64
        while True:  # polls that cost less than the mean are more than were thought of
            best = leading_within(rank, table["id"][polls], table["group"][polls], count, free)
            paid = np.cumsum(limits.steps(self.known.sizes(polls[best])))
            if count >= polls.size or (paid.size and paid[-1] >= left):
                break
            count *= 4
        if polls.size > old.size:
            head = int(np.searchsorted(paid, left)) + 1
            best[:head] = best[:head][far_apart(polls[best[:head]])]
        if not (new.size and best.size):
            self._turn = 0
        order = turns(new.size, best.size, self._turn, self.new_share)
        everyone = np.concatenate([new, polls[best]])[order]
        return everyone, np.concatenate([np.full(new.size, np.nan), worths[best]])[order]
