"""Differences that people can read: they are right, short, and soon there."""

import io
import json
import random
import re
import resource
import time
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.clock import SimulatedClock
from unstale.mirror.contained import Children
from unstale.mirror.demo.site import ChangingSite
from unstale.mirror.differences import bounded
from unstale.mirror.differences.bounded import bounded_difference
from unstale.mirror.differences.text import _laid_out, _visible, difference

ENOUGH = 60.0
"""Seconds of the processor that no machine needs; what grows too fast takes many minutes."""


def _patched(old, shown):
    """Apply a unified difference."""
    result, at = [], 0
    for line in shown.splitlines():
        if line.startswith("@@"):
            span = line.split()[1][1:]
            start, _, count = span.partition(",")
            low = int(start) - (count != "0")
            result += old[at:low]
            at = low
        elif line[0] == "+":
            result.append(line[1:])
        else:
            assert old[at] == line[1:]
            at += 1
            if line[0] == " ":
                result.append(line[1:])
    return result + old[at:]


some_lines = st.lists(st.sampled_from(["a", "b", "c", "+", "-x", "@@ -1 +1 @@"]), max_size=40)


@given(some_lines, some_lines)
def test_a_difference_leads_from_one_to_the_other(old, new):
    shown = difference("\n".join(old).encode(), "\n".join(new).encode(), "text/plain", lines=1000)
    if "\n".join(old) == "\n".join(new):
        assert shown == "no difference"
    elif old and new and "\n".join(old) and "\n".join(new):
        assert _patched(old, shown) == new


def test_pages_are_compared_by_what_is_seen():
    site = ChangingSite([0.0], clock=SimulatedClock(0.0))
    shown = difference(site.content(0, 4), site.content(0, 5), "text/html; charset=utf-8")
    assert "<" not in shown
    assert "-Page 0, revision 4" in shown
    assert "+Page 0, revision 5" in shown
    hidden = [f"<p>same</p><script>let x = {k}</script>".encode() for k in (1, 2)]
    assert "+<p>same</p><script>let x = 2</script>" in difference(*hidden, "text/html")
    inline = [f"<p>one <b>{word}</b> three</p><!-- no --><div>four<br>five</div>".encode() for word in "xy"]
    assert difference(*inline, "text/html") == "@@ -1,3 +1,3 @@\n-one x three\n+one y three\n four\n five"


@pytest.mark.parametrize(
    ("page", "seen"),
    [
        ("<title>t</title>a<b>b</b><p>c <i>d</i>\n e<script>x</script> f", ["t", "ab", "c d e f"]),
        ("<template><p>x</p><div>y</div></template>z<style>p {}</style>", ["z"]),
        ("<table><tr><td>a<td>b</table>c<!-- d --><?e?>f", ["a", "b", "cf"]),
        ("<p>caf&eacute; &lt;b&gt;</p></body></html>after", ["café <b>", "after"]),
        ("plain", ["plain"]),
        ("", []),
    ],
)
def test_what_people_see(page, seen):
    assert _visible(page) == seen


def test_json_is_laid_out():
    shown = difference(b'{"a": [1, 2], "b": 3}', b'{"a": [1, 4], "b": 3}', "application/json")
    assert "-  2\n+  4" in shown
    assert "-{oops" in difference(b"{oops", b"{}", "application/ld+json")


def test_json_is_laid_out_as_one_expects():
    value = {
        "a": [1, -2.5, [], {}, [[]], {"b, [": 'x"\\', "c": None}],
        "": {"d": [True, "é\\"]},
        "e": "[1, 2]",
    }
    for one in (value, [], 5, "x", [value, [value]]):
        assert (
            _laid_out(json.dumps(one, ensure_ascii=False))
            == json.dumps(one, indent=1, ensure_ascii=False).splitlines()
        )


