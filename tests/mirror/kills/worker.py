"""A process that runs mirrors to be killed: it has loaded all code, and forks for each line that it gets."""

import ctypes
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psycopg  # noqa: F401  (what a mirror may need is loaded once)

from unstale.errors import UnstaleError
from unstale.mirror.cells.mirror import MirrorOfCells
from unstale.mirror.engine import housekeeper, poll_runner
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.sources.http import poll as http_poll  # noqa: F401
from unstale.mirror.store.sql import transaction as sql_transaction

DIE_WITH_PARENT = 1


def say(**what):
    """Tell it in one piece: a line that is shorter than a page is written whole or not at all."""
    os.write(1, (json.dumps(what) + "\n").encode())


def settings_of(*, groups=(), headers=None, **given):
    """Return the settings that a test asks for."""
    limits = tuple(GroupLimit(f"http:{match}", *limits) for match, *limits in groups)
    return Settings(groups=limits, http=Http(headers=headers or {}), **{"reserve": 0.0, **given})


def tell(event):
    """Tell what happens, once it has been recorded."""
    if event.kind != "tick":
        say(event=event.kind, time=event.time, key=event.key, detail=event.detail[:500], **event.data)


def count_batches():
    """Tell how many polls are taken at a time."""
    take = sql_transaction.SqlTransaction.lease

    def counted(self, *arguments):
        taken = take(self, *arguments)
        if taken:
            say(taken=len(taken))
        return taken

    sql_transaction.SqlTransaction.lease = counted


def work(*, store, copies, settings, user=None, alive=None, tick=None, ahead=0.0):
    """Run a mirror until killed; the clock of its machine is ahead."""
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    if user is not None and os.geteuid() == 0:
        os.setgid(user)
        os.setuid(user)
    if alive is not None:
        housekeeper.ALIVE_SECONDS = alive
    if "timeout" in settings:  # a lease lasts as long as a poll can take, and the patience beyond that
        poll_runner.PATIENCE_SECONDS = settings["timeout"] / 2.0
    count_batches()
    if ahead:
        real = time.time
        time.time = lambda: real() + ahead
    mirror = Mirror(store, copies=copies, settings=settings_of(**settings), tick=tick)
    say(up=True)
    mirror.run(on_event=tell)


def work_on_cells(*, store, copies, settings, environment, clock):
    """Run a mirror of cells until killed, as a service that is started again when it ends.

    At a SIGUSR1 the clock of its machine is set: it is ahead by what the file ``clock`` says.
    """
    ctypes.CDLL(None).prctl(DIE_WITH_PARENT, signal.SIGKILL)
    os.environ.update(environment)
    real, ahead = time.time, [float(Path(clock).read_text("ascii"))]
    time.time = lambda: real() + ahead[0]

    def set_clock(*_):
        ahead[0] = float(Path(clock).read_text("ascii"))

    signal.signal(signal.SIGUSR1, set_clock)
    say(up=True)
    while True:
        with (
            suppress(UnstaleError),
            MirrorOfCells(store, copies=copies, settings=settings_of(**settings)) as mirror,
        ):
            mirror.run(on_event=tell)
            return
        time.sleep(1.0)


def main():
    """Fork a mirror for each line."""
    with tempfile.TemporaryDirectory() as folder, Mirror(Path(folder) / "mirror.db") as mirror:
        mirror.add("python:a", poll=lambda: "something")
        mirror.step()
    say(ready=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                job = json.loads(line)
                (work_on_cells if "clock" in job else work)(**job)
            except BaseException as error:  # noqa: BLE001
                say(error=repr(error))
                os._exit(1)
            os._exit(0)
        say(pid=child)
        _, status = os.waitpid(child, 0)
        say(dead=status)


if __name__ == "__main__":
    main()
