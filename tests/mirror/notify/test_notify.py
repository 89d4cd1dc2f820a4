"""Changes are told: at least once, in order, to each target, whatever happens to the others or to us."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from unstale import InvalidInput
from unstale.errors import Trouble
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.json_values import version_json
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.notify.webhooks_and_commands import CommandTarget, Undelivered, WebhookTarget, signature
from unstale.mirror.settings import Notify
from unstale.mirror.store.contract import Addition
from unstale.mirror.store.copies import Copies
from unstale.mirror.store.sql.imported_polls import Brought, Past, recall
from unstale.mirror.store.sql.store import open_store

START = 1_700_000_000.0


class Changing:
    """A store whose elements change when they are told to."""

    def __init__(self, folder):
        self.copies = Copies(folder / "copies")
        self.store = open_store(folder / "mirror.db", copies=self.copies)
        with self.store.begin() as t:
            keys = ["python:a", "python:b"]
            self.ids = t.add([Addition(key, "python", "python") for key in keys], START)
        self.count = 0

    def change(self, count=1, which=0):
        pasts = []
        for _ in range(count):
            self.count += 1
            digest, size = self.copies.put(b"%d" % self.count)
            copy = Brought(digest, size, "text/plain", meta={"title": "caf\u00e9"})
            pasts.append(Past(self.ids[which], START + self.count, "changed", brought=copy))
        with self.store.begin() as t:
            recall(t, pasts)


@pytest.fixture
def changing(tmp_path):
    made = Changing(tmp_path)
    yield made
    made.store.close()


class Hook:
    """A server that takes changes, or does not."""

    def __init__(self):
        self.got, self.headers, self.answers, self.url = [], [], [], ""

    @property
    def ids(self):
        return [change["id"] for change in self.got]

    async def answer(self, request):
        body = await request.read()
        status, wait, said = self.answers.pop(0) if self.answers else (200, 0.0, "")
        await asyncio.sleep(wait)
        if status == 200:
            self.got.append(json.loads(body))
            self.headers.append((dict(request.headers), body))
        return web.Response(status=status, text=said, headers={"Retry-After": "7"} if status == 429 else {})


@asynccontextmanager
async def serving():
    hook = Hook()
    runner = web.ServerRunner(web.Server(hook.answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hook.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook?key=secret"
    try:
        yield hook
    finally:
        await runner.cleanup()


@asynccontextmanager
async def running(notifier):
    stop = asyncio.Event()
    task = asyncio.create_task(notifier.run(stop))
    try:
        yield task
    finally:
        stop.set()
        await task


async def _until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        await asyncio.sleep(0.01)


def test_a_webhook_gets_all_changes_in_order(changing):
    async def run():
        async with serving() as hook:
            notifier = Notifier([Notify(webhook=hook.url)], changing.store)
            changing.change(3)
            assert await notifier.deliver() == 0  # what was before is not told
            changing.change(120)
            assert await notifier.deliver() == 120
            assert await notifier.deliver() == 0
            await notifier.close()
            with changing.store.begin() as t:
                versions = t.versions(3, 1000)
            assert hook.got == [version_json(version) for version in versions]
            headers, _ = hook.headers[0]
            assert headers["Content-Type"] == "application/json"
            assert headers["webhook-id"] == "change-4"
            assert "webhook-signature" not in headers
            assert hook.got[0]["key"] == "python:a"
            assert hook.got[0]["time"] == "2023-11-14T22:13:24.000000Z"
            assert hook.got[0]["meta"] == {"title": "caf\u00e9"}

    asyncio.run(run())


def test_it_goes_on_from_where_it_was_by_itself(changing, monkeypatch):
    async def run():
        async with serving() as hook:
            async with running(Notifier([Notify(webhook=hook.url)], changing.store)) as task:
                await asyncio.sleep(0.1)
                changing.change(2)
                await _until(lambda: hook.ids == [1, 2])
                assert not task.done()
            changing.change(2)
            # so that it must be woken
            monkeypatch.setattr("unstale.mirror.notify.notifier._LOOK_EVERY_SECONDS", 600.0)
            notifier = Notifier([Notify(webhook=hook.url)], changing.store)
            async with running(notifier):
                # the last one before the end may be told twice, if it was not noted in time
                await _until(lambda: list(dict.fromkeys(hook.ids)) == [1, 2, 3, 4])
                changing.change()
                notifier.wake()
                await _until(lambda: list(dict.fromkeys(hook.ids)) == [1, 2, 3, 4, 5])

    asyncio.run(run())


def test_only_what_matches(changing):
    async def run():
        async with serving() as hook:
            notifier = Notifier([Notify(webhook=hook.url, match="*:b")], changing.store)
            await notifier.deliver()
            changing.change(101)
            changing.change(1, which=1)
            assert await notifier.deliver() == 1
            assert hook.ids == [102]
            assert notifier.status()[0].position == 102
            await notifier.close()

    asyncio.run(run())


def test_what_is_not_taken_is_tried_again_later_and_later(changing):
    clock = SimulatedClock(START)
    troubles = []

    async def run():
        async with serving() as hook:
            tell = lambda *said: troubles.append(said)  # noqa: E731
            notifier = Notifier([Notify(webhook=hook.url)], changing.store, clock, on_trouble=tell)
            notifier.prepare()
            changing.change(2)
            hook.answers = [(500, 0, "oh no"), (404, 0, ""), (302, 0, ""), (429, 0, "")]
            waits = []
            for _ in range(4):
                assert await notifier.deliver() == 0
                waits.append(notifier.status()[0].next_try - clock.now())
                assert await notifier.deliver() == 0  # it is left alone until then
                await clock.until(notifier.status()[0].next_try)
            assert waits == [1.0, 2.0, 4.0, 8.0]
            assert notifier.status()[0].failures == 4
            assert "change 1: 429 Too Many Requests" in notifier.status()[0].trouble
            assert await notifier.deliver() == 2
            assert hook.ids == [1, 2]
            assert notifier.status()[0].failures == 0
            hook.answers = [(429, 0, "")]
            changing.change()
            await notifier.deliver()
            assert notifier.status()[0].next_try - clock.now() == 7.0  # as it asked for
            await notifier.close()

    asyncio.run(run())
    names = {name for name, _ in troubles}
    assert len(names) == 1
    assert "secret" not in names.pop()
    assert [said for _, said in troubles] == [
        "change 1: 500 Internal Server Error: oh no", "", "change 3: 429 Too Many Requests"
    ]  # fmt: skip


def test_a_dead_target_holds_up_nobody(changing):
    async def run():
        async with serving() as hook, serving() as silent:
            silent.answers = [(200, 60.0, "")] * 10
            dead = "http://127.0.0.1:9/"
            targets = [Notify(webhook=url) for url in (dead, silent.url, hook.url)]
            notifier = Notifier([*targets, Notify(command=("false",))], changing.store)
            async with running(notifier):
                await _until(lambda: all(delivery.position is not None for delivery in notifier._deliveries))
                changing.change(120)
                notifier.wake()
                await _until(lambda: len(hook.got) == 120)
                await _until(lambda: notifier.status()[3].failures > 0)
                states = notifier.status()
            assert hook.ids == list(range(1, 121))
            assert states[0].failures >= 1
            assert states[1].told == states[3].told == 0
            assert "exit code 1" in states[3].trouble

    asyncio.run(asyncio.wait_for(run(), 60.0))


def test_trouble_of_the_store_is_told_and_passes(changing):
    broken = True

    class Store:
        url = ""

        def begin(self):
            if broken:
                raise Trouble("the disk is full")
            return changing.store.begin()

    said = []

    async def run():
        nonlocal broken
        async with serving() as hook:
            notifier = Notifier(
                [Notify(webhook=hook.url)], Store(), on_trouble=lambda *one: said.append(one[1])
            )
            async with running(notifier):
                await _until(lambda: said)
                broken = False
                await _until(
                    lambda: notifier.status()[0].position is not None and not notifier._deliveries[0].failures
                )
                changing.change()
                notifier.wake()
                await _until(lambda: hook.ids == [1])

    asyncio.run(run())
    assert said == ["the disk is full", ""]


def test_signatures():
    async def run():
        async with serving() as hook:
            for secret, key in (("whsec_c2VjcmV0", b"secret"), ("plain text", b"plain text")):
                target = WebhookTarget(hook.url, secret, 5.0)
                await target.send("change-1", START, b"{}")
                await target.close()
                headers, body = hook.headers.pop()
                assert headers["webhook-signature"] == signature(key, "change-1", int(START), body)
                assert headers["webhook-timestamp"] == str(int(START))

    asyncio.run(run())
    for secret in ("", "whsec_not base64!"):
        with pytest.raises(InvalidInput, match="secret must"):
            WebhookTarget("http://x.example/", secret, 5.0)


def test_silence_is_a_failure():
    async def run():
        async with serving() as hook:
            hook.answers = [(200, 60.0, "")]
            target = WebhookTarget(hook.url, None, 0.2)
            with pytest.raises(Undelivered, match=r"no answer within 0\.2 seconds"):
                await target.send("change-1", START, b"{}")
            await target.close()

    asyncio.run(run())


def _tell(*command, timeout=10.0, body=b'{"id": 1}'):
    asyncio.run(CommandTarget(command, timeout).send("change-1", START, body))


def test_a_command_gets_json_on_its_standard_input(tmp_path):
    out = tmp_path / "out; rm -rf"
    script = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.read())"
    _tell(sys.executable, "-c", script)
    assert json.loads(out.read_text()) == {"id": 1}
    _tell("true", body=b"x" * 10_000_000)  # which does not read it


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.stderr.write('x' * 100000 + 'the end'); sys.exit(3)", "exit code 3: x+the end$"),
        ("import os; os.kill(os.getpid(), 9)", "^killed by signal 9$"),
        ("import os; os.close(2); os._exit(1)", "^exit code 1$"),
    ],
)
def test_a_command_that_fails(script, said):
    with pytest.raises(Undelivered, match=said) as error:
        _tell(sys.executable, "-c", script)
    assert len(str(error.value)) < 600


def test_a_command_that_hangs_is_killed_with_its_children(tmp_path):
    note = tmp_path / "pid"
    script = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(note)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    began = time.monotonic()
    with pytest.raises(Undelivered, match=r"not done within 0\.7 seconds; it was killed"):
        _tell(sys.executable, "-c", script, timeout=0.7)
    assert time.monotonic() - began < 50.0  # it would take 60
    pid = int(note.read_text())
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
    pytest.fail("its child is still there")


def test_what_a_command_leaves_behind_does_not_hold_us_up():
    began = time.monotonic()
    _tell("sh", "-c", "sleep 60 & exit 0")
    assert time.monotonic() - began < 50.0


def test_what_cannot_be_run():
    with pytest.raises(Undelivered, match="cannot be run: No such file"):
        _tell("/no/such/program")


@pytest.mark.parametrize(
    ("notify", "said"),
    [
        (Notify(), "either a webhook or a command"),
        (Notify(webhook="http://x.example/", command=("true",)), "either a webhook or a command"),
        (Notify(webhook="ftp://x.example/"), "webhook must be an address"),
        (Notify(webhook="x.example"), "webhook must be an address"),
        (Notify(command="echo hello"), "command must be a list"),
    ],
)
def test_what_is_no_target(changing, notify, said):
    with pytest.raises(InvalidInput, match=re.escape(said)):
        Notifier([notify], changing.store)
    with pytest.raises(InvalidInput, match="twice"):
        Notifier([Notify(webhook="http://x.example/")] * 2, changing.store)


VICTIM = """
import asyncio, sys
from pathlib import Path
from unstale.mirror.store.copies import Copies
from unstale.mirror.notify.notifier import Notifier
from unstale.mirror.settings import Notify
from unstale.mirror.store.sql.store import open_store

