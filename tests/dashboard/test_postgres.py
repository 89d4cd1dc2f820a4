"""The dashboard of a mirror on PostgreSQL, which others use at the same time."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from unstale import Mirror
from unstale.mirror.settings import Settings

from .conftest import client_of

PATHS = [
    "/",
    "/what-if?budget=5/s",
    "/what-if?freshness=50",
    "/elements",
    "/elements/1",
    "/changes",
    "/changes.atom",
    "/metrics",
    "/healthz",
    "/api/status",
    "/api/groups",
    "/api/samples",
    "/api/elements?search=1",
    "/api/elements/1",
    "/api/elements/1/versions",
    "/api/changes",
    "/api/what-if",
    "/api/what-if?objective=age",
    "/api/budget-for?freshness=0.4",
    "/copies/python:0",
]


@pytest.fixture
def client(postgres_url, tmp_path):
    settings = Settings(budget=1000.0)
    with Mirror(postgres_url, settings=settings, copies=tmp_path / "copies") as mirror:
        for n in range(20):
            mirror.add(f"python:{n}", poll=lambda n=n: f"text {n}")
        mirror.step()
        with client_of(postgres_url, settings, copies=tmp_path / "copies") as made:
            yield made


def test_all_pages_and_answers(client):
    for path in PATHS:
        assert client.get(path).status_code == 200, path


def test_elements_may_come_and_go_meanwhile(client):
    def visit(seed):
        rng, seen = random.Random(seed), Counter()  # noqa: S311
        for _ in range(12):
            if rng.random() < 0.4:
                new = {"key": f"https://example.org/{rng.randrange(10**6)}"}
                seen[client.post("/api/elements", json={"elements": [new]}).status_code] += 1
            elif rng.random() < 0.2:
                seen[client.delete(f"/api/elements/{rng.randrange(5, 40)}?forget=true").status_code] += 1
            else:
                seen[client.get(rng.choice(PATHS)).status_code] += 1
        return seen

    with ThreadPoolExecutor(8) as threads:
        seen = sum(threads.map(visit, range(8)), Counter())
    assert set(seen) <= {200, 404}, seen
    assert seen[200] > 48
