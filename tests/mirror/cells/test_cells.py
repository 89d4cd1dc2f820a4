"""A mirror in several cells: each element in its cell, one price, one list of changes."""

import json
from functools import partial
from math import inf

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mirror.engine.worlds import DAY, START, World
from unstale.cli.program import cli
from unstale.errors import InvalidInput
from unstale.mirror.cells.cursor import Cursor
from unstale.mirror.cells.layout import Cell
from unstale.mirror.cells.mirror import MirrorOfCells
from unstale.mirror.cells.shares import Given, next_shares, with_floor
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.settings import Composed, GroupLimit, Rule, Settings
from unstale.mirror.source import Found, New


def make(
    url, folder, cells, *, budget=300 / DAY, every=3 * 3600.0, tick=3600.0, clock=None, world=None, **settings
):
    """Return a mirror of some cells in simulated time, and its world."""
    clock = SimulatedClock(START, turns=20) if clock is None else clock
    world = World(clock) if world is None else world
    settings = {"groups": (GroupLimit("*", concurrency=1000),), "reserve": 0.0, **settings}
    mirror = MirrorOfCells(
        url,
        settings=Settings(budget=budget, cells=cells, **settings),
        copies=folder / "copies",
        clock=clock,
        sources={"python": world},
        tick=tick,
        sample_every=inf,
        tidy_every=DAY,
        every=every,
    )
    return mirror, world


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    return (
        str(tmp_path / "mirror.db") if request.param == "sqlite" else request.getfixturevalue("postgres_url")
    )


def changing(rate, now):
    """Return what an element contains that changes so many times a day."""
    return str(int((now - START) / DAY * rate)).encode()


def keys(groups, each):
    return [f"python:g{g}/{i}" for g in range(groups) for i in range(each)]


def test_elements_are_in_the_cell_of_their_group_and_all_commands_find_them(url, tmp_path):
    mirror, world = make(url, tmp_path, 3)
    with mirror:
        got = mirror.add_many([New(key) for key in keys(7, 2)], {})
        assert (got.added, got.known) == (14, 0)
        again = mirror.add_many([New(key) for key in keys(7, 2)], {"weight": 2.0})
        assert (again.added, again.known, again.changed) == (0, 14, 14)
        assert [mirror.count(cell) for cell in mirror.cells] == [
            sum(cell.has(f"group:g{g}") for g in range(7)) * 2 for cell in mirror.cells
        ]
        assert sorted(one.key for one in mirror.elements()) == sorted(keys(7, 2))
        assert mirror.find("python:g3/1").weight == 2.0
        mirror.run(mirror.clock.now() + DAY / 2)
        assert len(world.polls) >= 14
        assert mirror.read("python:g3/1").body == b"something"
        assert mirror.explain("python:g3/1").element.key == "python:g3/1"
        status = mirror.status()
        assert status.elements == {"ok": 14}
        assert status.polls["new"] == 14
        assert status.budget == pytest.approx(300 / DAY)
        assert mirror.hint(["python:g1/0", "python:g2/0"]) == 2
        assert mirror.remove(["python:g1/0"], forget=True) == 1
        with pytest.raises(InvalidInput, match="no element 'python:g1/0'"):
            mirror.find("python:g1/0")
    other, _ = make(url, tmp_path, 3, clock=mirror.clock)
    with other:  # as another process opens it
        assert len(list(other.elements())) == 13
    with pytest.raises(InvalidInput, match="groups of rules"):
        make(url, tmp_path, 3, rules=(Rule("python:*", group="mine"),))


