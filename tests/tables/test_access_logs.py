"""Access logs in all their formats, and what becomes of lines that cannot be read."""

import bz2
import gzip
import io
import json
import lzma
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.estimation import Profile
from unstale.tables import FIELDS, AccessLog, AccessRuns, Requests, read_user_weights
from unstale.tables.logs import access_logs
from unstale.tables.logs.compiled.lines import scan
from unstale.tables.logs.lines import Access, instant, said_by

LINE = '192.0.2.7 - - [31/Jan/2026:12:00:00 +0100] "GET /page?id=7 HTTP/1.1" 200 5120 "-" "agent"\n'
MOMENT = 1769857200.0
ANY = Requests(methods=frozenset(), statuses=frozenset())


def read(path, **options):
    """Return all accesses of a log, and its tally."""
    log = AccessLog(str(path), **options)
    found = []
    for part in log.read():
        places = np.arange(len(part.keys)) if part.places is None else part.places
        people = range(len(part.users or [])) if part.user_places is None else part.user_places
        users = [part.users[place] for place in people] if part.users is not None else [""] * len(places)
        counts = np.ones(len(places)) if part.counts is None else part.counts
        keys = [part.keys[place] for place in places]
        found += map(Access, keys, part.times.tolist(), users, counts.tolist())
    return found, log.tally


@pytest.fixture
def write(tmp_path):
    def write(text, name="access.log"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


# --- the combined log format --------------------------------------------------------------------------------


def test_a_line_of_a_web_server(write):
    found, tally = read(write(LINE))
    assert found == [Access("/page?id=7", MOMENT)]
    assert (tally.lines, tally.accesses, tally.passed, tally.malformed) == (1, 1, 0, 0)
    found, _ = read(write(LINE), users=True, requests=Requests(queries=False, prefix="https://example.org"))
    assert found == [Access("https://example.org/page", MOMENT, "192.0.2.7")]


VARIANTS = {
    '192.0.2.7 - ann [31/Jan/2026:12:00:00 +0100] "GET / HTTP/1.1" 200 5120': ("/", "ann"),  # common
    'example.org:443 192.0.2.7 - - [31/Jan/2026:12:00:00 +0100] "GET / HTTP/2.0" 304 0 "-" "-"': (
        "/",
        "192.0.2.7",
    ),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "HEAD /a b HTTP/1.1" 200 -': ("/a b", "::1"),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "GET /a\\"b HTTP/1.1" 200 - "x" "y"': ('/a\\"b', "::1"),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "GET /old" 200 7': ("/old", "::1"),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "GET http://a.example/x HTTP/1.1" 200 7': (
        "http://a.example/x",
        "::1",
    ),
    '::1 - - [2026-01-31T11:00:00Z] "GET /iso HTTP/1.1" 200 7': ("/iso", "::1"),
    '::1 - - [31/Jan/2026:11:00:00] "GET /utc HTTP/1.1" 200 7': ("/utc", "::1"),
    '::1 - - [31/Jan/2026:11:00:00.000 +0000] "GET /ms HTTP/1.1" 200 7': ("/ms", "::1"),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "GET /ümlaut HTTP/1.1" 200 7': ("/ümlaut", "::1"),
    '::1 - - [31/Jan/2026:12:00:00 +0100] "GET /r HTTP/1.1" 200 7\r': ("/r", "::1"),
}


@pytest.mark.parametrize("line", VARIANTS)
def test_variants(line, write):
    key, user = VARIANTS[line]
    assert read(write(line + "\n"), users=True, kind="combined")[0] == [Access(key, MOMENT, user)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("hello", "no time in brackets"),
        ("- - [31/Jan/2026:12:00:00 +0100", "no time in brackets"),
        ("a - - [31/Jan/2026:12:00:00 +0100] GET / 200", "no request in quotes"),
        ('a - - [31/Jan/2026:12:00:00 +0100] "GET / HTTP/1.1', "no request in quotes"),
        (
            'a - - [31/Jan/2026:12:00:00 +0100] "GET / HTTP/1.1" OK',
            "no status of three digits after the request",
        ),
        (
            'a - - [31/Jan/2026:12:00:00 +0100] "GET / HTTP/1.1" 2000',
            "no status of three digits after the request",
        ),
        (
            'a - - [31/Foo/2026:12:00:00 +0100] "GET / HTTP/1.1" 200 1',
            "'31/Foo/2026:12:00:00 +0100' is no time",
        ),
        (
            'a - - [30/Feb/2026:12:00:00 +0100] "GET / HTTP/1.1" 200 1',
            "'30/Feb/2026:12:00:00 +0100' is no time",
        ),
        (
            'a - - [29/Feb/2026:12:00:00 +0100] "GET / HTTP/1.1" 200 1',
            "'29/Feb/2026:12:00:00 +0100' is no time",
        ),
        (
            'a - - [01/Jan/2026:24:00:00 +0100] "GET / HTTP/1.1" 200 1',
            "'01/Jan/2026:24:00:00 +0100' is no time",
        ),
    ],
)
def test_lines_that_cannot_be_read_are_counted_and_named(line, reason, write):
    found, tally = read(write(LINE * 3 + line + "\n\n" + LINE))
    assert len(found) == 4
    assert (tally.lines, tally.malformed) == (6, 1)
    assert tally.examples == [(4, reason)]


