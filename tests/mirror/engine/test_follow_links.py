"""Following links in the real loop: a site on loopback, to a depth, within limits."""

import asyncio
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.sources.http.hostile import Hostile, answer
from unstale import plan
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.link_importance import page_rank
from unstale.mirror.engine.planner import Planner
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import DiscoveryLimits, GroupLimit, Settings
from unstale.mirror.source import New
from unstale.planning import plan_within

from .worlds import DAY, START, World


def page(*links):
    body = "".join(f'<a href="{link}">x</a>' for link in links).encode()
    return answer(body, Content_Type="text/html")


SITE = {
    "/": page("/one", "/two", "/private/x", "/cal/1"),
    "/one": page("/deep", "/", "/two?utm_source=one"),
    "/two": page("/one"),
    "/deep": page("/deeper"),
    "/deeper": page("/deepest"),
    "/robots.txt": answer(b"User-agent: *\nDisallow: /private", Content_Type="text/plain"),
    **{f"/cal/{day}": page(f"/cal/{day + 1}", f"/cal/{day + 2}") for day in range(1, 60)},
}


@pytest.fixture
def site():
    """Serve the site in a thread, and return its address."""
    started, stop, found = threading.Event(), None, {}

    async def serve():
        nonlocal stop
        stop = asyncio.Event()
        found["loop"] = asyncio.get_running_loop()
        async with Hostile(SITE) as server:
            found["url"] = server.url("")
            started.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert started.wait(30.0)
    yield found["url"]
    found["loop"].call_soon_threadsafe(stop.set)
    thread.join(30.0)


def crawled(folder, url, *, links, turns=30, **limits):
    """Follow links from the root; return the paths of elements with their states, and what status tells."""
    settings = Settings(
        budget=1000.0,
        reserve=0.0,
        groups=(GroupLimit("*", concurrency=20),),
        discovery=DiscoveryLimits(**limits),
    )
    with Mirror(folder / "mirror.db", settings=settings) as mirror:
        mirror.add(f"{url}/", links=links)
        for _ in range(turns):
            before = [(one.key, one.state) for one in mirror.elements()]
            for _ in range(2):
                mirror.step()
            if before == [(one.key, one.state) for one in mirror.elements()]:
                break
        return {one.key.removeprefix(url): one.state for one in mirror.elements()}, mirror.status().trouble


def test_links_are_followed_to_a_depth_and_robots_are_obeyed(tmp_path, site):
    found, _ = crawled(tmp_path, site, links=2)
    assert found == {
        "/": "ok", "/one": "ok", "/two": "ok", "/deep": "ok", "/private/x": "refused",
        "/cal/1": "ok", "/cal/2": "ok", "/cal/3": "ok",
    }  # fmt: skip


def test_explain_tells_where_a_page_was_linked_from(tmp_path, site):
    crawled(tmp_path, site, links=2)
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        assert mirror.explain(f"{site}/").named_by == ""
        assert mirror.explain(f"{site}/one").named_by == f"a link of {site}/"
        assert mirror.explain(f"{site}/deep").named_by == f"a link of {site}/one"


def test_a_calendar_has_an_end_and_so_has_the_site(tmp_path, site):
    found, trouble = crawled(tmp_path, site, links=8, pattern=4)
    assert sum(key.startswith("/cal/") for key in found) == 4
    assert {"/deeper", "/one"} <= set(found)
    assert any("pages may differ only in numbers" in words and "set pattern" in words for words in trouble)


def test_pages_matter_by_the_links_that_lead_to_them(tmp_path, site):
    settings = Settings(
        budget=1000.0, reserve=0.0, groups=(GroupLimit("*", concurrency=20),), importance="links"
    )
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        mirror.add(f"{site}/", links=2)
        for _ in range(6):
            mirror.step()
        with mirror.store.begin() as t:
            planner = Planner(settings, t, mirror.clock.now())
            planner.plan(t, mirror.clock.now(), end=mirror.clock.now() + 1.0, room=0)
        table = planner.policy.table
        matters = {
            mirror.numbered(int(number)).key.removeprefix(site): float(share)
            for number, share in zip(table["id"], table["reads"], strict=True)
        }
    assert matters["/one"] > matters["/private/x"] > 0  # two pages link to it, and the root alone to this
    assert sum(matters.values()) / len(matters) == pytest.approx(1.0)


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=30, unique=True))
def test_the_rank_is_the_share_of_time_of_a_random_reader(links):
    pages, targets = np.array(links).T
    elements, ranks = page_rank(pages, targets)
    moves = np.zeros((elements.size, elements.size))
    for page, target in links:
        moves[np.searchsorted(elements, target), np.searchsorted(elements, page)] = 1.0
    moves[:, moves.sum(axis=0) == 0] = 1.0
    moves = 0.85 * moves / moves.sum(axis=0) + 0.15 / elements.size
    assert moves @ ranks == pytest.approx(ranks, abs=1e-6)
    assert ranks.mean() == pytest.approx(1.0)


