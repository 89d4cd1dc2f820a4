"""Processes that run mirrors to be killed; they take some time to start, so that tests share them."""

from contextlib import ExitStack

import pytest

from .killing import Worker


@pytest.fixture(scope="session")
def processes():
    with ExitStack() as stack:
        yield stack, []


@pytest.fixture
def workers(processes):
    """Return a worker for each job; what they run ends with the test."""
    stack, ready = processes
    taken = []

    def employ(*jobs):
        while len(ready) < len(jobs):
            ready.append(stack.enter_context(Worker()))
        taken.extend(worker.employ(job) for worker, job in zip(ready, jobs, strict=False))
        return taken

    yield employ
    for worker in taken:
        worker.dismiss()
