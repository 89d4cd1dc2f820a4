"""What to poll next: whatever is worth most.

The planner of a mirror keeps a row for each element, and a `Learner` of how elements change. An element is
due when the worth of a poll reaches the price; as the price is whatever makes the polls add up to the budget,
those are, at any moment, the ones that are worth most. So polls are chosen best first, a little ahead of
time, until the budget is spent; what the last of them is worth is the price.

Everything else is a matter of worth, too. A copy older than its ``max_age`` is worth more than anything. An
element without a copy is worth all that a poll of it can ever be; so that many new ones do not starve the
others, they get half of the budget. What has failed, what is out of its window, what was polled less than its
``min_interval`` ago and what is handed out already is worth nothing for now.

No clock, no store: what happens is told, and the time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..arguments import Floats
from ..objectives import objective_named
from ..polling import worth
from ..schedule.compiled_learning import gamma_worths
from .channels import Channels
from .pace import Pace
from .rows import FAILING, GONE, OK, REFUSED, REMOVED, STATES, Places, Rows
from .settings import Settings
from .store import Heard, Lease

__all__ = ["Agenda", "backoff"]

_STEPS = 50.0
"""Times that polls are chosen while the budget pays for one of each element."""
_SOONEST, _LATEST = 0.1, 5.0
"""Seconds between two choices, at least and at most."""
PATIENCE = 50.0
"""Rounds after which an element is polled whatever that seems to be worth."""
_SHORTEST_ROUND = 3600.0
"""Seconds: what is learned is not forgotten faster, however often a few elements are polled."""
_CHUNK = 100_000
"""Elements looked at together."""
_AFTER = {"new": OK, "changed": OK, "unchanged": OK, "gone": GONE, "failed": FAILING, "refused": REFUSED}


def backoff(state: str, failures: int) -> float:
    """Return the seconds for which an element is left alone after so many polls in a row that saw nothing.

    >>> [backoff("failing", n) for n in (1, 2, 3, 20)], backoff("gone", 1), backoff("refused", 1)
    ([60.0, 120.0, 240.0, 86400.0], 3600.0, 86400.0)
    """
    first, most = {"gone": (3600.0, 30 * 86400.0), "refused": (86400.0, 7 * 86400.0)}.get(
        state, (60.0, 86400.0)
    )
    return float(min(first * 2.0 ** min(failures - 1, 30), most))


class Agenda:
    """Elements, what is known of them, and what to poll next."""

    def __init__(
        self,
        settings: Settings,
        *,
        rows: Rows,
        channels: Channels,
        price: float = 0.0,
        mean_size: float = 1000.0,
    ) -> None:
        self.settings = settings
        self.pace = Pace(settings, settings.budget, settings.byte_budget)
        self.rows, self.channels, self.price = rows, channels, price
        self.mean_size = mean_size
        self.others = 0
        """Elements that the budget is for, too, and that are not looked at here."""
        self.audit: dict[int, str] = {}
        """Elements to be polled out of turn, and for which audit."""
        self._objective = objective_named(settings.objective)
        self._growth = 2.0 if self._objective.kernel == kernels.FRESHNESS else 3.0
        self._turn = self._audited = 0
        """How many more polls others have had than those that are new, or asked for by an audit."""
        self._marked = 0.0

    # --- what happens ---------------------------------------------------------------------------------------

    def hint(self, element: int, channel: str, told: float) -> None:
        """Take in that an element may have changed at a moment."""
        if not self.rows.has([element])[0]:
            return
        place = int(self.rows.places([element])[0])
        if told <= self.rows["last"][place]:  # it has been looked at since
            return
        self.rows["channel"][place] = self.channels.number(channel)
        self.rows["hints"][place] = min(int(self.rows["hints"][place]) + 1, 1000)
        if self.rows["state"][place] != REMOVED:
            self.rows["look"][place] = -inf

    def read(self, reads: Mapping[int, float]) -> None:
        """Take in how often copies are read: the more, the more they matter. Others count half the least."""
        share = self.rows["reads"]
        share[:] = 0.5 * min(reads.values(), default=1.0)
        ids = self.rows.known(list(reads))
        share[self.rows.places(ids)] = [reads[i] for i in ids]
        if (wanted := self.rows.wanted).any():
            share /= max(float(share[wanted].mean()), 1e-30)
        self.rows.look_again()

    def hear(self, heard: Heard) -> Places:
        """Take in what polls saw; return the places of their elements, whose rows should be saved."""
        rows = self.rows
        for element in heard.element[~heard.planned].tolist():
            self.audit.pop(element, None)  # not before: a poll that was given back is still wanted
        there = rows.has(heard.element)
        which = np.flatnonzero(there)
        if not which.size:
            return np.empty(0, np.intp)
        places = rows.places(heard.element[which])
        outcome = np.array([_AFTER.get(heard.outcome[i], FAILING) for i in which.tolist()], np.int8)
        changed = np.array([heard.outcome[i] == "changed" for i in which.tolist()])
        time, elapsed = heard.time[which], heard.elapsed[which]
        self._hear_of_hints(places, elapsed, changed, outcome == OK)
        first = np.array([heard.outcome[i] == "new" for i in which.tolist()])
        saw = (outcome == OK) & np.isfinite(elapsed) & (rows["state"][places] != GONE) & ~first
        far = 1e11 * rows.learner.round
        rows.learner.learn(places[saw], np.clip(elapsed[saw], 0.0, far), changed[saw])
        traffic = heard.traffic[which]
        if self.pace.byte_budget is not None:
            for k in which.tolist():
                self.pace.settle(float(heard.cost[k]), float(heard.traffic[k]), float(heard.time[k]))
        self._hear_of_groups(rows["group"][places], outcome == FAILING, time)
        if self._all_well(places, outcome, time):
            self._hear_well(places, time, traffic)
        else:  # the order matters
            for k, place in enumerate(places.tolist()):
                self._hear_one(place, int(outcome[k]), float(time[k]), float(traffic[k]))
        return np.unique(places)

    def _hear_of_groups(self, groups: NDArray[np.int32], failed: NDArray[np.bool_], time: Floats) -> None:
        """Take in how it goes with whole groups."""
        if not failed.any():
            for number in np.unique(groups).tolist():
                if number in self.pace.groups:
                    self.pace.saw(number, failed=False, now=0.0)
            return
        for number, bad, moment in zip(groups.tolist(), failed.tolist(), time.tolist(), strict=True):
            if number in self.pace.groups:
                self.pace.saw(number, failed=bad, now=moment)

    def _all_well(self, places: Places, outcome: NDArray[np.int8], time: Floats) -> bool:
        """Tell whether polls are of different elements, and all of them saw something, just now."""
        rows = self.rows
        plain = bool((outcome == OK).all() and (rows["state"][places] != REMOVED).all())
        return plain and not (time < rows["last"][places]).any() and np.unique(places).size == places.size

    def _hear_well(self, places: Places, time: Floats, traffic: Floats) -> None:
        """Take in polls that saw something, all at once."""
        rows = self.rows
        moved = traffic > 0
        if moved.any():
            at, size = places[moved], traffic[moved]
            before = rows["size"][at]
            rows["size"][at] = np.where(np.isnan(before), size, 0.7 * before + 0.3 * size)
            fade = (1.0 - 1.0 / min(100.0, max(len(rows), 10))) ** size.size
            self.mean_size = fade * self.mean_size + (1.0 - fade) * float(size.mean())
        rows["failures"][places], rows["not_before"][places] = 0, 0.0
        rows["last"][places], rows["state"][places] = time, OK
        rows["hints"][places], rows["look"][places] = 0, -inf

    def _hear_one(self, place: int, outcome: int, time: float, traffic: float) -> None:
        """Take in one poll."""
        rows = self.rows
        if rows["state"][place] == REMOVED or time < rows["last"][place]:  # old news, from an import
            return
        if outcome == OK:
            at = np.array([place])
            self._hear_well(at, np.array([time]), np.array([traffic]))
            return
        same = rows["state"][place] == outcome
        failures = int(rows["failures"][place]) + 1 if same or outcome == FAILING else 1
        rows["failures"][place] = failures
        rows["not_before"][place] = time + backoff(STATES[outcome], failures)
        if outcome == GONE:
            rows["last"][place] = time
        rows["state"][place], rows["hints"][place] = outcome, 0
        rows["look"][place] = -inf

    def _hear_of_hints(
        self, places: Places, elapsed: Floats, changed: NDArray[np.bool_], saw: NDArray[np.bool_]
    ) -> None:
        """Learn how good hints are, from polls of elements that had some."""
        told = np.flatnonzero((self.rows["channel"][places] > 0) & saw & np.isfinite(elapsed))
        if not told.size:
            return
        at = places[told]
        law = self.rows.learner.law(elapsed[told], at)
        fresh = np.exp(-np.asarray(law.shape) * np.log1p(elapsed[told] * np.asarray(law.scale)))
        for k, place in enumerate(at.tolist()):
            channel = self.channels.channels[int(self.rows["channel"][place])]
            channel.learn(int(self.rows["hints"][place]), float(fresh[k]), changed=bool(changed[told[k]]))

    # --- what is known --------------------------------------------------------------------------------------

    @property
    def round(self) -> float:
        """Seconds in which the budget pays for one poll of each element."""
        return (int(np.count_nonzero(self.rows.wanted)) + self.others) / max(
            self.pace.rate(self.mean_size), 1e-300
        )

    @property
    def tick(self) -> float:
        """Seconds between two choices."""
        return float(np.clip(self.round / _STEPS, _SOONEST, _LATEST))

    def rescaled(self) -> bool:
        """See to it that what is learned fades as slowly as elements are polled; tell if that changed."""
        span = max(self.round, _SHORTEST_ROUND)
        if not 1e-6 < span < 1e15 or 0.4 < span / self.rows.learner.round < 2.5:
            return False
        self.rows.learner.rescale(span)
        self.rows.look_again()
        return True

    def _cost(self, places: Places) -> Floats:
        """What polls cost: 1 each, or their bytes; both, in polls, if there are both budgets."""
        pace = self.pace
        if pace.byte_budget is None:
            return np.ones(places.size)
        if pace.budget is None:
            return self.sizes(places)
        return 1.0 + self.sizes(places) * (pace.budget / max(pace.byte_budget, 1e-300))

    def sizes(self, places: Places) -> Floats:
        """Bytes that polls take, as far as is known."""
        size = self.rows["size"][places].astype(np.float64)
        return np.where(np.isnan(size), self.mean_size, np.maximum(size, 1.0))

    def worths(self, places: Places, since: Floats) -> Floats:
        """What polls are worth so long after the last ones, per cost."""
        rows = self.rows
        law, hope = rows.learner.outlook(since, places)
        unit = rows["weight"][places].astype(np.float64) * rows["reads"][places] / self._cost(places)
        told = np.flatnonzero(rows["channel"][places] > 0)
        if self._objective.kernel != kernels.FRESHNESS:
            return np.asarray(hope * unit * worth(self._objective, law, since), float)
        values = np.empty(places.size)
        gamma_worths(np.asarray(law.shape), 1.0 / np.asarray(law.scale), since, unit, values)
        if told.size:
            which, rate = places[told], np.asarray(law.rate)[told]
            hinted = self.channels.worths(rows["channel"][which], rate, since[told], rows["hints"][which])
            values[told] = unit[told] * hinted
        return hope * values

    def fresh(self, places: Places, now: float) -> Floats:
        """Probabilities that copies are fresh; 0 where there is none."""
        rows = self.rows
        since = rows.since(places, now)
        law, hope = rows.learner.outlook(since, places)
        told = rows["channel"][places]
        exposed = since
        if told.any():  # without a hint, only changes that give none can have come
            recall = np.array([0.0, *(one.recall for one in self.channels.channels[1:])])
            exposed = since * (1.0 - recall[told])
        fresh = hope * np.exp(-np.asarray(law.shape) * np.log1p(exposed * np.asarray(law.scale)))
        if told.any():
            fresh *= self.channels.fresh(told, rows["hints"][places])
        return np.where(np.isnan(rows["last"][places]), 0.0, fresh)

    # --- choosing -------------------------------------------------------------------------------------------

    def choose(self, now: float, end: float, room: int) -> list[Lease]:
        """Return what to poll before ``end``, at most so many, each with its slot."""
        rows = self.rows
        if room <= 0 or not len(rows):
            return []
        most = int(min(self.pace.affordable(now, end, self.mean_size) + 2.0, room))
        if not self.pace.free(now) < end:
            return []
        places, values = self._candidates(now, end)
        asked, others = self._audits(), self._in_order(places, values, most)
        wanted = _by_turns(asked, others[~np.isin(others, asked)], self._audited)
        new = np.isnan(rows["last"][wanted])
        groups = rows["group"][wanted].tolist()
        given = self.pace.assign(groups, self.sizes(wanted).tolist(), now, end, room)
        chosen = wanted[[which for which, _, _ in given]] if given else np.empty(0, np.intp)
        if new.any() and not new.all():
            self._turn += sum(-1 if new[which] else 1 for which, _, _ in given)
        self._audited += (
            int(np.sum(np.where(np.isin(chosen, asked), -1, 1))) if asked.size else -self._audited
        )
        self._set_price(places, values, chosen, end, short=len(given) + 2 < most)
        rows["busy"][chosen] = True
        fresh, sizes = self.fresh(chosen, now), self.sizes(chosen)
        fresh[np.isnan(rows["last"][chosen])] = np.nan
        last = rows["last"][chosen]
        columns = zip(
            given, rows["id"][chosen].tolist(), fresh.tolist(), sizes.tolist(), last.tolist(), strict=True
        )
        return [
            Lease(
                element, slot, late, groups[which], predicted, element not in self.audit, size,
                last=polled,
            )
            for (which, slot, late), element, predicted, size, polled in columns
        ]  # fmt: skip

    def _audits(self) -> Places:
        """Where elements are that an audit asks for."""
        places = self.rows.places(self.rows.known(sorted(self.audit)))
        places = places[self.rows["state"][places] != REMOVED]
        self.audit = {i: self.audit[i] for i in self.rows["id"][places].tolist()}
        return places[~self.rows["busy"][places]]

    def _candidates(self, now: float, end: float) -> tuple[Places, Floats]:
        """Return elements that may be polled, and what that is worth; nan for new ones."""
        rows = self.rows
        room = np.zeros(max(self.pace.groups, default=0) + 1, np.int64)
        for number in self.pace.groups:
            room[number] = self.pace.room_of(number, now, end)
        open_now = np.array([clock is None or bool(clock.is_open(now)) for clock in rows.clocks])
        patience = PATIENCE * self.round
        found, worths = [np.empty(0, np.intp)], [np.empty(0)]
        for start in range(0, len(rows), _CHUNK):
            part = slice(start, start + _CHUNK)
            able = (rows["look"][part] <= end) & ~rows["busy"][part] & (rows["not_before"][part] <= now)
            able &= (
                (room[rows["group"][part]] > 0) & open_now[rows["window"][part]] & (rows["weight"][part] > 0)
            )
            places = start + np.flatnonzero(able)
            new = np.isnan(rows["last"][places])
            places = places[new | (rows.since(places, now) >= rows["min_interval"][places])]
            since = rows.since(places, end)
            values = self.worths(places, self._jittered(places, since))
            values[(since >= rows["max_age"][places]) | (since > patience)] = inf
            values[np.isnan(rows["last"][places])] = np.nan
            found.append(places)
            worths.append(values)
        return np.concatenate(found), np.concatenate(worths)

    def _jittered(self, places: Places, since: Floats) -> Floats:
        """Stretch intervals, each by its own luck."""
        jitter = self.rows["jitter"][places].astype(np.float64)
        if not jitter.any():
            return since
        last = np.nan_to_num(self.rows["last"][places])
        luck = np.modf(np.abs(np.sin(last * 12.9898 + places * 78.233)) * 43758.5453)[0]
        return since / (1.0 + jitter * (2.0 * luck - 1.0))

    def _in_order(self, places: Places, values: Floats, most: int) -> Places:
        """Return elements in the order in which they should be polled: the best first, and some new ones."""
        rows = self.rows
        is_new = np.isnan(values)
        new, old = places[is_new], places[~is_new]
        new = new[np.lexsort((rows["added"][new], -rows["weight"][new]))]
        new = new[self._within_groups(rows["group"][new])][: 4 * most + 64]
        old = old[self._best(old, values[~is_new], 4 * most + 64)]
        if not (new.size and old.size):
            self._turn = 0
            return np.concatenate([new, old])
        return _by_turns(new, old, self._turn)

    def _best(self, places: Places, values: Floats, most: int) -> Places:
        """Return which are worth most, best first, with no more of a group than it may have.

        Of those that must be polled in any case, those that were polled longest ago come first.
        """
        count = min(most, values.size)
        if (overdue := np.isinf(values)).any():
            last = self.rows["last"][places]
            values = np.where(overdue, 1e290 * (1.0 + last.max() - last), values)
        while True:
            best = np.arange(values.size)
            if count < values.size:
                best = np.argpartition(-values, count - 1)[:count]
            best = best[np.lexsort((self.rows["id"][places[best]], -values[best]))]
            keep = self._within_groups(self.rows["group"][places[best]])
            if count >= values.size or np.count_nonzero(keep) >= most // 4:
                return best[keep]
            count = min(4 * count, values.size)

    def _within_groups(self, groups: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Tell which of a list are among as many of their group as may be handed out."""
        if not groups.size:
            return np.zeros(0, np.bool_)
        order = np.argsort(groups, kind="stable")
        ordered = groups[order]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        rank = np.empty(groups.size, np.int64)
        rank[order] = np.arange(groups.size) - np.repeat(starts, np.diff(np.r_[starts, groups.size]))
        most = np.zeros(int(ordered[-1]) + 1, np.int64)
        for number in ordered[starts].tolist():
            most[number] = self.pace.free_of(number)
        return rank < most[groups]

    def _set_price(self, places: Places, values: Floats, chosen: Places, end: float, *, short: bool) -> None:
        """Note the price, and when others are worth looking at again.

        At constant rates worth grows at most with a power of time, so it takes that long to reach the price.
        """
        known = np.isfinite(values)
        taken = np.isin(places, chosen)
        paid = values[known & taken]
        if paid.size:
            share = min(0.2 * _STEPS * paid.size / max(len(self.rows), 1), 0.5)
            self.price += (float(paid.min()) - self.price) * (share if self.price > 0 else 1.0)
        if short or self.price < 0.8 * self._marked:  # there is budget left, or polls are cheaper now
            self.rows.look_again()
            self._marked = self.price
            return
        self._marked = max(self._marked, self.price)
        rest = known & ~taken
        since = self.rows.since(places[rest], end)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            reach = 0.9 * (0.8 * self._marked / values[rest]) ** (1.0 / self._growth)
        soon = 0.1 * float(self.rows.learner.half_life.min())
        wait = np.clip((np.nan_to_num(reach, nan=1.0) - 1.0) * since, 0.0, soon)
        wait = np.minimum(wait, np.maximum(self.rows["max_age"][places[rest]] - since, 0.0))
        self.rows["look"][places[rest]] = end + wait


def _by_turns(first: Places, second: Places, turn: int) -> Places:
    """Put two lists together by turns, as long as there are both; the first begins unless it has had more.

    >>> _by_turns(np.array([1, 2, 3]), np.array([7, 8]), 0).tolist()
    [1, 7, 2, 8, 3]
    >>> _by_turns(np.array([1, 2, 3]), np.array([7, 8]), -1).tolist()
    [7, 1, 8, 2, 3]
    """
    place = np.concatenate([2 * np.arange(first.size) + (turn < 0), 2 * np.arange(second.size) + (turn >= 0)])
    return np.concatenate([first, second]).astype(np.intp)[np.argsort(place, kind="stable")]
