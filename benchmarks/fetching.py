"""Fetchers through the API: leases and outcomes per second of one server, and what it takes from the planner.

Each part has a process of its own, as in life: the planner (`unstale run`), the server (`unstale serve`), and
fetchers that fetch nothing, so that all they do is to take leases and report. The yardstick takes and records
the same polls without the API, in batches of the same size, as workers of a fleet do.

What the planner loses is what more of its processor a poll takes through the API than beside the yardstick,
when both make as many polls: a turn costs the same whether it hands out many or few.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from os import sysconf
from pathlib import Path
from socket import socket
from urllib.request import urlopen

import numpy as np

from benchmarks.dashboard import ROOT, _process
from benchmarks.mirror import HOSTS, fill
from benchmarks.timing import at_least, required
from unstale.fetcher import AsyncFetcher, FetchLease
from unstale.mirror.config.file import load
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import Found
from unstale.mirror.store.contract import Finished

ELEMENTS, BATCH, CONNECTIONS = 100_000, 100, 4
WAYS = ("without", "through")
WARM, LONG_WARM, SECONDS = 6.0, 24.0, 10.0
"""Seconds; at a lower budget turns are seldom, and it takes some until fetchers get all that there is."""
PACE, PACED_RUNS = 0.5, 2
"""Of the polls that both can make, how many are made while the planner is measured; and how often."""
CONFIG = """
[mirror]
budget = "{budget:g}/s"
reserve = 0
fetch = "elsewhere"

[[group]]
match = "*"
spacing = "0s"
concurrency = 1000
"""


def run() -> None:
    print(
        f"\nfetchers: {ELEMENTS:,} elements of {HOSTS:,} hosts, batches of {BATCH}, {CONNECTIONS} clients;"
        "\nyardstick: the same transactions without the API, one after the other"
    )
    found = {name: _measured(name, 8000.0) for name in WAYS}
    ours, plain = found["through"], found["without"]
    for name, one in (("API", ours), ("yardstick", plain)):
        print(
            f"  {name}: {one['rate']:,.0f} leases and outcomes a second; a batch is leased in"
            f" {one['lease']:.1f} ms and reported in {one['report']:.1f} ms (median),"
            f" {one['lease_p99']:.1f} and {one['report_p99']:.1f} ms (p99)"
        )
    print(
        f"  in a second of its processor the server does {at_least(ours['per_cpu'], 5000, 'of them')};"
        f" the yardstick {plain['per_cpu']:,.0f}"
    )
    compare_planner(PACE * min(ours["rate"], plain["rate"]))


def compare_planner(pace: float) -> None:
    """Print what the planner takes for a poll at a budget, and beside the yardstick at as many polls."""
    pairs = []
    for _ in range(PACED_RUNS):
        ours = _measured("through", pace, LONG_WARM)
        pairs.append((ours, _measured("without", max(ours["rate"], 10.0), LONG_WARM)))
    ours, plain = (
        np.average([run["planner"] for run in runs], weights=[run["rate"] for run in runs])
        for runs in zip(*pairs, strict=True)
    )
    rates = ", ".join(f"{ours['rate']:,.0f} and {plain['rate']:,.0f}" for ours, plain in pairs)
    print(
        f"  at equal polls ({rates} a second) the planner takes {1e6 * ours:.0f} us of its processor for a"
        f" poll, beside the yardstick {1e6 * plain:.0f} us; lost"
        f" {required(max(100.0 * (1.0 - plain / ours), 0.0), 10, '%')}"
    )


def _measured(name: str, budget: float, warm: float = WARM) -> dict[str, float]:
    """Measure fetchers in a process of their own, and what the others spent meanwhile."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fill(str(folder), ELEMENTS)
        (folder / "mirror.toml").write_text(CONFIG.format(budget=budget))
        unstale = [sys.executable, "-m", "unstale"]
        server: subprocess.Popen[bytes] | None = None
        planner = stack.enter_context(_process([*unstale, "run", "--quiet"], folder))
        code = f"from benchmarks import fetching; fetching.without({str(folder)!r}, {warm})"
        if name == "through":
            with socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            server = stack.enter_context(_process([*unstale, "serve", "--port", str(port)], folder))
            code = f"from benchmarks import fetching; fetching.through({port}, {warm})"
        with subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as fetchers:
            assert fetchers.stdout is not None
            assert fetchers.stdout.readline() == "begin\n"
            does = server or fetchers
            before = _spent(planner), _spent(does)
            found: dict[str, float] = json.loads(fetchers.stdout.readline())
            spent = _spent(planner) - before[0], _spent(does) - before[1]
    polls = found["rate"] * SECONDS
    return found | {"planner": spent[0] / polls, "per_cpu": polls / spent[1]}


