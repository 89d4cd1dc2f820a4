"""A status of very many elements reads a sample of them, and says the same as one that reads them all."""

import numpy as np
import pytest
from sqlalchemy import event

from mirror.store.making import additions
from unstale.mirror.engine import load_policy
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Settings

COUNT, SAMPLE = 4000, 800


@pytest.fixture(params=["sqlite", "postgresql"])
def mirror(request, tmp_path):
    url = tmp_path / "mirror.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with Mirror(url, copies=tmp_path / "copies", settings=Settings(budget=1.0)) as mirror:
        now = mirror.clock.now()
        with mirror.store.begin() as t:
            ids = t.add(additions(COUNT, groups=7), now - 86400.0)
            (columns,) = t.load()
            rng = np.random.default_rng(1)
            columns.last[:] = now - 7200.0 * rng.random(COUNT)
            columns.last[17] = now - 80_000.0
            states = np.full(COUNT, "ok", object)
            states[[5, 9]], states[11], columns.failures[[5, 9]] = "failing", "refused", 3
            columns.not_before[[5, 9]] = now + 600.0
            t.save(_with(columns, state=states.tolist(), evidence=[b""] * COUNT))
            t.remove(ids[-30:], now)
        yield mirror


def _with(columns, **other):
    return type(columns)(**{name: getattr(columns, name) for name in columns.__slots__} | other)


def test_it_agrees_with_one_that_reads_all(mirror, monkeypatch):
    whole = mirror.status()
    monkeypatch.setattr(load_policy, "MOST_READ", SAMPLE)
    rows = []

    def count(_, cursor, statement, *__):
        if "learned.evidence" in statement:
            rows.append(cursor.rowcount)

    event.listen(mirror.store._engine, "after_cursor_execute", count)
    sample = mirror.status()
    assert sample.elements == whole.elements
    assert [(one.name, one.elements, one.polls) for one in sample.groups] == [
        (one.name, one.elements, one.polls) for one in whole.groups
    ]
    assert [one.key for one in sample.neglected] == [one.key for one in whole.neglected]
    assert len(whole.neglected) >= 4
    assert sample.freshness.low <= whole.freshness.value <= sample.freshness.high
    assert sample.predicted == pytest.approx(whole.predicted, rel=0.1)
    assert sample.age == pytest.approx(whole.age, rel=0.2)
    for one, other in zip(sample.groups, whole.groups, strict=True):
        assert one.freshness == pytest.approx(other.freshness, abs=0.15)
    assert sum(rows) <= SAMPLE + 200  # SQLite does not count them: there it is 0


def test_first_copies_are_counted_of_all(mirror, monkeypatch):
    with mirror.store.begin() as t:
        (columns,) = t.load(list(range(1, COUNT // 2 + 1)))
        columns.last[:] = np.nan
        t.save(_with(columns, state=["new"] * columns.id.size, evidence=[b""] * columns.id.size))
    whole = mirror.status().first_copies
    monkeypatch.setattr(load_policy, "MOST_READ", SAMPLE)
    sample = mirror.status().first_copies
    assert (sample.done, sample.total) == (whole.done, whole.total) == (COUNT // 2 - 30, COUNT - 30)
    assert sample.seconds == pytest.approx(whole.seconds, rel=0.3)  # the slowest of seven groups, by a sample


def test_what_if_agrees_as_well(mirror, monkeypatch):
    whole = mirror.what_if(budgets=[0.5, 1.0, 4.0])
    monkeypatch.setattr(load_policy, "MOST_READ", SAMPLE)
    sample = mirror.what_if(budgets=[0.5, 1.0, 4.0])
    assert np.allclose(sample.optimal, whole.optimal, rtol=0.1, atol=0.01)


def test_numbers_of_a_sample_are_the_same_again_and_all_if_there_are_few(mirror):
    with mirror.store.begin() as t:
        assert t.some_elements(10**6) == list(range(1, COUNT + 1))
        some = t.some_elements(100)
        assert some == t.some_elements(100) == sorted(set(some))
        assert len(some) == 100
        assert sum(t.group_sizes().values()) == COUNT - 30
