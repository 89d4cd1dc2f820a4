"""Simulated months commit thousands of times, and prove nothing about disks: they are kept in memory."""

import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")  # noqa: S108  (a folder in memory, where there is one)


@pytest.fixture
def tmp_path(tmp_path):
    if not MEMORY.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(prefix="unstale-", dir=MEMORY))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
