"""The elements of a mirror where a command takes a table of elements: FILE is its mirror.toml."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.errors import InvalidInput
from unstale.quantities import Flow, TimeUnit, time_unit

if TYPE_CHECKING:
    from unstale.mirror.mirror import Mirror
    from unstale.tables import TableElements

FILE = "mirror.toml"


def names_mirror(file: object) -> bool:
    """Tell whether a FILE is the configuration of a mirror, or the folder of one.

    >>> names_mirror("pages.csv"), names_mirror("site/mirror.toml")
    (False, True)
    """
    return isinstance(file, str) and (file.endswith(".toml") or (Path(file) / FILE).is_file())


def open_named(file: str) -> Mirror:
    """Open the mirror that a FILE is the configuration of."""
    from unstale.mirror.config.file import check_owner, find, load
    from unstale.mirror.mirror import Mirror

    path = Path(file) / FILE if Path(file).is_dir() else Path(file)
    if file == FILE and not path.exists():  # as for other commands: perhaps `watch` has made one
        path = find()
        check_owner(path)
    config = load(path)
    return Mirror(config.store, settings=config.settings, copies=config.copies)


def elements_of(file: str, unit: TimeUnit) -> tuple[TableElements, Flow, dict[str, Any]]:
    """Return the elements of a mirror as it knows them, its budget, and the limits of its groups.

    What seems to change at every look, and what has no weight, is left out: no plan polls it.
    """
    import numpy as np

    from unstale.tables import TableElements

    with open_named(file) as mirror:
        demand = mirror.demand("freshness")
        found = demand.elements
        with mirror.store.begin() as t:
            known = t.numbered(found.ids.tolist())
    if demand.byte_budget is not None:
        raise InvalidInput(
            f"{file}: the mirror has a budget of polls and one of bytes, and a plan takes one of them; "
            "unstale whatif takes both"
        )
    keys = np.array([known[number].key for number in found.ids.tolist()])
    scale = np.asarray(found.law.scale) * unit.seconds
    elements = TableElements(
        rates=np.asarray(found.law.shape) * scale,
        keys=keys,
        weights=found.weights,
        sizes=found.sizes * demand.mean_size if demand.unit == "bytes" else None,
        groups=found.groups,
        group_names=list(range(found.limits.size)),
        shapes=np.asarray(found.law.shape),
        scales=scale,
    )
    day = time_unit("budget", "day")
    budget = Flow(demand.present * found.share * day.seconds, demand.unit, day)
    limits: dict[str, Any] = {}
    if found.limits.size > 1:
        factor = demand.mean_size if demand.unit == "bytes" else 1.0
        limits = {"groups": found.groups, "limits": found.limits * unit.seconds * factor}
    return elements, budget, limits
