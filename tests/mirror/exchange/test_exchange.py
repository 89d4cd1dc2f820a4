"""Elements and history go out and come back; what is imported is learned from; mistakes are named."""

import csv
import io
import re
import time
from contextlib import suppress
from math import inf

import numpy as np
import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st

from unstale import InvalidInput
from unstale.cli import main
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.engine.planner import Planner
from unstale.mirror.exchange.tables import export_elements, export_history, import_elements, import_history
from unstale.tables import Column, Schema, open_records, rows_in

from .conftest import OURS, START, fill, history, open_mirror, said

SUFFIXES = [".csv", ".tsv.gz", ".parquet"]


def _rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_elements_come_back_as_they_were(mirror, tmp_path, suffix):
    path = tmp_path / f"elements{suffix}"
    assert export_elements(mirror, path) == 8
    with open_mirror(tmp_path / "new.db") as new:
        assert import_elements(new, path, allow=OURS) == 8
        assert said(new) == said(mirror)
        again = tmp_path / f"again{suffix}"
        export_elements(new, again)
        with new.store.begin() as t:
            before = len(t.edits(0))
        assert import_elements(new, again, allow=OURS) == 8  # nothing changes
        with new.store.begin() as t:
            assert len(t.edits(0)) == before
        assert said(new) == said(mirror)


def test_who_was_paused_is_paused_elsewhere_too_and_once(mirror, tmp_path):
    path, key = tmp_path / "elements.csv", next(iter(mirror.elements())).key
    mirror.pause([key])
    export_elements(mirror, path)
    with open_mirror(tmp_path / "new.db") as new:
        import_elements(new, path, allow=OURS)
        assert [one.key for one in new.elements() if one.state == "paused"] == [key]
        new.resume([key])
        import_elements(new, path, allow=OURS)  # what is there stays as it is
        assert new.find(key).state == "new"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_history_comes_back_as_it_was(mirror, tmp_path, suffix):
    elements, polls = tmp_path / f"elements{suffix}", tmp_path / f"history{suffix}"
    export_elements(mirror, elements)
    count = export_history(mirror, polls, failures=True)
    assert count == 48
    with open_mirror(tmp_path / "new.db") as new:
        import_elements(new, elements, allow=OURS)
        assert import_history(new, polls) == count
        assert history(new) == history(mirror)
        assert import_history(new, polls) == 0
        assert history(new) == history(mirror)


def test_from_sqlite_to_postgres_and_back(mirror, tmp_path, postgres_url):
    elements, polls = tmp_path / "elements.parquet", tmp_path / "history.parquet"
    export_elements(mirror, elements)
    export_history(mirror, polls, failures=True)
    with open_mirror(postgres_url, tmp_path / "copies") as new:
        import_elements(new, elements, allow=OURS)
        assert import_history(new, polls) == 48
        assert import_history(new, polls) == 0
        assert said(new) == said(mirror)
        assert history(new) == history(mirror)


@pytest.mark.parametrize("when", ["later", "at once"])
def test_what_is_imported_is_learned_from(tmp_path, when):
    rng = np.random.default_rng(4)
    rates = {"python:slow": 1e-5, "python:fast": 3e-3}
    rows = []
    for key, rate in rates.items():
        for k in range(300):
            changed = "" if not k else int(rng.random() < -np.expm1(-rate * 600.0))
            rows.append((key, START + 600.0 * k, changed))
    path = tmp_path / "polls.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("key", "time", "changed"), *rows])
    clock = SimulatedClock(START + 600.0 * 300)
    with open_mirror(tmp_path / "new.db", clock=clock, budget=2 / 600.0) as new:
        for key in rates:
            new.add(key, poll=lambda: b"")
        now = new.clock.now()
        with new.store.begin() as t:
            planner = Planner(new.settings, t, now)
            if when == "later":  # the planner knows the elements by then
                planner.plan(t, now, end=now + 1.0, room=0, crowd={})
        assert import_history(new, path) == 600
        with new.store.begin() as t:
            planner.plan(t, now, end=now + 1.0, room=0, crowd={})
        export_elements(new, tmp_path / "rates.csv")
        known = {row["key"]: row for row in _rows(tmp_path / "rates.csv")}
        for key, rate in rates.items():
            low, high = float(known[key]["low"]) / 86400.0, float(known[key]["high"]) / 86400.0
            assert low < rate < high
            assert high < 100.0 * low
        assert known["python:slow"]["last_poll"].startswith("2023-11-17")


