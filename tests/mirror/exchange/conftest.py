"""Mirrors with a past, on SQLite and on PostgreSQL."""

from dataclasses import replace
from math import isnan, nan

import pytest

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Rule, Settings
from unstale.mirror.source import Found
from unstale.mirror.store.contract import Finished, Slot

START = 1_700_000_000.0
OURS = ("secrets", "validators")
"""With what files are trusted that a mirror of the user has exported."""


def settings_of(**options):
    return Settings(**{"budget": 1.0, "rules": (Rule("https://b.example/*", weight=3.0),), **options})


def open_mirror(where, folder=None, clock=None, **options):
    copies = {"copies": folder} if folder is not None else {}
    clock = clock or SimulatedClock(START + 1e8)
    return Mirror(where, settings=settings_of(**options), clock=clock, **copies)


@pytest.fixture
def mirror(tmp_path):
    """A mirror of some pages and others, polled for some time, by the way that workers record polls."""
    (tmp_path / "old").mkdir()
    with open_mirror(tmp_path / "old" / "mirror.db") as made:
        fill(made)
        yield made


def fill(mirror, rounds=6):
    mirror.add("https://a.example/", weight=2.0, max_age=3600.0, change="text")
    mirror.add("https://b.example/x?y=1", windows="mon-fri 22:00-06:00 Europe/Berlin", jitter=0.25)
    mirror.add("https://b.example/z", weight=0.5, group="mine", min_interval=60.0)
    mirror.add('python:three, or "more"', poll=lambda: b"")
    feed = mirror.add("feed:https://c.example/feed.xml")
    found = mirror._discovery.addition
    from unstale.mirror.source import New

    with mirror.store.begin() as t:
        t.add([found(New(f"https://c.example/{k}"), {}, via=feed.id) for k in range(3)], START)
    mirror.add("https://gone.example/")
    mirror.remove(["https://gone.example/"])
    for number in range(rounds):
        poll_all(mirror, START + 100.0 * number + 0.123456789 * number, number)


def poll_all(mirror, time, number):
    """Poll all elements, with outcomes that depend on the number of the round."""
    elements = list(mirror.elements())
    with mirror.store.begin() as t:
        groups = {group.name: group.id for group in t.groups()}
        t.hand_out(
            [Slot(e.id, time, 10.0, groups[e.group], 0.5 if number else nan, True, 100.0) for e in elements]
        )
        leases = t.lease("w", 1000, time, time + 100.0)
    finished = []
    for at, taken in enumerate(leases):
        lease = replace(taken, slot=replace(taken.slot, last=nan if not number else time - 100.0))
        outcome = ("changed", "unchanged", "failed", "gone")[(number + at) % (4 if at % 2 else 2)]
        body = f"content {lease.known.key} {number}".encode() * (1 if at else 200_000)
        if outcome != "changed" and number:
            found = Found(outcome, f"{outcome}, at {number}\r\nsaid it\r", traffic=17)
            finished.append(Finished(lease, time, 0.5, found, outcome=outcome))
            continue
        page = lease.known.key.startswith("http")
        headers = {
            "content-type": "text/html; charset=utf-8",
            "etag": f'"{number}"',
            "x-odd": "\u00e9 \u20ac",
        }
        found = Found(
            "changed",
            "200 OK",
            fingerprint=f"text:{number}",
            media_type="text/html" if page else "application/octet-stream",
            validators={"etag": f'"{number}"'},
            traffic=len(body),
            modified=time - 5.0 if at % 2 else None,
            meta={"status": 200, "url": lease.known.key, "headers": headers} if page else {"rows": 5},
        )
        digest, size = mirror.copies.put(body)
        finished.append(
            Finished(lease, time, 0.25, found, digest, size, "changed" if number else "new", f"text:{number}")
        )
    with mirror.store.begin() as t:
        t.record("w", finished)


def said(mirror):
    """What is said of elements, by key."""
    keys = {element.id: element.key for element in mirror.elements()}
    return {
        e.key: (
            e.source, e.group, dict(e.options), dict(e.given), e.weight, e.max_age, e.min_interval, e.jitter,
            e.windows, keys.get(e.via),
        )
        for e in mirror.elements()
    }  # fmt: skip


def history(mirror, outcomes=None):
    """Polls by key and time."""
    keys = {element.id: element.key for element in mirror.elements()}
    with mirror.store.begin() as t:
        found = t.polls(None, 1_000_000, -1)
    return [
        (keys[p.element], p.time, _known(p.elapsed), p.outcome, p.traffic, p.seconds, p.detail, p.planned,
         _known(p.predicted))
        for p in found
        if outcomes is None or p.outcome in outcomes
    ]  # fmt: skip


def copies(mirror):
    """Versions, in their order."""
    return [
        (v.key, v.time, v.digest, v.size, v.media_type, v.modified, v.first, dict(v.meta))
        for v in mirror.changes(0, 1_000_000)
    ]


def _known(value):
    return None if isnan(value) else value
