"""Samples of how the mirror does, as the loop keeps them; audits that are kept."""

import json
from math import inf

import numpy as np
import pytest

from mirror.engine.worlds import DAY, START, add, make, run


def test_a_sample_is_kept_once_a_minute_and_counts_every_poll(tmp_path):
    content = {"python:down": OSError("down")}
    mirror, world = make(tmp_path, budget=2000 / DAY, tick=10.0, content=content, sample_every=60.0)
    with mirror:
        add(mirror, "down", *(f"a/{i}" for i in range(20)))
        run(mirror, 3600.0)
        samples = mirror.samples()
        assert len(samples) == 61
        assert np.diff([one.time for one in samples]) == pytest.approx(60.0, abs=1e-6)
        heard = [poll for poll in mirror.polls() if poll.time < samples[-1].time]
        assert sum(one.polls for one in samples) == pytest.approx(len(heard), abs=1)
        assert sum(one.failed for one in samples) == sum(poll.outcome == "failed" for poll in heard) > 0
        assert sum(one.traffic for one in samples) > 200 * (len(heard) - 10)
        last = samples[-1]
        assert 0 <= last.low <= last.freshness <= last.high <= 1
        assert last.price == pytest.approx(mirror.status().price, rel=0.5)
        assert last.predicted == pytest.approx(mirror.status().predicted, abs=0.05)
        assert last.age >= 0
        assert last.beside == {}
    assert world.polls


def test_how_often_can_be_said_and_what_is_known_besides(tmp_path):
    mirror, _ = make(tmp_path, tick=1.0, sample_every=5.0, beside=lambda now: {"true": now - START})
    with mirror:
        add(mirror, "a", "b")
        run(mirror, 60.0)
        samples = mirror.samples(START + 30.0)
        assert [one.beside["true"] for one in samples] == [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 60.0]


def test_whoever_starts_often_keeps_no_more_samples(tmp_path):
    mirror, _ = make(tmp_path, sample_every=DAY)
    with mirror:
        add(mirror, "a")
        for _ in range(5):
            mirror.step()
        assert len(mirror.samples()) == 1
    mirror, _ = make(tmp_path / "..", store=tmp_path / "none.db", sample_every=inf)
    with mirror:
        add(mirror, "a")
        run(mirror, 3600.0)
        assert mirror.samples() == []


def test_the_last_hundred_audits_are_kept(tmp_path):
    mirror, _ = make(tmp_path, tick=60.0)
    with mirror:
        add(mirror, *(f"a/{i}" for i in range(10)))
        run(mirror, 3600.0)
        assert mirror.audits() == []
        made = [mirror.audit(2, seed=k) for k in range(3)]
        assert mirror.audits() == made
        assert mirror.status().audit == made[-1]
        with mirror.store.begin() as t:
            many = [vars(made[0])] * 100
            t.keep({"audits": json.dumps(many).encode()})
        last = mirror.audit(2, seed=9)
        assert len(mirror.audits()) == 100
        assert mirror.audits()[-1] == last


def test_an_audit_that_an_older_version_kept_is_read(tmp_path):
    mirror, _ = make(tmp_path)
    with mirror:
        add(mirror, "a")
        run(mirror, 3600.0)
        made = mirror.audit(1)
        with mirror.store.begin() as t:
            t.keep({"audits": b"[]", "audit": json.dumps(vars(made)).encode()})
            t.connection.exec_driver_sql("DELETE FROM kept WHERE name = 'audits'")
        assert mirror.audits() == [made]
