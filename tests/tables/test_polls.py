"""Logs of polls are read from any kind of file, in any order; mistakes are named with their place."""

import gzip
import io
import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.tables import TextFile, as_list, poll_table

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = [("b", 30, 1), ("a", 10, 1), ("b", 20, 0), ("a", 40, 0), ("c", 0, 1), ("a", 15, 1), ("a", 15, 1)]
EXPECTED = {"a": [(15.0, 5.0, True), (40.0, 25.0, False)], "b": [(30.0, 10.0, True)], "c": []}


def polls_of(log):
    """Time, elapsed time and outcome of each poll of each element."""
    assert (log.elements.dtype, log.times.dtype, log.elapsed.dtype) == (np.int64, np.float64, np.float64)
    assert log.changed.dtype == bool
    rows = list(zip(log.times.tolist(), log.elapsed.tolist(), log.changed.tolist(), strict=True))
    assert len(log) == len(rows)
    return {
        key: [row for row, element in zip(rows, log.elements.tolist(), strict=True) if element == at]
        for at, key in enumerate(as_list(log.keys))
    }


def read_text(text, name="polls.csv", columns=None, by=None, *, folder):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return poll_table(str(folder / name), columns, by).read()


def read_parquet(path, columns=None, by=None, /, **data):
    pq.write_table(pa.table(data), path)
    return poll_table(str(path), columns, by).read()


@pytest.fixture(params=["by Arrow", "by Python"])
def reader(request, monkeypatch):
    """Both readers of text."""
    if request.param == "by Python":
        monkeypatch.setitem(sys.modules, "pyarrow", None)
    return request.param


# --- good files ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("name", ["polls.csv", "POLLS.CSV", "polls.csv.gz", "polls.tsv"])
def test_text_in_any_order(name, tmp_path):
    separator = "\t" if ".tsv" in name else ","
    lines = [("changed", "key", "status", "time"), *((seen, key, 200, t) for key, t, seen in ROWS)]
    text = "\n".join(separator.join(map(str, line)) for line in lines)
    log = read_text(text, name, folder=tmp_path)
    assert polls_of(log) == EXPECTED
    assert as_list(log.keys) == ["b", "a", "c"]
    assert (log.start, log.repeated, log.ages, log.classes) == (0.0, 1, None, None)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("words", ["01", ("false", "true"), ("False", "TRUE"), ("no", "yes"), ("N", " y ")])
def test_words_for_changed(words, tmp_path):
    text = "key,time,changed\n" + "".join(f"{key},{t},{words[seen]}\n" for key, t, seen in ROWS)
    assert polls_of(read_text(text, folder=tmp_path)) == EXPECTED


@pytest.mark.parametrize(
    "values",
    [
        pa.array([seen for _, _, seen in ROWS], pa.int8()),
        pa.array([float(seen) for _, _, seen in ROWS], pa.float32()),
        pa.array([bool(seen) for _, _, seen in ROWS]),
        pa.array(["yes" if seen else "no" for _, _, seen in ROWS]),
        pa.array(["yes" if seen else "no" for _, _, seen in ROWS]).dictionary_encode(),
        pa.array(["yes" if seen else "no" for _, _, seen in ROWS], pa.string_view()),
    ],
    ids=lambda column: str(column.type),
)
def test_changed_in_parquet(values, tmp_path):
    keys, times, _ = zip(*ROWS, strict=True)
    log = read_parquet(tmp_path / "p.parquet", key=list(keys), time=list(times), changed=values)
    assert polls_of(log) == EXPECTED


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "times",
    [
        ["1970-01-01T00:00:30Z", "1970-01-01T00:00:10Z", "1970-01-01T00:00:20Z"],
        ["1970-01-01 00:00:30", "1970-01-01 00:00:10", "1970-01-01 00:00:20"],
        ["1970-01-01T01:00:30+01:00", "19700101T000010", "1969-12-31T23:00:20-01:00"],
        [" 30 ", "10.0", "2e1"],
        ["30", "10", "20"],
    ],
)
def test_times_in_text(times, tmp_path):
    rows = "".join(f"{key},{t},1\n" for key, t in zip("bab", times, strict=True))
    assert polls_of(read_text(f"key,time,changed\n{rows}", folder=tmp_path)) == {
        "b": [(30.0, 10.0, True)],
        "a": [],
    }


def _as(seconds, kind):
    return pa.array(seconds, pa.timestamp("s") if pa.types.is_timestamp(kind) else kind).cast(kind)


