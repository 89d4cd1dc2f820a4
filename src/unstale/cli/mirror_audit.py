"""``unstale audit``: whether it is true what the mirror says of its freshness."""

from __future__ import annotations

import click

from unstale.quantities import show_share

from .mirror_open import mirror_options, open_mirror
from .mirror_shown import in_json, plural, print_pairs, show_interval
from .progress import progress, told_of_compilation
from .screen import console, print_json, say

__all__ = ["audit"]

_EXAMPLES = """\b
Examples:
  unstale audit
  unstale audit --sample 1000
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    metavar="N",
    help="Poll so many elements.",
)
@mirror_options
def audit(*, sample: int, mirror_file: str | None, as_json: bool) -> None:
    """Poll a random sample outside the plan, and compare predicted with true freshness.

    Limits of groups hold as always; so it takes its time. The answer is kept, and unstale status shows it.
    """
    with open_mirror(mirror_file) as opened, told_of_compilation():
        done = 0
        with progress(f"polling {plural(sample, 'element')}", sample) as advance:

            def tell(polled: int, _of: int) -> None:
                nonlocal done
                advance(polled - done)
                done = polled

            got = opened.mirror.audit(sample, on_progress=tell)
    if as_json:
        answer = in_json(got)
        assert isinstance(answer, dict)  # noqa: S101  (a record)
        print_json(answer)
        return
    out = console()
    failed = f", {got.failed:,} of which gave no answer" if got.failed else ""
    out.print(f"Polled {plural(got.sample, 'element')} at random{failed}.\n")
    print_pairs(
        out,
        [
            ("fresh, as predicted", show_share(got.predicted)),
            ("fresh, as found", show_interval(got.true, got.low, got.high)),
        ],
    )
    if got.agrees:
        say(out, "The prediction lies within the interval: what unstale status says can be believed.")
    else:
        say(
            out,
            "The prediction lies outside of the interval. If that stays so, elements do not change as they "
            "are taken to: look at some with unstale explain KEY.",
        )
