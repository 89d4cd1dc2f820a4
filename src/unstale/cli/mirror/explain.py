"""``unstale explain``: why an element is polled when it is, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, print_table, printable, say
from unstale.cli.shared.progress import told_of_compilation
from unstale.quantities import show_duration, show_number, show_share
from unstale.wording import distance, plural, show_price, show_rate, show_rate_interval, show_size, show_time

from .open import Opened, mirror_options, open_having
from .report import print_pairs

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.mirror.reports.explain import Explanation
    from unstale.mirror.settings import Settings

_EXAMPLES = """\b
Examples:
  unstale explain https://example.org/
  unstale explain https://example.org/ --polls 50
  unstale explain https://example.org/ --json
"""
_STATES = {
    "new": "not polled yet",
    "ok": "",
    "gone": "it is gone; the last copy stays",
    "failing": "polls of it fail",
    "refused": "the mirror must not poll it",
    "dropped": "the mirror dropped its copy, since there was no room",
    "removed": "removed: the mirror polls it no more",
    "paused": "paused: the mirror polls it again after unstale resume",
    "archived": "archived, since it was gone for long: unstale resume polls it again",
}
_LEAST_BELIEVED = 0.05
"""From which on it is said how far promises of a source are believed."""
_DOUBT_TOLD = 0.1
"""Probability that an element is hopeless, from which on the command says so."""
_MOST_TIMES_PRICE = 10.0
"""Beyond that, how many times the price a poll is worth says nothing to anybody."""
_NEVER_THERE = {"gone": "it is not there, and never was since it was added"}
"""The same of what has no copy."""


@click.command(epilog=_EXAMPLES)
@click.argument("key")
@click.option("--polls", type=Count(0), default=10, help="Show so many polls and versions, the latest first.")
@mirror_options
def explain(*, key: str, polls: int, mirror_file: str | None, as_json: bool) -> None:
    """Say why the mirror polls the element KEY when it does.

    It shows how often the element seems to change, what a poll would be worth now and what the price is, when
    the next poll comes and why then, and what the last polls saw. In JSON it is what GET
    /api/elements/NUMBER gives.
    """
    with open_having(mirror_file, key) as opened, told_of_compilation():
        got = opened.mirror.explain(key)
        if as_json:
            print_json(got.to_json(polls))
            return
    _print(console(), opened, got, polls)


def _print(out: Console, opened: Opened, got: Explanation, polls: int) -> None:
    element, now = got.element, opened.mirror.clock.now()
    out.print(printable(element.key), soft_wrap=True)
    out.print()
    told = (_NEVER_THERE if element.version is None else {}).get(element.state) or _STATES[element.state]
    detail = printable(element.detail) if not element.is_away else ""
    state = [("state", f"{told}: {detail}" if detail else told)] if told else []
    if not told and "; " in detail:  # more than the status of a response
        state = [("last poll said", detail)]
    print_pairs(
        out,
        [
            *state,
            ("source", f"{element.source}, in the group {printable(element.group)}"),
            *([("named by", printable(got.named_by))] if got.named_by else []),
            *([("turn", got.turn)] if got.turn else []),
            *([("moved", f"for good, to {printable(element.moved)}")] if element.moved else []),
            *_rate(got),
            *([("alike", printable(got.alike))] if got.alike else []),
            *([("rhythm", f"it changes {got.rhythm}")] if got.rhythm else []),
            *_promise(got, now),
            *_memory(got),
            ("copy", _copy(got, now)),
            ("weight", _weight(got)),
            *((name, printable(words)) for name, words in got.polled_for.items()),
            *_worth(got, opened.mirror.settings),
            ("next poll", _next(got, now)),
            *_limits(got),
        ],
    )  # fmt: skip
    if got.why:
        say(out, printable(got.why))
    _print_history(out, got, polls)
    if got.versions:
        say(out, f"See the copy with: unstale show{opened.again} {printable(element.key)}")


def _rate(got: Explanation) -> list[tuple[str, str]]:
    if not math.isfinite(got.rate):  # it was removed
        return []
    if not math.isfinite(got.element.last):
        return [("changes", "not known yet; the mirror takes it to be like the others")]
    between = show_rate_interval(got.rate, got.low, got.high)
    pairs = [("changes", f"about {show_rate(got.rate)} ({between}), with 90 % confidence")]
    if got.hopeless > _DOUBT_TOLD:
        share = show_share(got.hopeless)
        pairs.append(
            ("doubt", f"with probability {share}, it differs at every poll, so that polls do not help")
        )
    return pairs


def _promise(got: Explanation, now: float) -> list[tuple[str, str]]:
    """Return what the source promises, and how far that is believed."""
    if not math.isfinite(got.stays_until):
        return []
    how = (
        "the mirror does not believe"
        if got.promises_kept < _LEAST_BELIEVED
        else f"the mirror believes to {show_share(got.promises_kept)}"
    )
    return [("promised", f"to stay as it is until {distance(got.stays_until, now)}, which {how}")]


def _next(got: Explanation, now: float) -> str:
    if got.next_poll <= now and not got.element.is_away:
        return f"due now, if the mirror runs (since {show_time(got.next_poll)})"
    if math.isfinite(got.next_poll):
        return f"{distance(got.next_poll, now)} ({show_time(got.next_poll)})"
    return "none" if got.element.is_away else "none at this price"


def _memory(got: Explanation) -> list[tuple[str, str]]:
    if not (math.isfinite(got.half_life) and got.half_life > 0):
        return []
    return [("memory", f"polls of {show_duration(got.half_life)} ago count half")]


def _copy(got: Explanation, now: float) -> str:
    if got.element.version is None:
        return "none yet" if not got.element.is_away and got.element.state != "dropped" else "none"
    seen = f"polled {distance(got.element.last, now)}"
    return (
        f"{seen}; it is fresh with probability {show_share(got.fresh)}" if math.isfinite(got.fresh) else seen
    )


def _weight(got: Explanation) -> str:
    text = show_number(got.weight)
    if got.reads:
        text += f", with {plural(got.reads, 'read')} of its copy"
    if math.isfinite(got.element.size) and math.isfinite(got.size):
        text += f"; a poll moves {show_size(got.size)} on average"
    return text


def _worth(got: Explanation, settings: Settings) -> list[tuple[str, str]]:
    if (
        got.element.is_away
        or got.element.state == "dropped"
        or (got.element.version is None and got.element.state == "gone")
    ):
        return []
    if got.element.version is None:
        return [("worth", "there is no copy yet, so a poll is worth any price")]
    unit = settings.objective if settings.policy == "optimal" else settings.policy
    text = f"{show_price(got.worth, unit)} now; the price is {show_price(got.price, unit)}"
    if math.isfinite(got.worth) and math.isfinite(got.price) and got.price > 0:
        reached = got.worth / got.price
        text += (
            f", so it has reached {reached:.0%} of it"
            if reached < _MOST_TIMES_PRICE
            else ", which is far below it"
        )
    if got.hints:
        text += f"; {plural(got.hints, 'hint')} since the last poll"
    return [("worth", text)]


def _limits(got: Explanation) -> list[tuple[str, str]]:
    element, parts = got.element, []
    if math.isfinite(element.max_age):
        parts.append(f"a poll each {show_duration(element.max_age)} at least")
    if element.min_interval > 0:
        parts.append(f"a poll each {show_duration(element.min_interval)} at most")
    if element.jitter > 0:
        parts.append(f"intervals vary by {show_share(element.jitter)}")
    if element.windows:
        parts.append(f"only {element.windows}")
    return [("limits", "; ".join(parts))] if parts else []


def _print_history(out: Console, got: Explanation, polls: int) -> None:
    if got.polls and polls:
        out.print()
        rows = [
            (
                show_time(poll.time),
                poll.outcome + ("" if poll.planned else " (audit)"),
                show_duration(poll.seconds),
                show_size(poll.traffic),
                "" if poll.version is None else f"{poll.version}",
            )
            for poll in got.polls[:polls]
        ]
        print_table(out, ("poll", "outcome", "took", "moved", "version"), rows)
        failed = next((poll for poll in got.polls if poll.outcome in {"failed", "refused"}), None)
        if failed is not None and failed.detail:
            say(out, f"The last poll that failed, {show_time(failed.time)}: {printable(failed.detail)}")
