"""``unstale changes`` and ``unstale show``: what has changed, and the copies."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import Count
from unstale.cli.shared.printing import console, print_json, printable
from unstale.cli.shared.process import discard_output
from unstale.errors import InvalidInput
from unstale.wording import show_size, show_time

from .open import Opened, OpenedCells, mirror_options, open_any, open_having

if TYPE_CHECKING:
    from unstale.mirror.cells.cursor import Cursor
    from unstale.mirror.cells.mirror import MirrorOfCells
    from unstale.mirror.mirror import Mirror
    from unstale.mirror.source import Json
    from unstale.mirror.store.contract import Version

_LOOK_SECONDS = 1.0
"""Between two looks for changes."""
_CHANGES_PER_READ = 1000
"""Changes that are read from the store at once."""
_CHANGES_ON_SCREEN = 20
"""Changes that a terminal is shown, unless another number is asked for."""
_TEXTS = ("text/", "application/json", "application/xml", "application/javascript", "application/toml")
_CHANGES = """\b
Examples:
  unstale changes
  unstale changes --after 1234 > new.jsonl
  unstale changes --follow --key 'https://example.org/news/*'
  unstale changes --follow --command 'logger -t mirror'
  unstale changes --follow --webhook https://example.org/changed
"""
_SHOW = """\b
Examples:
  unstale show https://example.org/
  unstale show https://example.org/ --diff
  unstale show https://example.org/logo.png > logo.png
"""


@click.command(epilog=_CHANGES)
@click.option("--follow", is_flag=True, help="Go on: print changes as they come, until interrupted.")
@click.option("--after", metavar="N", help="Only those after the change number N, or after a cursor.")
@click.option(
    "--limit",
    type=Count(1),
    help="At most so many: the first after --after, else the latest.  [default: 20 on a terminal, else all]",
)
@click.option("--key", "pattern", metavar="PATTERN", help="Only of such keys: 'https://example.org/*'.")
@click.option("--webhook", metavar="URL", help="With --follow: send each change there, as a POST of JSON.")
@click.option(
    "--command", metavar="COMMAND", help="With --follow: run it for each change, with JSON on standard input."
)
@mirror_options
def changes(
    *,
    follow: bool,
    after: str | None,
    limit: int | None,
    pattern: str | None,
    webhook: str | None,
    command: str | None,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Print what has changed: one line of JSON for each change, or one for people on a terminal.

    Changes have numbers that grow. A program that remembers the last one goes on from there with --after. New
    elements are in the list, too: their "first" is true. With --webhook or --command this command sends all
    changes from now on, each at least once. What it could not send, it sends at the next start.
    A mirror of several cells has a "cursor" with each change, and --after goes on from there.
    """
    if (webhook or command) and not follow:
        raise InvalidInput(
            "--webhook and --command need --follow; or put them into [[notify]] of mirror.toml"
        )
    if (webhook or command) and after is not None:
        raise InvalidInput("--after cannot be combined with --webhook or --command: they go on by themselves")
    if follow and limit is not None:
        raise InvalidInput("--limit cannot be combined with --follow")
    with open_any(mirror_file) as opened:
        if webhook or command:
            if not isinstance(opened, Opened):
                raise InvalidInput(
                    "--webhook and --command are for a mirror of one cell: put them into [[notify]] of "
                    "mirror.toml, by which each cell tells of its changes"
                )
            _tell(opened.mirror, webhook, command, pattern or "*")
            return
        lines = as_json or not sys.stdout.isatty()
        if limit is None and not lines and after is None:
            limit = _CHANGES_ON_SCREEN
        printed = 0
        feed = _CellFeed(opened.mirror) if isinstance(opened, OpenedCells) else _Feed(opened.mirror)
        found = _following(feed, after, pattern) if follow else _now(feed, after, limit, pattern)
        with _until_stopped():
            for version, more in found:
                _print(version, more, lines=lines)
                printed += 1
        if not printed and not lines and not follow:
            console().print(
                "No changes so far." + ("" if pattern is None else f" None of {printable(pattern)}.")
            )


@contextmanager
def _until_stopped() -> Iterator[None]:
    """Take an interruption, or a reader who has had enough, for the end: neither is an error."""
    try:
        yield
    except BrokenPipeError:
        discard_output()
    except KeyboardInterrupt:
        pass