@given(
    st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_any_json_is_laid_out(value):
    laid_out = json.dumps(value, indent=1, ensure_ascii=False)
    if all(len(line) - len(line.lstrip(" ")) <= 20 for line in laid_out.splitlines()):
        assert _laid_out(json.dumps(value, ensure_ascii=False)) == laid_out.splitlines()


@pytest.mark.parametrize("kind", ["nested", "wide", "strings", "escapes"])
def test_json_that_is_hostile_takes_little_memory(kind):
    def content(last):
        if kind == "nested":
            return b"[" * 900 + b"0," * 50_000 + last + b"]" * 900
        if kind == "wide":
            return b"[" + b"0," * 100_000 + last + b"]"
        inner = b"[,{" * 300_000 if kind == "strings" else b"\\n" * 400_000
        return b'["' + inner + b'", ' + last + b"]"

    old, new = content(b"1"), content(b"2")
    tracemalloc.start()
    try:
        shown = difference(old, new, "application/json")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(shown) < 5000
    assert most < 40_000_000


def test_what_cannot_be_written_is_replaced():
    shown = difference(b'{"a": 1}', b'{"a": "\\ud800"}', "application/json")
    assert '+ "a": "?"' in shown
    for charset in ("unicode_escape", "raw-unicode-escape", "utf-7", "idna", "punycode", "hex", "undefined"):
        shown = difference(rb"a \ud800", rb"b \ud800 +2AA-", f"text/plain; charset={charset}")
        shown.encode()
        assert "-a" in shown


def test_charsets_that_are_none_of_texts_take_no_time():
    began = time.process_time()
    difference(b"a" * 3_000_000 + b"-bbbb", b"b" * 3_000_000 + b"-cccc" * 9, "text/plain; charset=punycode")
    assert time.process_time() - began < ENOUGH


def test_other_content_has_sizes_and_digests():
    shown = difference(b"\x00", b"\x01\x02", "image/png")
    assert shown.startswith("was 1 bytes, SHA-256 6e34")
    assert "\nis  2 bytes" in shown
    assert "was" in difference(b"caf\xe9", b"caf\xe8", "text/plain")  # both are replaced: not text
    assert "-caf\xe9" in difference(b"caf\xe9", b"caf\xe8", "text/plain; charset=latin-1")
    assert "-cafe" in difference(b"cafe", b"caff", "text/plain; charset=nonsense")


@pytest.mark.parametrize("media_type", ["text/plain", "text/html", "application/json", "image/png"])
@given(old=st.binary(max_size=200), new=st.binary(max_size=200))
def test_garbage_has_a_difference_too(media_type, old, new):
    shown = difference(old, new, media_type)
    assert (shown == "no difference") == (old == new)


@pytest.mark.parametrize("kind", ["few words", "no order", "one line", "long lines", "deep", "huge", "tags"])
def test_bounded_in_time_and_output(kind):
    dice = random.Random(1)  # noqa: S311

    def content():
        if kind == "few words":
            return "\n".join(dice.choices("abcdefgh", k=50_000)).encode()
        if kind == "no order":
            lines = [f"line {k}" for k in range(50_000)]
            dice.shuffle(lines)
            return "\n".join(lines).encode()
        if kind == "deep":
            return b"[" * dice.randrange(100_000, 110_000)
        if kind == "huge":
            return bytes([dice.randrange(65, 90)]) * 30_000_000
        if kind == "tags":
            return b"<div>" * dice.randrange(50_000, 60_000) + b"x"
        return "".join(dice.choices("abc ." if kind == "long lines" else "abc", k=500_000)).encode()

    media_type = {"deep": "application/json", "tags": "text/html"}.get(kind, "text/plain")
    began = time.process_time()
    shown = difference(content(), content(), media_type, lines=50)
    assert time.process_time() - began < ENOUGH
    assert len(shown) < 25_000
    assert len(shown.splitlines()) <= 52


def test_a_tag_with_many_attributes_takes_no_time():
    tag = b"<p " + b" ".join(b"a%d" % k for k in range(100_000)) + b">"
    began = time.process_time()
    assert difference(tag + b"old", tag + b"new", "text/html") == "@@ -1 +1 @@\n-old\n+new"
    assert time.process_time() - began < ENOUGH


def _parquet(rows, **columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns) if columns else pa.Table.from_pylist(rows), file)
    return file.getvalue()


def test_tables_by_key():
    old = [{"id": k, "name": f"n{k}", "price": 1.0} for k in range(100)]
    new = [row | ({"price": 2.0} if row["id"] == 7 else {}) for row in old if row["id"] != 3]
    new.append({"id": 200, "name": "new", "price": None})
    shown = difference(_parquet(old), _parquet(new), "application/vnd.apache.parquet", table=True)
    assert shown.splitlines() == [
        "rows: 100 -> 100 (1 added, 1 removed, 1 changed; told apart by id)",
        "- id 3, name n3, price 1.0",
        "+ id 200, name new, price null",
        "~ id 7: price 1.0 -> 2.0",
    ]


def test_tables_without_a_key_and_with_other_columns():
    old = _parquet(None, a=[1, 1, 2], b=["x", "x", None], gone=[0, 0, 0])
    new = _parquet(None, a=[1.0, 2.0, 2.0], b=["x", None, None], c=[[1], [2], [3]])
    shown = difference(old, new, "application/octet-stream", table=True)
    said = shown.splitlines()
    assert said[:3] == [
        "rows: 3 -> 3 (1 added, 1 removed)",
        "column removed: gone",
        "column a: was int64, is double",
    ]
    assert said[3].startswith("column added: c (list<")
    assert said[4:] == ["- a 1, b x", "+ a 2.0, b null"]


rows = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["x", "y", None])), max_size=12)


