"""Cells move and are split while their mirror runs: nothing recorded is lost, whenever the mover dies."""

import itertools
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from mirror.cells.test_cells import changing, keys, make
from mirror.engine.worlds import DAY
from unstale.errors import InvalidInput, Trouble
from unstale.mirror.cells.cursor import Cursor
from unstale.mirror.cells.layout import name_of_server
from unstale.mirror.engine.planner_state import PlannerState
from unstale.mirror.source import New
from unstale.mirror.store.sql import schema

STEPS = ("waiting", "rows", "switching", "dropping")


class KilledError(BaseException):
    """As when the process ends: nothing of the mover runs after it but what closes connections."""


def everything(mirror):
    """Return what is recorded of each element, by key, over all cells; and hold that it is in one cell."""
    found = {}
    for cell in mirror.cells:
        with mirror.at(cell).store.begin() as t:
            rows = t.connection.execute(
                select(schema.elements, schema.learned, schema.standing)
                .join(schema.learned, schema.learned.c.element == schema.elements.c.id)
                .join(schema.standing, schema.standing.c.element == schema.elements.c.id)
            ).all()
            names = {row.id: row.key for row in rows}
            for row in rows:
                assert row.key not in found
                assert cell.has(t.numbered([row.id])[row.id].group)
                found[row.key] = [tuple(row), [], []]
            for poll in t.polls(limit=100_000, oldest_first=True):
                found[names[poll.element]][1].append((poll.id, poll.time, poll.outcome))
            for version in t.versions(limit=100_000):
                found[version.key][2].append((version.id, version.digest))
    return found


@pytest.fixture
def running(tmp_path):
    """A mirror of two cells that has run for half a day, and its world."""
    mirror, world = make(tmp_path / "mirror.db", tmp_path, 2)
    world.content = {key: partial(changing, 1 + n % 5) for n, key in enumerate(keys(7, 3))}
    with mirror:
        mirror.add_many([New(key) for key in world.content], {})
        mirror.run(mirror.clock.now() + DAY / 2)
        yield mirror, world


def feed(mirror, after=None):
    """Return the changes after a place: which, and the last place."""
    found = list(mirror.changes(after))
    return [(one.key, one.id, one.digest) for _, one, _ in found], found[-1][2] if found else after


