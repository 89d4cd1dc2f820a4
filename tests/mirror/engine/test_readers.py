"""Who wants what: profiles of users in the real loop, against the plan by the master profile."""

from itertools import pairwise

import numpy as np
import pytest

from unstale import plan
from unstale.mirror.reports.readers import hours_read
from unstale.mirror.settings import Reads

from .worlds import DAY, START, add, evenly_polled, make

COUNT, DAYS, WARM = 40, 30.0, 10.0


def played(folder, seed, *, weights, budget=30.0):
    """Ann reads the first half, a hundred times as often as Bob reads the other; return what came of it."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(2.0, 0.5, COUNT)
    changes = [np.sort(rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS))) for rate in rates]
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], (now - START) / DAY)).encode()
        for i in range(COUNT)
    }
    reads = Reads(users="header:X-User", weights=weights)
    mirror, world = make(
        folder,
        content=content,
        budget=budget / DAY,
        reserve=DAY,
        tick=3600.0,
        importance="reads",
        reads=reads,
    )
    told = [0.0]
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(COUNT)))
        ids = [mirror.find(f"python:g/{i}").id for i in range(COUNT)]

        def read(_event):
            if mirror.clock.now() >= told[0]:
                told[0] = mirror.clock.now() + DAY
                counts = {("ann" if i < COUNT // 2 else "bob", ids[i]): 100 if i < COUNT // 2 else 1
                          for i in range(COUNT)}  # fmt: skip
                with mirror.store.begin() as t:
                    t.read_by_users(counts, mirror.clock.now())

        mirror.run(START + DAYS * DAY, on_event=read)
        status = mirror.status()
    fresh = np.zeros(COUNT)
    for i in range(COUNT):
        polls = [(time - START) / DAY for time in world.times(f"python:g/{i}")]
        for first, last in pairwise([*polls, DAYS]):
            later = changes[i][changes[i] > first]
            until = min(last, later[0] if later.size else DAYS)
            fresh[i] += max(until - max(first, WARM), 0.0)
    return rates, changes, fresh / (DAYS - WARM), status


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
def test_users_count_by_their_weights_and_not_by_their_reads(tmp_path, seed):
    rates, changes, fresh, status = played(tmp_path, seed, weights={"bob": 3.0})
    mine = np.arange(COUNT) < COUNT // 2
    weight = np.where(mine, 1.0, 3.0)
    best = plan(rates, 30.0, weights=weight)
    said, got = best.freshness, float(np.average(fresh, weights=weight))
    polled = evenly_polled(changes, best.frequencies, DAYS, WARM)
    assert got == pytest.approx(
        np.mean([np.average(one.mean(axis=1), weights=weight) for one in polled]), abs=0.02
    )
    assert got == pytest.approx(said, abs=0.04)  # at other changes
    assert fresh[~mine].mean() > fresh[mine].mean() + 0.1
    assert status.perceived == pytest.approx(said, abs=0.1)  # at a moment
    assert {one.user: one.weight for one in status.readers} == {"ann": 1.0, "bob": 3.0}
    assert status.readers[0].user == "ann"
    assert status.readers[1].freshness > status.readers[0].freshness


def test_the_store_says_when_readers_come(tmp_path):
    mirror, _ = make(tmp_path, importance="reads")
    with mirror:
        add(mirror, "g/1")
        element, now = mirror.find("python:g/1").id, START + 20 * DAY
        first = START // DAY * DAY + 8 * 3600
        with mirror.store.begin() as t:
            for day in range(20):
                t.read({element: 5}, first + day * DAY)
            levels = hours_read(t, mirror.settings.reads, now)
            assert levels.size == 168
            assert levels.argmax() % 24 == 8
            assert not hours_read(t, mirror.settings.reads, first + 2 * DAY).size


@pytest.mark.long
def test_polls_come_before_the_readers(tmp_path):
    """Readers come from 8 to 12; what they find was polled shortly before."""
    rng = np.random.default_rng(1)
    changes = [np.sort(rng.uniform(0.0, 12.0, rng.poisson(12.0))) for _ in range(12)]
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], (now - START) / DAY)).encode()
        for i in range(12)
    }
    mirror, world = make(
        tmp_path, content=content, budget=12 / DAY, reserve=DAY, tick=900.0, importance="reads"
    )
    read = [0.0]
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(12)))
        ids = [mirror.find(f"python:g/{i}").id for i in range(12)]

        def readers(_event):
            now = mirror.clock.now()
            if 8 <= now % DAY / 3600 < 12 and now > read[0] + 1800:
                read[0] = now
                with mirror.store.begin() as t:
                    t.read(dict.fromkeys(ids, 5), now)

        mirror.run(START + 12 * DAY, on_event=readers)
        told = mirror.explain("python:g/1").polled_for["readers"]
    times = np.array([time for i in range(12) for time in world.times(f"python:g/{i}")])
    hours = times[times > START + 6 * DAY] % DAY / 3600
    assert ((hours > 5.0) & (hours < 12.0)).mean() > 0.6
    assert told.startswith("mostly at 08:00 to ")
    assert told.endswith("; polls come before them")


def test_nothing_is_kept_of_users_unless_it_is_asked_for(tmp_path):
    mirror, _ = make(tmp_path)
    with mirror:
        assert mirror.settings.reads.users == "no"
        assert np.isnan(mirror.status().perceived)
        assert mirror.status().readers == []
