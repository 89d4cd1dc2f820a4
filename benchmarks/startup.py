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


def _first_poll(folder: Path, kernels: str) -> float:
    """Return the seconds from the start of ``run`` to its first request."""
    with tempfile.TemporaryDirectory() as pages, _site(Path(pages)) as (addresses, asked):
        mirror = Path(tempfile.mkdtemp(dir=folder))
        _unstale("init", cwd=mirror, kernels=kernels)
        _unstale("add", *addresses, cwd=mirror, kernels=kernels)
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-m", "unstale", "run", "--quiet"], cwd=mirror, env=_environment(kernels)
        ) as process:
            found = asked.wait(120.0)
            took = time.perf_counter() - began
            process.terminate()
        assert found, "no poll was made"
        return took


def _demo(folder: Path, kernels: str) -> tuple[float, float]:
    """Return the seconds to the first line of the demo, and from there to its first poll."""
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
        process.terminate()
        process.stdout.read()
    return line - began, polled


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
    """Print how long each takes: best of several, but of cold starts the only one."""
    print("\nstart-up, seconds until there is an answer (60 pages, 1,000 rows)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rows.csv").write_text("rate\n" + "".join(f"{0.01 * (i + 1)}\n" for i in range(1000)))
        goals = (
            ("plan of 1,000 rows, cold", [_plan(folder, str(folder / "plan"))], 4.0),
            ("plan of 1,000 rows, warm", [_plan(folder, str(folder / "plan")) for _ in range(_REPEAT)], 1.0),
            ("the same, of the processor, cold", [_processor(folder, str(folder / "again"))], 4.0),
            ("the same, of the processor, warm", [_processor(folder, str(folder / "again"))], 1.0),
            ("first poll of run, cold", [_first_poll(folder, str(folder / "run"))], 2.0),
            ("first poll of run, warm", [_first_poll(folder, str(folder / "plan"))], 2.0),
        )
        for what, times, most in goals:
            print(f"  {what:46}  {min(times):6.2f} s   {required(min(times), most, 's')}")
        cold, warm = (_demo(folder, str(folder / "demo")) for _ in range(2))
        for what, (line, poll) in (("cold", cold), ("warm", warm)):
            print(f"  {f'first line of the demo, {what}':46}  {line:6.2f} s   {required(line, 1.0, 's')}")
            after = f"first poll of the demo after it, {what}"
            print(f"  {after:46}  {poll:6.2f} s   {required(poll, 3.0, 's')}")
