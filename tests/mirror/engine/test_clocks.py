"""Simulated time stands still while something is done, and skips what is idle."""

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.clock import ClockReading, RealClock, SimulatedClock


def test_simulated_time_skips_to_the_next_moment_in_order():
    clock, seen = SimulatedClock(), []

    async def wait(moment):
        await clock.until(moment)
        seen.append((moment, clock.now()))

    async def main():
        await asyncio.gather(*(wait(t) for t in (50.0, 10.0, 30.0, 10.0)))

    start = time.perf_counter()
    asyncio.run(main())
    assert time.perf_counter() - start < 40  # of 50
    assert seen == [(10.0, 10.0), (10.0, 10.0), (30.0, 30.0), (50.0, 50.0)]


def test_it_stands_still_while_real_work_is_done():
    clock = SimulatedClock()

    async def work():
        with clock.busy():
            await asyncio.sleep(0.05)
            return clock.now()

    async def main():
        return await asyncio.gather(work(), clock.until(100.0))

    assert asyncio.run(main())[0] == 0.0
    assert clock.now() == 100.0


def test_whoever_pauses_in_the_middle_of_work_lets_time_go_on():
    clock = SimulatedClock()

    async def work():
        with clock.busy():
            await clock.pause(500.0)
            return clock.now()

    assert asyncio.run(work()) == 500.0


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20))
def test_time_never_goes_back(moments):
    clock, seen = SimulatedClock(), []

    async def chain():
        for moment in moments:
            await clock.until(moment)
            seen.append(clock.now())

    asyncio.run(chain())
    assert seen == sorted(seen)
    assert all(now >= moment for now, moment in zip(seen, moments, strict=True))


def test_waits_can_be_cancelled():
    clock = SimulatedClock()

    async def main():
        task = asyncio.create_task(clock.until(10.0))
        await asyncio.sleep(0)
        task.cancel()
        await clock.until(20.0)

    asyncio.run(main())
    assert clock.now() == 20.0


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_the_real_clock_notices_that_the_time_was_set(monkeypatch, by):
    clock = RealClock()
    assert clock.jump() == 0.0
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + by)
    before = clock.now()
    assert clock.jump() == pytest.approx(by, abs=1.0)
    assert clock.now() - before == pytest.approx(by, abs=1.0)
    assert clock.jump() == 0.0


def test_the_real_clock_is_not_disturbed_by_a_drift(monkeypatch):
    clock = RealClock()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 0.5)
    assert clock.jump() == 0.0


def test_a_loop_that_ended_before_the_clock_had_settled_holds_up_no_later_one():
    clock = SimulatedClock(turns=20)

    async def leave():
        waits = asyncio.create_task(clock.until(10.0))
        await asyncio.sleep(0)
        waits.cancel()

    async def main():
        await asyncio.wait_for(clock.until(50.0), timeout=60.0)
        return clock.now()

    asyncio.run(leave())
    assert asyncio.run(main()) == 50.0


def test_moments_within_a_grain_are_one_and_yet_time_goes_on():
    """Whoever waits again and again for a moment that is near must get there."""
    clock, woken = SimulatedClock(grain=10.0), []

    async def one(moment):
        await clock.until(moment)
        woken.append(clock.now())

    async def main():
        await asyncio.gather(*(one(moment) for moment in (100.0, 105.0, 109.0, 111.0)))
        assert woken == [100.0, 100.0, 100.0, 111.0]
        turns = 0
        while clock.now() < 115.0 and turns < 100:
            await clock.until(115.0)
            turns += 1
        assert turns == 1

    asyncio.run(main())


def test_a_small_step_back_is_not_followed_so_that_time_never_goes_back_untold(monkeypatch):
    clock, real, by = RealClock(), time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + by[0])
    before = clock.now()
    by[0] = -1.5
    assert clock.jump() == 0.0
    assert clock.now() >= before
    by[0] = -3.0
    assert clock.jump() == pytest.approx(-3.0, abs=0.5)
    assert clock.now() < before


def test_clocks_are_compared_well_though_the_machine_is_busy(monkeypatch):
    """Whoever is held up between two readings must not take that for a step of the clock."""
    clock, real, calls = RealClock(), time.time, []

    def held_up():
        calls.append(1)
        if len(calls) % 5:
            time.sleep(0.01)
        return real()

    monkeypatch.setattr(time, "time", held_up)
    before = clock._offset
    assert clock.jump() == 0.0
    assert clock._offset - before < 0.004


def steady_ahead():
    return time.time() - time.monotonic()


def test_a_clock_goes_by_another_one_and_tells_how_far_off_the_machine_is():
    clock = RealClock()
    assert clock.skew == 0.0
    clock.go_by(ClockReading(steady_ahead() - 20.0, 0.001))
    assert clock.now() == pytest.approx(time.time() - 20.0, abs=1.0)
    assert clock.skew == pytest.approx(20.0, abs=1.0)
    assert clock.jump() == 0.0  # it is no jump: it is where it starts


def test_of_several_readings_the_surest_counts_and_time_never_goes_back():
    clock, true = RealClock(), steady_ahead()
    clock.go_by(ClockReading(true + 0.4, 0.5))
    seen = [clock.now()]
    for off, within in ((0.0, 0.001), (0.3, 0.4), (-0.2, 0.3)):
        clock.go_by(ClockReading(true + off, within))
        assert clock.jump() == 0.0
        seen.append(clock.now())
    assert seen == sorted(seen)
    assert clock._offset == pytest.approx(true)


@pytest.mark.parametrize("by", [3600.0, -3600.0])
def test_a_server_whose_clock_is_set_is_followed(by):
    clock, true = RealClock(), steady_ahead()
    for _ in range(5):
        clock.go_by(ClockReading(true, 0.001))
    clock.go_by(ClockReading(true + by, 0.2))
    before = clock.now()
    assert clock.jump() == pytest.approx(by)
    assert clock.now() - before == pytest.approx(by, abs=1.0)


def test_a_machine_whose_clock_is_set_goes_on_by_the_server(monkeypatch):
    clock = RealClock()
    clock.go_by(ClockReading(steady_ahead(), 0.001))
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600.0)
    assert clock.jump() == 0.0
    assert clock.skew == pytest.approx(3600.0, abs=1.0)
