"""A mirror that others fetch for, served on loopback; the test lets its planner plan."""

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import uvicorn

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules, ScopedToken
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import GroupLimit, Rule, Settings

LEASE, EDIT = "a-token-that-leases", "a-token-that-edits-and-leases"
SETTINGS = Settings(
    budget=1000.0,
    fetch="elsewhere",
    groups=(GroupLimit("*", concurrency=1000, spacing=0.0),),
    rules=(Rule(match="*/index", options={"links": 1}),),
)


@dataclass
class Served:
    """A mirror, where it is served, and what plans its polls."""

    mirror: Mirror
    address: str
    worker: object

    def leased(self, lease, count):
        """Let the planner hand out polls until so many are taken, and wait until the last may begin."""
        found = []
        for _ in range(50):
            asyncio.run(self.worker.turn())
            found += lease(count - len(found))
            if len(found) >= count:
                time.sleep(max(max(one.slot for one in found) - time.time(), 0.0))
                return found
        pytest.fail(f"only {len(found)} of {count} polls were handed out")


@contextmanager
def serving(store, settings, rules):
    """Serve a mirror in a thread; gives its address."""
    gateway = MirrorGateway(Mirror(store, settings=settings), fresh_for=0.0)
    server = uvicorn.Server(uvicorn.Config(create_app(gateway, rules), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(20)


@pytest.fixture
def served(tmp_path):
    rules = AccessRules(
        more=(ScopedToken(LEASE, frozenset({"lease"})), ScopedToken(EDIT, frozenset({"edit", "lease"})))
    )
    with (
        Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror,
        mirror._working(lambda _: None) as worker,
        serving(mirror.store.url, SETTINGS, rules) as address,
    ):
        yield Served(mirror, address, worker)
