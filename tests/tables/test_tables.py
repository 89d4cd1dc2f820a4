"""Tables are read alike with and without Arrow, and written whole or not at all."""

import csv
import gzip
import io
import sys
from itertools import pairwise

import numpy as np
import pytest
from example_counts import percent
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unstale import tables
from unstale.errors import InvalidInput, MissingExtra
from unstale.processes import Poisson, UncertainPoisson
from unstale.tables import (
    Column,
    Schema,
    TableElements,
    TableReader,
    TextFile,
    as_list,
    check_writable,
    element_table,
    law_of,
    open_allocation,
    open_rows,
    replacing,
    rows_in,
)
from unstale.tables import atomic_files as output_module
from unstale.tables import table_reader as table_module

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

GOOD = "key,rate,weight,size,group\na,1.5,2,100,x\nb,0,1,200,y\nc,1e3,0.5,300,x\n"


def no_arrow(*_):
    raise table_module._NotHere


@pytest.fixture(params=["with Arrow", "without Arrow"])
def either(request, monkeypatch):
    """The same test twice."""
    if request.param == "without Arrow":
        monkeypatch.setattr(TableReader, "_by_arrow", no_arrow)
    return request.param


def read_text(text, name="pages.csv", columns=None, *, folder):
    path = folder / name
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return element_table(str(path), columns).read()


def columns_of(elements):
    labels = None if elements.groups is None else [elements.group_names[i] for i in elements.groups]
    numbers = (elements.rates, elements.weights, elements.sizes)
    return [as_list(elements.keys), *(None if x is None else x.tolist() for x in numbers), labels]


EXPECTED = [["a", "b", "c"], [1.5, 0.0, 1000.0], [2.0, 1.0, 0.5], [100.0, 200.0, 300.0], ["x", "y", "x"]]


# --- good files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["pages.csv", "PAGES.CSV", "pages.csv.gz", "pages.tsv", "pages.tsv.gz"])
@pytest.mark.usefixtures("either")
def test_kinds_of_files(name, tmp_path):
    text = GOOD.replace(",", "\t") if ".tsv" in name else GOOD
    assert columns_of(read_text(text, name, folder=tmp_path)) == EXPECTED


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("\n", "\r\n"),
        GOOD.replace("\n", "\r"),
        "\ufeff" + GOOD,
        "\n\n" + GOOD.replace("\n", "\n\n"),
        GOOD.rstrip("\n"),
        GOOD.replace("key", '"key"').replace("a,", '"a",').replace("0.5", '"0.5"'),
        GOOD.replace("rate", " rate ").replace("1.5", "  1.5 ").replace("1e3", "+1000"),
    ],
    ids=["crlf", "cr", "bom", "empty lines", "no last newline", "quotes", "blanks"],
)
@pytest.mark.usefixtures("either")
def test_dialects(text, tmp_path):
    assert columns_of(read_text(text, folder=tmp_path)) == EXPECTED


LAWS = "key,rate,shape,scale\na,7,2,0.25\nb,3,,1\nc,,0.5,8\nd,0,1, \n"


@pytest.mark.parametrize("blank", [" ", ""], ids=["blank", "empty"])
@pytest.mark.usefixtures("either")
def test_laws_of_uncertain_rates(blank, tmp_path):
    elements = read_text(LAWS.replace(" ", blank), folder=tmp_path)
    np.testing.assert_allclose(elements.rates, [0.5, 3.0, 4.0, 0.0], rtol=1e-14)
    np.testing.assert_array_equal(elements.shapes, [2.0, np.nan, 0.5, np.nan])
    np.testing.assert_array_equal(elements.scales, [0.25, np.nan, 8.0, np.nan])
    assert elements.uncertain == 2
    certain = element_table(str(tmp_path / "pages.csv"), certain=True)
    with pytest.raises(InvalidInput, match=r"line 4, column 'rate': must be a number; it is ''"):
        certain.read()


