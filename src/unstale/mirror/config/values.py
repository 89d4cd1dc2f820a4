"""Readers of values of mirror.toml: each takes the name of a key and its value, and returns what is meant.

A reader raises `InvalidInput` with a sentence that begins with the name. It does not repeat a value that may
be a secret.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable
from typing import NoReturn
from urllib.parse import urlsplit

from unstale.errors import InvalidInput
from unstale.mirror.secrets import expanded
from unstale.mirror.source import Json
from unstale.mirror.store.bucket import BUCKET_SCHEMES
from unstale.quantities import duration, flow, frequency, share

Read = Callable[[str, object], object]

_ZERO = re.compile(r"0+(\.0*)?\s*[A-Za-z]*", re.ASCII)
_MAX_INTEGER = 2**63 - 1
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def _reject(name: str, rule: str, value: object, *, hidden: bool = False) -> NoReturn:
    shown = f"; it is {shown_value(value)}" if not hidden else ""
    raise InvalidInput(f"{name} must be {rule}{shown}")


def shown_value(value: object) -> str:
    """Return a value as it stands in the file, shortened."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "a list"
    written = repr(value) if isinstance(value, str) else str(value)
    return written if len(written) <= 100 else f"{written[:97]}..."


def any_text(name: str, value: object) -> str:
    """Read a text that is not empty and has no control characters."""
    if not isinstance(value, str) or not value.strip():
        _reject(name, "a text in quotes", value)
    if not value.isprintable():
        _reject(name, "a text without control characters", value)
    return value


def place_of_copies(name: str, value: object) -> str:
    """Read the path of a folder of this machine, or the address of a bucket."""
    text = any_text(name, value)
    if "://" in text and text.partition("://")[0] not in BUCKET_SCHEMES:
        known = " or ".join(f"{scheme}://..." for scheme in BUCKET_SCHEMES)
        _reject(name, f"a folder that this machine sees, or a bucket ({known})", value)
    return text


def secret(name: str, value: object) -> str:
    """Read a secret text, in which variables of the environment are replaced."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        _reject(name, "a text in quotes, without control characters", value, hidden=True)
    return expanded(name, value)


def addresses_of_servers(name: str, value: object) -> tuple[str, ...]:
    """Read addresses of PostgreSQL databases, in which variables of the environment are replaced."""
    if not isinstance(value, list) or not value:
        _reject(name, 'a list of addresses, such as ["postgresql://me@db2/mirror"]', value, hidden=True)
    found = tuple(secret(name, one) for one in value)
    if any(not one.startswith(("postgresql://", "postgres://")) for one in found):
        _reject(name, "addresses that begin with postgresql://", value, hidden=True)
    return found


def text(rule: str) -> Read:
    """Return a reader of texts, described by ``rule``."""

    def read(name: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            _reject(name, rule, value)
        return value

    return read


def choice(*allowed: str) -> Read:
    """Return a reader of one of several words."""

    def read(name: str, value: object) -> str:
        if value not in allowed:
            _reject(name, " or ".join(f'"{word}"' for word in allowed), value)
        return str(value)

    return read


def objective(name: str, value: object) -> str:
    """Read what polls are for."""
    from unstale.policy.terms import aim_of

    if not isinstance(value, str):
        _reject(name, 'an objective in quotes, such as "age" or "currency:6h"', value)
    aim_of(value, name)
    return value


def inner_share(name: str, value: object) -> float:
    """Read a share that is more than nothing and less than all."""
    rule = "a share between 0% and 100%, such as 95% or 0.95"
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        _reject(name, rule, value)
    found = share(name, value if isinstance(value, str) else format(value, "f"))
    if not 0.0 < found < 1.0:
        _reject(name, rule, value)
    return found


def users(name: str, value: object) -> str:
    """Read what tells users apart."""
    rule = '"no", "token", "header:NAME" or "cookie:NAME"'
    if not isinstance(value, str):
        _reject(name, rule, value)
    kind, _, header = value.partition(":")
    if value not in {"no", "token"} and not (kind in {"header", "cookie"} and _TOKEN.fullmatch(header)):
        _reject(name, rule, value)
    return value


def user_weights(name: str, value: object) -> dict[str, float]:
    """Read how much users count."""
    if not isinstance(value, dict):
        _reject(name, "a table, such as { billing = 3 }", value)
    return {user: weight(f"{name}.{user}", entry) for user, entry in value.items()}


def flag(name: str, value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        _reject(name, "true or false", value)
    return value


def count(least: int, most: int = _MAX_INTEGER) -> Read:
    """Return a reader of whole numbers."""

    def read(name: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            _reject(name, f"a whole number >= {least}", value)
        return value

    return read


def change(name: str, value: object) -> str:
    """Read what counts as a change of a page."""
    known = ("bytes", "text", "json", "price")
    if not isinstance(value, str) or (value not in known and not value.startswith("json:/")):
        _reject(name, '"bytes" or "text" or "json" or "json:/path" or "price"', value)
    return value


def threshold(name: str, value: object) -> str:
    """Read what a number must change by."""
    from unstale.mirror.sources.http.amounts import threshold_of

    found = threshold_of(value)
    if found is None:
        _reject(name, 'an amount such as 0.5, or a share such as "5%"', value)
    return found


def weight(name: str, value: object) -> float:
    """Read a number that is not negative."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e100:
        _reject(name, "a number from 0 to 1e100, such as 2.5", value)
    return float(value)


