"""``unstale import`` and ``unstale export``: elements, history and copies as files."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unstale.cli.shared.printing import console, print_json, printable, say
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.tables import check_writable
from unstale.wording import plural

from .moving_in import MovingIn
from .open import Opened, OpenedCells, allow_option, mirror_options, open_any, open_mirror
from .report import print_item, withheld_words

_KINDS = ("elements", "history", "copies")
_FOREIGN = ("changedetection", "urlwatch", "nutch", "stormcrawler", "cdx", "opml")
"""Other tools, from which somebody moves in."""
_ARCHIVES = (".warc", ".warc.gz")
_MOST_LEFT_OUT_SHOWN = 10
_IMPORT = """\b
Examples:
  unstale import elements.csv
  unstale import elements.parquet history.parquet copies.warc.gz
  unstale import crawl.csv --as history
  unstale import ~/changedetection-data --changes changes.csv
  unstale import http://127.0.0.1:5000 --as changedetection --api-key-file key.txt
"""
_EXPORT = """\b
Examples:
  unstale export --elements elements.csv
  unstale export --elements elements.parquet --history history.parquet --copies copies.warc.gz
  unstale export --copies news.warc.gz --key 'https://example.org/news/*' --latest
"""


@click.command("import", epilog=_IMPORT)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as",
    "kind",
    type=click.Choice((*_KINDS, *_FOREIGN)),
    help="What is in them.  [default: as the name and columns say]",
)
@click.option("--keep-intervals", is_flag=True, help="Poll at least as often as the other tool did.")
@click.option("--changes", metavar="FILE", help="Write when elements changed, for unstale lab shootout.")
@click.option("--api-key-file", metavar="FILE", help="A file with the key of changedetection.io's API.")
@allow_option
@mirror_options
def import_command(
    *,
    files: tuple[str, ...],
    kind: str | None,
    keep_intervals: bool,
    changes: str | None,
    api_key_file: str | None,
    allow: tuple[str, ...],
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Import elements, history and copies from FILEs, or what another tool watches and has seen.

    Elements and history are CSV or Parquet (a column key; history also time, and changed or outcome), copies
    WARC. Elements are imported first, then history, then copies. With a mistake anywhere in a file nothing of
    it is imported. What is not of the public web (files, tables, private hosts), headers of rules (secrets)
    and what the next polls ask with (validators) need --allow, since the author of the file chose it. For
    files that your own mirror exported, say --allow secrets,validators.

    Other tools are changedetection.io (its data folder, or the address of its API), urlwatch (its list of
    jobs), Nutch and StormCrawler (dumps), feed readers (OPML), and indexes of archives (CDX, CDXJ), read as
    polls.
    """
    foreign = {file: found for file in files if (found := _foreign_kind(file, kind))}
    if foreign:
        if len(foreign) < len(files):
            raise InvalidInput("files of other tools cannot be imported together with others")
        with open_mirror(mirror_file) as opened, told_of_compilation():
            moving = MovingIn(opened.mirror, allow, keep_intervals, changes, api_key_file)
            told = [moving.take(file, name) for file, name in foreign.items()]
        moving.print(told, as_json=as_json)
        return
    for option, there in (
        ("--keep-intervals", keep_intervals),
        ("--changes", changes),
        ("--api-key-file", api_key_file),
    ):
        if there:
            raise InvalidInput(f"{option} is for other tools: --as {', '.join(_FOREIGN)}")
    kinds = sorted(((_KINDS.index(kind or _kind_of(file)), file) for file in files), key=lambda pair: pair[0])
    done: list[dict[str, Any]] = []
    with open_any(mirror_file) as opened, told_of_compilation():
        for number, file in kinds:
            done.append(_imported(opened, _KINDS[number], file, allow))
    if as_json:
        print_json({"imported": done})
        return
    out = console()
    for one in done:
        out.print(f"{one['file']}: {one['told']}.", soft_wrap=True)
        for key, why in one["skipped"][:_MOST_LEFT_OUT_SHOWN]:
            print_item(out, f"left out: {printable(key)}: {printable(why)}")
        if one["withheld"]:
            say(out, withheld_words(one["withheld"]))


def _foreign_kind(file: str, kind: str | None) -> str | None:
    """Return the tool that a file is of; None if it is one of ours."""
    if kind is not None:
        return kind if kind in _FOREIGN else None
    from unstale.mirror.exchange.foreign import kind_of

    return kind_of(Path(file))


