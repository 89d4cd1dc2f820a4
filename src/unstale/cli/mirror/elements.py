"""``unstale add``, ``remove``, ``pause``, ``resume`` and ``hint``: what is mirrored, and news of it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from datetime import datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unstale import quantities
from unstale.cli.shared.options import DURATION, Quantity
from unstale.cli.shared.printing import console, print_json, printable, say
from unstale.cli.shared.progress import progress
from unstale.cli.shared.when import MOMENT, span_or_nothing
from unstale.errors import InvalidInput
from unstale.wording import plural

from .open import Opened, OpenedCells, allow_option, mirror_options, open_any, read_lines
from .report import print_item, withheld_words

if TYPE_CHECKING:
    from unstale.mirror.additions import Added
    from unstale.mirror.source import Json, New

_KINDS = ("list", "opml", "sitemap", "csv")
_MOST_REMOVED_UNASKED = 10
"""Elements that are removed without a question."""
_FEED_ENDINGS = (".rss", ".atom", ".rdf", "/feed", "/rss", "/atom", "/feed.xml", "/rss.xml", "/atom.xml")
_MOST_KEYS_SHOWN = 10
"""Of a list that is only an example."""
_ADD = """\b
Examples:
  unstale add https://example.org/ https://example.org/news
  unstale add --feed https://example.org/feed.xml
  unstale add --sitemap https://example.org/sitemap.xml --max-age 1day
  unstale add --from pages.txt --weight 2
  unstale add --from subscriptions.opml
  unstale add /srv/shared/reports --option tree=true
  unstale add warehouse#orders --option cursor=updated_at
"""
_REMOVE = """\b
Examples:
  unstale remove https://example.org/old
  unstale remove 'https://example.org/archive/*' --yes
  unstale remove https://example.org/old --forget
"""
_PAUSE = """\b
Examples:
  unstale pause https://example.org/news
  unstale pause 'https://example.org/archive/*'
"""
_RESUME = """\b
Examples:
  unstale resume https://example.org/news
  unstale resume '*'
"""
_HINT = """\b
Examples:
  unstale hint https://example.org/news
  unstale hint --from changed.txt
  unstale hint https://example.org/news --time 2026-01-31T12:00Z
