"""Readers that want a copy to be so fresh, over HTTP, with a mirror that is running beside."""

import threading
import time
from dataclasses import replace

import pytest

from dashboard.conftest import client_of
from unstale import Mirror
from unstale.mirror.settings import Reads


@pytest.fixture
def running(mirror):
    """Return what runs the mirror in a thread, with a share of the budget for readers."""
    threads = []

    def start(share):
        mirror.settings = replace(mirror.settings, budget=0.001, reads=Reads(poll_share=share, wait=300.0))
        started = threading.Event()
        thread = threading.Thread(
            target=Mirror.run, args=(mirror,), kwargs={"on_event": lambda _: started.set()}
        )
        thread.start()
        threads.append(thread)
        assert started.wait(60.0)
        deadline = time.monotonic() + 60.0
        while not polled_by(mirror) and time.monotonic() < deadline:  # the first event may come before that
            time.sleep(0.02)
        return client_of(mirror.store.url, mirror.settings)

    yield start
    for thread in threads:
        mirror.stop()
        thread.join(60.0)


def test_a_copy_that_is_too_old_is_polled_at_once(running, web):
    with running(1.0) as client:
        fresh = client.get("/copies/python:news", headers={"Cache-Control": "max-age=3600"})
        assert fresh.headers["x-unstale-on-read"] == "fresh enough"
        web.pages["news"] = "four"
        polled = client.get("/copies/python:news", headers={"Cache-Control": "no-transform, max-age=0"})
        assert (polled.headers["x-unstale-on-read"], polled.text) == ("changed", "four")
        assert polled.headers["x-unstale-polled"] > fresh.headers["x-unstale-polled"]
        again = client.get("/copies/python:about", headers={"X-Unstale-Min-Fresh": "1"})
        assert again.headers["x-unstale-on-read"] == "unchanged"


def test_who_asks_for_nothing_is_told_nothing(ask):
    assert "x-unstale-on-read" not in ask().get("/copies/python:news").headers


def test_the_truth_is_told_if_nobody_polls(ask, mirror):
    wish = {"Cache-Control": "max-age=0"}
    assert ask().get("/copies/python:news", headers=wish).headers["x-unstale-on-read"] == "off"
    settings = replace(mirror.settings, reads=Reads(poll_share=0.5, wait=0.1))
    with client_of(mirror.store.url, settings) as client:
        told = client.get("/copies/python:news", headers=wish)
    assert (told.headers["x-unstale-on-read"], told.text) == ("nobody polls", "one\ntwo\nthree\n")


@pytest.mark.parametrize("wrong", ["much", "1.5", "-1", "nan"])
def test_what_is_no_probability_is_refused(ask, wrong):
    assert ask().get("/copies/python:news", headers={"X-Unstale-Min-Fresh": wrong}).status_code == 422


def polled_by(mirror):
    with mirror.store.begin() as t:
        return t.workers(mirror.clock.now())


def drop(mirror, key):
    """Drop a copy, as the housekeeper of a mirror does that has no room for it."""
    with mirror.store.begin() as t:
        number = mirror.find(key).id
        t.drop_copies([number])
        (row,) = t.load([number])
        t.save(replace(row, state=["dropped"]))


def test_a_copy_that_was_dropped_is_polled_at_once(running, mirror):
    drop(mirror, "python:news")
    mirror.settings = replace(mirror.settings, space=10)
    with running(1.0) as client:
        polled = client.get("/copies/python:news")
        assert (polled.headers["x-unstale-on-read"], polled.text) == ("new", "one\ntwo\nthree\n")


def test_without_a_share_it_is_said_why_there_is_none(ask, mirror):
    drop(mirror, "python:news")
    client = ask()
    told = client.get("/copies/python:news")
    assert (told.status_code, told.headers["x-unstale-on-read"]) == (404, "off")
    assert "no room for it ([reads] poll_share" in told.json()["error"]
    assert "there was no room" in client.get(f"/elements/{mirror.find('python:news').id}").text