def test_only_the_first_examples_are_kept(write):
    _, tally = read(write(LINE + "bad\n" * 1000))
    assert tally.malformed == 1000
    assert [example.line for example in tally.examples] == [2, 3, 4, 5, 6]


def test_only_successful_reads_count_unless_asked_for(write):
    def line(request, status):
        return f'::1 - - [31/Jan/2026:12:00:00 +0100] "{request}" {status} 7\n'

    lines = [
        ("GET /a HTTP/1.1", 200),
        ("HEAD /b HTTP/1.1", 301),
        ("POST /c HTTP/1.1", 200),
        ("GET /d HTTP/1.1", 404),
    ]
    path = write(
        "".join(line(*one) for one in [*lines, ("-", 408), ("\\x16\\x03", 400), ("GET HTTP/1.1", 200)])
    )
    found, tally = read(path)
    assert [one.key for one in found] == ["/a", "/b"]
    assert (tally.passed, tally.malformed) == (5, 0)
    assert [one.key for one in read(path, requests=ANY)[0]] == ["/a", "/b", "/c", "/d"]
    only = Requests(methods=frozenset({"POST", "GETS"}), statuses=frozenset({2}))
    assert [one.key for one in read(path, requests=only)[0]] == ["/c"]


WORDS = st.text(st.sampled_from('ab/?-"\\ [] é:\t'), max_size=8)
ZONES = st.integers(-23 * 60, 23 * 60)


@st.composite
def made_lines(draw):
    """Lines that are nearly or fully in combined log format."""
    time = draw(st.datetimes(datetime(1, 1, 3), datetime(9998, 1, 1)))  # noqa: DTZ001
    minutes = draw(ZONES)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"
    stamp = f"{time.day:02}/{time:%b}/{time.year:04}:{time:%H:%M:%S} {zone}"
    who = draw(st.sampled_from(["::1 - -", "a b - ann", "::1", "-", "a  b"]) | WORDS)
    request = (
        draw(st.sampled_from(["GET", "HEAD", "POST", "-", ""]))
        + draw(WORDS)
        + draw(st.sampled_from([" HTTP/1.1", "", " HTTP/", " x"]))
    )
    status = draw(st.sampled_from(["200", "304", "404", "20", "abc", "2000"]))
    line = f'{who} [{stamp}] "{request}" {status}{draw(st.sampled_from(["", " 7", " - x"]))}'
    return line.replace("\n", "").replace("\r", "")


