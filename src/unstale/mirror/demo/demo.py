"""A demonstration: a site that changes by itself, a mirror of it, and the truth beside what the mirror says.

The site is real but small, on loopback, and fast: a page changes in a minute as often as others in a week.
Pages change at very different rates, half of them not by Poisson processes, and some are read far more often
than others. The mirror knows the weights of pages, and that a page changes about once in a round of polls;
the rest it must learn.

The demonstration knows all changes. It computes how fresh the copies are in truth, and runs other policies on
the same changes: whenever the mirror polls, each of them makes a poll of its own choice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from math import gamma, isclose, isnan, log, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.estimation.learning.learner import Learner
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.config.file import load
from unstale.mirror.contained import Children, LimitExceeded
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.engine.events import Event
from unstale.mirror.engine.planner_state import PlannerState, packed
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import New
from unstale.planning import plan
from unstale.planning.allocation import Policy
from unstale.processes import Lognormal, Periodic, Poisson, Process, Weibull
from unstale.simulation import align, zipf

from .rivals import POLICIES, Rival, RivalPlan, rival_plans
from .site import ChangingSite

_MEDIAN_RATE_PER_SECOND, _LOG_RATE_DEVIATION = 0.1, 1.1
"""The median rate of changes of a page, and the standard deviation of the logarithms of rates."""
_AUDIENCE_SKEW = 0.8
"""Exponent of Zipf's law, by which the audience reads pages."""
_SHARES_OF_LAWS = (0.5, 0.15, 0.2, 0.15)
"""Shares of pages that change at any time, in bursts, by the clock, and irregularly."""
_BURST_SHAPE, _IRREGULAR_LOG_DEVIATION = 0.7, 0.8
"""Shape of the gaps in bursts (Weibull), and standard deviation of the logarithms of irregular ones."""
_POLLS_PER_PAGE_AND_SECOND = 0.14
"""Polls per second, for each page."""
_WARM_UP_ROUNDS = 3.0
"""Rounds of polls before the measurement begins; at most half of the time."""
_READS_PER_SECOND = 20.0
"""Copies that the audience reads in a second, on average."""
_TOML = """\
[mirror]
store = "mirror.db"
budget = "{budget!r}/s"
reserve = "0"

[http]
robots = false

[[group]]
match = "*"
spacing = "0s"
concurrency = 20
"""
_FOLLOW_EVERY_SECONDS, _LOOK_SECONDS = 0.15, 1.0
"""After this time the truth is computed again, and recorded; the latter by the mirror, once it samples."""
_OUTCOMES_THAT_SAW = ("new", "changed", "unchanged")

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Moment:
    """How fresh copies were at a moment: as the mirror estimates, in truth, and under other policies."""

    time: float
    estimated: float
    """nan while the mirror gets its first copies, and cannot tell yet."""
    true: float
    beside: Mapping[str, float]
    """nan while a policy has no plan yet."""
    polls: int
    """Polls of the mirror since the start."""
    copies: int
    """Pages of which the mirror has a copy."""


@dataclass(frozen=True)
class DemoSummary:
    """The result; freshness is the mean over the time after the warm-up, nan if that was too short."""

    seconds: float
    warm_up: float
    pages: int
    changes: int
    polls: int
    allowed: float
    """Polls that the budget allowed."""
    estimated: float
    true: float
    beside: Mapping[str, float]
    planned: float
    """The freshness that the budget buys on average if the laws of changes are known."""

    @property
    def short(self) -> bool:
        """Whether the demonstration ended before the mirror could learn much."""
        return self.warm_up >= 0.5 * self.seconds

    @property
    def difference(self) -> float:
        """By how much the mirror overestimates its freshness."""
        return self.estimated - self.true


def changing_pages(count: int, seed: int) -> tuple[list[Process], Floats]:
    """Return the laws of changes of pages, in seconds, and the weights of pages: 1 on average.

    >>> laws, weights = changing_pages(500, seed=1)
    >>> len(laws), round(float(weights.mean()), 6), round(float(weights.max()))
    (500, 1.0, 39)
    """
    rng = np.random.default_rng(seed)
    rates = rng.lognormal(log(_MEDIAN_RATE_PER_SECOND), _LOG_RATE_DEVIATION, count)
    weights = align(count * zipf(count, _AUDIENCE_SKEW), rates, "shuffled", rng)
    kinds = rng.choice(len(_SHARES_OF_LAWS), count, p=_SHARES_OF_LAWS)
    laws = [_law(kind, rate) for kind, rate in zip(kinds.tolist(), rates.tolist(), strict=True)]
    return laws, weights


def _law(kind: int, rate: float) -> Process:
    """Return a law of changes with this rate."""
    laws: tuple[Callable[[], Process], ...] = (
        lambda: Poisson(rate),
        lambda: Weibull(_BURST_SHAPE, 1.0 / (rate * gamma(1.0 + 1.0 / _BURST_SHAPE))),
        lambda: Periodic(1.0 / rate),
        lambda: Lognormal(-log(rate) - 0.5 * _IRREGULAR_LOG_DEVIATION**2, _IRREGULAR_LOG_DEVIATION),
    )
    return laws[kind]()


