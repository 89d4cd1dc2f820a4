"""Histories are read from any kind of file, in any order, and mistakes in them are named with their place."""

import gzip
import io
import sys
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.tables import TextFile, as_list, history_table, is_history, moment, open_file

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [("b", 30), ("a", 10), ("b", 20), ("a", 10), ("c", 0)]
EXPECTED = {"a": [10.0], "b": [20.0, 30.0], "c": [0.0]}


def changes_of(history):
    """Times of each element."""
    assert history.elements.dtype == np.int64
    assert history.times.dtype == np.float64
    keys = as_list(history.keys)
    return {key: history.times[history.elements == at].tolist() for at, key in enumerate(keys)}


@pytest.fixture(params=["by Arrow", "by Python"])
def reader(request, monkeypatch):
    """Both readers of text."""
    if request.param == "by Python":
        monkeypatch.setitem(sys.modules, "pyarrow", None)


def read_text(text, name="changes.csv", columns=None, *, folder):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return history_table(str(folder / name), columns).read()


def write_parquet(path, /, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)


# --- good files ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", ["changes.csv", "CHANGES.CSV", "changes.csv.gz", "changes.tsv"])
def test_text_in_any_order(name, tmp_path):
    separator = "\t" if ".tsv" in name else ","
    lines = [("element", "kind", "t"), *((key, "x", t) for key, t in ROWS)]
    text = "\n".join(separator.join(map(str, line)) for line in lines)
    history = read_text(text, name, folder=tmp_path)
    assert changes_of(history) == EXPECTED
    assert len(history) == 4  # what happens to an element at the same time counts once
    assert as_list(history.keys) == ["b", "a", "c"]


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "times",
    [
        ["1970-01-01T00:00:30Z", "1970-01-01 00:00:10", "1970-01-01T00:00:20+00:00"],
        ["1970-01-01T01:00:30+01:00", "19700101T000010", "1969-12-31T23:00:20-01:00"],
        [" 30 ", "10.0", "2e1"],
    ],
)
def test_times_in_text(times, tmp_path):
    rows = "\n".join(f"{key},{t}" for key, t in zip("bab", times, strict=True))
    assert changes_of(read_text(f"element,t\n{rows}\n", folder=tmp_path)) == {"b": [20.0, 30.0], "a": [10.0]}