@given(lines=st.lists(made_lines(), min_size=1, max_size=8), queries=st.booleans(), anything=st.booleans())
def test_compiled_code_reads_what_python_reads(lines, queries, anything):
    chosen = Requests(*((frozenset(), frozenset()) if anything else ()), queries=queries)
    block = "\n".join(lines).encode()
    found = scan(block, *chosen.for_kernel(), queries=queries, users=True)
    got = [
        (block[slice(*found.keys[key])].decode(), float(time), block[slice(*found.users[user])].decode())
        for key, time, user in zip(found.places, found.times, found.user_places, strict=True)
    ]
    left = {int(number) for number, _, _ in found.odd}
    expected, passed = [], 0
    for number, line in enumerate(lines, 1):
        said = said_by(line.encode(), chosen)
        if number not in left and line:
            assert not isinstance(said, str)
            passed += said is None
            expected += [said[:3]] if said else []
    assert got == expected
    assert found.passed == passed


@given(
    time=st.datetimes(datetime(1, 1, 3), datetime(9998, 1, 1)),  # noqa: DTZ001
    minutes=ZONES,
)
def test_times_are_those_of_the_calendar(time, minutes):
    zoned = time.replace(microsecond=0, tzinfo=timezone(timedelta(minutes=minutes)))
    sign, ahead = "-" if minutes < 0 else "+", abs(minutes)
    stamp = f"{time.day:02}/{time:%b}/{time.year:04}:{time:%H:%M:%S} {sign}{ahead // 60:02}{ahead % 60:02}"
    line = f'::1 - - [{stamp}] "GET / HTTP/1.1" 200 7'.encode()
    assert instant(stamp) == zoned.timestamp()
    assert scan(line, *ANY.for_kernel()).times.tolist() == [zoned.timestamp()]


# --- records ------------------------------------------------------------------------------------------------


def test_json_lines(write):
    rows = [
        {"time": "2026-01-31T11:00:00Z", "url": "/a", "user": "ann"},
        {"time": "2026-01-31T12:00:00+01:00", "url": "/b", "user": 7, "status": 404},
        {"time": MOMENT, "url": "/c", "status": 200, "method": "POST"},
        {"time": MOMENT * 1000, "url": "/d", "status": 200, "method": "GET", "more": [1, {"x": None}]},
        {"time": int(MOMENT * 1e9), "url": "/e?q=1", "user": None},
    ]
    path = write("\n".join(map(json.dumps, rows)))
    found, tally = read(path, users=True)
    assert found == [Access("/a", MOMENT, "ann"), Access("/d", MOMENT), Access("/e?q=1", MOMENT)]
    assert (tally.lines, tally.passed, tally.malformed) == (5, 2, 0)


def test_lines_that_are_not_json(write):
    good = json.dumps({"key": "/a", "time": MOMENT})
    bad = ['{"key": "/a", ', "[1]", "3", '{"key": "/a"}', '{"time": 5}', '{"key": "/a", "time": true}', ""]
    found, tally = read(write("\n".join([good, *bad, good])))
    assert len(found) == 2
    assert tally.lines == 9
    assert tally.malformed == 6
    assert [example.line for example in tally.examples] == [2, 3, 4, 5, 6]
    assert tally.examples[0].reason.startswith("not JSON; ")
    assert [example.reason for example in tally.examples[1:]] == [
        "not an object of JSON", "not an object of JSON", "no time", "no key"
    ]  # fmt: skip
    found, tally = read(write(f"{good}\n{good}, {good}\n{good}\n"))  # commas must not make one of two
    assert (len(found), tally.malformed) == (2, 1)


def test_lines_nested_too_deeply(write):
    good, deep = json.dumps({"key": "/a", "time": MOMENT}), "[" * 100_000
    for lines in ([good, deep, good], [deep, good, good]):
        found, tally = read(write("\n".join(lines)), kind="json")
        assert (len(found), tally.malformed) == (2, 1)
        assert tally.examples == [(lines.index(deep) + 1, "not JSON; not text, or too deep")]


