"""What PostgreSQL has to clean up behind polls, and whether it keeps up: dead rows and sizes of tables.

Polls are handed out, taken and recorded, and what was learned is saved, at 1,000 a second if the machine can.
The server vacuums on its own, with the settings that it comes with.
"""

import time
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import psycopg

from benchmarks.fleet import postgres
from unstale.mirror.source import Found
from unstale.mirror.store.contract import Addition, ElementColumns, Finished, Slot, Store
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.store import open_store

ELEMENTS, BATCH, EVIDENCE_BYTES = 50_000, 200, 60
POLLS_PER_SECOND = 1000.0
SECONDS, LOOK_SECONDS = 240.0, 20.0
_LOOK = """
    SELECT relname, n_dead_tup, autovacuum_count, pg_total_relation_size(relid) FROM pg_stat_user_tables
    WHERE relname IN ('leases', 'learned', 'standing', 'numbers', 'edits') ORDER BY relname
"""


def run() -> None:
    print(f"\nvacuum: {ELEMENTS:,} elements, {POLLS_PER_SECOND:,.0f} polls a second wanted")
    with ExitStack() as stack:
        address, folder = (stack.enter_context(one) for one in (postgres(), TemporaryDirectory()))
        store = stack.enter_context(open_store(address, copies=Copies(Path(folder))))
        looking = stack.enter_context(closing(psycopg.connect(address, autocommit=True)))
        assert store.become_planner()
        for start in range(0, ELEMENTS, 10_000):
            some = [Addition(f"https://host/{i}", "http", "http:host") for i in range(start, start + 10_000)]
            with store.begin() as t:
                t.add(some, 0.0)
        _poll(store, looking)


def _poll(store: Store, looking: psycopg.Connection) -> None:
    rng, began, done, look = np.random.default_rng(1), time.monotonic(), 0, 0.0
    while (now := time.monotonic() - began) < SECONDS:
        if now >= look:
            look += LOOK_SECONDS
            rows = looking.execute(_LOOK).fetchall()
            told = ", ".join(
                f"{name} {dead:,} dead, {size / 1e6:.1f} MB, {n} vacuums" for name, dead, n, size in rows
            )
            print(f"  {now:4.0f} s, {done / max(now, 1e-9):5.0f} polls/s: {told}", flush=True)
        if done > POLLS_PER_SECOND * now:
            time.sleep(0.02)
            continue
        chosen = np.sort(rng.choice(ELEMENTS, BATCH, replace=False) + 1)
        moment = time.time()
        with store.begin() as t:
            t.hand_out([Slot(int(i), moment, 0.5, 1, 0.5, planned=True, cost=1000.0) for i in chosen])
        with store.begin() as t:
            leases = t.lease("me", BATCH, moment, moment + 300.0)
        found = Found("unchanged", "304 Not Modified", traffic=200)
        with store.begin() as t:
            t.record("me", [Finished(one, moment, 0.01, found, outcome="unchanged") for one in leases])
            t.save(_learned(chosen, moment, rng))
        done += BATCH


def _learned(chosen: np.ndarray, moment: float, rng: np.random.Generator) -> ElementColumns:
    ones = np.ones(chosen.size)
    return ElementColumns(
        id=chosen, group=np.ones(chosen.size, np.int64), added=ones, last=moment * ones, not_before=ones,
        failures=np.zeros(chosen.size, np.int64), weight=ones, size=200.0 * ones, max_age=ones,
        min_interval=ones, jitter=ones, windows=[""] * chosen.size, state=["ok"] * chosen.size,
        evidence=[rng.bytes(EVIDENCE_BYTES) for _ in chosen],
    )  # fmt: skip
