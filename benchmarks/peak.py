"""``python -m benchmarks.peak COMMAND``: run a command and tell how much memory it took at most.

On Linux a child begins with the peak of its parent. So commands are run from this small process.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

GIB = 2**30


class Run(NamedTuple):
    seconds: float
    peak: int
    """Bytes that were resident at most."""
    output: str


def run(*command: str) -> Run:
    """Run a command that must succeed; the directory is that of the repository."""
    done = subprocess.run(  # noqa: S603  (our own command)
        [sys.executable, "-m", "benchmarks.peak", *command],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=Path(__file__).parents[1],
    )
    return Run(*json.loads(done.stdout))


if __name__ == "__main__":
    start = time.perf_counter()
    child = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603  (likewise)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    print(json.dumps([seconds, peak, child.stdout]))
