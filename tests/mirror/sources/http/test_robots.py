"""robots.txt is asked for, believed and asked for again, and no more often than that."""

import asyncio
import time
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from unstale.mirror.sources.http.robots import MAX_ROBOTS_BYTES, Robots, RobotsAnswer, RobotsTooLong

from .hostile import Hostile, answer, faults, reset, then_stall

PAGE = answer(b"page")


def robots_of(text, status="200 OK", **headers):
    return {
        "/robots.txt": answer(text.encode(), status, **headers),
        "/a": PAGE,
        "/private/a": PAGE,
        "/b": PAGE,
    }


def polled(visitor, pages, *paths):
    async def main():
        async with Hostile(pages) as server, visitor:
            found = [await visitor.poll(server.url(path)) for path in paths]
        return found, server

    return asyncio.run(main())


def test_what_it_forbids_is_refused(visitor):
    text = "User-agent: *\nDisallow: /private\n\nUser-agent: other\nDisallow: /\n"
    (a, private), server = polled(visitor, robots_of(text), "/a", "/private/a")
    assert a.outcome == "changed"
    assert private.outcome == "refused"
    assert private.detail.startswith(
        f"robots.txt of 127.0.0.1:{server.port} does not allow http://127.0.0.1:"
    )
    assert not server.asked("/private/a")
    assert len(server.asked("/robots.txt")) == 1


def test_it_can_speak_to_us_alone(visitor):
    text = "User-agent: unstale\nDisallow: /\n\nUser-agent: *\nDisallow:\n"
    assert polled(visitor, robots_of(text), "/a")[0][0].outcome == "refused"
    other = visitor.set(user_agent="Harvest/2.0 (+https://example.org)")
    assert polled(other, robots_of(text), "/a")[0][0].outcome == "changed"
    text = "User-agent: harvest\nDisallow: /\n"
    assert polled(other, robots_of(text), "/a")[0][0].outcome == "refused"


def test_it_can_be_switched_off(visitor):
    (found,), server = polled(visitor.set(robots=False), robots_of("User-agent: *\nDisallow: /"), "/a")
    assert found.outcome == "changed"
    assert found.spacing is None
    assert not server.asked("/robots.txt")


@pytest.mark.parametrize(
    ("text", "spacing"),
    [
        ("User-agent: *\nDisallow:\n", 0.0),
        ("User-agent: *\nCrawl-delay: 2.5\n", 2.5),
        ("User-agent: *\nRequest-rate: 1/10s\n", 10.0),
        ("User-agent: *\nRequest-rate: 5/1m\nCrawl-delay: 3\n", 12.0),
        ("User-agent: *\nRequest-rate: 5/1m\nCrawl-delay: 30\n", 30.0),
        ("User-agent: *\nCrawl-delay: 1e300\n", 86400.0),
        ("User-agent: *\nCrawl-delay: nan\n", 0.0),
        ("User-agent: *\nCrawl-delay: -5\n", 0.0),
        (f"User-agent: *\nRequest-rate: 1/{'9' * 400}\n", 86400.0),
        (f"User-agent: *\nRequest-rate: {'9' * 400}/1\n", 0.0),
        ("User-agent: unstale\nCrawl-delay: 7\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 99\n", 7.0),
    ],
)
def test_how_far_apart_it_wants_polls(visitor, text, spacing):
    (found,), _ = polled(visitor, robots_of(text), "/a")
    assert found.outcome == "changed"
    assert found.spacing == pytest.approx(spacing, abs=1e-6)


@pytest.mark.parametrize("status", ["404 Not Found", "403 Forbidden", "401 Unauthorized", "410 Gone"])
def test_if_there_is_none_everything_is_allowed(visitor, status):
    (found,), _ = polled(visitor, robots_of("User-agent: *\nDisallow: /", status), "/a")
    assert found.outcome == "changed"


@pytest.mark.parametrize("status", ["500 No", "503 Unavailable", "429 Too Many"])
def test_if_it_cannot_be_had_nothing_is_polled_for_a_while(visitor, status):
    found, server = polled(visitor, robots_of("", status), "/a", "/b", "/a")
    for one in found:
        assert one.outcome == "failed"
        assert f"{server.port} cannot be fetched, so nothing is polled: {status}" in one.detail
        assert 30 < one.wait <= 60
    assert len(server.requests) == 1


