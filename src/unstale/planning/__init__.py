"""Planning: how often to poll each element, so that a budget is spent where it helps most.

Data flows one way through these files: `problem` (what is given) makes a `market` of `elements`; `search`
finds the price; `limits` turns the limits of groups into bounds; `allocation` puts a plan together. For many
elements `fast_path` does the same in a few passes: `demand` says by which kind elements ask for polls, and
`compiled.demand`, `compiled.plain` and `compiled.uncertain` are the passes, with the tables of `lookup` and
`uncertain_lookup`; `grouped` sorts elements of many small groups, and `compiled.grouped` finds their prices.
`summary` and `shards` answer for elements that are not at hand, from cells that `compiled.cells` adds up;
`demand_curve` shares a budget between sets of elements that know only the price.
`azar` and `partitions` are the allocations of other papers; `space` chooses which copies there is room for.

As all layers from the simulation down, these modules compute and do nothing else: they read no clock and no
file, start no thread and log nothing (`make lint` checks their imports).
"""

from .allocation import POLICIES, Curve, Plan, budget_for, plan
from .azar import random_optimal, random_optimal_slots
from .demand_curve import DemandCurve, share_budget
from .partitions import Partitioning
from .shards import ShardedPlan, plan_shards, summary_of
from .space import SpacePlan, plan_within
from .summary import Outlook, Summary

__all__ = [
    "POLICIES",
    "Curve",
    "DemandCurve",
    "Outlook",
    "Partitioning",
    "Plan",
    "ShardedPlan",
    "SpacePlan",
    "Summary",
    "budget_for",
    "plan",
    "plan_shards",
    "plan_within",
    "random_optimal",
    "random_optimal_slots",
    "share_budget",
    "summary_of",
]
