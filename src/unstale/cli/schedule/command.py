"""``unstale schedule``: the times of all polls for a while."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from unstale.cli.shared.options import (
    DURATION,
    SHARE,
    check_out,
    out_option,
    policy_option,
    problem_options,
    seed_option,
)
from unstale.cli.shared.printing import console, print_json
from unstale.cli.shared.problem import LoadedProblem, load
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.cli.shared.when import MOMENT, check_jitter, window_clock
from unstale.errors import InvalidInput
from unstale.tables import Keys, Write, as_list, bad_file, open_rows, taken, write_csv

if TYPE_CHECKING:
    from unstale.planning import Plan
    from unstale.schedule import Polls, Stream, WindowClock

_POLLS_PER_BLOCK = 1 << 18
"""Polls that are drawn at once, unless there are more elements."""
_EXAMPLES = """\b
Examples:
  unstale schedule pages.csv --budget 1000/day --for 1day
  unstale schedule pages.csv --budget 1000/day --for 1week --start 2026-01-05 --out polls.parquet
  unstale schedule pages.csv --budget 1000/day --for 1day --jitter 5% --out polls.csv
  unstale schedule pages.csv --budget 1000/day --for 1week --start 2026-01-05 \\
      --window "mon-fri 22:00-06:00 Europe/Berlin" --out polls.csv
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=True, budget_required=True)
@policy_option
@click.option("--for", "length", type=DURATION, required=True, help="How long: 1day.")
@click.option(
    "--start",
    type=MOMENT,
    help="When, in UTC unless it says otherwise: 2026-01-31T12:00Z. Polls then have timestamps.",
)
@click.option("--jitter", type=SHARE, help="Vary intervals by up to: 5%.")
@click.option("--even", is_flag=True, help="Space all polls evenly, in the sequence of their order.")
@click.option("--edf", is_flag=True, help="Space all polls evenly, the earliest deadline first.")
@click.option("--window", metavar="WHEN", help='Poll only then: "mon-fri 22:00-06:00 Europe/Berlin".')
@seed_option
@out_option("the polls here")
def schedule(
    *,
    file: str,
    as_json: bool,
    policy: str,
    length: float,
    start: datetime | None,
    jitter: float | None,
    even: bool,
    edf: bool,
    window: str | None,
    seed: int,
    out: str | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Work out when to poll each element of FILE.

    FILE is as for unstale plan. The answer has the columns time and key, in the order of time: seconds from
    the beginning, or timestamps with --start. It goes to --out; without that, a terminal shows the first
    polls, and a pipe gets all of them as CSV.
    """
    from .report import ScheduleCounts, ScheduleReport, as_scheduled, in_milliseconds, times_of

    _check(options["order"], start, length, jitter, window, even=even, edf=edf)
    check_out(out, file)
    problem = load(file, **options)
    if policy in {"proportional", "square-root"} and not problem.elements.rates.any():
        raise bad_file(file, f"no element changes, so there is nothing for --policy {policy} to go by")
    task = problem.task
    counted = ScheduleCounts()
    to_pipe = out is None and not as_json and not sys.stdout.isatty()
    with told_of_compilation():
        with progress(f"planning {len(problem.elements):,} elements"):
            got = problem.plan(policy)
            clock = None if window is None else window_clock(window, start, task.unit)
            stream = _stream(problem, got, clock, jitter or 0.0, seed, even=even, edf=edf)
        with (
            progress(f"writing {out}" if out else "scheduling", length) as advance,
            _writer(out, start, to_pipe=to_pipe) as write,
        ):
            keys = _at_hand(problem.elements.keys, listed=not (out or "").lower().endswith(".parquet"))
            for polls, passed in _blocks(stream, clock, length / task.unit.seconds):
                milliseconds = in_milliseconds(polls.times * task.unit.seconds)
                times, named = times_of(milliseconds, start), taken(keys, polls.elements)
                counted.add(milliseconds)
                counted.show(times, named)
                write(times, named)
                advance(passed * task.unit.seconds)
        if to_pipe:
            sys.stdout.flush()
        with progress("working out the freshness"):
            known = not (even or edf)
            expected = as_scheduled(problem, got, clock, jitter or 0.0) if known else None
    cause = " and ".join([*["the windows"] * (clock is not None), *["jitter"] * (jitter is not None)])
    done = ScheduleReport(
        task, policy, length, start, counted, got.freshness, expected, cause[:1].upper() + cause[1:], out
    )
    if as_json:
        print_json(done.as_json())
    else:
        done.print(console(stderr=to_pipe), with_polls=out is None and not to_pipe)


def _check(
    order: str,
    start: datetime | None,
    length: float,
    jitter: float | None,
    window: str | None,
    *,
    even: bool,
    edf: bool,
) -> None:
    """Refuse options that do not go together."""
    alone = {"--even": even, "--jitter": jitter is not None, "--window": window is not None}
    given = [name for name, there in alone.items() if there]
    if order != "fixed":
        given.append(f"--order {order}")
    if edf and given:
        raise InvalidInput(f"--edf cannot be combined with {given[0]}; it has a sequence of its own")
    if even and window is not None:
        raise InvalidInput("--even cannot be combined with --window; it spaces polls over all time")
    check_jitter(order, jitter)
    if start is not None and length > (datetime.max.replace(tzinfo=UTC) - start).total_seconds():
        raise InvalidInput("--for must not go beyond the year 9999")
    if window is not None and start is None and not window.strip().startswith("every"):
        raise InvalidInput(
            "--window needs --start, the moment at which the schedule begins: --start 2026-01-31"
        )


def _stream(
    problem: LoadedProblem,
    plan: Plan,
    clock: WindowClock | None,
    jitter: float,
    seed: int,
    *,
    even: bool,
    edf: bool,
) -> Stream:
    if edf:
        from unstale.schedule.earliest_deadline import EarliestDeadline

        return EarliestDeadline(plan.frequencies)
    from unstale.schedule import Schedule

    order = problem.task.order
    return Schedule(plan.frequencies, order=order, jitter=jitter, even=even, windows=clock, seed=seed)


def _blocks(stream: Stream, clock: WindowClock | None, length: float) -> Iterator[tuple[Polls, float]]:
    """Draw all polls, in blocks that fit into memory, each with the time that passes in it."""
    import numpy as np

    while (now := stream.now) < length:
        end = length
        if stream.rate > 0:
            work = max(len(stream), _POLLS_PER_BLOCK) / stream.rate
            if clock is None:
                end = now + work
            elif (reached := float(clock.worked(now)) + work) < clock.worked(length):
                end = max(float(clock.when(reached)), float(np.nextafter(now, np.inf)))  # all polls at once
        end = min(end, length)
        yield stream.until(end), end - now


@contextmanager
def _writer(out: str | None, start: datetime | None, *, to_pipe: bool) -> Iterator[Write]:
    """Yield a function that writes times and keys to the file or to standard output."""
    if out is not None:
        with open_rows(out, {"time": "" if start else "second", "key": ""}) as write:
            yield write
    else:
        yield write_csv(sys.stdout, ["time", "key"]) if to_pipe else lambda *_: None


def _at_hand(keys: Keys, *, listed: bool) -> Any:  # noqa: ANN401  (keys, to be taken one by one)
    """Return keys in the form from which those of many polls are quickly taken."""
    column: Any = keys
    if not hasattr(column, "combine_chunks"):
        return keys
    return as_list(keys) if listed else column.combine_chunks()
