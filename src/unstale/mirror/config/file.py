"""Reading mirror.toml.

Every error message names the file, the line and the key, says what is allowed, and suggests the nearest known
name. No message repeats a value that may be a secret.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.settings import (
    Browser,
    Composed,
    Database,
    DiscoveryLimits,
    GroupLimit,
    Http,
    Notify,
    Reads,
    Replicas,
    Rule,
    Settings,
)

from .keys import SECTIONS, Key, Section
from .keywords import FIELDS
from .toml_lines import TomlPath, line_numbers
from .values import shown_value

FILE = "mirror.toml"
WATCHED = "unstale-mirror"
"""The folder in which ``unstale watch`` makes a mirror."""
VARIABLE = "UNSTALE_MIRROR"
_MAX_FILE_BYTES = 10_000_000
"""A larger file cannot be a configuration."""
_SECTION_BY_NAME = {section.name: section for section in SECTIONS}
_DEFAULT_PAGE_LIMIT = Settings().groups[0]
"""The limit of groups of pages, if the file gives none."""


@dataclass(frozen=True)
class Config:
    """The content of a mirror.toml."""

    settings: Settings = field(repr=False)
    """Not in the repr, since addresses of databases hold passwords."""
    store: str = field(repr=False)
    """Path of an SQLite file, or address of a PostgreSQL database."""
    copies: Path | str | None
    """Path of a folder, or address of a bucket."""
    path: Path
    lines: Mapping[TomlPath, int] = field(default_factory=dict, repr=False, compare=False)
    """The line of each key."""


def find(start: Path | str = ".") -> Path:
    """Return the mirror.toml of a folder, or the one that the environment names.

    Without either it is that of `WATCHED`, if ``unstale watch`` has made one there.
    """
    named = os.environ.get(VARIABLE)
    if named:
        path = Path(named)
        return path / FILE if path.is_dir() else path
    here, watched = Path(start) / FILE, Path(start) / WATCHED / FILE
    return watched if not here.exists() and watched.exists() else here


def check_owner(path: Path) -> None:
    """Refuse a mirror.toml that nobody named and another user wrote: it can start commands.

    It is found because it is in the current folder, which may be one in which others can write.
    """
    if os.environ.get(VARIABLE) or not hasattr(os, "getuid"):
        return
    try:
        owner = path.stat().st_uid
    except OSError:  # who reads it says why it cannot be read
        return
    if owner not in {0, os.getuid()} and str(owner) != os.environ.get("SUDO_UID"):
        raise InvalidInput(
            f"{path} belongs to another user, who chooses with it what is run and sent from here; if you "
            f"trust it, name it: --mirror {path}"
        )


def without_password(url: str) -> str:
    """Return the address of a database without its password.

    >>> without_password("postgresql://me:secret@db/x?password=1"), without_password("mirror.db")
    ('postgresql://me:***@db/x', 'mirror.db')
    """
    if "://" not in url:
        return url
    scheme, _, rest = url.partition("://")
    before, at, after = rest.partition("?")[0].rpartition("@")
    user, colon, _ = before.partition(":")
    return f"{scheme}://{user}{colon and ':***'}{at}{after}"


def load(path: Path | str) -> Config:
    """Read a mirror.toml, or raise `InvalidInput`."""
    path = Path(path)
    text = _text(path)
    try:
        said = tomllib.loads(text)
    except RecursionError:
        raise InvalidInput(f"{path}: lists or tables are nested too deeply") from None
    except ValueError as error:  # TOMLDecodeError, or a number with too many digits
        raise InvalidInput(_syntax(path, text, str(error))) from None
    return _ConfigReader(path, said, text).config()


def _text(path: Path) -> str:
    todo = f"make one with 'unstale init', or name one with --mirror FILE or {VARIABLE}"
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise InvalidInput(f"{path}: no such file; {todo}") from None
    except IsADirectoryError:
        raise InvalidInput(f"{path}: is a folder, and should be a file {FILE}; {todo}") from None
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        why = error.strerror if isinstance(error, OSError) else error
        raise InvalidInput(f"{str(path)!r}: cannot be read: {why}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise InvalidInput(f"{path}: has more than 10 MB, which is no configuration")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{path}, line {line}: is not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None


def _syntax(path: Path, text: str, complaint: str) -> str:
    """Return the message for broken TOML, with its line."""
    found = re.search(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$", complaint)
    line = int(found[1]) if found and found[1] else max(text.rstrip().count("\n") + 1, 1)
    what = complaint[: found.start()] if found else complaint
    if what.startswith(("Invalid value", "Expected newline or end of document after a statement")):
        what += '; texts, times and amounts are in quotes, as in budget = "1000/day"'
    return f"{path}, line {line}: this is not TOML: {what[:1].lower()}{what[1:]}"


def _nearest(name: str, known: list[str]) -> str | None:
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return close[0] if close else None


class _ConfigReader:
    """Reads one file, and raises `InvalidInput` with the line of the mistake."""

    def __init__(self, path: Path, said: dict[str, Any], text: str) -> None:
        self.path, self.said, self.text, self.lines = path, said, text, line_numbers(text)
        self.folder = path.parent

    def config(self) -> Config:
        for name, value in self.said.items():
            self._known_section(name, value)
        mirror = self._section("mirror")
        copies = mirror.pop("copies", None)
        store = mirror.pop("store", str(self.folder / "mirror.db"))
        if "://" in store and copies is None:
            self._fail(
                ("mirror", "store"), "[mirror] copies must be given if the store is not an SQLite file"
            )
        settings = Settings(
            **{FIELDS.get(name, name): value for name, value in mirror.items()},
            http=Http(**self._section("http")),
            browser=Browser(**self._section("browser")),
            discovery=DiscoveryLimits(**self._section("discovery")),
            reads=Reads(**self._section("reads")),
            replicas=self._replicas(),
            composed=tuple(self._composed()),
            groups=tuple(self._groups(mirror.get("policy", "optimal"))),
            rules=tuple(self._rules(mirror.get("policy", "optimal"))),
            databases=self._databases(),
            notify=tuple(self._notify()),
            hint_file=self._section("hints").get("file"),
        )
        where = copies if copies is None or "://" in copies else Path(copies)
        if settings.replicas.budget == "shared":
            settings = self._part_of_replica(settings)
        return Config(settings, store, where, self.path, self.lines)

    def _replicas(self) -> Replicas:
        """Return which of several replicas the mirror is."""
        said = self._section("replicas")
        if not said:
            return Replicas()
        for name in ("folder", "number", "count"):
            if name not in said:
                self._fail(("replicas",), f"[replicas] {name} must be given")
        if said["number"] > said["count"]:
            self._fail(
                ("replicas", "number"),
                f"[replicas] number must be from 1 to {said['count']}, the count; it is {said['number']}",
            )
        there = said.get("addresses", ())
        if there and len(there) != said["count"]:
            self._fail(
                ("replicas", "addresses"),
                f"[replicas] addresses must be {said['count']}, one for each replica; there are {len(there)}",
            )
        return Replicas(**said)

    def _part_of_replica(self, settings: Settings) -> Settings:
        """Return settings with the part that one replica has of a budget that is for all of them."""
        count, all_of_it = settings.replicas.count, (settings.budget, settings.byte_budget)
        if all_of_it == (None, None):
            self._fail(
                ("replicas", "budget"),
                '[replicas] budget = "shared" needs a budget to share: budget or bytes below [mirror]',
            )
        polls, size = (None if one is None else one / count for one in all_of_it)
        fastest = None if settings.max_rate is None else settings.max_rate / count
        return replace(settings, budget=polls, byte_budget=size, max_rate=fastest)

    def _fail(self, toml_path: TomlPath, complaint: str) -> NoReturn:
        line = None
        while toml_path and line is None:  # the line of the key, or of what contains it
            line = self.lines.get(toml_path)
            toml_path = toml_path[:-1]
        where = f"{self.path}, line {line}" if line else f"{self.path}"
        raise InvalidInput(f"{where}: {complaint}") from None

    def _known_section(self, name: str, value: object) -> None:
        section = _SECTION_BY_NAME.get(name)
        if section is None:
            self._unknown_section(name, value)
        if section.many:
            if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
                self._fail((name,), f"there can be several {section.heading}: write it with two brackets")
        elif not isinstance(value, dict):
            self._fail((name,), f"{name!r} must be a section: write {section.heading}")

    def _unknown_section(self, name: str, value: object) -> NoReturn:
        if not isinstance(value, dict | list):
            homes = [section for section in SECTIONS if section.key(name)]
            todo = f"it belongs below {homes[0].heading}" if homes else "each key belongs into a section"
            self._fail((name,), f"{name!r} is in no section; {todo}")
        near = _nearest(name, list(_SECTION_BY_NAME))
        known = ", ".join(section.heading for section in SECTIONS)
        todo = f"did you mean {_SECTION_BY_NAME[near].heading}?" if near else f"there are {known}"
        self._fail((name,), f"there is no section {name!r}; {todo}")

    def _section(self, name: str) -> dict[str, Any]:
        return self._read(
            _SECTION_BY_NAME[name], (name,), self.said.get(name, {}), _SECTION_BY_NAME[name].heading
        )

    def _many(self, name: str) -> list[tuple[TomlPath, dict[str, Any]]]:
        section = _SECTION_BY_NAME[name]
        return [
            ((name, i), self._read(section, (name, i), one, section.heading))
            for i, one in enumerate(self.said.get(name, []))
        ]

    def _read(
        self, section: Section, toml_path: TomlPath, said: dict[str, Any], heading: str
    ) -> dict[str, Any]:
        """Read the keys of a section."""
        got: dict[str, Any] = {}
        for name, value in said.items():
            key = section.key(name)
            if key is None:
                self._unknown_key(section, (*toml_path, name), heading, name)
            if name == "options" and isinstance(value, dict):  # each option has a line of its own
                got[name] = {
                    inner: self._value(key, (*toml_path, name, inner), f"{heading} {name}.{inner}", entry)
                    for inner, entry in value.items()
                }
                continue
            read = self._value(key, (*toml_path, name), f"{heading} {name}", value)
            got[name] = self._path((*toml_path, name), heading, str(read)) if key.path else read
        return got

    def _value(self, key: Key, toml_path: TomlPath, name: str, value: object) -> object:
        try:
            return key.read(name, value)
        except InvalidInput as error:
            self._fail(toml_path, str(error))

    def _unknown_key(self, section: Section, toml_path: TomlPath, heading: str, name: str) -> NoReturn:
        near = _nearest(name, [key.name for key in section.keys])
        elsewhere = [other for other in SECTIONS if other is not section and other.key(name)]
        if elsewhere:
            todo = f"it belongs below {elsewhere[0].heading}"
        elif near:
            todo = f"did you mean {near!r}?"
        else:
            todo = f"there are {', '.join(key.name for key in section.keys)}"
        if section.name == "rule" and not elsewhere and not near:
            todo += "; what only a source of your own understands goes into options = { ... }"
        self._fail(toml_path, f"{heading} has no key {shown_value(name)}; {todo}")

    def _path(self, toml_path: TomlPath, heading: str, value: str) -> str:
        """Return a path relative to the folder of the file; an address as it is."""
        if "://" in value:
            if toml_path == ("mirror", "store") and not value.startswith("postgres"):
                self._fail(toml_path, f"{heading} store must be a file or begin with postgresql://")
            return value
        try:
            return str(self.folder / Path(value).expanduser())
        except RuntimeError:
            self._fail(toml_path, f"{heading} {toml_path[-1]}: there is no home folder for ~")

    def _groups(self, policy: str) -> list[GroupLimit]:
        limits = []
        for toml_path, got in self._many("group"):
            if "budget" in got:
                if "spacing" in got:
                    self._fail((*toml_path, "budget"), "[[group]] has spacing or budget, not both")
                got["spacing"] = 1.0 / got.pop("budget")
            # A section that sets one limit of pages keeps the default of the other.
            pages = got.get("match", "*").startswith(("http:", "*", "?", "["))
            limit = replace(_DEFAULT_PAGE_LIMIT if pages else GroupLimit(), **({"match": "*"} | got))
            self._check_aim(toml_path, "[[group]]", limit, policy)
            limits.append(limit)
        return [*limits, *Settings().groups]

    def _rules(self, policy: str) -> list[Rule]:
        section, rules = _SECTION_BY_NAME["rule"], []
        for toml_path, got in self._many("rule"):
            given = got.pop("options", {})
            if not isinstance(given, dict):
                self._fail(
                    (*toml_path, "options"), '[[rule]] options must be a table, such as { change = "text" }'
                )
            plain = {key.name: got.pop(key.name) for key in section.keys if key.option and key.name in got}
            both = sorted(plain.keys() & given.keys())
            if both:
                self._fail((*toml_path, "options", both[0]), f"[[rule]] says {both[0]} twice")
            for name, value in given.items():
                key = section.key(name)
                if key is not None and key.option:
                    self._value(key, (*toml_path, "options", name), f"[[rule]] options.{name}", value)
            self._check_options(toml_path, plain | given)
            if "match" not in got:
                self._fail(
                    toml_path,
                    '[[rule]] must say which elements it is for: match = "https://example.org/news/*", or '
                    'match = "*" for all',
                )
            rule = Rule(**got, options=plain | given)
            self._check_aim(toml_path, "[[rule]]", rule, policy)
            rules.append(rule)
        return rules

    def _check_aim(self, toml_path: TomlPath, heading: str, said: Rule | GroupLimit, policy: str) -> None:
        """Refuse what is wanted of elements where the policy looks at nothing of the kind."""
        for name in ("target", "objective"):
            if policy != "optimal" and getattr(said, name) is not None:
                self._fail(
                    (*toml_path, name),
                    f'{heading} {name} is for policy = "optimal": {policy!r} looks at no objective',
                )

    def _check_options(self, toml_path: TomlPath, options: dict[str, Any]) -> None:
        """Let the sources check that options fit together, where that is cheap."""
        checks: list[Callable[[dict[str, Any]], object]] = []
        if options.keys() & {"change", "selector", "ignore", "threshold"}:
            from unstale.mirror.sources.http.fingerprint import check_content_options

            checks.append(check_content_options)
        if options.keys() & {"cursor", "probe", "query", "split", "tables"}:
            from unstale.mirror.sources.sql.keys import options_of

            checks.append(options_of)
        try:
            for check in checks:
                check(options)
        except (InvalidInput, MissingExtra) as error:
            named = next((name for name in options if str(error).startswith(name)), None)
            self._fail(toml_path if named is None else (*toml_path, named), f"[[rule]] {error}")

    def _composed(self) -> list[Composed]:
        found: list[Composed] = []
        for toml_path, got in self._many("composed"):
            if "name" not in got or "of" not in got:
                self._fail(toml_path, '[[composed]] needs name and of: of = ["shop#orders", "shop#people"]')
            if any(one.name == got["name"] for one in found):
                self._fail(toml_path, f"[[composed]] {got['name']!r} is there already")
            found.append(Composed(**(got | {"of": tuple(got["of"])})))
        return found

    def _databases(self) -> dict[str, Database]:
        found = {}
        for name, said in self.said.get("databases", {}).items():
            toml_path, heading = ("databases", name), f"[databases.{name}]"
            if not re.fullmatch(r"[\w.-]+", name):
                self._fail(
                    toml_path, f"a database must have a name of letters, digits, _, - and .; it is {name!r}"
                )
            if not isinstance(said, dict):
                self._fail(toml_path, f"{heading} must be a section with url = ...")
            got = self._read(_SECTION_BY_NAME["databases"], toml_path, said, heading)
            if "url" not in got:
                self._fail(toml_path, f"{heading} needs url, the address of the database")
            self._check_address((*toml_path, "url"), heading, got["url"])
            found[name] = Database(**got)
        return found

    def _check_address(self, toml_path: TomlPath, heading: str, url: str) -> None:
        """Raise `InvalidInput` for a wrong address of a database, without repeating it."""
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            make_url(url)
        except (ArgumentError, ValueError):
            self._fail(toml_path, f"{heading} url must be an address such as postgresql://me@host/shop")

    def _notify(self) -> list[Notify]:
        told: list[Notify] = []
        for toml_path, got in self._many("notify"):
            if len(got.keys() & {"webhook", "command", "email", "apprise"}) != 1:
                todo = "needs either webhook or command, or email or apprise: who is to be told?"
                self._fail(toml_path, f"[[notify]] {todo}")
            one = Notify(**got)
            self._check_notify(toml_path, one)
            if one in told:
                self._fail(toml_path, "[[notify]] is there already, with the same match")
            told.append(one)
        return told

    def _check_notify(self, toml_path: TomlPath, notify: Notify) -> None:
        """Raise `InvalidInput` for what makes no sense together, and for templates with errors."""
        from unstale.mirror.notify.messages import TemplateFault
        from unstale.mirror.notify.targets import recipients_of

        try:
            recipients_of(notify)
        except TemplateFault as error:
            line = self.lines.get((*toml_path, error.key), 0)
            opening = self.text.splitlines()[line - 1].rstrip() if line else ""
            line += error.line - 1 + opening.endswith(('"""', "'''"))
            raise InvalidInput(f"{self.path}, line {line}: [[notify]] {error.key}: {error.why}") from None
        except (InvalidInput, MissingExtra) as error:
            named = next(
                (name for name in self.said["notify"][toml_path[1]] if str(error).startswith(name)), None
            )
            self._fail(toml_path if named is None else (*toml_path, named), f"[[notify]] {error}")
