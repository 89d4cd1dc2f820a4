"""Amounts that a page shows: a price, or a number of JSON, and whether it has changed by enough to count."""

from __future__ import annotations

import re
from contextlib import suppress
from decimal import Decimal, InvalidOperation

_CURRENCY = (
    r"(?:[$€£¥₹₽₩]|\b(?:USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|CZK)\b|\b(?:kr|zł|Kč|Fr)\b\.?)"
)
_NUMBER = r"\d{1,3}(?:[.,'\u2019\u00a0\u202f ]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,]\d{1,4})?(?!\d)"
_PRICE = re.compile(
    rf"{_CURRENCY}\s*(?P<after>-?(?:{_NUMBER}))|(?P<before>-?(?:{_NUMBER}))(?:[.,]?[-\u2013]{{1,2}})?\s*{_CURRENCY}",
    re.IGNORECASE,
)
_ANY = re.compile(rf"-?(?:{_NUMBER})")
_LOOKED_AT_CHARACTERS = 1_000_000
_MOST_DIGITS = 30
"""Of an amount, before or behind the point: ``1e999999`` would be written out."""
_EXACT = ":="
"""In a fingerprint, before an amount."""


def price_in(text: str) -> Decimal | None:
    """Return the first price of a text, or its first number if no currency is named; None if it has neither.

    >>> [str(price_in(one)) for one in ("now $1,299.00!", "1.299,00 € statt 1.499 €", "CHF 12.-", "12,5")]
    ['1299.00', '1299.00', '12', '12.5']
    """
    text = text[:_LOOKED_AT_CHARACTERS]
    found = _PRICE.search(text)
    if found is not None:
        return amount_of(found["after"] or found["before"])
    plain = _ANY.search(text)
    return None if plain is None else amount_of(plain[0])


def amount_of(text: str) -> Decimal | None:
    """Return the number that a text is, however its thousands are set off; None if it is none.

    >>> [str(amount_of(one)) for one in ("1.299", "1,299.5", "12,50", "1 299,00", "0.125", "-3")]
    ['1299', '1299.5', '12.50', '1299.00', '0.125', '-3']
    """
    text = re.sub(r"['\u2019\u00a0\u202f ]", "", text.strip())
    point = max(text.rfind("."), text.rfind(","))
    if point >= 0:
        whole, rest, sign = text[:point], text[point + 1 :], text[point]
        thousands = (
            len(rest) == 3 and whole.lstrip("-") != "0" and (sign in whole or not re.search("[.,]", whole))
        )
        whole = re.sub("[.,]", "", whole)
        text = whole + rest if thousands else f"{whole}.{rest}"
    with suppress(InvalidOperation):
        value = Decimal(text)
        return value if value.is_finite() and abs(value.adjusted()) <= _MOST_DIGITS else None
    return None


def fingerprint_of_amount(name: str, amount: Decimal) -> str:
    """Return the fingerprint of an amount, in which it can be read.

    >>> fingerprint_of_amount("price", Decimal("12.50"))
    'price:=12.5'
    """
    return f"{name}{_EXACT}{amount.normalize():f}"


def unless_enough(new: str, old: str | None, threshold: str | None) -> str:
    """Return the fingerprint of before if an amount has changed by less than a threshold, else the new one.

    The amount of before is that of the last copy that counted, so that a price that creeps is noticed.

    >>> unless_enough("price:=103", "price:=100", "5%"), unless_enough("price:=105", "price:=100", "5%")
    ('price:=100', 'price:=105')
    >>> unless_enough("price:=103", "price:=100", "2"), unless_enough("price:=103", None, "5%")
    ('price:=103', 'price:=103')
    """
    if threshold is None or old is None or _EXACT not in new:
        return new
    name, _, now = new.rpartition(_EXACT)
    other, _, before = old.rpartition(_EXACT)
    if name != other:
        return new
    with suppress(InvalidOperation):
        change, least = abs(Decimal(now) - Decimal(before)), Decimal(threshold.removesuffix("%"))
        if threshold.endswith("%"):
            least *= abs(Decimal(before)) / 100
        return new if change >= least and change > 0 else old
    return new


def threshold_of(value: object) -> str | None:
    """Return a threshold as it is kept: ``"5%"``, or an amount; None if it is neither.

    >>> threshold_of("5 %"), threshold_of(0.5), threshold_of("much"), threshold_of(-1)
    ('5%', '0.5', None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    text = str(value).replace(" ", "")
    with suppress(InvalidOperation):
        number = Decimal(text.removesuffix("%"))
        if number.is_finite() and 0 < number < Decimal(10) ** 15:
            return text
    return None