def test_how_long_it_wants_to_be_left_alone_counts(visitor):
    (found,), _ = polled(visitor, robots_of("", "503 Unavailable", Retry_After="1000"), "/a")
    assert found.wait == pytest.approx(1000, abs=5)


@pytest.mark.parametrize("fault", [reset, then_stall(b""), then_stall(answer(b"Dis", Content_Length="100"))])
def test_faults_of_robots(hasty, fault):
    (found,), _ = polled(hasty, {"/robots.txt": fault, "/a": PAGE}, "/a")
    assert found.outcome == "failed"
    assert "robots.txt" in found.detail


def test_no_fault_of_robots_raises(hasty):
    table = faults()

    async def main():
        async with hasty:
            await asyncio.gather(*(one(path) for path in table))

    async def one(path):
        async with Hostile({"/robots.txt": table[path][0], "/a": PAGE}) as server:
            found = await hasty.poll(server.url("/a"), timeout=3.0)
            assert found.outcome in {"changed", "failed"}, path

    asyncio.run(main())


def test_it_may_be_elsewhere(visitor):
    async def main():
        async with Hostile({"/r": answer(b"User-agent: *\nDisallow: /a")}) as other:
            pages = {
                "/robots.txt": answer(b"", "301 Moved", Location=other.url("/r")),
                "/a": PAGE,
                "/b": PAGE,
            }
            async with Hostile(pages) as server, visitor:
                a, b = await visitor.poll(server.url("/a")), await visitor.poll(server.url("/b"))
                server.pages["/robots.txt"] = answer(b"", "302 Found", Location="/robots.txt")
                return a, b

    a, b = asyncio.run(main())
    assert (a.outcome, b.outcome) == ("refused", "changed")


def test_an_endless_one_is_read_as_far_as_is_sensible(visitor):
    text = "User-agent: *\nDisallow: /a\n" + "# and so on\n" * 100_000 + "Disallow: /b\n"
    (a, b), _ = polled(visitor, robots_of(text), "/a", "/b")
    assert (a.outcome, b.outcome) == ("refused", "changed")
    assert 500_000 < a.traffic < 1_000_000, "what it took to fetch it is told with the poll that caused it"
    assert b.traffic < 1000


def test_where_a_redirect_leads_is_asked_too(visitor):
    async def main():
        forbids = answer(b"User-agent: *\nDisallow: /b\nCrawl-delay: 9\n")
        async with (
            Hostile({"/robots.txt": forbids, "/b": PAGE, "/c": PAGE}) as other,
            Hostile() as server,
            visitor,
        ):
            server.pages["/to-b"] = answer(b"", "302 Found", Location=other.url("/b"))
            server.pages["/to-c"] = answer(b"", "302 Found", Location=other.url("/c"))
            b = await visitor.poll(server.url("/to-b"))
            assert not other.asked("/b")
            return b, await visitor.poll(server.url("/to-c"))

    b, c = asyncio.run(main())
    assert b.outcome == "refused"
    assert "does not allow" in b.detail
    assert c.outcome == "changed"
    assert c.spacing == 9.0


def test_one_fetch_serves_all_who_wait_for_it_also_if_the_first_gives_up(visitor):
    async def slow(_, writer):
        await asyncio.sleep(0.2)
        writer.write(answer(b"User-agent: *\nDisallow: /b"))

    async def main():
        async with Hostile({"/robots.txt": slow, "/a": PAGE, "/b": PAGE}) as server, visitor:
            first = asyncio.create_task(visitor.poll(server.url("/a")))
            await asyncio.sleep(0.05)
            others = [asyncio.create_task(visitor.poll(server.url(path))) for path in ("/a", "/b") * 5]
            await asyncio.sleep(0.05)
            first.cancel()
            found = await asyncio.gather(*others)
            return [one.outcome for one in found], server

    outcomes, server = asyncio.run(main())
    assert outcomes == ["changed", "refused"] * 5
    assert len(server.asked("/robots.txt")) == 1


