"""Best time of several runs, which is the one least disturbed by others."""

import time
from collections.abc import Callable


def best(job: Callable[[], object], repeat: int = 5) -> float:
    """Seconds of the fastest of ``repeat`` runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        job()
        times.append(time.perf_counter() - start)
    return min(times)
