"""Old polls leave the tables whole, and are read from their files as they were."""

from contextlib import closing, suppress
from dataclasses import replace
from math import inf

import pytest

from unstale.errors import Trouble
from unstale.mirror.store.poll_archive import PollArchive
from unstale.mirror.store.sql import old_polls, poll_spans
from unstale.mirror.store.sql.imported_polls import Past, recall
from unstale.mirror.store.sql.poll_spans import moved

from .making import additions


@pytest.fixture(autouse=True)
def small_spans(monkeypatch):
    monkeypatch.setattr(poll_spans, "MOST_SPAN_POLLS", 1500)
    monkeypatch.setattr(old_polls, "_ROWS_AT_ONCE", 400)
    monkeypatch.setattr(poll_spans, "_ROWS_DELETED_AT_ONCE", 700)


def record(store, count, begin=0.0, every=60.0):
    """Record polls of three elements; return how many there are then."""
    with store.begin() as t:
        ids = t.add(additions(3), 0.0)
        outcomes = ("unchanged", "changed", "failed")
        pasts = [
            Past(
                ids[n % 3],
                begin + every * n,
                outcomes[n % 3],
                elapsed=every * (n % 7 + 1),
                traffic=n,
                detail=f"d{n % 5}",
            )
            for n in range(count)
        ]
        for start in range(0, count, 500):
            recall(t, pasts[start : start + 500])
    return polls_of(store)


def polls_of(store):
    return [poll for some in store.all_polls() for poll in some]


def in_tables(store):
    with store.begin() as t:
        return [poll.id for poll in t.polls(None, 100_000)][::-1]


def files_of(store, copies):
    with store.begin() as t:
        return PollArchive(copies).spans(moved(t.connection))


def same(one, other):
    return [replace(poll, seconds=0.0, elapsed=0.0, predicted=0.0) for poll in one] == [
        replace(poll, seconds=0.0, elapsed=0.0, predicted=0.0) for poll in other
    ] and [poll.elapsed for poll in one] == pytest.approx([poll.elapsed for poll in other], nan_ok=True)


def test_polls_beyond_those_that_tables_hold_are_in_files_and_come_back_as_they_were(store, copies):
    before = record(store, 6000)
    assert store.move_polls(before=-inf, most=1900, heard=6000) == 4000
    assert in_tables(store) == list(range(4001, 6001))
    files = files_of(store, copies)
    assert [(span.first, span.last) for span in files] == [(1, 1000), (1001, 2500), (2501, 4000)]
    assert same(polls_of(store), before)
    assert [poll.id for some in store.all_polls(3990) for poll in some] == list(range(3991, 6001))
    assert store.move_polls(before=-inf, most=1900, heard=6000) == 0
    record(store, 10, begin=1e9)
    assert in_tables(store)[-1] == 6010
    again = store.archived_moments({1, 2}, 60.0, 300.0)
    assert sorted(again) == [(1, 180.0), (2, 60.0), (2, 240.0)]


def test_what_the_planner_has_not_heard_of_stays(store):
    record(store, 4000)
    assert store.move_polls(before=inf, most=0, heard=999) == 0
    assert store.move_polls(before=-inf, most=0, heard=2499) == 1000
    assert in_tables(store)[0] == 1001
    assert store.move_polls(before=-inf, most=0, heard=4000) == 1500  # the last span is being written to


def test_polls_that_are_too_old_are_deleted_from_tables_and_files(store, copies):
    before = record(store, 6000)
    store.move_polls(before=-inf, most=1900, heard=6000)
    assert store.move_polls(before=60.0 * 2600, most=1900, heard=6000) == 0
    assert [span.first for span in files_of(store, copies)] == [2501]
    assert [poll.id for poll in polls_of(store)] == list(range(2501, 6001))
    assert store.move_polls(before=inf, most=1900, heard=6000) == 1500  # without a file
    assert files_of(store, copies) == []
    assert same(polls_of(store), before[5500:])


@pytest.mark.parametrize("at", ["close_span", "delete_moved"])
def test_after_a_crash_between_two_steps_the_step_is_repeated(store, copies, monkeypatch, at):
    before = record(store, 3000)

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(old_polls, at, killed)
        with pytest.raises(KeyboardInterrupt):
            store.move_polls(before=-inf, most=100, heard=3000)
    assert same(polls_of(store), before)
    store.move_polls(before=-inf, most=100, heard=3000)
    assert in_tables(store) == list(range(2501, 3001))
    assert same(polls_of(store), before)
    assert [span.first for span in files_of(store, copies)] == [1, 1001]


def test_a_span_that_is_moved_in_the_middle_of_reading_is_read_from_its_file(store):
    before = record(store, 4000)
    reading = store.all_polls()
    seen = next(reading)
    store.move_polls(before=-inf, most=100, heard=4000)
    for some in reading:
        seen += some
    assert same(seen, before)


def test_a_rolled_back_span_is_made_again(store):
    record(store, 900)
    with suppress(ZeroDivisionError), store.begin() as t:
        recall(t, [Past(1, 1e6 + n, "unchanged") for n in range(200)])
        raise ZeroDivisionError
    record(store, 200, begin=2e6)
    assert len(in_tables(store)) == 1100


def test_who_reads_for_long_holds_up_nobody(postgres_empty, copies):
    import psycopg

    from unstale.mirror.store.sql.store import open_store

    with open_store(postgres_empty, copies=copies) as store:
        record(store, 3000)
        with closing(psycopg.connect(postgres_empty)) as reader:
            reader.execute("SELECT count(*) FROM polls")
            assert store.move_polls(before=-inf, most=100, heard=3000) == 0
            assert len(in_tables(store)) == 3000
        assert store.move_polls(before=-inf, most=100, heard=3000) == 2500


def test_a_damaged_file_is_named(store, copies):
    record(store, 3000)
    store.move_polls(before=-inf, most=100, heard=3000)
    (span, _) = files_of(store, copies)
    path = copies.place.folder / span.name
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(Trouble, match=r"polls/0+1-0+1000-.*\.parquet in the folder of copies .* is damaged"):
        polls_of(store)


def test_a_bucket_holds_them_as_well(bucket, tmp_path):
    from unstale.mirror.store.copies import Copies
    from unstale.mirror.store.sql.store import open_store

    copies = Copies(bucket)
    with open_store(tmp_path / "mirror.db", copies=copies, run=True) as store:
        before = record(store, 3000)
        store.move_polls(before=-inf, most=100, heard=3000)
        assert len(files_of(store, copies)) == 2
        assert same(polls_of(store), before)
        assert list(copies.digests()) == []
        store.move_polls(before=inf, most=100, heard=3000)
        assert files_of(store, copies) == []
