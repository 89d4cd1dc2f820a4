"""A mirror finds out which of its elements are alike, keeps it, and tells of it."""

from itertools import pairwise

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine import planner
from unstale.mirror.store.element_path import path_of
from unstale.mirror.store.sql.transaction import SqlTransaction

from .worlds import DAY, add, make, run


def every(days, phase):
    """Return content that changes so often."""
    return lambda now: str(int(now // (days * DAY) + phase)).encode()


def test_new_pages_get_the_class_of_their_folder(tmp_path):
    content = {
        f"python:site/{folder}/{i}": every(days * (0.7 + 0.02 * i), 0.3 * i)
        for folder, days in (("news", 1.0), ("archive", 30.0))
        for i in range(24)
    }
    mirror, _ = make(tmp_path, budget=60 / DAY, content=content, tick=14400.0)
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, 7 * DAY)
        add(mirror, "site/news/new", "site/archive/new", "elsewhere/new")
        run(mirror, 0.2 * DAY)
        now = mirror.clock.now()
        news, archive = (mirror.explain(f"python:site/{folder}/new") for folder in ("news", "archive"))
    assert 0.4 < DAY * news.rate < 3.0
    assert DAY * archive.rate < 0.2
    assert "python > group:site > " in news.alike + archive.alike
    again, _ = make(tmp_path, budget=60 / DAY, content=content, clock=SimulatedClock(now))
    with again:
        assert again.explain("python:site/news/new").alike == news.alike
        assert abs(again.explain("python:site/news/new").rate / news.rate - 1.0) < 1e-6


def test_paths_are_from_coarse_to_fine():
    assert path_of("file", "file:local", "/srv/a/b.csv").split("\n") == [
        "file", "file:local", "text/csv", "srv", "a",
    ]  # fmt: skip
    assert path_of("http", "http:a.org", "https://a.org").split("\n") == ["http", "http:a.org"]
    assert path_of("http", "http:a.org", "https://a.org/x/").split("\n") == ["http", "http:a.org", "x"]
    assert path_of("sql", "sql:shop", "shop#orders[region=e.u]").split("\n")[:2] == ["sql", "sql:shop"]
    deep = path_of("file", "file:local", "/1/2/3/4/5/6/7/x")
    assert deep.split("\n") == ["file", "file:local", *"12345"]


def test_what_is_large_is_kept_once_in_a_minute(tmp_path, monkeypatch):
    monkeypatch.setattr(planner, "_LARGE_BYTES", 500)
    kept, keep = [], SqlTransaction.keep

    def noting(self, state):
        kept.append((mirror.clock.now(), set(state)))
        keep(self, state)

    monkeypatch.setattr(SqlTransaction, "keep", noting)
    mirror, _ = make(tmp_path, budget=0.2, content={"python:a": every(1e-4, 0.0)}, tick=10.0)
    with mirror:
        add(mirror, "a")
        run(mirror, 300.0)
    large = [time for time, names in kept if "rhythm" in names]
    assert 3 <= len(large) <= 6
    assert min(b - a for a, b in pairwise(large)) >= 60.0
    assert sum("planner" in names for _, names in kept) > 2 * len(large)