def ratio(name: str, value: object) -> float:
    """Read a number that is at least 1."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 1 <= value <= 1e9:
        _reject(name, "a number from 1 to 1e9, such as 200", value)
    return float(value)


def span(*, nothing: bool = False, endless: str | None = None) -> Read:
    """Return a reader of times, in seconds; ``nothing`` allows 0, and the word ``endless`` means infinity."""

    def read(name: str, value: object) -> float:
        if endless is not None and value == endless:
            return math.inf
        if nothing and (value == 0 or (isinstance(value, str) and _ZERO.fullmatch(value.strip()))):
            return 0.0
        rule = "a time, such as 90s, 6h, 1.5 days or 2 weeks" + (f', or "{endless}"' if endless else "")
        if not isinstance(value, str):
            _reject(name, f"{rule}, in quotes", value)
        try:
            return duration(name, value)
        except InvalidInput as error:
            if endless is None:
                raise
            raise InvalidInput(str(error).replace(" or 2 weeks", f', 2 weeks or "{endless}"')) from None

    return read


def poll_flow(name: str, value: object) -> float:
    """Read polls per time, per second."""
    if isinstance(value, str) and _bytes_are_meant(name, value):
        _reject(name, "polls per time, such as 1000/day; for bytes there is [mirror] bytes", value)
    if not isinstance(value, str):
        _reject(name, "polls per time, such as 1000/day, in quotes", value)
    got = frequency(name, value)
    return _per_second(name, value, got.per_second)


def byte_flow(name: str, value: object) -> float:
    """Read bytes per time, per second."""
    if not isinstance(value, str):
        _reject(name, "bytes per time, such as 200MB/day, in quotes", value)
    got = flow(name, value)
    if got.kind != "bytes":
        _reject(name, "bytes per time, such as 200MB/day", value)
    return _per_second(name, value, got.per_second)


def _per_second(name: str, value: object, amount: float) -> float:
    if not 1e-12 <= amount <= 1e15:  # from one in 30,000 years to more than any network carries
        _reject(name, "more than nothing, and at most 1e15 per second", value)
    return amount


def _bytes_are_meant(name: str, value: str) -> bool:
    try:
        return flow(name, value).kind == "bytes"
    except InvalidInput:
        return False


def size(name: str, value: object) -> int:
    """Read a number of bytes.

    >>> size("[mirror] max_size", "20MB"), size("[mirror] max_size", "1.5 KiB")
    (20000000, 1536)
    """
    rule = "a number of bytes, such as 20MB or 512KiB, in quotes"
    if not isinstance(value, str):
        _reject(name, rule, value)
    try:
        got = flow(name, f"{value}/s")
    except InvalidInput:
        _reject(name, rule, value)
    if (
        got.kind != "bytes"
        or got.unit.name != "second"
        or "/" in value
        or not 1 <= got.amount <= _MAX_INTEGER
    ):
        _reject(name, rule, value)
    return int(got.amount)


def portion(name: str, value: object) -> float:
    """Read a share of a whole that may be 0."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        _reject(name, "a share between 0% and 100%, such as 10% or 0.1", value)
    if isinstance(value, str) and _ZERO.fullmatch(value.strip().removesuffix("%")):
        return 0.0
    return share(name, value if isinstance(value, str) else format(value, "f"))


def when(name: str, value: object) -> str:
    """Read the windows in which polls are allowed."""
    from unstale.schedule.windows import Windows

    written = any_text(name, value)
    try:
        Windows.parse(written)
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("windows", name, 1)) from None
    return written


def contact(name: str, value: object) -> str:
    """Read an address of a page or of mail."""
    rule = "where you can be reached: an address of mail or of a page, such as you@example.org"
    if not isinstance(value, str) or not value.isprintable() or not value.isascii():
        _reject(name, rule, value)
    if not re.fullmatch(r"(mailto:)?[^@\s]+@[^@\s]+\.[^@\s.]+|https?://\S+", value):
        _reject(name, rule, value)
    return value


