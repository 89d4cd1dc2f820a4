"""Running experiments, one here or many in other processes, and drawing their figures there as well."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from time import perf_counter

from .catalogue import choose, explained
from .drawing import pictures
from .experiment import Experiment, Findings, Run
from .processes import KILLED, workers


@dataclass(frozen=True, eq=False)
class Done:
    """An experiment that has run: its findings, or why it failed."""

    experiment: Experiment
    findings: Findings = field(default_factory=lambda: Findings([], [], []))
    """Empty if it failed."""
    pictures: dict[str, bytes] = field(default_factory=dict)
    """Its figure as svg and as png, if it has one."""
    seconds: float = 0.0
    """How long it took."""
    failure: str = ""
    """What went wrong, in one line."""

    @property
    def agrees(self) -> bool:
        """Whether it ran, and each claim is reproduced, explained or excused."""
        return not self.failure and self.findings.agrees


_Came = tuple[Findings, dict[str, bytes], float, str]
"""What another process sends back: all of `Done` but the experiment, which does not travel."""


def usual_jobs() -> int:
    """Return how many experiments run at a time, unless told otherwise."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 4)


def carry_out(
    experiments: Sequence[Experiment],
    run: Run,
    *,
    jobs: int = 1,
    advance: Callable[[float], None] = lambda _: None,
) -> Iterator[Done]:
    """Run experiments, the longest first, and give each as it is done; one that fails stops no other.

    ``advance`` is called with how many more seconds of work, as experiments state them, are done.

    >>> [one.agrees for one in carry_out(choose(["cho-table-2"]), Run(quick=True))]
    [True]
    """
    order = sorted(experiments, key=lambda one: -one.seconds)
    if min(jobs, len(order)) > 1:
        yield from _elsewhere(order, run, jobs, advance)
        return
    for one in order:
        yield Done(one, *_here(one, run, advance))


def _here(one: Experiment, run: Run, advance: Callable[[float], None]) -> _Came:
    reached = 0.0

    def tell(share: float) -> None:
        nonlocal reached
        advance((min(share, 1.0) - reached) * one.seconds)
        reached = min(share, 1.0)

    begun = perf_counter()
    findings, drawn, failure = Findings([], [], []), {}, ""
    try:
        findings = one.run(replace(run, advance=tell))
        drawn = pictures(one, findings.panels)
    except (Exception, SystemExit) as error:
        if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):  # compiled code hides it so
            raise
        findings, failure = Findings([], [], []), explained(error, one.file)
    tell(1.0)
    return findings, drawn, perf_counter() - begun, failure


def _elsewhere(
    order: Sequence[Experiment], run: Run, jobs: int, advance: Callable[[float], None]
) -> Iterator[Done]:
    plain = replace(run, advance=_ignore)
    with workers(min(jobs, len(order))) as pool:
        waiting: dict[Future[_Came], Experiment] = {
            pool.submit(_by_name, one.name, one.file, plain): one for one in order
        }
        for future in as_completed(waiting):
            one = waiting[future]
            try:
                done = Done(one, *future.result())
            except BrokenProcessPool:
                done = Done(one, failure=f"its process {KILLED}")
            except Exception as error:  # noqa: BLE001  (read in vain there, or what it found cannot travel)
                done = Done(one, failure=explained(error, one.file))
            advance(one.seconds)
            yield done


def _ignore(_: float) -> None:
    """Do nothing: the progress bar is in another process."""


def _by_name(name: str, file: str | None, run: Run) -> _Came:
    """Run an experiment; functions do not travel between processes, but names do."""
    one = next(one for one in choose([file or name]) if one.name == name)
    return _here(one, run, _ignore)
