"""Several workers on PostgreSQL."""

import threading
import time
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import text

from unstale.errors import Trouble
from unstale.mirror.store.sql import connection, planner_seat
from unstale.mirror.store.sql.store import open_store

from .making import additions, columns, slot, unchanged


@pytest.fixture
def two(postgres_empty, copies):
    with open_store(postgres_empty, copies=copies) as one, open_store(postgres_empty, copies=copies) as other:
        yield one, other


def test_two_workers_take_different_leases_without_waiting_for_each_other(two):
    one, other = two
    with one.begin() as t:
        ids = t.add(additions(10), 1.0)
        t.hand_out([slot(number, 10.0 + number) for number in ids])
    with one.begin() as t:
        first = t.lease("one", 4, 0.0, 100.0)
        with other.begin() as u:  # in the middle of the other's transaction
            second = u.lease("other", 100, 0.0, 100.0)
    assert [taken.slot.element for taken in first] == ids[:4]
    assert [taken.slot.element for taken in second] == ids[4:]


def test_a_lease_that_is_not_committed_goes_to_another(two):
    one, other = two
    with one.begin() as t:
        ids = t.add(additions(4), 1.0)
        t.hand_out([slot(number) for number in ids])

    def fail():
        with one.begin() as t:
            assert len(t.lease("one", 4, 0.0, 100.0)) == 4
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with other.begin() as t:
        assert len(t.lease("other", 4, 0.0, 100.0)) == 4


def _wait_until(happens):
    """Wait, for a minute at most."""
    for _ in range(6000):
        if happens():
            return
        time.sleep(0.01)
    pytest.fail("it did not happen")


def test_numbers_become_visible_in_the_order_in_which_they_grow(two, postgres_empty, copies):
    """A reader who goes on from the last number that it saw must not miss any."""
    one, other = two
    stop, missed, seen = threading.Event(), [], []

    def write(store, name):
        while not stop.is_set():
            with store.begin() as t:
                t.edit([("hint", 1, 0.0, name)] * 3)
                time.sleep(0.002)
                t.edit([("hint", 2, 0.0, name)])

    def read():
        after = 0
        with open_store(postgres_empty, copies=copies) as reader:
            while not stop.is_set() or after < seen_last():
                with reader.begin() as t:
                    for edit in t.edits(after):
                        if edit.id != after + 1:
                            missed.append((after, edit.id))
                        after = edit.id
                        seen.append(edit.channel)

    def seen_last():
        with one.begin() as t:
            return t.edits(0)[-1].id

    threads = [
        threading.Thread(target=write, args=(one, "one")),
        threading.Thread(target=write, args=(other, "other")),
    ]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    _wait_until(lambda: len(seen) >= 100 and {"one", "other"} <= set(seen))
    stop.set()
    for thread in threads:
        thread.join()
    assert missed == []
    assert {"one", "other"} <= set(seen)


def test_one_is_the_planner_and_when_it_is_gone_another(two):
    one, other = two
    assert one.become_planner()
    assert not other.become_planner()
    assert one.become_planner()
    one.close()
    assert other.become_planner()


def test_a_planner_that_lost_its_connection_hears_of_it_and_can_write_no_plan(two, postgres_empty):
    import psycopg

    one, other = two
    with one.begin() as t:
        (number,) = t.add(additions(1), 1.0)
    assert one.become_planner()

    def lose(planner):
        named = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        with closing(psycopg.connect(postgres_empty, autocommit=True)) as connection:
            connection.execute(named, [planner._seat._session])

    def plan(store, act):
        with store.begin() as t:
            act(t)

    lose(one)
    _wait_until(other.become_planner)  # the server takes a moment
    acts = (
        lambda t: t.hand_out([slot(number)]),
        lambda t: t.pay({1: 5.0}),
        lambda t: t.keep({"a": b"b"}),
        lambda t: t.save(columns([number])),
    )
    for act in acts:  # it does not know yet
        with pytest.raises(Trouble, match="another worker is the planner now"):
            plan(one, act)
    assert not one.become_planner()
    for act in acts:
        with pytest.raises(Trouble, match="another worker is the planner now"):
            plan(one, act)
    for act in acts:
        plan(other, act)
    lose(other)
    assert other.become_planner()  # the seat is still its own, and nobody has planned in between
    for act in acts:
        plan(other, act)


