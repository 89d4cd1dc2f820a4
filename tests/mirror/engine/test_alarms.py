"""Alarms: what is wrong is told once when it begins, and once when it is over: the real loop."""

from unstale.mirror.settings import Rule
from unstale.mirror.source import Found

from .worlds import DAY, START, add, events_of, make

HOUR = 3600.0


def between(broken, begin, end):
    """A page that is something else for a while."""
    return lambda now: broken if begin <= now < end else b"the same"


def told(events):
    return [(event.kind, event.detail) for event in events if event.kind in {"trouble", "recovered"}]


def test_what_fails_is_one_alarm_for_its_group_and_makes_limited_elements_overdue(tmp_path):
    mirror, world = make(tmp_path, budget=600 / DAY, tick=1800.0)
    down = Found("failed", "503 Service Unavailable")
    keys = [f"a/{n}" for n in range(4)]
    world.content = {f"python:{key}": between(down, START + DAY, START + 1.5 * DAY) for key in keys}
    world.content["python:b/0"] = b"always there"
    with mirror:
        add(mirror, *keys, "b/0")
        add(mirror, "a/0", max_age=2 * HOUR)
        assert not told(events_of(mirror, DAY))
        begun = told(events_of(mirror, 0.5 * DAY))
        assert [kind for kind, _ in begun] == ["trouble", "trouble"]
        [failing] = [text for _, text in begun if "cannot be polled" in text]
        assert "elements of group:a cannot be polled. python:a/" in failing
        assert "503 Service Unavailable" in failing
        [overdue] = [text for _, text in begun if "should have been polled" in text]
        assert "should be each 2 hours" in overdue
        assert "503 Service Unavailable" in overdue  # because of that
        over = told(events_of(mirror, 0.5 * DAY))
        assert sorted(text[:21] for _, text in over) == [
            "This is over: 1 eleme",
            f"This is over: {failing[:7]}",
        ]


def test_a_budget_that_is_used_up_is_told_while_elements_wait(tmp_path):
    mirror, world = make(tmp_path, budget=10 / DAY, reserve=DAY, tick=3600.0)
    keys = [f"a/{n}" for n in range(60)]
    world.content = {f"python:{key}": b"the same" for key in keys}
    with mirror:
        add(mirror, *keys)
        [(kind, text)] = told(events_of(mirror, 3 * DAY))
        assert kind == "trouble"
        assert text.startswith("The reserve is used up, so polls go on at 10 polls/day, with ")
        assert "elements without a first copy" in text
        events = []

        def listen(event):
            """Write into the store, as a listener may at any event."""
            events.append(event)
            mirror.hint([f"python:{keys[0]}"])

        mirror.run(mirror.clock.now() + 12 * DAY, on_event=listen)
        [(kind, text)] = told(events)
        assert (kind, text[:13]) == ("recovered", "This is over:")


def test_a_target_that_is_not_kept_is_told_once_until_it_is_kept_again(tmp_path):
    mirror, world = make(tmp_path, budget=4 / DAY, tick=7200.0, rules=(Rule("python:a/*", target=0.6),))
    wild, calm = START + 3 * DAY, START + 7 * DAY
    keys = [f"a/{n}" for n in range(3)]
    world.content = {f"python:{key}": lambda now: str(min(max(now, wild), calm)).encode() for key in keys}
    with mirror:
        add(mirror, *keys)
        assert told(events_of(mirror, 3 * DAY)) == []
        [(kind, text)] = told(events_of(mirror, 4 * DAY))
        assert kind == "trouble"
        assert "60 %" in text
        assert "python:a/*" in text
        [(kind, text)] = told(events_of(mirror, 20 * DAY))
        assert (kind, text[:13]) == ("recovered", "This is over:")
        assert "python:a/*" in text
