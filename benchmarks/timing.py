"""Best times of several runs, which are those least disturbed by others, and what is required of them."""

import math
import time
from collections.abc import Callable

Job = Callable[[], object]
Clock = Callable[[], float]


def best(job: Job, repeat: int = 5, clock: Clock = time.perf_counter) -> float:
    """Seconds of the fastest of ``repeat`` runs."""
    return side_by_side(job, repeat=repeat, clock=clock)[0]


def side_by_side(*jobs: Job, repeat: int = 5, clock: Clock = time.perf_counter) -> list[float]:
    """Seconds of the fastest run of each job; they take turns, so that a disturbance meets them alike.

    By `time.process_time` they are seconds of the processor, in which nobody waits for others.
    """
    times = [math.inf] * len(jobs)
    for _ in range(repeat):
        for i, job in enumerate(jobs):
            start = clock()
            job()
            times[i] = min(times[i], clock() - start)
    return times


def required(figure: float, most: float, unit: str) -> str:
    """What is required, what was found, and whether that is enough.

    >>> required(6.94, 10, "x")
    '<= 10 x: 6.9 x, held'
    """
    verdict = "held" if figure <= most else "NOT HELD"
    return f"<= {most:g} {unit}: {figure:.1f} {unit}, {verdict}"


def at_least(figure: float, least: float, unit: str) -> str:
    """What is required, what was found, and whether that is enough.

    >>> at_least(34.2, 20, "x")
    '>= 20 x: 34.2 x, held'
    """
    verdict = "held" if figure >= least else "NOT HELD"
    return f">= {least:g} {unit}: {figure:.3g} {unit}, {verdict}"


class Goals:
    """What is required of the figures of a benchmark, and which of them were not enough."""

    def __init__(self) -> None:
        self.asked = 0
        self.missed: list[str] = []

    def required(self, name: str, figure: float, most: float, unit: str) -> str:
        """Return `required`, and remember it."""
        self.asked += 1
        said = required(figure, most, unit)
        if not figure <= most:
            self.missed.append(f"{name} {said}")
        return said

    def __str__(self) -> str:
        held = f"{self.asked - len(self.missed)} of {self.asked} goals held"
        return "\n  ".join([held, *self.missed])