@given(rows, rows)
def test_counts_of_rows_add_up(old, new):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])

    def table(rows):
        file = io.BytesIO()
        pq.write_table(
            pa.Table.from_pylist([dict(zip("ab", row, strict=True)) for row in rows], schema), file
        )
        return file.getvalue()

    one, other = table(old), table(new)
    shown = difference(one, other, "", table=True)
    if one == other:
        return
    head = shown.splitlines()[0]
    words = re.sub("[(),;]", " ", head).split()
    added, removed = int(words[words.index("added") - 1]), int(words[words.index("removed") - 1])
    assert len(old) + added - removed == len(new)
    keyed = "told" in words
    if not keyed:
        assert added == sum(max(0, new.count(row) - old.count(row)) for row in set(new))
    else:
        changed = int(words[words.index("changed") - 1])
        key = "ab".index(words[-1])
        assert changed == sum(r not in old and any(o[key] == r[key] for o in old) for r in new)


def test_names_of_columns_can_be_long():
    old, new = _parquet([{"x" * 100_000: 1}]), _parquet([{"y" * 100_000: 1}])
    assert len(difference(old, new, "application/vnd.apache.parquet")) < 1000


def test_a_damaged_table_is_bytes():
    old, new = _parquet([{"a": 1}]), b"PAR1" + b"x" * 50 + b"PAR1"
    assert difference(old, new, "application/vnd.apache.parquet", table=True).startswith("was")


def _long_strings(rows, characters=640_000):
    """A table of a few kilobytes that has gigabytes in memory: one long string in many rows."""
    file = io.BytesIO()
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * characters]))
    pq.write_table(pa.table({"id": range(rows), "text": text.cast(pa.string())}), file, compression="zstd")
    return file.getvalue()


def test_a_page_that_looks_like_a_table_is_bytes():
    """Rows are compared only if the mirror has written them; the magic bytes are anybody's."""
    old, new = _parquet([{"a": 1}]), _parquet([{"a": 2}])
    assert difference(old, new, "application/vnd.apache.parquet").startswith("was")


def test_bytes_of_tables_are_counted_not_cells():
    old, new = _long_strings(300), _long_strings(301)
    assert max(len(old), len(new)) < 10_000
    held = pa.total_allocated_bytes()
    began = time.process_time()
    said = difference(old, new, "", table=True)
    assert said.startswith("rows: 300 -> 301 (1 added, 0 removed, 0 changed; told apart by id)")
    assert time.process_time() - began < ENOUGH / 10
    assert pa.total_allocated_bytes() <= held
    nulls = [_parquet(None, a=pa.nulls(rows)) for rows in (5_000_000, 5_000_001)]
    assert difference(*nulls, "", table=True).startswith("rows: 5,000,000 -> 5,000,001 (")


def test_one_changed_row_of_a_large_table_is_shown():
    count = 600_000
    columns = {name: np.arange(count) * n for n, name in enumerate(["id", "a", "b", "c", "d", "e", "f"], 1)}
    old = _parquet(None, **columns)
    columns["e"][123_456] = 7
    said = difference(old, _parquet(None, **columns), "", table=True)
    assert said.splitlines() == [
        "rows: 600,000 -> 600,000 (0 added, 0 removed, 1 changed; told apart by id)",
        "~ id 123456: e 740736 -> 7",
    ]
    shorter = _parquet(None, **{name: column[:-1] for name, column in columns.items()})
    assert "0 added, 1 removed, 1 changed" in difference(old, shorter, "", table=True)
    without_first = _parquet(None, **{name: column[1:] for name, column in columns.items()})
    assert "rows came in between" in difference(old, without_first, "", table=True)


HOSTILE = {
    "long strings": (lambda n: _long_strings(200 + n, 3_000_000), "", True),
    "short lines": (lambda n: b"a\n" * 3_900_000 + b"%d" % n, "text/plain", False),
    "tags": (lambda n: b"<html>" + b"a<br>" * 1_500_000 + b"%d" % n, "text/html", False),
    "JSON": (lambda n: b"[" + b"[]," * 2_500_000 + b"%d]" % n, "application/json", False),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_contents_are_compared_apart(monkeypatch, kind):
    monkeypatch.setattr(bounded, "_comparers", Children(1, memory=120 << 20, seconds=2.0))
    content, media_type, table = HOSTILE[kind]
    old, new = content(1), content(2)
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    shown = bounded_difference(old, new, media_type, table=table)
    assert time.process_time() - began < 2.0, "in this process"
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100_000_000
    assert shown.startswith(f"was {len(old):,} bytes, SHA-256 ")
    assert re.search(
        r"\nThey were not compared: it takes more than (120 MB of|2 seconds of processor)", shown
    )


def test_apart_or_not_the_difference_is_the_same():
    for size in (10, 200_000):
        old, new = b"one\n" * size, b"one\n" * size + b"two"
        assert bounded_difference(old, new, "text/plain") == difference(old, new, "text/plain")
    old, new = _parquet([{"a": 1}]), _parquet([{"a": 2}])
    assert bounded_difference(old, new, "", table=True) == difference(old, new, "", table=True)