def test_laws_with_gaps_are_read_by_arrow(tmp_path, monkeypatch):
    monkeypatch.setattr(TableReader, "_by_python", lambda *_: pytest.fail("Python reads slowly"))
    assert read_text(LAWS.replace(" ", ""), folder=tmp_path).uncertain == 2
    rates = read_text("shape,scale\n1,2\n3,4\n", folder=tmp_path).rates
    np.testing.assert_allclose(rates, [2.0, 12.0], rtol=1e-14)


@pytest.mark.usefixtures("either")
def test_columns_of_laws_that_are_text_are_mistakes(tmp_path):
    text = "key,rate,shape,scale\na,1,round,large\n"
    with pytest.raises(InvalidInput, match=r"line 2, column 'shape': must be a number; it is 'round'"):
        read_text(text, folder=tmp_path)
    assert element_table(str(tmp_path / "pages.csv"), certain=True).read().rates.tolist() == [1.0]


def test_laws_of_elements_one_by_one_only_where_a_rate_is_zero():
    shapes, scales = np.array([2.0, np.nan]), np.array([0.5, np.nan])
    law = law_of(TableElements(np.array([1.0, 3.0]), range(2), shapes=shapes, scales=scales))
    np.testing.assert_allclose(law.shape, [2.0, 1e15], rtol=1e-14)
    np.testing.assert_allclose(law.scale, [0.5, 3e-15], rtol=1e-14)
    laws = law_of(TableElements(np.array([1.0, 0.0]), range(2), shapes=shapes, scales=scales))
    assert laws == [UncertainPoisson(2.0, 0.5), Poisson(0.0)]
    none = np.full(2, np.nan)
    assert law_of(TableElements(np.array([1.0, 0.0]), range(2), shapes=none, scales=none)).tolist() == [
        1.0,
        0.0,
    ]


@pytest.mark.usefixtures("either")
def test_keys_stay_as_they_are(tmp_path):
    keys = ["007", " x ", "a,b", 'say "hi"', "two\nlines", "naïve", "NA", "null", "1e5", "🦉"]
    text = io.StringIO()
    csv.writer(text).writerows([["other", "rate", "key"], *(["", 1, key] for key in keys)])
    assert as_list(read_text(text.getvalue(), folder=tmp_path).keys) == keys


@pytest.mark.usefixtures("either")
def test_only_rates_are_needed_and_rows_are_then_keys(tmp_path):
    assert columns_of(read_text("rate\n1\n2\n", folder=tmp_path)) == [[1, 2], [1.0, 2.0], None, None, None]


@pytest.mark.usefixtures("either")
def test_columns_can_have_other_names(tmp_path):
    text = "url,rate,changes\na,x,1\n"
    assert columns_of(read_text(text, columns={"rate": "changes", "key": "url"}, folder=tmp_path))[:2] == [
        ["a"],
        [1.0],
    ]


@pytest.mark.usefixtures("either")
def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD.encode())))
    assert columns_of(element_table("-").read()) == EXPECTED


@pytest.mark.usefixtures("either")
def test_progress_counts_the_bytes_of_the_file(tmp_path):
    for name in ("pages.csv", "pages.csv.gz"):
        read_text(GOOD * 1, name, folder=tmp_path)
        table, done = element_table(str(tmp_path / name)), []
        table.read(done.append)
        assert sum(done) == table.length


