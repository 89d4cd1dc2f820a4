"""Copies as WARC (ISO 28500), the format of web archives, to take elsewhere and to bring from elsewhere.

A version of a page becomes a ``response`` record, with the status and the headers that were kept, any other
version a ``resource`` record. What WARC has no field for is in ``WARC-JSON-Metadata``, so that what is
exported comes back as it was: versions, their times, and what the next poll asks with. Archives of others can
be imported too.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from os import PathLike, fspath
from pathlib import Path
from shutil import copyfileobj
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from unstale.errors import InvalidInput, need
from unstale.mirror.engine.discovery import Discovery
from unstale.mirror.json_values import timestamp
from unstale.mirror.source import Json, New
from unstale.mirror.sources.allowed import VALIDATORS, check_allowed
from unstale.mirror.store.contract import Addition, Element, Version
from unstale.mirror.store.sql.imported_polls import Brought, Past, numbers_by_key, recall
from unstale.mirror.store.storable import check_key
from unstale.tables.atomic_files import replacing
from unstale.tables.files import Advance, ignore

from .tables import cells_of
from .warc_records import Damaged, check_whole, put_content, records_of

if TYPE_CHECKING:
    from unstale.mirror.mirror import Mirror

_VERSIONS_AT_ONCE = 500
_AUTHORS = ("archive",)
"""Who names what an archive brings: not the user, so rules give it no secrets."""
_MAX_DEPTH = 20
"""To which what an archive says of a version may be nested."""
_BLOCK_BYTES = 1 << 20
_AHEAD_SECONDS = 86400.0
"""By which a record may be dated ahead of the clock here, since clocks differ."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*")
_OURS = "unstale"
"""Our part of WARC-JSON-Metadata."""
_NAMESPACE = uuid.UUID("7e0b2d3c-6c0f-5a0e-9d0a-2f6f0c1f3b11")


@dataclass(frozen=True)
class Imported:
    """What became of the records of an archive."""

    copies: int
    """Versions that were not there already."""
    elements: int
    """Elements that were added."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Records that cannot be copies: their address, and why."""


# --- export


def export_warc(
    mirror: Mirror | Iterable[Mirror],
    path: str | PathLike[str],
    *,
    pattern: str | None = None,
    latest: bool = False,
    progress: Advance = ignore,
) -> int:
    """Write copies to an archive, all versions or the latest of each element; return how many.

    Those of elements that were removed are left out.
    """
    writers: Any = need("warcio.warcwriter", extra="warc", needed_for="WARC files")
    from fnmatch import fnmatchcase

    from unstale import __version__

    name = _archive(path)
    count = 0
    with replacing(name) as file:
        writer = writers.WARCWriter(file, gzip=name.lower().endswith(".gz"), warc_version="1.1")
        about = {
            "software": f"unstale/{__version__}",
            "format": "WARC File Format 1.1",
            "conformsTo": "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
        }
        writer.write_record(writer.create_warcinfo_record(Path(name).name, about))
        for one in cells_of(mirror):
            for version, element in _wanted_versions(one, progress, latest=latest):
                if not fnmatchcase(version.key, pattern or "*"):
                    continue
                try:
                    body = one.copies.open(version.digest)
                except InvalidInput:  # it has been deleted since
                    continue
                with body, SpooledTemporaryFile(_BLOCK_BYTES) as spool:  # it is read twice, for its digests
                    copyfileobj(body, spool)
                    spool.seek(0)
                    writer.write_record(_record(writer, version, element, spool))
                count += 1
    return count


def _wanted_versions(mirror: Mirror, progress: Advance, *, latest: bool) -> Iterator[tuple[Version, Element]]:
    """Go through the versions of one cell, without those of elements that were removed."""
    after = 0
    while True:
        with mirror.store.begin() as t:
            batch = t.versions(after, _VERSIONS_AT_ONCE)
            elements = t.find([version.key for version in batch])
        if not batch:
            return
        after = batch[-1].id
        for version in batch:
            element = elements.get(version.key)
            if element is None or element.state == "removed":
                continue
            if version.id == element.version or not latest:
                yield version, element
        progress(len(batch))


def _archive(path: str | PathLike[str]) -> str:
    name = fspath(path)
    if not name.lower().endswith((".warc", ".warc.gz")):
        raise InvalidInput(f"the file must end in .warc or .warc.gz; it is {name!r}")
    if not Path(name).resolve().parent.is_dir():
        raise InvalidInput(f"the file must be in a folder that exists; it is {name!r}")
    return name