def test_keys_and_users_are_text(write):
    good = {"key": "/a", "time": MOMENT, "user": "ann"}
    bad = [
        {**good, "key": {"a": 1}},
        {**good, "key": ["/a"]},
        {**good, "user": {"id": 7}},
        {**good, "user": []},
    ]
    found, tally = read(write("\n".join(map(json.dumps, [good, *bad, {**good, "user": 7}]))), users=True)
    assert [one.user for one in found] == ["ann", "7"]
    assert [example.reason for example in tally.examples] == [
        "{'a': 1} is no key", "['/a'] is no key", "{'id': 7} is no user", "[] is no user"
    ]  # fmt: skip
    found, tally = read(write("\n".join(map(json.dumps, [good, bad[2]]))), users=True)
    assert (len(found), tally.malformed) == (1, 1)


def test_requests_in_json(write):
    """As nginx is often told to write."""
    row = {"time_local": "31/Jan/2026:12:00:00 +0100", "request": "GET /a?b HTTP/1.1", "status": "200"}
    assert read(write(json.dumps(row)))[0] == [Access("/a?b", MOMENT)]


@pytest.mark.parametrize(
    ("name", "comma"), [("views.csv", ","), ("views.tsv", "\t"), ("views", ","), ("views", "\t")]
)
def test_rows(name, comma, write):
    text = 'user,time,key,count\nann,2026-01-31T11:00:00Z,/a,3\nbob,1769857200,"/b ""x""",0.5\n\n'
    found, tally = read(write(text.replace(",", comma), name), users=True)
    assert found == [Access("/a", MOMENT, "ann", 3.0), Access('/b "x"', MOMENT, "bob", 0.5)]
    assert tally.accesses == 3.5
    assert (tally.lines, tally.malformed) == (4, 0)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv"])
def test_a_header_that_cannot_be_read(name, write):
    with pytest.raises(InvalidInput, match="names of its columns, has a carriage return"):
        read(write("us\rer,key,time\na,b,1\n", name))
    with pytest.raises(InvalidInput, match="its first line"):
        read(write("k" * 200_000 + ",time\nb,1\n", name))


HEADERS = st.text(st.sampled_from('key,time\t"\r\0\ufeff \x85\u2028é'), max_size=20)


@given(header=HEADERS, rest=st.text(max_size=20))
def test_any_beginning_is_read_or_told(header, rest, write):
    for name in ("x.csv", "x.tsv", "x.log", "x.jsonl"):
        with suppress(InvalidInput):
            read(write(f"{header}\n{rest}", name))


def test_rows_that_cannot_be_read(write):
    rows = ["/a,1", "/a", "/a,1,2", "/a,soon", ",1", '"/a,1', "/b,2", "/c,", "/d,nan", "/e,1e30"]
    found, tally = read(write("key,time\n" + "\n".join(rows)))
    assert [one.key for one in found] == ["/a", "/b"]
    assert tally.malformed == 8
    assert tally.examples == [
        (3, "1 field in place of 2"),
        (4, "3 fields in place of 2"),
        (5, "'soon' is no time"),
        (6, "no key"),
        (7, "unexpected end of data"),
    ]


CELLS = st.sampled_from(
    ["/a", "/b?x=1", "", "5", "1769857200", "2026-01-31T11:00:00Z", "GET", "POST", "404", "x"]
)


@given(
    table=st.lists(st.lists(CELLS, min_size=5, max_size=5), min_size=1, max_size=6),
    odd=st.lists(st.sampled_from(["", "a,b", '"/q",5,GET,200,2', " ", "a,1,GET,200,1,1"]), max_size=2),
    end=st.sampled_from(["", "\n", "\r\n"]),
)
def test_columns_are_read_as_records_are(table, odd, end, write, monkeypatch):
    lines = ["key,time,method,status,count", *map(",".join, table), *odd]
    names = ("key", "time", "method", "status", "count")
    objects = "\n".join(json.dumps(dict(zip(names, row, strict=True))) for row in table)
    chosen = Requests(queries=False, prefix="p:")
    logs = write(end.join(lines) if end else "\n".join(lines), "x.csv"), write(objects + end, "x.jsonl")
    quick = [read(log, requests=chosen) for log in logs]
    with monkeypatch.context() as patch:
        for name in ("quick_rows", "quick_json"):
            patch.setattr(access_logs, name, lambda *_, **__: None)
        assert [read(log, requests=chosen) for log in logs] == quick