def _spent(process: subprocess.Popen[bytes] | subprocess.Popen[str]) -> float:
    """Seconds of the processor that a process has had."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / sysconf("SC_CLK_TCK")


def through(port: int, warm: float) -> None:
    """Print how fast leases are taken and reported through the API."""
    asyncio.run(_through(port, warm))


async def _through(port: int, warm: float) -> None:
    address = f"http://127.0.0.1:{port}"
    await asyncio.to_thread(_started, address)
    begin = time.perf_counter() + warm
    end = begin + SECONDS
    threading.Timer(warm, print, ["begin"], {"flush": True}).start()
    took: dict[str, list[float]] = {"lease": [], "report": []}
    recorded = 0
    reporting: set[asyncio.Task[None]] = set()

    async def report(fetcher: AsyncFetcher, leases: list[FetchLease]) -> None:
        nonlocal recorded
        await asyncio.sleep(max(max(lease.slot for lease in leases) - time.time(), 0.0))
        began = time.perf_counter()
        done = await fetcher.report([lease.changed(fingerprint="a", traffic=200) for lease in leases])
        if begin <= began < end:
            recorded += done.recorded
            took["report"].append(time.perf_counter() - began)

    async def fetch(number: int) -> None:
        async with AsyncFetcher(address, f"bench-{number}") as fetcher:
            while (now := time.perf_counter()) < end:
                leases = await fetcher.lease(BATCH)
                if now >= begin:
                    took["lease"].append(time.perf_counter() - now)
                if leases:
                    task = asyncio.create_task(report(fetcher, leases))
                    reporting.add(task)
                    task.add_done_callback(reporting.discard)
                if len(leases) < BATCH:
                    await asyncio.sleep(0.05)
            await asyncio.gather(*reporting)

    await asyncio.gather(*(fetch(number) for number in range(CONNECTIONS)))
    _tell(recorded, took)


def _started(address: str) -> None:
    """Wait until a server has started, and has read all elements."""
    for _ in range(600):
        with suppress(OSError), urlopen(f"{address}/api/status", timeout=60) as answer:  # noqa: S310
            answer.read()
            return
        time.sleep(0.1)


def without(folder: str, warm: float) -> None:
    """Print how fast leases are taken and recorded without the API."""
    config = load(Path(folder) / "mirror.toml")
    begin = time.perf_counter() + warm
    end = begin + SECONDS
    threading.Timer(warm, print, ["begin"], {"flush": True}).start()
    took: dict[str, list[float]] = {"lease": [], "report": []}
    recorded = 0
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        while (now := time.perf_counter()) < end:
            with mirror.store.begin() as t:
                leases = t.lease("bench", BATCH, time.time(), time.time() + 60.0)
            after = time.perf_counter()
            if not leases:
                time.sleep(0.02)
                continue
            found = Found("changed", "changed", traffic=200)
            finished = [
                Finished(one, time.time(), 0.0, found, outcome="changed", fingerprint="a") for one in leases
            ]
            began = time.perf_counter()
            with mirror.store.begin() as t:
                t.record("bench", finished)
            if now >= begin:
                recorded += len(leases)
                took["lease"].append(after - now)
                took["report"].append(time.perf_counter() - began)
    _tell(recorded, took)


def _tell(recorded: int, took: dict[str, list[float]]) -> None:
    said = {"rate": recorded / SECONDS}
    for name, times in took.items():
        said[name], said[f"{name}_p99"] = (1e3 * np.percentile(times, [50, 99])).tolist()
    print(json.dumps(said))
