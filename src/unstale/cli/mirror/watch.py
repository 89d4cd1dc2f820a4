"""``unstale watch``: a mirror made, filled, run and shown in one command."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unstale.cli.shared.options import DURATION, Count
from unstale.cli.shared.printing import console, printable, say
from unstale.errors import InvalidInput, MissingExtra, need
from unstale.quantities import show_number
from unstale.wording import plural, show_budget

from .elements import looks_like
from .open import Opened, mirror_options, open_mirror
from .run import run_until
from .serve import PORT, WEB_MODULES, serving

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.mirror.source import New

_BUDGET = "1000/day"
_EXAMPLES = """\b
Examples:
  unstale watch https://example.org/ https://example.org/news
  unstale watch https://example.org/feed.xml
  unstale watch ~/shared/reports
  unstale watch                              go on with what is watched already
"""


@click.command(epilog=_EXAMPLES)
@click.argument("keys", nargs=-1, metavar="[ADDRESS]...")
@click.option("--feed", is_flag=True, help="They are feeds, also if their addresses do not look like it.")
@click.option(
    "--sitemap", is_flag=True, help="They are sitemaps, also if their addresses do not look like it."
)
@click.option(
    "--budget", metavar="POLLS/TIME", help=f"Polls that a new mirror may make.  [default: {_BUDGET}]"
)
@click.option("--for", "length", type=DURATION, help="End after so long: 1h.")
@click.option("--port", type=Count(0, 65535), help=f"Of the page.  [default: {PORT}, or any that is free]")
@click.option("--no-open", is_flag=True, help="Do not open the page in a browser.")
@mirror_options
def watch(
    *,
    keys: tuple[str, ...],
    feed: bool,
    sitemap: bool,
    budget: str | None,
    length: float | None,
    port: int | None,
    no_open: bool,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Keep copies of pages, feeds, folders or tables from now on, and show how fresh they are.

    This is init, add, run and serve in one: unstale watch makes a mirror if there is none here (in the folder
    unstale-mirror), adds the addresses, polls them, and opens a page that shows the copies. Ctrl-C ends it.
    The next unstale watch goes on, with or without more addresses.
    """
    if feed and sitemap:
        raise InvalidInput("--feed cannot be combined with --sitemap")
    file = _found_or_made(mirror_file, budget, keys)
    out = console(stderr=True)
    if not as_json:
        where = "this folder" if file.parent == Path() else printable(str(file.parent))
        say(out, f"The mirror is in {where}.", apart=False)
    with ExitStack() as stack:
        starting = stack.enter_context(out.status("The mirror starts ..."))  # shown on a terminal alone
        opened = stack.enter_context(open_mirror(str(file)))
        if _is_run_elsewhere(opened):
            starting.stop()
            _leave_it_to_the_other(opened, keys, feed=feed, sitemap=sitemap, as_json=as_json)
            return
        started = _serve(stack, file, port, out)  # while we go on
        news = _all_named(keys, feed=feed, sitemap=sitemap)
        for taken in () if as_json else _taken_for(keys, news):
            say(out, taken, apart=False)
        _add(opened, news)
        count = sum(1 for _ in opened.mirror.elements())
        if not count:
            raise InvalidInput(
                "there is nothing to watch yet; give an address: unstale watch https://example.org/"
            )
        words = _words(opened, count)
        starting.stop()
        address = _told_where(file, words, started, as_json=as_json)
        if address is not None and not no_open and not as_json and _has_browser():
            webbrowser.open(address)
        run_until(stack, opened, None if length is None else time.time() + length, as_json=as_json)
    if not as_json:
        say(out, f"To go on: unstale watch{_again(mirror_file)}", apart=False)


def _told_where(file: Path, words: str, started: Callable[[], str] | None, *, as_json: bool) -> str | None:
    """Say what is watched, then where the page is, as soon as it is; return its address, if there is one."""
    out = console(stderr=True)
    if not as_json:
        say(out, words, apart=False)
    with out.status("Its page starts ..."):
        address = None if started is None else started()
    if as_json:
        told = {"event": "watching", "mirror": str(file), "address": address, "words": words}
        click.echo(json.dumps(told))
    elif address is not None:
        out.print(f"The page: {address}", style="bold", soft_wrap=True)
    return address


def _is_run_elsewhere(opened: Opened) -> bool:
    """Tell whether another process polls this mirror, and only one may."""
    from unstale.mirror.store.sql.connection import place_of, run_lock

    place = place_of(opened.config.store)
    if not opened.mirror.store.single_runner or not isinstance(place, Path):
        return False
    if (lock := run_lock(place, shared=opened.config.settings.shared != "no")) is None:
        return True
    lock.release()
    return False


def _leave_it_to_the_other(
    opened: Opened, keys: tuple[str, ...], *, feed: bool, sitemap: bool, as_json: bool
) -> None:
    """Add what is named: who polls this mirror already polls that, too."""
    _add(opened, _all_named(keys, feed=feed, sitemap=sitemap))
    count = sum(1 for _ in opened.mirror.elements())
    added = "It now polls what you named, too. " if keys else ""
    words = (
        f"Another process polls this mirror already, for instance unstale watch in another terminal. {added}"
        f"It watches {plural(count, 'address')}; see its page, or: unstale status{opened.again}"
    )
    if as_json:
        click.echo(
            json.dumps({"event": "watched already", "mirror": str(opened.config.path), "words": words})
        )
    else:
        say(console(stderr=True), words, apart=False)