def test_many_rows_are_read_alike(tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    rates = rng.lognormal(0, 3, 300_000)
    lines = [f'"k,{i}",{rate!r},g{i % 7}' for i, rate in enumerate(rates.tolist())]
    fast = read_text("\n".join(["key,rate,group", *lines]), folder=tmp_path)
    monkeypatch.setattr(TableReader, "_by_arrow", no_arrow)
    slow = element_table(str(tmp_path / "pages.csv")).read()
    assert not isinstance(fast.keys, list)
    assert fast.rates.tobytes() == slow.rates.tobytes() == rates.tobytes()
    assert columns_of(fast) == columns_of(slow)


# --- bad files -----------------------------------------------------------------------------------------

HEADER_ONLY = "it has a header line, but no elements below it"
BAD = {
    "empty": ("", ": empty; it needs a header line with at least the column 'rate'"),
    "blank lines": ("\n\n", ": empty; it needs a header line with at least the column 'rate'"),
    "header only": ("key,rate\n", f": {HEADER_ONLY}"),
    "header and blanks": ("key,rate\n\n\n", f": {HEADER_ONLY}"),
    "no rate": (
        "k,size\na,1\n",
        ", line 1: there is no column 'rate' among 'k', 'size'; say which one it is with --column rate=NAME",
    ),
    "twice": ("rate,rate\n1,2\n", ", line 1: the header has the column 'rate' 2 times"),
    "text": ("key,rate\na,1\nb,fast\n", ", line 3, column 'rate': must be a number; it is 'fast'"),
    "hole": ("key,rate\na,1\nb,\n", ", line 3, column 'rate': must be a number; it is ''"),
    "negative": ("key,rate\na,1\nb,-0.2\n", ", line 3, column 'rate': must be finite and >= 0; it is '-0.2'"),
    "nan": ("rate\nnan\n", ", line 2, column 'rate': must be finite and >= 0; it is 'nan'"),
    "infinite": ("rate\ninf\n", ", line 2, column 'rate': must be finite and >= 0; it is 'inf'"),
    "overflow": ("rate\n1e999\n", ", line 2, column 'rate': must be finite and >= 0; it is '1e999'"),
    "weight": ("rate,weight\n1,-1\n", ", line 2, column 'weight': must be finite and >= 0; it is '-1'"),
    "size": ("rate,size\n1,0\n", ", line 2, column 'size': must be finite and > 0; it is '0'"),
    "no key": ("rate,key\n1,\n", ", line 2, column 'key': must be text; it is ''"),
    "no group": ("rate,group\n1,a\n2,\n", ", line 3, column 'group': must be text; it is ''"),
    "huge": (
        "rate\n1e308\n",
        ", line 2, column 'rate': must be 0, or between 1e-100 and 1e100; it is '1e308'",
    ),
    "tiny": (
        "rate,weight\n1,1e-320\n",
        ", line 2, column 'weight': must be 0, or between 1e-100 and 1e100; it is '1e-320'",
    ),
    "huge size": (
        "rate,size\n1,1e101\n",
        ", line 2, column 'size': must be between 1e-100 and 1e100; it is '1e101'",
    ),
    "underscore": ("rate\n1_000\n", ", line 2, column 'rate': must be a number; it is '1_000'"),
    "wide digits": (
        "rate\n\uff11\uff12\n",
        ", line 2, column 'rate': must be a number; it is '\uff11\uff12'",
    ),
    "odd blank": ("rate\n\xa01\n", ", line 2, column 'rate': must be a number; it is '\\xa01'"),
    "key twice": (
        'key,rate\nb,1\n"a",1\n\nc,1\na,2\nb,1\n',
        ", line 6, column 'key': must not repeat a key; 'a' is in line 3 already",
    ),
    "key thrice": (
        "key,rate\n" + "x,1\n" * 3,
        ", line 3, column 'key': must not repeat a key; 'x' is in line 2 already",
    ),
    "semicolons": (
        "key;rate\na;1,5\n",
        (
            ", line 1: there is no column 'rate' among 'key;rate'; "
            "the file seems to be separated by ';'; .csv means commas, and .tsv tabs"
        ),
    ),
    "tabs": (
        "key\trate\na\t1\n",
        (
            ", line 1: there is no column 'rate' among 'key\\trate'; "
            "the file seems to be separated by tabs; .csv means commas, and .tsv tabs"
        ),
    ),
    "UTF-16": (
        "\ufeffrate\n1\n".encode("utf-16-le"),
        (
            ", line 1: there is no column 'rate' among '\\udcff\\udcfer\\x00a\\x00t\\x00e\\x00'; "
            "the file is not UTF-8 text, but perhaps UTF-16; save it as UTF-8"
        ),
    ),
    "short row": ("key,rate\na,1\nb\n", ", line 3: 1 field, but the header has 2"),
    "long row": ("key,rate\na,1\nb,2,3\n", ", line 3: 3 fields, but the header has 2"),
    "open quote": ('rate,key\n1,a\n2,"b\n3,c\n', ", line 3: a quote is opened but never closed"),
    "open at the end": ('rate,key\n1,a\n2,"b', ", line 3: a quote is opened but never closed"),
    "after blanks": ("\nrate\n\n1\n\n-1\n", ", line 6, column 'rate': must be finite and >= 0; it is '-1'"),
    "after a long key": (
        'key,rate\n"two\nlines",1\nb,-1\n',
        ", line 4, column 'rate': must be finite and >= 0; it is '-1'",
    ),
    "first of two": ("rate,size\n1,x\n-1,1\n", ", line 2, column 'size': must be a number; it is 'x'"),
    "not text": (
        b"key,rate\n\xff\xfe,1\n",
        ", line 2, column 'key': must be UTF-8 text; it is '\\udcff\\udcfe'",
    ),
    "long value": (
        f"rate\n{'x' * 500}\n",
        f", line 2, column 'rate': must be a number; it is '{'x' * 39}...{'x' * 9}'",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("either")
def test_mistakes_are_named(case, tmp_path):
    text, message = BAD[case]
    for name in ("pages.csv", "pages.csv.gz"):
        with pytest.raises(InvalidInput) as refused:
            read_text(text, name, folder=tmp_path)
        assert str(refused.value) == f"{tmp_path / name}{message}"


@pytest.mark.usefixtures("either")
def test_commas_in_tsv_are_suspected(tmp_path):
    with pytest.raises(InvalidInput, match=r"separated by commas; \.csv means commas, and \.tsv tabs$"):
        read_text("key,rate\na,1\n", "pages.tsv", folder=tmp_path)


@pytest.mark.usefixtures("either")
def test_groups_and_other_columns_may_repeat(tmp_path):
    text = "key,rate,group,url\na,1,x,u\nb,1,x,u\n"
    assert columns_of(read_text(text, folder=tmp_path))[4] == ["x", "x"]
    with pytest.raises(InvalidInput, match="line 3, column 'url': must not repeat a key; 'u' is in line 2"):
        read_text(text, columns={"key": "url"}, folder=tmp_path)


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InvalidInput, match=r"^standard input: it is closed$"):
        element_table("-").read()


@pytest.mark.usefixtures("either")
def test_the_line_is_exact_in_a_long_file(tmp_path):
    lines = ["key,rate", *(f"k{i},{i}" for i in range(100_000))]
    lines[811] = "k810,-3"
    with pytest.raises(
        InvalidInput, match=r"pages\.csv, line 812, column 'rate': must be finite and >= 0; it is '-3'$"
    ):
        read_text("\n".join(lines), folder=tmp_path)


@pytest.mark.usefixtures("either")
def test_renamed_columns_are_named_as_in_the_file(tmp_path):
    with pytest.raises(InvalidInput, match="line 2, column 'changes': must be finite"):
        read_text("changes\n-1\n", columns={"rate": "changes"}, folder=tmp_path)
    with pytest.raises(InvalidInput, match=r"line 1: there is no column 'w' among 'rate'$"):
        read_text("rate\n1\n", columns={"weight": "w"}, folder=tmp_path)


@pytest.mark.usefixtures("either")
def test_files_that_cannot_be_read(tmp_path):
    for name in ("none.csv", "none.csv.gz", "none.parquet"):
        with pytest.raises(InvalidInput, match=rf"{name}: no such file or directory$"):
            element_table(str(tmp_path / name)).read()
    for name in ("folder.csv", "folder.parquet"):
        (tmp_path / name).mkdir()
        with pytest.raises(InvalidInput, match=rf"{name}: is a directory$"):
            element_table(str(tmp_path / name)).read()
    with pytest.raises(InvalidInput, match=r"pages\.xlsx: its name must end in \.csv, \.csv\.gz, "):
        element_table("pages.xlsx")


@pytest.mark.usefixtures("either")
def test_damaged_gzip(tmp_path):
    whole = gzip.compress((GOOD + "d,1,1,1,x\n" * 1000).encode())
    for data in (
        whole[:60],
        whole[:40] + b"\0" * 20 + whole[60:],
        b"not gzip at all",
        whole[:-4] + b"\0\0\0\0",
    ):
        (tmp_path / "pages.csv.gz").write_bytes(data)
        with pytest.raises(InvalidInput, match=r"pages\.csv\.gz: cut short or damaged; "):
            element_table(str(tmp_path / "pages.csv.gz")).read()


# What people, and programs, write into files. Quotes, ends of lines and odd numbers are frequent here.
PIECES = st.sampled_from(
    [
        *',,,\n\n\n"\r\t .0123456789abé-+\0',
        '""',
        "\r\n",
        "rate",
        "key",
        "1",
        "2.5",
        "1e5",
        "nan",
        "inf",
        "1_0",
        "\ufeff",
    ]
)
FILES = st.one_of(
    st.lists(PIECES, max_size=40).map("".join).map(str.encode),
    st.lists(PIECES, max_size=40).map(lambda pieces: ("key,rate\na,1\n" + "".join(pieces)).encode()),
    st.lists(PIECES, max_size=40).map(lambda pieces: ("rate,key\n1,a\n2," + "".join(pieces)).encode()),
    st.binary(max_size=60).map(lambda data: b"key,rate\n" + data),
    st.binary(max_size=60),
)


def outcome(table):
    try:
        return columns_of(table.read())
    except InvalidInput as error:
        return str(error)


@given(FILES)
@example(b'rate,key\n1,x"y\n2,"z')
@example(b'rate,key\n1,"x"y\n')
@example(b"rate\n1\n\x00\n")
@example(b'rate\n"1\n"\n')
@settings(max_examples=percent(400))
def test_any_bytes_are_a_table_or_one_line(data):
    file = TextFile("-", ",")
    file.__dict__["typed"] = data
    table = element_table(file, {"rate": "rate"}, certain=True)
    with_arrow = outcome(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TableReader, "_by_arrow", no_arrow)
        without = outcome(table)
    assert with_arrow == without
    if isinstance(without, str):
        assert without.startswith("standard input")
        assert len(without.splitlines()) == 1


# --- Parquet -------------------------------------------------------------------------------------------


def write_parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return element_table(str(path))


def test_parquet(tmp_path):
    table = write_parquet(
        tmp_path / "p.parquet",
        key=["a", "b", "c"],
        rate=pa.array([1.5, 0.0, 1000.0], pa.float32()),
        weight=[2.0, 1.0, 0.5],
        size=pa.array([100, 200, 300], pa.int32()),
        group=pa.array(["x", "y", "x"]).dictionary_encode(),
        other=[[1], [2], [3]],
    )
    assert columns_of(table.read()) == EXPECTED


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.large_string()),
    ],
    ids=str,
)
def test_parquet_takes_text_of_any_kind(kind, tmp_path):
    text = ["a", "b", "c"]
    labels = pa.array(text)
    try:
        labels = labels.cast(kind)
        table = write_parquet(tmp_path / "p.parquet", key=labels, rate=[1.0, 2.0, 3.0], group=labels)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        pytest.skip("this version of Arrow does not write it")
    elements = table.read()
    assert as_list(elements.keys) == list(elements.group_names) == text
    (part,) = table.parts("key", "rate")
    with open_allocation(str(tmp_path / "out.parquet"), "polls/day") as write:
        write(part.keys, part.rates)
    assert as_list(element_table(str(tmp_path / "out.parquet"), {"rate": "frequency"}).read().keys) == text
    repeated = write_parquet(tmp_path / "r.parquet", key=pa.array(["a", "b", "a"]).cast(kind), rate=[1.0] * 3)
    with pytest.raises(InvalidInput, match="row 3, column 'key': must not repeat a key; 'a' is in row 1"):
        repeated.read()


