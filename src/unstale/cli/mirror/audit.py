"""``unstale audit``: whether it is true what the mirror says of its freshness."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, say
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.quantities import show_duration, show_share
from unstale.wording import plural, show_budget

from .open import mirror_options, open_any
from .report import print_pairs, show_interval

if TYPE_CHECKING:
    from unstale.mirror.reports.status import Status

_SHORT_SECONDS = 10.0
"""Nobody minds waiting for so long."""
_EXAMPLES = """\b
Examples:
  unstale audit
  unstale audit --sample 1000
"""


@click.command(epilog=_EXAMPLES)
@click.option("--sample", type=Count(1), default=200, help="Poll so many elements.")
@mirror_options
def audit(*, sample: int, mirror_file: str | None, as_json: bool) -> None:
    """Poll a random sample outside the plan, and compare predicted with true freshness.

    The audit keeps to the budget and to the limits of groups. So it takes some time, and says at once how
    long. unstale status shows the last answer.
    """
    with open_any(mirror_file) as opened, told_of_compilation():
        if told := _duration(opened.mirror.status(), sample):
            click.echo(told, err=True)
        done = 0
        with progress(f"polling {plural(sample, 'element')}", sample) as advance:

            def tell(polled: int, _of: int) -> None:
                nonlocal done
                advance(polled - done)
                done = polled

            got = opened.mirror.audit(sample, on_progress=tell)
    if as_json:
        print_json(got.to_json())
        return
    out = console()
    failed = f", {got.failed:,} of which gave no answer" if got.failed else ""
    gone = f", {got.gone:,} of which {'is' if got.gone == 1 else 'are'} gone" if got.gone else ""
    out.print(f"Polled {plural(got.sample, 'element')} at random{gone}{failed}.\n")
    print_pairs(
        out,
        [
            ("fresh, as predicted", show_share(got.predicted)),
            ("fresh, as found", show_interval(got.true, got.low, got.high)),
        ],
    )
    if got.agrees:
        say(out, "The prediction lies within the interval: you can believe what unstale status says.")
    else:
        say(
            out,
            "The prediction lies outside of the interval. If that happens again and again, elements do not "
            "change as the mirror expects: look at some with unstale explain KEY.",
        )


def _duration(got: Status, sample: int) -> str:
    """Return how long it will take, in words; empty if not long."""
    count = sum(number for state, number in got.elements.items() if state != "removed")
    polls = min(sample, got.elements.get("ok", 0))
    rates = {show_budget(got.budget, None): got.budget or math.inf}
    made = sum(group.polls for group in got.groups)
    if got.byte_budget is not None and made:
        mean = max(sum(group.traffic for group in got.groups) / made, 1.0)
        rates[show_budget(None, got.byte_budget)] = got.byte_budget / mean
    beyond = 2.0 * polls * (1.0 - _in_reserve(got, polls))  # every second poll is not the audit's
    takes = {f" at {why}": beyond / rate for why, rate in rates.items()}
    for group in got.groups:  # each has its part of the sample
        part = 2.0 * polls * group.elements / count
        blocked = group.blocked_until - got.now if group.blocked_until > got.now else 0.0
        why = f" at the spacing of {group.name}"
        if blocked:
            why += f", which is not polled for {show_duration(blocked)}"
        takes[why] = blocked + part / group.fastest
    why, seconds = max(takes.items(), key=lambda one: one[1])
    if seconds <= _SHORT_SECONDS:
        return ""
    told = f"{plural(polls, 'poll')}{why}, with as many for others in between, will take up to"
    return f"{told} {show_duration(round(seconds))}; --sample N makes fewer."


def _in_reserve(got: Status, polls: int) -> float:
    """Return which share of the polls of an audit, and of those in between, is paid from the reserve."""
    if got.reserve is None:
        return 0.0
    made = sum(group.polls for group in got.groups)
    mean = max(sum(group.traffic for group in got.groups) / made, 1.0) if made else math.inf
    kept = [got.reserve.polls, got.reserve.traffic / mean]
    return min([1.0, *(one / max(2.0 * polls, 1.0) for one in kept if not math.isnan(one))])
