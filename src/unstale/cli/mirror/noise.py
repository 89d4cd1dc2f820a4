"""``unstale noise``: parts of a page that change at each look, and how to ignore them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from unstale.cli.shared.printing import console, print_json, printable
from unstale.wording import plural, show_time

from .open import mirror_options, open_mirror

if TYPE_CHECKING:
    from unstale.mirror.reports.noise import NoiseReport

_TIMES_SHOWN = 10
_EXAMPLES = """\b
Examples:
  unstale noise https://example.org/news
  unstale noise https://example.org/news --accept
"""


@click.command(epilog=_EXAMPLES)
@click.argument("key")
@click.option("--accept", is_flag=True, help="Ignore these parts from now on.")
@mirror_options
def noise(*, key: str, accept: bool, mirror_file: str | None, as_json: bool) -> None:
    """Find parts of the page KEY that change at each look, such as dates, counters and advertisements.

    It looks at the versions that are kept, and says which changes would have counted without those parts.
    With --accept they are added to what is ignored of this element, which the store keeps; unstale add KEY
    --option ignore=... says it otherwise.
    """
    from unstale.mirror.json_values import as_json as json_of
    from unstale.mirror.reports.noise_of_element import ignoring, noise_of

    with open_mirror(mirror_file) as opened:
        mirror = opened.mirror
        element = mirror.find(key)
        report = noise_of(mirror.store, mirror.copies, element)
        if accept and report.ignore:
            mirror.add(element.key, source=element.source, ignore=ignoring(element.options, report.ignore))
    if as_json:
        print_json({"noise": json_of(report), "accepted": bool(accept and report.ignore)})
        return
    _show(report, key, accepted=accept)


def _show(report: NoiseReport, key: str, *, accepted: bool) -> None:
    out = console()
    for one in report.parts:
        out.print(
            f"changes at {one.changed} of {plural(one.looks, 'look')}, once within {one.shortest:,.0f} s: "
            f"{', '.join(printable(value) for value in one.examples)}",
            soft_wrap=True,
        )
        out.print(f"  ignore: {printable(one.pattern)}", soft_wrap=True)
    if not report.parts:
        out.print(f"In {plural(report.versions, 'version')} nothing is known to change at each look.")
    for one in report.undecided:
        out.print(
            f"changes often, but the looks were too far apart to tell: {printable(one.examples[0])}",
            soft_wrap=True,
        )
    if report.undecided:
        out.print(f"Three looks some seconds apart would tell: unstale hint {printable(key)}", soft_wrap=True)
    if report.parts:
        left = len(report.would_count)
        out.print(f"\nOf {plural(report.counted, 'change')} {left} would have counted.")
        for time in report.would_count[-_TIMES_SHOWN:]:
            out.print(f"  {show_time(time)}")
        out.print(
            "These parts are ignored from now on." if accepted else "unstale noise KEY --accept ignores them."
        )