def test_a_parquet_file_whose_one_text_is_that_of_all_rows_is_refused(tmp_path):
    """831 bytes made 2.2 GB, and an error of Arrow's."""
    same = pa.DictionaryArray.from_arrays(pa.array([0] * 3000), pa.array(["x" * 1_000_000]))
    table = write_parquet(tmp_path / "p.parquet", key=same, rate=[1.0] * 3000)
    with pytest.raises(InvalidInput, match="its texts have more than 268,435,456 bytes"):
        table.read()


def test_parquet_keys_keep_their_type(tmp_path):
    table = write_parquet(
        tmp_path / "p.parquet", key=pa.array([7, 8], pa.int32()), rate=[1.0, 2.0], group=[5, 5]
    )
    elements = table.read()
    assert as_list(elements.keys) == [7, 8]
    assert columns_of(elements)[4] == [5, 5]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"rate": [1.0, -2.0]}, ", row 2, column 'rate': must be finite and >= 0; it is -2.0"),
        ({"rate": [1.0, None]}, ", row 2, column 'rate': must be a number; it is None"),
        ({"rate": [1.0, float("nan")]}, ", row 2, column 'rate': must be finite and >= 0; it is nan"),
        ({"rate": ["1", "2"]}, ", column 'rate': must hold numbers; it holds string"),
        ({"rate": [True]}, ", column 'rate': must hold numbers; it holds bool"),
        ({"rate": [1.0], "size": [0]}, ", row 1, column 'size': must be finite and > 0; it is 0.0"),
        ({"rate": [1.0, 1.0], "key": ["a", None]}, ", row 2, column 'key': must be text; it is None"),
        ({"rate": [1.0, 1.0], "key": ["a", ""]}, ", row 2, column 'key': must be text; it is ''"),
        (
            {"rate": [1.0], "key": [[1]]},
            ", column 'key': must hold text or whole numbers; it holds list<element: int64>",
        ),
        (
            {"rate": [1.0, 1e300]},
            ", row 2, column 'rate': must be 0, or between 1e-100 and 1e100; it is 1e+300",
        ),
        (
            {"rate": [1.0] * 4, "key": ["b", "a", "a", "b"]},
            ", row 3, column 'key': must not repeat a key; 'a' is in row 2 already",
        ),
        (
            {"rate": [1.0] * 3, "key": pa.array(["a", "b", "a"]).dictionary_encode()},
            ", row 3, column 'key': must not repeat a key; 'a' is in row 1 already",
        ),
        (
            {"rate": [1.0] * 3, "key": [7, 8, 7]},
            ", row 3, column 'key': must not repeat a key; 7 is in row 1 already",
        ),
        ({"rate": pa.array([], pa.float64())}, ": it has no rows"),
        (
            {"key": ["a"]},
            ": there is no column 'rate' among 'key'; say which one it is with --column rate=NAME",
        ),
    ],
)
def test_mistakes_in_parquet_are_named(columns, message, tmp_path):
    table = write_parquet(tmp_path / "p.parquet", **columns)
    with pytest.raises(InvalidInput) as refused:
        table.read()
    assert str(refused.value) == f"{tmp_path / 'p.parquet'}{message}"


