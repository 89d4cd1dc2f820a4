"""Cho & Garcia-Molina (2000): a change rate from polls."""

import numpy as np

from unstale import estimation

from .records import records, same


@records("cho-6.1-4changes")
def test_a_page_seen_to_change_four_times_in_four_months(record):
    """Section 6.1: it changes every month. That is the naive estimate; others allow for missed changes."""
    given = record["given"]
    polls = given["months"] * given["polls_per_month"]
    elapsed = np.full(polls, 1.0 / given["polls_per_month"])
    changed = np.arange(polls) % (polls // given["changes"]) == 0
    same(1.0 / estimation.estimate_rate(elapsed, changed, "naive").rate, record["value"])
    assert record["printed"] == record["value"]
    for method in ("bias-reduced", "mle"):
        gap = 1.0 / estimation.estimate_rate(elapsed, changed, method).rate
        assert 0.97 < gap < record["value"]