@pytest.mark.parametrize(
    "kind", [pa.int32(), pa.float64(), pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")], ids=str
)
def test_times_in_parquet(kind, tmp_path):
    keys, times, seen = (list(column) for column in zip(*ROWS, strict=True))
    modified = [None, None, None, None, None, 12, 14]
    log = read_parquet(
        tmp_path / "p.parquet",
        key=keys,
        time=_as(times, kind),
        changed=seen,
        modified=_as(modified, kind),
    )
    assert polls_of(log) == EXPECTED
    np.testing.assert_array_equal(log.ages, [np.nan, 1.0, np.nan])  # elements are in the order of the file


def test_blank_text_in_parquet_is_missing(tmp_path):
    keys, times, seen = (list(column) for column in zip(*ROWS, strict=True))
    modified = ["", " ", None, "", "", "12", "14"]
    texts = [str(time) for time in times]
    log = read_parquet(tmp_path / "p.parquet", key=keys, time=texts, changed=seen, modified=modified)
    assert polls_of(log) == EXPECTED
    np.testing.assert_array_equal(log.ages, [np.nan, 1.0, np.nan])


@pytest.mark.usefixtures("reader")
def test_the_last_change_as_polls_saw_it(tmp_path):
    text = (
        "key,time,changed,modified\na,100,0,\na,200,1,170\na,300,0,170\na,400,1,\na,500,1,501\na,600,1,600\n"
    )
    log = read_text(text, folder=tmp_path)
    np.testing.assert_array_equal(log.ages, [30.0, 130.0, np.nan, np.nan, 0.0])
    assert log.ahead == 1  # a change that had not happened yet
    empty = read_text("key,time,changed,modified\na,1,0,\na,2,1,\n", folder=tmp_path)
    assert np.isnan(empty.ages).all()
    days = "key,time,changed,modified\na,2026-01-01,0,\na,2026-01-03,1,2026-01-02\n"
    assert read_text(days, folder=tmp_path).ages.tolist() == [86400.0]


@pytest.mark.usefixtures("reader")
def test_the_first_poll_need_not_know(tmp_path):
    log = read_text("key,time,changed\na,5,1\na,1,\nb,1,\n", folder=tmp_path)
    assert polls_of(log) == {"a": [(5.0, 4.0, True)], "b": []}


def test_the_first_poll_need_not_know_in_parquet(tmp_path):
    keys, times = ["a", "a", "b"], [5, 1, 1]
    log = read_parquet(tmp_path / "p.parquet", key=keys, time=times, changed=[True, None, None])
    assert polls_of(log) == {"a": [(5.0, 4.0, True)], "b": []}


@pytest.mark.usefixtures("reader")
def test_polls_at_the_same_time_are_one(tmp_path):
    log = read_text(
        "key,time,changed,modified\na,1,1,\na,5,0,2\na,5,1,4\na,5,,\na,1,0,\na,9,0,\n", folder=tmp_path
    )
    assert polls_of(log) == {"a": [(5.0, 4.0, True), (9.0, 4.0, False)]}
    np.testing.assert_array_equal(log.ages, [1.0, np.nan])
    assert log.repeated == 3


@pytest.mark.usefixtures("reader")
def test_classes(tmp_path):
    text = "host,key,time,changed\nx,a,1,0\ny,b,1,0\nx,a,2,1\nx,c,1,1\n"
    log = read_text(text, by="host", folder=tmp_path)
    assert [log.class_names[at] for at in log.classes] == ["x", "y", "x"]


def test_classes_and_keys_in_parquet_keep_their_type(tmp_path):
    log = read_parquet(
        tmp_path / "p.parquet", None, "host", key=[1, 2, 1], time=[1, 1, 2], changed=[0, 0, 1], host=[7, 8, 7]
    )
    assert [log.class_names[at] for at in log.classes] == [7, 8]
    assert as_list(log.keys) == [1, 2]


@pytest.mark.usefixtures("reader")
def test_columns_can_have_other_names(tmp_path):
    columns = {"key": "url", "time": "fetched_at", "changed": "is_new"}
    log = read_text("fetched_at,url,is_new\n5,a,0\n7,a,1\n", columns=columns, folder=tmp_path)
    assert polls_of(log) == {"a": [(7.0, 2.0, True)]}


def test_standard_input_and_progress(monkeypatch):
    data = b"key,time,changed\na,1,0\na,2,1\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    done = []
    table = poll_table("-")
    assert table.length == len(data)
    assert polls_of(table.read(done.append)) == {"a": [(2.0, 1.0, True)]}
    assert sum(done) == len(data)


OUTCOMES = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-20, 20), st.integers(0, 1), st.integers(-30, 20)),
    min_size=2,
)