def _again(mirror_file: str | None) -> str:
    return "" if mirror_file is None else f" --mirror {mirror_file}"


def _found_or_made(mirror_file: str | None, budget: str | None, keys: tuple[str, ...]) -> Path:
    """Return the mirror.toml that is meant; make one if there is none, and something to watch."""
    from unstale.mirror.config import values
    from unstale.mirror.config.file import FILE, VARIABLE, WATCHED, check_owner, find
    from unstale.mirror.config.template import write_template

    if mirror_file is not None:
        path = Path(mirror_file)
        path = path if path.suffix == ".toml" else path / FILE
    else:
        here = find()
        path = here if here.exists() or os.environ.get(VARIABLE) else Path(WATCHED) / FILE
        check_owner(path)
    if path.exists():
        if budget is not None:
            raise InvalidInput(
                f"--budget is for a new mirror; change that of this one in {path}, or on its page What if"
            )
        return path
    if not keys:
        raise InvalidInput(
            "there is nothing to watch here yet; give an address: unstale watch https://example.org/"
        )
    values.poll_flow("--budget", budget or _BUDGET)
    write_template(path, budget=budget or _BUDGET)
    return path


def _all_named(keys: tuple[str, ...], *, feed: bool, sitemap: bool) -> list[New]:
    return [_named(key, "feed" if feed else "sitemap" if sitemap else None) for key in keys]


def _named(key: str, source: str | None) -> New:
    """Return what an address means: a feed or a sitemap if it looks so, a folder with all that is in it."""
    from unstale.mirror.source import New
    from unstale.mirror.sources.registry import web_address

    local = Path(os.path.expanduser(key))  # noqa: PTH111  (it lets a user who is not there be)
    if "://" not in key and local.exists():
        return New(str(local.resolve()), source, {"tree": True} if local.is_dir() else {})
    host = key.partition("/")[0]
    if "://" not in key and "#" not in key and re.match(r"localhost\b|[^.~]+\.", host):
        key = web_address(key)
    if source is None:
        source = looks_like(key)
    return New(key, source, {})


def _taken_for(keys: tuple[str, ...], news: list[New]) -> Iterator[str]:
    """Yield what a user might not have meant: a name that is no file, and the file of a database."""
    from unstale.mirror.sources.registry import is_sqlite

    for key, new in zip(keys, news, strict=True):
        if "://" not in key and new.key.endswith(f"://{key}"):
            yield (
                f"There is no file or folder {printable(key)} here, so unstale takes it for "
                f"{printable(new.key)}"
            )
        elif "://" not in key and is_sqlite(Path(new.key)):
            yield (
                f"{printable(key)} is a database; unstale watches it as a file. To watch one of its "
                f"tables, name {printable(key)}#TABLE"
            )


def _add(opened: Opened, news: list[New]) -> None:
    """Add what is not there yet; what cannot be added ends the command."""
    got = opened.mirror.add_many(news, {})
    if got.refused:
        raise InvalidInput(got.refused[0][1])


def _serve(stack: ExitStack, file: Path, port: int | None, out: Console) -> Callable[[], str] | None:
    """Start the page, if it is installed; return what waits for its address."""
    try:
        for module in WEB_MODULES:
            need(module, extra="web", needed_for="the page")
    except MissingExtra as error:
        say(out, f"There is no page, because {error}", apart=False)
        return None
    wanted = port if port is not None else PORT if _is_free(PORT) else 0
    return stack.enter_context(serving(str(file), wanted))


def _is_free(port: int) -> bool:
    with socket.socket() as tried, suppress(OSError):
        if os.name != "nt":
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind(("127.0.0.1", port))
        return True
    return False


def _words(opened: Opened, count: int) -> str:
    """Say what will be polled how often, and what can be expected of it as far as that is known at once."""
    from unstale.mirror.engine.rehearsal import without_compiler

    budget = opened.mirror.settings.budget
    if budget is None:
        polls = f"at most {show_budget(None, opened.mirror.settings.byte_budget)}"
    else:
        polls = f"about {_often(budget)}"
    status = without_compiler(opened.mirror.status)
    expected = "; after some polls you see how fresh that keeps the copies"
    if status is not None and 2 * status.elements.get("new", 0) < count:
        expected = f"; that should keep {100 * status.predicted:.0f} % of the copies fresh"
    watched = f"Watching {plural(count, 'address')}"
    return f"{watched}, with {polls}{expected}. To change the budget, drag it on the page What if."


def _often(per_second: float) -> str:
    """Return how often polls come, as people say it.

    >>> _often(1000 / 86400), _often(5 / 86400), _often(2.0), _often(0.5)
    ('42 polls an hour', '5 polls a day', '2 polls a second', '30 polls a minute')
    """
    for seconds, name in ((1.0, "a second"), (60.0, "a minute"), (3600.0, "an hour")):
        if per_second * seconds >= 1.0 and (seconds < 3600 or per_second * seconds >= 2.0):
            count = per_second * seconds
            shown = f"{count:,.0f}" if count >= 10 else show_number(count)
            return f"{shown} poll{'' if shown == '1' else 's'} {name}"
    return f"{show_number(per_second * 86400)} polls a day"


def _has_browser() -> bool:
    """Tell whether a page can be opened for the user: not in a text browser in this terminal."""
    if not sys.stdout.isatty():
        return False
    graphic = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return os.name == "nt" or sys.platform == "darwin" or bool(graphic)
