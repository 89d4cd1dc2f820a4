"""Readers may ask any of several replicas, and get the copy that was polled last."""

import json
from dataclasses import replace

import pytest

from dashboard.conftest import client_of
from unstale.dashboard.freshest_replica import FreshestReplica
from unstale.mirror.settings import Replicas

NEWS = "/copies/python:news"


@pytest.fixture
def told(mirror, tmp_path):
    """Return what lets the other replica tell of a poll, so long after the last one here."""

    def tell(later, key="python:news"):
        line = json.dumps({"key": key, "time": mirror.find("python:news").last + later})
        with (tmp_path / "replica-2.jsonl").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    return tell


@pytest.fixture
def client(mirror, tmp_path, monkeypatch):
    monkeypatch.setattr("unstale.dashboard.freshest_replica._LOOK_SECONDS", 0.0)
    monkeypatch.setattr(type(mirror.clock), "now", lambda _: mirror.find("python:news").last + 100.0)
    addresses = ("http://a.example", "http://b.example:8321")
    settings = replace(mirror.settings, replicas=Replicas(str(tmp_path), 1, 2, addresses=addresses))
    with client_of(mirror.store.url, settings) as made:
        made.follow_redirects = False
        yield made


def test_a_reader_is_sent_to_the_replica_that_has_polled_last(client, told):
    assert client.get(NEWS).status_code == 200
    told(-5.0)
    assert client.get(NEWS).status_code == 200
    told(50.0, key="python:other")
    assert client.get(NEWS).status_code == 200
    told(50.0)
    sent = client.get("/copies/python%3Anews", headers={"Cache-Control": "max-age=0"})
    assert (sent.status_code, sent.headers["location"]) == (307, "http://b.example:8321/copies/python%3Anews")
    assert client.head(NEWS).status_code == 307
    assert client.get("/copies/python:about").status_code == 200


def test_a_version_is_that_of_this_replica(client, told, mirror):
    """Each counts its own."""
    told(50.0)
    assert client.get(f"{NEWS}?version={mirror.find('python:news').version}").status_code == 200


def test_what_is_told_of_later_than_now_is_not_believed(client, told):
    told(1000.0)
    assert client.get(NEWS).status_code == 200


def test_nobody_is_sent_in_circles():
    """Whoever has polled last by the record answers, whatever others have heard."""
    replicas = Replicas("nowhere", 1, 2, addresses=("http://a", "http://b"))
    one = FreshestReplica(replicas)
    one._last["x"] = (10.0, 2)
    assert one.address("x", last=5.0, now=20.0) == "http://b"
    assert one.address("x", last=10.0, now=20.0) is None
    assert one.address("x", last=15.0, now=20.0) is None
    assert one.address("x", last=float("nan"), now=20.0) == "http://b"
    assert FreshestReplica(Replicas()).address("x", last=0.0, now=20.0) is None
