"""Workers on one PostgreSQL go by its clock; a machine whose own is far off is told so, or refused."""

import time

import pytest

from unstale.errors import InvalidInput
from unstale.mirror.clock import RealClock
from unstale.mirror.mirror import Mirror


@pytest.fixture
def mirror(postgres_url, tmp_path, monkeypatch):
    """Return a function that opens a mirror on a machine whose clock is ahead by so much."""
    real = time.time

    def open_mirror(ahead):
        monkeypatch.setattr(time, "time", lambda: real() + ahead)
        return Mirror(postgres_url, copies=tmp_path / "copies")

    return open_mirror


def added(mirror):
    mirror.add("python:a", poll=lambda: "something")
    return mirror


def test_a_worker_that_is_a_little_off_polls_at_the_time_of_the_database_and_says_so(mirror):
    events = []
    with added(mirror(20.0)) as one:
        assert one.step(on_event=events.append) == 1
        (poll,) = one.polls()
        with one.store.begin() as t:
            reading = t.clock()
            assert abs(poll.time - time.monotonic() - reading.ahead) < 15.0
            t.alive("elsewhere:1:a", one.clock.now(), one.clock.now() + 60.0, ahead=-42.0)
        told = [event.detail for event in events if event.kind == "trouble"]
        does = "the database's, by which the mirror goes; let NTP set it"
        assert told == [f"the clock of this machine is 20 seconds ahead of {does}"]
        assert one.status().trouble == [f"the clock of elsewhere:1:a is 42 seconds behind {does}"]


@pytest.mark.parametrize(("ahead", "way"), [(3600.0, "1 hour ahead of"), (-3600.0, "1 hour behind")])
def test_a_worker_that_is_far_off_is_refused_in_one_line(mirror, ahead, way):
    with added(mirror(ahead)) as one:
        with pytest.raises(InvalidInput, match=f"the clock of this machine is {way} the database's.*NTP"):
            one.step()
        assert one.polls() == []
        assert one.status().elements == {"new": 1}  # whoever reads is not refused


def test_a_file_has_no_clock_of_its_own(tmp_path):
    with Mirror(tmp_path / "mirror.db") as one, one.store.begin() as t:
        assert t.clock() is None
        assert isinstance(one.clock, RealClock)
        assert one.clock.skew == 0.0
