"""changedetection.io: its data folder (of today, and with ``url-watches.json`` as before), or its API.

It keeps the moments at which something had changed, not those at which nothing had. Between two changes it
looked at its interval, so one unchanged look just before each change says the same of the time between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.source import Json

from .foreign_mirror import (
    ForeignElement,
    ForeignMirror,
    ForeignPoll,
    as_written_by,
    read_json,
    read_text,
    word_of,
)

__all__ = ["read_changedetection_api", "read_changedetection_folder"]

_KNOWN_SCHEMAS = range(34)
_UNITS = {"weeks": 604800.0, "days": 86400.0, "hours": 3600.0, "minutes": 60.0, "seconds": 1.0}
_DEFAULT_SECONDS = 3.0 * 3600.0
_REGEX = re.compile(r"^/(.*)/([a-z]*)$", re.DOTALL)
_MOST_ANSWER_BYTES = 50_000_000
_MOST_TAGS = 50
_Watch = Mapping[str, Any]


class _Stays(HTTPRedirectHandler):
    """Follows no redirect: urllib would give the key to whoever it leads to."""

    def redirect_request(self, *_: object) -> None:
        """Return nothing to follow."""


_OPENER = build_opener(_Stays)


def read_changedetection_folder(folder: Path) -> ForeignMirror:
    """Read a data folder."""
    old, new = folder / "url-watches.json", folder / "changedetection.json"
    if not old.is_file() and not new.is_file():
        raise InvalidInput(
            f"{folder}: holds neither changedetection.json nor url-watches.json; name the data folder of "
            "changedetection.io"
        )
    main = new if new.is_file() else old
    said = read_json(main)
    try:
        application = said["settings"]["application"]
        schema = application.get("schema_version", 0)
        default = _seconds(said["settings"].get("requests", {}).get("time_between_check"))
        tags = dict(application.get("tags") or {}) | dict(_parts(folder, "tag.json"))
        watches = said["watching"] if main == old else dict(_parts(folder, "watch.json"))
        if not isinstance(watches, dict):
            raise TypeError  # noqa: TRY301
    except (KeyError, TypeError, AttributeError):
        raise InvalidInput(f"{main}: is no file of settings of changedetection.io, or was cut") from None
    if schema not in _KNOWN_SCHEMAS:
        raise InvalidInput(f"{main}: its schema is {schema!r}; those up to {_KNOWN_SCHEMAS[-1]} are known")

    def moments(number: str) -> list[float]:
        file = folder / number / "history.txt"
        return _moments(file, read_text(file).splitlines()) if file.is_file() else []

    return _mirror(watches, _titles(tags), default or _DEFAULT_SECONDS, moments)


def read_changedetection_api(server: str, key: str, *, timeout: float = 30.0) -> ForeignMirror:
    """Read from a server, such as ``http://127.0.0.1:5000``, with its key for the API."""
    if urlsplit(server).scheme not in {"http", "https"}:
        raise InvalidInput(f"the server must be an address such as http://127.0.0.1:5000; it is {server!r}")

    def get(path: str) -> dict[str, Any]:
        request = Request(f"{server.rstrip('/')}/api/v1/{path}", headers={"x-api-key": key})  # noqa: S310
        try:
            with _OPENER.open(request, timeout=timeout) as answer:
                body = answer.read(_MOST_ANSWER_BYTES + 1)
        except HTTPError as error:
            why = "; is the key right?" if error.code in {401, 403} else ""
            raise InvalidInput(f"{server} answered {error.code}{why}") from None
        except OSError as error:
            raise Trouble(f"{server} cannot be asked: {error}") from None
        try:
            said = json.loads(body) if len(body) <= _MOST_ANSWER_BYTES else None
        except (ValueError, RecursionError):
            said = None
        if not isinstance(said, dict):
            raise InvalidInput(f"{server} answered with something else than changedetection.io does")
        return said

    def moments(number: str) -> list[float]:
        return _moments(Path(server), list(get(f"watch/{number}/history")))

    with as_written_by("changedetection", server):
        numbers = [one for one in get("watch") if re.fullmatch(r"[0-9a-f-]{36}", one)]
        watches = {number: get(f"watch/{number}") for number in numbers}
        tags = get("tags") if any(watch.get("tags") for watch in watches.values()) else {}
        return _mirror(watches, _titles(tags), _DEFAULT_SECONDS, moments)


def _parts(folder: Path, name: str) -> Iterator[tuple[str, _Watch]]:
    """Yield the files of that name, each with the number that its folder is called by."""
    for file in sorted(folder.glob(f"*/{name}")):
        yield file.parent.name, read_json(file)