@given(OUTCOMES)
def test_both_readers_read_the_same_as_a_plain_loop(rows):
    wanted = {}
    for key, _, _, _ in rows:
        own = sorted({t for other, t, _, _ in rows if other == key})
        at = {t: [row for row in rows if row[:2] == (key, t)] for t in own}
        wanted[key] = [
            (float(t), float(t - before), any(seen for _, _, seen, _ in at[t]))
            for before, t in itertools.pairwise(own)
        ]
    text = "".join(f"{key},{t},{seen},{modified}\n" for key, t, seen, modified in rows)
    logs = []
    for has_arrow in (True, False):
        file = TextFile("-", ",")
        file.__dict__["typed"] = f"key,time,changed,modified\n{text}".encode()
        with pytest.MonkeyPatch.context() as patch:
            if not has_arrow:
                patch.setitem(sys.modules, "pyarrow", None)
            try:
                logs.append(poll_table(file).read())
            except InvalidInput as refused:
                assert "no element was polled twice" in str(refused)  # noqa: PT017
                assert not any(wanted.values())
                return
    for log in logs:
        assert polls_of(log) == wanted
    np.testing.assert_array_equal(logs[0].ages, logs[1].ages)
    assert (logs[0].start, logs[0].ahead) == (logs[1].start, logs[1].ahead)
    assert logs[0].repeated == len(rows) - len({row[:2] for row in rows})


# --- bad files ----------------------------------------------------------------------------------------------

TIME = "must be a time: seconds or a timestamp such as 2026-01-31T12:00:00Z; it is"
SECONDS = "must be seconds from -1e11 to 1e11 (milliseconds must be divided by 1000); it is"
WORDS = "must be 0 or 1, true or false, or yes or no; it is"
WHICH = "say which one it is with --column"
HEAD = "key,time,changed"
BAD = {
    "empty": ("", ": empty; it needs a header line with the columns 'key' and 'time' and 'changed'"),
    "header only": (f"{HEAD}\n\n", ": it has a header line, but no polls below it"),
    "no key": (
        "url,time,changed\na,1,0\n",
        f", line 1: there is no column 'key' among 'url', 'time', 'changed'; {WHICH} key=NAME",
    ),
    "no time": (
        "key,t,changed\na,1,0\n",
        f", line 1: there is no column 'time' among 'key', 't', 'changed'; {WHICH} time=NAME",
    ),
    "no changed": (
        "key,time\na,1\n",
        f", line 1: there is no column 'changed' among 'key', 'time'; {WHICH} changed=NAME",
    ),
    "twice": (f"{HEAD},time\na,1,0,1\n", ", line 1: the header has the column 'time' 2 times"),
    "nameless": (f"{HEAD}\na,1,0\n,2,0\n", ", line 3, column 'key': must be text; it is ''"),
    "not text": (
        f"{HEAD}\n".encode() + b"\xff,1,0\n",
        ", line 2, column 'key': must be UTF-8 text; it is '\\udcff'",
    ),
    "no such time": (f"{HEAD}\na,1,0\na,soon,1\n", f", line 3, column 'time': {TIME} 'soon'"),
    "hole": (f"{HEAD}\na,,0\n", f", line 2, column 'time': {TIME} ''"),
    "hexadecimal": (f"{HEAD}\na,0x10,0\n", f", line 2, column 'time': {TIME} '0x10'"),
    "nan": (f"{HEAD}\na,nan,0\n", f", line 2, column 'time': {SECONDS} 'nan'"),
    "milliseconds": (f"{HEAD}\na,1767225600000,0\n", f", line 2, column 'time': {SECONDS} '1767225600000'"),
    "mixed": (
        f"{HEAD}\na,1,0\na,2026-01-01,0\n",
        ", line 3, column 'time': must be seconds, as in the rows before; it is '2026-01-01'",
    ),
    "no word": (f"{HEAD}\na,1,0\na,2,maybe\n", f", line 3, column 'changed': {WORDS} 'maybe'"),
    "a number": (f"{HEAD}\na,1,0\n\na,2,304\n", f", line 4, column 'changed': {WORDS} '304'"),
    "a later poll that does not know": (
        f"{HEAD}\na,3,0\na,2,\na,1,0\n",
        (
            ", line 3, column 'changed': must be 0 or 1, true or false, or yes or no, "
            "but for the first poll of an element; it is ''"
        ),
    ),
    "no such change": (
        f"{HEAD},modified\na,1,0,\na,2,1,soon\n",
        f", line 3, column 'modified': {TIME} 'soon'",
    ),
    "another kind of time": (
        f"{HEAD},modified\na,1,0,\na,2,1,2026-01-01\n",
        ", line 3, column 'modified': must be seconds, as in the rows before; it is '2026-01-01'",
    ),
    "polled once": (
        f"{HEAD}\na,1,0\nb,2,1\n",
        ": no element was polled twice (2 elements); a rate takes two polls of an element, or more",
    ),
    "polled once, often": (
        f"{HEAD}\na,1,0\na,1,1\n",
        ": no element was polled twice (1 element); a rate takes two polls of an element, or more",
    ),
    "short row": (f"{HEAD}\na,1,0\nb,1\n", ", line 3: 2 fields, but the header has 3"),
    "open quote": (f'{HEAD}\na,1,0\n"b,2,0\n', ", line 3: a quote is opened but never closed"),
    "semicolons": (
        "key;time;changed\na;1;0\n",
        (
            ", line 1: there is no column 'key' among 'key;time;changed'; "
            "the file seems to be separated by ';'; .csv means commas, and .tsv tabs"
        ),
    ),
}


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("case", BAD)
def test_mistakes_in_text_are_named(case, tmp_path):
    text, message = BAD[case]
    for name in ("polls.csv", "polls.csv.gz"):
        with pytest.raises(InvalidInput) as refused:
            read_text(text, name, folder=tmp_path)
        assert str(refused.value) == f"{tmp_path / name}{message}"