def _print(version: Version, more: dict[str, Json], *, lines: bool) -> None:
    from unstale.mirror.json_values import version_json

    if lines:
        click.echo(json.dumps({**version_json(version), **more}, ensure_ascii=False))
        return
    what = "new" if version.first else "changed"
    click.echo(
        f"{version.id:>6}  {show_time(version.time)}  {what:7}  {show_size(version.size):>8}  "
        f"{printable(version.key)}"
    )


_Change = tuple["Version", dict[str, "Json"]]
"""A change, and what is said of it besides, if it is that of a cell."""


class _Feed:
    """The changes of a mirror of one cell; a place in them is the number of a change."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._after = 0

    def begin(self, after: str | None) -> None:
        """Go on after a place; None: from the beginning."""
        if after is not None and not after.isdecimal():
            raise InvalidInput(f"--after must be the number of a change; it is {after[:60]!r}")
        self._after = int(after or 0)

    def begin_now(self) -> None:
        """Go on after all changes there are."""
        with self._mirror.store.begin() as transaction:
            latest = transaction.versions(limit=1, latest_first=True)
        self._after = latest[0].id if latest else 0

    def read(self) -> Iterator[_Change]:
        """Go through all changes from there on."""
        while page := self._mirror.changes(self._after, _CHANGES_PER_READ):
            for version in page:
                self._after = version.id
                yield version, {}


class _CellFeed:
    """The changes of a mirror of several cells; a place in them is a cursor."""

    def __init__(self, mirror: MirrorOfCells) -> None:
        self._mirror = mirror
        self._after: Cursor | None = None

    def begin(self, after: str | None) -> None:
        """Go on after a place; None: from the beginning."""
        from unstale.mirror.cells.cursor import Cursor

        self._after = None if after is None else Cursor.read(after)

    def begin_now(self) -> None:
        """Go on after all changes there are."""
        self._after = self._mirror.latest()

    def read(self) -> Iterator[_Change]:
        """Go through all changes from there on."""
        for cell, version, place in self._mirror.changes(self._after):
            self._after = place
            yield version, {"cell": cell, "cursor": place.text()}


def _wanted(feed: _Feed | _CellFeed, pattern: str | None) -> Iterator[_Change]:
    return (one for one in feed.read() if pattern is None or fnmatchcase(one[0].key, pattern))


def _now(
    feed: _Feed | _CellFeed, after: str | None, limit: int | None, pattern: str | None
) -> Iterator[_Change]:
    """Return the changes there are now: the first after one, or the latest."""
    from collections import deque
    from itertools import islice

    feed.begin(after)
    found = _wanted(feed, pattern)
    if limit is None:
        return found
    return islice(found, limit) if after is not None else iter(deque(found, maxlen=limit))


def _following(feed: _Feed | _CellFeed, after: str | None, pattern: str | None) -> Iterator[_Change]:
    """Return changes as they come."""
    feed.begin_now() if after is None else feed.begin(after)
    while True:
        yield from _wanted(feed, pattern)
        sys.stdout.flush()
        if _unread():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        time.sleep(_LOOK_SECONDS)


def _unread() -> bool:
    """Tell whether the reader of our output has gone."""
    import select

    with suppress(OSError, ValueError, AttributeError):
        poller = select.poll()
        poller.register(sys.stdout.fileno(), 0)
        return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))
    return False


def _tell(mirror: Mirror, webhook: str | None, command: str | None, pattern: str) -> None:
    """Tell others of changes until interrupted."""
    from unstale.mirror.config import values
    from unstale.mirror.notify.notifier import Notifier
    from unstale.mirror.settings import Notify

    targets = []
    if webhook:
        targets.append(Notify(webhook=values.address("--webhook", webhook), match=pattern))
    if command:
        targets.append(Notify(command=tuple(_words(command)), match=pattern))

    def trouble(name: str, what: str) -> None:
        click.echo(f"{printable(name)}: {printable(what) or 'works again'}", err=True)

    async def run() -> None:
        notifier = Notifier(targets, mirror.store, on_trouble=trouble)
        notifier.prepare()
        click.echo("Each change from now on is sent. Ctrl-C ends it.", err=True)
        await notifier.run(asyncio.Event())

    with _until_stopped():
        asyncio.run(run())


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise InvalidInput(f"--command must be a command, such as 'logger -t mirror'; it is {command!r}")
    return words


@click.command(epilog=_SHOW)
@click.argument("key")
@click.option("--version", "number", type=Count(1), help="Not the latest, but this one.")
@click.option("--diff", is_flag=True, help="Print what is different from the version before it.")
@click.option("--picture", metavar="FILE", help="With --diff, of a picture: write one that shows it, as PNG.")
@mirror_options
def show(
    *,
    key: str,
    number: int | None,
    diff: bool,
    picture: str | None,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Print the copy of the element KEY.

    Numbers of versions are those of unstale changes and unstale explain. Reading a copy counts, if
    mirror.toml says that importance comes from reads.
    """
    if picture and not diff:
        raise InvalidInput("--picture shows a difference: say --diff, too")
    with open_having(mirror_file, key) as opened:
        got = opened.mirror.read(key, version=number, count=not diff)
        if diff:
            _print_difference(opened, got.version, got.body, picture=picture, as_json=as_json)
            return
    from unstale.mirror.json_values import version_json

    text = _as_text(got.body, got.version.media_type)
    if as_json:
        print_json({**version_json(got.version), "text": text})
        return
    if text is None and sys.stdout.isatty():
        what = f"{got.version.media_type}, {show_size(len(got.body))}"
        raise InvalidInput(
            f"{key} is not text ({what}); send it to a file: unstale show {shlex.quote(key)} > FILE"
        )
    sys.stdout.flush()
    stream = sys.stdout.buffer
    if text is not None and sys.stdout.isatty():
        safe = "".join(
            one if one.isprintable() or one in "\n\t" else "?" for one in text.replace("\r\n", "\n")
        )
        stream.write(safe.encode(errors="replace") + (b"" if safe.endswith("\n") else b"\n"))
    else:
        stream.write(got.body)
    stream.flush()


