"""What the scripts that make tables of the docs share: their two commands, and marks in pages.

A table stands between ``<!-- name -->`` and ``<!-- end -->``, each on a line of its own.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path


def write_tables(page: Path, tables: Mapping[str, Iterable[str]]) -> None:
    """Write lines between their marks in a page."""
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        found = re.findall(rf"<!-- {name} -->\n.*?<!-- end -->", text, flags=re.DOTALL)
        if len(found) != 1:
            raise SystemExit(f"{page} must have one part {name!r}; it has {len(found)}")
        text = text.replace(found[0], "\n".join([f"<!-- {name} -->", *lines, "<!-- end -->"]))
    page.write_text(text, encoding="utf-8")


def play_or_write(
    about: str, page: Path, play: Callable[[Path, Path], None], write: Callable[[Path, Path], None]
) -> None:
    """Play what has not been played, or write what has been, as the command line asks."""
    parser = argparse.ArgumentParser(description=about.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="command", required=True)
    playing = commands.add_parser("play", help="play what is not in RESULTS yet")
    playing.add_argument("results", type=Path, metavar="RESULTS")
    playing.add_argument("histories", type=Path, metavar="HISTORIES")
    writing = commands.add_parser("write", help="write the tables of the page")
    writing.add_argument("results", type=Path, metavar="RESULTS")
    writing.add_argument("--page", type=Path, default=page)
    asked = parser.parse_args()
    if asked.command == "play":
        play(asked.results, asked.histories)
    else:
        write(asked.page, asked.results)
