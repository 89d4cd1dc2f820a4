"""The program: its commands in the order in which a user needs them, and its exit codes."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress

import click

from unstale.errors import UnstaleError

from .estimate.command import estimate
from .lab.command import lab
from .mirror.audit import audit
from .mirror.backup import backup, restore
from .mirror.cells import cells
from .mirror.changes import changes, show
from .mirror.demo import demo
from .mirror.doctor import doctor
from .mirror.elements import add, hint, pause, remove, resume
from .mirror.exchange import export_command, import_command
from .mirror.explain import explain
from .mirror.init import init
from .mirror.mcp import mcp
from .mirror.noise import noise
from .mirror.notify import notify
from .mirror.push import push
from .mirror.run import run
from .mirror.serve import serve
from .mirror.status import status
from .mirror.watch import watch
from .plan.compare import compare
from .plan.plan import plan
from .plan.whatif import whatif
from .profile.command import profile
from .schedule.command import schedule
from .shared.process import (
    discard_output,
    interrupted_in_compiled_code,
    no_warnings,
    open_streams,
    tidy_when_stopped,
)
from .simulate.command import simulate
from .warm_up import warm_up

_PARTS = {
    "To see what it does": (demo,),
    "The mirror": (
        watch, init, add, run, serve, status, explain, changes, show, notify, noise, hint, pause, resume,
        remove, push, mcp, import_command, export_command, backup, restore, doctor, audit,
        cells,
    ),
    "Planning": (plan, compare, whatif, schedule, simulate, estimate, profile, lab),
    "The machine": (warm_up,),
}  # fmt: skip


class _Parts(click.Group):
    """A group whose help lists commands by what they are for, in the order in which a user needs them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands."""
        longest = max(map(len, self.commands))
        limit = formatter.width - 6 - longest
        for part, commands in _PARTS.items():
            with formatter.section(part):
                formatter.write_dl(
                    [
                        (f"{command.name or '':{longest}}", command.get_short_help_str(limit))
                        for command in commands
                    ]
                )


@click.group(cls=_Parts, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.version_option(package_name="unstale")
def cli() -> None:
    """Keep local copies of other people's data as fresh as a polling budget allows."""


for part in _PARTS.values():
    for command in part:
        cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; an error is one line on stderr and exit code 2."""
    open_streams()
    if arguments is None:
        no_warnings()
    try:
        with tidy_when_stopped(), interrupted_in_compiled_code():
            return cli.main(arguments, prog_name="unstale", standalone_mode=False) or 0
    except click.UsageError as error:
        context = error.ctx
        if context and error.message == context.get_help():  # no command at all
            click.echo(error.message, err=True)
            return 2
        message = error.format_message().rstrip(".")
        if context:
            more = f"ee {context.command_path} --help"
            message += f" S{more}" if message.endswith("?") else f"; s{more}"
    except (click.ClickException, UnstaleError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
    except click.Abort:
        return 130  # interrupted
    except OSError as error:
        if not error.filename:  # errors of files name them; an error without a name is of standard output
            discard_output()
        if error.errno == errno.EPIPE:  # the reader of our output has had enough
            return 0
        message = f"{error.filename or 'standard output'}: cannot be used: {error.strerror or error}"
    with suppress(OSError):  # standard error may be full, too
        click.echo(f"unstale: {' '.join(message.split())}", err=True)
    return 2
