"""Tables of elements, a page at a time: every way to find them gives the same."""

import math
from dataclasses import replace

import pytest

from unstale import InvalidInput
from unstale.mirror.store.contract import SORTS
from unstale.mirror.store.sql import listing

from .making import additions, columns

KEYS = {
    "key": lambda e: (e.key, e.id),
    "last": lambda e: (-1.0 if math.isnan(e.last) else e.last, e.id),
    "weight": lambda e: (e.weight, e.id),
    "state": lambda e: (e.state, e.id),
    "added": lambda e: e.id,
}


@pytest.fixture
def full(store):
    with store.begin() as t:
        ids = t.add(additions(20, weight=2.0), 1.0) + t.add(additions(20, start=20), 2.0)
        t.save(columns(ids[3:9], state="failing", last=5.0))
        t.save(columns(ids[9:25], state="ok", last=7.0))
        t.save(columns(ids[25:30], state="ok", last=6.0))
        t.remove(ids[12:14], 3.0)
    return store


def expected(t, *, search="", state="", group="", sort="key", descending=False):
    everything = t.numbered(range(1, 41)).values()
    some = [
        e
        for e in everything
        if search in e.key
        and e.group.startswith(group)
        and (e.state == state if state else e.state != "removed")
    ]
    return [e.id for e in sorted(some, key=KEYS[sort], reverse=descending)]


@pytest.mark.every(4)
@pytest.mark.parametrize(("few", "looked_up"), [(20_000, 50_000), (0, 50_000), (0, 0)])
@pytest.mark.parametrize("sort", SORTS)
def test_a_page_is_a_part_of_the_sorted_elements_however_they_are_found(
    full, monkeypatch, sort, few, looked_up
):
    monkeypatch.setattr(listing, "_SORTED_AT_ONCE", few)
    monkeypatch.setattr(listing, "_LOOKED_UP_ROWS", looked_up)
    with full.begin() as t:
        for given in (
            {}, {"state": "ok"}, {"state": "new"}, {"state": "removed"}, {"group": "http:host1"},
            {"state": "ok", "group": "http:host2"}, {"search": "/1"}, {"search": "t0/", "state": "ok"},
            {"search": "1", "group": "http:host1", "state": "failing"},
        ):  # fmt: skip
            for descending in (False, True):
                want = expected(t, sort=sort, descending=descending, **given)
                for offset in (0, 3, max(len(want) - 4, 0), len(want) + 1):
                    rows, total = t.page(sort=sort, descending=descending, offset=offset, limit=4, **given)
                    assert total == len(want), (given, descending, offset)
                    assert [e.id for e in rows] == want[offset : offset + 4], (given, descending, offset)


def test_signs_of_patterns_in_a_search_are_just_signs(store):
    with store.begin() as t:
        t.add(additions(3), 1.0)
        for sign in ("%", "_", "\\", "'", "\0"):
            assert t.page(search=sign) == ([], 0)
        assert t.page(search="host1")[1] == 1


def test_letters_are_found_as_addresses_write_them(store):
    one, other = additions(2)
    keys = ("https://example.org/caf%C3%A9/a%20b", "file:/srv/caf\u00e9")
    with store.begin() as t:
        t.add([replace(one, key=keys[0]), replace(other, key=keys[1])], 1.0)
        assert {e.key for e in t.page(search="caf\u00e9")[0]} == set(keys)
        assert [e.key for e in t.page(search="a b")[0]] == [keys[0]]
        assert [e.key for e in t.page(search="%C3%A9")[0]] == [keys[0]]


def test_a_page_that_cannot_be_is_refused(store):
    with store.begin() as t:
        assert t.page() == ([], 0)
        assert t.page(group="http:nobody") == ([], 0)
        for wrong in ({"sort": "size"}, {"state": "odd"}, {"offset": -1}, {"limit": -1}):
            with pytest.raises(InvalidInput, match=next(iter(wrong))):
                t.page(**wrong)


def test_elements_are_found_by_number(full):
    with full.begin() as t:
        found = t.numbered([13, 1, 99])
        assert {number: e.state for number, e in found.items()} == {1: "new", 13: "removed"}
