"""Best times of several runs, which are those least disturbed by others, and what is required of them."""

import math
import time
from collections.abc import Callable

Job = Callable[[], object]


def best(job: Job, repeat: int = 5) -> float:
    """Seconds of the fastest of ``repeat`` runs."""
    return side_by_side(job, repeat=repeat)[0]


def side_by_side(*jobs: Job, repeat: int = 5) -> list[float]:
    """Seconds of the fastest run of each job; they take turns, so that a disturbance meets them alike."""
    times = [math.inf] * len(jobs)
    for _ in range(repeat):
        for i, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            times[i] = min(times[i], time.perf_counter() - start)
    return times


def required(figure: float, most: float, unit: str) -> str:
    """What is required, what was found, and whether that is enough.

    >>> required(6.94, 10, "x")
    '<= 10 x: 6.9 x, holds'
    """
    verdict = "holds" if figure <= most else "DOES NOT HOLD"
    return f"<= {most:g} {unit}: {figure:.1f} {unit}, {verdict}"


def at_least(figure: float, least: float, unit: str) -> str:
    """What is required, what was found, and whether that is enough.

    >>> at_least(34.2, 20, "x")
    '>= 20 x: 34.2 x, holds'
    """
    verdict = "holds" if figure >= least else "DOES NOT HOLD"
    return f">= {least:g} {unit}: {figure:.3g} {unit}, {verdict}"
