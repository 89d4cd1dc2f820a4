"""What a planner reads and writes when it starts grows with the number of elements, not with its square."""

import json
from contextlib import closing, contextmanager

import numpy as np
import pytest
from sqlalchemy import event

from mirror.store.making import additions
from unstale.mirror.clock import RealClock, SimulatedClock
from unstale.mirror.engine import worker
from unstale.mirror.engine.planner import Planner
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Settings
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql import planner_rows
from unstale.mirror.store.sql.store import open_store
from unstale.mirror.store.sql.transaction import SqlTransaction

from .worlds import DAY, START, add, make


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request, tmp_path):
    url = tmp_path / "mirror.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    with closing(open_store(url, copies=Copies(tmp_path / "copies"), run=True)) as store:
        assert store.become_planner()
        yield store


@contextmanager
def rows_read(store):
    """Count the rows that statements bring."""
    counts = []

    def count(_, cursor, statement, *__):
        if "learned" in statement and cursor.description is not None:
            counts.append(max(cursor.rowcount, 0))

    event.listen(store._engine, "after_cursor_execute", count)
    yield counts
    event.remove(store._engine, "after_cursor_execute", count)


@pytest.mark.parametrize("count", [1200, 3600])
def test_elements_are_read_once_at_the_first_start_after_many_were_added(store, count):
    with store.begin() as t:
        ids = t.add(additions(count), START)
        t.edit([("hint", ids[7], START, "api"), ("audit", ids[8], START, "a")])
    with store.begin() as t, rows_read(store) as counts:
        planner = Planner(Settings(budget=1.0), t, START + 60.0)
        before = len(counts)
        planner.take_in(t, START + 60.0)
        # Nothing that was loaded is read again, and what is no matter of rows is heard of.
        assert len(counts) == before <= 4
        assert sum(counts) <= count + 10
        assert planner.last_edit == count + 2
        assert set(planner.policy.hinted.waiting) == {ids[7]}
        assert planner.policy.audit == {ids[8]: "a"}


def test_what_is_edited_after_the_load_is_taken_up(store):
    with store.begin() as t:
        ids = t.add(additions(10), START)
    with store.begin() as t:
        planner = Planner(Settings(budget=1.0), t, START)
    with store.begin() as t:
        t.remove(ids[:2], START)
        (new,) = t.add(additions(1, 100), START)
    with store.begin() as t:
        planner.take_in(t, START)
    wanted = planner.policy.table["id"][planner.policy.table.wanted].tolist()
    assert wanted == [*ids[2:], new]


def test_a_part_of_all_elements_is_read_without_those_before_it(postgres_url, tmp_path):
    """Whatever the parameters, the database begins where the part begins, in both tables."""
    with closing(open_store(postgres_url, copies=Copies(tmp_path / "copies"))) as store:
        with store.begin() as t:
            t.add(additions(3000), START)
        with store.begin() as t:
            for setting in ("enable_seqscan", "enable_hashjoin", "enable_nestloop"):  # as with many rows
                t.connection.exec_driver_sql(f"SET LOCAL {setting} = off")
            query = planner_rows._NEXT_POLICY_ROWS.params(after=2900, count=50)
            text = query.compile(t.connection, compile_kwargs={"literal_binds": True})
            explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {text}"
            found = t.connection.exec_driver_sql(explain).scalar()
        plans = [(found if isinstance(found, list) else json.loads(found))[0]["Plan"]]
        for plan in plans:
            plans += plan.get("Plans", [])
        scans = [plan["Actual Rows"] for plan in plans if "Scan" in plan["Node Type"]]
        assert len(scans) == 2
        assert max(scans) <= 60


def test_another_budget_rewrites_no_rows_but_those_that_are_polled(tmp_path, monkeypatch):
    """Rows say under which round they were written, and are put right when they are read."""
    saved = []
    save = SqlTransaction.save

    def counted(self, columns):
        saved.append(columns.id.size)
        save(self, columns)

    monkeypatch.setattr(SqlTransaction, "save", counted)

    def play(budget, start, length):
        mirror, world = make(tmp_path, budget=budget / DAY, clock=SimulatedClock(start))
        with mirror:
            if not list(mirror.elements()):
                add(mirror, *(f"a/{number}" for number in range(400)))
            del saved[:]
            mirror.run(start + length)
            with mirror.store.begin() as t:
                planner = Planner(mirror.settings, t, world.clock.now())
        return planner.policy.table.learner, len(world.polls)

    first, _ = play(4000.0, START, DAY)
    assert np.count_nonzero(first.evidence.any(axis=(1, 2))) == 400
    second, polls = play(40.0, START + DAY, DAY / 2)
    assert second.round > 10.0 * first.round
    assert sum(saved) <= polls + 5 < 100
    assert np.count_nonzero(second.evidence.any(axis=(1, 2))) == 400
    # What was not polled since has what it had, for half-lives (by time) that are as many times longer.
    alike = [np.allclose(second.evidence[i, 4], first.evidence[i, 7]) for i in range(400)]
    assert sum(alike) >= 400 - polls


def test_a_runner_that_plans_its_start_is_told(tmp_path, monkeypatch):
    """To read a million elements takes a while, in which somebody may ask who polls."""
    seen = []
    mirror, _ = make(tmp_path)
    add(mirror, "a/1")
    rehearse = Planner.rehearse

    def slowly(planner, now):
        with Mirror(tmp_path / "mirror.db", clock=mirror.clock) as other:
            seen.append(other.status())
        rehearse(planner, now)

    monkeypatch.setattr(Planner, "rehearse", slowly)
    with mirror:
        assert not mirror.status().running
        mirror.step(on_event=lambda _: seen.append(mirror.status()))
        assert [(one.running, one.starting, one.workers) for one in (seen[0], seen[-1])] == [
            (True, True, 1),
            (True, False, 1),
        ]
        assert not mirror.status().running


def test_polls_are_not_put_off_by_as_long_as_the_start_took(tmp_path, monkeypatch):
    """Turns begin polls so much later than they themselves take; the first one takes far longer."""

    class Ahead(RealClock):
        by = 0.0

        def now(self):
            return super().now() + self.by

        def jump(self):
            return 0.0

    clock, leads = Ahead(), []
    become, finish = worker.Worker._become_planner, worker.Worker.finish

    def take_long(self, now):
        become(self, now)
        clock.by += 100.0

    async def finish_later(self):
        leads.append(self._lead)
        await finish(self)

    monkeypatch.setattr(worker.Worker, "_become_planner", take_long)
    monkeypatch.setattr(worker.Worker, "finish", finish_later)
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=100.0), clock=clock) as mirror:
        mirror.add("a", poll=lambda: "x")
        assert mirror.step() == 1
    assert leads[0] < worker._LONGEST_LEAD_SECONDS  # which it would be
