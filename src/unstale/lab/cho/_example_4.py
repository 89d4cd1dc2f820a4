"""Example 4: five elements that change one to five times a day, and five polls a day."""

from __future__ import annotations

import numpy as np

import unstale

RATES = np.arange(1.0, 6.0)
BUDGET = 5.0


def best(objective: str) -> unstale.Plan:
    """Return the best allocation."""
    return unstale.plan(RATES, BUDGET, objective=objective)
