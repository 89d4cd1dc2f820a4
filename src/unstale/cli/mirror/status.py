"""``unstale status``: how fresh the copies are, what the budget went for, and what is neglected."""

from __future__ import annotations

import math
from itertools import islice
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, print_table, printable, say
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.quantities import show_duration, show_share
from unstale.wording import (
    distance,
    plural,
    show_amount,
    show_budget,
    show_first_copies,
    show_rate,
    show_reserve,
    show_size,
)

from .open import Opened, OpenedCells, mirror_options, open_any
from .report import print_item, print_pairs, show_interval, show_outcomes

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.mirror.reports.status import GroupStatus, Status, TargetFreshness

_GROUPS_SHOWN = 10
_DAY_SECONDS = 86400.0
_MOST_ELEMENTS = 20_000
"""That are looked at one by one."""
_ROUND_SECONDS = 600.0
"""If all elements of a group can be polled in this time, nobody complains of its spacing."""
_SPELLING = "look at how it is spelt, or take it out: unstale remove KEY"
_EXAMPLES = """\b
Examples:
  unstale status
  unstale status --top 30
  unstale status --json | jq .freshness
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--top", type=Count(0), default=_GROUPS_SHOWN, help="Show so many groups and neglected elements."
)
@mirror_options
def status(*, top: int, mirror_file: str | None, as_json: bool) -> None:
    """Say how fresh the copies are, how much of the budget the mirror has used, and what it neglects and why.

    In JSON, budgets, what is spent, and rates are per second; other times are in seconds; traffic and sizes
    are in bytes; moments are in UTC; what is not known is null. GET /api/status gives the same.
    """
    with open_any(mirror_file) as opened, told_of_compilation(), progress("reading the mirror"):
        got = opened.mirror.status()
        odd = [] if as_json or not top else _odd(opened, top)
    if as_json:
        print_json(got.to_json(top))
    else:
        _print(console(), opened, got, top, odd)


def _odd(opened: Opened | OpenedCells, top: int) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return elements of which a person should know: never there, or moved; of not too many."""
    never, moved = [], []
    for element in islice(opened.mirror.elements(), _MOST_ELEMENTS):
        if element.state == "gone" and element.version is None:
            todo = "remove it, or add where it went" if "redirects to" in element.detail else _SPELLING
            never.append((element.key, f"{element.detail or 'not there'}; {todo}"))
        if element.moved:
            moved.append((element.key, f"now at {element.moved}"))
    return [(name, rows[:top]) for name, rows in (("Never there", never), ("Moved for good", moved)) if rows]


def elements_of(got: Status) -> int:
    """Return how many elements there are, without those that were removed."""
    return sum(count for state, count in got.elements.items() if state != "removed")


def status_pairs(got: Status) -> list[tuple[str, str]]:
    """Return what can be said in a few lines."""
    freshness, first = got.freshness, got.first_copies
    pairs = []
    if first is not None:
        left = first.seconds if got.running else math.inf
        pairs.append(("first copies", show_first_copies(first.done, first.total, left)))
    seen = elements_of(got) - got.elements.get("new", 0) - got.elements.get("gone", 0)
    if seen:
        shown = show_interval(freshness.value, freshness.low, freshness.high)
        bought = f"; the plan predicts {show_share(got.predicted)}" if math.isfinite(got.predicted) else ""
        pairs.append(("fresh now", f"{shown}{bought}"))
        if math.isfinite(got.age):
            pairs.append(("mean age", show_duration(got.age)))
    if math.isfinite(got.perceived):
        users = "".join(f"; {show_share(one.freshness)} for {one.user}" for one in got.readers[:3])
        pairs.append(("fresh as read", f"{show_share(got.perceived)} of what is read{users}"))
    pairs += [
        (one.name, f"{show_share(one.freshness)} fresh, {_made(one.needs)} {plural(one.parts, 'element')}")
        for one in got.composed
    ]
    pairs += [(f"target {one.rule}", _target(one)) for one in got.targets]
    if gone := got.elements.get("gone", 0):
        pairs.append(("gone", f"{plural(gone, 'element')}, not counted as stale; no copy is deleted"))
    pairs += [*_replicas(got), *_room(got)]
    pairs.append(("budget", _used(got)))
    if got.reserve is not None:
        kept = show_reserve(got.reserve.level, got.reserve.polls, got.reserve.traffic)
        pairs.append(("in reserve", f"{kept}: {_spent_when(got)}"))
    pairs.append(("polls", f"{show_outcomes(got.polls)}, in the last 24 hours"))
    if got.overdue:
        pairs.append(("overdue", f"the mirror should have polled {plural(got.overdue, 'element')} by now"))
    if got.audit is not None:
        audit = got.audit
        judged = "agrees" if audit.agrees else "does not agree"
        found = show_interval(audit.true, audit.low, audit.high)
        told = f"{found} were fresh, {show_share(audit.predicted)} expected"
        pairs.append(("last audit", f"{distance(audit.time, got.now)}: {told}; that {judged}"))
    return pairs


