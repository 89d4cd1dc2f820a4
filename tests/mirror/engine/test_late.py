"""Polls that begin late: nothing that was asked for is lost, and groups keep their distance."""

import asyncio
import time

import pytest

from unstale.mirror.engine.poll_runner import PollRunner
from unstale.mirror.engine.worker import Worker
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import Found


class Slow:
    """A source that has to do something else first."""

    def __init__(self, first=0.0):
        self.first, self.began = first, []

    def key(self, text, options):  # noqa: ARG002
        return text

    def group(self, key, options):  # noqa: ARG002
        return "group"

    async def poll(self, known, terms):
        if not self.began:
            await asyncio.sleep(self.first)
        if terms.start is not None:
            terms.start()
        self.began.append(time.monotonic())
        return Found("changed", body=known.key.encode())

    async def close(self):
        pass


def open_mirror(folder, source, count=6, **settings):
    mirror = Mirror(folder / "mirror.db", settings=Settings(**settings), sources={"python": source})
    for number in range(count):
        mirror.add(f"python:{number}")
    return mirror


def run_until(mirror, seconds, enough):
    """Run for so many seconds, and again until there is enough: on a busy machine it may take longer."""
    for _ in range(40):
        mirror.run(time.time() + seconds)
        if enough():
            return
    pytest.fail("it was not enough")


def test_who_is_alone_goes_on_and_the_others_of_the_group_keep_their_distance(tmp_path):
    for seconds in (3.5, 7.0, 14.0, 28.0):  # in one run: on a busy machine it may take longer
        source = Slow(first=0.6)
        folder = tmp_path / str(seconds)
        folder.mkdir()
        with open_mirror(folder, source, budget=100.0, groups=(GroupLimit("*", spacing=0.8),)) as mirror:
            mirror.run(time.time() + seconds)
        if len(source.began) >= 4:
            break
    assert len(source.began) >= 4
    # From the poll that began late; it would be 0.2 from when that one should have begun.
    assert min(later - at for at, later in zip(source.began, source.began[1:], strict=False)) > 0.5


def give_back_at_first(monkeypatch, times):
    """Let the runner give back what it takes, so many times."""
    take, done = PollRunner.take, []

    def taken(self, leases):
        if leases and len(done) < times:
            done.append(leases)
            self.in_hand += len(leases)
            for lease in leases:
                self._give_back(lease)
            return
        take(self, leases)

    monkeypatch.setattr(PollRunner, "take", taken)
    return done


def test_an_audit_asks_again_for_what_was_given_back(tmp_path, monkeypatch):
    with open_mirror(tmp_path, Slow(), budget=50.0) as mirror:
        run_until(mirror, 1.0, lambda: len(mirror.polls()) >= 6)
        done = give_back_at_first(monkeypatch, 2)
        audit = mirror.audit(6)
    assert len(done) == 2
    assert audit.sample == 6


def test_an_audit_does_not_wait_for_what_is_removed(tmp_path):
    source = Slow()
    with open_mirror(tmp_path, source, budget=50.0) as mirror:
        run_until(mirror, 1.0, lambda: len(mirror.polls()) >= 6)
        mirror.set_budget(3.0)
        seen = []

        def remove(done, count):
            if not seen:
                mirror.remove([f"python:{number}" for number in range(1, 6)])
            seen.append((done, count))

        audit = mirror.audit(6, on_progress=remove)
        assert seen[-1][0] == seen[-1][1] <= 3
        assert audit.sample + audit.failed <= 3
        polls = mirror.polls(limit=1000)
        before = len(polls)
        mirror.run(time.time() + 1.0)
        ids = {mirror.find("python:0").id}
        assert {poll.element for poll in mirror.polls(limit=1000)[: -before or None]} <= ids


@pytest.mark.parametrize("lease", [0.5, 300.0])
def test_a_poll_may_take_as_long_as_its_time_out_whatever_the_lease(tmp_path, lease):
    class Long(Slow):
        async def poll(self, known, terms):  # noqa: ARG002
            self.began.append(known.key)
            await asyncio.sleep(1.5)
            return Found("changed", body=known.key.encode())

    source = Long()
    settings = {"budget": 50.0, "lease": lease, "timeout": 20.0, "groups": (GroupLimit("*", concurrency=1),)}
    with open_mirror(tmp_path, source, **settings) as mirror:
        mirror.run(time.time() + 4.0)
        assert len(source.began) == len(set(source.began)) == len(mirror.polls())


def test_one_step_polls_a_page_whose_robots_txt_takes_long(tmp_path):
    from aiohttp import web

    asked = []

    async def answer(request):
        asked.append(request.path)
        if request.path == "/robots.txt":
            await asyncio.sleep(0.5)
            return web.Response(text="User-agent: *\nDisallow: /private")
        return web.Response(text="hello")

    async def main():
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        settings = Settings(budget=1000 / 86400.0, groups=(GroupLimit("*", spacing=1.0),), http=Http())
        with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
            mirror.add(f"http://127.0.0.1:{port}/page")
            polls = await asyncio.to_thread(mirror.step)
            body = mirror.read(f"http://127.0.0.1:{port}/page").body
        await runner.cleanup()
        return polls, body

    assert asyncio.run(main()) == (1, b"hello")
    assert asked == ["/robots.txt", "/page"]


@pytest.mark.long  # it needs the machine for itself
def test_a_store_that_takes_its_time_does_not_cost_budget(tmp_path, monkeypatch):
    record = Worker._transact

    def slowly(self, *arguments):
        time.sleep(0.05)
        return record(self, *arguments)

    source = Slow()
    with open_mirror(tmp_path, source, 100, budget=100.0, groups=(GroupLimit("*", concurrency=9),)) as mirror:
        mirror.run(time.time() + 2.0)  # code is compiled
        monkeypatch.setattr(Worker, "_transact", slowly)
        before = len(source.began)
        mirror.run(time.time() + 4.0)
    began = source.began[before:]
    assert (len(began) - 1) / (began[-1] - began[0]) > 85.0