def _record(writer: Any, version: Version, element: Element, body: IO[bytes]) -> Any:  # noqa: ANN401
    """Return a version as a record."""
    ours: dict[str, Json] = {
        "key": version.key,
        "source": element.source,
        "time": version.time,
        "modified": version.modified,
        "first": version.first,
        "digest": version.digest,
        "media_type": version.media_type,
        "meta": dict(version.meta),
    }
    if version.id == element.version:
        ours |= {"fingerprint": element.fingerprint, "validators": dict(element.validators)}
    identity = uuid.uuid5(_NAMESPACE, f"{version.time!r} {version.digest} {version.key}")
    headers = {
        "WARC-Record-ID": f"<urn:uuid:{identity}>",
        "WARC-Date": timestamp(version.time),
        "WARC-JSON-Metadata": json.dumps({_OURS: ours}),
    }
    said = _http_headers(version) if _is_page(version) else None
    return writer.create_warc_record(
        _uri(version.key),
        "resource" if said is None else "response",
        payload=body,
        length=version.size,
        warc_content_type=_plain(version.media_type) if said is None else "",
        warc_headers_dict=headers,
        http_headers=said,
    )


def _is_page(version: Version) -> bool:
    return version.key.startswith(("http://", "https://")) and isinstance(version.meta.get("status"), int)


def _http_headers(version: Version) -> Any:  # noqa: ANN401
    from warcio.statusandheaders import StatusAndHeaders

    status = version.meta["status"]
    try:
        phrase = HTTPStatus(int(str(status))).phrase
    except ValueError:
        phrase = ""
    kept = version.meta.get("headers")
    listed = kept if isinstance(kept, dict) else {}
    headers = [
        (name, _plain(str(value)))
        for name, value in listed.items()
        if re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name)
        and name.lower() not in {"content-encoding", "content-length", "transfer-encoding"}
    ]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("content-type", _plain(version.media_type)))
    headers.append(("content-length", str(version.size)))  # of the content as it is here, not compressed
    return StatusAndHeaders(f"{status} {phrase}".strip(), headers, protocol="HTTP/1.1")


def _plain(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())


def _uri(key: str) -> str:
    """Return a key as an address; what is none already gets a scheme of ours.

    >>> _uri("https://example.org/"), _uri("warehouse#daily orders")
    ('https://example.org/', 'unstale:warehouse%23daily%20orders')
    """
    return key if _URI.fullmatch(key) and not key.startswith("unstale:") else f"unstale:{quote(key, safe='')}"


def _key(uri: str) -> str:
    return unquote(uri.removeprefix("unstale:")) if uri.startswith("unstale:") else uri


# --- import


@dataclass(frozen=True)
class _Read:
    """A record that is a copy."""

    addition: Addition
    time: float
    first: bool | None
    """None: it does not say."""
    brought: Brought


def import_warc(
    mirror: Mirror,
    path: str | PathLike[str],
    *,
    allow: Collection[str] = (),
    progress: Advance = ignore,
) -> Imported:
    """Bring copies from an archive; elements that are not there are added.

    A copy from before the latest version that an element has is left out. Nothing is learned from them, as
    an archive does not tell how often nothing had changed; import the history for that, before.

    Copies of the web and of functions are taken; those of other sources only if ``allow`` names the source.
    With ``validators`` in it, the next poll asks whether anything has changed since, as the archive says; a
    stranger's archive could make the mirror keep a forged copy that way. Without, it asks for the content.
    """
    need("warcio", extra="warc", needed_for="WARC files")
    name = _archive(path)
    check_whole(name)
    discovery = mirror.discovery()
    read: list[_Read] = []
    skipped: list[tuple[str, str]] = []
    with records_of(name) as records:
        for record in records:
            uri = _key((record.rec_headers.get_header("WARC-Target-URI") or "").strip("<>"))
            try:
                found = _read(mirror, discovery, record, uri, allow)
            except InvalidInput as error:
                skipped.append((uri, str(error)))
                continue
            if found is not None:
                read.append(found)
                progress(1)
    added, copies = _bring(mirror, sorted(read, key=lambda one: one.time))
    return Imported(copies, added, skipped)


