"""The poll runner by itself: it asks nobody what a lease must keep to."""

import asyncio
from dataclasses import replace

import pytest

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.poll_runner import PollRunner
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Known
from unstale.mirror.store.contract import Lease, Slot
from unstale.mirror.store.copies import Copies

START = 1.7e9


class SetClock(SimulatedClock):
    """A simulated clock that somebody sets."""

    def set(self, by):
        self._now += by


class Quiet:
    """A source whose polls take as long as tests say, and that can be warmed up."""

    def __init__(self, clock, takes=0.0):
        self.clock, self.takes, self.warm = clock, takes, 0
        self.running = self.most = 0
        self.during = lambda: None

    def warm_up(self):
        self.warm += 1

    def key(self, text, _):
        return text

    def group(self, key, _):
        return key

    async def poll(self, known, terms):  # noqa: ARG002
        self.running += 1
        self.most = max(self.most, self.running)
        self.during()
        await self.clock.pause(self.clock.now() + self.takes)
        self.running -= 1
        return Found("unchanged", "the same")

    async def close(self):
        pass


def lease(element, *, last=START - 100.0, start=START, late=10.0, **limits):
    slot = Slot(element, start, late, 1, 0.5, planned=True, cost=1.0, last=last, **limits)
    return Lease(slot, Known(f"key {element}"), "quiet")


def run(tmp_path, source, clock, leases):
    finished = []

    async def main():
        runner = PollRunner(
            {"quiet": source}, Copies(tmp_path), Settings(budget=1.0), clock, finished=finished.append,
            trouble=lambda error: pytest.fail(repr(error)), copied=lambda began: None,  # noqa: ARG005
        )  # fmt: skip
        source.runner = runner
        runner.take(leases)
        await runner.finish()

    asyncio.run(main())
    return finished


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_no_more_polls_of_a_group_run_than_their_leases_say(tmp_path, concurrency):
    clock = SimulatedClock(START)
    source = Quiet(clock, takes=1.0)
    leases = [lease(number, concurrency=concurrency) for number in range(5)]
    finished = run(tmp_path, source, clock, leases)
    assert source.most == concurrency
    assert all(one.found is not None for one in finished)
    assert sorted(one.lease.slot.element for one in finished) == [0, 1, 2, 3, 4]


def test_what_cannot_begin_in_time_is_given_back(tmp_path):
    clock = SimulatedClock(START)
    source = Quiet(clock, takes=20.0)
    finished = run(tmp_path, source, clock, [lease(number, concurrency=1) for number in range(2)])
    assert {one.lease.slot.element: one.found is not None for one in finished} == {0: True, 1: False}


@pytest.mark.parametrize("by", [-7200.0, 7200.0])
def test_a_poll_that_runs_while_the_clock_is_set_took_as_long_as_it_took(tmp_path, by):
    clock = SetClock(START)
    source = Quiet(clock, takes=3.0)

    def during():
        clock.set(by)
        source.runner.move(by)

    source.during = during
    (finished,) = run(tmp_path, source, clock, [lease(1)])
    assert finished.found is not None
    assert finished.began == START + by
    assert finished.seconds == pytest.approx(3.0)
    assert finished.began - finished.lease.slot.last == pytest.approx(100.0)
    assert finished.lease.slot.start == START  # by which the store knows it


def test_what_has_not_begun_when_the_clock_is_set_is_given_back(tmp_path):
    clock = SetClock(START)
    source = Quiet(clock, takes=1.0)

    def during():
        clock.set(3600.0)
        source.runner.move(3600.0)

    source.during = during
    later = [lease(number, start=START + 50.0) for number in (2, 3)]
    finished = run(tmp_path, source, clock, [lease(1), *later])
    assert {one.lease.slot.element for one in finished if one.found is None} == {2, 3}


def test_only_sources_that_are_named_and_can_be_are_warmed_up(tmp_path):
    clock = SimulatedClock(START)
    warm, other = Quiet(clock), Quiet(clock)

    class Plain:
        key = group = poll = close = None

    class Failing(Quiet):
        def warm_up(self):
            raise RuntimeError("its polls will tell")

    async def main():
        sources = {"warm": warm, "other": other, "plain": Plain(), "failing": Failing(clock)}
        runner = PollRunner(
            sources, Copies(tmp_path), Settings(budget=1.0), clock, finished=print, trouble=print,
            copied=print,
        )  # fmt: skip
        runner.warm_up({"warm", "plain", "failing", "nowhere"})

    asyncio.run(main())
    assert (warm.warm, other.warm) == (1, 0)


def test_a_lease_is_a_value():
    one = lease(1)
    assert one == lease(1)
    assert hash(one.slot) == hash(lease(1).slot)
    with pytest.raises(AttributeError):
        one.source = "another"
    assert replace(one, source="another") != one