def test_the_row_is_exact_in_later_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("unstale.tables.files.BATCH_ROWS", 100)
    rates = np.ones(1000)
    rates[811] = -3.0
    table = write_parquet(tmp_path / "p.parquet", rate=rates)
    for read in (table.read, lambda: list(table.parts("rate"))):
        with pytest.raises(
            InvalidInput, match=r"row 812, column 'rate': must be finite and >= 0; it is -3\.0$"
        ):
            read()


def test_repeated_keys_are_found_across_parts_but_not_in_streams(tmp_path, monkeypatch):
    monkeypatch.setattr("unstale.tables.files.BATCH_ROWS", 100)
    keys = [str(i) for i in range(1000)]
    keys[811] = "5"
    table = write_parquet(tmp_path / "p.parquet", rate=np.ones(1000), key=keys)
    with pytest.raises(
        InvalidInput, match=r"row 812, column 'key': must not repeat a key; '5' is in row 6 already$"
    ):
        table.read()
    assert sum(map(len, table.parts("rate", "key"))) == 1000


def test_damaged_parquet(tmp_path):
    path = tmp_path / "p.parquet"
    write_parquet(path, rate=np.random.default_rng(1).random(100_000))
    whole = path.read_bytes()
    middle = len(whole) // 2
    for data in (
        b"",
        b"PAR1",
        b"not Parquet",
        whole[:middle],
        whole[: middle - 64] + b"\0" * 128 + whole[middle + 64 :],
    ):
        path.write_bytes(data)
        try:
            element_table(str(path)).read()
        except InvalidInput as error:
            damaged = f"{path}: not a Parquet file, or cut short or damaged; "
            odd = f"{path}, row "  # zeros amid the bytes of a number may make another one
            assert str(error).startswith((damaged, odd))  # noqa: PT017
            assert len(str(error).splitlines()) == 1  # noqa: PT017
        else:
            assert len(data) == len(whole)  # zeros amid the numbers may be numbers


