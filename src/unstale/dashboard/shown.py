"""How pages write moments, spans, amounts and shares: each with its unit, and short."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from urllib.parse import quote

from markupsafe import Markup

from ..quantities import show_duration, show_number, show_share
from ..wording import distance, plural, show_amount, show_price, show_rate, show_rates, show_size, show_time

__all__ = ["FILTERS", "coded", "copy_address", "count", "duration", "moment", "number", "percent"]


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


def count(value: int) -> str:
    """Return a whole number.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{value:,}"


def copy_address(key: str) -> str:
    """Return where the copy of an element is read.

    >>> copy_address("https://example.org/?a=b")
    '/copies/https%3A%2F%2Fexample.org%2F%3Fa%3Db'
    """
    return f"/copies/{quote(key, safe='')}"


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
    "bytes": show_size, "rate": show_rate, "rate_interval": show_rates, "per_time": show_amount,
    "count": count, "plural": plural, "price": show_price, "copy_address": copy_address, "coded": coded,
}  # fmt: skip
"""By the names that templates use."""