"""


def _option(name: str, text: str) -> tuple[str, Json]:
    """Read NAME=VALUE; the value is JSON if it can be, else a text."""
    option, equals, value = text.partition("=")
    if not option or not equals:
        raise InvalidInput(f"{name} must be NAME=VALUE, such as change=text; it is {text!r}")
    try:
        return option, json.loads(value, parse_constant=_no_number)
    except ValueError:
        return option, value


def _no_number(name: str) -> float:
    raise ValueError(name)


def _weight(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1e30:
        raise InvalidInput(f"{name} must be a number >= 0, such as 2.5; it is {text!r}")
    return value


def _jitter(name: str, text: str) -> float:
    return 0.0 if text.strip() in {"0", "0%"} else quantities.share(name, text)


def _objective(name: str, text: str) -> str:
    from unstale.mirror.config.values import objective

    return objective(name, text)


def _windows(name: str, text: str) -> str:
    from unstale.mirror.config.values import when

    return when(name, text)


@click.command(epilog=_ADD)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option("--from", "file", metavar="FILE", help="Read keys from a file; - is standard input.")
@click.option(
    "--as", "kind", type=click.Choice(_KINDS), help="What --from is.  [default: seen from its content]"
)
@click.option(
    "--feed",
    is_flag=True,
    help="They are feeds: add the pages that they name as well, and take hints from them.",
)
@click.option("--sitemap", is_flag=True, help="They are sitemaps: the same.")
@click.option(
    "--source", metavar="NAME", help="Who polls them: http, file, sql, ...  [default: as the key looks]"
)
@click.option("--weight", type=Quantity("NUMBER", _weight), help="How much their freshness matters: 2.5.")
@click.option("--max-age", type=DURATION, help="Poll at least this often: 6h.")
@click.option(
    "--min-interval", type=Quantity("TIME", span_or_nothing), help="Poll no more often than this: 5min."
)
@click.option("--jitter", type=Quantity("SHARE", _jitter), help="Vary intervals at random by up to: 10%.")
@click.option(
    "--windows", type=Quantity("WHEN", _windows), help='Poll only then: "mon-fri 22:00-06:00 Europe/Berlin".'
)
@click.option(
    "--objective", type=Quantity("NAME", _objective), help="What they are polled for: age, currency:6h, ..."
)
@click.option(
    "--target", type=Quantity("SHARE", quantities.share), help="How probably each should be fresh: 95%."
)
@click.option("--group", metavar="NAME", help="Whose limits they share.  [default: host, database or place]")
@click.option(
    "--option",
    "options",
    type=Quantity("NAME=VALUE", _option),
    multiple=True,
    help="For the source: change=text, selector=main, ...",
)
@click.option("--tag", "tags", metavar="WORD", multiple=True, help="By which you find them; may be repeated.")
@click.option("--keep", type=click.IntRange(min=0), help="Versions that are kept of each; 0: all.")
@click.option("--keep-for", type=DURATION, help="Time for which versions are kept: 90days.")
@allow_option
@mirror_options
def add(
    *,
    keys: tuple[str, ...],
    file: str | None,
    kind: str | None,
    feed: bool,
    sitemap: bool,
    source: str | None,
    options: tuple[tuple[str, Json], ...],
    tags: tuple[str, ...],
    allow: tuple[str, ...],
    mirror_file: str | None,
    as_json: bool,
    **given: Any,  # noqa: ANN401
) -> int:
    """Add elements: pages, feeds, sitemaps, files, folders, tables.

    If an element is there already, the options given here change it, and the rest stays. With --from, keys
    come from a list (one on each line), an OPML file, a sitemap, or CSV with a column key or url. The author
    of that file must not choose what the mirror reads here: files, tables and private hosts need --allow or
    --source, and headers of rules need --allow secrets.
    """
    named = [
        name for name, there in (("--feed", feed), ("--sitemap", sitemap), ("--source", source)) if there
    ]
    if len(named) > 1:
        raise InvalidInput(f"{named[0]} cannot be combined with {named[1]}")
    if not keys and file is None:
        raise InvalidInput("nothing to add: name elements, or a file with --from")
    if file is not None and file.lower().startswith(("http://", "https://")):
        raise InvalidInput(f"--from reads a file here; write: unstale add --sitemap {file}, or --feed {file}")
    for name, there in (("--as", kind), ("--allow", allow)):
        if there and file is None:
            raise InvalidInput(f"{name} needs --from")
    source = "feed" if feed else "sitemap" if sitemap else source
    given["tags"] = list(tags) or None
    said = {name: value for name, value in given.items() if value is not None}
    with open_any(mirror_file) as opened:
        from unstale.mirror.additions import Added
        from unstale.mirror.source import New

        named_here = [New(key, source, dict(options)) for key in keys]
        lots: list[tuple[list[New], dict[str, Any]]] = [(named_here, said)] if keys else []
        done = [opened.mirror.add_many(news, row) for news, row in lots]
        refused: list[tuple[str, str]] = []
        if file is not None:
            listed, refused = _listed(file, kind, source, dict(options))
            from_file = [(news, {**row, **said}) for row, news in listed]
            trusted = _trusted(allow, source, dict(options))
            with progress(f"adding {plural(sum(len(news) for news, _ in from_file), 'element')}"):
                done += [opened.mirror.add_many(news, row, allow=trusted) for news, row in from_file]
            lots += from_file
    refused = [pair for one in done for pair in one.refused] + refused
    names = ("added", "known", "changed", "withheld")
    added, known, changed, withheld = (sum(map(attrgetter(name), done)) for name in names)
    got = Added(added, known, refused, changed, withheld)
    if not got.added and not got.known and len(refused) == 1:
        raise InvalidInput(refused[0][1])
    if as_json:
        print_json(got.to_json())
    else:
        parts = [f"source {source}"] if source else []
        parts += [f"{name} {_shown(name, value)}" for name, value in _agreed(lots)]
        _print_added(opened, got, parts + [f"{name}={_shown(name, value)}" for name, value in options])
        if source is None and not options:
            _say_what_else(keys)
    return 1 if refused else 0


def looks_like(key: str) -> str | None:
    """Return the source that an address looks like it is for, if not a page: a feed or a sitemap.

    >>> looks_like("https://example.org/feed.xml"), looks_like("https://example.org/sitemap.xml.gz")
    ('feed', 'sitemap')
    >>> looks_like("https://example.org/data.xml")
    """
    path = key.partition("?")[0].lower().rstrip("/")
    if not key.startswith(("http://", "https://")):
        return None
    if path.endswith(_FEED_ENDINGS):
        return "feed"
    return "sitemap" if path.endswith((".xml", ".xml.gz")) and "sitemap" in path.rpartition("/")[2] else None


def _say_what_else(keys: tuple[str, ...]) -> None:
    """Say of the first that looks like a list, or is a folder, what would add more than itself."""
    for key in keys:
        if kind := looks_like(key):
            say(
                console(),
                f"{printable(key)} looks like a {kind}. With --{kind}, the mirror also adds the pages in it.",
            )
            return
        if "://" not in key and Path(key).is_dir():
            say(
                console(),
                f"{printable(key)} is a folder. With --option tree=true, the mirror also adds what is in it.",
            )
            return


def _trusted(allow: tuple[str, ...], source: str | None, options: dict[str, Json]) -> set[str]:
    """Return what a file may name: what the user allows, or says of all its elements."""
    from unstale.mirror.sources.allowed import ENVIRONMENT

    tree = {"file"} if options.get("tree") else set()
    return {*allow, *tree, *({source} if source else ()), ENVIRONMENT}  # lists have no options


def _listed(
    file: str, kind: str | None, source: str | None, options: dict[str, Json]
) -> tuple[list[tuple[dict[str, Any], list[New]]], list[tuple[str, str]]]:
    """Read elements from a file, those of which the same is said together; and what can be none, and why."""
    from unstale.mirror.source import New
    from unstale.mirror.sources.lists import read_list

    reader = read_list(file, kind)  # type: ignore[arg-type]  # one of its formats
    lots: dict[tuple[tuple[str, Any], ...], list[New]] = {}
    with progress(f"reading {file}"):
        for one in reader:
            new = New(
                one.new.key, source or (one.new.source if one.named else None), {**one.new.options, **options}
            )
            lots.setdefault(tuple(sorted(one.given.items())), []).append(new)
    name = "standard input" if file == "-" else file
    refused = [(one.text, f"{name}, line {one.line}: {one.why}") for one in reader.rejected]
    if not lots and not refused:
        raise InvalidInput(f"{name}: names no element")
    return [(dict(said), news) for said, news in lots.items()], refused


def _agreed(lots: list[tuple[list[New], dict[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Yield what is said of all elements; of what is said differently, only the name."""
    for name in dict.fromkeys(name for _, said in lots for name in said):
        values = [said.get(name) for _, said in lots]
        yield name, values[0] if all(value == values[0] for value in values) else None


