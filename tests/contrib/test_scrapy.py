"""The scheduler for Scrapy, in a real crawl of a site on loopback."""

import http.server
import json
import re
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from scipy.stats import norm

from .conftest import adapter, running_mirror, until, write_blocks

LIMITS = '[[group]]\nmatch = "*"\nspacing = "0s"\nconcurrency = 50\n\n[http]\nprivate = true\n'


LINKS = ("/still", "/changing", "/lost", "/broken")


class Site(http.server.ThreadingHTTPServer):
    """Pages that link to others; /changing is another at each look, others know what was seen."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.looks, self.not_modified = Counter(), Counter()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        looks = self.server.looks
        looks[self.path] += 1
        if self.path in {"/lost", "/robots.txt"}:
            return self.answer(404, b"")
        if self.path == "/broken":
            return self.answer(503, b"", {"Retry-After": "1"})
        count = looks[self.path] if self.path == "/changing" else 0
        etag = f'"{count}"'
        if self.headers.get("If-None-Match") == etag:
            self.server.not_modified[self.path] += 1
            return self.answer(304, b"")
        links = "".join(f'<a href="{link}">x</a>' for link in (LINKS if self.path == "/" else ()))
        body = f"<html><title>{self.path} {count}</title>{links}</html>".encode()
        return self.answer(200, body, {"ETag": etag, "Content-Type": "text/html"})

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    with Site() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_the_page_shows_a_spider_that_visits_pages_again(tmp_path, site):
    programs = adapter("scrapy", "scrapy")
    write_blocks("scrapy.md", tmp_path, site=("https://example.org", site.address), quick=("60/min", "100/s"))
    with running_mirror(tmp_path, LIMITS) as (mirror, address):
        line = [programs / "scrapy", "runspider", "news.py", "-o", "pages.jsonl", "-s"]
        line += [f"UNSTALE_SERVER={address}", "-s", "UNSTALE_COPIES=True"]
        with subprocess.Popen(line, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as spider:  # noqa: S603

            def visited_again():
                if spider.poll() is not None:
                    pytest.fail(spider.stderr.read())
                outcomes = Counter(poll.outcome for poll in mirror.polls())
                return {"new", "changed", "unchanged", "gone", "failed"} <= outcomes.keys() and outcomes

            until(visited_again)
            spider.terminate()
            told = spider.communicate(timeout=60)[1]
        assert not re.findall(r"(?i)^.*(?:traceback|refuses).*$", told, re.MULTILINE)
        found = {element.key.removeprefix(site.address): element for element in mirror.elements()}
        assert sorted(found) == ["/", "/broken", "/changing", "/lost", "/still"]
        assert {found[path].via for path in found if path != "/"} == {found["/"].id}
        assert mirror.read(found["/still"].key).body.startswith(b"<html><title>/still 0")
        polls = Counter(poll.element for poll in mirror.polls(limit=10_000))
    assert site.not_modified["/still"] + site.not_modified["/"] > 0
    for path, element in found.items():  # each request was planned; the last may not be reported any more
        assert polls[element.id] <= site.looks[path] <= polls[element.id] + 32
    pages = [json.loads(line)["title"] for line in (tmp_path / "pages.jsonl").read_text().splitlines()]
    assert {"/ 0", "/still 0", "/changing 1"} <= set(pages)


# --- how much fresher

SECONDS, MEASURED, BUDGET, SEEDS = 120.0, 80.0, 6.0, (1, 2, 3)
RATES = 0.03 * np.exp(2.5 * norm.ppf((np.arange(40) + 0.5) / 40))
"""Changes per second: lognormal, as on the web; most pages do not change between two visits, which teaches.

Where every page has changed at nearly every visit there is nothing to learn in so short a time.
"""
OWN_ORDER = """
import scrapy
from scrapy import signals
from scrapy.exceptions import DontCloseSpider


class Rounds(scrapy.Spider):
    name = "rounds"
    custom_settings = {{
        "CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": {delay}, "RANDOMIZE_DOWNLOAD_DELAY": False
    }}

    @classmethod
    def from_crawler(cls, crawler, *args, **kwargs):
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.again, signal=signals.spider_idle)
        return spider

    async def start(self):
        for request in self.round():
            yield request

    def round(self):
        for i in range({count}):
            yield scrapy.Request(f"{site}/{{i}}", dont_filter=True)

    def again(self):
        for request in self.round():
            self.crawler.engine.crawl(request)
        raise DontCloseSpider

    def parse(self, response):
        pass
