"""Polls on read: at once, within limits, and from a share of the budget."""

import numpy as np
import pytest

from unstale.mirror.settings import Reads

from .worlds import DAY, START, add, make


def played(folder, share, *, asks, days=2.5, **given):
    """Run a mirror whose readers ask for polls at moments; return the world, and how long each waited."""
    mirror, world = make(
        folder, budget=100 / DAY, reserve=DAY, tick=300.0, reads=Reads(poll_share=share, wait=1200.0)
    )
    left, asked = sorted(asks), []
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(50)), **given)

        def ask(_event):
            while left and START + left[0] <= mirror.clock.now():
                left.pop(0)
                element = mirror.find(f"python:g/{len(asked) % 50}")
                with mirror.store.begin() as t:
                    t.edit([("read", element.id, mirror.clock.now(), "")])
                asked.append((mirror.clock.now(), element.key))

        mirror.run(START + days * DAY, on_event=ask)
    waits = []
    for moment, key in asked:
        later = [time - moment for time in world.times(key) if time >= moment]
        waits.append(min(later, default=np.inf))
    return world, np.array(waits)


def test_readers_get_their_polls_at_once_and_the_budget_holds(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 17280.0)).tolist()  # 5 a day, a twentieth of the budget
    world, waits = played(tmp_path, 0.1, asks=asks)
    assert waits.max() <= 1000.0
    times = np.array([time - START for time, _ in world.polls])
    assert np.count_nonzero(times > DAY) <= 1.01 * 100 * 1.5 + 100


def test_readers_get_no_more_than_their_share(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 900.0)).tolist()  # 96 a day
    _, waits = played(tmp_path, 0.1, asks=asks)
    assert np.count_nonzero(waits <= 700.0) == pytest.approx(10, abs=8)  # and some that were due anyway


def test_without_a_share_nobody_is_polled_on_read(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 17280.0)).tolist()
    _, waits = played(tmp_path, 0.0, asks=asks)
    assert np.count_nonzero(waits <= 700.0) <= 4


def test_windows_hold_for_readers(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 17280.0)).tolist()
    world, _ = played(tmp_path, 0.1, asks=asks, windows="00:00-08:00 UTC")
    assert max((time % DAY) / 3600.0 for time, _ in world.polls) < 8.05
