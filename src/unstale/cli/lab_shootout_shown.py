"""What a shoot-out came to, on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unstale.quantities import show_duration, show_number, show_share

from .screen import console, print_table, say, show_share_with_error, show_time_with_error

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.lab.shootout import Case, Measured, Row, Shootout

__all__ = ["print_shootout"]

_DAY = 86400.0
_NOTES = {
    "proportional": "proportional knows how often each element changes over the whole history.",
    "aduana": "aduana polls in proportion to the changes that it has seen per time, plus one.",
    "estimated-optimal": "estimated-optimal takes the likeliest rates for the true ones.",
    "learning": "learning is the policy for real work: it starts knowing nothing.",
    "optimal": "optimal knows the rates, and takes changes to come at random times.",
    "optimal-law": "optimal-law knows all gaps between changes of each element, but not their order.",
}


def print_shootout(played: Shootout, plot: str | None, out: str | None) -> None:
    """Print a table for each objective, how to read it, and where learning is behind."""
    screen = console()
    seeds = f"{played.seeds} seed{'s' if played.seeds != 1 else ''}"
    skipped = show_duration(played.skipped * _DAY)
    say(
        screen,
        f"{played.history}: {played.elements:,} elements, {played.changes:,} changes in "
        f"{show_duration(played.days * _DAY)} ({show_number(played.changes / played.days)} a day), {seeds}"
        + (f"; the first {skipped} are played, but not measured" if played.skipped else ""),
        apart=False,
    )
    for objective in dict.fromkeys(case.objective for case in played.cases):
        screen.print(f"\nPlanning for {objective}", style="bold")
        _print_cases(screen, played, [case for case in played.cases if case.objective == objective])
    for sentence in _reading(played):
        say(screen, sentence)
    for sentence in _verdict(played):
        say(screen, sentence)
    if out is not None:
        say(screen, f"{out} has all rows; times are in days, and polls per day.")
    if plot is not None:
        say(screen, f"{plot} has the picture.")


def _print_cases(screen: Console, played: Shootout, cases: list[Case]) -> None:
    columns = ["policy", "polls/day", "fresh"]
    if played.weighted:
        columns.append("fresh,\nby weight")
    columns += ["mean age", "ahead of uniform", "polls for\nthe same"]
    rows: list[list[str]] = []
    for case in cases:
        rows.append([_title(case), *[""] * (len(columns) - 1)])
        rows += [
            ["  " + cell if at == 0 else cell for at, cell in enumerate(_cells(played, case, row))]
            for row in case.rows
        ]
    print_table(screen, columns, rows)


def _title(case: Case) -> str:
    if case.rule is None:
        return f"{_polls(case)}:"
    return f"as many as {case.rule}:"


def _polls(case: Case) -> str:
    return f"{show_number(case.budget)} polls/day"


def _cells(played: Shootout, case: Case, row: Row) -> list[str]:
    lead = row.ahead.get("uniform")
    cells = [row.policy, show_number(row.polls), _share(row.freshness)]
    if played.weighted:
        cells.append(_share(row.perceived))
    return [*cells, _time(row.age), _lead(case, lead) if lead else "", _needed(case, row)]


def _share(measured: Measured) -> str:
    return show_share_with_error(measured.value, measured.margin)


def _time(measured: Measured) -> str:
    return show_time_with_error(measured.value * _DAY, measured.margin * _DAY)


def _lead(case: Case, lead: Measured) -> str:
    return f"{'-' if lead.value < 0 else '+'}{_distance(case, lead)}"


def _distance(case: Case, lead: Measured) -> str:
    """Return a lead without its sign: points, or time if age is the objective."""
    if case.objective == "age":
        return show_time_with_error(abs(lead.value) * _DAY, lead.margin * _DAY)
    return show_share_with_error(abs(lead.value), lead.margin).replace("%", " points")


def _needed(case: Case, row: Row) -> str:
    share = row.needed.polls / case[case.reference].polls
    return f"{row.needed.bound} {share:.0%}".strip()


def _reading(played: Shootout) -> list[str]:
    weights = (
        " (by weight: as seen by who asks for elements as often as they weigh)" if played.weighted else ""
    )
    names = {row.policy for case in played.cases for row in case.rows}
    fresh = (
        f"fresh: the share of time for which copies are up to date{weights}. ±: half of a 90% interval, of "
        "time and seeds together. Leads are known better than what they are between, as all policies met the "
        "same changes; if policies plan for age, leads are in age."
    )
    same = (
        "polls for the same: what a policy needs to do as well as the rule, or as uniform where polls are "
        "given; between the budgets played, and < or > beyond them."
    )
    sentences = [fresh, same, " ".join(note for name, note in _NOTES.items() if name in names)]
    sentences += played.notes
    if unequal := {
        f"{name} (for {case.objective}, {_where(case)}: {show_share(case[name].polls / case.budget)})"
        for case in played.cases
        for name in case.unequal
    }:
        sentences.append(f"Polls are not equal: {', '.join(sorted(unequal))} of the others'.")
    return sentences


def _where(case: Case) -> str:
    return f"with {_polls(case)}" if case.rule is None else f"with as many polls as {case.rule}"


def _verdict(played: Shootout) -> list[str]:
    """Say where learning is not ahead, and by how much."""
    cases = [case for case in played.cases if "learning" in case]
    if not cases:
        return []
    contests = sum(len(case["learning"].ahead) for case in cases)
    behind = played.behind()
    if not behind:
        return [
            f"learning is ahead of uniform, and of the rules with as many polls, in all {contests} contests."
        ]
    lines = [
        f"behind {other} by {_distance(case, lead)} {_where(case)}, planning for {case.objective}"
        + (" (which may be chance)" if abs(lead.value) <= lead.margin else "")
        for case, other, lead in behind
    ]
    return [f"learning is behind in {len(behind)} of {contests} contests: {'; '.join(lines)}."]