"""
OUR_ORDER = """
import scrapy


class Worth(scrapy.Spider):
    name = "worth"
    start_urls = [f"{site}/{{i}}" for i in range({count})]
    custom_settings = {{"SCHEDULER": "unstale.contrib.scrapy.Scheduler"}}

    def parse(self, response):
        pass
"""


class ChangingPages(http.server.ThreadingHTTPServer):
    """Pages that change at random moments, the same for each site, and who asked for them when."""

    daemon_threads = True

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        self.changes = [np.cumsum(rng.exponential(1 / rate, int(SECONDS * rate * 2 + 50))) for rate in RATES]
        self.asked = []
        self.began = time.monotonic()
        site = self

        class Pages(Handler):
            def do_GET(self):
                now, page = time.monotonic() - site.began, int(self.path[1:] or 0)
                if self.path != "/robots.txt":
                    site.asked.append((now, page))
                self.answer(200, f"{page} {np.searchsorted(site.changes[page], now)}".encode())

        super().__init__(("127.0.0.1", 0), Pages)
        self.address = f"http://127.0.0.1:{self.server_port}"

    def freshness(self):
        """The share of time, in the end, in which what was seen last is what is there; and requests."""
        moments = np.linspace(SECONDS - MEASURED, SECONDS, 2000)
        fresh = 0.0
        for page, changes in enumerate(self.changes):
            seen = np.sort([moment for moment, asked in self.asked if asked == page])
            at = np.searchsorted(seen, moments)
            last = np.where(at > 0, seen[np.maximum(at - 1, 0)] if seen.size else 0.0, -1.0)
            same = np.searchsorted(changes, moments) == np.searchsorted(changes, last)
            fresh += float(np.mean(same & (last >= 0)))
        asked = sum(SECONDS - MEASURED <= moment < SECONDS for moment, _ in self.asked)
        return fresh / len(self.changes), asked


@contextmanager
def both_orders(folder, seed):
    """Let two spiders visit the same changes, in Scrapy's own order and in ours; gives their sites."""
    folder.mkdir()
    (folder / "mirror.toml").write_text(
        f'[mirror]\nbudget = "{BUDGET:g}/s"\nreserve = 0\nfetch = "elsewhere"\n'
    )
    scrapy = adapter("scrapy", "scrapy") / "scrapy"
    with (
        ChangingPages(seed) as theirs,
        ChangingPages(seed) as ours,
        running_mirror(folder, LIMITS) as (_, address),
        ExitStack() as spiders,
    ):
        for site in (theirs, ours):
            threading.Thread(target=site.serve_forever, daemon=True).start()
            spiders.callback(site.shutdown)
        own = OWN_ORDER.format(site=theirs.address, count=len(RATES), delay=1 / BUDGET)
        (folder / "rounds.py").write_text(own)
        (folder / "worth.py").write_text(OUR_ORDER.format(site=ours.address, count=len(RATES)))
        for name in ("rounds.py", "worth.py"):
            line = [scrapy, "runspider", name, "-s", f"UNSTALE_SERVER={address}", "-L", "ERROR"]
            spider = subprocess.Popen(line, cwd=folder)  # noqa: S603
            spiders.callback(spider.wait, 60)
            spiders.callback(spider.terminate)
        yield theirs, ours


@pytest.mark.long
def test_pages_are_fresher_than_in_the_order_of_scrapy_with_as_many_requests(tmp_path):
    with ExitStack() as stack:
        pairs = [stack.enter_context(both_orders(tmp_path / str(seed), seed)) for seed in SEEDS]
        sites = [site for pair in pairs for site in pair]
        until(lambda: all(site.asked for site in sites))
        for site in sites:
            site.began = time.monotonic()
            site.asked.clear()
        time.sleep(SECONDS)
        found = np.array([[site.freshness() for site in pair] for pair in pairs])
    for seed, ((before, theirs_asked), (after, ours_asked)) in zip(SEEDS, found, strict=True):
        print(  # noqa: T201
            f"seed {seed}: own order {before:.3f}, {theirs_asked:.0f} requests;"
            f" unstale {after:.3f}, {ours_asked:.0f} requests"
        )
    (before, theirs_asked), (after, ours_asked) = found.mean(axis=0)
    assert ours_asked <= 1.02 * theirs_asked
    assert 1.0 - after < 0.95 * (1.0 - before)
