"""The site that changes by itself: what it says of its changes is so, also on the wire."""

import asyncio
import hashlib
from email.utils import formatdate
from itertools import pairwise
from xml.etree import ElementTree as ET

import aiohttp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unstale
from unstale import InvalidInput
from unstale.mirror.clock import RealClock, SimulatedClock
from unstale.mirror.demo.site import ChangingSite
from unstale.processes import Pareto, Periodic

START = 1_700_000_000.0


def _site(rates=(0.0, 1e-3, 1e-2, 0.5), **options):
    return ChangingSite(rates, clock=SimulatedClock(START), **options)


def test_changes_have_their_rates():
    site = _site(np.repeat([1e-4, 1e-3], 2000))
    counts = site.versions(START + 86400.0)
    for rate, part in ((1e-4, counts[:2000]), (1e-3, counts[2000:])):
        mean = rate * 86400.0
        assert part.mean() == pytest.approx(mean, abs=5 * np.sqrt(mean / 2000))
        assert part.var() == pytest.approx(mean, rel=0.2)


@given(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=4), st.integers(0, 99))
def test_what_happened_does_not_depend_on_when_it_is_asked(spans, seed):
    one, other = _site(seed=seed), _site(seed=seed)
    other.versions(START + 3e5)
    for span in spans:
        time = START + span
        assert np.array_equal(one.versions(time), other.versions(time))
        for page in range(4):
            assert one.version(page, time) == one.versions(time)[page] == len(one.changes(page, START, time))
            changed = other.changed(page, time)
            assert changed == (one.changes(page, START, time)[-1] if one.version(page, time) else START)
            assert one.version(page, changed) == one.version(page, time)


def test_other_laws():
    site = _site([Pareto(shape=2.0, scale=1000.0), Periodic(period=100.0)])
    assert np.diff(site.changes(1, START, START + 1000.0)) == pytest.approx(100.0)
    assert site.version(1, START + 1000.0) == 10
    assert site.version(0, START + 1e6) == pytest.approx(1000, rel=0.5)


polls = st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 3000.0)), max_size=30)


@given(polls, st.floats(0.0, 1500.0), st.floats(1.0, 1500.0))
def test_mean_freshness_is_the_integral_of_freshness(made, start, span):
    site = _site(weights=[1.0, 2.0, 3.0, 0.5])
    start, end = START + start, START + start + span
    pages = [page for page, _ in made]
    times = [START + time for _, time in made]
    moments = {start, end, *(t for t in times if start < t < end)}
    moments.update(*(site.changes(page, start, end).tolist() for page in range(4)))
    total, ends = 0.0, sorted(m for m in moments if m <= end)
    for low, high in pairwise(ends):
        held = {
            page: site.version(
                page, max(t for p, t in zip(pages, times, strict=True) if p == page and t <= low)
            )
            for page in {p for p, t in zip(pages, times, strict=True) if t <= low}
        }
        total += site.true_freshness(held, low) * (high - low)
    assert site.mean_freshness(pages, times, start, end) == pytest.approx(total / (end - start), abs=1e-6)


def test_ten_thousand_pages_polled_by_plan_are_as_fresh_as_predicted():
    rates = np.random.default_rng(5).lognormal(-11.0, 1.5, 10_000)
    site, day = _site(rates), 86400.0
    frequency = np.full(10_000, 1.0 / day)
    phases = np.random.default_rng(6).random(10_000)
    pages = np.tile(np.arange(10_000), 31)
    times = START + (np.repeat(np.arange(-1, 30), 10_000) + np.tile(phases, 31)) * day
    measured = site.mean_freshness(pages, times, START + day, START + 30 * day)
    assert measured == pytest.approx(unstale.freshness(rates, frequency).mean(), abs=0.002)


def test_copies_by_version_or_digest():
    site = _site()
    time = START + 5000.0
    version = site.version(1, time)
    assert version
    digest = hashlib.sha256(site.content(1, version)).hexdigest()
    assert site.fresh(1, version, time)
    assert site.fresh(1, digest, time)
    assert not site.fresh(1, version - 1, time)
    assert not site.fresh(1, hashlib.sha256(site.content(1, version - 1)).hexdigest(), time)
    assert site.true_freshness(site.versions(time), time) == 1.0
    assert site.true_freshness([0, -1, -1, -1], time) == 0.25
    assert site.true_freshness({}, time) == 0.0


