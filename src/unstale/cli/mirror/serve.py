"""``unstale serve``: the dashboard, the read API and the metrics of a mirror."""

from __future__ import annotations

import ipaddress
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.errors import InvalidInput, need

from .open import configured, mirror_options

if TYPE_CHECKING:
    from unstale.dashboard.access_rules import AccessRules, ScopedToken
    from unstale.dashboard.server import Server
    from unstale.mirror.config.file import Config
    from unstale.mirror.mirror import Mirror

PORT = 8321
WEB_MODULES = ("fastapi", "jinja2", "prometheus_client", "python_multipart", "uvicorn")
"""What the dashboard needs."""
_ENDING_SECONDS, _END_SECONDS = 2.0, 10.0
"""For which a dashboard may go on with what it is doing when it is to end, and in which it has ended."""
_PATIENCE_SECONDS = 0.7
"""After which a browser gets a page that says that the one it asked for is being computed."""
_NICENESS = 5
"""By how much the server gives way to the runner of the mirror."""
_EXAMPLES = """\b
Examples:
  unstale serve
  unstale serve --port 9000
  unstale serve --host 0.0.0.0 --token-file token.txt
  curl http://127.0.0.1:8321/copies/https://example.org/
"""


@click.command(epilog=_EXAMPLES)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="On which address to listen.")
@click.option("--port", type=Count(0, 65535), default=PORT, help="On which port; 0: any that is free.")
@click.option("--token", metavar="T", help="What requests must show; the file is safer.")
@click.option(
    "--token-file",
    metavar="FILE",
    help="A file of tokens, one in a line; behind each, if it is not for everything: read, lease, edit.",
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A name that requests may call this server by, besides localhost; with a token, any.",
)
@click.option(
    "--urlfrontier",
    "frontier_port",
    type=Count(0, 65535),
    help="Also be a URLFrontier for crawlers (gRPC), on this port of loopback.",
)
@click.option(
    "--with-parent", is_flag=True, help="End when standard input does: for programs that start this one."
)
@mirror_options
def serve(
    *,
    host: str,
    port: int,
    token: str | None,
    token_file: str | None,
    names: tuple[str, ...],
    frontier_port: int | None,
    with_parent: bool,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Serve the dashboard of a mirror, its copies, an API and metrics, until interrupted.

    It polls nothing: the mirror is run by unstale run, in another process, or by run --serve. To that it
    leaves the processor, unless others fetch: they wait for its answers.

    Without a token it listens on this machine only. On any other address a token is demanded: browsers are
    asked for it, programs send the header Authorization: Bearer TOKEN.
    """
    if token is not None and token_file is not None:
        raise InvalidInput("--token cannot be combined with --token-file")
    for module in WEB_MODULES:
        need(module, extra="web", needed_for="the dashboard and the API")
    from unstale.dashboard.access_rules import AccessRules

    given = _tokens(token, token_file)
    secret = bool(given)
    with ExitStack() as stack, _listening(host, port, secret=secret) as listening:
        started: list[Server] = []
        if with_parent:  # which has opened the mirror, and shows the address at once
            _begin(listening, as_json=as_json)
            _follow(started)
        config = configured(mirror_file)
        from unstale.mirror.mirror import Mirror

        mirror = Mirror(config.store, settings=config.settings, copies=config.copies)
        server = _server(mirror, AccessRules(None, _hosts(host, names, secret=secret), given))
        frontier = stack.enter_context(_frontier(config, frontier_port))
        if frontier and not as_json:
            click.echo(f"URLFrontier on 127.0.0.1:{frontier}")
        if not with_parent:
            _begin(listening, as_json=as_json)
        if hasattr(os, "nice") and config.settings.fetch == "here":
            os.nice(_NICENESS)
        started.append(server)
        with suppress(KeyboardInterrupt):
            try:
                server.run(sockets=[listening])
            except SystemExit as end:
                if end.code != 128 + signal.SIGTERM:  # which is how it is meant to end
                    raise


def _tokens(token: str | None, file: str | None) -> tuple[ScopedToken, ...]:
    """Return the tokens that are given; none if none is needed."""
    from unstale.dashboard.access_rules import ScopedToken, read_tokens

    if token is not None:
        return (ScopedToken(token),)
    if file is None:
        return ()
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(f"--token-file {file!r}: cannot be read: {why}") from None
    return read_tokens(text, f"--token-file {file}")


@contextmanager
def _listening(host: str, port: int, *, secret: bool) -> Iterator[socket.socket]:
    """Listen, if that is allowed without a token."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise InvalidInput(f"--host {host!r}: is no address of this machine: {error}") from None
    family, kind, protocol, _, address = found[0]
    if not secret and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise InvalidInput(
            f"--host {host}: others can reach this address, so a token is needed: --token-file FILE; "
            "make one with: (umask 077; python3 -c 'import secrets; print(secrets.token_urlsafe())' > FILE)"
        )
    listening = socket.socket(family, kind, protocol)
    try:
        if os.name != "nt":  # there it would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(address)
        except OSError as error:
            raise InvalidInput(
                f"--host {host} --port {port}: cannot listen there: {error.strerror or error}; "
                "name another port, or 0 for any that is free"
            ) from None
        yield listening
    finally:
        listening.close()


def _hosts(host: str, names: tuple[str, ...], *, secret: bool) -> frozenset[str]:
    """Return by which names requests may call this server."""
    from unstale.dashboard.access_rules import ANY, LOOPBACK

    given = {f"[{name}]" if ":" in name and not name.startswith("[") else name for name in names}
    if not given and secret:
        return frozenset({ANY})
    shown = f"[{host}]" if ":" in host else host
    return LOOPBACK | {name.lower() for name in (*given, shown)}


@contextmanager
def _frontier(config: Config, port: int | None) -> Iterator[int]:
    """Serve the mirror as a frontier, if that is wanted; gives the port."""
    if port is None:
        yield 0
        return
    need("grpc", extra="urlfrontier", needed_for="frontiers")
    from unstale.contrib.urlfrontier.server import serving_frontier
    from unstale.mirror.mirror import Mirror

    with (
        Mirror(config.store, settings=config.settings, copies=config.copies) as mirror,
        serving_frontier(mirror, "127.0.0.1", port) as bound,
    ):
        yield bound


def _server(mirror: Mirror, rules: AccessRules) -> Server:
    """Return a server that has not been started yet."""
    from unstale.dashboard.app import create_app
    from unstale.dashboard.mirror_gateway import MirrorGateway
    from unstale.dashboard.server import Server

    return Server(create_app(MirrorGateway(mirror, patience=_PATIENCE_SECONDS), rules, early=True))


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        host = socket.gethostname()
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def _begin(listening: socket.socket, *, as_json: bool) -> None:
    """Let requests wait from now on until the server has started, and say where it is."""
    listening.listen(2048)
    address = _address(listening)
    click.echo(json.dumps({"address": address}) if as_json else f"Serving {address} (Ctrl-C ends it)")
    sys.stdout.flush()


def _follow(started: list[Server]) -> None:
    """End when the process that started this one ends, soon, whatever is being loaded or computed."""

    def wait() -> None:
        with suppress(OSError, ValueError):
            while sys.stdin.buffer.read(1024):
                pass
        for server in started:
            server.should_exit = True
            time.sleep(_ENDING_SECONDS)
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def serving(
    mirror_file: str | None, port: int, token_file: str | None = None, names: tuple[str, ...] = ()
) -> Iterator[Callable[[], str]]:
    """Serve a mirror in another process, which ends with this one; give what waits for its address."""
    command = [sys.executable, "-m", "unstale", "serve", "--json", "--with-parent", "--port", str(port)]
    command += [] if mirror_file is None else ["--mirror", mirror_file]
    command += [] if token_file is None else [f"--token-file={token_file}"]
    command += [f"--allow-host={name}" for name in names]
    with subprocess.Popen(  # noqa: S603  (ourselves)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101
        said = process.stdout

        def address() -> str:
            if not (line := said.readline()):
                raise InvalidInput("--serve: the dashboard could not be started; why is said above")
            return str(json.loads(line)["address"])

        try:
            yield address
        finally:
            with suppress(OSError):
                process.stdin.close()  # it ends, as it would if we were killed
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