def _shown(name: str, value: object) -> str:
    """Return a value as a person would write it."""
    if isinstance(value, float):
        if name == "min_interval" and not value:
            return "0"
        times = dict.fromkeys(("max_age", "min_interval", "keep_for"), quantities.show_duration)
        show = {**times, "jitter": quantities.show_share, "target": quantities.show_share}
        return show.get(name, quantities.show_number)(value)
    if value is None:
        return "as listed"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _print_added(opened: Opened | OpenedCells, got: Added, said: list[str]) -> None:
    out, added, known, refused, changed = console(), got.added, got.known, got.refused, got.changed
    were = f"{'was' if known == 1 else 'were'} there already"
    if changed:
        start = f"Added {plural(added, 'element')}. " if added else ""
        were_changed = f"that {'was' if changed == 1 else 'were'} there already"
        which = f"of {known:,} that {were}" if changed < known else were_changed
        what = f": {', '.join(said)}" if said else ""
        out.print(f"{start}Changed {plural(changed, 'element')} {which}{what}.", soft_wrap=True)
    elif known and not added:
        out.print(f"Nothing new: {plural(known, 'element')} {were}.")
    else:
        out.print(f"Added {plural(added, 'element')}{f'; {known:,} {were}' if known else ''}.")
    if refused:
        err = console(stderr=True)
        err.print(f"Not added: {plural(len(refused), 'element')}.")
        for _, why in refused[:_MOST_KEYS_SHOWN]:
            print_item(err, printable(why))
        if len(refused) > _MOST_KEYS_SHOWN:
            err.print(f"  and {len(refused) - _MOST_KEYS_SHOWN:,} more")
    if got.withheld:
        say(out, withheld_words(got.withheld))
    if added:
        say(out, f"To poll {'it' if added == 1 else 'them'}: {opened.start}")


