"""Cells that share a budget, in simulated time: their prices, and how fresh they are together."""

from functools import partial
from math import inf

import numpy as np
import pytest

from mirror.cells.test_cells import make
from mirror.engine.worlds import DAY, START, World
from unstale.mirror.cells.layout import Cell
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.source import New

CELLS, DAYS, MEASURED_FROM = 4, 8.0, 4.0
CHANGES_PER_DAY = (0.1, 0.6, 3.0, 10.0)
"""Of the elements of each cell, on average."""
EACH = (40, 20, 40, 20)
"""Elements of each of the three groups of a cell."""


def contents(rng):
    """Return the moments at which elements change, by key."""
    found = {}
    for number in range(CELLS):
        cell = Cell(number, CELLS, number, "", "", "")
        groups = [group for group in range(60) if cell.has(f"group:g{group}")][:3]
        for key in (f"python:g{group}/{i}" for group in groups for i in range(EACH[number])):
            rate = CHANGES_PER_DAY[number] * rng.gamma(0.6, 1.0 / 0.6) + 1e-3
            gaps = rng.exponential(1.0 / rate, int(rate * 2 * DAYS + 50))
            found[key] = START + DAY * np.cumsum(gaps)
    return found


def content(moments, now):
    return str(np.searchsorted(moments, now)).encode()


def freshness(changes, polls):
    """Return for which part of the time measured copies were what elements were."""
    moments = START + DAY * np.linspace(MEASURED_FROM, DAYS, 2000, endpoint=False)
    last = {key: [START - 1.0] for key in changes}
    for time, key in polls:
        last[key].append(time)
    found = []
    for key, times in changes.items():
        polled = np.array(last[key])
        copied = polled[np.searchsorted(polled, moments, "right") - 1]
        found.append(np.mean(np.searchsorted(times, copied) == np.searchsorted(times, moments)))
    return float(np.mean(found))


@pytest.mark.long
@pytest.mark.parametrize(("reserve", "apart"), [(0.0, 1.3), (DAY / 2, 1.7)])
def test_cells_come_near_one_price_and_are_as_fresh_as_one_planner_for_all(tmp_path, reserve, apart):
    changes = contents(np.random.default_rng(7))
    elements = {key: partial(content, moments) for key, moments in changes.items()}
    budget = 2.0 * len(changes) / DAY
    clock = SimulatedClock(START, turns=20)
    world = World(clock, dict(elements))
    with Mirror(
        tmp_path / "one.db",
        settings=Settings(budget=budget, reserve=reserve, groups=(GroupLimit("*", concurrency=1000),)),
        clock=clock,
        sources={"python": world},
        tick=3600.0,
        sample_every=inf,
        tidy_every=DAY,
    ) as one:
        one.add_many([New(key) for key in changes], {})
        one.run(START + DAYS * DAY)
    alone = freshness(changes, world.polls)

    mirror, world = make(tmp_path / "cells.db", tmp_path, CELLS, budget=budget, reserve=reserve, every=3600.0)
    world.content = elements
    prices = {}

    def look(event):
        if event.time > START + MEASURED_FROM * DAY:
            prices[event.time] = [state.price for state in mirror.directory.states()]

    with mirror:
        mirror.add_many([New(key) for key in changes], {})
        mirror.run(START + DAYS * DAY, on_event=look)
        shares = [state.share for state in mirror.directory.states()]
    means = np.exp(np.log(list(prices.values())).mean(axis=0))
    together = freshness(changes, world.polls)
    spent = sum(time >= START + MEASURED_FROM * DAY for time, _ in world.polls) / DAY
    spent /= budget * (DAYS - MEASURED_FROM)
    print(  # noqa: T201  (shown with -s)
        f"one {alone:.4f}, cells {together:.4f}; prices {means}, apart by {means.max() / means.min():.3f}; "
        f"parts {np.round(shares, 3)}; spent {spent:.3f}"
    )
    assert max(shares) > 2.0 * min(shares)
    assert means.max() / means.min() < apart
    assert together > alone - 0.01
    assert spent > 0.9
