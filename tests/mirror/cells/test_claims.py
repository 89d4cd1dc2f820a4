"""Who works on which cells: claims of processes, those that cannot reach some, a database that was away."""

from contextlib import closing

import pytest

from unstale.errors import Trouble
from unstale.mirror.cells.directory import CLAIM_SECONDS, Directory
from unstale.mirror.cells.layout import Cell


class Time:
    """A clock that a test sets."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Time()


@pytest.fixture
def directory(tmp_path, clock):
    with closing(Directory(str(tmp_path / "mirror.db"), clock=clock)) as directory:
        directory.create([Cell(n, 8, n, "", f"cell-{n}", f"cell-{n}") for n in range(8)], "")
        yield directory


def mine(claims):
    return sorted(claims.mine)


def test_cells_are_shared_by_those_who_are_there(directory, clock):
    assert mine(directory.claim("a", [])) == list(range(8))
    assert mine(directory.claim("b", [])) == []  # a has them all, and lets some go
    first = mine(directory.claim("a", range(8)))
    second = mine(directory.claim("b", []))
    assert (len(first), len(second)) == (4, 4)
    assert sorted(first + second) == list(range(8))
    clock.now += 0.9 * CLAIM_SECONDS
    assert mine(directory.claim("b", second)) == second
    clock.now += 0.2 * CLAIM_SECONDS
    assert mine(directory.claim("b", second)) == list(range(8))  # a is gone


def test_what_one_cannot_reach_is_left_to_others_until_it_can(directory):
    directory.claim("a", [])
    directory.claim("b", [])
    first = mine(directory.claim("a", range(8)))
    second = mine(directory.claim("b", []))
    cannot = first[:2]
    assert mine(directory.claim("a", first, cannot=cannot)) == first[2:]
    assert mine(directory.claim("b", second)) == sorted(second + cannot)  # more than its part
    assert mine(directory.claim("a", first[2:], cannot=cannot)) == first[2:]
    directory.claim("a", first[2:])  # it can again
    assert len(mine(directory.claim("b", second + cannot))) == 4
    assert len(mine(directory.claim("a", first[2:]))) == 4


def test_nobody_gets_what_it_is_just_leaving(directory):
    assert mine(directory.claim("a", [], leaving=[0, 1])) == list(range(2, 8))


def test_after_the_database_was_away_nobody_loses_cells_to_who_comes_back_first(directory, clock):
    directory.claim("a", [])
    directory.claim("b", [])
    first = mine(directory.claim("a", range(8)))
    second = mine(directory.claim("b", []))
    clock.now += 10.0 * CLAIM_SECONDS
    assert mine(directory.claim("a", first)) == first
    clock.now += 5.0
    assert mine(directory.claim("b", second)) == second
    clock.now += 10.0 * CLAIM_SECONDS
    assert mine(directory.claim("a", first)) == first
    clock.now += 0.9 * CLAIM_SECONDS  # b does not come back
    assert mine(directory.claim("a", first)) == list(range(8))
    clock.now += 10.0 * CLAIM_SECONDS
    assert mine(directory.claim("c", [])) == list(range(8))  # who is new says nothing of the database


def test_a_process_that_hangs_in_the_middle_holds_up_the_others_for_seconds_only(postgres_url):
    with closing(Directory(postgres_url)) as one, closing(Directory(postgres_url)) as other:
        one.create([Cell(0, 1, 0, "db/mirror", "cell_0000", "cell-0000")], "")

        def hang():
            with one._transaction():
                assert mine(other.claim("b", [])) == [0]

        with pytest.raises(Trouble):
            hang()
        assert mine(other.claim("b", [0])) == [0]