folder = Path(sys.argv[1])
store = open_store(folder / "mirror.db", copies=Copies(folder / "copies"))
append = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
command = (sys.executable, "-S", "-E", "-c", append, str(folder / "told"))
asyncio.run(Notifier([Notify(webhook=sys.argv[2]), Notify(command=command)], store).run(asyncio.Event()))
"""


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.long)])
def test_killed_at_any_moment_nothing_is_lost(tmp_path, kills):
    """At least once, across SIGKILL between delivery and record."""
    import random

    dice = random.Random(kills)  # noqa: S311
    changing = Changing(tmp_path)
    script = tmp_path / "victim.py"
    script.write_text(VICTIM)

    async def run():
        async with serving() as hook:

            def start():
                return subprocess.Popen([sys.executable, str(script), str(tmp_path), hook.url])  # noqa: S603

            victim = start()
            with_place = changing.store
            await _until(lambda: len([n for n in _state(with_place) if n.startswith("notify:")]) == 4, 120.0)
            for _ in range(kills):
                changing.change(15)
                seen = len(hook.got)
                await _until(lambda seen=seen: len(hook.got) > seen, 120.0)
                await asyncio.sleep(dice.random() * 0.3)
                os.kill(victim.pid, signal.SIGKILL)
                victim.wait()
                victim = start()
            told = tmp_path / "told"
            wanted = set(range(1, changing.count + 1))
            try:
                await _until(lambda: set(hook.ids) == wanted, 120.0)
                await _until(lambda: told.exists() and set(_ids(told)) == wanted, 120.0)
            finally:
                victim.kill()
                victim.wait()
            return hook.ids, _ids(told)

    for ids in asyncio.run(run()):
        firsts = list(dict.fromkeys(ids))
        assert firsts == sorted(firsts)  # in order, but for what is told again
        assert len(ids) - len(firsts) <= 100 * kills
    changing.store.close()


def _state(store):
    with store.begin() as t:
        return t.state()


def _ids(told):
    lines = told.read_text().splitlines()
    return [json.loads(line)["id"] for line in lines if line.endswith("}")]
