"""Which tool a file or a folder is of, and who reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from unstale.errors import InvalidInput

from .cdx import read_cdx
from .changedetection import read_changedetection_folder
from .crawls import read_nutch, read_storm_crawler
from .foreign_mirror import ForeignMirror, as_written_by
from .opml import read_opml
from .urlwatch import read_urlwatch

__all__ = ["KINDS", "kind_of", "read_foreign"]

KINDS: Mapping[str, Callable[[Path], ForeignMirror]] = {
    "changedetection": read_changedetection_folder,
    "urlwatch": read_urlwatch,
    "nutch": read_nutch,
    "stormcrawler": read_storm_crawler,
    "cdx": read_cdx,
    "opml": read_opml,
}


def kind_of(path: Path) -> str | None:
    """Return the kind that a name tells; None if it tells none."""
    name = path.name.lower().removesuffix(".gz")
    if path.is_dir() or name in {"url-watches.json", "changedetection.json"}:
        return "changedetection"
    if name.endswith((".cdx", ".cdxj")):
        return "cdx"
    if name.endswith(".opml"):
        return "opml"
    if name.endswith((".yaml", ".yml")):
        return "urlwatch"
    return "stormcrawler" if name.endswith((".jsonl", ".ndjson")) else None


def read_foreign(path: Path, kind: str) -> ForeignMirror:
    """Read what another tool watches and has seen."""
    if kind == "changedetection" and path.is_file():
        path = path.parent
    if not path.exists():
        raise InvalidInput(f"{path}: no such file or folder")
    with as_written_by(kind, str(path)):
        found = KINDS[kind](path)
    if not found.elements and not found.left_out:
        raise InvalidInput(f"{path}: names no element")
    return found