def _titles(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return the titles of tags by number, each as one word."""
    found = {}
    for number, tag in tags.items():
        title = tag.get("title") if isinstance(tag, Mapping) else None
        if isinstance(title, str) and (word := word_of(title)):
            found[str(number)] = word
    return found


def _moments(file: Path, lines: list[str]) -> list[float]:
    """Return the moments of a history, each at the beginning of a line."""
    found = []
    for number, line in enumerate(lines, 1):
        moment = line.partition(",")[0].strip()
        if not moment:
            continue
        if not (moment.isascii() and moment.isdigit()) or len(moment) > 11:
            raise InvalidInput(f"{file}, line {number}: must begin with seconds since 1970: {line[:80]!r}")
        found.append(float(moment))
    return sorted(set(found))


def _mirror(
    watches: Mapping[str, _Watch],
    tags: Mapping[str, str],
    default: float,
    moments: Callable[[str], list[float]],
) -> ForeignMirror:
    found = ForeignMirror()
    for number, watch in watches.items():
        key = watch.get("url")
        if not isinstance(key, str) or not key.strip():
            found.left_out.append((str(number), "it has no address"))
            continue
        why = _why_not(watch)
        if why:
            found.left_out.append((key, why))
            continue
        if not re.fullmatch(r"[\w-]{1,64}", str(number)):
            raise InvalidInput(f"{str(number)[:80]!r} is no number of a watch")
        own = not watch.get("time_between_check_use_default", False)
        every = (_seconds(watch.get("time_between_check")) if own else 0.0) or default
        options, notes = _options(watch)
        found.left_out += [(key, note) for note in notes]
        if key in found.elements:
            found.left_out.append((key, "it is watched twice; the first watch counts"))
            continue
        named = [tags.get(str(one), "") for one in watch.get("tags") or []][:_MOST_TAGS]
        words = tuple(sorted({*filter(None, named)}))
        found.add(ForeignElement(key, None, options, every, words, paused=bool(watch.get("paused"))))
        _tell_history(found, key, moments(str(number)), watch.get("last_checked"), every)
    return found


def _why_not(watch: _Watch) -> str:
    if str(watch.get("method") or "GET").upper() != "GET":
        return f"it is asked for with {watch['method']}, and the mirror only reads"
    return ""


def _options(watch: _Watch) -> tuple[dict[str, Json], list[str]]:
    """Return options that do what the filters of a watch do, and words about the others."""
    options: dict[str, Json] = {"change": "text"}
    notes = []
    selectors = [str(one).strip() for one in watch.get("include_filters") or [] if str(one).strip()]
    css = [one for one in selectors if not one.startswith(("/", "xpath", "json", "jq"))]
    if css:
        options["selector"] = ", ".join(css)
    if len(css) < len(selectors):
        notes.append("its filters by XPath or JSON were not taken: say selector in a rule")
    ignored: list[Json] = []
    for one in watch.get("ignore_text") or []:
        found = _REGEX.match(str(one))
        ignored.append(found[1] if found else f"[^\\n]*{re.escape(str(one))}[^\\n]*")
    if ignored:
        options["ignore"] = ignored
    for name, words in (
        ("subtractive_selectors", "its elements to remove were not taken: say ignore or selector in a rule"),
        ("trigger_text", "its trigger text was not taken"),
        ("headers", "its headers were not taken, since they may be secrets: say them in a rule"),
        ("browser_steps", "its browser steps were not taken"),
    ):
        if watch.get(name):
            notes.append(words)
    if str(watch.get("fetch_backend")) == "html_webdriver":
        notes.append("it was rendered in a browser, and is polled as it is: add it as browser:ADDRESS")
    return options, notes


def _tell_history(
    found: ForeignMirror, key: str, moments: list[float], checked: object, every: float
) -> None:
    for before, moment in zip([0.0, *moments], moments, strict=False):
        if before and moment - before > 1.5 * every:
            found.saw(ForeignPoll(key, moment - every, "unchanged"))
        found.saw(ForeignPoll(key, moment, "changed" if before else "new"))
    last = float(checked) if isinstance(checked, int | float) else 0.0
    if moments and last > moments[-1]:
        found.saw(ForeignPoll(key, last, "unchanged"))


def _seconds(said: object) -> float:
    if not isinstance(said, Mapping):
        return 0.0
    total = 0.0
    for name, unit in _UNITS.items():
        value = said.get(name)
        if isinstance(value, int | float) and value > 0:
            total += value * unit
    return total
