"""Finding sources: by name, and by the form of a key.

A source is an entry point of the group ``unstale.sources``: a callable that takes the settings of the mirror
and returns the source. Other packages register their sources in the same way as unstale does. If a source
cannot be loaded, only its own elements fail, with a message that names the package.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, Source, StoppableSource, Terms

GROUP = "unstale.sources"
"""The group of entry points."""
_OWN_PACKAGE = "unstale"
"""No other package can replace a source of this one by registering the same name."""
_SOURCE_METHODS = ("key", "group", "poll", "close")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]+(?:\+[A-Za-z0-9.-]+)?):")
"""At least two letters, since C: is a drive."""
_MOST_CHARACTERS = 10_000
"""Of a key, whatever its source."""
_TABLE_KEY = re.compile(r"[A-Za-z_][\w-]*#.")
_PORT = re.compile(r"[\w.-]+:\d{1,5}(?=[/?]|$)")
_HERE = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(?=[:/?]|$)", re.IGNORECASE)
_SQLITE = b"SQLite format 3\0"
"""With which files of SQLite begin."""
_DATABASE_SCHEMES = frozenset({"mariadb", "mssql", "mysql", "oracle", "postgres", "postgresql", "sqlite"})
_PREFIX_SOURCES = frozenset({"browser", "feed", "sitemap", "sql"})
"""Sources whose name may stand in front of a key, and is not part of the key."""


class BrokenSource:
    """Stands for a source that cannot be loaded: adding and polling its elements fail with the reason."""

    def __init__(self, why: str) -> None:
        self.why = why

    def key(self, text: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Raise `InvalidInput` with the reason."""
        raise InvalidInput(f"{text} cannot be added: {self.why}")

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Return one group for all elements of broken sources."""
        return "broken"

    async def poll(self, known: Known, terms: Terms) -> Found:  # noqa: ARG002
        """Fail with the reason."""
        return Found("failed", self.why)

    async def close(self) -> None:
        """Do nothing: there are no connections."""


class Sources(Mapping[str, Source]):
    """Sources by name; each is loaded at its first use.

    >>> sorted(load_sources(Settings()))[:3]
    ['browser', 'feed', 'file']
    """

    def __init__(self, settings: Settings, registered: Mapping[str, tuple[EntryPoint, ...]]) -> None:
        self._settings, self._registered = settings, registered
        self._loaded: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        """Return a source; a `BrokenSource` if it cannot be loaded."""
        if name not in self._loaded:
            self._loaded[name] = _load(name, self._registered[name], self._settings)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether a source of this name is registered; this loads nothing."""
        return name in self._registered

    def __iter__(self) -> Iterator[str]:
        return iter(self._registered)

    def __len__(self) -> int:
        return len(self._registered)

    def stop_polls(self) -> None:
        """Stop polls of sources that can stop them."""
        stop_polls(self._loaded.values())

    async def close(self) -> None:
        """Close the connections of all sources; the sources can be used again."""
        for source in list(self._loaded.values()):
            await source.close()


def stop_polls(sources: Iterable[Source]) -> None:
    """Stop polls of those sources that can stop them."""
    for source in sources:
        if isinstance(source, StoppableSource):
            source.stop_polls()


def load_sources(settings: Settings) -> Sources:
    """Return all registered sources; each is loaded at its first use."""
    return Sources(settings, _registered(entry_points(group=GROUP)))


def source_named(sources: Mapping[str, Source], name: str) -> Source:
    """Return the source of this name; a `BrokenSource` if none is registered.

    >>> source_named(load_sources(Settings()), "carrier-pigeon").key("x", {})
    Traceback (most recent call last):
    unstale.errors.InvalidInput: x cannot be added: there is no source 'carrier-pigeon'; there are browser,
    feed, file, http, python, sitemap, sql. If it comes from a package of its own, install that package
    """
    if name in sources:
        return sources[name]
    return BrokenSource(
        f"there is no source {name!r}; there are {', '.join(sorted(sources))}. "
        "If it comes from a package of its own, install that package"
    )


def source_for(text: str, options: Mapping[str, Json] | None = None) -> tuple[str, str]:
    """Return the name of the source that a key suggests, and the key without the name of the source.

    >>> source_for("https://example.org/")
    ('http', 'https://example.org/')
    >>> source_for("feed:https://example.org/news.xml"), source_for("warehouse#orders")
    (('feed', 'https://example.org/news.xml'), ('sql', 'warehouse#orders'))
    >>> source_for("/srv/data/"), source_for("s3://bucket/data.csv")
    (('file', '/srv/data/'), ('file', 's3://bucket/data.csv'))
    """
    text = text.strip()
    if not text:
        raise InvalidInput("the key of an element is empty; give an address, a file, or a table")
    if len(text) > _MOST_CHARACTERS:
        raise InvalidInput(
            f"{text[:60] + '...'!r} is too long: {len(text):,} characters, of at most {_MOST_CHARACTERS:,}"
        )
    if (options or {}).get("tree") in (True, "true"):
        return "file", text
    if found := _SCHEME.match(text):
        return _by_scheme(found[1].lower(), text, found.end())
    if (table := _table_of_file(text)) is not None:
        return "sql", table
    if _TABLE_KEY.match(text):
        return "sql", text
    if text.startswith(("/", "./", "../", "~", "\\")) or text in {".", ".."} or _there(text):
        return "file", text
    raise InvalidInput(
        f"{text!r} is neither an address nor a file that is there; write {web_address(text)} for a page, "
        f"./{text} for a file that is not there yet, NAME#TABLE for a table of a database, "
        "or name the source"
    )


