"""The policy is right about itself, as far as it can be, in worlds with a known answer."""

import numpy as np
import pytest

from unstale.estimation.learning.learner import Learner
from unstale.lab.calibration import calibration, some_elements
from unstale.lab.histories import Recorded, load


def recorded(elements, times, count: int, end: float) -> Recorded:
    order = np.lexsort((times, elements))
    keys = [str(k) for k in range(count)]
    return Recorded("world", keys, elements[order], times[order], end, 0.0, np.zeros(count))


def poisson(count: int, end: float, seed: int) -> Recorded:
    rng = np.random.default_rng(seed)
    elements = np.repeat(np.arange(count), rng.poisson(rng.gamma(1.0, 1.0, count) * end))
    return recorded(elements, rng.uniform(0.0, end, elements.size), count, end)


def commits(count: int, end: float, seed: int) -> Recorded:
    """One event in two days touches half of the elements; each changes rarely by itself."""
    rng = np.random.default_rng(seed)
    moments = np.sort(rng.uniform(0.0, end, int(end / 2)))
    which, touched = np.nonzero(rng.random((moments.size, count)) < 0.5)
    alone = np.repeat(np.arange(count), rng.poisson(0.1 * end, count))
    elements = np.concatenate([touched, alone])
    times = np.concatenate([moments[which], rng.uniform(0.0, end, alone.size)])
    return recorded(elements, times, count, end)


def falling(count: int, end: float, seed: int) -> Recorded:
    """All rates fall to a tenth."""
    world = poisson(count, end, seed)
    kept = np.random.default_rng(seed).random(world.times.size) < 10.0 ** (-world.times / end)
    return recorded(world.elements[kept], world.times[kept], count, end)


def even(count: int, end: float, seed: int) -> Recorded:
    """Gaps between changes vary by half of their mean."""
    rng = np.random.default_rng(seed)
    gaps = rng.gamma(4.0, 0.25, (count, int(4 * end))) / rng.uniform(0.5, 2.0, count)[:, None]
    times = np.cumsum(gaps, axis=1) - 5.0
    kept = (times > 0.0) & (times < end)
    return recorded(np.nonzero(kept)[0], times[kept], count, end)


def test_told_times_say_how_fresh_copies_are_between_polls() -> None:
    """At the ends of intervals more has changed than laws say, and in between less: only told times tell."""
    blind, told = (calibration(even(40, 30.0, 1), told=told, moments=60, steps=400) for told in (False, True))
    assert blind.bias < -0.03
    assert abs(told.bias) < 0.02 + 1.645 * told.error


def test_constant_rates() -> None:
    found = calibration(poisson(80, 60.0, 1), 1.0, moments=200)
    assert abs(found.bias) < 0.01 + 1.645 * found.error
    assert found.error < 0.01
    assert found.expected_calibration_error < 0.02
    assert 0.84 <= found.coverage <= 0.97
    assert found.freshness > found.uniform


def test_one_event_touches_many_elements() -> None:
    """As in the replay of a repository: intervals for independent elements have the truth in them seldom."""
    found = calibration(commits(80, 80.0, 1), 1.0, moments=200)
    assert found.independent_coverage < 0.5
    assert 0.65 <= found.coverage <= 0.95
    assert abs(found.bias) < 0.03


def test_all_elements_change_less_and_less() -> None:
    found = calibration(falling(80, 60.0, 1), 1.0, moments=200)
    assert abs(found.bias) < 0.045  # 0.066 if each element is known by itself only


@pytest.mark.parametrize("world", [falling, pytest.param(poisson, marks=pytest.mark.long)])
def test_to_choose_between_the_clocks_costs_little(world, monkeypatch) -> None:
    """A learner that is told by which clock classes go is hardly better, whichever is right."""
    record = world(60, 50.0, 4)
    chosen = calibration(record, 1.0, moments=20)
    told = []
    for by_level in (False, True):
        always = property(lambda self, always=by_level: np.full(self.class_count, always))
        monkeypatch.setattr(Learner, "by_level", always)
        told.append(calibration(record, 1.0, moments=20).freshness)
    assert chosen.freshness > max(told) - 0.006


def test_a_sample_keeps_whole_elements() -> None:
    every = load()
    there = every.since(float(np.quantile(every.born, 0.5, method="higher")))
    some = some_elements(every, 30)
    place = there.keys.index(some.keys[7])
    assert some.of(7) == pytest.approx(there.of(place))