def test_what_is_recorded_is_the_same_after_a_move_and_after_splits(running, tmp_path):
    mirror, _ = running
    before, (old, place) = everything(mirror), feed(mirror)
    half = Cursor.read(list(mirror.changes())[len(old) // 2][2].text())
    rest = feed(mirror, half)[0]
    (tmp_path / "other").mkdir()
    moved = mirror.move(0, str(tmp_path / "other"))
    assert Path(mirror.address(moved)) == tmp_path / "other" / "mirror.db.cell-0000"
    assert not list(tmp_path.glob("mirror.db.cell-0000*"))
    assert everything(mirror) == before
    bounds = sum(one.bound for one in mirror.directory.states())
    steps = []
    stays, goes = mirror.split(0, tell=steps.append)
    assert (stays.number, stays.parts, goes.number, goes.parts, goes.parent) == (0, 4, 2, 4, 0)
    assert {one.doing for one in steps} == {"waiting", "copies", "rows", "switching", "dropping"}
    _, last = mirror.split(1)
    assert [one.number for one in mirror.cells] == [0, 1, 2, 3]
    assert last.number == 3
    assert everything(mirror) == before
    states = mirror.directory.states()
    assert sum(one.bound for one in states) <= bounds + 1e-9
    assert all(one.share == one.bound > 0 for one in states)
    for one in states:
        with mirror.at(one.cell).store.begin() as t:
            assert PlannerState.read(t.state()).share == (one.given, one.share)
    assert all(mirror.read(key).body for key in before)  # copies are where each cell looks for them
    assert not feed(mirror, place)[0]
    assert sorted(feed(mirror, half)[0]) == sorted(rest)
    mirror.run(mirror.clock.now() + DAY)
    later = everything(mirror)
    assert later.keys() == before.keys()
    for key, (_, polls, versions) in before.items():
        assert later[key][1][: len(polls)] == polls
        assert len(later[key][1]) > len(polls)
        assert later[key][2][: len(versions)] == versions
    new = {(key, *one) for key, (_, _, some) in later.items() for one in some[len(before[key][2]) :]}
    assert new
    again = feed(mirror, Cursor.read(place.text()))[0]
    assert len(again) == len(set(again))
    assert set(again) == new


@pytest.mark.every(2)
@pytest.mark.parametrize("what", ["split", "move"])
def test_a_cell_is_whole_whenever_its_mover_dies(running, tmp_path, what):
    mirror, _ = running
    for step in STEPS:
        before, (_, place) = everything(mirror), feed(mirror)
        other, _ = make(tmp_path / "mirror.db", tmp_path, 2, clock=mirror.clock)

        def die(now, step=step):
            if now.doing == step:
                raise KilledError

        change = {
            "move": lambda other=other, die=die: other.move(0, str(tmp_path / "elsewhere.db"), tell=die),
            "split": lambda other=other, die=die: other.split(0, tell=die),
        }[what]
        with other, pytest.raises(KilledError):
            change()
        mirror.run(mirror.clock.now() + DAY / 6)  # a runner ends it
        assert not any(one.cell.state for one in mirror.directory.states())
        happened = step == "dropping"
        files = {path.name for path in tmp_path.glob("*.db*")}
        files = {name for name in files if not name.endswith((".lock", "-wal", "-shm"))}
        if what == "move":
            place_now = "elsewhere.db" if happened else "mirror.db.cell-0000"
            assert files == {"mirror.db", "mirror.db.cell-0001", place_now}
        else:
            assert [one.parts for one in mirror.cells] == ([4, 2, 4] if happened else [2, 2])
            assert len(files) == 1 + len(mirror.cells)
        later = everything(mirror)
        assert later.keys() == before.keys()
        assert all(later[key][1][: len(polls)] == polls for key, (_, polls, _) in before.items())
        assert sum(len(one[1]) for one in later.values()) > sum(len(one[1]) for one in before.values())
        new = {(key, *one) for key, (_, _, some) in later.items() for one in some[len(before[key][2]) :]}
        assert set(feed(mirror, place)[0]) == new


_DATABASES = itertools.count()


@pytest.fixture
def second_database(postgres_server):
    """The address of another database of the same server."""
    name = f"second_{next(_DATABASES)}"
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    yield postgres_server.replace("/postgres?", f"/{name}?")
    with closing(psycopg.connect(postgres_server, autocommit=True)) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def schemas(url):
    with closing(psycopg.connect(url)) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%cell%' ORDER BY 1")
        return [name for (name,) in found]


@pytest.mark.long
def test_cells_move_to_another_server_and_are_split_there(postgres_url, second_database, tmp_path):
    servers = (second_database,)
    mirror, _ = make(postgres_url, tmp_path, 2, servers=servers)
    here, there = mirror.servers
    with mirror:
        mirror.add_many([New(key) for key in keys(7, 2)], {})
        mirror.run(mirror.clock.now() + DAY / 4)
        before, (_, place) = everything(mirror), feed(mirror)
        stale, _ = make(postgres_url, tmp_path, 2, servers=servers, clock=mirror.clock)
        with stale:
            stale_cell = next(one for one in stale.mirrors() if "cell_0000" in one.store.url)
            assert "second" not in stale_cell.store.url
            name = name_of_server(there)
            with pytest.raises(InvalidInput, match=r"cell 1 is in .*second_.* already"):
                mirror.move(1, name)
            moved = mirror.move(0, name)
            assert (moved.server, moved.place) == (name, "cell_0000")
            assert everything(mirror) == before
            with pytest.raises(Trouble), stale_cell.store.begin() as t:  # nobody writes to what is old
                t.edit([("settings", 0, 0.0, "")])
            mirror.split(0)
            mirror.split(1)
        assert everything(mirror) == before
        assert schemas(here) == []
        assert schemas(there) == [f"cell_{n:04}_of_4" for n in range(4)]
        assert not feed(mirror, place)[0]
        mirror.run(mirror.clock.now() + DAY)
        later = everything(mirror)
        assert sum(len(one[1]) for one in later.values()) > sum(len(one[1]) for one in before.values())
        assert all(later[key][1][: len(polls)] == polls for key, (_, polls, _) in before.items())
        with closing(psycopg.connect(here, autocommit=True)) as connection:
            connection.execute("CREATE SCHEMA cell_0000_of_4")
        with pytest.raises(InvalidInput, match="cell_0000_of_4 is there already"):
            mirror.move(0, name_of_server(here))


def test_bad_input_of_moves_and_splits_gets_one_clear_line(tmp_path):
    mirror, _ = make(tmp_path / "mirror.db", tmp_path, 2)
    with mirror:
        bad_input(mirror, tmp_path)


def bad_input(mirror, tmp_path):
    with pytest.raises(InvalidInput, match="there is no cell 9; there are 2"):
        mirror.move(9, str(tmp_path / "x.db"))
    with pytest.raises(InvalidInput, match=r"there is no folder '.*nowhere'"):
        mirror.move(0, str(tmp_path / "nowhere" / "x.db"))
    with pytest.raises(InvalidInput, match=r"cell 0 is in '.*cell-0000' already"):
        mirror.move(0, str(tmp_path))
    with pytest.raises(InvalidInput, match="db9/m is not a database of this mirror"):
        mirror.move(0, "postgresql://db9/m")
    (tmp_path / "there.db").write_text("")
    with pytest.raises(InvalidInput, match=r"there.db is there already"):
        mirror.move(0, str(tmp_path / "there.db"))
    alone, _ = make(tmp_path / "alone.db", tmp_path / "of-alone", 2)
    with alone:
        alone.add_many([New("python:g0/0"), New("python:g0/1")], {})
        with pytest.raises(InvalidInput, match="all its elements are of one group"):
            alone.split(alone.of_group("group:g0").number)