@pytest.mark.parametrize(
    "times",
    [
        pa.array([30, 10, 20, 10, 0], pa.int32()),
        pa.array([30, 10, 20, 10, 0], pa.float32()),
        pa.array([30, 10, 20, 10, 0], pa.decimal128(8, 2)),
        *(
            pa.array([30, 10, 20, 10, 0], pa.timestamp("s")).cast(pa.timestamp(unit, zone))
            for unit in ("s", "ms", "us", "ns")
            for zone in (None, "UTC")
        ),
        pa.array([f"1970-01-01T00:00:{t:02}" for _, t in ROWS]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_times_in_parquet(times, tmp_path):
    path = write_parquet(tmp_path / "h.parquet", element=[key for key, _ in ROWS], t=times)
    assert changes_of(history_table(path).read()) == EXPECTED


def test_times_in_another_zone_are_the_same_moments(tmp_path):
    there = pa.array([30, 10, 20, 10, 0], pa.timestamp("s", "Europe/Berlin"))
    path = write_parquet(tmp_path / "h.parquet", element=[key for key, _ in ROWS], t=there)
    assert changes_of(history_table(path).read()) == EXPECTED
    days = pa.array([1, 0], pa.date32())
    path = write_parquet(tmp_path / "d.parquet", element=["a", "a"], t=days)
    assert changes_of(history_table(path).read()) == {"a": [0.0, 86400.0]}


@pytest.mark.parametrize("kind", [pa.int32(), pa.string(), pa.dictionary(pa.int8(), pa.string())], ids=str)
def test_elements_in_parquet_keep_their_type(kind, tmp_path):
    keys = pa.array([7, 8, 7], pa.int32()).cast(pa.int32() if kind == pa.int32() else pa.string()).cast(kind)
    path = write_parquet(tmp_path / "h.parquet", element=keys, t=[3, 2, 1])
    seven, eight = (7, 8) if kind == pa.int32() else ("7", "8")
    assert changes_of(history_table(path).read()) == {seven: [1.0, 3.0], eight: [2.0]}


def test_columns_can_have_other_names(tmp_path):
    columns = {"element": "url", "t": "when"}
    assert changes_of(read_text("when,url\n5,a\n", columns=columns, folder=tmp_path)) == {"a": [5.0]}


def test_standard_input_and_progress(monkeypatch):
    data = b"element,t\na,1\nb,2\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    file, done = open_file("-"), []
    assert is_history(file, {})  # which does not use it up
    table = history_table(file)
    assert table.length == len(data)
    assert changes_of(table.read(done.append)) == {"a": [1.0], "b": [2.0]}
    assert sum(done) == len(data)


@pytest.mark.parametrize(
    ("header", "columns", "answer"),
    [
        ("element,t", {}, True),
        ("path,t,kind", {}, True),
        ("key,rate", {}, False),
        ("rate,t", {}, False),
        ("url,when", {}, False),
        ("url,when", {"t": "when"}, True),
        ("changes,t", {"rate": "changes"}, False),
    ],
)
def test_what_is_a_history(header, columns, answer, tmp_path):
    (tmp_path / "f.csv").write_text(f"{header}\n")
    assert is_history(open_file(str(tmp_path / "f.csv")), columns) is answer
    names = header.split(",")
    path = write_parquet(tmp_path / "f.parquet", **{name: [1.0] for name in names})
    assert is_history(open_file(path), columns) is answer


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(-100, 100)), min_size=1))
def test_any_rows(rows):
    file = TextFile("-", ",")
    file.__dict__["typed"] = "\n".join(["element,t", *(f"{key},{t}" for key, t in rows)]).encode()
    history = history_table(file).read()
    expected = {key: sorted({float(t) for other, t in rows if other == key}) for key, _ in rows}
    assert changes_of(history) == expected


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)))  # noqa: DTZ001
def test_moments_are_in_utc_unless_they_say_otherwise(when):
    assert moment(when.isoformat()) == when.replace(tzinfo=UTC).timestamp()
    assert moment(f"{when.isoformat()}Z") == when.replace(tzinfo=UTC).timestamp()


# --- bad files -----------------------------------------------------------------------------------------

