"""Budgets that are tried: what they would buy, as figures for words."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import numpy as np

from unstale import quantities, wording
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.errors import InvalidInput, NoAnswer
from unstale.mirror.reports.status import Status
from unstale.mirror.reports.what_if import MirrorDemand, WhatIf

from . import figures, filters

_GROUPS_SHOWN = 3
"""Groups that are named."""
_MOST_TIMES = 1e6
"""How many times the present budget, or less, another may be."""


async def what_if_values(
    gateway: MirrorGateway, budget: str, freshness: str = "", objective: str = ""
) -> dict[str, object]:
    """Return what a budget, or the one that a freshness takes, would buy.

    ``complaint`` says what cannot be understood or reached; without a ``what_if`` there is nothing to
    be said at all, without ``tried`` it is about the present budget.
    """
    found: dict[str, object] = {
        "budget": budget.strip(), "freshness": freshness.strip(), "complaint": "", "what_if": None,
        "tried": None, "new": 0, "total": 0, "own": gateway.mirror.settings.objective,
    }  # fmt: skip
    chosen = objective or gateway.mirror.settings.objective
    try:
        status = await gateway.status()
        found["new"] = status.elements.get("new", 0)
        found["total"] = sum(count for state, count in status.elements.items() if state != "removed")
        demand = await gateway.demand(chosen)
        curves = await gateway.what_if(chosen)
    except (InvalidInput, NoAnswer) as error:
        return found | {"complaint": str(error)}
    amount = None
    try:
        if freshness.strip():
            amount = await _for_freshness(gateway, freshness.strip())
        elif budget.strip():
            amount = _amount(budget.strip(), curves)
        if amount is not None:
            wanted = amount
            curves = await gateway.do(lambda _: _wide_enough(demand, curves, wanted))
    except (InvalidInput, NoAnswer) as error:
        found["complaint"], amount = str(error), None
    return found | _verdict(curves, amount) | {"flat": _flat(status, curves)}


async def _for_freshness(gateway: MirrorGateway, text: str) -> float:
    share = quantities.share("freshness", _with_percent(text))
    demand = await gateway.demand("freshness")
    amount = await gateway.do(lambda _: demand.budget_for(share))
    if not isfinite(amount):
        counts = (await gateway.status()).elements
        raise InvalidInput(_out_of_reach(share, counts))
    return amount


def _out_of_reach(share: float, counts: Mapping[str, int]) -> str:
    """Say that no budget buys a freshness, and no more than is known of why.

    >>> _out_of_reach(0.99, {"ok": 3, "new": 7, "removed": 5}).partition(": ")[2]
    '7 of 10 elements have not been polled yet, and are taken to be like the others.'
    """
    new, total = counts.get("new", 0), sum(n for state, n in counts.items() if state != "removed")
    if new:
        some = f"{new:,} of {wording.plural(total, 'element')}"
        one = "has not been polled yet, and is" if new == 1 else "have not been polled yet, and are"
        return (
            f"As far as is known, no budget makes {filters.percent(share)} of this mirror fresh: {some} "
            f"{one} taken to be like the others."
        )
    return (
        f"No budget makes {filters.percent(share)} of this mirror fresh: some elements seem to change so "
        "often, or are so limited, that no polling keeps up."
    )


def _with_percent(text: str) -> str:
    """Take a plain number above 1 for per cent: in a form there is no other reading.

    >>> _with_percent("90"), _with_percent("0.9"), _with_percent("90%")
    ('90%', '0.9', '90%')
    """
    try:
        return f"{text}%" if 1 < float(text) <= 100 else text
    except ValueError:
        return text


def _amount(text: str, curves: WhatIf) -> float:
    """Read a budget, per second; a plain number has the unit that the page shows."""
    plain = text.replace(",", "")
    if plain.replace(".", "", 1).isdecimal():
        plain += filters.written(curves.present, curves.unit).lstrip("0123456789.e+-")
    given = quantities.flow("budget", plain)
    if given.kind != curves.unit:
        example = "1000/day" if curves.unit == "polls" else "20MB/h"
        raise InvalidInput(
            f"budget must be in {curves.unit}, as that of this mirror is, such as {example}; it is {text!r}"
        )
    if not given.amount > 0:
        raise InvalidInput(f"budget must be above 0; it is {text!r}")
    return given.per_second


def _wide_enough(demand: MirrorDemand, curves: WhatIf, amount: float) -> WhatIf:
    """Return curves with this budget in it, however far from the present that is."""
    low, high = float(curves.budgets[0]), float(curves.budgets[-1])
    if low <= amount <= high:
        return curves
    if not curves.present / _MOST_TIMES <= amount <= curves.present * _MOST_TIMES:
        raise InvalidInput("budget must be within a million times of the present one")
    low, high = min(low, amount / 2), max(high, amount * 2)
    return demand.what_if(np.geomspace(low, high, 41))


def _flat(status: Status, curves: WhatIf) -> str:
    """Say which groups cannot be polled as often as the largest budget of the curve would pay for."""
    groups = [group for group in status.groups if group.elements]
    if curves.unit != "polls" or not groups:
        return ""
    each = float(curves.budgets[-1]) / sum(group.elements for group in groups)
    slow = [group for group in groups if group.fastest < 0.5 * each * group.elements]
    if not slow:
        return ""
    takes = f"one poll each {filters.duration(slow[0].spacing)}"
    if len({group.spacing for group in slow}) > 1:
        takes = "only so many polls"
    names = [filters.host_of(group.name) for group in slow[:_GROUPS_SHOWN]]
    if len(slow) > _GROUPS_SHOWN:
        names.append(f"{len(slow) - _GROUPS_SHOWN:,} more")
    who = " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)
    limit = f"{who} {'takes' if len(slow) == 1 else 'take'} {takes} (spacing)"
    if len(slow) < len(groups):
        return f"Some copies do not get fresher from a larger budget: {limit}."
    most = sum(group.fastest for group in groups)
    unit = wording.amount_unit(curves.present, most)
    return f"From {wording.show_amount(most, 'polls', unit)} on the curve is flat: {limit}."


def _verdict(curves: WhatIf, amount: float | None) -> dict[str, object]:
    """Return the figures that the words of the page are made of."""
    at = curves.present if amount is None else amount
    buys = figures.bought(curves, at)
    kind = curves.unit
    polls, traffic = curves.split(at)
    return {
        "what_if": curves,
        "fresh": curves.objective == "freshness",
        "aged": curves.objective == "age",
        "show": figures.shown_value(curves.objective, buys),
        "show_present": figures.shown_value(curves.objective, curves.present_value),
        "tried": amount,
        "at": at,
        "buys": buys,
        "times": at / curves.present,
        "gain": buys - curves.present_value,
        "more": figures.bought(curves, at * 1.1) - buys,
        "uniform": figures.budget_of(curves, buys, "uniform"),
        "proportional": figures.budget_of(curves, buys, "proportional"),
        "exact": filters.written(at, kind, 6),
        "unit": wording.byte_unit(curves.present)
        if kind == "bytes"
        else wording.amount_unit(curves.present, at),
        "polls": polls,
        "traffic": traffic,
        "low": float(curves.budgets[0]),
        "high": float(curves.budgets[-1]),
        "chart": figures.what_if(curves, amount),
    }
