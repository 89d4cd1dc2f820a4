"""Workers that can be killed, and what they have said."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import worker

PATIENCE = 300.0
"""Seconds: what takes longer will not come."""


def wait_for(condition, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not come"
        time.sleep(0.01)


class Worker:
    """Starts a mirror, kills it, starts it again, and keeps what it said."""

    def __init__(self):
        self.pid = None
        self._ready, self._lines = False, queue.Queue()

    def __enter__(self):
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, Path(worker.__file__)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def __exit__(self, *_):
        try:
            self._process.stdin.close()
            self._process.wait(PATIENCE)
        finally:
            self._process.kill()
            self._process.wait()
            self._thread.join()
            self._process.stdout.close()

    def _listen(self):
        for line in self._process.stdout:
            said = json.loads(line)
            if {"ready", "pid", "dead", "up", "error"} & said.keys():
                self._lines.put(said)
            else:
                self.told.append(said)

    def _next(self, what):
        said = self._lines.get(timeout=PATIENCE)
        assert what in said, said
        return said[what]

    def employ(self, job):
        """Give it something to run, and wait until it can start that without delay."""
        self.job, self.told = job, []
        if not self._ready:
            self._ready = self._next("ready")
        return self

    def dismiss(self):
        """End what it runs, whatever the state of it."""
        if self.pid is not None:
            os.kill(self.pid, signal.SIGKILL)
            while "dead" not in self._lines.get(timeout=PATIENCE):
                pass
            self.pid = None

    def start(self, *, up=True):
        """Start a mirror; wait until it runs, or not even that."""
        self._process.stdin.write(json.dumps(self.job) + "\n")
        self._process.stdin.flush()
        said = {}
        while not {"pid", "up" if up else "pid"} <= said.keys():  # either may come first
            said |= self._lines.get(timeout=PATIENCE)
            self.pid = said.get("pid")
            assert not {"dead", "error"} & said.keys(), said
        self._up = up

    def kill(self, number=signal.SIGKILL):
        """Kill it; it must not have died of itself."""
        os.kill(self.pid, number)
        while "dead" not in (said := self._lines.get(timeout=PATIENCE)):
            assert "up" in said
            assert not self._up
        self.pid = None
        assert said["dead"] == (number if number == signal.SIGKILL else 0), said

    def events(self, kind):
        """Return what it told of one kind."""
        return [said for said in list(self.told) if said.get("event") == kind]