TIME = "must be a time: seconds or a timestamp such as 2026-01-31T12:00:00Z; it is"
SECONDS = "must be seconds from -1e11 to 1e11 (milliseconds must be divided by 1000); it is"
WHICH = "say which one it is with --column"
BAD = {
    "empty": ("", ": empty; it needs a header line with the columns 'element' and 't'"),
    "header only": ("element,t\n\n", ": it has a header line, but no changes below it"),
    "no element": (
        "path,t\na,1\n",
        f", line 1: there is no column 'element' among 'path', 't'; {WHICH} element=NAME",
    ),
    "no time": (
        "element,when\na,1\n",
        f", line 1: there is no column 't' among 'element', 'when'; {WHICH} t=NAME",
    ),
    "twice": ("t,element,t\n1,a,2\n", ", line 1: the header has the column 't' 2 times"),
    "nameless": ("element,t\na,1\n,2\n", ", line 3, column 'element': must be text; it is ''"),
    "not text": (
        b"element,t\n\xff,1\n",
        ", line 2, column 'element': must be UTF-8 text; it is '\\udcff'",
    ),
    "no such time": ("element,t\na,1\na,soon\n", f", line 3, column 't': {TIME} 'soon'"),
    "hole": ("element,t\na,\n", f", line 2, column 't': {TIME} ''"),
    "no such day": ("element,t\na,2026-02-30\n", f", line 2, column 't': {TIME} '2026-02-30'"),
    "underscore": ("element,t\na,1_000\n", f", line 2, column 't': {TIME} '1_000'"),
    "hexadecimal": ("element,t\na,0x10\n", f", line 2, column 't': {TIME} '0x10'"),
    "nan": ("element,t\na,nan\n", f", line 2, column 't': {SECONDS} 'nan'"),
    "milliseconds": (
        "element,t\na,1767225600000\n",
        f", line 2, column 't': {SECONDS} '1767225600000'",
    ),
    "mixed": (
        "element,t\na,1\na,2026-01-01\n",
        ", line 3, column 't': must be seconds, as in the rows before; it is '2026-01-01'",
    ),
    "mixed the other way": (
        "element,t\na,2026-01-01\na,1\n",
        ", line 3, column 't': must be a timestamp, as in the rows before; it is '1'",
    ),
    "short row": ("element,t\na,1\nb\n", ", line 3: 1 field, but the header has 2"),
    "open quote": ('element,t\na,1\n"b,2\n', ", line 3: a quote is opened but never closed"),
    "semicolons": (
        "element;t\na;1\n",
        (
            ", line 1: there is no column 'element' among 'element;t'; "
            "the file seems to be separated by ';'; .csv means commas, and .tsv tabs"
        ),
    ),
}


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("case", BAD)
def test_mistakes_in_text_are_named(case, tmp_path):
    text, message = BAD[case]
    for name in ("changes.csv", "changes.csv.gz"):
        with pytest.raises(InvalidInput) as refused:
            read_text(text, name, folder=tmp_path)
        assert str(refused.value) == f"{tmp_path / name}{message}"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"element": ["a", None], "t": [1, 2]}, ", row 2, column 'element': must be text; it is None"),
        ({"element": ["a", ""], "t": [1, 2]}, ", row 2, column 'element': must be text; it is ''"),
        (
            {"element": [1.5], "t": [1]},
            ", column 'element': must hold text or whole numbers; it holds double",
        ),
        ({"element": ["a", "a"], "t": [1, None]}, f", row 2, column 't': {TIME} None"),
        ({"element": ["a", "a"], "t": ["1", "soon"]}, f", row 2, column 't': {TIME} 'soon'"),
        ({"element": ["a"], "t": [1767225600000]}, f", row 1, column 't': {SECONDS} 1767225600000.0"),
        ({"element": ["a"], "t": [float("nan")]}, f", row 1, column 't': {SECONDS} nan"),
        ({"element": ["a"], "t": [True]}, ", column 't': must hold seconds or timestamps; it holds bool"),
        ({"t": [1]}, f": there is no column 'element' among 't'; {WHICH} element=NAME"),
        ({"element": pa.array([], pa.string()), "t": pa.array([], pa.int64())}, ": it has no rows"),
    ],
)
def test_mistakes_in_parquet_are_named(columns, message, tmp_path):
    path = write_parquet(tmp_path / "h.parquet", **columns)
    with pytest.raises(InvalidInput) as refused:
        history_table(path).read()
    assert str(refused.value) == f"{path}{message}"


def test_files_that_cannot_be_read(tmp_path):
    for name in ("none.csv", "none.csv.gz", "none.parquet"):
        with pytest.raises(InvalidInput, match=rf"{name}: no such file or directory$"):
            history_table(str(tmp_path / name)).read()
    (tmp_path / "cut.csv.gz").write_bytes(gzip.compress(b"element,t\n" + b"a,1\n" * 9999)[:40])
    with pytest.raises(InvalidInput, match=r"cut\.csv\.gz: cut short or damaged; "):
        history_table(str(tmp_path / "cut.csv.gz")).read()
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match=r"cut\.parquet: not a Parquet file, or cut short or damaged; "):
        history_table(str(tmp_path / "cut.parquet")).read()
