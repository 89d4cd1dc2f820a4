"""A mirror polls while what chooses its polls is still being compiled: turns need none of it."""

import asyncio
import subprocess
import sys
import threading

import numpy as np
import pytest

from unstale.mirror.engine import load_policy, rehearsal, worker
from unstale.mirror.mirror import Mirror
from unstale.mirror.reports import freshness
from unstale.mirror.settings import Settings


@pytest.fixture
def slow_compiler(monkeypatch):
    """Compilers that take until they are told to be done, in a process that has compiled nothing yet."""
    done, ready = threading.Event(), threading.Event()

    async def wait(*_rehearsed):
        while not done.is_set():  # noqa: ASYNC110  (it is set in another thread)
            await asyncio.sleep(0.01)
        ready.set()

    monkeypatch.setattr(rehearsal, "_ready", ready)
    monkeypatch.setattr(worker, "rehearse_beside", wait)
    return done


def files(folder, *names):
    paths = [folder / name for name in names]
    for path in paths:
        path.write_text(path.name)
    return [str(path) for path in paths]


def test_first_copies_come_before_all_is_compiled_and_then_all_have_turns(tmp_path, slow_compiler):
    """What polls in turn saw is learned from as soon as that is possible, also by the next planner."""
    old, *new = files(tmp_path, "old", "a", "b", "c")
    seen = []
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=100.0, reserve=0.0)) as mirror:
        mirror.add(old)
        assert mirror.step() == 1
        rehearsal._ready.clear()
        for key in new:
            mirror.add(key)

        def hear(event):
            if event.kind == "poll":
                seen.append(event.key)
            if len(seen) >= 7:
                mirror.stop()

        mirror.run(on_event=hear)
        assert set(seen[:3]) == set(new)
        assert seen[3] == old
        assert set(seen[4:7]) == set(new)
        assert not rehearsal.is_ready()
        with mirror.store.begin() as t:
            before, state = load_policy.load_policy(mirror.settings, t)
        assert state.last_poll < len(seen) + 1
        slow_compiler.set()
        again = []

        def hear_again(event):
            if event.kind == "poll" and rehearsal.is_ready():
                again.append(event.key)
            if len(again) >= 9:  # some that were chosen before it was ready, and some after
                mirror.stop()

        mirror.run(on_event=hear_again)
        with mirror.store.begin() as t:
            after, state = load_policy.load_policy(mirror.settings, t)
        assert state.last_poll >= len(seen) + 1
    mass = [policy.table.learner.outlook(np.zeros(4))[0].shape.sum() for policy in (before, after)]
    assert mass[0] != mass[1]


def test_who_ends_a_run_does_not_wait_for_the_compilers(tmp_path, slow_compiler):
    (key,) = files(tmp_path, "a")
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=100.0)) as mirror:
        mirror.add(key)
        mirror.run(on_event=lambda event: mirror.stop() if event.kind == "poll" else None)
    assert not rehearsal.is_ready()
    slow_compiler.set()


def test_what_is_rehearsed_is_chosen_and_planned_for(monkeypatch):
    """Elements without a weight are never polled: none of the kernels that choose were compiled for them."""
    told, chosen = [], []

    def sampled(*given):
        told.append(freshness.sampled(*given))
        return told[-1]

    def new_policy(*given):
        policy = load_policy.new_policy(*given)
        choose = policy.choose
        policy.choose = lambda *when, **how: chosen.append(choose(*when, **how))
        return policy

    monkeypatch.setattr(rehearsal, "sampled", sampled)
    monkeypatch.setattr(rehearsal, "new_policy", new_policy)
    rehearsal.rehearse_all("freshness")
    assert chosen[0].places.size > 0
    assert 0.0 < told[0].freshness < 1.0
    assert 0.0 < told[0].predicted < 1.0


FIRST_COPIES = """
import asyncio
import sys
from numba.core import event
from unstale.mirror.engine import worker
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import Settings

class Compiled(event.Listener):
    def on_start(self, one):
        print("compiled:", one.data["dispatcher"])
    def on_end(self, one):
        pass

async def never_over(*_rehearsed):
    await asyncio.Event().wait()

worker.rehearse_beside = never_over
event.register("numba:compile", Compiled())
polls = 0
with Mirror("mirror.db", settings=Settings(budget=100.0, reserve=60.0)) as mirror:
    for key in sys.argv[1:]:
        mirror.add(key)
    def hear(event):
        global polls
        polls += event.kind == "poll"
        if event.kind == "tick" and polls >= 3 * (len(sys.argv) - 1):
            mirror.stop()
    mirror.run(on_event=hear)
print("polls:", polls >= 9)
"""


def test_first_copies_and_turns_need_no_compiled_code(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", FIRST_COPIES, *files(tmp_path, "a", "b", "c")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("polls: True\n", "")


def test_a_rehearsal_calls_all_that_choosing_and_learning_call():
    """Whatever a mirror of its first day calls has been compiled before."""
    script = """
import numpy as np
from numba.core import event
from unstale.mirror.engine import rehearsal
from unstale.mirror.settings import Settings
from unstale.mirror.engine.load_policy import new_policy
from unstale.policy.element_table import OK, ElementTable
from unstale.policy.hint_channels import Channels

settings = Settings(budget=1.0)
rehearsal.rehearse_all("freshness")
assert rehearsal.is_ready()
compiled = []
class Compiled(event.Listener):
    def on_start(self, one):
        compiled.append(one.data["dispatcher"].__name__)
    def on_end(self, one):
        pass
from numba.core.dispatcher import Dispatcher
loaded = Dispatcher.compile
Dispatcher.compile = lambda self, sig: (compiled.append(self.__name__), loaded(self, sig))[1]
table = ElementTable()
table.reserve(50, None)
table["id", :], table["state", :], table["last", :] = np.arange(50), OK, 0.0
policy = new_policy(settings, table, Channels())
for hour in range(1, 30):
    now = 3600.0 * hour
    policy.rescaled()
    chosen = policy.choose(now, now + 60.0, room=50)
    policy.known.fresh(chosen.places, now)
    rehearsal.sampled(policy, now, rehearsal.PollCounts())
    since = now - table["last"][chosen.places]
    policy.learn(chosen.places, since, chosen.places % 2 == 0, np.full(since.size, now))
    policy.polled(chosen.places, np.full(since.size, now))
print(sorted(set(compiled)))
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.long
def test_what_is_not_compiled_yet_is_compiled_in_another_process(tmp_path, monkeypatch):
    """In ours a compiler would keep polls waiting, for ever the first one; it only loads what is there."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    script = """
import asyncio
from numba.core import event
from unstale.mirror.engine import rehearsal

class Compiled(event.Listener):
    def on_start(self, one):
        print("started", one.data["dispatcher"].__name__)
    def on_end(self, one):
        print("compiled", one.data["dispatcher"].__name__)

event.register("numba:compile", Compiled())
asyncio.run(rehearsal.rehearse_beside("freshness"))
print(rehearsal.is_ready())
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "True"
    assert sum(line.startswith("started") for line in done.stdout.splitlines()) <= 1  # which was refused
