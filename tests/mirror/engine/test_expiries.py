"""Promises of sources that elements stay as they are: believed as far as they are kept."""

import numpy as np
import pytest

from unstale import worth
from unstale.mirror.source import Found

from .worlds import DAY, START, add, make, run

COUNT, DAYS, WARM, QUIET, RATE = 40, 60.0, 25.0, 6.0, 1.0


def changes_and_quiet(rng):
    """Return moments of changes, and how long nothing changes after each: for days, or not at all."""
    count = int(2 * DAYS) + 20
    quiet = np.where(rng.random(count) < 0.5, QUIET, 0.0)
    gaps = quiet + rng.exponential(1.0 / RATE, count)
    return np.cumsum(gaps) - rng.uniform(0.0, QUIET), np.roll(quiet, -1)


def predicted(worlds, budget):
    """Return the freshness that polls buy that know when quiet times end, by one price for all."""
    waits, lefts = np.linspace(0.0, 30.0, 3001), np.linspace(0.0, QUIET, 61)
    values = lefts[:, None] * -np.expm1(-RATE * waits) + np.asarray(worth("freshness", RATE, waits))

    def at(price):
        until = lefts + waits[np.minimum((values < price).sum(axis=1), waits.size - 1)]
        polls, fresh = 0, 0.0
        for moments, quiet in worlds:
            now = 0.0
            while now < DAYS:
                place = np.searchsorted(moments, now, side="right")
                left = max(moments[place - 1] + quiet[place - 1] - now, 0.0) if place else 0.0
                after = min(now + until[np.abs(lefts - left).argmin()], DAYS)
                fresh += max(min(moments[place], after) - max(now, WARM), 0.0)
                polls, now = polls + 1, after
        return polls / len(worlds) / DAYS, fresh / len(worlds) / (DAYS - WARM)

    low, high = 1e-3, 3.0
    for _ in range(12):
        price = np.sqrt(low * high)
        often, bought = at(price)
        low, high = (price, high) if often > budget else (low, price)
    return bought


def worlds_of(seed, count=COUNT):
    """Return changes and quiet times of elements."""
    rng = np.random.default_rng(seed)
    return [changes_and_quiet(rng) for _ in range(count)]


def played(folder, seed, *, told, budget=0.4, count=COUNT):
    """Run a mirror of elements that stay for a time after each change; return freshness and the mirror's."""
    worlds, rng = worlds_of(seed, count), np.random.default_rng(seed + 100)
    changes = [moments for moments, _ in worlds]

    def content(i):
        def found(now):
            moment = (now - START) / DAY
            number = int(np.searchsorted(changes[i], moment, side="right"))
            left = changes[i][number - 1] + worlds[i][1][number - 1] - moment if number else 0.0
            stays = told(left, rng) * DAY
            return Found(
                "changed", body=str(number).encode(), traffic=300, stays=stays if stays > 0 else None
            )

        return found

    mirror, world = make(
        folder, content={f"python:g/{i}": content(i) for i in range(count)}, budget=count * budget / DAY,
        reserve=DAY, tick=3600.0,
    )  # fmt: skip
    fresh = 0.0
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(count)))
        run(mirror, DAYS * DAY)
        trust = [mirror.explain(f"python:g/{i}").promises_kept for i in range(20)]
    for i in range(count):
        polls = np.array([(time - START) / DAY for time in world.times(f"python:g/{i}")])
        for first, last in zip(polls, [*polls[1:], DAYS], strict=True):
            after = changes[i][np.searchsorted(changes[i], first, side="right")]
            fresh += max(min(last, after) - max(first, WARM), 0.0)
    return fresh / count / (DAYS - WARM), np.array(trust)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_promises_that_are_kept_save_polls(tmp_path, seed):
    fresh, trust = played(tmp_path, seed, told=lambda left, _: left)
    (tmp_path / "silent").mkdir()
    silent, _ = played(tmp_path / "silent", seed, told=lambda *_: 0.0)
    assert fresh == pytest.approx(predicted(worlds_of(seed), 0.4), abs=0.02)
    assert fresh > silent + 0.08
    assert np.nanmin(trust) > 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_promises_that_mean_nothing_cost_nothing(tmp_path, seed):
    fresh, trust = played(tmp_path, seed, told=lambda _, rng: rng.choice([0.0, 1.0, 10.0]), budget=0.6)
    (tmp_path / "silent").mkdir()
    silent, _ = played(tmp_path / "silent", seed, told=lambda *_: 0.0, budget=0.6)
    assert fresh > silent - 0.02
    assert np.nanmax(trust) < 0.3