def test_contents_differ_and_have_the_size():
    site = _site(size=5000)
    contents = {site.content(page, version) for page in range(20) for version in range(50)}
    assert len(contents) == 1000
    lengths = [len(content) for content in contents]
    assert np.mean(lengths) == pytest.approx(5000, rel=0.1)
    old, new = (site.content(3, version).decode().splitlines() for version in (6, 7))
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 2  # a paragraph and the revision


@pytest.mark.parametrize(
    ("etags", "last_modified"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_conditional_requests(etags, last_modified):
    site = _site(etags=etags, last_modified=last_modified)

    async def run():
        async with site.serving() as base, aiohttp.ClientSession() as session:

            async def get(page, **headers):
                async with session.get(f"{base}/page/{page}", headers=headers) as answer:
                    return answer.status, await answer.read(), answer.headers

            status, body, headers = await get(1)
            assert (status, body) == (200, site.content(1, 0))
            assert ("ETag" in headers, "Last-Modified" in headers) == (etags, last_modified)
            known = {}
            if etags:
                known["If-None-Match"] = headers["ETag"]
            if last_modified:
                known["If-Modified-Since"] = headers["Last-Modified"]
            assert (await get(1, **known))[:2] == ((304, b"") if known else (200, body))
            change = site.changes(1, START, START + 1e5)[0]
            await site.clock.until(change + 1.0)
            assert (await get(1, **known))[:2] == (200, site.content(1, 1))
            later = {"If-Modified-Since": formatdate(change + 5.0, usegmt=True)}
            assert (await get(1, **later))[0] == (304 if last_modified else 200)
            assert (await get(1, **{"If-Modified-Since": "yesterday"}))[0] == 200
            assert (await get(4))[0] == 404
            assert (await get("1e1"))[0] == 404

    asyncio.run(run())
    pages, times = site.asked()
    assert set(pages.tolist()) == {1}
    assert len(pages) == site.statuses[200] + site.statuses.get(304, 0)
    assert times[0] == START


def test_index_sitemap_feed_and_robots():
    site = _site(np.full(300, 1e-3))

    async def run():
        async with site.serving() as base, aiohttp.ClientSession() as session:
            await site.clock.until(START + 2000.0)

            async def get(path):
                async with session.get(base + path) as answer:
                    assert answer.status == 200
                    return await answer.text()

            assert (await get("/")).count("<li>") == 300
            assert f"Sitemap: {base}/sitemap.xml" in await get("/robots.txt")
            urls = ET.fromstring(await get("/sitemap.xml"))  # noqa: S314
            assert [url[0].text for url in urls] == [f"{base}/page/{k}" for k in range(300)]
            feed = ET.fromstring(await get("/feed.xml"))  # noqa: S314
            entries = feed.findall("{http://www.w3.org/2005/Atom}entry")
            links = [entry[1].text for entry in entries]
            assert len(set(links)) == len(links) == 100
            return links, base

    links, base = asyncio.run(run())
    changed = sorted(range(300), key=lambda page: -site.changed(page, START + 2000.0))
    assert links == [f"{base}/page/{page}" for page in changed[:100]]


def test_many_pages_have_an_index_of_sitemaps():
    from unstale.mirror.demo.site_pages import other_page

    site = _site(np.zeros(50_001))
    assert other_page(site, "http://x", "/sitemap.xml", START)[1].count("<sitemap>") == 2
    assert other_page(site, "http://x", "/sitemap-1.xml", START)[1].count("<url>") == 1
    assert other_page(site, "http://x", "/sitemap-2.xml", START) is None


def test_real_time():
    site = ChangingSite([1000.0], clock=RealClock())
    before = site.version(0, site.clock.now())
    asyncio.run(site.clock.until(site.clock.now() + 0.05))
    assert site.version(0, site.clock.now()) > before


def test_what_cannot_be_asked():
    site = _site()
    with pytest.raises(InvalidInput, match="one version for each of 4 pages"):
        site.true_freshness([1, 2], START)
    with pytest.raises(InvalidInput, match="start must be before end"):
        site.mean_freshness([], [], START, START)
    with pytest.raises(InvalidInput, match="finite"):
        site.version(0, np.inf)
    with pytest.raises(InvalidInput, match="rates"):
        _site([-1.0])
