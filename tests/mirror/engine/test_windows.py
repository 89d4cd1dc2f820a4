"""Windows: the budget of the day is spent inside them, as fresh as the library says."""

from itertools import pairwise

import numpy as np
import pytest

from unstale import plan
from unstale.schedule import Windows
from unstale.schedule.window_costs import windowed_cost

from .worlds import DAY, START, add, make, run


def played(folder, window, *, seed, days=16, budget=60.0, count=40, **settings):
    """Return the moments of polls in days, true freshness after five days, and the mirror's status."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 1.5, count)
    changes = [np.sort(rng.uniform(0.0, days, rng.poisson(days * rate))) for rate in rates]
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], (now - START) / DAY)).encode()
        for i in range(count)
    }
    settings = {"reserve": DAY, **settings}
    mirror, world = make(folder, budget=budget / DAY, tick=1800.0, content=content, **settings)
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(count)), windows=window)
        run(mirror, days * DAY)
        status = mirror.status()
    times = np.array([(time - START) / DAY for time, _ in world.polls])
    which = np.array([int(key.split("/")[1]) for _, key in world.polls])
    fresh = 0.0
    for i in range(count):
        looks = np.append(np.sort(times[which == i]), days)
        for first, last in pairwise(looks):
            after = changes[i][changes[i] > first]
            until = min(last, after[0] if after.size else days)
            fresh += max(until - max(first, 5.0), 0.0)
    return times, fresh / count / (days - 5.0), status, rates


@pytest.mark.parametrize("seed", [8, *(pytest.param(seed, marks=pytest.mark.long) for seed in (9, 10))])
def test_the_budget_of_the_day_is_spent_inside_windows(tmp_path, seed):
    window = "00:00-08:00 UTC"
    times, fresh, status, rates = played(tmp_path, window, seed=seed)
    hours = ((START + times * DAY) % DAY) / 3600.0
    assert hours.max() < 8.1
    late = times[times > 5.0]
    assert late.size >= 0.96 * 60 * 11
    clock = Windows.every(1.0, 0.0, 1.0 / 3.0).clock()
    often = plan(rates, 60.0).frequencies
    said = 1.0 - float(np.mean(windowed_cost("freshness", rates, often, clock)))
    assert fresh == pytest.approx(said, abs=0.02)
    assert status.predicted == pytest.approx(fresh, abs=0.05)  # by what has been learned
    assert not status.trouble


def test_a_share_of_the_polls_comes_at_the_start(tmp_path):
    times, *_ = played(tmp_path, "00:00-08:00 UTC at_start=0.7", seed=8, days=8)
    hours = ((START + times[times > 2.0] * DAY) % DAY) / 3600.0
    assert np.mean(hours < 1.0) > 0.6
    (tmp_path / "spread").mkdir()
    spread, *_ = played(tmp_path / "spread", "00:00-08:00 UTC", seed=8, days=8)
    hours = ((START + spread[spread > 2.0] * DAY) % DAY) / 3600.0
    assert np.mean(hours < 1.0) < 0.45


def test_status_says_what_a_window_loses_and_what_would_fit(tmp_path):
    times, _, status, _ = played(tmp_path, "00:00-08:00 UTC", seed=8, days=4, reserve=0.0)
    assert times.size == pytest.approx(4 * 20, abs=2)
    (told,) = status.trouble
    assert "67 % of the budget is lost" in told
    assert 'reserve = "16 hours" would keep it' in told


def test_status_says_that_limits_leave_a_window_too_short(tmp_path):
    *_, status, _ = played(tmp_path, "00:00-01:00 UTC", seed=8, days=3, max_rate=30 / 3600)
    (told,) = status.trouble
    assert "allow 30 polls a day, not 60" in told
    assert "2 hours a day would be enough" in told
