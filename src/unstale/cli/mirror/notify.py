"""``unstale notify``: who is told of changes, what waits for them, and whether messages arrive."""

from __future__ import annotations

import asyncio
from dataclasses import asdict

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, printable
from unstale.errors import InvalidInput, Trouble
from unstale.wording import plural, show_time

from .open import Opened, mirror_options, open_mirror

_EXAMPLES = """\b
Examples:
  unstale notify
  unstale notify --test
  unstale notify --test --only 2
"""


@click.command(epilog=_EXAMPLES)
@click.option("--test", is_flag=True, help="Send a test message to each.")
@click.option("--only", type=Count(1), metavar="N", help="Not all, but this one of the list.")
@mirror_options
def notify(*, test: bool, only: int | None, mirror_file: str | None, as_json: bool) -> None:
    """Show who is told of changes and alarms, and what waits for them.

    They are those of [[notify]] in mirror.toml. A service that refuses messages loses none: they wait in the
    store until it takes them. With --test each gets a message now, whether or not the mirror runs.
    """
    with open_mirror(mirror_file) as opened:
        if not opened.config.settings.notify:
            raise InvalidInput(
                f"nobody is told: {opened.config.path} has no [[notify]]; docs/how-to/be-told-of-changes.md "
                "has examples"
            )
        if test:
            _test(opened, only, as_json=as_json)
        else:
            _list(opened, only, as_json=as_json)


def _list(opened: Opened, only: int | None, *, as_json: bool) -> None:
    from unstale.mirror.json_values import as_json as json_of
    from unstale.mirror.notify.report import recipient_status

    found = recipient_status(opened.config.settings.notify, opened.mirror.store)
    found = [one for one in found if only in {None, one.number}]
    if as_json:
        print_json({"recipients": json_of(found)})
        return
    out = console()
    for one in found:
        waiting = f"{plural(one.waiting, 'message')} waiting" if one.waiting else "nothing waits"
        last = f"last told {show_time(one.last)}" if one.last == one.last else "never told so far"
        out.print(f"{one.number}. {printable(one.name)}, of {printable(one.match)}: {waiting}, {last}")
        if one.trouble:
            out.print(f"   since {show_time(one.since)} it takes none: {printable(one.trouble)}")


def _test(opened: Opened, only: int | None, *, as_json: bool) -> None:
    from unstale.mirror.notify.report import send_test

    done = asyncio.run(send_test(opened.config.settings.notify, opened.mirror.clock.now(), only))
    if not done:
        raise InvalidInput(f"--only must be the number of one in the list; there is no {only}")
    if as_json:
        print_json({"tests": [asdict(one) for one in done]})
    else:
        for one in done:
            what = f"not taken: {printable(one.trouble)}" if one.trouble else "taken"
            console().print(f"{one.number}. {printable(one.name)}: {what}")
    failed = [one for one in done if one.trouble]
    if failed:
        raise Trouble(f"{len(failed)} of {plural(len(done), 'test message')} did not arrive")