@pytest.mark.long
def test_one_cursor_goes_over_the_changes_of_all_cells(tmp_path):
    mirror, world = make(tmp_path / "mirror.db", tmp_path, 3)
    with mirror:
        mirror.add_many([New(key) for key in keys(7, 2)], {})
        mirror.run(mirror.clock.now() + DAY / 4)
        first = list(mirror.changes())
        assert sorted(version.key for _, version, _ in first) == sorted(keys(7, 2))
        middle = first[5][2]
        rest = list(mirror.changes(Cursor.read(middle.text())))
        assert [one[1] for one in rest] == [one[1] for one in first[6:]]
        assert not list(mirror.changes(mirror.latest()))
        world.content |= dict.fromkeys(keys(7, 2)[::3], b"other")
        before = mirror.latest()
        mirror.run(mirror.clock.now() + DAY)
        assert {version.key for _, version, _ in mirror.changes(before)} == set(keys(7, 2)[::3])
    split = [Cell(n, 6, n % 3, "", "", "") for n in range(6)]
    assert Cursor({0: 5, 1: 6, 2: 7}).over(split).after == {0: 5, 1: 6, 2: 7, 3: 5, 4: 6, 5: 7}
    with pytest.raises(InvalidInput, match="must be a cursor"):
        Cursor.read("12")


@pytest.mark.long
def test_what_a_list_names_in_other_cells_gets_there(tmp_path):
    mirror, world = make(tmp_path / "mirror.db", tmp_path, 3)
    named = [New(key) for key in keys(7, 2)]
    hinted = []
    world.content["python:list/0"] = lambda now: Found(
        "changed", body=f"{now}".encode(), discovered=tuple(named), hints=tuple(hinted)
    )
    with mirror:
        mirror.add_many([New("python:list/0")], {"max_age": DAY / 4})
        mirror.run(mirror.clock.now() + 0.75 * DAY)
        found = {one.key: one for one in mirror.elements()}
        assert found.keys() == {"python:list/0", *keys(7, 2)}
        assert all(one.state == "ok" for one in found.values())
        home = mirror.having("python:list/0")
        there, other = (
            "python:g0/0",
            [one.key for one in found.values() if mirror.having(one.key) is not home],
        )
        assert mirror.having(there).find(there).key == there
        hinted += [(key, 0.0) for key in other[:2]]
        mirror.run(mirror.clock.now() + DAY)
        for key in other[:2]:
            with mirror.having(key).store.begin() as t:
                assert b"python:list/0" in t.state()["channels"]


@given(
    st.integers(2, 8).flatmap(
        lambda n: st.lists(
            st.tuples(
                st.lists(st.floats(0.0, 1.0), min_size=n, max_size=n),
                st.lists(st.booleans(), min_size=n, max_size=n),
            ),
            min_size=1,
            max_size=30,
        )
    )
)
def test_parts_that_may_be_in_use_never_add_up_to_more_than_the_budget(rounds):
    n = len(rounds[0][0])
    given_now = [Given(1.0 / n, 1.0 / n)] * n
    used = [[1.0 / n] for _ in range(n)]  # all that a cell may go by: it has not acknowledged the last
    for wishes, acknowledged in rounds:
        given_now = next_shares(given_now, with_floor(wishes))
        for i, one in enumerate(given_now):
            used[i].append(one.share)
        assert sum(max(one) for one in used) <= 1.0 + 1e-9
        for i, told in enumerate(acknowledged):
            if told:
                used[i] = [given_now[i].share]
                given_now[i] = Given(given_now[i].share, given_now[i].share)


def test_a_cell_that_acknowledges_late_keeps_nobody_waiting_for_ever():
    given_now, told = [Given(0.5, 0.5)] * 2, [0.5, 0.5]
    for turn in range(12):  # the wishes are never the same twice, and cells say a round later what they go by
        taken = list(told)
        given_now = next_shares(given_now, [0.2 + 0.002 * turn, 0.8 - 0.002 * turn])
        told = [one.share for one in given_now]
        given_now = [
            Given(one.share, one.share if one.share == last else one.bound)
            for one, last in zip(given_now, taken, strict=True)
        ]
    assert told == pytest.approx([0.22, 0.78], abs=0.01)


def test_a_floor_changes_no_proportion_of_those_above_it():
    parts = with_floor([1.0, 3.0, 6.0, 0.0])
    assert parts[3] == pytest.approx(0.005)
    assert np.array(parts[:3]) / parts[0] == pytest.approx([1.0, 3.0, 6.0])
    assert sum(parts) == pytest.approx(1.0)


