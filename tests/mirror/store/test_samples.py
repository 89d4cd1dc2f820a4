"""Samples of how the mirror did: kept, read, thinned."""

from dataclasses import replace

import numpy as np

from unstale.mirror.store.contract import Sample

DAY, HOUR = 86400.0, 3600.0
ONE = Sample(100.0, 0.5, 0.4, 0.6, 30.0, 0.55, 2.0, 7, 1, 900, {"true": 0.52})


def test_samples_are_kept_in_order_of_time_and_replaced(store):
    unknown = replace(ONE, time=50.0, freshness=np.nan, low=np.nan, high=np.nan, age=np.nan, predicted=np.nan)
    with store.begin() as t:
        for one in (ONE, unknown, replace(ONE, time=150.0, polls=3), replace(ONE, time=150.0, beside={})):
            t.sample(one)
    with store.begin() as t:
        first, *rest = t.samples(0.0)
        assert rest == [ONE, replace(ONE, time=150.0, beside={})]
        assert np.isnan([first.freshness, first.low, first.high, first.age, first.predicted]).all()
        assert first.beside == {"true": 0.52}
        assert [one.time for one in t.samples(100.0)] == [100.0, 150.0]
        assert t.samples(151.0) == []


def test_of_many_samples_evenly_spaced_ones_are_read_and_no_poll_is_lost(store):
    with store.begin() as t:
        for k in range(1000):
            t.sample(replace(ONE, time=100.0 + 60.0 * k))
        some = t.samples(0.0, 100)
        assert 90 <= len(some) <= 100
        assert sum(one.polls for one in some) == 7000
        assert sum(one.traffic for one in some) == 900_000
        assert some[-1].time == 100.0 + 60.0 * 999
        gaps = np.diff([one.time for one in some])
        assert gaps.min() > 0
        assert gaps.max() <= 2.0 * np.median(gaps)
        assert len(t.samples(0.0, 1000)) == 1000
        assert len(t.samples(0.0, 1)) == 1


def test_old_samples_become_one_for_each_hour_and_very_old_ones_go(store):
    now = 1000 * DAY
    times = np.concatenate([
        now - 731 * DAY + np.arange(3) * 600.0, now - 729 * DAY + np.arange(3) * 600.0,
        now - 5 * DAY + np.arange(36) * 600.0, now - DAY + np.arange(10) * 60.0,
    ])  # fmt: skip
    with store.begin() as t:
        for time in times.tolist():
            t.sample(replace(ONE, time=time))
        t.prune(0, -np.inf)
        assert len(t.samples(0.0)) == times.size
        for _ in range(2):  # the second time there is nothing to do
            t.prune(0, -np.inf, now=now)
            found = t.samples(0.0)
            assert [one.polls for one in found] == [21] + [42] * 6 + [7] * 10
            assert [one.time for one in found[1:7]] == [now - 5 * DAY + h * HOUR + 3000.0 for h in range(6)]


def test_reads_of_one_element(store):
    with store.begin() as t:
        t.read({1: 2, 2: 1}, 3700.0)
        assert t.reads(0.0, 2) == [(2, 3600.0, 1)]
        assert t.reads(0.0, 3) == []
