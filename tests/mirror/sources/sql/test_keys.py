"""Keys: one for each thing, no password in any."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.errors import MissingExtra
from unstale.mirror.settings import Database, Settings
from unstale.mirror.sources.sql.keys import Partition, TableKey, TableName, options_of, parse_key
from unstale.mirror.sources.sql.source import sql_source

SOURCE = sql_source(Settings(databases={"shop": Database("sqlite:////srv/shop.db")}))


@pytest.mark.parametrize(
    ("text", "options", "key"),
    [
        ("shop#orders", {}, "shop#orders"),
        (" shop # sales.orders ", {}, "shop#sales.orders"),
        ('shop#"orders"', {}, "shop#orders"),
        ('shop#"odd.name"', {}, 'shop#"odd.name"'),
        ('shop#a."say ""x"""', {}, 'shop#a."say ""x"""'),
        ("shop#orders[region=eu]", {}, "shop#orders[region=eu]"),
        ("shop#orders[eu]", {"partition": "region"}, "shop#orders[region=eu]"),
        ("shop#orders[region=eu]", {"partition": "region"}, "shop#orders[region=eu]"),
        ("shop#orders[region is NULL]", {"partition": "region"}, "shop#orders[region is null]"),
        ("shop#orders[rate=5%]", {}, "shop#orders[rate=5%25]"),
        ("shop#orders[rate=5%25]", {}, "shop#orders[rate=5%25]"),
        ('shop#orders["a=b"=c=d]', {}, 'shop#orders["a=b"=c=d]'),
        ("shop#orders[a=x]y]", {}, "shop#orders[a=x]y]"),
        ("shop#best customers", {"query": "SELECT 1"}, "shop#best customers"),
        ("sqlite:////srv/shop.db#t", {}, "sqlite:////srv/shop.db#t"),
        ("postgresql://ann@db.example/shop#t", {}, "postgresql://ann@db.example/shop#t"),
        ("shop#orders; DROP TABLE orders --", {}, "shop#orders; DROP TABLE orders --"),
    ],
)
def test_keys(text, options, key):
    assert SOURCE.key(text, options) == key
    assert SOURCE.key(key, options) == key
    assert SOURCE.group(key, options) == f"sql:{key.split('#')[0]}"


def test_relative_files_have_one_key(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert SOURCE.key("sqlite:///a/../b.db#t", {}) == f"sqlite:///{tmp_path}/b.db#t"


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("orders", {}, "write DATABASE#TABLE"),
        (
            "nowhere#orders",
            {},
            r"no database 'nowhere' in mirror.toml; there are: shop. Add \[databases.nowhere\]",
        ),
        ("sqlite://#t", {}, "in memory"),
        (
            "postgresql://ann:s3cret@db/shop#t",
            {},
            r"mirror.toml: \[databases.NAME\] .* \$\{VARIABLE\}",
        ),
        ("postgresql://ann@db/shop?password=s3cret#t", {}, "has a password in it"),
        ("://s3cret@x#t", {}, "no URL of a database"),
        ("shop#a.b.c", {}, "names no table"),
        ("shop#a..b", {}, "names no table"),
        ('shop#"a', {}, "names no table"),
        ("shop#a]", {}, "names no table"),
        ("shop#a[b", {}, "a partition is written"),
        ("shop#a[b]", {}, "a partition is written"),
        ("shop#a[b=c]", {"query": "SELECT 1"}, "a query has no partitions"),
        ("shop#a", {"query": ""}, "query must be a text"),
        ("shop#a", {"query": "SELECT 1", "split": "b"}, "split is for tables"),
        ("shop#a", {"cursor": "a", "probe": "SELECT 1"}, "leave one of them out"),
        ("shop#a", {"count": "yes"}, "count must be true or false; it is 'yes'"),
        ("shop#a", {"tables": [1]}, "tables must be a list"),
        ("shop#a", {"tables": []}, "tables must be a list"),
        ("shop#a", {"tables": ["a[b=c]"]}, "is none"),
    ],
)
def test_what_is_no_key(text, options, said):
    with pytest.raises(InvalidInput, match=said) as caught:
        SOURCE.key(text, options)
    assert "s3cret" not in str(caught.value).replace("://s3cret@x", "")


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)


@given(
    st.none() | NAMES,
    NAMES,
    st.none() | st.tuples(NAMES, st.none() | st.text(st.characters(exclude_categories=["Cs"]))),
)
def test_any_names_can_be_written_and_read(schema, table, part):
    thing = TableKey("shop", TableName(schema, table), Partition(*part) if part else None)
    assert parse_key(str(thing), {}) == thing
    assert SOURCE.key(str(thing), {}) == str(thing)
    if part and part[1] is not None:
        assert "\n" not in str(thing).partition("=")[2] or "\n" in part[0]


@given(st.text(max_size=30))
def test_nonsense_is_refused_or_has_one_key(text):
    try:
        key = SOURCE.key(f"shop#{text}", {})
    except InvalidInput:
        return
    assert SOURCE.key(key, {}) == key


def test_options_of_others_are_ignored():
    assert options_of({"selector": "main", "change": 5}) == options_of({})
    assert options_of({"query": "SELECT 1"}).digest != options_of({"query": "SELECT 2"}).digest


def test_missing_parts_are_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"unstale\[postgres\]"):
        SOURCE.key("postgresql://db/shop#t", {})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"unstale\[sql\]"):
        SOURCE.key("shop#t", {})
