"""Elements, leases and polls for tests."""

import numpy as np

from unstale.mirror.source import Found
from unstale.mirror.store.contract import Addition, ElementColumns, Finished, Slot

NAN = float("nan")


def additions(count, start=0, groups=3, **options):
    return [
        Addition(f"https://host{i % groups}/{i}", "http", f"http:host{i % groups}", **options)
        for i in range(start, start + count)
    ]


def slot(element, start=10.0, **other):
    return Slot(
        element, start, **{"late": 5.0, "group": 1, "predicted": 0.5, "planned": True, "cost": 7.0} | other
    )


def unchanged(lease, began=11.0, **other):
    found = Found("unchanged", "304 Not Modified", traffic=300, **other)
    return Finished(lease, began, 0.25, found, outcome="unchanged")


def changed(lease, copies, body=b"content", began=11.0, outcome="new", **other):
    digest, size = copies.put(body)
    given = {"validators": {"etag": "a"}, "media_type": "text/html", "traffic": 500, "meta": {"status": 200}}
    found = Found("changed", "200 OK", **given | other)
    return Finished(lease, began, 0.25, found, digest, size, outcome, f"print of {body!r}")


def given_back(lease):
    return Finished(lease, 11.0, 0.0, None)


def columns(ids, evidence=(), state="ok", **other):
    count = len(ids)
    names = ("added", "last", "not_before", "weight", "size", "max_age", "min_interval", "jitter")
    given = {name: np.full(count, other.get(name, 1.0)) for name in names}
    return ElementColumns(
        id=np.array(ids, np.int64),
        group=np.ones(count, np.int64),
        failures=np.full(count, other.get("failures", 0), np.int64),
        windows=[""] * count,
        state=[state] * count,
        evidence=evidence,
        **given,
    )


def handed_out(store, count=5, worker="w", now=9.0):
    """Add elements, hand out a poll of each and take them."""
    with store.begin() as t:
        ids = t.add(additions(count), 1.0)
        t.hand_out([slot(number, 10.0 + place) for place, number in enumerate(ids)])
        return t.lease(worker, count, now, 100.0)
