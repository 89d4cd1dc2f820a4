"""Polls on read: at once, within limits, and from a share of the budget."""

import numpy as np
import pytest

from unstale import plan
from unstale.mirror.settings import Reads

from .worlds import DAY, START, add, evenly_polled, make


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


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_others_lose_what_readers_take_and_no_more(tmp_path, seed):
    """Copies are as fresh as by the best plan for the rest of the budget, and by the polls of readers."""
    count, days, warm, asked = 40, 30.0, 10.0, 3.0
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 1.0, count) + 0.02
    changes = [np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) for rate in rates]
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], (now - START) / DAY)).encode()
        for i in range(count)
    }
    mirror, world = make(
        tmp_path, content=content, budget=count / DAY, reserve=DAY, tick=3600.0,
        reads=Reads(poll_share=0.1, wait=7200.0),
    )  # fmt: skip
    asks = sorted(zip(rng.uniform(0.0, days, int(asked * days)), rng.integers(0, count, 200), strict=False))
    wishes = list(asks)
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(count)))

        def ask(_event):
            while wishes and START + wishes[0][0] * DAY <= mirror.clock.now():
                element = mirror.find(f"python:g/{wishes.pop(0)[1]}")
                with mirror.store.begin() as t:
                    t.edit([("read", element.id, mirror.clock.now(), "")])

        mirror.run(START + days * DAY, on_event=ask)
    assert len(world.polls) >= 0.96 * count * days
    at, fresh, late = np.linspace(warm, days, 5000, endpoint=False), [], []
    for i in range(count):
        polls = (np.array(world.times(f"python:g/{i}")) - START) / DAY
        last = polls[np.searchsorted(polls, at, "right") - 1]
        fresh.append((np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)).mean())
        moments = np.array([moment for moment, which in asks if which == i and warm < moment < days - 0.2])
        late += (np.append(polls, days)[np.searchsorted(polls, moments)] - moments).tolist()
    rest = plan(rates, count - asked).frequencies
    expected = np.mean([one.mean() for one in evenly_polled(changes, rest, days, warm)])
    assert np.mean(fresh) == pytest.approx(expected, abs=0.02)
    assert np.mean(np.array(late) < 2.5 / 24) > 0.95


def test_readers_get_no_more_than_their_share(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 900.0)).tolist()  # 96 a day
    _, waits = played(tmp_path, 0.1, asks=asks)
    # The share of this day, and that of the day before, which nobody has asked for; and some that were due.
    assert np.count_nonzero(waits <= 700.0) == pytest.approx(20, abs=8)


def test_without_a_share_nobody_is_polled_on_read(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 17280.0)).tolist()
    _, waits = played(tmp_path, 0.0, asks=asks)
    assert np.count_nonzero(waits <= 700.0) <= 4


def test_windows_hold_for_readers(tmp_path):
    asks = (DAY + np.arange(0.0, DAY, 17280.0)).tolist()
    world, _ = played(tmp_path, 0.1, asks=asks, windows="00:00-08:00 UTC")
    assert max((time % DAY) / 3600.0 for time, _ in world.polls) < 8.05
