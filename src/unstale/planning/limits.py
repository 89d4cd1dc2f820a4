"""Groups of elements that share a limit: the price of each group, and the most it can give to its elements.

A group has a price of its own: the one at which it alone meets its limit. Below that price its elements get
what they get at it, above it they follow the price of all. So a limit is a bound on each frequency, the same
for every budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..arguments import Floats, numbers, scalar
from ..errors import InvalidInput
from .market import Market, mixed
from .search import meet_each

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Codes = NDArray[np.int64]


class Groups:
    """Which element is in which group, and what each group may spend."""

    def __init__(self, codes: Codes, labels: Sequence[object], limits: Floats) -> None:
        self.codes, self.labels, self.limits = codes, labels, limits

    def spent(self, spending: Floats) -> Floats:
        """What each group spends."""
        return np.bincount(self.codes, spending, self.limits.size).astype(float, copy=False)


def group_codes(groups: ArrayLike, limits: Mapping[object, float] | ArrayLike, count: int) -> Groups:
    """Number the groups; ``limits`` is a mapping by label, or an array that integer labels index.

    >>> group_codes(["b", "a", "b"], {"a": 1.0}, 3).limits.tolist()    # b has no limit
    [1.0, inf]
    """
    # a list may mix text and numbers, which an array would turn into text
    labels = np.array(groups, dtype=object) if isinstance(groups, list | tuple) else np.asarray(groups)
    if labels.shape != (count,):
        raise InvalidInput(
            f"groups must have one label for each element; groups has shape {labels.shape}, rates ({count},)"
        )
    if labels.dtype.kind not in "iuUS":
        labels = _as_labels(labels)
    if isinstance(limits, Mapping):
        names, codes = np.unique(labels, return_inverse=True)
        allowed = {label: _limit(label, limit) for label, limit in limits.items()}
        known = names.tolist()
        unknown = [label for label in allowed if label not in set(known)]
        if unknown:
            raise InvalidInput(
                f"limits must name groups; no element is in {unknown[0]!r}, but some are in {known[0]!r}"
            )
        most = np.array([allowed.get(name, np.inf) for name in known])
        return Groups(codes.astype(np.int64, copy=False), known, most)
    if labels.dtype.kind not in "iu":
        raise InvalidInput(
            "limits must be a mapping from label to limit unless groups are whole numbers; "
            f"groups[0] is {labels[0].item()!r}"
        )
    array = numbers("limits", limits, at_least=0, infinite=True)
    if array.ndim != 1:
        raise InvalidInput(f"limits must be a mapping or one-dimensional; limits has shape {array.shape}")
    bad = (labels < 0) | (labels >= array.size)
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidInput(
            f"groups must index limits, which has {array.size} entries; groups[{i}] is {labels[i].item()}"
        )
    return Groups(labels.astype(np.int64, copy=False), range(array.size), array)


def _as_labels(labels: NDArray[np.generic]) -> NDArray[np.generic]:
    """Labels of any kind, as long as they are all text or all whole numbers."""
    for kind in (str, int):
        if all(isinstance(label, kind) and not isinstance(label, bool) for label in labels.tolist()):
            return np.array(labels.tolist())
    odd = next(i for i, label in enumerate(labels.tolist()) if not isinstance(label, str))
    raise InvalidInput(f"groups must be text, or whole numbers; groups[{odd}] is {labels[odd]!r}")


def _limit(label: object, limit: float) -> float:
    return scalar(f"limits[{label!r}]", limit, at_least=0, infinite=True)


def limited(market: Market, groups: Groups, guess: float) -> tuple[Market, Floats]:
    """Bound each frequency by what its group's limit allows; also return the price of each group."""
    least = check_limits(market, groups)
    low = market.column("low")
    caps, prices = _searched(market, groups, least, guess)
    return market.bounded(low, caps), prices


def check_limits(market: Market, groups: Groups) -> Floats:
    """Insist on limits that pay for the lower bounds; return what these need."""
    if not any(np.any(part.low) for part in market.parts):
        return np.zeros(groups.limits.shape)
    least = groups.spent(market.spending(market.column("low")))
    if (bad := least > groups.limits * (1.0 + 1e-12)).any():
        h = int(np.argmax(bad))
        raise InvalidInput(
            f"min_frequency needs {least[h]:g} in group {groups.labels[h]!r}, whose limit is "
            f"{groups.limits[h]:g}; raise the limit or lower min_frequency"
        )
    return least


def _searched(market: Market, groups: Groups, least: Floats, guess: float) -> tuple[Floats, Floats]:
    low, high = market.column("low"), market.column("high")
    filled = market.filled
    most = groups.spent(np.where(np.isinf(filled), np.inf, market.spending(np.minimum(filled, 1e300))))
    bound = (most > groups.limits) & (least < groups.limits)
    prices = np.where(least >= groups.limits, np.inf, 0.0)
    caps = np.where((prices == np.inf)[groups.codes], low, high)
    if not bound.any():
        return caps, prices
    busy = bound[groups.codes]

    def asked(price: Floats) -> Floats:
        each = np.ones(bound.shape)
        each[bound] = price
        return market.frequencies(each[groups.codes])

    under, over, mix = meet_each(
        lambda price: groups.spent(market.spending(asked(price)))[bound],
        groups.limits[bound],
        np.full(int(bound.sum()), guess),
        1e-13,
    )
    share = np.ones(bound.shape)
    share[bound] = mix
    share = share[groups.codes]
    met = mixed(asked(under), asked(over), share)
    prices[bound] = over
    return np.where(busy, met, caps), prices
