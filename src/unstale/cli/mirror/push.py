"""``unstale push``: take hints that others send (WebSub, webhooks, IndexNow)."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from urllib.parse import urlsplit

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import printable
from unstale.errors import InvalidInput

from .open import mirror_options, open_mirror

_PORT = 8322
_FILE = "push.json"
_EXAMPLES = """\b
Examples:
  unstale push --public https://push.example.org
  unstale push --public https://push.example.org --github-secret secret.txt --indexnow
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--public", required=True, metavar="URL", help="The address by which others reach this program."
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="On which address to listen.")
@click.option("--port", type=Count(0, 65535), default=_PORT, help="On which port; 0: any that is free.")
@click.option("--websub", "pattern", metavar="PATTERN", help="Subscribe to these elements.  [default: feeds]")
@click.option("--github-secret", metavar="FILE", help="Take webhooks of GitHub that are signed with this.")
@click.option("--gitlab-secret", metavar="FILE", help="Take webhooks of GitLab that show this.")
@click.option("--indexnow", is_flag=True, help="Take IndexNow, of hosts that show their key.")
@mirror_options
def push(
    *,
    public: str,
    host: str,
    port: int,
    pattern: str | None,
    github_secret: str | None,
    gitlab_secret: str | None,
    indexnow: bool,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Take hints that others send, until interrupted.

    Feeds that name a WebSub hub are subscribed to; GitHub, GitLab and sites with IndexNow can send, too. What
    they send becomes hints of the elements concerned, and how good hints are is learned. It polls nothing:
    unstale run does. Put a proxy with TLS before it, at the address that --public says.
    """
    address = urlsplit(public)
    if address.scheme not in {"http", "https"} or not address.hostname or address.query:
        raise InvalidInput(f"--public must be an address such as https://push.example.org; it is {public!r}")
    from unstale.contrib.push import PushReceiver, Secrets

    secrets = Secrets(
        _secret("--github-secret", github_secret), _secret("--gitlab-secret", gitlab_secret), indexnow
    )

    def tell(event: str) -> None:
        click.echo(json.dumps({"event": event}) if as_json else printable(event))

    def started(bound: int) -> None:
        click.echo(
            json.dumps({"port": bound}) if as_json else f"Taking hints on {host}:{bound} (Ctrl-C ends it)"
        )

    async def serve() -> None:
        stop = asyncio.Event()
        for one in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(one, stop.set)
        with open_mirror(mirror_file) as opened:
            file = opened.config.path.absolute().parent / _FILE
            receiver = PushReceiver(
                opened.mirror, file, public, pattern=pattern, secrets=secrets, on_event=tell
            )
            await receiver.run(host, port, stop, started=started)

    asyncio.run(serve())


def _secret(option: str, file: str | None) -> str | None:
    if file is None:
        return None
    try:
        text = Path(file).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"{option} {file!r}: cannot be read: {why}") from None
    if len(text) < 16:
        raise InvalidInput(f"{option} {file}: must hold at least 16 characters")
    return text
