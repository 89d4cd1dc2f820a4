"""``make setup``: install with pip, and say in a few lines what is downloaded and how much of it.

Alone, pip is either silent for minutes or writes hundreds of lines. This runs ``pip install`` with the
arguments that it gets, tells of each large package and now and then of all, and ends with the code of pip.
"""
# ruff: noqa: INP001  (a program, not a package)

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from tempfile import TemporaryFile

_LARGE_MB = 5.0
"""A package of this size has a line of its own."""
_LINE_SECONDS = 3.0
"""Smaller ones, and those of which pip reads what they need, are told of together, so often at most."""
_FEW_PACKAGES = 20
"""That are unpacked in a moment."""
_UNITS_MB = {"bytes": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}
_DOWNLOAD = re.compile(r"\s*Downloading (\S+?)(?<!\.metadata) \(([\d.]+) (bytes|kB|MB|GB)\)")


def told(lines: Iterable[str], clock: Callable[[], float] = time.monotonic) -> Iterable[str]:
    """Return what to say of the lines of pip, while they come."""
    began = last = clock()
    read, count, total = 0, 0, 0.0
    for line in lines:
        if found := _DOWNLOAD.match(line):
            size = float(found[2]) * _UNITS_MB[found[3]]
            count, total = count + 1, total + size
            if size >= _LARGE_MB:
                name, version = found[1].split("-")[:2]
                yield f"downloading {name} {version}, {size:.0f} MB ({total:.0f} MB so far)"
                last = clock()
            elif clock() >= last + _LINE_SECONDS:
                yield f"downloading smaller packages ({total:.0f} MB so far)"
                last = clock()
        elif line.startswith("Collecting "):
            read += 1
            if clock() >= last + _LINE_SECONDS:
                yield f"reading which packages are needed ({read} so far)"
                last = clock()
        elif line.startswith("Installing collected packages:"):
            packages = line.count(",") + 1
            got = f"{count} of them downloaded, {total:.0f} MB" if count else "none had to be downloaded"
            long = ", about half a minute" if packages > _FEW_PACKAGES else ""
            yield f"unpacking {packages} package{'s' * (packages > 1)} ({got}){long}"
        elif line.startswith("Successfully installed"):
            yield f"installed, in {clock() - began:.0f} s"


def main() -> int:
    """Run pip."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--progress-bar", "off"]
    with (
        TemporaryFile() as complaints,  # most are of how pip is set up, and matter only if it fails
        subprocess.Popen(  # noqa: S603  (pip, with the arguments of the Makefile)
            [*command, *sys.argv[1:]],
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            errors="replace",
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        ) as process,
    ):
        assert process.stdout is not None  # noqa: S101  (it is a pipe)
        for line in told(process.stdout):
            print(f"setup: {line}", flush=True)  # noqa: T201
        if process.wait():
            complaints.seek(0)
            sys.stderr.write(complaints.read().decode("utf-8", "replace"))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
