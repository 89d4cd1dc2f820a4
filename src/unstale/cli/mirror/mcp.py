"""``unstale mcp``: a mirror for agents, over standard input and output."""

from __future__ import annotations

import click

from unstale.errors import need

from .open import mirror_options, open_mirror

_EXAMPLES = """\b
Examples:
  unstale mcp
  unstale mcp --allow edit
"""


@click.command(epilog=_EXAMPLES)
@click.option("--allow", type=click.Choice(["edit"]), help="Let agents add elements and give hints.")
@mirror_options
def mcp(*, allow: str | None, mirror_file: str | None, as_json: bool) -> None:  # noqa: ARG001  (it speaks JSON)
    """Answer agents (MCP) over standard input and output, until that ends.

    They search, read copies with how fresh these are, and ask for changes, explanations and other budgets.
    They change nothing without --allow edit; with it they add public pages and give hints. It polls nothing:
    unstale run does.
    """
    need("mcp", extra="mcp", needed_for="agents")
    from unstale.contrib.mcp_server import mirror_server

    with open_mirror(mirror_file) as opened:
        mirror_server(opened.mirror, edit=allow == "edit").run()