def _target(one: TargetFreshness) -> str:
    """Return what a rule promises, and what comes of it."""
    now = f"{show_share(one.freshness)} fresh now, " if math.isfinite(one.freshness) else ""
    gets = f"with {show_amount(one.gets)}"
    return f"{show_share(one.target)} promised; {now}{show_share(one.expected)} expected {gets}"


def _made(needs: str) -> str:
    """Return how something is made from several elements."""
    return "made from" if needs == "all" else "as fresh as the freshest of"


def _replicas(got: Status) -> list[tuple[str, str]]:
    """Return with whom the mirror takes turns."""
    told = [
        f"number {one.number} polled {distance(one.last, got.now)}"
        if math.isfinite(one.last)
        else f"number {one.number} has not polled yet"
        for one in got.replicas
    ]
    return (
        [("replicas", f"it takes turns with {plural(len(told), 'other')}: {', '.join(told)}")] if told else []
    )


def _room(got: Status) -> list[tuple[str, str]]:
    """Return how much room copies take, if they may have only so much."""
    if got.room is None:
        return []
    away = f"; {plural(got.room.dropped, 'element')} dropped" if got.room.dropped else ""
    return [("room", f"{show_size(got.room.taken)} of {show_size(got.room.space)} taken by copies{away}")]


def _spent_when(got: Status) -> str:
    """Return what the reserve is for."""
    return "for first copies, then for busy times" if got.first_copies else "for busy times"


def _used(got: Status) -> str:
    """Return how much of the budget was used in the last day, or since there are elements.

    A share of it is told of a whole day only: a minute says nothing of a day.
    """
    polls, moved = sum(got.polls.values()), sum(group.traffic for group in got.groups)
    if got.span > 0.99 * _DAY_SECONDS:
        parts = [_part(plural(polls, "poll"), got.spent, got.budget, None)]
        parts.append(_part(show_size(moved), got.traffic, None, got.byte_budget))
        text = f"{', '.join(parts)}; in the last 24 hours"
    else:
        lately = show_duration(float(round(got.span))).removeprefix("1 ")
        text = f"{show_budget(got.budget, got.byte_budget)}; {plural(polls, 'poll')}, {show_size(moved)} "
        text += f"in the last {lately}"
    if got.instead_of is not None:
        said = show_budget(got.instead_of.budget, got.instead_of.byte_budget)
        text += (
            f". You set this budget later; that of mirror.toml ({said}) counts again when you change it there"
        )
    return text


def _part(shown: str, used: float, polls: float | None, moved: float | None) -> str:
    budget = polls or moved
    return shown if budget is None else f"{shown} ({used / budget:.0%} of {show_budget(polls, moved)})"


def limited(group: GroupStatus, now: float) -> str:
    """Return what holds up a group, in words; empty if nothing does."""
    if group.blocked_until > now:
        why = f": {printable(group.why)}" if group.why else ""
        return f"waits, next poll {distance(group.blocked_until, now)}{why}"
    return f"one poll each {show_duration(group.spacing)}" if group.spacing > 1 else ""


