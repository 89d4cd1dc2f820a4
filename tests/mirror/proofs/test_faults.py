"""Servers that do what they must not do, all at once: each has its outcome, and others keep their schedule.

The page docs/explanation/faults.md is written from what happens here, by
``cd tests; python -m mirror.proofs.test_faults``.
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

from mirror.proofs.fault_words import KINDS
from mirror.proofs.hostile_server import GOOD, WAVES
from mirror.sources.http.hostile import faults
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Http, Rule, Settings
from unstale.mirror.source import New

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "explanation" / "faults.md"
EVERY = {"min_interval": 0.4, "max_age": 1.0}
"""What good pages are to keep to: they are polled twice a second or so."""
RULES = (
    Rule("*/good/*", group="good", **EVERY),
    *(Rule(f"*/{wave}{path}", group=f"fault {wave}{path}") for wave in range(WAVES) for path in faults()),
)
"""Each fault is in a group of its own, as if it were a host."""
SETTINGS = Settings(
    budget=400.0, concurrency=100, timeout=2.0, max_size=3_000_000, rules=RULES,
    groups=(GroupLimit("*", concurrency=100),), http=Http(connect_timeout=2.0, read_timeout=0.4),
)  # fmt: skip
CUT = re.compile(
    r"(the answer is not HTTP|the content is not \w+|the connection broke|the body broke off"
    r"|a decompression bomb|nothing more came for [\d.]+ seconds|not done within \d+ seconds"
    r"|larger than [\d,]+ bytes)\b.*"
)
"""Words whose rest depends on the versions of libraries, or on what has come until then."""
WARM, CALM, PATIENCE = 1.0, 2.5, 60.0
"""Seconds until all is loaded, seconds without faults, and seconds that the faults may take at most."""


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

    calm: list[list[float]]
    """When each good page was polled without faults, after the warm-up."""
    rough: list[list[float]]
    """When each good page was polled with all faults beside it."""
    outcomes: dict[str, set[tuple[str, str]]]
    """What the first poll of each element saw, by fault: outcome, and words."""
    failed: list[str]
    """What went wrong with good pages."""
    grown: int
    """Bytes that the process grew by at most, with all faults."""
    left: list[object]
    """Tasks, threads and files that stayed behind."""
    troubles: list[str]


def gaps(polls):
    """Return the seconds between polls of the same page."""
    return np.concatenate([np.diff(times) for times in polls])


async def live(folder, port):
    """Mirror the good pages; then, in waves, all faults beside them."""
    url = f"http://127.0.0.1:{port}"
    troubles = []
    with Mirror(folder / "mirror.db", settings=SETTINGS) as mirror:
        mirror.add_many([New(f"{url}/good/{i}") for i in range(GOOD)])
        running = asyncio.create_task(
            mirror.arun(
                on_event=lambda event: troubles.append(event.detail) if event.kind == "trouble" else None
            )
        )
        await asyncio.sleep(WARM)
        start = time.time()
        await asyncio.sleep(CALM)
        middle, before = time.time(), resident()
        peak = before
        for wave in range(WAVES):
            mirror.add_many([New(f"{url}/{wave}{path}") for path in faults()])
            for _ in range(20):
                await asyncio.sleep(0.05)
                peak = max(peak, resident())
        for _ in range(int(PATIENCE / 0.2)):
            if not (waiting := mirror.status().elements.get("new", 0)):
                break
            await asyncio.sleep(0.2)
        assert not waiting
        end = time.time()
        mirror.stop()
        await running
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        left += [thread for thread in threading.enumerate() if thread.name.startswith("unstale-store")]
        left += list(mirror.copies.scratch.iterdir()) if mirror.copies.scratch.exists() else []
        keys = {element.id: element.key.removeprefix(url) for element in mirror.elements()}
        polls, first, failed = {}, {}, []
        for poll in sorted(mirror.polls(limit=100_000), key=lambda poll: poll.time):
            key = keys[poll.element]
            if key.startswith("/good/"):
                polls.setdefault(key, []).append(poll.time)
                if poll.outcome not in {"new", "unchanged"}:
                    failed.append(poll.detail)
            else:
                first.setdefault(key, (poll.outcome, poll.detail.replace(f":{port}", "")))
    outcomes = {}
    for key, found in first.items():
        outcomes.setdefault(key[2:], set()).add(found)
    return Day(
        calm=[[time for time in times if start <= time < middle] for times in polls.values()],
        rough=[[time for time in times if middle <= time < end] for times in polls.values()],
        outcomes=outcomes, failed=failed, grown=peak - before, left=left, troubles=troubles,
    )  # fmt: skip


def lived(folder):
    """Return what comes of all faults."""
    with hostile_server() as port:
        return asyncio.run(live(folder, port))


def page(day):
    """Return the page."""
    about = """
        What a mirror makes of servers that do what they must not do. A test runs a real mirror against a
        server with every fault in this list at once, each three times, beside thirty good pages that are
        polled twice a second. The tables are what it recorded (time-outs and sizes are smaller there than
        they are by default), without what depends on the versions of libraries. The good pages keep their
        schedule: they are polled as often as without the faults, and at the right time. The process does not
        grow, and nothing stays behind: no task, no thread, no file.
    """
    outcomes = """
        A poll that *failed* saw nothing, and says nothing about changes: the copy stays as it is, what has
        been learned stays, and the element is tried again after a minute, two, four, up to a day. After five
        failures in a row its whole group is left alone for a while. What is *gone* is looked for less and
        less often; its last copy stays. *new* means that the answer became the first copy.
    """
    lines = ["# What servers can do, and what comes of it", "", *wrapped(about), "", *wrapped(outcomes), ""]
    for kind, words in KINDS.items():
        lines += [f"## {kind}", "", "| the server ... | outcome | in words |", "|---|---|---|"]
        for path, what in words.items():
            found = {(outcome, CUT.sub(r"\1", detail)) for outcome, detail in day.outcomes[path]}
            lines += [f"| {what} | {outcome} | {cell(detail)} |" for outcome, detail in sorted(found)]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def wrapped(text):
    return textwrap.wrap(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    return lived(tmp_path_factory.mktemp("faults"))


def test_every_fault_is_named_once():
    named = [path for words in KINDS.values() for path in words]
    assert sorted(named) == sorted(faults())


def test_each_fault_has_one_outcome_and_the_page_says_so(day):
    assert set(day.outcomes) == set(faults())
    for path, (_, outcome, words) in faults().items():
        for found, detail in day.outcomes[path]:
            assert found == {"changed": "new"}.get(outcome, outcome), (path, detail)
            assert words in detail
    assert PAGE.read_text("utf-8") == page(day)


def test_all_others_keep_their_schedule(day):
    """Who waited for the faults would wait for a minute. A busy machine may take some of these seconds."""
    assert not day.failed
    assert not day.troubles
    assert len(day.calm) == len(day.rough) == GOOD
    calm, rough = gaps(day.calm), gaps(day.rough)
    assert rough.mean() < 2.0 * calm.mean(), (calm.mean(), rough.mean())
    assert rough.max() < max(4.0 * calm.max(), EVERY["max_age"] + 4.0), (calm.max(), rough.max())
    assert min(len(times) for times in day.rough) > 0.5 * np.mean([len(times) for times in day.rough])


def test_nothing_grows_and_nothing_stays_behind(day):
    assert not day.left
    assert day.grown < 100e6


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as inside:
        PAGE.write_text(page(lived(Path(inside))), "utf-8")
