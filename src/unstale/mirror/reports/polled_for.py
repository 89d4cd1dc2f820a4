"""What mirror.toml says of how an element is polled, in words: objective, target, parts, readers, hints."""

from __future__ import annotations

from math import isfinite

import numpy as np

from unstale.mirror.engine.load_policy import MirrorPolicy
from unstale.mirror.settings import Settings
from unstale.mirror.store.contract import Element
from unstale.policy.element_table import Places
from unstale.policy.terms import ElementTerms
from unstale.quantities import show_number, show_share

from .rhythm import rhythm_words

_POLICIES = {
    "uniform": "uniform: the mirror polls all elements equally often",
    "proportional": "proportional: the more often an element changes, the more often the mirror polls it",
}


def polled_for(policy: MirrorPolicy, settings: Settings, at: Places, element: Element) -> dict[str, str]:
    """Return, by name, what is otherwise than in a mirror for freshness of which nothing more is said."""
    own, told = ElementTerms.read(element.terms), {}
    if isfinite(own.target):
        told["target"] = f"{show_share(own.target)} of {own.rule} fresh, served first"
    elif settings.policy != "optimal":
        told["policy"] = _POLICIES[settings.policy]
    elif own.objective or settings.objective != "freshness":
        told["objective"] = own.objective or settings.objective
    if settings.order != "fixed":
        told["order"] = f"{settings.order}: the next poll may come earlier or later than expected"
    parts = [_part(policy, name) for name in own.parts if name in policy.composed.weights]
    if parts:
        told["a part of"] = "; ".join(parts)
    if settings.importance != "weights":
        whose = {"reads": "how often its copy is read", "links": "the links that lead to it"}
        factor = show_number(float(policy.table["reads"][at][0]))
        told["importance"] = f"times {factor}, by {whose[settings.importance]}"
    if (clocks := policy.known.clocks) is not None and clocks.readers is not None:
        when = rhythm_words(clocks.readers.levels) or "at some hours more than at others"
        before = (
            "polls come before them" if policy.known.timed else "the reserve is too short to wait for that"
        )
        told["readers"] = f"{when}; {before}"
    if settings.reads.poll_share > 0:
        share = show_share(settings.reads.poll_share)
        told["on read"] = (
            f"a reader who asks for a fresher copy causes a poll at once, from {share} of the budget"
        )
    if hints := _hints(policy, at):
        told["hints"] = hints
    return told


def _part(policy: MirrorPolicy, name: str) -> str:
    which = "one of its parts is" if name in policy.composed.one_suffices else "all of its parts are"
    return f"{name} (weight {show_number(policy.composed.weights[name])}), which is fresh if {which}"


def _hints(policy: MirrorPolicy, at: Places) -> str:
    """Say how far hints of an element have proved right; nothing if nobody gives any."""
    channel = policy.table["channel"][at]
    if not channel.any():
        return ""
    known = policy.known.channels.reliability(channel)
    recall, false = (float(np.clip(one[0], 0.0, 1.0)) for one in known)
    seen = f"{recall:.0%} of its changes come with one, and {false:.0%} of hints without a change"
    return f"{seen}, by what polls saw of such hints"