def _stop_beating(planner, url):
    """Make a planner one that hangs: its sessions stay, and nothing has been heard of it for a minute."""
    planner._seat._end.set()
    planner._seat._watch.join()
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("UPDATE planner SET beat = beat - 60")


def test_a_planner_that_hangs_is_fenced_with_its_transaction_and_hands_out_nothing_when_it_wakes(
    two, postgres_empty
):
    one, other = two
    with one.begin() as t:
        ids = t.add(additions(2), 1.0)
    assert one.become_planner()

    def hang():
        with one.begin() as t:
            t.hand_out([slot(ids[0])])  # all others wait for this transaction
            _stop_beating(one, postgres_empty)
            assert other.become_planner()
            with other.begin() as u:
                u.hand_out([slot(ids[1])])

    with pytest.raises(Trouble):
        hang()

    def hand_out():
        with one.begin() as t:
            t.hand_out([slot(ids[0])])

    with pytest.raises(Trouble, match="another worker is the planner now"):
        hand_out()
    assert not one.become_planner()
    assert not one.become_planner()
    with other.begin() as t:
        assert [element for element, _, _ in t.leased()] == ids[1:]


def test_nobody_waits_for_a_planner_that_hangs_though_all_are_in_a_transaction(
    two, postgres_empty, monkeypatch
):
    """The others see to it in a thread of their own: their transactions wait for the one that hangs."""
    monkeypatch.setattr(planner_seat, "BEAT_SECONDS", 0.05)
    one, other = two
    assert one.become_planner()
    assert not other.become_planner()

    def hang():
        with one.begin() as t:
            t.edit([("hint", 1, 0.0, "one")])
            _stop_beating(one, postgres_empty)
            with other.begin() as u:
                u.edit([("hint", 2, 0.0, "other")])

    with pytest.raises(Trouble):
        hang()
    with other.begin() as t:
        assert [edit.channel for edit in t.edits(0)] == ["other"]


def test_a_worker_that_begins_waits_for_no_planner_that_hangs(two, postgres_empty, monkeypatch):
    """In a mirror of several cells there may be no other worker of a cell, which would see to it."""
    monkeypatch.setattr(planner_seat, "BEAT_SECONDS", 0.05)
    one, other = two
    assert one.become_planner()

    def hang():
        with one.begin() as t:
            t.edit([("hint", 1, 0.0, "one")])
            _stop_beating(one, postgres_empty)
            other.claim_copies()

    with pytest.raises(Trouble):
        hang()
    assert other.become_planner()


