"""Room for some copies only: the plan against every other choice, and its laws."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput, UncertainPoisson, plan
from unstale.planning.space import copies_worth_keeping, plan_within

amounts = st.floats(0.05, 20.0)


@given(st.lists(st.tuples(amounts, amounts), min_size=2, max_size=6), amounts, st.integers(1, 5))
def test_of_copies_of_one_size_no_choice_is_better(elements, budget, count):
    rates, weights = np.array(elements).T
    count = min(count, rates.size - 1)
    got = plan_within(rates, budget, room=1.0, space=count, weights=weights)
    best = max(
        plan(rates[[*some]], budget, weights=weights[[*some]]).freshness * weights[[*some]].sum()
        for some in combinations(range(rates.size), count)
    )
    own = plan(rates[got.kept], budget, weights=weights[got.kept]).freshness * weights[got.kept].sum()
    assert own >= best * (1.0 - 0.02)  # two prices cannot divide what ties
    assert got.kept.sum() <= count


def test_with_room_for_all_it_is_the_plan():
    rates, weights = np.array([0.2, 1.0, 3.0, 9.0]), np.array([1.0, 2.0, 1.0, 0.5])
    got, plain = (
        plan_within(rates, 4.0, room=5.0, space=20.0, weights=weights),
        plan(rates, 4.0, weights=weights),
    )
    assert got.freshness == pytest.approx(plain.freshness, rel=1e-9)
    assert got.price == pytest.approx(plain.price, rel=1e-6)
    assert got.frequencies == pytest.approx(plain.frequencies, rel=1e-6, abs=1e-12)


def test_what_is_worth_least_per_byte_goes():
    got = plan_within([1.0, 1.0, 1.0], 3.0, room=[1, 1, 8], space=9, weights=[1, 1, 4])
    assert got.kept.tolist() == [True, True, False]
    assert plan_within([1.0, 1.0, 1.0], 3.0, room=[1, 1, 8], space=9, weights=[1, 1, 40]).kept[2]
    assert plan_within([1.0, 1.0], 3.0, room=[1, 1], space=0).freshness == 0.0
    law = UncertainPoisson(np.array([2.0, 2.0]), np.array([0.5, 5.0]))
    assert plan_within(law, 1.0, room=1.0, space=1.0).kept.tolist() == [True, False]


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=20), amounts)
def test_no_more_is_kept_than_there_is_room_for_and_nothing_else_fits(copies, space):
    values, room = np.array(copies).T
    kept = copies_worth_keeping(values, room, space)
    left = space - room[kept].sum()
    assert left >= -1e-9 * space
    assert not (room[~kept] <= left * (1.0 - 1e-9)).any()


def test_what_cannot_be_is_refused():
    with pytest.raises(InvalidInput, match="space"):
        plan_within([1.0], 1.0, room=1.0, space=-1.0)
    with pytest.raises(InvalidInput, match="room"):
        plan_within([1.0, 2.0], 1.0, room=[1.0, 2.0, 3.0], space=1.0)
