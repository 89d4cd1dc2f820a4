"""A limit of space: what is worth least for its bytes is dropped, and comes back on read."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner

from unstale.cli.program import cli
from unstale.errors import InvalidInput
from unstale.mirror.settings import Reads
from unstale.planning.space import plan_within

from .worlds import DAY, START, add, events_of, make, run

COUNT, DAYS, WARM = 60, 40.0, 15.0


def world(seed):
    """Return change rates per day, changes in days, bytes of copies, weights."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 1.0, COUNT)
    changes = [np.sort(rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS))) for rate in rates]
    return rates, changes, rng.integers(300, 3000, COUNT), rng.gamma(2.0, 0.5, COUNT)


def played(folder, seed, *, share, budget=40.0, days=DAYS):
    """Run a mirror with room for a share of the bytes; return what it should buy, and what it bought."""
    rates, changes, sizes, weights = world(seed)

    def content(i):
        def text(now):
            number = int(np.searchsorted(changes[i], (now - START) / DAY))
            return f"{i} {number} ".encode().ljust(int(sizes[i]), b".")

        return text

    mirror, played_world = make(
        folder, content={f"python:g/{i}": content(i) for i in range(COUNT)}, budget=budget / DAY,
        reserve=DAY, tick=3600.0, space=int(share * sizes.sum()), reads=Reads(poll_share=0.1, wait=7200.0),
    )  # fmt: skip
    with mirror:
        for i in range(COUNT):
            add(mirror, f"g/{i}", weight=float(weights[i]))
        run(mirror, days * DAY)
        said = plan_within(rates, budget, room=sizes, space=share * sizes.sum(), weights=weights)
        fresh = np.zeros(COUNT)
        there = [mirror.find(f"python:g/{i}") for i in range(COUNT)]
        for i, element in enumerate(there):
            polls = [(time - START) / DAY for time in played_world.times(element.key)]
            if element.state == "dropped":
                continue
            for first, last in pairwise([*polls, days]):
                later = changes[i][changes[i] > first]
                until = min(last, later[0] if later.size else days)
                fresh[i] += max(until - max(first, WARM), 0.0)
        status = mirror.status()
    return said, float(weights @ fresh / weights.sum()) / (days - WARM), status


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_copies_are_kept_that_are_worth_most_for_their_bytes(tmp_path, seed):
    said, fresh, status = played(tmp_path, seed, share=0.5)
    assert fresh == pytest.approx(said.freshness, abs=0.02)
    assert status.room.taken <= 1.02 * status.room.space
    assert status.room.dropped == status.elements["dropped"] > COUNT // 8
    assert status.predicted == pytest.approx(said.freshness, abs=0.03)


def large_and_small(folder, **settings):
    """Return a mirror of six small elements and two that take most of the room, polled for half a day."""
    text = {f"python:g/{i}": str(i).encode().ljust(5000 if i > 5 else 100, b".") for i in range(8)}
    mirror, at = make(folder, content=text, budget=100 / DAY, space=7000, **settings)
    add(mirror, *(f"g/{i}" for i in range(7)))
    add(mirror, "g/7", weight=100.0)
    return mirror, at, events_of(mirror, 0.5 * DAY)


def test_what_is_dropped_is_said_and_not_polled(tmp_path):
    mirror, at, events = large_and_small(tmp_path)
    with mirror:
        assert [one.key for one in mirror.elements() if one.state == "dropped"] == ["python:g/6"]
        assert [event.detail for event in events if event.kind == "dropped"] == [
            "1 copy is dropped: there is no room for more"
        ]
        status = mirror.status()
        assert (status.room.space, status.room.dropped) == (7000, 1)
        assert 5600 <= status.room.taken <= 7000
        assert status.predicted <= 1.0 - 1.0 / 107.0 + 1e-9  # what is dropped is not fresh
        assert status.neglected == []
        explained = mirror.explain("python:g/6")
        assert "no room" in explained.why
        assert (explained.worth, explained.next_poll) == (0.0, np.inf)
        before = len(at.times("python:g/6"))
        with pytest.raises(InvalidInput, match="there was no room for it; raise"):
            mirror.read("python:g/6")
        run(mirror, 0.5 * DAY)
        assert len(at.times("python:g/6")) == before


def test_a_reader_gets_it_and_more_room_brings_it_back(tmp_path):
    mirror, at, _ = large_and_small(tmp_path, reads=Reads(poll_share=0.1, wait=7200.0))
    with mirror:
        number, before = mirror.find("python:g/6").id, len(at.times("python:g/6"))
        with mirror.store.begin() as t:
            t.edit([("read", number, mirror.clock.now(), "")])
        seen = []
        mirror.run(
            mirror.clock.now() + 3600.0,
            on_event=lambda event: event.kind == "poll" and seen.append(event.data["outcome"]),
        )
        assert len(at.times("python:g/6")) == before + 1
        assert "new" in seen
        mirror.settings = replace(mirror.settings, space=None)
        run(mirror, 0.5 * DAY)
        assert mirror.find("python:g/6").state == "ok"
        assert mirror.read("python:g/6").body.startswith(b"6")


def test_old_versions_go_first(tmp_path):
    text = {"python:g/0": lambda now: str(int(now // 3600)).encode().ljust(1000, b".")}
    mirror, _ = make(tmp_path, content=text, budget=48 / DAY, space=3000)
    with mirror:
        add(mirror, "g/0")
        run(mirror, DAY)
        assert mirror.find("python:g/0").state == "ok"
        with mirror.store.begin() as t:
            assert 1 <= len(t.versions(element=1)) <= 4
        assert mirror.status().room.dropped == 0


def test_the_command_tells_of_a_copy_that_was_dropped(tmp_path, monkeypatch):
    mirror, _, _ = large_and_small(tmp_path)
    mirror.close()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirror.toml").write_text('[mirror]\nstore = "mirror.db"\nspace = "7KB"\n')
    told = CliRunner().invoke(cli, ["explain", "python:g/6"], catch_exceptions=False).output
    assert "the mirror dropped its copy, since there was no room" in told
    assert "any price" not in told
    told = CliRunner().invoke(cli, ["status"], catch_exceptions=False).output
    assert "of 7 kB taken by copies; 1 element dropped" in " ".join(told.split())
