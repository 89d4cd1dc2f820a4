"""A demonstration: a site that changes by itself, a mirror of it, and the truth beside what the mirror says.

The site is real but small, on loopback, and fast: a page lives through in a minute what others do in a week.
Pages change at very different rates, half of them not as Poisson would have it, and some are wanted far more
than others. The mirror is told what is wanted and that there is about one change of a page in a round of
polls; the rest it must learn.

The demonstration knows everything. It says how fresh the copies are in truth, and plays other policies on the
very same changes: whenever the mirror polls, each of them makes a poll of its own choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from itertools import chain
from math import gamma, log, nan
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats, scalar, whole
from unstale.estimation.learning.learner import Learner
from unstale.mirror.clock import Clock, RealClock
from unstale.mirror.config.file import load
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.engine.events import Event
from unstale.mirror.engine.planner_state import PlannerState, packed
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import New
from unstale.planning import Plan, plan
from unstale.planning.allocation import Policy
from unstale.processes import Lognormal, Periodic, Poisson, Process, Weibull
from unstale.schedule import Schedule
from unstale.simulation import align, zipf

from .site import ChangingSite

__all__ = ["POLICIES", "Demo", "Moment", "Summary", "changing_pages"]

POLICIES: tuple[Policy, ...] = ("optimal", "uniform", "proportional")
"""Who polls beside the mirror; the first and the last know all rates."""
_RATE, _SPREAD = 0.1, 1.1
"""Changes per second of a page in the middle, and the standard deviation of the logarithms of rates."""
_SKEW = 0.8
"""Of the audience, by Zipf's law."""
_KINDS = (0.5, 0.15, 0.2, 0.15)
"""Shares of pages that change at any time, in bursts, by the clock, and irregularly."""
_BURSTY, _IRREGULAR = 0.7, 0.8
"""Shape of the gaps in bursts (Weibull), and standard deviation of the logarithms of irregular ones."""
_BUDGET = 0.14
"""Polls per second, for each page."""
_WARM_UP = 3.0
"""Rounds after which is measured; at most half of the time."""
_READS = 20.0
"""Copies that the audience reads in a second, on average."""
_TOML = """\
[mirror]
store = "mirror.db"
budget = "{budget!r}/s"

[http]
robots = false

[[group]]
match = "*"
spacing = "0s"
concurrency = 20
"""
_OFTEN = 0.15
"""Seconds after which the truth is looked at again."""
_SAW = ("new", "changed", "unchanged")

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Moment:
    """How fresh copies were at a moment: as the mirror estimates, in truth, and those of the others."""

    time: float
    estimated: float
    true: float
    beside: Mapping[str, float]
    polls: int
    """Of each, since the start."""


@dataclass(frozen=True)
class Summary:
    """What came of it; freshness is the mean over the time after the warm-up, nan if it was too short."""

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
    """What the budget buys on average if the laws of changes are known."""

    @property
    def short(self) -> bool:
        """Whether it has ended before the mirror could learn much."""
        return self.warm_up >= 0.5 * self.seconds

    @property
    def difference(self) -> float:
        """By how much the mirror believes to be fresher than it is."""
        return self.estimated - self.true


def changing_pages(count: int, seed: int) -> tuple[list[Process], Floats]:
    """Return how pages change, in seconds, and how much each is wanted: 1 on average.

    >>> laws, weights = changing_pages(500, seed=1)
    >>> len(laws), round(float(weights.mean()), 6), round(float(weights.max()))
    (500, 1.0, 39)
    """
    rng = np.random.default_rng(seed)
    rates = rng.lognormal(log(_RATE), _SPREAD, count)
    weights = align(count * zipf(count, _SKEW), rates, "shuffled", rng)
    kinds = rng.choice(len(_KINDS), count, p=_KINDS)
    laws = [_law(kind, rate) for kind, rate in zip(kinds.tolist(), rates.tolist(), strict=True)]
    return laws, weights


def _law(kind: int, rate: float) -> Process:
    """Return a law of changes with this rate."""
    laws: tuple[Callable[[], Process], ...] = (
        lambda: Poisson(rate),
        lambda: Weibull(_BURSTY, 1.0 / (rate * gamma(1.0 + 1.0 / _BURSTY))),
        lambda: Periodic(1.0 / rate),
        lambda: Lognormal(-log(rate) - 0.5 * _IRREGULAR**2, _IRREGULAR),
    )
    return laws[kind]()


def _expectation(round_: float) -> bytes:
    """Return what the mirror knows beforehand: that a page changes once in a round, more or less.

    By itself it would expect that only of rounds of an hour or more, and take a while to think otherwise.
    """
    return packed({**Learner(0, round=round_).shared, "heard": np.float64(1e-9)})


class _Rival:
    """Polls whenever the mirror does: each page once, the most wanted first, and then at its frequencies."""

    def __init__(self, site: ChangingSite, frequencies: Floats) -> None:
        first = np.argsort(-site.weights, kind="stable").tolist()
        self._pages = chain(first, (page for _, page in Schedule(frequencies)))
        self._site = site
        self.held: Ids = np.full(len(site), -1, np.int64)
        """Which version it has of each page."""

    def poll(self, times: Iterable[float]) -> None:
        """Poll at these moments."""
        for time in times:
            page = next(self._pages)
            self.held[page] = self._site.version(page, time)