def _as_text(body: bytes, media_type: str) -> str | None:
    """Return text as text, and None for anything else."""
    kind = media_type.lower()
    if not kind.startswith(_TEXTS) and "+xml" not in kind and "+json" not in kind and b"\0" in body[:8192]:
        return None
    charset = kind.partition("charset=")[2].split(";")[0].strip("\"' ") or "utf-8"
    for encoding in (charset, "utf-8"):
        with suppress(LookupError, ValueError):  # a page may name any codec of Python
            return body.decode(encoding)
    return body.decode(errors="replace") if kind.startswith(_TEXTS) else None


def _print_difference(
    opened: Opened, version: Version, body: bytes, *, picture: str | None, as_json: bool
) -> None:
    from unstale.mirror.differences.bounded import bounded_difference, bounded_picture
    from unstale.mirror.differences.pictures import is_picture
    from unstale.mirror.json_values import version_json
    from unstale.mirror.sources.http.fingerprint import selection_of

    with opened.mirror.store.begin() as transaction:
        kept = transaction.versions(element=version.element, latest_first=True, limit=_CHANGES_PER_READ)
        element = transaction.numbered([version.element])[version.element]
    before = next((one for one in kept if one.id < version.id), None)
    if before is None:
        why = (
            "this is the first copy, so there is nothing to compare it with"
            if version.first
            else f"the mirror no longer keeps the version before {version.id}; see keep in mirror.toml"
        )
        raise InvalidInput(f"{version.key}: {why}")
    old = opened.mirror.read(version.key, version=before.id, count=False).body
    if picture:
        if not (is_picture(before.media_type) and is_picture(version.media_type)):
            raise InvalidInput(f"--picture: {version.key} is no picture; it is {version.media_type}")
        Path(picture).write_bytes(bounded_picture(old, body))
    select = selection_of(element.options) if element.source in {"http", "browser"} else None
    told = bounded_difference(old, body, version.media_type, table=element.source == "sql", select=select)
    if as_json:
        print_json({"old": version_json(before), "new": version_json(version), "difference": told})
        return
    out = console()
    out.print(f"{printable(version.key)}: version {before.id}, {show_time(before.time)}", soft_wrap=True)
    out.print(
        f"{' ' * len(printable(version.key))}  version {version.id}, {show_time(version.time)}",
        soft_wrap=True,
    )
    out.print()
    for line in told.splitlines():
        out.print("".join(one if one.isprintable() or one == "\t" else "?" for one in line), soft_wrap=True)