class Host:
    """A host whose robots.txt and clock are played."""

    def __init__(self, max_age=1000.0):
        self.time, self.fetches, self.answer = 0.0, 0, RobotsAnswer(200, "User-agent: *\nDisallow: /a")
        self.robots = Robots(self.fetch, "unstale", max_age=max_age, now=lambda: self.time)

    async def fetch(self, url, inside):
        assert url == "http://h/robots.txt"
        assert not inside
        self.fetches += 1
        return self.answer

    def ask(self, at, then=None):
        self.time, self.answer = at, then or self.answer
        known = self.robots.known("http://h", False)
        rules = known or asyncio.run(self.robots.learn("http://h", False))[0]
        return None if rules.trouble else rules.allows is None or rules.allows("http://h/a")


def test_it_is_fetched_again_when_it_is_old():
    host = Host()
    assert [host.ask(0), host.ask(999), host.fetches] == [False, False, 1]
    assert [host.ask(1000, RobotsAnswer(404)), host.fetches] == [True, 2]
    assert [host.ask(1999), host.ask(2000, RobotsAnswer(200, "")), host.fetches] == [True, True, 3]


@pytest.mark.parametrize(("said", "age"), [(600.0, 600.0), (0.0, 300.0), (10.0**9, 1000.0), (None, 1000.0)])
def test_cache_control_counts_within_reason(said, age):
    host = Host()
    host.answer = replace(host.answer, max_age=said)
    host.ask(0)
    host.ask(age - 1)
    assert host.fetches == 1
    host.ask(age)
    assert host.fetches == 2


def test_what_it_said_before_counts_while_it_cannot_be_had():
    host = Host()
    assert host.ask(0) is False
    assert host.ask(1000, RobotsAnswer(503)) is False
    assert host.ask(1599) is False
    assert host.fetches == 2
    assert host.ask(1600, RobotsAnswer(None, detail="reset")) is False
    assert host.ask(2200, RobotsAnswer(404)) is True


def test_it_is_asked_for_less_and_less_often_while_it_cannot_be_had():
    host = Host()
    host.answer = RobotsAnswer(500, detail="500")
    asked = []
    for second in range(0, 40_000, 10):
        before = host.fetches
        assert host.ask(second) is None
        if host.fetches > before:
            asked.append(second)
    gaps = [later - earlier for earlier, later in pairwise(asked)]
    assert gaps[:6] == [60, 120, 240, 480, 960, 1920]
    assert set(gaps[6:]) == {3600}


@given(st.text(max_size=300) | st.lists(st.sampled_from([
    "User-agent: *", "User-agent: unstale", "Disallow: /", "Disallow: /*a*b$", "Allow: /a", "Crawl-delay: ",
    "Request-rate: 1/", "Crawl-delay: 1e999", "Request-rate: 0/0", "\x00", "Disallow", ":", "Sitemap: \ud800",
    "*" * 50,
])).map("\n".join))  # fmt: skip
@settings(max_examples=percent(200))
def test_any_text_can_be_read(text):
    host = Host()
    host.answer = RobotsAnswer(200, text)
    assert host.ask(0) in {True, False}
    rules = host.robots.known("http://h", False)
    assert 0.0 <= rules.spacing <= 86400.0


def test_nothing_is_looked_up_for_hosts_that_forbid_nothing():
    host = Host()
    host.answer = RobotsAnswer(200, "User-agent: *\nAllow: /\nCrawl-delay: 3\nSitemap: http://h/s.xml\n")
    assert host.ask(0) is True
    assert host.robots.known("http://h", False).allows is None


