"""The pages of section 6: how many change how often."""

from __future__ import annotations

import numpy as np

import unstale

from ._orders import Policy

CLASSES = ("up to 1 day", "1 day to 1 week", "1 week to 1 month", "1 to 4 months", "more than 4 months")
SHARES = np.array([23, 15, 16, 16, 30])
"""Pages in a hundred with such a mean gap between changes (Figure 12)."""
PERIODS_DAYS = np.array([1.0, 7.0, 30.0, 120.0, 365.0])
"""Days between changes that stand for each class (section 6.3)."""
ROUND_DAYS = 30.0
"""Days in which all pages are polled once on average."""
CRAWL_DAYS = 127
"""Length of the crawl, from 17 February to 24 June 1999."""


def plan(policy: Policy, objective: str = "freshness") -> unstale.Plan:
    """Return a policy's plan for a hundred pages."""
    rates = np.repeat(1.0 / PERIODS_DAYS, SHARES)
    return unstale.plan(rates, rates.size / ROUND_DAYS, policy=policy, objective=objective)