def _expectation(round_: float) -> bytes:
    """Return what the mirror knows beforehand: a page changes about once in a round.

    Without this the mirror would expect it of rounds of an hour or more, and would learn better slowly.
    """
    return packed({**Learner(0, round=round_).shared, "heard": np.float64(1e-9)})


_planners = Children(1, memory=4 << 30, seconds=900.0)


class Demo:
    """A site, a mirror of it in a folder, and other policies that poll beside it.

    Parameters
    ----------
    folder
        Where the mirror keeps its file, its store and its copies.
    pages
        The number of pages of the site.
    budget
        Polls per second.
    clock
        The time of the site and of the mirror.
    seed
        Decides how the pages change.
    tick
        With a simulated clock: how often the mirror plans, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        *,
        pages: int = 500,
        budget: float | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        tick: float | None = None,
    ) -> None:
        self.clock: Clock = RealClock() if clock is None else clock
        self._laws, weights = changing_pages(whole("pages", pages, at_least=1), whole("seed", seed))
        self.budget = (
            round(_POLLS_PER_PAGE_AND_SECOND * pages, 3)
            if budget is None
            else scalar("budget", budget, above=0)
        )
        self.site = ChangingSite(self._laws, clock=self.clock, seed=seed, weights=weights)
        self.moments: list[Moment] = []
        """One for each second."""
        self._rivals: dict[str, Rival] = {name: Rival(self.site) for name in POLICIES}
        """The other policies; their plans take a while where they have to be compiled."""
        self._planned = nan
        """The freshness that the budget buys if the laws are known; nan while the optimum is planned."""
        self._polling, self._estimates = asyncio.Event(), asyncio.Event()
        """Set as soon as the mirror polls, and as soon as it estimates how fresh it is."""
        self._held: Ids = np.full(pages, -1, np.int64)
        self._answered: list[float] = []
        """Times of polls of the mirror that the other policies have not made yet."""
        self._truth: dict[str, float] = {}
        """The true freshness, which the mirror cannot know; it is kept with the samples of the mirror."""
        self._polls, self._allowed, self._paying = 0, 0.0, self.budget
        self._began = self._looked = self._followed = self._next_look = self.clock.now()
        self._audience = np.random.default_rng([seed, 1])
        self._places: dict[str, int] = {}
        self._ids: Ids = np.empty(0, np.int64)
        self._tell: Callable[[Moment], None] | None = None
        self.mirror = self._new_mirror(folder, tick)

    @property
    def round(self) -> float:
        """Seconds in which the budget pays for a poll of each page."""
        return len(self.site) / self.budget

    async def run(
        self,
        length: float | None = None,
        *,
        on_start: Callable[[str], None] | None = None,
        on_moment: Callable[[Moment], None] | None = None,
    ) -> DemoSummary:
        """Serve the site and mirror it for so many seconds, or until stopped; then close the mirror.

        ``on_start`` gets the address of the site, ``on_moment`` gets a `Moment` once a second.
        """
        self._tell = on_moment
        planning = asyncio.create_task(self._plan_rivals())
        if not isinstance(self.clock, RealClock):
            await planning
        async with AsyncExitStack() as stack:
            stack.callback(planning.cancel)
            stack.callback(self.mirror.close)
            url = await stack.enter_async_context(self.site.serving())
            self._add(url)
            if on_start is not None:
                on_start(url)
            self._began = self._looked = self.clock.now()
            end = None if length is None else self._began + length
            await self.mirror.arun(end, on_event=self._hear)
            return self.summary()

    async def _plan_rivals(self) -> None:
        """Plan for the other policies; the optimum, which takes longest, after all that the mirror needs."""
        if real := isinstance(self.clock, RealClock):
            await self._polling.wait()
        *quick, slow = sorted(POLICIES, key=lambda name: name == "optimal")
        for name, one in zip(quick, await self._plans(quick), strict=True):
            self._rivals[name].follow(one.frequencies)
        if real:
            await self._estimates.wait()
        (best,) = await self._plans([slow])
        self._planned = best.freshness
        self._rivals[slow].follow(best.frequencies)

    async def _plans(self, names: list[Policy]) -> list[RivalPlan]:
        """Plan for some policies; in real time in another process, not to be in the way of polls."""
        given = (self._laws, self.budget, self.site.weights, names)
        if isinstance(self.clock, RealClock):
            with suppress(LimitExceeded):
                return await _planners.run(rival_plans, *given)
        return rival_plans(*given)

    def _new_mirror(self, folder: Path, tick: float | None) -> Mirror:
        """Make a mirror without pages; commands find it in the folder."""
        file = folder / "mirror.toml"
        file.write_text(_TOML.format(budget=self.budget), "utf-8")
        config = load(file)
        mirror = Mirror(
            config.store,
            settings=config.settings,
            copies=config.copies,
            clock=self.clock,
            tick=tick,
            sample_every=1.0,
            beside=lambda _: self._truth,
        )
        with mirror.store.begin() as t:
            t.keep({"learner": _expectation(self.round)})
        return mirror

    def _add(self, url: str) -> None:
        """Add all pages, with their weights."""
        discovery = Discovery(self.mirror.settings, self.mirror.sources)
        additions = [
            discovery.addition(New(f"{url}/page/{page}"), {"weight": weight})
            for page, weight in enumerate(self.site.weights.tolist())
        ]
        self._places = {one.key: page for page, one in enumerate(additions)}
        with self.mirror.store.begin() as t:
            t.add(additions, self.clock.now())
            found = t.find(list(self._places))
        self._ids = np.array([found[key].id for key in self._places], np.int64)

    # --- what happens

    def _hear(self, event: Event) -> None:
        """Handle an event of the mirror; at a tick, compare its estimate with the truth."""
        if event.time >= self._followed + _FOLLOW_EVERY_SECONDS:
            self._follow(event.time)
        if event.kind == "poll" and event.data["outcome"] in _OUTCOMES_THAT_SAW:
            if (page := self._places.get(event.key)) is not None:
                time = float(self.site.answered[page])
                self._held[page] = self.site.version(page, time)
                self._answered.append(time)
                self._polls += 1
                self._polling.set()
        elif event.kind == "tick" and "freshness" in event.data:
            self._estimates.set()
            self._look(event.time, float(event.data["freshness"]))
        elif event.kind == "tick" and not self._estimates.is_set() and event.time >= self._next_look:
            self._look(event.time, nan)

    def _follow(self, now: float) -> None:
        """Let the other policies poll as often as the mirror, and compute how fresh copies are."""
        times, self._answered = self._answered, []
        for rival in self._rivals.values():
            rival.poll(times)
        self._followed = now
        shown = [(name, self._rivals[name]) for name in ("uniform", "proportional")]
        copies = {"true": self._held} | {name: one.held for name, one in shown if one.has_caught_up}
        self._truth = {name: self.site.true_freshness(held, now) for name, held in copies.items()}

    def _look(self, now: float, estimated: float) -> None:
        """Record the estimate of the mirror, the truth, and the freshness of the other policies."""
        self._follow(now)
        self._next_look = now + _LOOK_SECONDS
        beside = {name: rival.look(now) for name, rival in self._rivals.items()}
        copies = int(np.count_nonzero(self._held >= 0))
        moment = Moment(now, estimated, self._truth["true"], beside, self._polls, copies)
        self.moments.append(moment)
        self._read(now)
        if self._tell is not None:
            self._tell(moment)

    def _read(self, now: float) -> None:
        """Let the audience read some copies, and read the budget, which a user may have changed."""
        share = self.site.weights / self.site.weights.sum()
        asked = self._audience.choice(share.size, self._audience.poisson(_READS_PER_SECOND), p=share)
        pages, counts = np.unique(asked[self._held[asked] >= 0], return_counts=True)
        with self.mirror.store.begin() as t:
            t.read(dict(zip(self._ids[pages].tolist(), counts.tolist(), strict=True)), now)
            budget = PlannerState.read(t.state()).in_force(self.mirror.settings).budget
        self._pay(now, self.budget if budget is None else budget)

    def _pay(self, now: float, budget: float) -> None:
        self._allowed += (now - self._looked) * budget
        self._looked, self._paying = now, budget

    def summary(self) -> DemoSummary:
        """Return the result so far."""
        end = self.clock.now()
        self._pay(end, self._paying)
        seconds = end - self._began
        warm_up = min(_WARM_UP_ROUNDS * self.round, 0.5 * seconds)
        counted = [
            place
            for place, one in enumerate(self.moments)
            if one.time >= self._began + warm_up and not isnan(one.estimated)
        ]

        def mean(values: list[float]) -> float:
            """Return the mean over the moments that count; nan if there are none, or not all are known."""
            known = counted and counted[-1] < len(values)
            return float(np.mean([values[place] for place in counted])) if known else nan

        return DemoSummary(
            seconds=seconds,
            warm_up=warm_up,
            pages=len(self.site),
            changes=int((self.site.versions(end) - self.site.versions(self._began)).sum()),
            polls=self._polls,
            allowed=self._allowed,
            estimated=mean([one.estimated for one in self.moments]),
            true=mean([one.true for one in self.moments]),
            beside={name: mean(rival.freshness) for name, rival in self._rivals.items()},
            planned=self._bought(self._allowed / seconds),
        )

    def _bought(self, budget: float) -> float:
        """Return the freshness that a budget buys if the laws are known; nan if that is not compiled yet."""
        if isnan(self._planned) or isclose(budget, self.budget, rel_tol=0.02):
            return self._planned
        return plan(self._laws, budget, weights=self.site.weights).freshness
