"""Columns of elements: those in which all are alike are kept as one number, and nobody sees that."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.estimation.learning.learner import Learner
from unstale.policy import ElementTable
from unstale.policy.element_table import _COLUMNS, OK, ElementColumns

SHARED = ("weight", "size", "max_age", "hints", "stays", "elsewhere", "reads")
VALUES = {"weight": [0.0, 1.0], "size": [np.nan, 2.0], "elsewhere": [-np.inf, 3.0], "reads": [1.0, 2.0]}


def of_a_store(ids, **columns):
    """Elements as a store tells them, polled once and with nothing said of them but these columns."""
    n = len(ids)
    plain = {
        "group": np.zeros(n, np.int64), "added": np.full(n, 5.0), "last": np.arange(n) + 6.0,
        "not_before": np.zeros(n), "failures": np.zeros(n, np.int64), "weight": np.ones(n),
        "size": 1000.0 + np.arange(n), "max_age": np.full(n, np.inf), "min_interval": np.zeros(n),
        "jitter": np.full(n, 0.1), "windows": [""] * n, "state": ["ok"] * n, "evidence": [b""] * n,
    }  # fmt: skip
    return ElementColumns(np.asarray(ids, np.int64), **{**plain, **columns})


@settings(max_examples=40)
@given(st.data())
def test_columns_read_as_they_were_written(data):
    table, model = ElementTable(), {name: np.empty(0) for name in SHARED}
    for _ in range(data.draw(st.integers(1, 6))):
        values = {name: data.draw(st.sampled_from(VALUES.get(name, [0.0, 1.0]))) for name in SHARED}
        n = len(table)
        if not n or data.draw(st.booleans()):
            more = data.draw(st.integers(1, 3))
            some = data.draw(st.sets(st.sampled_from(SHARED)))
            table.extend(more, **{name: values[name] for name in some})
            for name in SHARED:
                one = values[name] if name in some else _COLUMNS[name][1]
                model[name] = np.append(model[name], np.full(more, one))
            continue
        name = data.draw(st.sampled_from(SHARED))
        where = data.draw(st.one_of(st.just(slice(None)), st.sets(st.integers(0, n - 1)).map(sorted)))
        places = where if isinstance(where, slice) else np.array(where, np.intp)
        table[name, places] = values[name]
        model[name][places] = values[name]
    for name in SHARED:
        np.testing.assert_array_equal(table[name], model[name].astype(_COLUMNS[name][0]))
    again = ElementTable.resume(table.state(), Learner(len(table), round=1.0))
    for name in SHARED:
        np.testing.assert_array_equal(again[name], table[name])


@pytest.mark.parametrize("room", [0, 2, 6])
def test_what_a_store_says_of_one_element_is_said_of_no_other(room):
    table = ElementTable()
    table.reserve(room, None)
    table.fill(0, of_a_store([1, 2]))
    table.fill(2, of_a_store([3, 4], weight=np.array([1.0, 2.0])))
    table.leave_out(4)
    table.take_up(of_a_store([1, 9], max_age=np.array([60.0, np.inf]), jitter=np.array([0.1, 0.2])))
    places = table.places([1, 2, 3, 4, 9])
    assert table["weight"][places].tolist() == [1.0, 1.0, 1.0, 2.0, 1.0]
    assert table["max_age"][places].tolist() == [60.0, np.inf, np.inf, np.inf, np.inf]
    assert table["jitter"][places].tolist() == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.2])
    assert table["state"][places].tolist() == [OK] * 5
    assert table["stays"][places].tolist() == [0.0] * 5


def bytes_each(table):
    """What columns and evidence take; entries that stand for all elements take nothing."""
    columns = [table[name] for name in _COLUMNS]
    kept = sum(column.nbytes for column in columns if column.flags.writeable)
    return (kept + table.learner.evidence.nbytes) / len(table)


def test_an_element_of_a_plain_mirror_takes_little_memory():
    """The bound is what docs/explanation/learning.md says; 160 bytes are evidence."""
    count = 1000
    table = ElementTable()
    table.reserve(count, None)
    table.fill(0, of_a_store(np.arange(count)))
    assert bytes_each(table) <= 195
    for name in ("clockwork", "day_bet", "week_bet"):  # what is learned of clocks of their own
        table.each(name)
    table["group", :], table["added", :] = np.arange(count), np.arange(count)
    assert bytes_each(table) <= 219
    table["failures", 0], table["not_before", 0], table["stays", 0] = 1, 60.0, 60.0
    assert bytes_each(table) <= 235