def test_parquet_needs_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(
        MissingExtra, match=r"Parquet files need an optional part: pip install 'unstale\[parquet\]'"
    ):
        element_table("p.parquet").read()


# --- parts and rows ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "tsv.gz", "parquet"])
def test_parts_and_rows_are_those_of_the_whole(suffix, tmp_path):
    path = str(tmp_path / f"pages.{suffix}")
    keys, rates = [f"k{i}" for i in range(10)], np.arange(10.0)
    with open_rows(path, {"key": "", "other": "", "rate": ""}) as write:
        write(keys, keys, rates)
    parts = list(element_table(path).parts("key", "rate", rows=4))
    assert [len(part) for part in parts] == [4, 4, 2]
    assert [key for part in parts for key in as_list(part.keys)] == keys
    numbered = list(element_table(path).parts("rate", rows=4))
    assert [list(part.keys) for part in numbered] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    place = "row" if suffix == "parquet" else "line"
    first = 1 if suffix == "parquet" else 2
    found = list(element_table(path).rows())
    assert [where.row for where, _ in found] == [f"{place} {first + i}" for i in range(10)]
    assert [row for _, row in found] == [{"key": k, "rate": r} for k, r in zip(keys, rates, strict=True)]


def test_lines_of_parts_are_those_of_the_file(tmp_path):
    (tmp_path / "pages.csv").write_text("rate\n1\n\n2\n3\n-4\n")
    table = element_table(str(tmp_path / "pages.csv"))
    for read in (lambda: list(table.parts("rate", rows=2)), lambda: list(table.rows())):
        with pytest.raises(InvalidInput, match="line 6, column 'rate': must be finite and >= 0; it is '-4'"):
            read()