def test_a_planner_that_works_keeps_its_seat_however_long_its_transaction_takes(two, monkeypatch):
    monkeypatch.setattr(planner_seat, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(planner_seat, "SILENT_SECONDS", 0.5)
    one, other = two
    assert one.become_planner()
    with one.begin() as t:
        t.edit([("hint", 1, 0.0, "one")])
        for _ in range(20):
            assert not other.become_planner()
            time.sleep(0.1)
    assert one.become_planner()


def test_a_planner_whose_turn_never_ends_loses_its_seat_though_its_process_lives(two, monkeypatch):
    monkeypatch.setattr(planner_seat, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(planner_seat, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(planner_seat, "_LONGEST_TURN_SECONDS", 0.1)
    one, other = two
    assert one.become_planner()
    _wait_until(other.become_planner)


def test_a_worker_that_vanishes_in_a_transaction_is_not_waited_for(two):
    """The server ends it after ten seconds; it is no planner, so it has nothing to think about."""
    one, _ = two
    with one.begin() as t:
        t.edit([("hint", 1, 0.0, "one")])
        waits = "SHOW idle_in_transaction_session_timeout"
        assert t.connection.exec_driver_sql(waits).scalar() == "10s"
    assert one.become_planner()
    with one.begin() as t:
        t.edit([("hint", 1, 0.0, "one")])
        assert t.connection.exec_driver_sql(waits).scalar() == "2min"


def test_a_new_planner_that_may_not_end_sessions_waits_for_what_the_former_one_writes(
    two, postgres_empty, monkeypatch
):
    one, other = two
    with one.begin() as t:
        (number,) = t.add(additions(1), 1.0)
    assert one.become_planner()
    monkeypatch.setattr(planner_seat, "_END_SESSIONS", text("SELECT * FROM not_allowed WHERE :session = ''"))
    became = []
    with one.begin() as t:
        t.hand_out([slot(number)])
        _stop_beating(one, postgres_empty)
        thread = threading.Thread(target=lambda: became.append(_wait_to_plan(other)))
        thread.start()
        time.sleep(0.2)
        assert became == []
        t.pay({1: 77.0})
    thread.join()
    assert became == [[77.0]]


def _wait_to_plan(store):
    while not store.become_planner():
        time.sleep(0.01)
    with store.begin() as t:
        return [group.paid_until for group in t.groups()]


def test_an_expired_lease_is_recorded_by_one_worker_only(two):
    one, other = two
    with one.begin() as t:
        ids = t.add(additions(1), 1.0)
        t.hand_out([slot(ids[0], 10.0)])
        (slow,) = t.lease("one", 1, 9.0, 50.0)
    with other.begin() as t:
        assert t.expire(60.0) == ids
        t.hand_out([slot(ids[0], 70.0)])
        (quick,) = t.lease("other", 1, 65.0, 150.0)
    with one.begin() as t:
        t.record("one", [unchanged(slow)])
        t.record("one", [unchanged(quick)])
        assert t.polls() == []
    with other.begin() as t:
        t.record("other", [unchanged(quick)])
        assert len(t.polls()) == 1


def test_many_workers_add_the_same_elements_at_once(postgres_empty, copies):
    wrong = []

    def add():
        try:
            with open_store(postgres_empty, copies=copies) as store:
                for _ in range(3):
                    with store.begin() as t:
                        numbers.append(tuple(t.add(additions(50), 1.0)))
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    numbers: list[tuple[int, ...]] = []
    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(set(numbers)) == 1
    with open_store(postgres_empty, copies=copies) as store, store.begin() as t:
        assert t.count() == {"new": 50}
        assert len(t.edits(0)) == 50


def test_a_store_that_is_closed_leaves_no_session_behind(postgres_empty, copies):
    """Not the one of a watch that is about to look once more, nor one that a thread still uses."""
    left = threading.Event()

    class Late(threading.Event):
        def wait(self, timeout=None):  # noqa: ARG002
            """Let the watch have one more turn, after the seat was left."""
            if left.is_set():
                return True
            super().wait()
            return not left.wait(60)

    with open_store(postgres_empty, copies=copies) as store:
        seat = store._seat
        seat._end, hang_up = Late(), seat._hang_up
        seat._hang_up = lambda: (hang_up(), left.set())
        assert store.become_planner()
        used = store._engine.connect()
        session = used.connection.dbapi_connection
    assert seat._connection is None
    assert not session.closed
    used.close()
    assert session.closed


def test_a_session_that_cannot_be_settled_is_closed(postgres_empty, copies, monkeypatch):
    monkeypatch.setattr(connection, "_SESSION_SETTINGS", ("SET no_such_setting = 1",))
    opened, connect = [], psycopg.connect
    monkeypatch.setattr(psycopg, "connect", lambda *a, **k: opened.append(connect(*a, **k)) or opened[-1])
    with pytest.raises(Trouble, match="no_such_setting"):
        open_store(postgres_empty, copies=copies)
    assert [one.closed for one in opened] == [True]