def test_fields_may_have_other_names(write):
    path = write("page,seen,n\n/a,5,2\n/b,6,x\n", "views.csv")
    found, tally = read(path, fields={"key": "page", "time": "seen", "count": "n"})
    assert found == [Access("/a", 5.0, "", 2.0)]
    assert tally.examples == [(3, "'x' is no count")]
    with pytest.raises(
        InvalidInput, match=r"there is no time among 'page', 'seen', 'n'; .* --field time=NAME"
    ):
        read(path)
    with pytest.raises(InvalidInput, match="there is no field 'url' among 'page', 'seen', 'n'"):
        read(path, fields={"key": "url"})
    with pytest.raises(InvalidInput, match="there is no user among"):
        read(path, fields={"time": "seen"}, users=True)


def test_numbers_of_other_units_of_time():
    seconds = datetime(2026, 1, 31, 11, tzinfo=UTC).timestamp()
    assert {instant(seconds * unit) for unit in (1, 1e3, 1e6, 1e9)} == {seconds}
    assert instant("1769857200.5") == seconds + 0.5
    assert [instant(x) for x in (None, "", "soon", "nan", True, 1e30, [])] == [None] * 7


# --- files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_logs_are_seen_by_their_content(pack, write):
    assert len(read(write(pack((LINE * 50).encode()), "log"))[0]) == 50


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress((LINE * 5).encode()))))
    log = AccessLog("-")
    assert log.length is None
    assert sum(len(part.times) for part in log.read()) == 5
    assert not sys.stdin.closed


@pytest.mark.parametrize("block", [7, 64, 200, 1 << 16])
def test_lines_across_blocks(block, write, monkeypatch):
    monkeypatch.setattr(access_logs, "BLOCK_BYTES", block)
    lines = [LINE.replace("id=7", f"id={i % 17}") for i in range(200)]
    lines[150] = "bad\n"
    found, tally = read(write("".join(lines)))
    assert [one.key for one in found] == [f"/page?id={i % 17}" for i in range(200) if i != 150]
    assert (tally.lines, tally.examples) == (200, [(151, "no time in brackets")])
    rows = ["key,time", *(f"/a,{i}" for i in range(100)), "bad", "/b,5"]
    found, tally = read(write("\n".join(rows)), kind="csv")
    assert [one.time for one in found] == [*range(100), 5]
    assert (tally.lines, tally.examples) == (103, [(102, "1 field in place of 2")])


def test_endless_lines_do_not_fill_the_memory(write, monkeypatch):
    monkeypatch.setattr(access_logs, "MOST_LINE_BYTES", 1000)
    monkeypatch.setattr(access_logs, "BLOCK_BYTES", 500)
    found, tally = read(write(LINE + "x" * 10_000 + "\n" + LINE))
    assert len(found) == 2
    assert tally.malformed >= 1


@pytest.mark.parametrize("length", [10, 5_000_000])
def test_a_log_is_known_by_its_first_line_however_long(length, write):
    key = "/" + "x" * length
    assert [one.key for one in read(write(LINE.replace("/page?id=7", key) + LINE))[0]] == [key, "/page?id=7"]
    objects = [json.dumps({"key": one, "time": MOMENT}) for one in (key, "/a")]
    assert [one.key for one in read(write("\n".join(objects)))[0]] == [key, "/a"]


@pytest.mark.parametrize("users", [False, True])
@pytest.mark.parametrize("kind", ["combined", "csv"])
def test_accesses_that_are_too_late_are_left_out(kind, users, write):
    late = LINE.replace("2026", "2027").replace("id=7", "id=8")
    text = LINE + late + LINE
    if kind == "csv":
        text = f"user,key,time,count\nann,/a,{MOMENT},2\nbob,/b,{MOMENT + 9},3\nann,/c,{MOMENT},1\n"
    all_, counted = read(write(text), kind=kind, users=users)
    found, tally = read(write(text), kind=kind, users=users, until=MOMENT + 1)
    assert found == [all_[0], all_[2]]
    assert (counted.late, tally.late.accesses, tally.late.key) == (None, 1, all_[1].key)
    assert tally.accesses == counted.accesses - all_[1].times


