"""``unstale init``: a new mirror.toml."""

from __future__ import annotations

from pathlib import Path

import click

from unstale import quantities
from unstale.cli.shared.printing import console, print_json, say
from unstale.errors import InvalidInput

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
    help="Where all is kept: a file (SQLite), or postgresql://...",
)
@click.option("--budget", default="1000/day", metavar="POLLS/TIME", help="Polls that may be made.")
@click.option("--contact", metavar="ADDRESS", help="Where owners of sites can reach you: mail, or a page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def init(*, folder: str, store: str, budget: str, contact: str | None, as_json: bool) -> None:
    """Begin a mirror: write a mirror.toml into FOLDER.

    It has every key with what it means, and can be used as it is. A mirror.toml that is there already stays
    as it is.
    """
    from unstale.mirror.config import values
    from unstale.mirror.config.file import FILE, load, without_password
    from unstale.mirror.config.template import write_template

    quantities.frequency("--budget", budget)
    values.poll_flow("--budget", budget)
    values.secret("--store", store)
    if "://" in store and not store.startswith("postgres"):
        raise InvalidInput("--store must be a file or begin with postgresql://")
    if contact is not None:
        values.contact("--contact", contact)
    path = Path(folder) / FILE
    write_template(path, store=store, budget=budget, contact=contact)
    config = load(path)
    if as_json:
        print_json({"mirror": str(path), "store": without_password(config.store), "budget": budget})
        return
    out = console()
    out.print(
        f"Wrote {path}: a budget of {quantities.frequency('--budget', budget)}, kept in {_shown(store)}."
    )
    if contact is None:
        say(out, "Add a contact to it: owners of sites that you poll can reach you then.")
    out.print("\nNext:")
    if Path(folder).resolve() != Path.cwd():
        out.print(f"  cd {folder}")
    out.print("  unstale add https://example.org/    what to keep a copy of")
    out.print("  unstale run                         poll, learn, and keep the copies fresh")
    out.print("  unstale status                      how fresh they are")
    out.print("  unstale serve                       the same on pages in a browser, with curves")


def _shown(store: str) -> str:
    from unstale.mirror.config.file import without_password

    return without_password(store)
