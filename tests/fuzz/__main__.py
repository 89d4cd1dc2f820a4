"""Fuzz all targets, one after the other, each in a process of its own.

    python -m tests.fuzz [--seconds 60] [--runs N] [--corpus FOLDER] [NAME ...]

Each target gets small inputs for nine tenths of the time. Large ones, which are small ones repeated, get the
rest: each takes as long as thousands of small ones. An input may take 5 seconds and 500 MB. What breaks a
target is kept in tests/fuzz/finds: mend it, and move the input into the corpus, whose inputs are tests.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
PROCESSOR_SECONDS_EACH_INPUT = 5.0
STUCK_SECONDS = 120
"""After which an input is taken for one that never ends, however busy the machine is."""
MEGABYTES_EACH_INPUT = 500
SMALL = 4096
"""Bytes of most inputs: the first byte makes them large."""
LARGE_SHARE = 0.1
"""Of the time, for large inputs."""


INSTRUMENTED = [
    "unstale.mirror.sources", "unstale.mirror.exchange", "unstale.mirror.config", "unstale.quantities",
    "unstale.mirror.differences", "unstale.mirror.engine.hint_file", "unstale.dashboard",
    "unstale.tables.files", "unstale.tables.schema", "unstale.tables.table_reader",
    "unstale.tables.logs.access_logs", "unstale.tables.logs.lines", "unstale.tables.logs.records", "protego",
    "feedparser", "cssselect", "w3lib", "warcio", "unstale.contrib.push", "unstale.mirror.cells.cursor",
    "yaml",
]  # fmt: skip
"""Modules whose branches guide the search."""


def fuzz(name: str, size: str, arguments: list[str]) -> None:
    """Fuzz one target in this process, with ``small`` or ``large`` inputs; it does not return."""
    import atheris

    import unstale.planning
    import unstale.policy
    import unstale.tables.logs.compiled.lines  # noqa: F401  (Numba cannot compile what is instrumented)

    with atheris.instrument_imports(include=INSTRUMENTED):
        from tests.fuzz.targets import TARGETS, folder

        TARGETS[name](b"\0")
        TARGETS[name](b"\0first")
    os.chdir(folder())
    target = TARGETS[name]

    def timed(data: bytes) -> None:
        began = time.process_time()
        target(data, repeat=size == "large")
        taken = time.process_time() - began
        assert taken <= PROCESSOR_SECONDS_EACH_INPUT, f"it took {taken:.1f} s"

    atheris.Setup([f"fuzz {name}", *arguments], timed)
    atheris.Fuzz()


def fuzzed(name: str, size: str, grown: Path, seconds: int, runs: int) -> tuple[int, str]:
    """Fuzz one target in a child; return how many inputs it read, and what it said if one broke it."""
    finds = HERE / "finds"
    for one in (finds, grown):
        one.mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={seconds}", f"-runs={runs}", f"-timeout={STUCK_SECONDS}",
        f"-rss_limit_mb={MEGABYTES_EACH_INPUT}", f"-max_len={SMALL}", "-print_final_stats=1",
        f"-artifact_prefix={finds}/{name}-", "-verbosity=1", str(grown), str(HERE / "corpus" / name),
    ]  # fmt: skip
    command = [sys.executable, "-m", "tests.fuzz", "--one", name, size, *options]
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    told = re.search(r"number_of_executed_units: (\d+)", ended.stderr)
    last = "\n".join(
        ended.stdout.splitlines()[-30:] + ended.stderr.splitlines()[-10:]
    )  # the error comes first
    return int(told[1]) if told else 0, last if ended.returncode else ""


def main() -> int:
    """Fuzz what is asked for; return 1 if anything broke."""
    from tests.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument("--runs", type=int, default=-1, help="inputs of each target, at most")
    parser.add_argument("--corpus", type=Path, help="folder in which new inputs are kept, by target")
    asked = parser.parse_args()
    broken, total = [], 0
    for name in asked.names or TARGETS:
        with tempfile.TemporaryDirectory() as made:
            grown = asked.corpus / name if asked.corpus else Path(made)
            shares = {"small": 1.0 - LARGE_SHARE, "large": LARGE_SHARE}
            ended = {
                size: fuzzed(name, size, grown, max(round(share * asked.seconds), 1), asked.runs)
                for size, share in shares.items()
            }
        count = sum(inputs for inputs, _ in ended.values())
        total += count
        told = "".join(said for _, said in ended.values())
        print(f"{name:16} {count:>9,} inputs{'  BROKEN' if told else ''}", flush=True)
        if told:
            broken.append(name)
            print(told, flush=True)
    print(f"{total:,} inputs; {len(broken)} of {len(asked.names or TARGETS)} targets broke: {broken}")
    return bool(broken)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3], sys.argv[4:])
    sys.exit(main())
