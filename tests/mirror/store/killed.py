"""A worker that is killed: it polls as fast as it can, and says after each commit what has been recorded.

Run as a script it is the parent of workers: importing takes longer than a life. It forks one for each line of
its input, which says what it is to work on, and says when the worker is dead.
"""

import itertools
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
from sqlalchemy import Engine, event

from unstale.mirror.source import Found
from unstale.mirror.store.contract import Addition, ElementColumns, Finished, Slot
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store

ELEMENTS = 30
GROUPS = 3
LEASE = 0.5
"""Seconds after which what a dead worker had taken is free again."""
SPACING = 1.0
"""Seconds between two polls of a group; nobody waits for them, the slots just are as far apart."""


def elements():
    return [Addition(f"key {n}", "test", f"group {n % GROUPS}") for n in range(ELEMENTS)]


def say(**what):
    os.write(1, (json.dumps(what) + "\n").encode())


def planned(t, free, spent):
    """Hand out a poll of each element that is free, paid for now."""
    paid = {group.id: group.paid_until for group in t.groups()}
    slots = []
    for element in free:
        group = (element - 1) % GROUPS + 1
        slots.append(Slot(element, paid[group], 1e12, group, 0.5, planned=True, cost=1.0))
        paid[group] += SPACING
    t.hand_out(slots)
    t.pay(paid)
    t.keep({"spent": b"%d" % (spent + len(slots))})
    return paid


def learned(t, heard, state):
    """Count the polls of each element: its evidence."""
    position, last = int(state.get("position", b"0")), heard.poll[-1] if len(heard.poll) else 0
    seen = Counter(heard.element.tolist())
    for part in t.load(sorted(seen)):
        count = len(part.id)
        evidence = [
            b"%d" % (int(bytes(before) or b"0") + seen[number])
            for number, before in zip(part.id.tolist(), part.evidence, strict=True)
        ]
        zeros, ones = np.zeros(count), np.zeros(count, np.int64)
        t.save(ElementColumns(
            part.id, part.group, zeros, zeros, zeros, ones, zeros, zeros, zeros, zeros, zeros, [""] * count,
            ["ok"] * count, evidence,
        ))  # fmt: skip
    t.keep({"position": b"%d" % max(position, last)})


def polled(copies, lease, chance):
    """Poll: now and then there is something new."""
    if chance.random() < 0.5:
        return Finished(lease, lease.slot.start, 0.0, Found("unchanged", "same"), outcome="unchanged")
    if chance.random() < 0.1:
        return Finished(lease, lease.slot.start, 0.0, None)
    body = chance.randbytes(10) * chance.choice([1, 30, 3000])
    if chance.random() < 0.2:
        body = b"a content that many have"
    path = copies.scratch / f"body-{os.getpid()}-{lease.slot.element}"
    path.write_bytes(body)
    digest, size = copies.put(path if chance.random() < 0.3 else body)
    outcome = "new" if lease.known.fingerprint is None else "changed"
    found = Found("changed", "new", validators={"print": digest}, wait=chance.choice([None, 0.001]))
    return Finished(lease, lease.slot.start, 0.0, found, digest, size, outcome, digest)


def die_at(step, kind):
    """Be killed at this step: before or after a statement or a commit, or something done to a file."""
    left = itertools.count(step, -1)

    def look(*_):
        if next(left) == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def looking(function):
        def look_and_do(*arguments, **named):
            look()
            done = function(*arguments, **named)
            look()
            return done

        return look_and_do

    if kind == "statement":
        for name in ("before_cursor_execute", "after_cursor_execute", "commit"):
            event.listen(Engine, name, look)
    else:
        os.fsync = looking(os.fsync)
        Path.replace, Path.unlink = looking(Path.replace), looking(Path.unlink)


def work(url, folder, worker, seed, *, step=None, kind=None):
    """Work until killed."""
    if step is not None:
        die_at(step, kind)
    copies, chance = Copies(folder), random.Random(seed)  # noqa: S311
    store = open_store(url, copies=copies, run=True)
    finished, leases, doomed = [], [], []
    first = True
    while True:
        planner = store.become_planner()
        with store.begin() as t:
            versions = t.record(worker, finished)
            if planner:
                t.add(elements(), 0.0)
                t.expire(time.time(), everything=first and store.single_runner)
                first = False
                state = t.state()
                heard = t.heard(int(state.get("position", b"0")))
                learned(t, heard, state)
                taken = {element for element, _, _ in t.leased()}
                free = [n for n in range(1, ELEMENTS + 1) if n not in taken and chance.random() < 0.5]
                paid = planned(t, free, int(state.get("spent", b"0")))
                doomed = t.prune(3, -np.inf, limit=10) if chance.random() < 0.3 else []
            mine = {(one.lease.slot.element, one.lease.slot.start) for one in finished}
            polls = [poll for poll in t.polls(limit=len(finished)) if (poll.element, poll.time) in mine]
            leases = t.lease(worker, 10, 0.0, time.time() + LEASE)
        say(
            versions=[(version.id, version.digest) for version in versions],
            polls=[(poll.id, poll.element, poll.time) for poll in polls],
            paid=paid if planner else {},
        )
        store.discard(doomed)
        finished = [polled(copies, lease, chance) for lease in leases]


def main():
    """Fork a worker for each line."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                work(**job)
            finally:
                os._exit(1)
        say(pid=child)
        _, status = os.waitpid(child, 0)
        os.write(1, b"\n" + json.dumps({"dead": os.WTERMSIG(status) == signal.SIGKILL}).encode() + b"\n")


if __name__ == "__main__":
    main()