def filled(line):
    """A robots.txt that has no room for more such lines."""
    return "User-agent: *\n" + f"{line}\n" * ((MAX_ROBOTS_BYTES - 100) // (len(line.encode()) + 1))


HOSTILE_RULES = {
    "an early star": filled(f"Disallow: *{'a' * 49}b{'a' * 49}"),
    "short ones": filled("Disallow: *aab"),
    "many stars": filled(f"Disallow: /{'a*' * 2000}b"),
    "one rule": f"User-agent: *\nDisallow: {'*a' * 250_000}b",
    "characters to be quoted": filled(f"Disallow: *{'&' * 30}b{'&' * 30}"),
    "not ASCII": filled("Disallow: *" + "\xe9" * 20 + "b" + "\xe9" * 20),
    "dollars": filled(f"Disallow: /{'$' * 20}a*$"),
    "allowed": filled(f"Allow: *{'a' * 30}b{'a' * 30}") + "Disallow: /z",
    "no wildcards": filled("Disallow: /aaaaaaaab"),
}


@pytest.mark.parametrize("name", HOSTILE_RULES)
def test_no_rules_stop_the_event_loop(name):
    """However many rules there are, and however long the address, the loop itself matches for a blink."""

    async def main():
        host = Host()
        host.answer = RobotsAnswer(200, HOSTILE_RULES[name])
        rules, _ = await host.robots.learn("http://h", False)
        spent, whole = [], []
        for letter in ("a", "&", "%C3%A9", "$"):
            for length in (100, 2048, 8000):
                began, all_began = time.thread_time(), time.process_time()
                with suppress(RobotsTooLong):
                    await host.robots.allowed(rules, "http://h/" + letter * (length // len(letter)))
                spent.append(time.thread_time() - began)
                whole.append(time.process_time() - all_began)
        await host.robots.close()
        return spent, whole

    spent, whole = asyncio.run(main())
    assert max(spent) < 0.1, "in the thread of the loop; a poll has up to eleven addresses"
    assert max(whole) < 2.0, "in all threads"


def test_a_page_is_refused_if_its_robots_takes_too_long_also_after_a_redirect(visitor):
    far = "/" + "a" * 7000
    pages = robots_of(HOSTILE_RULES["an early star"]) | {
        "/far": answer(b"", "302 Found", Location=far),
        far: PAGE,
    }
    (a, moved), server = polled(visitor, pages, "/a", "/far")
    assert a.outcome == "changed"
    assert moved.outcome == "refused"
    assert (
        f"robots.txt of 127.0.0.1:{server.port} cannot be obeyed in time: its rules with wild" in moved.detail
    )
    assert "for an address of 7,0" in moved.detail
    assert not server.asked(far)


def test_agents_do_not_multiply_rules():
    """A group may name thousands of agents, and each of them would get all the rules."""
    text = "".join(f"User-agent: {'unstale'[: n % 8]}*{n}\n" for n in range(3000))
    text += "".join(f"Disallow: /{n}\n" for n in range(3000)) + "User-agent: *\nDisallow: /a\n"
    host = Host()
    host.answer = RobotsAnswer(200, text)
    began = time.process_time()
    assert host.ask(0) is False
    assert time.process_time() - began < 2.0


@given(st.lists(st.sampled_from([
    "User-agent: *", "User-agent: unstale", "user agent: UnStale*", "useragent uns", "User-agent: un*stale",
    "User-agent: stale", "User-agent: unstale-bot", "User-agent:", "User-agentx: *", "User-agent: other",
    "Disallow: /a", "Disallow: /", "Allow: /a", "Disallow: /*a$", "Sitemap: http://h/s", "Crawl-delay: 3",
    "# User-agent: *", "", "unknown: x", "Disallow: /# User-agent: *",
])).map("\n".join), st.sampled_from(["unstale", "Un.stale", "stale_unstale", "bot+unstale"]))  # fmt: skip
@settings(max_examples=percent(300))
def test_only_the_names_of_others_are_lost(text, agent):
    """What is allowed, and how far apart, is what the parser finds in the whole text."""
    host = Host()
    host.robots = Robots(host.fetch, agent, max_age=1000.0, now=lambda: 0.0)
    host.answer = RobotsAnswer(200, text)
    allowed = host.ask(0)
    parsed = Protego.parse(text)
    assert allowed == parsed.can_fetch("http://h/a", agent)
    assert host.robots.known("http://h", False).spacing == (parsed.crawl_delay(agent) or 0.0)


def test_rules_of_all_hosts_have_room_for_so_many_characters():
    text = "User-agent: *\n" + f"Disallow: /{'a' * 97}\n" * 4_000

    async def fetch(address, _inside):
        return RobotsAnswer(200, text="User-agent: *\nDisallow: /b\n" if "small" in address else text)

    async def main():
        robots = Robots(fetch, "unstale", max_age=1000.0)
        await robots.learn("https://small.example", inside=False)
        for host in range(40):
            rules, _ = await robots.learn(f"https://{host}.example", inside=False)
            assert not await robots.allowed(rules, f"https://{host}.example/{'a' * 97}")
        known = [robots.known(f"https://{host}.example", inside=False) for host in range(40)]
        assert robots.known("https://small.example", inside=False) is not None
        await robots.close()
        return sum(rules.characters for rules in known if rules is not None)

    assert 1_000_000 < asyncio.run(main()) <= 5_000_000