def test_a_column_is_found_by_a_synonym_but_rather_by_its_name(tmp_path):
    schema = Schema((Column("key", "label", needed=True, synonyms=("url", "id")),), "pages", renamable=False)
    for header, found in {"id,url": "2", "url,key": "2", "id,x": "1"}.items():
        (tmp_path / "pages.csv").write_text(f"{header}\n1,2\n")
        assert [row for _, row in rows_in(str(tmp_path / "pages.csv"), schema)] == [{"key": found}]
    (tmp_path / "pages.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InvalidInput, match=r"line 1: there is no column 'key' among 'a', 'b'$"):
        list(rows_in(str(tmp_path / "pages.csv"), schema))


def test_nan_in_parquet_is_missing_where_laws_may_be(tmp_path):
    table = write_parquet(tmp_path / "p.parquet", rate=[np.nan, 2.0], shape=[3.0, np.nan], scale=[2.0, 1.0])
    np.testing.assert_allclose(table.read().rates, [6.0, 2.0], rtol=1e-14)


# --- writing -------------------------------------------------------------------------------------------

KEYS = ["a\rb", "b,c", 'say "hi"', "naïve"]
FREQUENCIES = np.array([0.1, 1e-90, 0.0, 1 / 3])


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "tsv", "tsv.gz", "parquet"])
@pytest.mark.parametrize(
    "keys", [KEYS, range(1, 5), pa.chunked_array([KEYS[:1], KEYS[1:]])], ids=["list", "range", "Arrow"]
)
def test_what_is_written_can_be_read_again(suffix, keys, tmp_path):
    path = str(tmp_path / f"plan.{suffix}")
    with open_allocation(path, "polls/day") as write:
        write(keys[:3], FREQUENCIES[:3])
        write(keys[3:], FREQUENCIES[3:])
    got = element_table(path, {"rate": "frequency"}).read()
    assert list(map(str, as_list(got.keys))) == list(map(str, as_list(keys)))
    assert got.rates.tobytes() == FREQUENCIES.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == [f"plan.{suffix}"]


