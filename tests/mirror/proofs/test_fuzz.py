"""Whatever is in settings, lists, feeds, sitemaps, robots.txt and headers, a running mirror goes on.

The real loop and the real sources run on simulated time against a server on loopback that serves what
hypothesis makes up; names that are not of this machine cannot be looked up. A good page beside all of that
must have its copy in the end.
"""

import asyncio
import socket
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror.config.test_config import FULL, PIECES, TOML_VALUES
from mirror.sources.http.hostile import Hostile, answer, then_close
from mirror.sources.http.test_fuzz import answers
from mirror.sources.test_fuzz import documents
from unstale import InvalidInput
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.config.file import load
from unstale.mirror.config.keys import SECTIONS
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import New
from unstale.mirror.sources.lists import read_list

DAY = 86400.0
START = 1.7e9
CALM = Settings(
    budget=200 / DAY, timeout=10.0, max_size=1_000_000, groups=(GroupLimit("*", concurrency=20),), keep=2,
    http=Http(read_timeout=5.0),
)  # fmt: skip
USED = [one for one in SECTIONS if "notify" not in one.heading and "databases" not in one.heading]
FUZZ = settings(
    max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
FUZZ_LONG = settings(
    max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(autouse=True)
def no_names(monkeypatch):
    """Let nobody ask for names, or for what is not on this machine."""
    real = socket.getaddrinfo

    def here(host, *more, **options):
        if host not in {"127.0.0.1", "localhost", "::1", None}:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return real(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", here)


class Turns:
    """A page that is another one each time that it is asked for."""

    def __init__(self, pages):
        self.pages, self.count = pages, 0

    async def __call__(self, request, writer):
        page = self.pages[self.count % len(self.pages)]
        self.count += 1
        await then_close(page)(request, writer)


async def live(folder, pages, keys, *, given=CALM, listed=None, days=1.0):
    """Run a mirror of these pages; return all that went wrong, but for alarms: pages may well fail."""
    number = len(list(folder.iterdir()))
    clock, events = SimulatedClock(START), []
    good = {"/good": answer(b"<html><p>good</p></html>", Content_Type="text/html", ETag='"1"')}
    async with Hostile({**good, **pages}) as server:
        with Mirror(
            folder / f"{number}.db",
            settings=given,
            copies=folder / f"{number}",
            clock=clock,
            tick=days * DAY / 10,
        ) as mirror:
            mirror.add_many([New(server.url("/good"))])
            mirror.add_many([New(server.url(path), source) for path, source in keys])
            if listed is not None:
                add_list(mirror, listed)
            await mirror.arun(START + days * DAY, on_event=events.append)
            mirror.status()
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            left = [task for task in left if "Hostile" not in repr(task)]
            held = mirror.copies.scratch
            left += list(held.iterdir()) if held.exists() else []
            state = mirror.find(server.url("/good")).state
    troubles = [event.detail for event in events if event.kind == "trouble" and "alarm" not in event.data]
    return state, troubles, left


def add_list(mirror, path):
    """Add what a list names, as far as it can be read; no files of this machine, and no databases."""
    reader = read_list(path)
    try:
        news = [one.new for one in reader if one.new.source in {"http", "feed", "sitemap"}]
    except InvalidInput:
        return
    mirror.add_many(news)


def check(outcome, *, good=True):
    state, troubles, left = outcome
    assert not troubles
    assert not left
    if good:
        assert state == "ok"


@given(
    feed=st.lists(documents, min_size=1, max_size=3),
    sitemap=st.lists(documents, min_size=1, max_size=3),
    opml=documents,
)
@FUZZ
def test_any_feed_sitemap_and_list(tmp_path, feed, sitemap, opml):
    pages = {
        "/feed": Turns([answer(body, Content_Type="application/rss+xml") for body in feed]),
        "/sitemap.xml": Turns([answer(body, Content_Type="application/xml") for body in sitemap]),
    }
    (tmp_path / "list.opml").write_bytes(opml)
    keys = [("/feed", "feed"), ("/sitemap.xml", "sitemap")]
    check(asyncio.run(live(tmp_path, pages, keys, listed=tmp_path / "list.opml")))


@given(pages=st.lists(answers, min_size=1, max_size=4), robots=st.none() | st.binary(max_size=200) | answers)
@FUZZ
def test_any_answer_and_robots(tmp_path, pages, robots):
    served = {"/odd": Turns(pages), "/odder": Turns(pages[::-1])}
    if robots is not None:
        served["/robots.txt"] = Turns([answer(robots, Content_Type="text/plain"), robots])
    outcome = asyncio.run(live(tmp_path, served, [("/odd", None), ("/odder", None)]))
    check(outcome, good=robots is None)  # which robots.txt can forbid


@st.composite
def files(draw):
    """A mirror.toml: one with some values of any kind, or one that is broken."""
    if draw(st.booleans()):
        text = FULL
        for place, cut, piece in draw(
            st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 12), PIECES), min_size=1, max_size=2)
        ):
            text = text[:place] + piece + text[place + cut :]
        return text
    lines = []
    for section in draw(st.lists(st.sampled_from(USED), unique_by=lambda one: one.heading, max_size=4)):
        lines.append(section.heading)
        keys = draw(st.lists(st.sampled_from(section.keys), unique_by=lambda key: key.name, max_size=3))
        lines += [
            f"{key.name} = {draw(TOML_VALUES if draw(st.integers(0, 4)) == 4 else st.just(key.example))}"
            for key in keys
        ]
    return "\n".join(lines)


@given(text=files())
@FUZZ
def test_any_settings_that_are_accepted(tmp_path, monkeypatch, text):
    monkeypatch.setenv("TOKEN", "s3cret")
    path = tmp_path / "mirror.toml"
    path.write_text(text, "utf-8", errors="replace")
    try:
        said = load(path).settings
    except InvalidInput:
        return
    # nobody is told; and as polls take real time, there are as few as in the other tests, and they are short
    quick = replace(
        said.http, connect_timeout=min(said.http.connect_timeout, 2.0), read_timeout=2.0, ca_file=None
    )
    said = replace(said, http=quick, timeout=min(said.timeout, 5.0), notify=(), databases={}, hint_file=None)
    said = replace(said, budget=CALM.budget if said.budget is None else min(said.budget, CALM.budget))
    page = answer(
        b"<rss version='2.0'><channel><item><link>http://127.0.0.1:9/</link></item></channel></rss>"
    )
    check(asyncio.run(live(tmp_path, {"/feed": page}, [("/feed", "feed")], given=said, days=0.1)), good=False)


@pytest.mark.long
@pytest.mark.parametrize(
    "test", [test_any_feed_sitemap_and_list, test_any_answer_and_robots, test_any_settings_that_are_accepted]
)
def test_at_length(test, tmp_path, monkeypatch):
    more = [monkeypatch] if test is test_any_settings_that_are_accepted else []
    inner = test.hypothesis.inner_test
    FUZZ_LONG(given(**test.hypothesis._given_kwargs)(lambda **drawn: inner(tmp_path, *more, **drawn)))()
