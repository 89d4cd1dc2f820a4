"""The results of a shoot-out, on the screen."""

from __future__ import annotations

from math import isfinite

from rich.console import Console

from unstale.cli.shared.printing import console, print_table, say, show_share_with_error, show_time_with_error
from unstale.lab.shootout import Case, Measured, Row, Shootout
from unstale.quantities import show_duration, show_number, show_share
from unstale.wording import plural

_DAY_SECONDS = 86400.0
_SHORT_UNITS = {"years": "y", "days": "d", "hours": "h", "minutes": "min", "seconds": "s"}
"""Units, as there is little room in a table."""
_NOTES = {
    "proportional": "proportional knows how often each element changes over the whole history.",
    "aduana": "aduana polls in proportion to the changes that it has seen per time, plus one.",
    "estimated-optimal": "estimated-optimal takes the likeliest rates for the true ones.",
    "lambda-crawl": "lambda-crawl is LambdaCrawl with learned rates (NeurIPS 2019): another cost.",
    "explore-commit": "explore-commit (AAAI 2020) learns for a while, plans once, and knows the horizon.",
    "mirror-sync": "mirror-sync (ICML 2020) has no model: it tries shorter intervals and follows the slope.",
    "greedy-ncis": "greedy-ncis (WWW 2025) polls what is worth most, and a hint counts like time.",
    "learning": "learning is the policy for real work: it starts knowing nothing.",
    "learning-by-the-clock": "learning-by-the-clock learns hours, too, and may save a day of its budget.",
    "optimal": "optimal knows the rates, and takes changes to come at random times.",
    "optimal-law": "optimal-law knows all gaps between changes of each element, but not their order.",
}


def print_shootout(played: Shootout, plot: str | None, out: str | None) -> None:
    """Print a table for each objective, how to read it, and where learning is behind."""
    screen = console()
    seeds = plural(played.seeds, "seed")
    lasted = show_duration(played.days * _DAY_SECONDS)
    skipped = show_duration(played.skipped * _DAY_SECONDS)
    say(
        screen,
        f"{played.history}: {played.elements:,} elements, {played.changes:,} changes in "
        f"{lasted} ({show_number(played.changes / played.days)} a day), {seeds}"
        + (f"; the first {skipped} are played, but not measured" if played.skipped else "")
        + ("; polls learn when the last change was" if played.told else "")
        + (
            f"; hints come of {show_share(played.hints.recall)} of the changes, and "
            f"{show_share(played.hints.precision)} of them are true"
            if played.hints
            else ""
        )
        + (f"; {played.later:,} elements that came later are left out" if played.later else ""),
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
    for case in cases:
        fresh = "fresh,\nby weight" if played.weighted else "fresh"
        lead = "ahead of\nuniform" + ("" if case.objective == "age" else "\n(points)")
        title = _polls(case) + (f",\n{case.rule}" if case.rule else "")
        columns = [title, fresh, "mean age", lead, "polls for\nthe same"]
        screen.print()
        print_table(screen, columns, [_cells(case, row) for row in case.rows])


def _polls(case: Case) -> str:
    return f"{show_number(case.budget)} polls/day"


def _cells(case: Case, row: Row) -> list[str]:
    lead = row.ahead.get("uniform")
    return [
        row.policy,
        _share(row.perceived),
        _time(row.age),
        _shortened(_lead(case, lead)).removesuffix(" points") if lead else "",
        _needed(case, row),
    ]


def _share(measured: Measured) -> str:
    return show_share_with_error(measured.value, measured.margin)


def _time(measured: Measured) -> str:
    return _shortened(show_time_with_error(measured.value * _DAY_SECONDS, measured.margin * _DAY_SECONDS))


def _shortened(shown: str) -> str:
    amount, _, unit = shown.rpartition(" ")
    return f"{amount} {_SHORT_UNITS.get(unit, unit)}" if amount else shown


def _lead(case: Case, lead: Measured) -> str:
    if not lead.value:
        return "0"
    return f"{'-' if lead.value < 0 else '+'}{_distance(case, lead)}"


def _distance(case: Case, lead: Measured) -> str:
    """Return a lead without its sign: points, or time if age is the objective."""
    if case.objective == "age":
        return show_time_with_error(abs(lead.value) * _DAY_SECONDS, lead.margin * _DAY_SECONDS)
    return show_share_with_error(abs(lead.value), lead.margin).replace("%", " points")


def _needed(case: Case, row: Row) -> str:
    share = row.needed.polls / case[case.reference].polls
    return f"{row.needed.bound} {share:.0%}".strip() if isfinite(share) else "never"


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
    """Say where learning is ahead, where it is behind, and where the difference is too small to tell."""
    contests = played.contests()
    if not contests:
        return []
    ahead = [one for one in contests if one[2].value > one[2].margin]
    behind = [one for one in contests if one[2].value < -one[2].margin]
    close = [one for one in contests if abs(one[2].value) <= one[2].margin]
    counts = f"ahead in {len(ahead)}, behind in {len(behind)}, and too close to tell in {len(close)}"
    lines = [
        f"In {len(contests)} contests with uniform, and with rules at their polls, learning is {counts}."
    ]
    if behind:
        lines.append(f"Behind: {'; '.join(_contest(*one) for one in behind)}.")
    if worse := [one for one in close if one[2].value < 0]:
        lines.append(f"Perhaps behind: {'; '.join(_contest(*one) for one in worse)}.")
    return lines


def _contest(case: Case, other: str, lead: Measured) -> str:
    return f"{other}, by {_distance(case, lead)} {_where(case)}, planning for {case.objective}"
