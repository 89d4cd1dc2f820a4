"""Differences are worked out a few at a time, and kept in a bounded room."""

import io
import sqlite3
import threading
import time
from contextlib import closing
from sys import getsizeof

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mirror.differences.test_pictures import page, png

from unstale.dashboard.pages import differences
from unstale.errors import Trouble
from unstale.mirror.source import Found


@pytest.fixture
def pair(mirror, web):
    """Return two versions of an element."""
    web.pages["news"] = "later"
    mirror.step()
    with mirror.store.begin() as t:
        new, old = t.versions(element=mirror.find("python:news").id, latest_first=True, limit=2)
    return old, new


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(differences, "_found", type(differences._found)())
    monkeypatch.setattr(differences, "_size", 0)


def test_what_is_kept_has_a_bounded_size(monkeypatch):
    monkeypatch.setattr(differences, "_MOST_KEPT_BYTES", 10_000)
    for number in range(50):
        differences._keep(("a", "b", "c", number), "é" * number * 20)
        differences._keep(("a", "b", "c", number), "é" * number * 20)
    assert differences._size == sum(map(getsizeof, differences._found.values())) <= 10_000
    assert differences._known(("a", "b", "c", 49)) is not None
    assert differences._known(("a", "b", "c", 0)) is None
    differences._keep(("large", "", "", 0), "x" * 20_000)
    assert (differences._size, len(differences._found)) == (0, 0)


def test_others_wait_for_their_turn_but_not_for_ever(mirror, pair, monkeypatch):
    monkeypatch.setattr(differences, "_turns", threading.BoundedSemaphore(1))
    monkeypatch.setattr(differences, "_WAIT_SECONDS", 0.05)
    started, go_on = threading.Event(), threading.Event()

    def slow(*_, **__):
        started.set()
        go_on.wait(10)
        return "told"

    monkeypatch.setattr(differences, "bounded_difference", slow)
    first = threading.Thread(target=differences.between, args=(mirror, *pair))
    first.start()
    assert started.wait(10)
    with pytest.raises(Trouble, match="ask again"):
        differences.between(mirror, *pair)
    go_on.set()
    first.join()
    assert differences.between(mirror, *pair) == "told"


@pytest.mark.parametrize(
    ("body", "kind"),
    [(rb'{"a": "\ud800"}', "application/json"), (rb"b \ud800", "text/plain; charset=unicode_escape")],
)
def test_half_characters_are_told_too(ask, mirror, body, kind):
    found = [Found("changed", body=b"{}", media_type=kind), Found("changed", body=body, media_type=kind)]
    mirror.add("python:half", poll=lambda: found.pop(0) if found else Found("unchanged"))
    mirror.step()
    mirror.step()
    client, element = ask(), mirror.find("python:half")
    assert client.get(f"/api/elements/{element.id}/difference").status_code == 200
    assert client.get(f"/elements/{element.id}/versions/{element.version}").status_code == 200
    for path in ("/changes.atom", "/changes.rss", "/changes.json"):
        assert client.get(path).status_code == 200


def _parquet(rows, characters=1):
    """Return a table with one string in all its rows, which takes little room in the file."""
    file = io.BytesIO()
    table = pa.table({"id": range(rows), "text": ["x" * characters] * rows})
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


@pytest.mark.parametrize("characters", [1, 700_000])
def test_rows_are_compared_only_if_the_mirror_has_written_them(ask, mirror, characters):
    """A page may be a table of a kilobyte that has gigabytes in memory."""
    bodies = [_parquet(rows, characters) for rows in (200, 201)]
    found = [Found("changed", body=body, media_type="application/vnd.apache.parquet") for body in bodies]
    mirror.add("python:table", poll=lambda: found.pop(0) if found else Found("unchanged"))
    mirror.step()
    mirror.step()
    element = mirror.find("python:table")
    began = time.process_time()
    told = ask().get(f"/api/elements/{element.id}/difference").json()["difference"]
    assert told.startswith(f"was {len(bodies[0]):,} bytes, SHA-256 ")
    assert time.process_time() - began < 5.0


def test_tables_of_databases_are_compared_by_rows(ask, mirror, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, total REAL)")
        shop.execute("INSERT INTO orders VALUES (1, 9.5)")
        shop.commit()
        mirror.add(f"sqlite:///{tmp_path / 'shop.db'}#orders")
        mirror.step()
        shop.execute("UPDATE orders SET total = 10")
        shop.commit()
    element = mirror.find(f"sqlite:///{tmp_path / 'shop.db'}#orders")
    first = element.version
    while (element := mirror.find(element.key)).version == first:
        mirror.step()
    told = ask().get(f"/api/elements/{element.id}/difference").json()["difference"]
    assert told.splitlines()[-1] == "~ id 1: total 9.5 -> 10.0"


def test_pictures_are_shown_with_what_is_different(mirror, web, ask):
    new = page()
    new[100:120, 50:90] = 0
    for body in (png(page()), png(new)):
        web.pages["shot"] = Found("changed", "200 OK", body=body, media_type="image/png")
        mirror.add("python:shot", poll=lambda: web.pages["shot"])
        mirror.hint(["python:shot"])
        mirror.step()
    number = mirror.find("python:shot").id
    with mirror.store.begin() as t:
        version = t.versions(element=number, limit=1, latest_first=True)[0]
    path = f"/elements/{number}/versions/{version.id}"
    asked = ask()
    shown = asked.get(path).text
    assert "40 x 20 pixels at 50, 100" in shown
    assert f'src="{path}/difference.png"' in shown
    answer = asked.get(f"{path}/difference.png")
    assert (answer.headers["content-type"], answer.content[:4]) == ("image/png", b"\x89PNG")
    assert asked.get(f"/elements/{number}/versions/{version.id + 9}/difference.png").status_code == 404