@click.command(epilog=_REMOVE)
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.option("--forget", is_flag=True, help="Delete their copies and their history as well, for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@mirror_options
def remove(*, keys: tuple[str, ...], forget: bool, yes: bool, mirror_file: str | None, as_json: bool) -> None:
    """Remove elements: the mirror polls them no more.

    A KEY may be a pattern with *, ? or [...], in quotes. Copies stay unless you say --forget, and unstale add
    brings an element back with all that the mirror had learned.
    """
    with open_any(mirror_file) as opened:
        found: dict[str, None] = {}
        for key in keys:
            found |= dict.fromkeys(_matching(opened, key))
        many = len(found) > _MOST_REMOVED_UNASKED or (len(found) > len(keys))
        if (many or forget) and not yes:
            _ask(list(found), forget=forget)
        count = opened.mirror.remove(list(found), forget=forget)
    if as_json:
        print_json({"removed": count, "forgotten": forget})
        return
    whose = "its" if count == 1 else "their"
    what = f", with {whose} copies and {whose} history" if forget else f"; {whose} copies stay"
    console().print(f"Removed {plural(count, 'element')}{what}.")


def _matching(opened: Opened | OpenedCells, key: str) -> list[str]:
    """Return the keys that are meant: a pattern may mean many."""
    if any(letter in key for letter in "*?["):
        found = [element.key for element in opened.mirror.elements(key)]
        if found:
            return found
        if "*" in key:
            raise InvalidInput(f"no element matches {key!r}")
    return [opened.mirror.find(key).key]


def _ask(keys: list[str], *, forget: bool) -> None:
    what = "remove and forget for good" if forget else "remove"
    if not sys.stdin.isatty():
        raise InvalidInput(f"this would {what} {plural(len(keys), 'element')}; say --yes if you mean it")
    for key in keys[:_MOST_KEYS_SHOWN]:
        click.echo(f"  {printable(key)}", err=True)
    if len(keys) > _MOST_KEYS_SHOWN:
        click.echo(f"  and {len(keys) - _MOST_KEYS_SHOWN:,} more", err=True)
    click.confirm(f"{what[:1].upper()}{what[1:]} {plural(len(keys), 'element')}?", abort=True, err=True)


@click.command(epilog=_PAUSE)
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@mirror_options
def pause(*, keys: tuple[str, ...], mirror_file: str | None, as_json: bool) -> None:
    """Pause elements: nobody polls them until unstale resume.

    A KEY may be a pattern as of a shell, in quotes. Copies, history and what was learned stay; paused
    elements do not count in what is fresh.
    """
    with open_any(mirror_file) as opened:
        found = dict.fromkeys(one for key in keys for one in _matching(opened, key))
        count = opened.mirror.pause(list(found))
    _print_paused("Paused", count, len(found), as_json=as_json)


@click.command(epilog=_RESUME)
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@mirror_options
def resume(*, keys: tuple[str, ...], mirror_file: str | None, as_json: bool) -> None:
    """Resume elements that were paused, or archived since they were gone: they are polled again.

    A KEY may be a pattern as of a shell, in quotes.
    """
    with open_any(mirror_file) as opened:
        found = dict.fromkeys(one for key in keys for one in _matching(opened, key))
        count = opened.mirror.resume(list(found))
    _print_paused("Resumed", count, len(found), as_json=as_json)


def _print_paused(what: str, count: int, total: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"changed": count})
        return
    same = total - count
    rest = f"; {same:,} {'was' if same == 1 else 'were'} so already" if same else ""
    console().print(f"{what} {plural(count, 'element')}{rest}.")


@click.command(epilog=_HINT)
@click.argument("keys", nargs=-1, metavar="[KEY]...")
@click.option(
    "--from", "file", metavar="FILE", help="Read keys from a file, one on each line; - is standard input."
)
@click.option(
    "--time",
    "moment",
    type=MOMENT,
    help="When they changed, in UTC unless it says otherwise.  [default: now]",
)
@mirror_options
def hint(
    *,
    keys: tuple[str, ...],
    file: str | None,
    moment: datetime | None,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Say that elements may have changed.

    Whether hints are true is learned: those that prove right make an element due at once, and those that say
    nothing change nothing.
    """
    if file is not None:
        keys = (*keys, *read_lines("--from", file))
    if not keys:
        raise InvalidInput("no hint: name elements, or a file with --from")
    with open_any(mirror_file) as opened:
        when = opened.mirror.clock.now() if moment is None else moment.timestamp()
        count = opened.mirror.hint(keys, time=when, channel="command")
    if as_json:
        from unstale.mirror.json_values import moment as written

        print_json({"hinted": count, "time": written(when)})
        return
    out = console()
    out.print(f"Noted {plural(count, 'hint')}.")
    if count == 1:
        key = printable(keys[0])
        say(out, f"What it changes: unstale explain{opened.again} {key}")
