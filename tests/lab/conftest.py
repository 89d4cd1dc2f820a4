"""Experiments are run once for all tests that look at them, in quick mode."""

import os
import pickle
from functools import cache

import pytest
from filelock import FileLock

from unstale.lab import Run, choose


@pytest.fixture(scope="session")
def findings(tmp_path_factory):
    """A function that gives the findings of an experiment by its name; processes of pytest share them."""
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own

    @cache
    def found(name):
        file = folder / f"{name}.pickle"
        with FileLock(folder / f"{name}.lock"):
            if not file.exists():
                (one,) = choose([name])
                temporary = own / f"{name}.pickle.tmp"
                temporary.write_bytes(pickle.dumps(one.run(Run(quick=True))))
                temporary.replace(file)
        return pickle.loads(file.read_bytes())  # noqa: S301  (our own)

    return found
