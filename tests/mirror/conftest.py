"""Which tests of the mirror need the machine for themselves."""

from pathlib import Path

import pytest

REAL_TIME = ("kills/", "proofs/test_faults.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark what measures the real time of several processes: it needs the machine for itself."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.path.relative_to(here).as_posix().startswith(REAL_TIME):
            item.add_marker(pytest.mark.long)