@given(
    blocks=st.lists(st.lists(st.integers(0, 2000), max_size=30), min_size=1, max_size=5),
    gap=st.integers(1, 200),
)
def test_accesses_after_a_long_gap(blocks, gap):
    runs = AccessRuns(float(gap))
    for times in blocks:
        runs.add("log", [str(time) for time in times], np.array(times, float))
    times = sorted(time for block in blocks for time in block)
    cuts = [place for place in range(1, len(times)) if times[place] - times[place - 1] > gap]
    expected = next((place for place in cuts if 2 * place > len(times)), None)
    if len(cuts) < 64:
        found = runs.apart()
        assert (None if found is None else len(times) - found.accesses) == expected
        assert found is None or (found.key, found.start) == (str(times[-1]), times[expected])


def test_the_last_gaps_are_seen_among_many():
    runs = AccessRuns(5.0)
    for start in (0, 500):
        runs.add("log", ["x"] * 500, 10.0 * np.arange(start, start + 500))
    runs.add("log", ["y"], np.array([1e6]))
    assert runs.apart().end == 1e6


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "access.log", "access.log: empty; a log has a line for each access"),
        (b"\n\n", "access.log", "access.log: empty"),
        (
            b"what is this\n",
            "x",
            "neither in combined log format, nor JSON lines, nor CSV; it begins 'what is this'",
        ),
        (gzip.compress(LINE.encode() * 1000)[:200], "x.gz", "x.gz: cut short or damaged"),
        (b"\x1f\x8bnonsense", "x.gz", "x.gz: cut short or damaged"),
        (b"\x28\xb5\x2f\xfd....", "x.zst", "zstdcat FILE"),
        (b"PAR1....", "x.parquet", "Parquet is no format of logs"),
    ],
)
def test_files_that_are_no_logs(content, name, message, write):
    with pytest.raises(InvalidInput, match=message):
        read(write(content, name))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(InvalidInput, match=r"none\.log: no such file or directory"):
        read(tmp_path / "none.log")
    with pytest.raises(InvalidInput, match="no such file or directory"):
        _ = AccessLog(str(tmp_path / "none.log")).length
    with pytest.raises(InvalidInput, match="is a directory"):
        read(tmp_path)


def test_long_logs_take_no_more_memory(write):
    """A hundred thousand lines, and a profile that keeps few of the keys."""
    resource = pytest.importorskip("resource")
    lines = "".join(LINE.replace("id=7", f"id={i}") for i in range(1000))
    path = write(gzip.compress((lines * 100).encode(), 1), "long.log.gz")
    profile = Profile(most=100)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for part in AccessLog(str(path)).read():
        profile.count(part.keys, part.times, places=part.places)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert profile.total == 100_000
    assert grown < 80_000  # kilobytes


# --- weights of users ---------------------------------------------------------------------------------------


def test_weights_of_users(write):
    assert read_user_weights(str(write("user,weight\nann,3\nbob,0\n", "u.csv"))) == (
        {"ann": 3.0, "bob": 0.0},
        1.0,
    )
    assert read_user_weights(str(write("weight\tuser\n2\tann\n0.5\t*\n", "u.tsv"))) == ({"ann": 2.0}, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user\nann\n", "there is no column 'weight'"),
        ("user,weight\nann,-1\n", "line 2, column 'weight': must be finite and >= 0; it is '-1'"),
        ("user,weight\nann,much\n", "line 2, column 'weight': must be a number; it is 'much'"),
        ("user,weight\nann,1\nann,2\n", "line 3, column 'user': must be a user who is not in a line above"),
        ("user,weight\n", "it has a header line, but no users below it"),
    ],
)
def test_weights_of_users_that_cannot_be(text, message, write):
    with pytest.raises(InvalidInput, match=message):
        read_user_weights(str(write(text, "users.csv")))


def test_roles_of_fields_are_known():
    assert set(FIELDS) >= {"key", "time", "user", "count"}