def _by_scheme(scheme: str, text: str, end: int) -> tuple[str, str]:
    """Return the source and the key of a key that begins with a scheme; see `source_for`."""
    if scheme in {"http", "https"}:
        return "http", text
    names = _names(GROUP)
    if scheme in names:
        return scheme, text[end:] if scheme in _PREFIX_SOURCES else text
    dialects = _DATABASE_SCHEMES | _names("sqlalchemy.dialects")
    if scheme.partition("+")[0] in dialects:
        return "sql", text
    from fsspec import available_protocols

    if scheme in available_protocols() or _there(text):  # a file's name may have a colon
        return "file", text
    if _PORT.match(text):
        raise InvalidInput(f"{text!r} lacks its beginning; write {web_address(text)} for a page")
    others = sorted(names - {"browser", "feed", "file", "http", "python", "sitemap", "sql"})
    raise InvalidInput(
        f"{text!r} begins with {scheme}:, which no source knows; known are http: and https: (pages), "
        f"{', '.join(f'{name}:' for name in sorted(dialects))} (databases), file:, s3:, gs: and all that "
        "fsspec opens (files), "
        + "".join(f"{name}:, " for name in others)
        + "python:, and browser:, feed: or sitemap: in front of an address. "
        f"To name a source, say --source NAME, or source=NAME in Python; there are {', '.join(sorted(names))}"
    )


def web_address(text: str) -> str:
    """Return the address that is meant by one without its beginning; this machine seldom has certificates.

    >>> web_address("example.org/news"), web_address("localhost:8000/"), web_address("127.0.0.1")
    ('https://example.org/news', 'http://localhost:8000/', 'http://127.0.0.1')
    """
    return f"http://{text}" if _HERE.match(text) else f"https://{text}"


def is_sqlite(file: Path) -> bool:
    """Tell whether a file that is there is a database of SQLite."""
    try:
        if not file.is_file():  # a pipe would be waited for
            return False
        with file.open("rb") as opened:
            return opened.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):  # a name too long, or one with a NUL
        return False


def _table_of_file(text: str) -> str | None:
    """Return the key of a table that is named by the file of its database; None if that is none.

    It says where the file is, whatever folder the mirror is run from.
    """
    name, _, table = text.partition("#")
    file = Path(os.path.expanduser(name))  # noqa: PTH111  (it lets a user who is not there be)
    if not (name and table) or "?" in name or _there(text) or not is_sqlite(file):
        return None
    return f"sqlite:///{file.absolute()}#{table}"


@cache
def _names(group: str) -> frozenset[str]:
    """Return the names of a group of entry points; cached, since a lookup takes milliseconds."""
    return frozenset(point.name for point in entry_points(group=group))


def _there(text: str) -> bool:
    """Tell whether this file exists."""
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def _registered(points: Iterable[EntryPoint]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of each name; several if packages register the same name."""
    found: dict[str, list[EntryPoint]] = {}
    for point in points:
        found.setdefault(point.name, []).append(point)
    return {name: _rightful(several) for name, several in sorted(found.items())}


def _rightful(points: list[EntryPoint]) -> tuple[EntryPoint, ...]:
    """Return the entry point of unstale if there is one, otherwise all that differ."""
    ours = [point for point in points if _package(point) == _OWN_PACKAGE]
    return tuple({(_package(point), point.value): point for point in ours[:1] or points}.values())


def _package(point: EntryPoint) -> str:
    """Return the name of the package that registered an entry point."""
    return point.dist.name if point.dist is not None else "unknown"


def _load(name: str, points: tuple[EntryPoint, ...], settings: Settings) -> Source:
    """Return the source, or a `BrokenSource` that says why it cannot be loaded."""
    if len(points) > 1:
        packages = " and ".join(sorted(_package(point) for point in points))
        return BrokenSource(f"the packages {packages} both register a source {name!r}; uninstall one of them")
    package = _package(points[0])
    try:
        source: Source = points[0].load()(settings)
    except Exception as error:  # noqa: BLE001  (other sources work, whatever this package raises)
        words = f"{type(error).__name__}: {error}"
        return BrokenSource(f"the source {name!r} of the package {package!r} cannot be loaded: {words}")
    missing = [method for method in _SOURCE_METHODS if not callable(getattr(source, method, None))]
    if missing:
        return BrokenSource(
            f"the source {name!r} of the package {package!r} has no {' and no '.join(missing)}; "
            "see unstale.mirror.source for what a source is"
        )
    return source
