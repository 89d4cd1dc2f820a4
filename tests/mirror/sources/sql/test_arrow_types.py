"""Values come out as they went in."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale.mirror.sources.sql.arrow_types import ValueKinds, from_hex, unique
from unstale.mirror.sources.sql.row_fingerprint import RowSum

UTC = dt.UTC

TYPES = [
    ("boolean", ["true", "false"], pa.bool_(), [True, False]),
    ("smallint", ["-32768", "32767"], pa.int16(), [-32768, 32767]),
    ("int", ["-2147483648", "0"], pa.int32(), [-(2**31), 0]),
    ("bigint", ["9223372036854775807", "-9223372036854775808"], pa.int64(), [2**63 - 1, -(2**63)]),
    ("real", ["1.5", "NaN", "-Infinity"], pa.float32(), [1.5, math.nan, -math.inf]),
    ("float8", ["0.1", "1e-300", "Infinity", "-0"], pa.float64(), [0.1, 1e-300, math.inf, -0.0]),
    (
        "numeric(10,2)",
        ["12345678.91", "-0.01"],
        pa.decimal128(10, 2),
        [Decimal("12345678.91"), Decimal("-0.01")],
    ),
    ("numeric(38,0)", ["9" * 38], pa.decimal128(38, 0), [Decimal("9" * 38)]),
    ("numeric", ["1.10", "1e-30", "NaN"], pa.string(), ["1.10", f"0.{'0' * 29}1", "NaN"]),
    ("numeric(50,2)", ["1"], pa.string(), ["1.00"]),
    (
        "text",
        ["", "a,b", 'say "x"', "two\nlines\r\n", "\\.", "NULL", "é 漢 🎉", " blank "],
        pa.string(),
        None,
    ),
    ("varchar(5)", ["abc"], pa.string(), ["abc"]),
    ("char(3)", ["a"], pa.string(), ["a  "]),
    ("bytea", ["", r"\x00ff", r"\x5c"], pa.binary(), [b"", b"\0\xff", b"\\"]),
    (
        "date",
        ["2026-02-28", "0001-01-01", "9999-12-31"],
        pa.date32(),
        [dt.date(2026, 2, 28), dt.date.min, dt.date.max],
    ),
    (
        "timestamp",
        ["2026-01-01 00:00", "1969-12-31 23:59:59.999999"],
        pa.timestamp("us"),
        [dt.datetime(2026, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999999)],  # noqa: DTZ001
    ),
    (
        "timestamptz",
        ["2026-07-01 12:00+02", "2026-01-01 00:00:00.5Z"],
        pa.timestamp("us", "UTC"),
        [dt.datetime(2026, 7, 1, 10, tzinfo=UTC), dt.datetime(2026, 1, 1, 0, 0, 0, 500000, tzinfo=UTC)],
    ),
    ("time", ["23:59:59.5", "00:00"], pa.time64("us"), [dt.time(23, 59, 59, 500000), dt.time(0)]),
    ("timetz", ["12:00+02"], pa.string(), ["12:00:00+02"]),
    ("interval", ["1 year 2 days 3 seconds"], pa.string(), ["P1Y2DT3S"]),
    ("json", ['{"b": 1,  "a": [null]}'], pa.string(), ['{"b": 1,  "a": [null]}']),
    ("jsonb", ['{"b":1,"a":"x,\\"y"}'], pa.string(), ['{"a": "x,\\"y", "b": 1}']),
    ("uuid", ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"], pa.string(), ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    ("mood", ["glad"], pa.string(), ["glad"]),
    ("mood[]", ["{glad,sad,NULL}"], pa.list_(pa.string()), [["glad", "sad", None]]),
    ("int[]", ["{1,NULL,3}", "{}"], pa.list_(pa.int32()), [[1, None, 3], []]),
    ("text[]", ['{"a,b","",NULL,"\\"q\\""}'], pa.list_(pa.string()), [["a,b", "", None, '"q"']]),
    ("float8[]", ["{1.5,NaN,-Infinity}"], pa.list_(pa.float64()), [[1.5, math.nan, -math.inf]]),
    ("bool[]", ["{t,f}"], pa.list_(pa.bool_()), [[True, False]]),
    ("inet", ["10.0.0.1/8"], pa.string(), ["10.0.0.1/8"]),
    ("int4range", ["[1,5)"], pa.string(), ["[1,5)"]),
    ("money", ["12.5"], pa.string(), ["$12.50"]),
    ("pair", ["(1,x)"], pa.string(), ["(1,x)"]),
    ("positive", ["5"], pa.int32(), [5]),
    ("oid", ["4294967295"], pa.int64(), [2**32 - 1]),
    # what the type of the column cannot hold makes the column text
    ("date", ["2026-02-28", "infinity"], pa.string(), ["2026-02-28", "infinity"]),
    ("date", ["0044-03-15 BC"], pa.string(), ["0044-03-15 BC"]),
    ("timestamptz", ["-infinity", "2026-01-01Z"], pa.string(), ["-infinity", "2026-01-01 00:00:00+00"]),
    ("time", ["24:00"], pa.string(), ["24:00:00"]),
    ("numeric(5,1)", ["NaN", "1"], pa.string(), ["NaN", "1.0"]),
    ("int[]", ["{{1,2},{3,4}}"], pa.string(), ["{{1,2},{3,4}}"]),
]


def same(a, b):
    return repr(a).replace("zoneinfo.ZoneInfo(key='UTC')", "datetime.timezone.utc") == repr(b)


def test_types_of_postgresql(pg, pg_poller):
    """All in one table, with NULLs among them."""
    pg.execute(
        "SET lc_monetary = 'C'; CREATE TYPE mood AS ENUM ('sad', 'glad'); "
        "CREATE TYPE pair AS (a int, b text); "
        "CREATE DOMAIN positive AS int CHECK (VALUE > 0)"
    )
    columns = ", ".join(f"c{i} {one[0]}" for i, one in enumerate(TYPES))
    pg.execute(f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    for row in range(9):
        values = [one[1][row] if row < len(one[1]) else None for one in TYPES]
        pg.execute(f"INSERT INTO t VALUES (%s{', %s' * len(values)})", [row, *values])  # noqa: S608
    element = pg_poller.element("shop#t")
    found = element.poll()
    assert found.outcome == "changed"
    for i, (name, written, kind, expected) in enumerate(TYPES):
        values = written if expected is None else expected
        column = element.copy[f"c{i}"]
        assert column.type == kind, name
        assert same(column.to_pylist(), values + [None] * (9 - len(values))), name
    notes = " ".join(found.meta["notes"])
    assert "c8: type numeric is kept as text" in notes
    assert notes.count("all are text") == 6
    first = element.known.fingerprint
    again = pg_poller.element("shop#t")
    assert again.poll().fingerprint == first
    for i in range(len(TYPES)):  # each value counts
        pg.execute(f"UPDATE t SET c{i} = NULL WHERE id = 0")  # noqa: S608
        before = element.known.fingerprint
        assert element.poll().outcome == "changed"
        assert element.known.fingerprint != before


def test_tables_of_all_shapes(pg, pg_poller):
    pg.execute("CREATE TABLE none (); INSERT INTO none SELECT FROM generate_series(1, 3)")
    none = pg_poller.element("shop#none")
    assert none.poll().meta["rows"] == 3
    pg.execute("INSERT INTO none DEFAULT VALUES")
    assert none.poll().meta["rows"] == 4
    pg.execute("CREATE TABLE empty (a int, b text)")
    empty = pg_poller.element("shop#empty")
    empty.poll()
    assert (empty.copy.num_rows, empty.copy.schema.types) == (0, [pa.int32(), pa.string()])
    pg.execute(f"CREATE TABLE wide ({', '.join(f'c{i} int' for i in range(1600))})")
    pg.execute("INSERT INTO wide (c1599) VALUES (7), (NULL)")
    wide = pg_poller.element("shop#wide")
    wide.poll()
    assert wide.rows == [(None,) * 1599 + (7,), (None,) * 1600]
    twice = pg_poller.element("shop#twice", query="SELECT 1 AS a, 2 AS a, NULL AS b, 3 AS a")
    twice.poll()
    assert (twice.copy.column_names, twice.rows) == (["a", "a_2", "b", "a_3"], [(1, 2, None, 3)])
    one = pg_poller.element("shop#one", query="SELECT * FROM (VALUES ('a'), (NULL), (''), (NULL)) AS v")
    one.poll()
    assert one.rows == [("a",), (None,), ("",), (None,)]


def test_the_order_of_rows_does_not_matter(pg, pg_poller):
    pg.execute(
        "CREATE TABLE t (a int, b text); INSERT INTO t SELECT i, 'x' || i FROM generate_series(1, 1000) i"
    )
    element = pg_poller.element("shop#t")
    element.poll()
    pg.execute("CREATE TABLE u AS SELECT * FROM t ORDER BY b DESC; TRUNCATE t; INSERT INTO t SELECT * FROM u")
    assert element.poll().detail.startswith("the same rows")


# --- SQLite -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declared", "values", "kind"),
    [
        ("INTEGER", [1, -(2**63), 2**63 - 1, None], pa.int64()),
        ("REAL", [1, 2.5, math.inf], pa.float64()),
        ("TEXT", ["", "a", "漢"], pa.string()),
        ("BLOB", [b"", b"\0\xff"], pa.binary()),
        ("", [1, 2], pa.int64()),
        ("NUMERIC", [1, 2.5], pa.float64()),
        ("DECIMAL(10,2)", [1, 2], pa.float64()),
        ("BOOLEAN", [0, 1], pa.int64()),
        ("", [1, 2**53 + 1, 0.5], pa.string()),
        ("INTEGER", [1, "text", b"\xff", 1.5, None], pa.string()),
        ("TEXT", ["x", b"y"], pa.string()),
        ("INTEGER", [None, None], pa.int64()),
        ("ANYTHING", [None], pa.string()),
    ],
)
def test_types_of_sqlite(lite, lite_poller, declared, values, kind):
    lite.execute(f"CREATE TABLE t (v {declared})")
    lite.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    element = lite_poller.element("shop#t")
    found = element.poll()
    assert element.copy["v"].type == kind
    there = [value for (value,) in lite.execute("SELECT v FROM t")]
    if len({type(value) for value in there} - {type(None)}) > 1 and kind == pa.string():
        assert "are kept as text" in found.meta["notes"][0]
        there = [f"x'{v.hex()}'" if isinstance(v, bytes) else v if v is None else str(v) for v in there]
    assert element.copy["v"].to_pylist() == there


def test_a_late_text_among_numbers(lite, lite_poller):
    """All rows are read again, and the result is that of any other order."""
    lite.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
    lite.execute("BEGIN")
    lite.executemany("INSERT INTO t VALUES (?, ?)", [(i, i) for i in range(20_000)])
    lite.execute("INSERT INTO t VALUES (20000, 'late')")
    lite.execute("COMMIT")
    element = lite_poller.element("shop#t")
    element.poll()
    assert element.copy["v"].type == pa.string()
    assert element.rows == [*((i, str(i)) for i in range(20_000)), (20_000, "late")]
    lite.execute("DELETE FROM t WHERE v = 'late'")
    found = element.poll()
    assert "column 'v' is int64, not string" in found.detail


def test_text_that_is_not_utf8(lite, lite_poller):
    lite.execute("CREATE TABLE t (v TEXT)")
    lite.execute("INSERT INTO t VALUES ('fine'), (CAST(x'61ff62' AS TEXT)), ('a' || char(0) || 'b')")
    element = lite_poller.element("shop#t")
    assert element.poll().outcome == "changed"
    assert element.rows == [("fine",), ("a\\xffb",), ("a\0b",)]


VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
)


@settings(max_examples=percent(30))
@given(rows=st.lists(st.tuples(VALUES, VALUES), max_size=8))
def test_any_values_of_sqlite(rows, lite, lite_poller):
    lite.execute("DROP TABLE IF EXISTS t")
    lite.execute("CREATE TABLE t (a, b NUMERIC)")
    try:
        lite.executemany("INSERT INTO t VALUES (?, ?)", rows)
    except UnicodeEncodeError:
        return
    element = lite_poller.element("shop#t")
    element.poll()
    there = lite.execute("SELECT * FROM t").fetchall()
    for i, name in enumerate("ab"):
        values, copied = [row[i] for row in there], element.copy[name].to_pylist()
        if element.copy[name].type == pa.string():
            texts = [
                f"x'{v.hex()}'" if isinstance(v, bytes) else repr(v) if isinstance(v, float) else v
                for v in values
            ]
            assert copied == [None if value is None else str(value) for value in texts]
        else:
            assert copied == values


# --- the fingerprint --------------------------------------------------------------------------------------


def fingerprint(*parts):
    total = RowSum()
    for rows in parts:
        total.add(
            [pa.array([row[0] for row in rows], pa.int32()), pa.array([row[1] for row in rows], pa.string())],
            len(rows),
        )
    return total.fingerprint([("a", "int32"), ("b", "string")])


ROW = st.tuples(st.none() | st.integers(-5, 5), st.none() | st.text(max_size=20))


@given(rows=st.lists(ROW, max_size=10), others=st.lists(ROW, max_size=10), data=st.data())
def test_a_fingerprint_is_that_of_a_bag_of_rows(rows, others, data):
    cut = data.draw(st.integers(0, len(rows)))
    mixed = data.draw(st.permutations(rows))
    assert fingerprint(rows) == fingerprint(mixed[:cut], mixed[cut:])
    equal = sorted(map(repr, rows)) == sorted(map(repr, others))
    assert (fingerprint(rows) == fingerprint(others)) == equal


@given(st.lists(ROW, min_size=1, max_size=10), st.integers(0, 9))
def test_slices_are_summed_up_like_wholes(rows, start):
    whole = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate((pa.int32(), pa.string()))]
    total = RowSum()
    start %= len(rows)
    total.add([column.slice(start) for column in whole], len(rows) - start)
    assert total.fingerprint([("a", "int32"), ("b", "string")]) == fingerprint(rows[start:])


def test_what_lies_in_other_columns_is_another_row():
    assert fingerprint([(None, "a")]) != fingerprint([(None, "a\0")]) != fingerprint([(0, "a")])
    total, other = RowSum(), RowSum()
    total.add([pa.array(["ab"]), pa.array(["c"])], 1)
    other.add([pa.array(["a"]), pa.array(["bc"])], 1)
    assert total.fingerprint([]) != other.fingerprint([])


def test_the_fingerprint_stays_the_same_in_future():
    """Or else every table seems to change when unstale is upgraded."""
    assert fingerprint([(1, "a"), (None, None), (-1, "größer als acht Bytes")]) == (
        "rows:53ad5ece337f65489ed898fd18f5d382f5932098432e8a3f56029042cdc57c13"
    )


@given(st.lists(st.none() | st.binary(max_size=9)), st.integers(0, 5))
def test_hexadecimal_digits(values, start):
    texts = pa.array([None if value is None else value.hex() for value in values], pa.string()).slice(start)
    assert from_hex(texts, None).to_pylist() == values[start:]


def test_names_of_columns_differ():
    assert unique(["a", "a", "a_2", "a"]) == ["a", "a_2", "a_2_2", "a_3"]


def test_kinds_of_other_databases():
    def kind(*values):
        return ValueKinds().take(values).type

    now = dt.datetime(2026, 1, 1)  # noqa: DTZ001
    assert kind(True, None) == pa.bool_()
    assert kind(Decimal("1.5")) == pa.string()
    assert kind(now) == pa.timestamp("us")
    assert kind(now.replace(tzinfo=UTC)) == pa.timestamp("us", "UTC")
    assert kind(now, now.replace(tzinfo=UTC)) == pa.string()
    assert kind(2**63) == pa.string()
    assert kind({"a": 1}) == pa.string()
    assert ValueKinds().take([{"b": [1]}]).array([{"b": [1]}, None]).to_pylist() == ['{"b": [1]}', None]
    assert ValueKinds().take([memoryview(b"x")]).array([memoryview(b"x")]).to_pylist() == [b"x"]
