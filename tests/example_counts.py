"""How many examples a property has whose examples cost more than usual, or less."""

from hypothesis import settings


def percent(share):
    """So many percent of the usual number of examples, and one at least."""
    return max(1, settings().max_examples * share // 100)
