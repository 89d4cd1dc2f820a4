"""Whatever a server does, a poll ends in time, says what happened, and others go on."""

import asyncio
import threading
import time

import pytest

from unstale.mirror.sources.http.deadlines import Deadlines
from unstale.mirror.sources.http.fetch import Progress

from .hostile import Hostile, answer, faults

GOOD = answer(b"<html><p>good</p></html>", Content_Type="text/html", ETag='"1"')


def test_each_fault_has_its_outcome_in_words_and_in_time(visitor, hasty):
    """Those that never end must be ended soon; all others have the time that a busy machine may need."""
    table = faults()
    served = {path: page for path, (page, _, _) in table.items()}
    few = asyncio.Semaphore(10)

    async def one(path, outcome, words):
        async with few:
            who = hasty if path.startswith("/stall") else visitor
            began = time.monotonic()
            found = await who.poll(server.url(path), timeout=1.0 if path.startswith("/drip") else 30.0)
            took = time.monotonic() - began
        assert found.outcome == outcome, f"{path}: {found}"
        assert words in found.detail, f"{path}: {found.detail!r}"
        assert found.detail.isprintable()
        assert took < 60.0, f"{path} took {took:.1f} s"
        assert found.traffic > 100, path
        assert (found.body is not None) == (found.fingerprint is not None) == (outcome == "changed"), path

    async def good():
        for _ in range(20):
            found = await visitor.poll(server.url("/good"))
            assert found.outcome == "changed", found.detail
            await asyncio.sleep(0.05)

    async def main():
        nonlocal server
        async with Hostile({**served, "/good": GOOD}) as server, visitor, hasty:
            await asyncio.gather(
                good(), *(one(path, outcome, words) for path, (_, outcome, words) in table.items())
            )

    server = None
    asyncio.run(main())
    assert not list(visitor.scratch.iterdir()), "files were left behind"


@pytest.mark.parametrize("fault", ["/gzip-bomb", "/br-bomb", "/zstd-bomb"])
def test_a_bomb_is_one_however_much_is_allowed(visitor, fault):
    async def main():
        async with Hostile({fault: faults()[fault][0]}) as server, visitor:
            return await visitor.poll(server.url(fault), max_size=10**9)

    found = asyncio.run(main())
    assert found.outcome == "failed"
    assert "a decompression bomb" in found.detail


@pytest.mark.parametrize(
    ("fault", "most"),
    [("/gzip-bomb", 70_000), ("/br-bomb", 70_000), ("/zstd-bomb", 70_000), ("/endless", 3_300_000)],
)
def test_what_is_too_much_is_not_read_to_the_end(visitor, fault, most):
    async def main():
        async with Hostile({fault: faults()[fault][0]}) as server, visitor:
            return await visitor.poll(server.url(fault))

    found = asyncio.run(main())
    assert found.outcome == "failed"
    assert found.traffic < most


def test_a_fault_does_not_spoil_the_next_answer_on_the_connection(visitor):
    """What follows an answer that is longer than it says must not pass for the answer to the next request."""
    smuggled = answer(b"short", Content_Length="5") + answer(b"not what was asked for")

    async def main():
        async with Hostile({"/bad": smuggled, "/good": GOOD}) as server, visitor:
            for _ in range(5):
                await visitor.poll(server.url("/bad"))
                found = await visitor.poll(server.url("/good"))
                assert found.body == b"<html><p>good</p></html>"

    asyncio.run(main())


def test_a_reset_is_one_request_not_two(visitor):
    table = faults()

    async def main():
        pages = {path: table[path][0] for path in ("/reset", "/closed")}
        async with Hostile(pages) as server, visitor.set(robots=False):
            for path in pages:
                await visitor.poll(server.url(path))
                assert len(server.asked(path)) == 1

    asyncio.run(main())


def test_a_kept_connection_that_has_gone_stale_is_no_failure(visitor):
    async def close_later(_, writer):
        writer.write(GOOD)
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.transport.abort()

    async def main():
        async with Hostile({"/page": close_later}) as server, visitor:
            for pause in (0.0, 0.1, 0.1, 0.1005, 0.2):
                assert (await visitor.poll(server.url("/page"))).outcome == "changed"
                await asyncio.sleep(pause)

    asyncio.run(main())


def test_connections_are_kept(visitor):
    async def main():
        async with Hostile({"/page": GOOD}) as server, visitor:
            for _ in range(10):
                await visitor.poll(server.url("/page"))
            return server.connections

    assert asyncio.run(main()) == 1


def test_nobody_listens(visitor):
    async def main():
        async with Hostile() as server:
            url = server.url("/")
        async with visitor.set(robots=False):
            return await visitor.poll(url)

    found = asyncio.run(main())
    assert found.outcome == "failed"
    assert "no connection to 127.0.0.1" in found.detail