def address(name: str, value: object) -> str:
    """Read the address of a webhook, which may hold a secret."""
    got = secret(name, value)
    try:
        named = urlsplit(got).hostname
    except ValueError:
        named = None
    if not re.fullmatch(r"https?://[^\s/]\S*", got) or not named:
        _reject(name, "an address that begins with https:// or http://", value, hidden=True)
    return got


def addresses_of_replicas(name: str, value: object) -> tuple[str, ...]:
    """Read where readers reach replicas: addresses of the web, which are shown to readers."""
    if not isinstance(value, list) or not value:
        _reject(name, 'a list of addresses, such as ["http://a.internal:8321"]', value)
    found = tuple(address(name, one).rstrip("/") for one in value)
    if any(urlsplit(one).username or urlsplit(one).query or not one.isascii() for one in found):
        _reject(name, "addresses without logins and queries: readers see them", value, hidden=True)
    return found


def headers(name: str, value: object) -> dict[str, str]:
    """Read headers of requests; variables that they name must be there, and are put in when they are sent."""
    if not isinstance(value, dict):
        _reject(name, 'a table, such as { Accept-Language = "de" }', value)
    for key, entry in value.items():
        if not _TOKEN.fullmatch(key):
            raise InvalidInput(f"{name} must have names of headers as keys; {key!r} is none")
        if not isinstance(entry, str) or not entry.isprintable() or not entry.isascii():
            raise InvalidInput(f"{name}: {key} must be a text in plain ASCII, in quotes")
        expanded(f"{name}: {key}", entry)
    return dict(value)


def command(name: str, value: object) -> tuple[str, ...]:
    """Read a command: a list of words, or a text that is split as by a shell."""
    rule = 'a command, such as "notify-send changed" or ["notify-send", "changed"]'
    words = value
    if isinstance(value, str):
        try:
            words = shlex.split(value)
        except ValueError:
            _reject(name, f"{rule}; a quote is not closed", value, hidden=True)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        _reject(name, rule, value, hidden=True)
    if not words[0].strip() or any("\0" in word for word in words):
        _reject(name, rule, value, hidden=True)
    return tuple(words)


def regexes(name: str, value: object) -> list[str]:
    """Read regular expressions: one, or a list."""
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not all(isinstance(one, str) and one for one in many):
        _reject(name, "a regular expression, or a list of them, in quotes", value)
    for one in many:
        try:
            re.compile(one)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(f"{name} must be a regular expression; in {one!r}: {error}") from None
    return many


def several(name: str, value: object) -> list[str]:
    """Read patterns of keys: one, or a list."""
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not all(
        isinstance(one, str) and one.isprintable() and one for one in many
    ):
        _reject(name, "a pattern as of a shell, or a list of them", value)
    return many


def statement(name: str, value: object) -> str:
    """Read a statement of SQL, which may have several lines."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        _reject(name, "a statement of SQL, in quotes", value)
    return value


def table(name: str, value: object) -> dict[str, Json]:
    """Read a table of options."""
    if not isinstance(value, dict):
        _reject(name, "a table, such as { anon = true }", value)
    return {key: options(f"{name}.{key}", entry) for key, entry in value.items()}


def wanted(name: str, value: object) -> bool | list[str]:
    """Read yes, no, or patterns of keys."""
    return value if isinstance(value, bool) else several(name, value)


def words(*allowed: str) -> Read:
    """Return a reader of some of several words: one, or a list."""

    def read(name: str, value: object) -> tuple[str, ...]:
        many = [value] if isinstance(value, str) else value
        if not isinstance(many, list) or not many or any(one not in allowed for one in many):
            _reject(name, f"some of {', '.join(allowed)}", value)
        return tuple(many)

    return read


def mail_addresses(name: str, value: object) -> tuple[str, ...]:
    """Read addresses of mail: one, or a list."""
    many = [value] if isinstance(value, str) else value
    if not isinstance(many, list) or not many or not all(isinstance(one, str) for one in many):
        _reject(name, "an address of mail such as you@example.org, or a list of them", value)
    return tuple(many)


def template(name: str, value: object) -> str:
    """Read a template, which may have several lines; what is in it is checked with the others."""
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        _reject(name, 'a template, such as "{{ title }}: {{ new }}"', value)
    return value


def patterns(name: str, value: object) -> str:
    """Read a pattern of keys or groups, as of a shell."""
    rule = "a pattern as of a shell, such as https://example.org/news/*"
    if not isinstance(value, str) or not value or not value.isprintable():
        _reject(name, rule, value)
    return value


def options(name: str, value: object) -> Json:
    """Read options for a source: whatever JSON can say."""
    if isinstance(value, dict):
        return {key: options(f"{name}.{key}", entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [options(name, entry) for entry in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) <= _MAX_INTEGER:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    _reject(name, "a text, a finite number, true or false, a list or a table; put dates in quotes", value)
