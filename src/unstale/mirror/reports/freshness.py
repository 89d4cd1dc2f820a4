"""How the mirror does at a moment: freshness and age of its copies, as far as that can be known."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan

import numpy as np

from unstale.arguments import Floats
from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.engine.planner_state import PollCounts
from unstale.mirror.store.contract import Sample
from unstale.policy.element_table import Places
from unstale.polling import worth

from .what_if import MOST_ELEMENTS, freshness_bought

_MOST_ELEMENTS_PLANNED = 5000
"""Elements of the sample that says what the plan buys, in a tenth of a second."""


def ages(policy: MirrorPolicy, places: Places, now: float) -> Floats:
    """Return expected ages of copies; the time since it was added if there is no copy.

    After a time t it is the integral of the probability of a change up to there: t G(t) less what the poll
    would be worth for freshness.
    """
    table = policy.table
    law, _ = policy.known.outlook(places, now)
    since = policy.known.operational_since(places, now) / policy.known.level(places)
    changed = -np.expm1(-np.asarray(law.shape) * np.log1p(since * np.asarray(law.scale)))
    age = np.maximum(since * changed - np.asarray(worth("freshness", law, since)), 0.0)
    return np.where(np.isnan(table["last"][places]), table.since(places, now), age)


def mean_age(policy: MirrorPolicy, places: Places, weights: Floats, now: float) -> float:
    """Return the expected age of copies, of those that there are."""
    there = ~np.isnan(policy.table["last"][places]) & (weights > 0)
    if not there.any():
        return nan
    return float(np.average(ages(policy, places[there], now), weights=weights[there]))


def sampled(
    policy: MirrorPolicy, now: float, counts: PollCounts, beside: Mapping[str, float] | None = None
) -> Sample:
    """Return how the mirror does, from what the planner has in memory."""
    places = np.flatnonzero(policy.table.present)
    if places.size > MOST_ELEMENTS:
        places = np.random.default_rng(0).choice(places, MOST_ELEMENTS, replace=False)
    weights = policy.table["weight"][places].astype(float) * policy.table["reads"][places]
    share = policy.known.share(places, weights, now)
    return Sample(
        time=now,
        freshness=share.value,
        low=share.low,
        high=share.high,
        age=mean_age(policy, places, weights, now),
        predicted=freshness_bought(policy, np.flatnonzero(policy.table.present), now, _MOST_ELEMENTS_PLANNED),
        price=policy.price,
        polls=counts.polls,
        failed=counts.failed,
        traffic=counts.traffic,
        beside={} if beside is None else beside,
    )