@pytest.mark.usefixtures("reader")
def test_an_element_has_one_class(tmp_path):
    text = "host,key,time,changed\nx,a,1,0\ny,b,1,0\nz,a,2,1\n"
    with pytest.raises(InvalidInput) as refused:
        read_text(text, by="host", folder=tmp_path)
    assert str(refused.value) == (
        f"{tmp_path / 'polls.csv'}, line 4, column 'host': must be 'x', as before for 'a'; it is 'z'"
    )
    with pytest.raises(InvalidInput, match=r"line 3, column 'host': must be text; it is ''"):
        read_text("host,key,time,changed\nx,a,1,0\n,b,1,0\n", by="host", folder=tmp_path)
    with pytest.raises(InvalidInput, match=r"line 1: there is no column 'class' among 'key', .*'changed'$"):
        read_text(BAD["polled once"][0], by="class", folder=tmp_path)


GOOD = SimpleNamespace(key=["a", "a"], time=[1, 2], changed=[0, 1])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": ["a", None]}, ", row 2, column 'key': must be text; it is None"),
        ({"key": ["a", ""]}, ", row 2, column 'key': must be text; it is ''"),
        ({"key": [1.5, 1.5]}, ", column 'key': must hold text or whole numbers; it holds double"),
        ({"time": [1, None]}, f", row 2, column 'time': {TIME} None"),
        ({"time": ["1", "soon"]}, f", row 2, column 'time': {TIME} 'soon'"),
        ({"time": [1.0, float("nan")]}, f", row 2, column 'time': {SECONDS} nan"),
        ({"time": [True, True]}, ", column 'time': must hold seconds or timestamps; it holds bool"),
        ({"changed": [0, 2]}, f", row 2, column 'changed': {WORDS} 2"),
        ({"changed": ["no", "maybe"]}, f", row 2, column 'changed': {WORDS} 'maybe'"),
        (
            {"changed": pa.array([0, 1], pa.timestamp("ms"))},
            ", column 'changed': must hold 0 or 1, true or false, or yes or no; it holds timestamp[ms]",
        ),
        (
            {"changed": [0, None]},
            (
                ", row 2, column 'changed': must be 0 or 1, true or false, or yes or no, "
                "but for the first poll of an element; it is ''"
            ),
        ),
        ({"modified": [None, "soon"]}, f", row 2, column 'modified': {TIME} 'soon'"),
        (
            {"modified": pa.array([0, 1], pa.timestamp("ms"))},
            ", column 'modified': must hold seconds, as the column 'time' does; it holds timestamp[ms]",
        ),
        (
            {"time": pa.array([0, 1], pa.timestamp("s")), "modified": [0, 1]},
            ", column 'modified': must hold timestamps, as the column 'time' does; it holds int64",
        ),
        (
            {"key": pa.array([], pa.string()), "time": pa.array([], pa.int64()), "changed": pa.array([])},
            ": it has no rows",
        ),
    ],
)
def test_mistakes_in_parquet_are_named(columns, message, tmp_path):
    path = tmp_path / "p.parquet"
    with pytest.raises(InvalidInput) as refused:
        read_parquet(path, **{**vars(GOOD), **columns})
    assert str(refused.value) == f"{path}{message}"
