"""``unstale init``: a new mirror.toml."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click
from click.core import ParameterSource

from unstale import quantities
from unstale.cli.shared.printing import console, print_json, say
from unstale.errors import InvalidInput

_TYPED = ParameterSource.COMMANDLINE
_EXAMPLES = """\b
Examples:
  unstale init
  unstale init docs-mirror --budget 5000/day --contact you@example.org
  unstale init --store postgresql://unstale@db.example.org/mirror
"""


@click.command(epilog=_EXAMPLES)
@click.argument("folder", default=".")
@click.option(
    "--store",
    default="mirror.db",
    metavar="URL",
    help="Where the mirror keeps its data: a file (SQLite), or postgresql://...",
)
@click.option("--budget", default="1000/day", metavar="POLLS/TIME", help="Polls that the mirror may make.")
@click.option("--contact", metavar="ADDRESS", help="Where owners of sites can reach you: mail, or a page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def init(*, folder: str, store: str, budget: str, contact: str | None, as_json: bool) -> None:
    """Begin a mirror: write a mirror.toml into FOLDER.

    The file has every setting and what it means; you can use it as it is. If there is a mirror.toml already,
    unstale init changes nothing. On a terminal, and without options, it asks for the budget and the contact;
    Enter takes what it proposes.
    """
    from unstale.mirror.config import values
    from unstale.mirror.config.file import FILE, load, without_password
    from unstale.mirror.config.template import write_template

    path = Path(folder) / FILE
    context = click.get_current_context()
    said = {name for name in ("store", "budget", "contact") if context.get_parameter_source(name) == _TYPED}
    if not (said or as_json or path.exists()) and sys.stdin.isatty() and sys.stdout.isatty():
        budget, contact = _ask(budget)
    quantities.frequency("--budget", budget)
    values.poll_flow("--budget", budget)
    values.secret("--store", store)
    if "://" in store and not store.startswith("postgres"):
        raise InvalidInput("--store must be a file or begin with postgresql://")
    if contact is not None:
        values.contact("--contact", contact)
    write_template(path, store=store, budget=budget, contact=contact)
    config = load(path)
    if as_json:
        print_json({"mirror": str(path), "store": without_password(config.store), "budget": budget})
        return
    out = console()
    out.print(
        f"Wrote {path}. The mirror may make {quantities.frequency('--budget', budget)}, and keeps its data "
        f"in {_shown(store)}.",
        soft_wrap=True,
    )
    if contact is None:
        say(out, f"Add a contact to {path}, so that owners of sites can reach you.")
    out.print("\nNext:")
    if Path(folder).resolve() != Path.cwd():
        out.print(f"  cd {folder}")
    out.print("  unstale add https://example.org/    what to keep a copy of")
    out.print("  unstale run                         poll, learn, and keep the copies fresh")
    out.print("  unstale status                      how fresh they are")
    out.print("  unstale serve                       the same on pages in a browser, with curves")


def _ask(budget: str) -> tuple[str, str | None]:
    """Ask what a newcomer should have thought of; Enter takes what is proposed."""
    from unstale.mirror.config import values

    def polls(text: str) -> str:
        values.poll_flow("the budget", text)
        return text

    def reachable(text: str) -> str:
        return values.contact("the contact", text) if text else text

    click.echo("Two questions. Press Enter to take what is in brackets; you can change both later.")
    asked = click.prompt(
        "How many polls (checks of a page) may the mirror make?",
        default=budget,
        value_proc=_told_again(polls),
    )
    contact = click.prompt(
        "Where can owners of sites reach you (a mail address or a page; empty: nowhere)?",
        default="",
        show_default=False,
        value_proc=_told_again(reachable),
    )
    return asked, contact or None


def _told_again(read: Callable[[str], str]) -> Callable[[str], str]:
    """Let a mistake be told and asked again."""

    def checked(text: str) -> str:
        try:
            return read(text.strip())
        except InvalidInput as error:
            raise click.UsageError(str(error)) from None

    return checked


def _shown(store: str) -> str:
    from unstale.mirror.config.file import without_password

    return without_password(store)