def test_time_outs_say_what_was_waited_for(visitor):
    given_up = threading.Event()

    def silent(host, _):
        given_up.wait(60.0)
        raise OSError(f"{host} is unknown")

    async def main():
        from unstale.mirror.sources.http.poll import Poller
        from unstale.mirror.sources.http.source import HttpSource

        visitor.set(robots=False, connect_timeout=0.1)
        visitor.source = HttpSource(visitor.settings, Poller(visitor.settings, lookup=silent))
        slow = await visitor.poll("http://slow.example/")
        given_up.set()
        visitor.set(connect_timeout=60.0)
        await visitor.source.close()
        visitor.source = HttpSource(visitor.settings, Poller(visitor.settings, lookup=silent))
        unknown = await visitor.poll("http://unknown.example/", timeout=60.0)
        await visitor.source.close()
        return slow, unknown

    slow, unknown = asyncio.run(main())
    assert slow.detail == "the name slow.example was not looked up within 0.1 seconds"
    assert unknown.detail == "the name unknown.example cannot be looked up: unknown.example is unknown"


def test_many_silent_names_do_not_keep_others_waiting(visitor):
    """They are answered only when the other has its copy."""
    done = threading.Event()

    def lookup(host, _):
        if host.startswith("silent"):
            done.wait(60.0)
        return ["127.0.0.1"]

    async def main():
        from unstale.mirror.sources.http.poll import Poller
        from unstale.mirror.sources.http.source import HttpSource

        visitor.set(robots=False, private=True)
        visitor.source = HttpSource(visitor.settings, Poller(visitor.settings, lookup=lookup))
        async with Hostile({"/": GOOD}) as server:
            silent = [
                asyncio.create_task(visitor.poll(server.url("/", f"silent{i}.example"))) for i in range(30)
            ]
            await asyncio.sleep(0.05)
            found = await visitor.poll(server.url("/", "good.example"))
            done.set()
            await asyncio.gather(*silent)
            await visitor.source.close()
        return found

    assert asyncio.run(main()).outcome == "changed"


def test_a_poll_that_is_cancelled_leaves_nothing_behind(visitor):
    table = faults()

    async def main():
        async with Hostile({path: table[path][0] for path in ("/endless", "/stall")}) as server, visitor:
            for path in ("/endless", "/stall"):
                task = asyncio.create_task(visitor.poll(server.url(path), max_size=10**9, timeout=60.0))
                await asyncio.sleep(0.3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    asyncio.run(main())
    assert not list(visitor.scratch.iterdir())


def test_the_same_source_serves_one_event_loop_after_another(visitor):
    async def main(close):
        async with Hostile({"/page": GOOD}) as server:
            found = await visitor.poll(server.url("/page"))
            assert found.outcome == "changed"
            drip = await visitor.poll(server.url("/page"), timeout=30.0)
            assert drip.outcome == "changed"
            if close:
                await visitor.source.close()

    from unstale.mirror.sources.http.source import HttpSource

    visitor.source = HttpSource(visitor.settings)
    asyncio.run(main(close=True))
    asyncio.run(main(close=True))


def test_deadlines_hold_in_each_event_loop():
    deadlines = Deadlines()

    async def quick():
        task = deadlines.start(60.0)
        await asyncio.sleep(0)
        assert not deadlines.ended(task)
        deadlines.stop(task)

    async def slow():
        task = deadlines.start(0.05)
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(100)
        assert deadlines.ended(task) == "late"
        assert not task.cancelling()
        deadlines.stop(task)
        return time.monotonic() - began

    for _ in range(2):
        asyncio.run(quick())
        assert asyncio.run(slow()) < 50.0


def test_silence_ends_what_waits_and_nothing_else():
    deadlines = Deadlines(0.1)

    async def main():
        silent, busy = Progress(since=time.monotonic()), Progress()

        async def wait(progress, seconds):
            task = deadlines.start(60.0, progress)
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                return deadlines.ended(task)
            finally:
                deadlines.stop(task)
            return "done"

        return await asyncio.gather(wait(silent, 100.0), wait(busy, 1.0))

    assert asyncio.run(main()) == ["silent", "done"]


def test_a_task_that_others_cancel_too_is_not_merely_late():
    deadlines = Deadlines()

    async def work():
        task = deadlines.start(0.0)
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:
            task.cancel()  # at the same moment
            assert not deadlines.ended(task)
            raise
        finally:
            deadlines.stop(task)

    async def main():
        task = asyncio.create_task(work())
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())


def test_a_task_that_is_done_when_its_time_is_over_is_not_cancelled_afterwards():
    deadlines = Deadlines()

    async def main():
        task = deadlines.start(0.0)
        try:
            await asyncio.sleep(10.0)
        except asyncio.CancelledError:  # whatever it is, it does not ask why
            deadlines.stop(task)
        return task.cancelling()

    assert asyncio.run(main()) == 0


def test_a_process_that_stood_still_blames_nobody():
    deadlines = Deadlines(0.5)

    async def main():
        progress = Progress()

        async def wait():
            task = deadlines.start(1.0, progress)
            progress.since = time.monotonic()
            try:
                await asyncio.sleep(2.0)
            except asyncio.CancelledError:
                return deadlines.ended(task)
            finally:
                deadlines.stop(task)
            return "done"

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.05)
        time.sleep(2.5)  # noqa: ASYNC251  (as if the process had been stopped)
        await asyncio.sleep(0.1)
        return await task

    assert asyncio.run(main()) == "done"