def test_exports_are_files_for_plan_and_estimate(mirror, tmp_path, capsys):
    for suffix in (".csv", ".parquet"):
        elements, polls = tmp_path / f"elements{suffix}", tmp_path / f"history{suffix}"
        export_elements(mirror, elements)
        export_history(mirror, polls)
        for command in (
            ["plan", str(elements), "--budget", "100/day"],
            ["plan", str(elements), "--budget", "1MB/day", "--column", "size=bytes"],
            ["estimate", str(polls)],
        ):
            assert main(command) == 0
            assert "https://a.example/" in capsys.readouterr().out


def test_by_hand(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(
        "key,weight,max_age,colour\nhttps://b.example/1,,60,red\nHTTPS://A.example:443/2,5,,\npython:x,,,blue\n"
    )
    with open_mirror(tmp_path / "new.db") as new:
        assert import_elements(new, path, allow=OURS) == 3
        found = {element.key: element for element in new.elements()}
        assert found["https://b.example/1"].weight == 3.0  # by the rule
        assert found["https://b.example/1"].max_age == 60.0
        assert found["https://a.example/2"].weight == 5.0
        assert found["https://a.example/2"].max_age == inf
        assert found["python:x"].source == "python"
        polls = tmp_path / "polls.csv"
        polls.write_text(
            "key,outcome,time\npython:x,new,2026-01-01T00:00:00Z\npython:x,failed,2026-01-01T00:00:30Z\n"
            "python:x,changed,2026-01-01T01:01:00+01:00\npython:x,changed,2026-01-01T00:01:00Z\n"
        )
        assert import_history(new, polls) == 3  # two are at the same time
        elapsed = [(poll[2], poll[3]) for poll in history(new)]
        assert elapsed == [(None, "new"), (30.0, "failed"), (60.0, "changed")]


def test_what_a_list_does_not_say_stays(tmp_path):
    path = tmp_path / "elements.csv"
    with open_mirror(tmp_path / "mirror.db") as mirror:
        mirror.add("https://x.example/", weight=3.0, max_age=3600.0, selector="main")
        mirror.add("https://x.example/feed", source="feed")
        path.write_text("key,weight,options\nhttps://x.example/,,\nhttps://x.example/feed,1,\n")
        import_elements(mirror, path)
        element = mirror.find("https://x.example/")
        assert (element.weight, element.max_age, element.options) == (3.0, 3600.0, {"selector": "main"})
        assert mirror.find("https://x.example/feed").source == "feed"
        path.write_text('key,weight,options\nhttps://x.example/,1,"{""change"": ""text""}"\n')
        import_elements(mirror, path)
        element = mirror.find("https://x.example/")
        assert (element.weight, element.max_age) == (1.0, 3600.0)
        assert element.options == {"selector": "main", "change": "text"}


def test_an_edited_column_counts(mirror, tmp_path):
    path = tmp_path / "elements.csv"
    export_elements(mirror, path)
    rows = _rows(path)
    for row in rows:
        row["weight"], row["max_age"] = "7", ""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    import_elements(mirror, path)
    for element in mirror.elements():
        assert element.weight == 7.0
    assert next(mirror.elements("https://a.example/")).max_age == 3600.0  # empty says nothing


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key\n\n\nnot a key of anything\n", "line 4, column 'key': must be an element"),
        (
            "key,weight\npython:a,1\npython:b,-1\n",
            "line 3, column 'weight': must be finite and >= 0; it is '-1'",
        ),
        ("key,weight\npython:a,heavy\n", "line 2, column 'weight': must be a number; it is 'heavy'"),
        ("key,jitter\npython:a,1\n", "line 2, column 'jitter': must be at least 0 and below 1"),
        ("key,max_age\npython:a,0\n", "line 2, column 'max_age': must be a number of seconds > 0"),
        ("key,windows\npython:a,never\n", "line 2, column 'windows': must be windows such as"),
        ('key,options\npython:a,"[1]"\n', "line 2, column 'options': must be a JSON object; it is '[1]'"),
        ("key\npython:a\npython:b\npython:a\n", "line 4, column 'key': must be another than that in line 2"),
        ("key\npython:a\n''\n", "line 3"),
        ("key,weight\n,1\n", "line 2, column 'key': must be text"),
        ("url\npython:a\n", "there is no column 'key' among 'url'"),
        ("key,weight\npython:a\n", "line 2: 1 field, but the header has 2"),
        ("key,source\nx,carrier-pigeon\n", "there is no source 'carrier-pigeon'"),
        ("", "empty"),
    ],
)
def test_mistakes_in_elements_are_named_and_nothing_is_added(tmp_path, text, said):
    path = tmp_path / "list.csv"
    path.write_text(text)
    with open_mirror(tmp_path / "new.db") as new:
        with pytest.raises(InvalidInput, match=re.escape(said)) as error:
            import_elements(new, path)
        assert str(path) in str(error.value)
        assert not list(new.elements())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("key,time,changed\npython:b,1,\n", "line 2, column 'key': must be an element of this mirror"),
        ("key,time,changed\npython:a,1,\npython:a,2,\n", "line 3, column 'changed': must be 0 or 1"),
        (
            "key,time,changed\npython:a,1,\npython:a,0,1\n",
            "line 3, column 'time': must be in the order of time",
        ),
        ("key,time,outcome\npython:a,1,eaten\n", "line 2, column 'outcome': must be one of changed, new"),
        ("key,time,changed\npython:a,soon,1\n", "line 2, column 'time': must be a time"),
        ("key,time,changed\npython:a,,1\n", "line 2, column 'time': must be a time"),
        ("key,changed\npython:a,1\n", "there is no column 'time'"),
        ("key,time\npython:a,1\n", "there is no column 'changed' or 'outcome'"),
        ("key,time,changed,bytes\npython:a,1,1,-5\n", "line 2, column 'bytes': must be a whole number >= 0"),
        ("key,time,changed,elapsed\npython:a,1,1,-5\n", "line 2, column 'elapsed': must be finite and >= 0"),
    ],
)
def test_mistakes_in_a_history_are_named_and_nothing_is_recorded(tmp_path, text, said):
    path = tmp_path / "polls.csv"
    path.write_text(text)
    with open_mirror(tmp_path / "new.db") as new:
        new.add("python:a", poll=lambda: b"")
        with pytest.raises(InvalidInput, match=re.escape(said)) as error:
            import_history(new, path)
        assert str(path) in str(error.value)
        assert not history(new)