def bottlenecks(got: Status) -> list[str]:
    """Return which groups cannot be given their share of the budget, as their spacing forbids it."""
    count = elements_of(got)
    if got.budget is None or not count:
        return []
    return [
        f"{printable(group.name)} has {plural(group.elements, 'element')} and at most "
        f"{show_rate(group.fastest, 'poll')} (spacing {show_duration(group.spacing)}): that limits "
        "their freshness"
        for group in got.groups
        if group.fastest < 0.5 * got.budget * group.elements / count
        and group.elements > _ROUND_SECONDS * group.fastest
    ]


def _print(
    out: Console,
    opened: Opened | OpenedCells,
    got: Status,
    top: int,
    odd: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    count = elements_of(got)
    out.print(f"{opened.config.path}: {plural(count, 'element')}{_states(got)}")
    out.print()
    if not count:
        todo = f"Add something: unstale add{opened.again} https://example.org/"
        out.print(f"There is nothing to poll yet. {todo}", soft_wrap=True)
        return
    print_pairs(out, status_pairs(got))
    if len(got.groups) > 1 or any(limited(group, got.now) for group in got.groups):
        _print_groups(out, got, top)
    _print_bottlenecks(out, got, top)
    if top:
        _print_neglected(out, opened, got, top)
    for name, rows in [*odd, ("Trouble", [(line, "") for line in got.trouble[: max(top, 1)]])]:
        _print_list(out, name, rows)
    if not got.running:
        from unstale.mirror.config.file import WATCHED

        verb = "watch" if opened.config.path.parent.name == WATCHED else "run"
        say(out, f"Nobody is polling. Start with: unstale {verb}{opened.again}")
    elif got.starting:
        say(out, "A runner is starting: it reads the elements and plans its first polls.")
    elif got.neglected:
        say(out, f"Why an element is polled when it is: unstale explain{opened.again} KEY")


def _print_bottlenecks(out: Console, got: Status, top: int) -> None:
    told, most = bottlenecks(got), max(top, 1)
    for line in told[:most]:
        say(out, f"{line}; see [[group]] in mirror.toml.")
    if len(told) > most:
        out.print(f"The same holds for {plural(len(told) - most, 'group')} more.")


def _print_list(out: Console, name: str, rows: list[tuple[str, str]]) -> None:
    if rows:
        out.print(f"\n{name}:")
    for key, why in rows:
        print_item(out, printable(key))
        if why:
            print_item(out, printable(why), 4)


def _print_neglected(out: Console, opened: Opened | OpenedCells, got: Status, top: int) -> None:
    if not got.neglected:
        return
    out.print("\nNeglected:")
    for one in got.neglected[:top]:
        since = f"last answer {distance(one.last, got.now)}" if math.isfinite(one.last) else "no answer yet"
        print_item(out, printable(one.key))
        print_item(out, f"{since}: {printable(one.why)}", 4)
    if len(got.neglected) > top:
        out.print(f"  and {len(got.neglected) - top:,} more: unstale status{opened.again} --top 100")


def _states(got: Status) -> str:
    parts = [
        f"{count:,} {name}"
        for state, name in (
            ("new", "not polled yet"),
            ("gone", "gone"),
            ("failing", "failing"),
            ("refused", "refused"),
            ("dropped", "dropped for want of room"),
            ("paused", "paused"),
            ("archived", "archived"),
        )
        if (count := got.elements.get(state, 0))
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _print_groups(out: Console, got: Status, top: int) -> None:
    groups = sorted(got.groups, key=lambda group: (-bool(limited(group, got.now)), -group.elements))
    out.print()
    rows = [
        (
            printable(group.name),
            f"{group.elements:,}",
            f"{group.polls:,}",
            f"{group.failed:,}",
            show_size(group.traffic),
            show_share(group.freshness) if math.isfinite(group.freshness) else "unknown",
        )
        for group in groups[:top]
    ]
    if rows:
        print_table(out, ("group", "elements", "polls", "failed", "traffic", "fresh"), rows, shorten=True)
    for group in groups[:top]:
        if told := limited(group, got.now):
            print_item(out, f"{printable(group.name)}: {told}")
    if len(groups) > top:
        out.print(f"  and {plural(len(groups) - top, 'group')} more")
