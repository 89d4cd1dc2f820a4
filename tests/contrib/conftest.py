"""Adapters run against the real thing, in an environment of its own (``make adapters``)."""

import re
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from fetcher.conftest import serving

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules
from unstale.mirror.config.file import load

HOWTO = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```(\w+) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def adapter(name, module):
    """Return the folder of programs of an environment that has a package, or skip the test."""
    place = Path(sys.prefix) / "adapters" / name / "bin"
    if not place.is_dir():
        pytest.skip(f"{name} is not installed: make adapters ADAPTERS={name}")
    found = subprocess.run([place / "python", "-c", f"import {module}"], capture_output=True, check=False)  # noqa: S603
    if found.returncode:
        pytest.skip(f"{module} cannot be imported there: make adapters ADAPTERS={name}")
    return place


def write_blocks(page, folder, **replaced):
    """Write the files that a page shows, with some texts replaced."""
    for _, name, content in BLOCK.findall((HOWTO / page).read_text()):
        text = content
        for old, new in replaced.values():
            text = text.replace(old, new)
        (folder / name).write_text(text)


@contextmanager
def running_mirror(folder, more=""):
    """Run and serve the mirror of a folder, in threads; gives the mirror and its address."""
    file = folder / "mirror.toml"
    file.write_text(file.read_text() + more)
    config = load(file)
    with (
        Mirror(config.store, settings=config.settings, copies=config.copies) as mirror,
        serving(config.store, config.settings, AccessRules()) as address,
    ):
        thread = threading.Thread(target=mirror.run, daemon=True)
        thread.start()
        try:
            yield mirror, address
        finally:
            mirror.stop()
            thread.join(30)


def until(is_true, seconds=120.0):
    """Wait until something is true, on a machine of any speed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := is_true():
            return found
        time.sleep(0.05)
    pytest.fail(f"it is not so within {seconds:g} seconds")
