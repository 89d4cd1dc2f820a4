"""How pages write moments, spans, amounts and shares: each with its unit, and short."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import PurePath
from urllib.parse import urlsplit

from markupsafe import Markup

from unstale.mirror.json_values import copy_path
from unstale.mirror.reports.first_copies import FirstCopies, InReserve
from unstale.quantities import TimeUnit, show_duration, show_number, show_share
from unstale.wording import (
    amount_unit,
    byte_unit,
    distance,
    plural,
    show_amount,
    show_first_copies,
    show_price,
    show_rate,
    show_rate_interval,
    show_reserve,
    show_size,
    show_time,
)

_PREFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))


def moment(seconds: float | None, now: float | None = None) -> Markup:
    """Return a moment as an element: how far it is from now, and when that was.

    >>> moment(0.0, 60.0)
    Markup('<time datetime="1970-01-01T00:00:00Z" title="1970-01-01 00:00:00 UTC">1 minute ago</time>')
    """
    if seconds is None or show_time(seconds) == "never":
        return Markup("never")
    text = show_time(seconds) if now is None else distance(seconds, now)
    iso = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(iso, show_time(seconds), text)


def clock(seconds: float) -> str:
    """Return the time of day of a moment.

    >>> clock(3661.0)
    '01:01:01 UTC'
    """
    return show_time(seconds).partition(" ")[2] or "never"


def percent(value: float, digits: int = 1) -> str:
    """Return a share in per cent.

    >>> percent(0.7134), percent(1.0), percent(float("nan")), percent(0.5, 0)
    ('71.3 %', '100 %', 'unknown', '50 %')
    """
    if not math.isfinite(value):
        return "unknown"
    if value in {0.0, 1.0}:
        return f"{100 * value:.0f} %"
    if digits == 1 and 0.9995 <= value < 1:
        return show_share(value).replace("%", " %")
    return f"{100 * value:.{digits}f} %"


def number(value: float) -> str:
    """Return a number, or that there is none.

    >>> number(12.345), number(float("nan"))
    ('12.3', 'unknown')
    """
    return "unknown" if math.isnan(value) else show_number(value)


def duration(seconds: float) -> str:
    """Return a span of time.

    >>> duration(90.0), duration(float("nan")), duration(0.0)
    ('90 seconds', 'unknown', '0 seconds')
    """
    return "unknown" if math.isnan(seconds) else show_duration(max(seconds, 0.0))


_SHORT = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))


def short_duration(seconds: float) -> str:
    """Return a span of time as it stands beside an axis.

    >>> [short_duration(x) for x in (0.01, 0.5, 30.0, 600.0, 7200.0, 864000.0)]
    ['10 ms', '500 ms', '30 s', '10 min', '2 h', '10 d']
    """
    size, name = next((one for one in _SHORT if seconds >= one[0] * 0.9999), _SHORT[-1])
    return f"{show_number(seconds / size)} {name}"


def window(seconds: float) -> str:
    """Return a span of time that ends now.

    >>> window(60.0), window(5000.0), window(86400.0), window(0.4)
    ('in the last minute', 'in the last 83 minutes', 'in the last day', 'in the last second')
    """
    said = distance(max(seconds, 1.0), 0.0).removeprefix("in ").removeprefix("1 ")
    return f"in the last {said}"


def written(
    per_second: float, kind: str = "polls", digits: int | None = None, unit: TimeUnit | None = None
) -> str:
    """Return a budget as somebody would type it, as pages show it or with so many digits.

    >>> written(16.866), written(2.0), written(8333.333, "bytes"), written(1 / 7)
    ('16.9/second', '172800/day', '720MB/day', '12343/day')
    >>> from unstale.quantities import flow
    >>> written(flow("budget", "3600/h").per_second), written(flow("bytes", "20MB/h").per_second, "bytes")
    ('3600/hour', '20MB/hour')
    """
    if kind != "bytes":
        unit = unit or amount_unit(per_second)
        return f"{_plain(per_second * unit.seconds, digits)}/{unit.name}"
    unit = unit or byte_unit(per_second)
    prefix, size = _prefix(per_second * unit.seconds)
    return f"{_plain(per_second * unit.seconds / size, digits)}{prefix}B/{unit.name}"


def _prefix(amount: float) -> tuple[str, float]:
    return next((one for one in _PREFIXES if amount >= one[1]), _PREFIXES[-1])


def _plain(value: float, digits: int | None) -> str:
    """Return a number as it is typed: without commas, and without an exponent if that is not too long.

    >>> _plain(1457220.4, 3), _plain(0.000012345, None), _plain(20.0, 6), _plain(1e30, 3)
    ('1460000', '0.0000123', '20', '1e+30')
    """
    short = show_number(value).replace(",", "") if digits is None else f"{value:.{digits}g}"
    return f"{Decimal(short):f}" if 1e-9 < abs(value) < 1e15 else short


def change(before: float, after: float, kind: str = "polls") -> str:
    """Return from what to what a budget is changed, both in one unit.

    >>> change(2.0, 5.0), change(1 / 86400, 2 / 86400), change(8333.333, 20833.333, "bytes")
    ('from 2 to 5 polls/second', 'from 1 to 2 polls/day', 'from 0.72 to 1.8 GB/day')
    """
    if kind == "bytes":
        unit = byte_unit(before, after)
        prefix, size = _prefix(max(before, after) * unit.seconds)
        factor, name = unit.seconds / size, f"{prefix}B/{unit.name}"
    else:
        unit = amount_unit(before, after)
        factor, name = unit.seconds, f"polls/{unit.name}"
    return f"from {show_number(before * factor)} to {show_number(after * factor)} {name}"


def mirror_name(url: str) -> str:
    """Return by what name people know a mirror: its file, or the folder if that tells more; its database.

    >>> mirror_name("sqlite:////srv/news/mirror.db"), mirror_name("sqlite:////srv/news/shops.db")
    ('news', 'shops.db')
    >>> mirror_name("postgresql://me:secret@db.example:5432/shops?password=x")
    'shops on db.example'
    """
    if url.startswith("sqlite"):
        path = PurePath(url.removeprefix("sqlite:///"))
        return path.parent.name if path.stem == "mirror" and path.parent.name else path.name
    parts = urlsplit(url)
    return " on ".join(part for part in (parts.path.strip("/"), parts.hostname) if part) or "mirror"


def first_copies(first: FirstCopies, running: bool = True) -> str:  # noqa: FBT001, FBT002  (a filter)
    """Return how far it is with first copies; how long it takes only if somebody polls."""
    return show_first_copies(first.done, first.total, first.seconds if running else math.inf)


def in_reserve(kept: InReserve) -> str:
    """Return what is in reserve."""
    return show_reserve(kept.level, kept.polls, kept.traffic)


def host_of(group: str) -> str:
    """Return a host as people know it, by the group of its pages.

    >>> host_of("http:example.org"), host_of("sql:shop")
    ('example.org', 'sql:shop')
    """
    return group.removeprefix("http:")


def apart(key: str, group: str) -> tuple[str, str]:
    """Return what of an address its group says already, and the rest.

    >>> apart("https://example.org/docs/a.html", "http:example.org")
    ('https://example.org', '/docs/a.html')
    >>> apart("https://example.org/", "http:example.org"), apart("https://example.org/docs", "others")
    (('', 'https://example.org/'), ('', 'https://example.org/docs'))
    """
    (scheme, mark, rest), host = key.partition("://"), host_of(group)
    path = rest.removeprefix(host) if host and mark and rest.startswith(f"{host}/") else ""
    return (f"{scheme}://{host}", path) if len(path) > 1 else ("", key)


def count(value: int) -> str:
    """Return a whole number.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def coded(text: str) -> Markup:
    """Return text with what is between backticks as code.

    >>> coded("a `<b>`")
    Markup('a <code>&lt;b&gt;</code>')
    """
    parts = text.split("`")
    wraps = (Markup("{}"), Markup("<code>{}</code>"))
    return Markup().join(wraps[n % 2].format(part) for n, part in enumerate(parts))


FILTERS = {
    "moment": moment, "ago": distance, "percent": percent, "number": number, "duration": duration,
    "bytes": show_size, "rate": show_rate, "rate_interval": show_rate_interval, "per_time": show_amount,
    "count": count, "plural": plural, "price": show_price, "copy_path": copy_path, "coded": coded,
    "first_copies": first_copies, "in_reserve": in_reserve, "clock": clock, "window": window,
    "written": written, "change": change, "apart": apart,
}  # fmt: skip
"""By the names that templates use."""
