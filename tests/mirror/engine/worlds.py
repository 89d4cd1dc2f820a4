"""A source whose elements do as tests say, and a mirror of it in simulated time."""

import asyncio
from dataclasses import dataclass, field
from math import inf

import numpy as np

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.housekeeper import TIDY_SECONDS
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import Found, New

DAY = 86400.0
START = 1.7e9


@dataclass
class World:
    """Elements by key: what they contain, or an outcome or an error; all polls are noted."""

    clock: SimulatedClock
    content: dict = field(default_factory=dict)
    polls: list = field(default_factory=list)
    running: int = 0
    most: int = 0
    takes: float = 0.0

    def key(self, text, _):
        return text

    def group(self, key, _):
        return "group:" + key.split(":")[1].split("/")[0]

    async def poll(self, known, _):
        self.polls.append((self.clock.now(), known.key))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if self.takes:
                await self.clock.pause(self.clock.now() + self.takes)
            else:
                await asyncio.sleep(0)
        finally:
            self.running -= 1
        content = self.content.get(known.key, b"something")
        if callable(content):
            content = content(self.clock.now())
        if isinstance(content, Exception):
            raise content
        if isinstance(content, Found):
            return content
        return Found("changed", "200 OK", body=content, traffic=len(content) + 200)

    async def close(self):
        pass

    def times(self, key):
        return [time for time, name in self.polls if name == key]


def make(
    folder,
    *,
    store=None,
    copies=None,
    tick=600.0,
    clock=None,
    content=None,
    sample_every=inf,
    tidy_every=None,
    beside=None,
    **settings,
):
    """Return a mirror of a world, and the world; it looks after its house in one tick of six."""
    clock = SimulatedClock(START) if clock is None else clock
    world = World(clock, content or {})
    settings.setdefault("budget", 1000 / DAY)
    settings.setdefault("reserve", 0.0)
    settings.setdefault("groups", (GroupLimit("*", concurrency=1000),))
    mirror = Mirror(
        store or folder / "mirror.db",
        settings=Settings(**settings),
        copies=copies,
        clock=clock,
        sources={"python": world},
        tick=tick,
        sample_every=sample_every,
        tidy_every=tidy_every or max(TIDY_SECONDS, 6 * (tick or 0.0)),
        beside=beside,
    )
    return mirror, world


def add(mirror, *keys, **given):
    return mirror.add_many([New(f"python:{key}") for key in keys], given)


def run(mirror, seconds, **options):
    mirror.run(mirror.clock.now() + seconds, **options)


def events_of(mirror, seconds):
    """Run a mirror and return its events: each turn then tells how fresh copies are, which takes a while."""
    events = []
    run(mirror, seconds, on_event=events.append)
    return events


def evenly_polled(changes, frequencies, days, warm, *, draws=8, seed=0):
    """Yield, with other phases each time, when elements are fresh that are polled evenly as often as this.

    So a prediction of the library is had at the changes of a test: at others, of few elements and days, it
    would be some points more or less by luck.
    """
    rng, at = np.random.default_rng(seed), np.linspace(warm, days, 3000, endpoint=False)
    for _ in range(draws):
        fresh = np.empty((len(changes), at.size), bool)
        for i, often in enumerate(np.maximum(frequencies, 0.01).tolist()):
            polls = np.concatenate([[0.0], np.arange(rng.uniform(), days * often + 1.0) / often])
            last = polls[np.searchsorted(polls, at, "right") - 1]
            fresh[i] = np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)
        yield fresh
