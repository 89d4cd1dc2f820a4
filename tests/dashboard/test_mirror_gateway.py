"""How requests reach the mirror."""

import asyncio
import threading
import time

from mirror.engine.worlds import add, make

from unstale.dashboard import mirror_gateway as module
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror import mirror as mirror_module


class Nothing:
    """Stands for a mirror that nobody looks at."""

    def close(self):
        pass


def played(play, **options):
    """Run something on a gateway."""

    async def run():
        gateway = MirrorGateway(Nothing(), **options)
        try:
            return await play(gateway)
        finally:
            await gateway.close()

    return asyncio.run(run())


def counting(seconds=0.0):
    calls = []

    def work(_):
        calls.append(threading.get_ident())
        time.sleep(seconds)
        return len(calls)

    return work


def test_many_who_ask_at_a_time_have_it_done_once():
    work = counting(0.05)

    async def play(gateway):
        return await asyncio.gather(*(gateway.kept("x", work) for _ in range(20)))

    assert played(play) == [1] * 20


def test_it_is_done_again_after_a_while(monkeypatch):
    monkeypatch.setattr(module, "_REST_FACTOR", 0.0)
    monkeypatch.setattr(module, "_WAIT_SECONDS", 60.0)
    work = counting()

    async def play(gateway):
        first = await gateway.kept("x", work, fresh_for=60.0)
        again = await gateway.kept("x", work, fresh_for=60.0)
        await asyncio.sleep(0.2)
        return first, again, await gateway.kept("x", work, fresh_for=0.1), await gateway.kept("y", work)

    assert played(play) == (1, 1, 2, 3)


def test_what_takes_long_is_done_less_often(monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 60.0)
    work = counting(0.5)  # for ten times as long, 5 seconds, it is not done again

    async def play(gateway):
        for _ in range(2):  # the first time may have compiled, so it says nothing of the next
            await gateway.kept("x", work, fresh_for=0.01)
            await asyncio.sleep(0.1)
        return await gateway.kept("x", work, fresh_for=0.01)

    assert played(play) == 2
    monkeypatch.setattr(module, "_REST_FACTOR", 0.0)
    assert played(play) == 5


def test_a_runner_is_there_however_long_it_takes_to_read_the_mirror(tmp_path, monkeypatch):
    """Reading may compile for half a minute; then a worker had not said in what was read that it is alive."""
    mirror, _ = make(tmp_path)
    with mirror:
        add(mirror, "a")
        now = mirror.clock.now()
        with mirror.store.begin() as t:
            t.alive("elsewhere:1:x", now, now + 30.0)
        for where, name in ((mirror_module, "load_sample"), (module, "load_policy")):
            load = getattr(where, name)

            def slowly(*given, load=load):
                mirror.clock._now += 60.0
                return load(*given)

            monkeypatch.setattr(where, name, slowly)
        view = module._view(mirror)
        assert view.status.running
        mirror.clock._now = now
        assert mirror.status().running


def test_who_asks_meanwhile_gets_what_there_was(monkeypatch):
    monkeypatch.setattr(module, "_WAIT_SECONDS", 0.02)
    monkeypatch.setattr(module, "_REST_FACTOR", 0.0)
    go = threading.Event()
    go.set()
    calls = []

    def work(_):
        calls.append(1)
        go.wait(10)
        return len(calls)

    async def play(gateway):
        first = await gateway.kept("x", work, fresh_for=0.01)
        go.clear()
        await asyncio.sleep(0.03)
        old = await asyncio.gather(*(gateway.kept("x", work, fresh_for=0.01) for _ in range(5)))
        go.set()
        while len(calls) < 2:  # noqa: ASYNC110  (of a thread)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        return first, old, len(calls)

    assert played(play) == (1, [1] * 5, 2)


def test_what_was_forgotten_is_looked_at_anew():
    begun, go = threading.Event(), threading.Event()
    values = iter(["before the edit", "after the edit"])

    def work(_):
        value = next(values)
        if value == "before the edit":
            begun.set()
            go.wait(60)
        return value

    async def play(gateway):
        early = asyncio.create_task(gateway.kept("x", work))
        await asyncio.to_thread(begun.wait, 60)
        gateway.forget()
        late = await gateway.kept("x", work)
        go.set()
        return await early, late, await gateway.kept("x", work)

    assert played(play) == ("before the edit", "after the edit", "after the edit")


def test_an_error_is_told_to_all_and_tried_again():
    calls = []

    def work(_):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("once")
        return "well"

    async def play(gateway):
        found = await asyncio.gather(*(gateway.kept("x", work) for _ in range(3)), return_exceptions=True)
        assert [str(one) for one in found] == ["once"] * 3
        return await gateway.kept("x", work)

    assert played(play) == "well"


def test_nothing_is_kept_if_that_is_not_wanted():
    work = counting()

    async def play(gateway):
        return [await gateway.kept("x", work) for _ in range(3)]

    assert played(play, fresh_for=0.0) == [1, 2, 3]
