"""``unstale doctor``: whether all is well, and if not, what to do."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, printable, say
from unstale.wording import plural

from .open import mirror_options

if TYPE_CHECKING:
    from .doctor_checks import Check

_COLOURS = {"ok": "green", "warn": "yellow", "error": "red"}
_EXAMPLES = """\b
Examples:
  unstale doctor
  unstale doctor --sample 0
  unstale doctor --deep
  unstale doctor --json
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--sample",
    type=Count(0, 100),
    default=3,
    help="Poll so many elements, each of another group, to see whether sources can be reached.",
)
@click.option(
    "--deep",
    is_flag=True,
    help="Compare all latest copies with their digests. The next poll fetches damaged ones again.",
)
@mirror_options
def doctor(*, sample: int, deep: bool, mirror_file: str | None, as_json: bool) -> int:
    """Check the configuration, the store, the copies, the disk, the clock, the budget and the sources.

    Each line says what is well, what is not, and what to do. The exit code is 1 if there is an error. The
    mirror does not record what the sample finds.
    """
    from .doctor_checks import check_mirror

    checks = check_mirror(mirror_file, sample, deep=deep)
    worst: Counter[str] = Counter(check.level for check in checks)
    if as_json:
        print_json(
            {
                "errors": worst["error"],
                "warnings": worst["warn"],
                "checks": [asdict(check) for check in checks],
            }
        )
    else:
        _print(checks, worst)
    return 1 if worst["error"] else 0


def _print(checks: list[Check], worst: Counter[str]) -> None:
    import textwrap

    from rich.text import Text

    out = console()
    margin = max(len(check.subject) for check in checks)
    indent = 7 + margin + 2
    room = max(min(out.width, 100) - indent, 30)
    for check in checks:
        text = printable(f"{check.found}; {check.todo}" if check.todo else check.found)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        line = Text(f"{check.level:5}", style=_COLOURS[check.level])
        line.append(f"  {check.subject:{margin}}  ", style="default")
        line.append(f"\n{' ' * indent}".join(lines), style="default")
        out.print(line, soft_wrap=True)
    if worst["error"] or worst["warn"]:
        say(out, f"{plural(worst['error'], 'error')}, {plural(worst['warn'], 'warning')}.")
    else:
        say(out, "All is well.")