def _read(
    mirror: Mirror,
    discovery: Discovery,
    record: Any,  # noqa: ANN401
    uri: str,
    allow: Collection[str],
) -> _Read | None:
    """Put the content of a record into the folder of copies; None for a record that holds no copy."""
    if record.rec_type not in {"response", "resource"}:
        return None
    headers: dict[str, str] = {}
    if record.rec_type == "response":
        if record.http_headers is None:
            raise InvalidInput("it is not an answer of HTTP")
        if record.http_headers.get_statuscode() != "200":
            raise InvalidInput(f"its status is {record.http_headers.get_statuscode()}")
        headers = {key.lower(): value for key, value in record.http_headers.headers}
    ours = _ours(record.rec_headers.get_header("WARC-JSON-Metadata"))
    now = mirror.clock.now()
    time = _date(record.rec_headers.get_header("WARC-Date"), now)
    if isinstance(ours.get("key"), str) and isinstance(ours.get("source"), str):
        addition = discovery.addition(New(str(ours["key"]), str(ours["source"])), {}, authors=_AUTHORS)
    else:
        addition, ours = discovery.addition(New(uri), {}, authors=_AUTHORS), {}
    check_allowed(addition.key, addition.source, {}, allow)
    check_key(addition.key)
    digest, size = put_content(mirror, record)
    if getattr(record.raw_stream, "limit", 0) > 0 or ours.get("digest", digest) != digest:
        raise Damaged(f"the content of {uri} is not all there")
    if not ours:
        content_type = headers.get("content-type") or record.rec_headers.get_header("Content-Type") or ""
        media_type = content_type.partition(";")[0].strip().lower() or "application/octet-stream"
        kept: dict[str, Json] = {"url": uri, "status": 200, "type": content_type}
        for ours_name, theirs in (("etag", "etag"), ("modified", "last-modified")):
            if headers.get(theirs):
                kept[ours_name] = headers[theirs]
        page = record.rec_type == "response"
        brought = Brought(digest, size, media_type, _http_date(headers.get("last-modified"), now),
                          {"url": uri, "status": 200, "headers": dict(headers)} if page else {},
                          validators=kept if page else {})  # fmt: skip
        return _Read(addition, time, None, brought)
    brought = Brought(
        digest,
        size,
        str(ours.get("media_type") or "application/octet-stream"),
        _moment(ours.get("modified"), now),
        _mapping(ours.get("meta")),
        str(ours.get("fingerprint") or "") if VALIDATORS in allow else "",
        _mapping(ours.get("validators")) if VALIDATORS in allow else {},
    )
    exact = _moment(ours.get("time"), now)
    return _Read(addition, time if exact is None else exact, bool(ours.get("first")), brought)


def _ours(text: str | None) -> dict[str, Json]:
    try:
        whole = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return _mapping(whole.get(_OURS)) if isinstance(whole, dict) else {}


def _mapping(value: Any, depth: int = _MAX_DEPTH) -> dict[str, Json]:  # noqa: ANN401
    """Return a mapping, without what is nested so deep that those who read it later could not."""
    if not isinstance(value, Mapping):
        return {}
    return {name: entry for name, entry in value.items() if _is_flat(entry, depth)}


def _is_flat(value: Any, depth: int) -> bool:  # noqa: ANN401
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_flat(one, depth - 1) for one in inner)


def _date(text: str | None, now: float) -> float:
    try:
        found = datetime.fromisoformat((text or "").strip())
    except ValueError:
        raise InvalidInput(f"it has no date, but {text!r}") from None
    moment = _moment((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp(), now)
    if moment is None:
        raise InvalidInput(f"it is dated {text}; a copy was made after 1970, and not in the future")
    return moment


def _moment(value: Json, now: float) -> float | None:
    """Return seconds since 1970; None for what was no moment at which a copy can have been made."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= now + _AHEAD_SECONDS else None  # type: ignore[operator,arg-type]


def _http_date(text: str | None, now: float) -> float | None:
    try:
        return None if text is None else _moment(parsedate_to_datetime(text).timestamp(), now)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def _bring(mirror: Mirror, read: list[_Read]) -> tuple[int, int]:
    """Record copies, in the order of time; return how many elements were added, and how many copies."""
    added = copies = 0
    seen: dict[str, str] = {}
    """The content that each element had last."""
    for start in range(0, len(read), _VERSIONS_AT_ONCE):
        batch = read[start : start + _VERSIONS_AT_ONCE]
        wishes = {one.addition.key: one.addition for one in batch}
        with mirror.store.begin() as t:
            there = numbers_by_key(t, wishes)
            new = [wish for key, wish in wishes.items() if key not in there]
            t.add(new, mirror.clock.now())
            added += len(new)
            found = t.find(list(wishes))
            pasts = []
            for one in batch:
                element = found[one.addition.key]
                before = seen.get(element.key, element.fingerprint if element.version is not None else None)
                first = one.first if one.first is not None else before is None
                if one.first is None and before == one.brought.digest:
                    continue  # an archive of others may hold the same content many times
                seen[element.key] = one.brought.digest
                outcome = "new" if first else "changed"
                pasts.append(Past(element.id, one.time, outcome, detail="imported", brought=one.brought))
            copies += recall(t, pasts)
    return added, copies