@pytest.mark.long
def test_the_budget_holds_while_parts_change_and_runners_come_and_go(tmp_path):
    budget, reserve = 600 / DAY, DAY / 8
    mirror, world = make(tmp_path / "mirror.db", tmp_path, 3, budget=budget, every=3600.0, reserve=reserve)
    rng = np.random.default_rng(1)
    rates = dict(zip(keys(6, 30), 10.0 ** rng.uniform(-1, 2, 180), strict=True))
    world.content = {key: partial(changing, rate) for key, rate in rates.items()}
    with mirror:
        mirror.add_many([New(key) for key in world.content], {})
        for hours in (7.0, 1.0, 11.0, 5.0):
            mirror.run(mirror.clock.now() + hours * 3600.0)
            shares = [one.share for one in mirror.directory.states()]
            assert sum(one.bound for one in mirror.directory.states()) <= 1.0 + 1e-9
        assert max(shares) > 1.2 * min(shares)
    times = np.array([time for time, _ in world.polls])
    for span in (60.0, 3600.0, 6 * 3600.0):
        ends = np.searchsorted(times, times + span)
        most = int((ends - np.arange(times.size)).max())
        assert most <= budget * (span + reserve) + 4


def test_what_cells_cannot_do_together_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"composed.*several cells"):
        make(tmp_path / "mirror.db", tmp_path, 2, composed=(Composed("report", ("*",)),))
    from unstale.mirror.mirror import Mirror

    with Mirror(tmp_path / "one.db") as one:
        one.add("python:a", poll=lambda: "a")
    with pytest.raises(InvalidInput, match="is a mirror of one cell"):
        make(tmp_path / "one.db", tmp_path, 2)
    with pytest.raises(InvalidInput, match="--cell N"):
        Mirror(tmp_path / "one.db", cells=3)


def test_commands_over_cells(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = [tmp_path / f"{name}.txt" for name in "abcdef"]
    for file in files:
        file.write_text(file.name)

    def unstale(*words, code=0):
        got = CliRunner().invoke(cli, words, standalone_mode=False)
        assert (got.exception is None) == (code == 0), (got.output, got.exception)
        return got.output if code == 0 else str(got.exception)

    unstale("init", "--budget", "1000/day")
    toml = tmp_path / "mirror.toml"
    toml.write_text(toml.read_text().replace("[mirror]", "[mirror]\ncells = 3", 1))
    for number, file in enumerate(files):
        unstale("add", str(file), "--group", f"g{number}")
    assert "6 elements" in unstale("cells", "list")
    for _ in range(20):  # a busy machine may be too slow for what is due
        unstale("run", "--once", "--quiet")
        if json.loads(unstale("status", "--json"))["elements"] == {"ok": 6}:
            break
    got = json.loads(unstale("cells", "list", "--json"))
    assert [one["cell"] for one in got["cells"]] == [0, 1, 2]
    assert json.loads(unstale("status", "--json"))["elements"] == {"ok": 6}
    assert str(files[2]) in unstale("explain", str(files[2]))
    assert unstale("show", str(files[2])) == "c.txt"
    lines = [json.loads(line) for line in unstale("changes", "--json").splitlines()]
    assert len(lines) == 6
    assert len(unstale("changes", "--json", "--after", lines[3]["cursor"]).splitlines()) == 2
    unstale("export", "--elements", "e.csv", "--history", "h.csv", "--copies", "c.warc.gz")
    assert (tmp_path / "e.csv").read_text().count(".txt,") == 6
    assert "6 elements" in unstale("import", "e.csv", "--allow", "file")
    assert "one cell at a time" in unstale("import", "h.csv", code=2)
    assert "--cell N" in unstale("whatif", "mirror.toml", code=2)
    number = str(lines[0]["cell"])
    assert json.loads(unstale("status", "--cell", number, "--json"))["elements"]["ok"] >= 1
    assert "no cell 7" in unstale("status", "--cell", "7", code=2)
