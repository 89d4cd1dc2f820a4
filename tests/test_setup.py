"""``make setup`` says what it downloads, and fails as pip does."""

import importlib.util
import subprocess
import sys
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[1]
LINES = """\
Obtaining file:///home/me/unstale
Collecting click>=8 (from unstale==0.1.0)
  Downloading click-8.5.1-py3-none-any.whl.metadata (2.6 kB)
Collecting pyarrow>=18 (from unstale==0.1.0)
  Downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (3.1 kB)
  Using cached six-1.17.0-py2.py3-none-any.whl (11 kB)
Downloading click-8.5.1-py3-none-any.whl (126 kB)
Downloading pyarrow-26.0.1-cp311-cp311-manylinux_2_28_x86_64.whl (55.0 MB)
Installing collected packages: six, click, pyarrow, unstale
Successfully installed click-8.5.1 pyarrow-26.0.1 six-1.17.0 unstale-0.1.0
"""


def installer():
    spec = importlib.util.spec_from_file_location("install", ROOT / ".ci" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_tells_of_large_packages_and_of_all():
    quick = list(installer().told(LINES.splitlines(), lambda: 0.0))
    assert quick == [
        "downloading pyarrow 26.0.1, 55 MB (55 MB so far)",
        "unpacking 4 packages (2 of them downloaded, 55 MB)",
        "installed, in 0 s",
    ]


def test_it_is_not_silent_when_pip_is_slow():
    times = count(step=4.0)
    slow = list(installer().told(LINES.splitlines(), lambda: next(times)))
    assert "reading which packages are needed (1 so far)" in slow
    assert "downloading smaller packages (0 MB so far)" in slow


def test_what_pip_has_in_its_cache_is_not_downloaded():
    lines = [line for line in LINES.splitlines() if not line.startswith("Downloading")]
    assert "unpacking 4 packages (none had to be downloaded)" in list(installer().told(lines, lambda: 0.0))


def test_it_fails_as_pip_does(tmp_path):
    done = subprocess.run(  # noqa: S603
        [sys.executable, ROOT / ".ci" / "install.py", "--no-index", "no-such-package-of-unstale"],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "no-such-package-of-unstale" in done.stderr
