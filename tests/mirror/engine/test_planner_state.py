"""What the planner keeps: read as it was written, also by versions before this one."""

import json
from math import inf

import numpy as np
import pytest

from unstale.estimation.learning.learner import Learner
from unstale.mirror.engine.planner_state import (
    BudgetPair,
    BudgetsSet,
    HintsLeft,
    PlannerState,
    PollCounts,
    packed,
)
from unstale.mirror.settings import Settings
from unstale.policy import Channels


def test_nothing_kept_is_a_new_planner():
    state = PlannerState.read({})
    assert (state.last_poll, state.last_edit, state.price, state.paid) == (0, 0, 0.0, -inf)
    assert (state.learner, state.budgets, state.budgets_set) == (None, None, None)
    assert state.in_force(Settings(budget=2.0)) == Settings(budget=2.0)


def test_what_is_kept_is_read_again():
    channels = Channels()
    channels.number("api")
    state = PlannerState(
        last_poll=7,
        last_edit=3,
        price=0.25,
        paid=1.7e9 + 0.125,
        paid_bytes=1.7e9,
        mean_size=321.0,
        budgets=BudgetPair(0.5, None),
        hints=(HintsLeft(5, "api", 2),),
        audit={9: "audit 1"},
        counts=PollCounts(4, 1, 1000),
        learner=Learner(0, round=60.0).shared,
        channels=channels,
    )
    again = PlannerState.read(state.kept())
    for name in ("last_poll", "last_edit", "price", "paid", "paid_bytes", "mean_size", "budgets", "hints"):
        assert getattr(again, name) == getattr(state, name)
    assert (again.audit, again.counts) == (state.audit, state.counts)
    assert again.channels.names == channels.names
    assert again.learner.keys() == state.learner.keys()
    assert all(np.array_equal(again.learner[name], state.learner[name]) for name in state.learner)
    assert again.kept() == state.kept()


def test_moments_that_are_none_are_kept_as_a_moment_long_ago():
    kept = PlannerState().kept()
    assert json.loads(kept["planner"])["paid"] == 0.0
    assert "learner" not in kept


def test_what_versions_before_this_one_wrote():
    """Their bytes, as they are in stores: version 3 of the schema had no type for them."""
    kept = {
        "planner": b'{"heard": 12, "edited": 4, "price": 0.5, "paid": 1700000000.5, "paid_bytes": 0.0, '
        b'"mean_size": 900.0, "budgets": [0.01, null], "hints": [[3, "api", 1]], "audit": {"6": "audit 5"}, '
        b'"counted": [2, 1, 300]}',
        "learner": packed({"heard": np.float64(2.0)}),
        "channels": b"{}",
        "budgets": b'{"budget": 5.0, "byte_budget": null, "instead_of": [0.01, null]}',
        "rules": b"others keep things there, too",
    }
    state = PlannerState.read(kept)
    assert (state.last_poll, state.last_edit, state.price, state.paid) == (12, 4, 0.5, 1700000000.5)
    assert state.budgets == (0.01, None)
    assert state.hints == (HintsLeft(3, "api", 1),)
    assert state.audit == {6: "audit 5"}
    assert state.counts == PollCounts(2, 1, 300)
    assert state.learner is not None
    assert float(state.learner["heard"]) == 2.0
    assert {name: kept[name] for name in state.kept()} == state.kept()
    assert state.budgets_set is not None
    assert state.budgets_set.kept() == {"budgets": kept["budgets"]}


@pytest.mark.parametrize(
    ("kept", "said", "used"),
    [
        ({"budget": 5.0, "byte_budget": None, "instead_of": [1.0, None]}, (1.0, None), (5.0, None)),
        ({"budget": 5.0, "byte_budget": None, "instead_of": [1.0, None]}, (2.0, None), (2.0, None)),
        ({"budget": None, "byte_budget": 7.0, "instead_of": [1.0, None]}, (1.0, None), (None, 7.0)),
        ({"budget": 5.0, "byte_budget": None}, (2.0, None), (5.0, None)),
    ],
)
def test_budgets_that_were_set_count_until_the_settings_change(kept, said, used):
    state = PlannerState.read({"budgets": json.dumps(kept).encode()})
    settings = state.in_force(Settings(budget=said[0], byte_budget=said[1]))
    assert (settings.budget, settings.byte_budget) == used


def test_budgets_are_kept_apart_from_what_the_planner_writes():
    chosen = BudgetsSet(BudgetPair(3.0, None), BudgetPair(1.0, None))
    state = PlannerState.read(chosen.kept())
    assert state.budgets_set == chosen
    assert "budgets" not in state.kept()
