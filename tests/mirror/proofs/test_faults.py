"""Servers that do what they must not do, all at once: each poll has its outcome, and all others keep their schedule.

The page docs/explanation/faults.md is written from what happens here: ``cd tests; python -m mirror.proofs.test_faults``.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from mirror.http.hostile import faults
from mirror.proofs.fault_words import KINDS
from mirror.proofs.hostile_server import GOOD, WAVES

from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.source import New

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "explanation" / "faults.md"
SETTINGS = Settings(
    budget=400.0, concurrency=100, timeout=2.0, max_size=3_000_000, groups=(GroupLimit("*", concurrency=100),),
    http=Http(connect_timeout=2.0, read_timeout=0.4),
)  # fmt: skip
EVERY = {"min_interval": 0.4, "max_age": 1.0}
"""What good pages are to keep to: they are polled twice a second or so."""
SECONDS, WARM = 4.5, 1.0


@contextmanager
def hostile_server():
    """Run the server; gives its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "mirror.proofs.hostile_server"],
        cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as server:  # fmt: skip
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def resident():
    """Return the bytes of this process that are in memory; 0 where that cannot be told."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass
class Day:
    """What came of it."""

    polls: dict[str, list[float]]
    """When each good page was polled, after the warm-up."""
    outcomes: dict[str, set[tuple[str, str]]]
    """What each poll of a fault was found to be, in words."""
    failed: list[str]
    """What went wrong with good pages."""
    grown: int
    """Bytes that the process grew by at most, after the warm-up."""
    left: list[object]
    """Tasks, threads and files that stayed behind."""
    troubles: list[str]

    @property
    def rate(self):
        """How often a good page was polled, at least and on average."""
        counts = [len(times) for times in self.polls.values()]
        return min(counts), float(np.mean(counts))

    @property
    def gap(self):
        """The longest time for which a good page was left alone."""
        return max(float(np.diff(times).max()) for times in self.polls.values())


async def live(folder, port, *, waves):
    """Mirror the good pages, and, in waves, all faults beside them."""
    url = f"http://127.0.0.1:{port}"
    troubles, peak = [], 0
    with Mirror(folder / "mirror.db", settings=SETTINGS) as mirror:
        mirror.add_many([New(f"{url}/good/{i}") for i in range(GOOD)], {**EVERY, "group": "good"})
        start = time.time()
        running = asyncio.create_task(
            mirror.arun(
                start + SECONDS, on_event=lambda e: troubles.append(e.detail) if e.kind == "trouble" else None
            )
        )
        await asyncio.sleep(WARM)
        before = resident()
        for wave in range(waves):
            await asyncio.to_thread(add_faults, mirror, url, wave)
            for _ in range(int(WARM / 0.05)):
                await asyncio.sleep(0.05)
                peak = max(peak, resident())
        await running
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        left += [thread for thread in threading.enumerate() if thread.name.startswith("unstale-store")]
        left += list(mirror.copies.scratch.iterdir()) if mirror.copies.scratch.exists() else []
        keys = {element.id: element.key.removeprefix(url) for element in mirror.elements()}
        polls, outcomes, failed = {}, {}, []
        for poll in sorted(mirror.polls(limit=100_000), key=lambda poll: poll.time):
            key = keys[poll.element]
            if key.startswith("/good/"):
                if start + WARM <= poll.time < start + SECONDS:
                    polls.setdefault(key, []).append(poll.time)
                if poll.outcome not in {"new", "unchanged"}:
                    failed.append(poll.detail)
            else:
                words = poll.detail.replace(f":{port}", "").replace(str(port), "PORT")
                path = re.sub(r"^/\d/", "/", key)
                outcomes.setdefault(path, set()).add((poll.outcome, re.sub(r"/\d/", "/", words)))
    return Day(polls, outcomes, failed, max(peak - before, 0), left, troubles)


def add_faults(mirror, url, wave):
    """Add all faults, each in a group of its own."""
    for path in faults():
        mirror.add(f"{url}/{wave}{path}", group=f"fault {path}")


def both(folder):
    """Return a day without faults, and one with all of them."""
    days = []
    with hostile_server() as port:
        for waves in (0, WAVES):
            (inside := folder / str(waves)).mkdir()
            days.append(asyncio.run(live(inside, port, waves=waves)))
    return days


def page(day):
    """Return the page."""
    about = """
        What a mirror makes of servers that do what they must not do. A test runs a real mirror against a server
        with every fault in this list at once, each three times, beside thirty good pages that are polled twice a
        second; the tables are what it recorded. The good pages are polled as often as without the faults, and
        none waits longer. The process does not grow, and nothing is left behind: no task, no connection, no file.
        Time-outs are shorter in the test than they are by default.
    """
    lines = [
        "# What servers can do, and what comes of it", "", *wrapped(about), "",
        *wrapped(
            "A poll that *failed* saw nothing, and says nothing about changes: the copy stays as it is, what has "
            "been learned stays, and the element is tried again after a minute, two, four, up to a day. What is "
            "*gone* is looked for less and less often; its last copy stays. After five failures in a row a whole "
            "group is left alone for a while."
        ), "",
    ]  # fmt: skip
    for kind, words in KINDS.items():
        lines += [f"## {kind}", "", "| the server ... | outcome | in words |", "|---|---|---|"]
        for path, what in words.items():
            found = sorted(day.outcomes[path])
            for outcome, detail in found:
                lines.append(f"| {what} | {outcome} | {cell(detail)} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def wrapped(text):
    return textwrap.wrap(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    return both(tmp_path_factory.mktemp("faults"))


def test_every_fault_is_named_once():
    named = [path for words in KINDS.values() for path in words]
    assert sorted(named) == sorted(faults())


def test_each_fault_has_one_outcome_and_the_page_says_so(days):
    day = days[1]
    assert set(day.outcomes) == set(faults())
    for path, (_, outcome, words) in faults().items():
        assert len(day.outcomes[path]) == 1, day.outcomes[path]
        ((found, detail),) = day.outcomes[path]
        assert found == {"changed": "new"}.get(outcome, outcome), (path, detail)
        assert words in detail
    assert PAGE.read_text("utf-8") == page(day)


def test_all_others_keep_their_schedule(days):
    calm, rough = days
    assert not rough.failed
    assert not rough.troubles
    assert len(rough.polls) == len(calm.polls) == GOOD
    least, mean = rough.rate
    assert mean > 0.85 * calm.rate[1], (calm.rate, rough.rate)
    assert least >= 0.6 * calm.rate[1], (calm.rate, rough.rate)
    assert rough.gap < max(2.0 * calm.gap, EVERY["max_age"] + 0.5), (calm.gap, rough.gap)


def test_nothing_grows_and_nothing_stays_behind(days):
    for day in days:
        assert not day.left
        assert day.grown < 100e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(both(Path(folder))[1]), "utf-8")