def test_other_endings_and_folders_are_refused(mirror, tmp_path):
    with pytest.raises(InvalidInput, match=r"must end in \.csv, "):
        export_elements(mirror, tmp_path / "elements.xls")
    with pytest.raises(InvalidInput, match="in a directory that exists"):
        export_history(mirror, tmp_path / "no" / "history.csv")
    with pytest.raises(InvalidInput, match="no such file"):
        import_elements(mirror, tmp_path / "none.csv")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InvalidInput, match="not a Parquet file"):
        import_history(mirror, tmp_path / "bad.parquet")


def test_a_failed_export_leaves_the_file_as_it_was(mirror, tmp_path):
    path = tmp_path / "elements.csv"
    path.write_text("precious")

    def fail(_):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        export_elements(mirror, path, progress=fail)
    assert path.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["elements.csv", "old"]


text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
flat = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), text)
KINDS = {
    "text": text,
    "number": st.floats(allow_nan=False),
    "whole": st.none() | st.integers(0, 10**18 - 1),
    "flag": st.none() | st.booleans(),
    "json": st.dictionaries(text, flat | st.lists(flat, max_size=3), max_size=3),
    "time": st.integers(-(10**15), 10**16).map(lambda us: us / 1e6),
}
COLUMNS_OF_KINDS = tuple(Column(kind, kind, empty=True, since_1970=True) for kind in KINDS)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz", ".parquet"])
@given(rows=st.lists(st.tuples(text.filter(bool), *KINDS.values()), max_size=8))
def test_rows_of_all_kinds_come_back(tmp_path, suffix, rows):
    path = str(tmp_path / f"rows{suffix}")
    columns = (Column("key", "label", needed=True), *COLUMNS_OF_KINDS)
    with open_records(path, columns) as write:
        write(rows[:3])
        write(rows[3:])
    read = list(rows_in(path, Schema(columns, "rows")))
    assert [tuple(row.values()) for _, row in read] == rows


