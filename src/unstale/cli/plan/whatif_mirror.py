"""``unstale whatif mirror.toml``: what budgets and ideas would buy for the elements of a mirror."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from unstale.cli.shared.mirror_elements import open_named
from unstale.cli.shared.printing import console, print_json, print_table, say
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.errors import InvalidInput
from unstale.quantities import show_duration, show_number, show_share
from unstale.wording import amount_unit, byte_unit, plural, show_amount

if TYPE_CHECKING:
    from rich.console import Console

    from unstale.mirror.reports.ideas import Idea, Ideas
    from unstale.mirror.reports.what_if import MirrorDemand, WhatIf
    from unstale.quantities import Flow

_FACTORS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
"""Budgets that are shown, as parts of that of today."""
_FOR_TABLES = {
    "columns": "--column",
    "min_frequency": "--min-frequency",
    "max_frequency": "--max-frequency",
    "group_limit": "--group-limit",
    "ignore_sizes": "--ignore-sizes",
    "certain": "--certain",
    "plot": "--plot",
    "age": "--age",
}
"""Options that a mirror says itself, or that are not drawn."""


def whatif_mirror(file: str, *, as_json: bool, freshness: float | None, **options: Any) -> None:  # noqa: ANN401
    """Say what other budgets would buy for the elements of a mirror, and what ideas of the papers would."""
    for name, option in _FOR_TABLES.items():
        if options[name]:
            raise InvalidInput(
                f"{option} is for tables of elements; {file} is a mirror, which says it itself"
            )
    from unstale.mirror.reports.ideas import TrialChoice

    with told_of_compilation(), progress("planning"), open_named(file) as mirror:
        demand = mirror.demand()
        budget: Flow | None = options["budget"]
        if budget is not None and budget.kind != demand.unit:
            raise InvalidInput(f"--budget must be in {demand.unit}, as that of {file} is; it is {budget}")
        choice = TrialChoice(
            budget=None if budget is None else budget.per_second / demand.present,
            objective=options["objective"],
            policy=options["policy"],
            order=options["order"],
            replicas=options["replicas"] or 1,
            space=options["space"],
            elements=options["elements"],
            expiry=not options["no_expiry"],
            hints=options["hints"],
            jitter=options["jitter"] or 0.0,
            composed=tuple(options["composed"]),
        )
        curve = demand.what_if([factor * demand.present for factor in _FACTORS])
        found = mirror.ideas(choice)
        needed = None if freshness is None else mirror.budget_for(freshness)
    if as_json:
        print_json(_as_json(file, curve, found, freshness, needed))
        return
    out = console()
    amount = show_amount(demand.present, demand.unit)
    out.print(f"{plural(demand.elements.count, 'element')} of {file}, a budget of {amount}\n", soft_wrap=True)
    _print_curve(out, demand, curve)
    out.print()
    _print_ideas(out, found)
    if found.composed:
        out.print()
        _print_composed(out, found)
    if freshness is not None and needed is not None:
        say(out, _target(freshness, needed, demand))
    if found.tried is None:
        say(
            out,
            f"Try your own, together: unstale whatif {file} --budget 500/day --order random --replicas 3 "
            "--space 1GB. Nothing is changed by it.",
        )


def _print_curve(out: Console, demand: MirrorDemand, curve: WhatIf) -> None:
    shown = {"freshness": show_share, "age": show_duration}.get(demand.objective, show_number)
    name = {"freshness": "fresh", "age": "mean age"}.get(demand.objective, demand.objective)
    unit = (byte_unit if demand.unit == "bytes" else amount_unit)(demand.present)  # as it was written
    rows = [
        (
            show_amount(budget, demand.unit, unit) + (" (now)" if factor == 1.0 else ""),
            *(shown(float(getattr(curve, policy)[k])) for policy in ("optimal", "uniform", "proportional")),
        )
        for k, (factor, budget) in enumerate(zip(_FACTORS, curve.budgets.tolist(), strict=True))
    ]
    print_table(out, ("budget", name, "if uniform", "if proportional"), rows)


def _print_ideas(out: Console, found: Ideas) -> None:
    rows = [_row(found.as_it_is, found.as_it_is)]
    if found.tried is not None:
        rows.append(_row(found.tried, found.as_it_is))
    rows += [_row(one, found.as_it_is) for one in found.ideas]
    print_table(out, ("what if", "fresh", "points", "mean age", "in mirror.toml"), rows)


def _print_composed(out: Console, found: Ideas) -> None:
    rows = []
    for one in found.composed:
        shares = (one.by_themselves, one.as_one, one.others_by_themselves, one.others)
        rows.append((one.name, f"{one.parts:,}", *map(show_share, shares)))
    heads = ("made from several", "parts", "fresh if not planned", "if planned", "elements, if not", "if so")
    print_table(out, heads, rows)


def _row(one: Idea, now: Idea) -> tuple[str, ...]:
    gain = 100.0 * (one.freshness - now.freshness)
    age = show_duration(one.age) if math.isfinite(one.age) else "-"
    return (one.name, show_share(one.freshness), "" if one is now else f"{gain:+.1f}", age, one.key)


def _target(freshness: float, needed: float, demand: MirrorDemand) -> str:
    if not math.isfinite(needed):
        return f"{show_share(freshness)} fresh is out of reach: no budget buys it."
    unit = (byte_unit if demand.unit == "bytes" else amount_unit)(demand.present)
    amount, times = show_amount(needed, demand.unit, unit), show_number(needed / demand.present)
    return f"{show_share(freshness)} fresh takes {amount}, {times} times the budget."


def _as_json(
    file: str, curve: WhatIf, found: Ideas, freshness: float | None, needed: float | None
) -> dict[str, Any]:
    from unstale.mirror.json_values import fields_json, number

    target = None if needed is None else {"freshness": freshness, "budget": number(needed)}
    return {"file": file, **curve.to_json(), "target": target, **fields_json(found)}