def _kind_of(file: str) -> str:
    """Tell what is in a file by its name and its columns."""
    name = file.lower()
    if name.endswith(_ARCHIVES):
        return "copies"
    try:
        if name.endswith(".parquet"):
            columns = _parquet_columns(file)
        else:
            opened = gzip.open if name.endswith(".gz") else open
            with opened(file, "rt", encoding="utf-8-sig", newline="") as stream:
                separator = "\t" if ".tsv" in name else ","
                columns = [one.strip().lower() for one in next(csv.reader(stream, delimiter=separator), [])]
    except (OSError, EOFError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(f"{file}: cannot be read: {why}") from None
    return "history" if {"changed", "outcome"} & set(columns) else "elements"


def _parquet_columns(file: str) -> list[str]:
    from unstale.errors import need

    need("pyarrow", extra="parquet", needed_for="Parquet files")
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return [name.lower() for name in parquet.read_schema(file).names]
    except pa.ArrowInvalid as error:
        raise InvalidInput(f"{file}: cannot be read: {str(error).splitlines()[0]}") from None


def _imported(opened: Opened | OpenedCells, kind: str, file: str, allow: tuple[str, ...]) -> dict[str, Any]:
    from unstale.mirror.exchange import tables as exchange

    if not Path(file).is_file():
        raise InvalidInput(f"{file}: no such file")
    skipped: list[tuple[str, str]] = []
    withheld: list[str] = []
    if isinstance(opened, OpenedCells) and kind != "elements":
        raise InvalidInput(
            f"{file}: history and copies are imported into one cell at a time: say --cell N, for each cell, "
            "with a file of its elements"
        )
    with progress(f"importing {file}") as advance:
        if isinstance(opened, OpenedCells):
            count = opened.mirror.import_elements(
                file, allow=allow, progress=advance, withheld=withheld.append
            )
            told = plural(count, "element")
        elif kind == "elements":
            count = exchange.import_elements(
                opened.mirror, file, allow=allow, progress=advance, withheld=withheld.append
            )
            told = plural(count, "element")
        elif kind == "history":
            count = exchange.import_history(opened.mirror, file, progress=advance)
            told = f"{plural(count, 'poll')} that {'was' if count == 1 else 'were'} not there yet"
        else:
            from unstale.mirror.exchange.warc import import_warc

            got = import_warc(opened.mirror, file, allow=allow, progress=advance)
            count, skipped = got.copies, list(got.skipped)
            told = f"{plural(count, 'version')}, {plural(got.elements, 'new element')}"
            told += f", {len(skipped):,} left out" if skipped else ""
    done = {"file": file, "kind": kind, "count": count, "told": told, "skipped": skipped}
    return {**done, "withheld": len(withheld)}


@click.command("export", epilog=_EXPORT)
@click.option("--elements", metavar="FILE", help="Write elements here: .csv, .tsv, .csv.gz, .parquet.")
@click.option("--history", metavar="FILE", help="Write polls here: likewise.")
@click.option("--copies", metavar="FILE", help="Write copies here: .warc or .warc.gz.")
@click.option("--key", "pattern", metavar="PATTERN", help="Only of such keys: 'https://example.org/*'.")
@click.option("--failures", is_flag=True, help="With --history: polls that saw nothing as well.")
@click.option("--latest", is_flag=True, help="With --copies: only the latest version of each element.")
@mirror_options
def export_command(
    *,
    elements: str | None,
    history: str | None,
    copies: str | None,
    pattern: str | None,
    failures: bool,
    latest: bool,
    mirror_file: str | None,
    as_json: bool,
) -> None:
    """Export elements, history and copies to files.

    Elements have rates as learned, and can be given to unstale plan; history can be given to unstale
    estimate. All of it can be imported elsewhere.
    """
    if elements is None and history is None and copies is None:
        raise InvalidInput("nothing to export: name a file with --elements, --history or --copies")
    for needs, flag, given in (("--history", "--failures", failures), ("--copies", "--latest", latest)):
        if given and {"--history": history, "--copies": copies}[needs] is None:
            raise InvalidInput(f"{flag} needs {needs}")
    named = [("--elements", elements), ("--history", history), ("--copies", copies)]
    for option, file in named:
        if file is not None:
            check_writable(option, file, *([_ARCHIVES] if option == "--copies" else []))
    counts: dict[str, int] = {}
    with open_any(mirror_file) as opened, told_of_compilation():
        from unstale.mirror.exchange import tables as exchange
        from unstale.mirror.exchange.warc import export_warc

        mirror = opened.mirror if isinstance(opened, Opened) else list(opened.mirror.mirrors())
        jobs: list[tuple[str, str | None, Callable[..., int], dict[str, Any]]] = [
            ("element", elements, exchange.export_elements, {}),
            ("poll", history, exchange.export_history, {"failures": failures}),
            ("version", copies, export_warc, {"latest": latest}),
        ]
        for noun, file, write, more in jobs:
            if file is not None:
                with progress(f"writing {file}") as advance:
                    counts[file] = write(mirror, file, pattern=pattern, progress=advance, **more)
                if not as_json:
                    console().print(f"{file}: {plural(counts[file], noun)}", soft_wrap=True)
    if as_json:
        print_json({"files": counts})