class Demo:
    """A site, a mirror of it in a folder, and others who poll beside it.

    ``pages`` and ``seed`` make the site, ``budget`` is in polls per second. With a simulated clock, ``tick``
    is how often the mirror plans, in seconds.
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
        self.budget = round(_BUDGET * pages, 3) if budget is None else scalar("budget", budget, above=0)
        self.site = ChangingSite(self._laws, clock=self.clock, seed=seed, weights=weights)
        self.moments: list[Moment] = []
        """All of them, one for each second."""
        self._rivals = {name: _Rival(self.site, self._plan(name).frequencies) for name in POLICIES}
        self._held: Ids = np.full(pages, -1, np.int64)
        self._answered: list[float] = []
        """When polls were answered that the others have not made yet."""
        self._truth: dict[str, float] = {}
        """What the mirror cannot know, to be kept with what it says of itself."""
        self._polls, self._allowed, self._paying = 0, 0.0, self.budget
        self._began = self._looked = self._followed = self.clock.now()
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
    ) -> Summary:
        """Serve the site and mirror it for so many seconds, or until stopped; the mirror is closed then.

        ``on_start`` is told the address of the site, ``on_moment`` once a second how fresh all copies are.
        """
        self._tell = on_moment
        async with AsyncExitStack() as stack:
            stack.callback(self.mirror.close)
            url = await stack.enter_async_context(self.site.serving())
            self._add(url)
            if on_start is not None:
                on_start(url)
            self._began = self._looked = self.clock.now()
            end = None if length is None else self._began + length
            await self.mirror.arun(end, on_event=self._hear)
            return self.summary()

    def _plan(self, policy: Policy, budget: float | None = None) -> Plan:
        given = self.budget if budget is None else budget
        return plan(self._laws, given, weights=self.site.weights, policy=policy)

    def _new_mirror(self, folder: Path, tick: float | None) -> Mirror:
        """Make a mirror that knows no pages yet; commands find it in the folder."""
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
        """Take in what the mirror did; when it says how fresh it is, see how fresh it is."""
        if event.time >= self._followed + _OFTEN:
            self._follow(event.time)
        if event.kind == "poll" and event.data["outcome"] in _SAW:
            if (page := self._places.get(event.key)) is not None:
                time = float(self.site.answered[page])
                self._held[page] = self.site.version(page, time)
                self._answered.append(time)
                self._polls += 1
        elif event.kind == "tick" and "freshness" in event.data:
            self._look(event.time, float(event.data["freshness"]))

    def _follow(self, now: float) -> dict[str, float]:
        """Let the others poll as often as the mirror has; return how fresh the copies of each are."""
        times, self._answered = self._answered, []
        beside: dict[str, float] = {}
        for name, rival in self._rivals.items():
            rival.poll(times)
            beside[name] = self.site.true_freshness(rival.held, now)
        true = self.site.true_freshness(self._held, now)
        self._followed = now
        self._truth = {"true": true, **{name: beside[name] for name in ("uniform", "proportional")}}
        return beside

    def _look(self, now: float, estimated: float) -> None:
        """Compare what the mirror says with the truth, and with the others."""
        beside = self._follow(now)
        moment = Moment(now, estimated, self._truth["true"], beside, self._polls)
        self.moments.append(moment)
        self._read(now)
        if self._tell is not None:
            self._tell(moment)

    def _read(self, now: float) -> None:
        """Let the audience read some copies; and see what the budget is, which somebody may have changed."""
        share = self.site.weights / self.site.weights.sum()
        asked = self._audience.choice(share.size, self._audience.poisson(_READS), p=share)
        pages, counts = np.unique(asked[self._held[asked] >= 0], return_counts=True)
        with self.mirror.store.begin() as t:
            t.read(dict(zip(self._ids[pages].tolist(), counts.tolist(), strict=True)), now)
            budget = PlannerState.read(t.state()).in_force(self.mirror.settings).budget
        self._pay(now, self.budget if budget is None else budget)

    def _pay(self, now: float, budget: float) -> None:
        self._allowed += (now - self._looked) * budget
        self._looked, self._paying = now, budget

    def summary(self) -> Summary:
        """Return what has come of it so far."""
        end = self.clock.now()
        self._pay(end, self._paying)
        seconds = end - self._began
        warm_up = min(_WARM_UP * self.round, 0.5 * seconds)
        counted = [one for one in self.moments if one.time >= self._began + warm_up]

        def mean(values: Iterable[float]) -> float:
            return float(np.mean(list(values))) if counted else nan

        return Summary(
            seconds=seconds,
            warm_up=warm_up,
            pages=len(self.site),
            changes=int((self.site.versions(end) - self.site.versions(self._began)).sum()),
            polls=self._polls,
            allowed=self._allowed,
            estimated=mean(one.estimated for one in counted),
            true=mean(one.true for one in counted),
            beside={name: mean(one.beside[name] for one in counted) for name in POLICIES},
            planned=self._plan("optimal", self._allowed / seconds).freshness if counted else nan,
        )
