"""Dumps of Nutch (``readdb -dump``, text or CSV), and of StormCrawler's status index (JSON lines)."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from unstale.errors import InvalidInput

from .foreign_mirror import ForeignElement, ForeignMirror, ForeignPoll, read_text

__all__ = ["read_nutch", "read_storm_crawler"]

_MOST_BYTES = 500_000_000
_STATUS = re.compile(r"\((db_\w+)\)")
_NUTCH_TIME = "%a %b %d %H:%M:%S %Y"
_Outcome = Literal["new", "changed", "unchanged", "gone", "failed"]
_NUTCH: dict[str, _Outcome] = {"db_fetched": "new", "db_notmodified": "new", "db_gone": "gone"}
_STORM: dict[str, _Outcome] = {"FETCHED": "new", "ERROR": "gone", "FETCH_ERROR": "failed"}


def read_nutch(path: Path) -> ForeignMirror:
    """Read a dump of a crawl database; it holds the last poll of each page."""
    text = read_text(path, _MOST_BYTES)
    found = ForeignMirror()
    if text.lstrip('"').startswith("Url"):
        rows: Iterable[dict[str, str]] = csv.DictReader(text.splitlines())
    else:
        rows = _records(path, text)
    for number, row in enumerate(rows, 1):
        key, status = row.get("Url") or "", row.get("Status name") or ""
        if not key or not status.startswith("db_"):
            raise InvalidInput(f"{path}: record {number} has no address or no status; was it cut?")
        if status in {"db_duplicate", "db_redir_temp", "db_redir_perm"}:
            found.left_out.append((key, f"it is {status}"))
            continue
        try:
            every = float(row.get("Retry interval seconds") or 0.0)
            at = _moment(row.get("Fetch Time") or "") - every  # what is said is the next one
        except ValueError:
            raise InvalidInput(
                f"{path}: record {number} ({key[:200]}) has no fetch time; was it cut?"
            ) from None
        found.add(ForeignElement(key, None, {}, every))
        if status in _NUTCH and at > 0:
            found.saw(ForeignPoll(key, at, _NUTCH[status]))
    return found


def _records(path: Path, text: str) -> Iterable[dict[str, str]]:
    """Yield the records of a dump as text, as those of the CSV."""
    if "\tVersion: " not in text[:100_000]:
        raise InvalidInput(f"{path}: is no dump of Nutch (readdb -dump)")
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        said = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        status = _STATUS.search(said.get("Status", ""))
        yield {
            "Url": lines[0].partition("\t")[0],
            "Status name": status[1] if status else "",
            "Fetch Time": said.get("Fetch time", ""),
            "Retry interval seconds": said.get("Retry interval", "").partition(" ")[0],
        }


def _moment(text: str) -> float:
    """Return a time as Java writes it (``Thu Jan 01 00:00:00 UTC 2026``), or as ISO does."""
    parts = text.split()
    if len(parts) == 6:
        if parts[4] not in {"UTC", "GMT", "Z"}:
            raise ValueError(f"in the zone {parts[4]}")
        return datetime.strptime(" ".join(parts[:4] + parts[5:]), _NUTCH_TIME).replace(tzinfo=UTC).timestamp()
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_storm_crawler(path: Path) -> ForeignMirror:
    """Read documents of the status index, one in a line, as search engines export them (with ``_source``)."""
    found = ForeignMirror()
    for number, line in enumerate(read_text(path, _MOST_BYTES).splitlines(), 1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            said = said.get("_source", said)
            key, status = said["url"], str(said["status"])
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            raise InvalidInput(
                f"{path}, line {number}: is no document with url and status; was it cut?"
            ) from None
        found.add(ForeignElement(str(key)))
        if status not in _STORM:
            continue
        metadata = said.get("metadata") if isinstance(said.get("metadata"), dict) else {}
        when = said.get("lastProcessedDate") or metadata.get("lastProcessedDate")
        when = when[0] if isinstance(when, list) and when else when
        if isinstance(when, str):
            try:
                found.saw(ForeignPoll(str(key), _moment(when), _STORM[status]))
            except ValueError:
                raise InvalidInput(f"{path}, line {number}: its date is {when[:60]!r}") from None
    return found
