"""The dashboard under load: how fast copies and the overview come, and what that takes from the mirror.

Each part has a process of its own, as in life: a site that does not change, the mirror that polls it at its
full budget (`unstale run`), the dashboard (`unstale serve`), a bare handler that sends the same bytes, and
whoever asks. The load ends by itself.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from benchmarks.mirror import serving
from benchmarks.timing import required
from unstale.mirror.config.file import load
from unstale.mirror.mirror import Mirror
from unstale.mirror.source import New

PAGES, BUDGET = 2000, 500
CONNECTIONS, SECONDS = 8, 6.0
ROOT = Path(__file__).parents[1]
CONFIG = """
[mirror]
budget = "{budget}/s"
contact = "bench@example.org"

[http]
robots = false

[[group]]
match = "*"
spacing = "0s"
concurrency = 50
"""


def run() -> None:
    print(
        f"\nthe dashboard under load: {CONNECTIONS} connections; the mirror polls {BUDGET} pages a second;"
        "\nyardstick: a bare Starlette handler that reads the same bytes"
    )
    with ExitStack() as stack:
        site = stack.enter_context(serving())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        keys = _made(folder, site)
        stack.enter_context(_process([sys.executable, "-m", "unstale", "run", "--quiet"], folder))
        ours = stack.enter_context(_listening(["-m", "unstale", "serve", "--port", "{port}"], folder))
        copy = next((folder / "copies").rglob("*.zst"), None) or next((folder / "copies").rglob("*.raw"))
        bare = stack.enter_context(
            _listening(
                ["-c", f"from benchmarks import dashboard; dashboard.bare({{port}}, {str(copy)!r})"], ROOT
            )
        )
        time.sleep(4.0)
        alone = _polled(folder)
        for name, path, yardstick in (
            ("/copies/KEY", f"/copies/{quote(keys[0], safe='')}", "/"),
            ("the overview", "/", "/"),
        ):
            with_load = _polled(folder, lambda port=ours, path=path: _load(port, path))
            plain = _load(bare, yardstick)
            found = with_load[1]
            assert found["failed"] == 0, found
            print(f"  {name}: {_told(found)}; yardstick {_told(plain)}; none failed")
            lost = required(max(100.0 * (1.0 - with_load[0] / alone[0]), 0.0), 10, "%")
            print(f"    polls: {with_load[0]:.0f}/s, alone {alone[0]:.0f}/s; lost {lost}")


def _told(found: dict[str, float]) -> str:
    return f"{found['rate']:,.0f}/s, median {found['median']:.1f} ms, p99 {found['p99']:.1f} ms"


def _made(folder: Path, site: str) -> list[str]:
    """Make a mirror that has all pages."""
    (folder / "mirror.toml").write_text(CONFIG.format(budget=BUDGET))
    config = load(folder / "mirror.toml")
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        mirror.add_many([New(f"{site}/page/{i}") for i in range(PAGES)])
        while not set(mirror.status().elements) <= {"ok"}:
            mirror.run(time.time() + 2.0)
        return [element.key for element in mirror.elements()]


def _polled(folder: Path, work: object = None) -> tuple[float, dict[str, float]]:
    """Return how many polls a second the mirror makes while something is done, and what that gives."""
    config = load(folder / "mirror.toml")
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        first, began = mirror.polls(limit=1)[0].id, time.perf_counter()
        found = work() if callable(work) else time.sleep(SECONDS)
        took = time.perf_counter() - began
        return (mirror.polls(limit=1)[0].id - first) / took, found or {}


@contextmanager
def _process(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=environment) as process:  # noqa: S603
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30.0)


@contextmanager
def _listening(command: list[str], folder: Path) -> Iterator[int]:
    """Start a server; gives the port once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, *(word.replace("{port}", str(port)) for word in command)]
    with _process(words, folder) as process:
        for _ in range(200):
            assert process.poll() is None, f"{words} has ended"
            with socket.socket() as trial:
                if trial.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port


def bare(port: int, file: str) -> None:
    """Serve the bytes of a file, and nothing else."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    async def read(request: Request) -> Response:  # noqa: ARG001
        content = Path(file).read_bytes()  # noqa: ASYNC240  (as plain as can be)
        return Response(content, media_type="application/octet-stream")

    uvicorn.run(Starlette(routes=[Route("/", read)]), port=port, log_level="error", access_log=False)


def _load(port: int, path: str) -> dict[str, float]:
    """Ask for a page as fast as answers come, in a process of its own; return what was found."""
    code = f"from benchmarks import dashboard; dashboard.ask({port}, {path!r})"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def ask(port: int, path: str) -> None:
    """Print how fast answers come."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    took: list[float] = []
    failed = 0
    end = time.perf_counter() + SECONDS

    async def visit() -> None:
        nonlocal failed
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
        while time.perf_counter() < end:
            began = time.perf_counter()
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            took.append(time.perf_counter() - began)
            failed += b" 200 " not in head.split(b"\r\n")[0]
        writer.close()

    async def everybody() -> None:
        await asyncio.gather(*(visit() for _ in range(CONNECTIONS)))

    asyncio.run(everybody())
    times = 1e3 * np.array(took)
    found = {"rate": times.size / SECONDS, "median": float(np.median(times)), "failed": failed}
    print(json.dumps(found | {"p99": float(np.percentile(times, 99))}))
