"""A fleet is faster by its workers, where answers are slow and time is simulated."""

import asyncio
from contextlib import ExitStack

import pytest

from unstale.mirror.clock import SimulatedClock

from .worlds import START, add, make

SETTLING, SECONDS, TAKES = 10.0, 10.0, 0.1


def polls_per_second(folder, url, workers, concurrency):
    """Run workers that share a store, a clock and a site; return how many polls a second they make."""
    clock = SimulatedClock(START)
    with ExitStack() as stack:
        fleet = []
        for _ in range(workers):
            mirror, world = make(
                folder, store=url, copies=folder / "copies", tick=None, clock=clock, budget=1e6,
                concurrency=concurrency,
            )  # fmt: skip
            world.takes = TAKES
            fleet.append((stack.enter_context(mirror), world))
        first = fleet[0][0]
        if not first.status().elements:
            add(first, *(f"host{i % 40}/{i}" for i in range(2000)))

        async def run():
            end = clock.now() + SETTLING + SECONDS
            await asyncio.gather(*(mirror.arun(end) for mirror, _ in fleet))

        asyncio.run(run())
        times = [time - START for _, world in fleet for time, _ in world.polls]
        return sum(SETTLING <= time < SETTLING + SECONDS for time in times) / SECONDS


@pytest.mark.long
def test_workers_add_up(postgres_url, tmp_path):
    concurrency = 2
    one, two, many = (polls_per_second(tmp_path, postgres_url, n, concurrency) for n in (1, 2, 16))
    assert one > 0.8 * concurrency / TAKES
    assert two > 1.6 * one
    assert many > 12 * one