@given(st.binary(max_size=300))
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz", ".parquet"])
def test_garbage_is_refused_or_read_but_never_crashes(tmp_path, suffix, content):
    path = tmp_path / f"garbage{suffix}"
    path.write_bytes(content)
    with suppress(InvalidInput):
        list(rows_in(str(path), Schema(COLUMNS_OF_KINDS, "rows")))


cell = st.sampled_from(
    ["", "python:a", "python:b", "1", "-1", "0.5", "inf", "nan", "new", "failed", "{}", "[", '"']
)
COLUMNS = (
    "key time seconds changed outcome elapsed weight via given options source group windows jitter max_age"
)
header = st.lists(st.sampled_from(COLUMNS.split()), min_size=1, max_size=6)


@given(header, st.data())
@settings(max_examples=percent(15))
def test_tables_of_nonsense_are_refused_whole_or_taken(tmp_path_factory, names, data):
    rows = data.draw(st.lists(st.lists(cell, min_size=len(names), max_size=len(names)), max_size=4))
    file = io.StringIO()
    csv.writer(file).writerows([names, *rows])
    folder = tmp_path_factory.mktemp("nonsense")
    (folder / "x.csv").write_text(file.getvalue())
    with open_mirror(folder / "m.db") as new:
        new.add("python:a", poll=lambda: b"")
        before = said(new), history(new)
        for read in (import_elements, import_history):
            try:
                read(new, folder / "x.csv")
            except InvalidInput:
                assert (said(new), history(new)) == before
            before = said(new), history(new)


def test_discovered_elements_may_come_before_who_named_them(tmp_path):
    path = tmp_path / "list.csv"
    path.write_text(
        "key,via\npython:a,python:b\npython:b,python:c\npython:c,\npython:d,python:e\npython:e,python:d\n"
        "python:f,python:elsewhere\n"
    )
    with open_mirror(tmp_path / "new.db") as new:
        assert import_elements(new, path, allow=OURS) == 6
        assert {key: one[-1] for key, one in said(new).items()} == {
            "python:a": "python:b", "python:b": "python:c", "python:c": None, "python:d": None,
            "python:e": None, "python:f": None,
        }  # fmt: skip


@pytest.mark.long
def test_a_hundred_thousand_elements_and_a_million_polls(tmp_path):
    elements, polls = tmp_path / "elements.csv", tmp_path / "polls.csv"
    count = 100_000
    with elements.open("w") as file:
        file.write("key\n")
        file.writelines(f"python:{k}\n" for k in range(count))
    with polls.open("w") as file:
        file.write("key,time,changed\n")
        for number in range(10):
            file.writelines(f"python:{k},{START + number * 3600 + k * 0.01},{k % 2}\n" for k in range(count))
    with open_mirror(tmp_path / "new.db") as new:
        began = time.perf_counter()
        assert import_elements(new, elements, allow=OURS) == count
        assert import_history(new, polls) == 10 * count
        assert export_elements(new, tmp_path / "out.parquet") == count
        assert export_history(new, tmp_path / "polls.parquet") == 10 * count
        assert time.perf_counter() - began < 600.0


def test_fill_is_worth_testing(tmp_path):
    with open_mirror(tmp_path / "m.db") as made:
        fill(made)
        assert {poll[3] for poll in history(made)} == {"new", "changed", "unchanged", "failed", "gone"}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_empty_mirror(tmp_path, suffix):
    elements, polls = tmp_path / f"elements{suffix}", tmp_path / f"history{suffix}"
    with open_mirror(tmp_path / "m.db") as made:
        assert export_elements(made, elements) == export_history(made, polls) == 0
        assert import_elements(made, elements) == import_history(made, polls) == 0