def test_from_csv_to_parquet_to_csv(tmp_path):
    files = [str(tmp_path / name) for name in ("a.csv", "b.parquet", "c.csv")]
    with open_allocation(files[0], "polls/day") as write:
        write(KEYS, FREQUENCIES)
    for source, target in pairwise(files):
        elements = element_table(source, {"rate": "frequency"}).read()
        with open_allocation(target, "polls/day") as write:
            write(elements.keys, elements.rates)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "c.csv").read_bytes()


def test_the_same_bytes_each_time(tmp_path):
    for name in ("plan.csv.gz", "plan.parquet"):
        written = set()
        for _ in range(2):
            with open_allocation(str(tmp_path / name), "polls/day") as write:
                write(KEYS, FREQUENCIES)
            written.add((tmp_path / name).read_bytes())
        assert len(written) == 1


def test_parquet_notes_the_unit(tmp_path):
    with open_allocation(str(tmp_path / "plan.parquet"), "polls/day") as write:
        write(KEYS, FREQUENCIES)
    schema = pq.read_schema(tmp_path / "plan.parquet")
    assert schema.names == ["key", "frequency"]
    assert schema.field("frequency").metadata[b"unit"] == b"polls/day"


@pytest.mark.parametrize("name", ["plan.csv", "plan.csv.gz", "plan.parquet"])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there_and_nothing_else(name, error, tmp_path):
    def fail(path):
        with open_allocation(str(path), "polls/day") as write:
            write(KEYS, FREQUENCIES)
            raise error

    with pytest.raises(error):
        fail(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / name).write_text("before")
    with pytest.raises(error):
        fail(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "before"


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_module.os, "fsync", full)
    said = r"plan\.csv: cannot be written: no space left on device; make room there, or name another place$"
    with pytest.raises(InvalidInput, match=said), replacing(str(tmp_path / "plan.csv")) as file:
        file.write(b"x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_what_cannot_be_written_is_named_as_given(suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write():
        with open_allocation(f"no/plan.{suffix}", "polls/day") as write:
            write(KEYS, FREQUENCIES)

    said = f"no/plan.{suffix}: cannot be written: no such file or directory; name another place"
    with pytest.raises(InvalidInput) as refused:
        write()
    assert str(refused.value) == said


def test_errors_of_other_files_are_left_alone(tmp_path):
    with pytest.raises(FileNotFoundError, match="other"), replacing(str(tmp_path / "plan.csv")):
        (tmp_path / "other").read_text()
    assert list(tmp_path.iterdir()) == []


def test_what_a_link_points_to_is_replaced(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("before")
    link.symlink_to(target)
    with replacing(str(link)) as file:
        file.write(b"after")
    assert link.is_symlink()
    assert target.read_text() == "after"


def test_targets_are_checked_before_the_work(tmp_path):
    for path, message in {
        "plan.xlsx": r"--out must end in \.csv, \.csv\.gz, \.tsv, \.tsv\.gz or \.parquet; it is 'plan\.xlsx'",
        "no/plan.csv": "--out must be in a directory that exists; it is 'no/plan.csv'",
        str(tmp_path): "--out must end in",
    }.items():
        with pytest.raises(InvalidInput, match=message):
            check_writable("--out", path)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InvalidInput, match="--out must be a file"):
        check_writable("--out", str(tmp_path / "folder.csv"))
    (tmp_path / "device.csv").symlink_to("/dev/null")
    with pytest.raises(InvalidInput, match=r"--out must be a file; '.*' is a device or a pipe$"):
        check_writable("--out", str(tmp_path / "device.csv"))


def test_public_names():
    assert tables.__all__ == sorted(
        tables.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    assert all(hasattr(tables, name) for name in tables.__all__)
