"""How long a newcomer waits: with kernels that have to be compiled (cold), and with compiled ones (warm)."""

import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.timing import required

_PAGES = 60
_REPEAT = 3
_DEMO_SECONDS = 30.0
"""In which the longest pause of the demo is looked for: cold, that is when its formulas are compiled."""
_LONGEST_PAUSE = """
import asyncio, sys
from pathlib import Path
import numpy as np
from unstale.mirror.demo.demo import Demo

demo = Demo(Path(sys.argv[1]))
asyncio.run(demo.run(float(sys.argv[2])))
print(np.diff(np.sort(demo.site.asked()[1])).max())
"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _site(folder: Path) -> Iterator[tuple[list[str], threading.Event]]:
    """Serve some pages; give their addresses, and an event that is set when one is asked for."""
    asked = threading.Event()
    for i in range(_PAGES):
        (folder / f"{i}.html").write_text(f"<p>page {i}</p>")

    class Pages(_Quiet):
        def do_GET(self) -> None:
            if self.path.endswith(".html"):
                asked.set()
            super().do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Pages, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [f"http://127.0.0.1:{server.server_port}/{i}.html" for i in range(_PAGES)], asked
    server.shutdown()


def _environment(kernels: str) -> dict[str, str]:
    return os.environ | {"NUMBA_CACHE_DIR": kernels}


def _unstale(*arguments: str, cwd: Path, kernels: str) -> None:
    subprocess.run(  # noqa: S603
        [sys.executable, "-m", "unstale", *arguments],
        cwd=cwd, env=_environment(kernels), check=True, capture_output=True,
    )  # fmt: skip


def _plan(folder: Path, kernels: str) -> float:
    began = time.perf_counter()
    _unstale("plan", "rows.csv", "--budget", "500/day", cwd=folder, kernels=kernels)
    return time.perf_counter() - began


def _processor(folder: Path, kernels: str) -> float:
    """Return the seconds of the processor that a plan takes, which others do not lengthen much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _plan(folder, kernels)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _used(process: subprocess.Popen[str]) -> float:
    """Return the seconds of the processor that a process has used so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _first_poll(folder: Path, kernels: str) -> tuple[float, float]:
    """Return the seconds from the start of ``run`` to its first request, and those of the processor."""
    with tempfile.TemporaryDirectory() as pages, _site(Path(pages)) as (addresses, asked):
        mirror = Path(tempfile.mkdtemp(dir=folder))
        _unstale("init", cwd=mirror, kernels=kernels)
        _unstale("add", *addresses, cwd=mirror, kernels=kernels)
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "unstale", "run", "--quiet"],
            cwd=mirror, env=_environment(kernels), text=True,
        ) as process:  # fmt: skip
            found = asked.wait(120.0)
            took, used = time.perf_counter() - began, _used(process)
            process.terminate()
        assert found, "no poll was made"
        return took, used


def _demo(folder: Path, kernels: str) -> tuple[float, float, float, float]:
    """Return the seconds to the first line of the demo, and from there to its poll and its row."""
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "unstale", "demo", "--no-serve"],
        cwd=folder, env=_environment(kernels) | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        process.stdout.readline()
        line = time.perf_counter()
        said = process.stdout.readline()
        port = int(said.split("http://127.0.0.1:")[1].split("/")[0])
        polled = _polled(port, line)
        used = _used(process)
        while not process.stdout.readline().lstrip().startswith("after"):
            pass
        process.stdout.readline()
        row = time.perf_counter() - line
        process.terminate()
        process.stdout.read()
    return line - began, polled, used, row


def _longest_pause(folder: Path, kernels: str) -> float:
    """Return the longest time between two polls of the demo."""
    with tempfile.TemporaryDirectory(dir=folder) as mirror:
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _LONGEST_PAUSE, mirror, str(_DEMO_SECONDS)],
            env=_environment(kernels), check=True, capture_output=True, text=True,
        )  # fmt: skip
    return float(done.stdout)


def _polled(port: int, since: float) -> float:
    """Wait until the mirror keeps connections to the site, as it does from its first poll on."""
    while time.perf_counter() < since + 120.0:
        text = Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]
        rows = [line.split() for line in text]
        if any(row[2] == f"0100007F:{port:04X}" and row[3] == "01" for row in rows):
            return time.perf_counter() - since
        time.sleep(0.02)
    raise AssertionError("the demo made no poll")


def run() -> None:
    """Print how long each takes, and on the processor: there others who are busy lengthen it little."""
    print("\nstart-up, seconds until there is an answer (60 pages, 1,000 rows)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("rate\n" + "".join(f"{0.01 * (i + 1)}\n" for i in range(1000)))
        goals = [
            ("plan of 1,000 rows, cold", _plan(folder, str(folder / "plan")), 4.0),
            (
                "plan of 1,000 rows, warm",
                min(_plan(folder, str(folder / "plan")) for _ in range(_REPEAT)),
                1.0,
            ),
            ("- of the processor, cold", _processor(folder, str(folder / "again")), 4.0),
            ("- of the processor, warm", _processor(folder, str(folder / "again")), 1.0),
        ]
        for what, kernels in (("cold", "run"), ("warm", "plan")):
            took, used = _first_poll(folder, str(folder / kernels))
            goals += [(f"first poll of run, {what}", took, 2.0), ("- of the processor until then", used, 2.0)]
        for what in ("cold", "warm"):
            line, poll, used, row = _demo(folder, str(folder / "demo"))
            goals += [
                (f"first line of the demo, {what}", line, 1.0),
                (f"first poll of the demo after it, {what}", poll, 3.0),
                ("- of the processor until then", used, 3.0),
                (f"first row of its table, {what}", row, 4.0),
            ]
        goals += [
            (f"longest pause of its polls, {what}", _longest_pause(folder, str(folder / "pause")), 1.0)
            for what in ("cold", "warm")
        ]
        for what, seconds, most in goals:
            print(f"  {what:46}  {seconds:6.2f} s   {required(seconds, most, 's')}")