def test_all_that_a_root_leads_to_is_limited(tmp_path, site):
    found, trouble = crawled(tmp_path, site, links=8, via=3)
    assert len(found) <= 4
    assert any("set via below [discovery]" in words for words in trouble)


PAGE_BYTES = 1000


class LinkedPages(World):
    """Pages that link to others; a page is named by its number."""

    def __init__(self, clock, changes, links):
        super().__init__(clock)
        self.changes, self.links = changes, links

    async def poll(self, known, terms):
        number = int(known.key.rsplit("/", 1)[1])
        version = np.searchsorted(self.changes[number], (self.clock.now() - START) / DAY)
        found = await super().poll(known, terms)
        linked = tuple(New(f"http://s.example/{one}", "http") for one in self.links[number])
        return replace(found, body=f"{number} {version}".encode().ljust(PAGE_BYTES), discovered=linked)


def even(changes, frequencies, days, warm):
    """Return how fresh pages are that are polled at these frequencies, with any phase."""
    at, found = np.linspace(warm, days, 1500, endpoint=False), np.zeros(len(changes))
    for i in np.flatnonzero(frequencies > 1.0 / warm).tolist():
        for phase in (0.1, 0.3, 0.5, 0.7, 0.9):
            polls = np.arange(phase, days * frequencies[i]) / frequencies[i]
            last = polls[np.searchsorted(polls, at, "right") - 1]
            same = np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)
            found[i] += 0.2 * same.mean()
    return found


def linked_site(folder, seed, *, count=60, days=40.0, warm=14.0, space=None):
    """Follow the links of a site; return rates, changes, ranks, freshness and states of pages."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(1.0, 1.0, count) + 0.02
    changes = [np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) for rate in rates]
    links = [sorted({(i + 1) % count, *(rng.integers(0, 10, 2).tolist())} - {i}) for i in range(count)]
    clock = SimulatedClock(START)
    world = LinkedPages(clock, changes, links)
    settings = Settings(
        budget=count / DAY, groups=(GroupLimit("*", concurrency=1000),), importance="links", reserve=DAY,
        space=space,
    )  # fmt: skip
    with Mirror(
        folder / "mirror.db", settings=settings, clock=clock, sources={"http": world}, tick=7200.0
    ) as mirror:
        mirror.add("http://s.example/0", source="http")
        mirror.run(START + days * DAY)
        states = {element.key: element.state for element in mirror.elements()}
    assert states.keys() == {f"http://s.example/{i}" for i in range(count)}
    pages = np.repeat(np.arange(count), [len(own) for own in links])
    _, ranks = page_rank(pages, np.concatenate(links).astype(np.int64))
    at = np.linspace(warm, days, 6000, endpoint=False)
    got, kept = (
        np.zeros(count),
        np.array([states[f"http://s.example/{i}"] != "dropped" for i in range(count)]),
    )
    for i in np.flatnonzero(kept).tolist():
        polls = (np.array(world.times(f"http://s.example/{i}")) - START) / DAY
        last = polls[np.searchsorted(polls, at, "right") - 1]
        got[i] = (np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)).mean()
    return rates, changes, ranks, got, kept


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_a_site_is_found_by_its_links_and_as_fresh_as_the_plan_by_page_rank(tmp_path, seed):
    rates, changes, ranks, got, _ = linked_site(tmp_path, seed)
    expected = even(changes, plan(rates, float(rates.size), weights=ranks).frequencies, 40.0, 14.0)
    assert np.average(got, weights=ranks) == pytest.approx(np.average(expected, weights=ranks), abs=0.02)
    assert np.average(got, weights=ranks) > got.mean() + 0.02  # what is linked to is fresher


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_with_room_for_some_pages_those_stay_that_matter_most(tmp_path, seed):
    """By links and by how often they change: as the best plan for so much room says."""
    rates, changes, ranks, got, kept = linked_site(tmp_path, seed, space=30 * PAGE_BYTES)
    best = plan_within(
        rates, float(rates.size), room=np.full(rates.size, PAGE_BYTES), space=30 * PAGE_BYTES, weights=ranks
    )
    expected = even(changes, best.frequencies, 40.0, 14.0)
    assert np.average(got, weights=ranks) == pytest.approx(np.average(expected, weights=ranks), abs=0.02)
    assert kept.sum() <= 30
    assert ranks[kept].mean() > 1.3 * ranks[~kept].mean()
