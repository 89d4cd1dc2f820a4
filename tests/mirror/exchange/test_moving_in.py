"""Moving in from other tools. changedetection.io 0.60 made its data; its host was renamed."""

import http.server
import json
import shutil
import threading
from math import inf
from pathlib import Path

import pytest

from unstale import InvalidInput, Mirror, Trouble
from unstale.cli.program import main
from unstale.lab.histories import load
from unstale.mirror.exchange.foreign import bring, cdx, read_foreign, write_changes
from unstale.mirror.exchange.foreign.changedetection import read_changedetection_api
from unstale.mirror.settings import Settings

DATA = Path(__file__).parent / "changedetection"
WATCH = "77e3527c-0934-4867-add9-bc5278976878"
OTHER = "1af78a6a-dfe6-40b0-a2eb-00030f22ec79"
PAGE = "https://news.example.org/a"
FIRST, SECOND, CHECKED = 1795036491.0, 1795036500.0, 1795036505.0
NUTCH = """https://example.org/\tVersion: 7
Status: 2 (db_fetched)
Fetch time: Sat Jan 31 00:00:00 UTC 2026
Modified time: Thu Jan 01 00:00:00 UTC 1970
Retries since fetch: 0
Retry interval: 2592000 seconds (30 days)
Score: 1.0
Signature: b5a1
Metadata:

https://example.org/lost\tVersion: 7
Status: 3 (db_gone)
Fetch time: Sat Jan 31 00:00:00 UTC 2026
Retry interval: 3888000 seconds (45 days)
"""
NUTCH_CSV = """Url,Status code,Status name,Fetch Time,Retries since fetch,Retry interval seconds,Score
"https://example.org/",2,"db_fetched",Sat Jan 31 00:00:00 UTC 2026,0,2592000.0,1.0
"""
WHEN = '"metadata": {"lastProcessedDate": ["2026-01-01T00:00:00Z"]}'
STORM = f"""{{"_source": {{"url": "https://example.org/", "status": "FETCHED", {WHEN}}}}}
{{"url": "https://example.org/new", "status": "DISCOVERED"}}
"""
CDX = """ CDX N b a m s k r M S V g
org,example)/ 20260101000000 https://example.org/ text/html 200 AAA - - 10 0 a.warc.gz
org,example)/ 20260102000000 https://example.org/ text/html 200 AAA - - 10 0 a.warc.gz
org,example)/ 20260103000000 https://example.org/ text/html 200 BBB - - 10 0 a.warc.gz
org,example)/ 20260104000000 https://example.org/ text/html 404 CCC - - 10 0 a.warc.gz
"""
CDXJ = 'org,example)/ 20260101000000 {"url": "https://example.org/", "status": "200", "digest": "sha1:AAA"}\n'
JOBS = """name: News
url: https://example.org/news
filter:
  - css: main
  - html2text
---
command: rm -rf /
---
url: https://example.org/api
data: x
"""


OPML = """<?xml version="1.0"?><opml version="2.0" xmlns:frss="https://freshrss.org/opml"><body>
<outline text="News of the day">
  <outline text="A" type="rss" xmlUrl="https://a.example/feed" frss:ttl="7200"/>
  <outline text="B" type="rss" xmlUrl="https://b.example/feed" frss:ttl="-3600"/>
</outline>
<outline text="C" type="rss" xmlUrl="https://c.example/feed"/>
<outline text="page" type="HTML+XPath" xmlUrl="https://d.example/p" frss:xPathItem="//x"/>
</body></opml>
"""


@pytest.fixture
def mirror(tmp_path):
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        yield mirror


@pytest.fixture
def data(tmp_path):
    return Path(shutil.copytree(DATA, tmp_path / "data"))


def outcomes(mirror):
    return [(poll.outcome, poll.time) for poll in reversed(mirror.polls())]


def test_watches_filters_and_history_come_from_changedetection(mirror):
    found = read_foreign(DATA, "changedetection")
    done = bring(mirror, found)
    page, other = sorted(mirror.elements(), key=lambda one: one.key)
    assert (page.key, page.tags, page.state) == (PAGE, ("news",), "new")
    assert (other.key, other.tags, other.state) == ("https://news.example.org/b", (), "paused")
    assert page.options == {
        "change": "text",
        "selector": "#main",
        "ignore": ["ad \\d+", "[^\\n]*advert[^\\n]*"],
    }
    assert outcomes(mirror) == [("new", FIRST), ("changed", SECOND), ("unchanged", CHECKED)]
    assert (done.added, done.polls) == (2, 3)
    mirror.resume([other.key])
    again = bring(mirror, found)
    assert (again.added, again.known, again.polls) == (0, 2, 0)
    assert mirror.find(other.key).state == "new"  # what is there stays as it is
    with mirror._working(lambda _: None) as worker:
        assert worker is not None  # the planner has read them


def test_a_watch_that_was_looked_at_in_between_says_so(data, mirror):
    (data / WATCH / "history.txt").write_text("1700000000,a.txt\n1700200000,b.txt\n")
    bring(mirror, read_foreign(data / "changedetection.json", "changedetection"), keep_intervals=True)
    six_hours = 21600.0
    assert outcomes(mirror) == [
        ("new", 1.7e9), ("unchanged", 1.7002e9 - six_hours), ("changed", 1.7002e9), ("unchanged", CHECKED)
    ]  # fmt: skip
    assert mirror.find(PAGE).max_age == six_hours


def test_feeds_come_with_folders_intervals_and_what_is_muted(tmp_path, mirror):
    """As FreshRSS writes it: intervals in seconds, below 0 where a feed is muted."""
    file = tmp_path / "feeds.opml"
    file.write_text(OPML)
    found = read_foreign(file, "opml")
    done = bring(mirror, found, keep_intervals=True)
    got = {one.key: (one.source, one.max_age, one.tags, one.state) for one in mirror.elements()}
    assert got == {
        "https://a.example/feed": ("feed", 7200.0, ("News-of-the-day",), "new"),
        "https://b.example/feed": ("feed", 3600.0, ("News-of-the-day",), "paused"),
        "https://c.example/feed": ("feed", inf, (), "new"),
    }
    assert (done.added, done.polls_per_day) == (3, 12.0)
    ((page, why),) = done.left_out
    assert (page, "made from a page by the feed reader" in why) == ("https://d.example/p", True)
    for text, told in ((OPML[:200], "feeds.opml: "), ("<rss/>", "it is not OPML")):
        file.write_text(text)
        with pytest.raises(InvalidInput, match=told):
            read_foreign(file, "opml")


def test_the_file_of_earlier_releases(data, mirror):
    said = json.loads((data / "changedetection.json").read_text())
    said["settings"]["application"]["schema_version"] = 16
    said["watching"] = {WATCH: json.loads((data / WATCH / "watch.json").read_text())}
    (data / "url-watches.json").write_text(json.dumps(said))
    (data / "changedetection.json").unlink()
    bring(mirror, read_foreign(data, "changedetection"))
    assert [outcome for outcome, _ in outcomes(mirror)] == ["new", "changed", "unchanged"]


def test_the_api_gives_the_same_as_the_folder(data):
    """The answers are those that changedetection.io gave for these data."""
    watch = json.loads((data / WATCH / "watch.json").read_text())
    answers = {
        "/api/v1/watch": {WATCH: {"url": PAGE}, OTHER: {}},
        f"/api/v1/watch/{WATCH}": watch,
        f"/api/v1/watch/{OTHER}": json.loads((data / OTHER / "watch.json").read_text()),
        f"/api/v1/watch/{OTHER}/history": {},
        "/api/v1/tags": {watch["tags"][0]: {"title": "news"}},
        f"/api/v1/watch/{WATCH}/history": {f"{moment:.0f}": "/x.txt" for moment in (FIRST, SECOND)},
    }

    class Api(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            right = self.headers["x-api-key"] == "the-key"
            body = json.dumps(answers[self.path] if right else {}).encode()
            self.send_response(200 if right else 403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        found = read_changedetection_api(address, "the-key")
        with pytest.raises(InvalidInput, match="403; is the key right"):
            read_changedetection_api(address, "another")
        server.shutdown()
    folder = read_foreign(data, "changedetection")
    assert (found.elements, found.polls) == (folder.elements, folder.polls)
    with pytest.raises(Trouble, match="cannot be asked"):
        read_changedetection_api(address, "the-key")


@pytest.mark.parametrize(
    ("kind", "text", "keys", "seen"),
    [
        ("nutch", NUTCH, ["", "lost"], ["gone", "new"]),
        ("nutch", NUTCH_CSV, [""], ["new"]),
        ("stormcrawler", STORM, ["", "new"], ["new"]),
        ("cdx", CDX, [""], ["new", "unchanged", "changed", "gone"]),
        ("cdx", CDXJ, [""], ["new"]),
        ("urlwatch", JOBS, ["news"], []),
    ],
)
def test_files_of_other_tools(tmp_path, kind, text, keys, seen):
    (tmp_path / "file").write_text(text)
    with Mirror(tmp_path / "mirror.db", settings=Settings(budget=1.0)) as mirror:
        bring(mirror, read_foreign(tmp_path / "file", kind))
        assert sorted(one.key for one in mirror.elements()) == [f"https://example.org/{key}" for key in keys]
        assert [outcome for outcome, _ in outcomes(mirror)] == seen


def test_jobs_of_urlwatch_keep_their_filters(tmp_path):
    (tmp_path / "urls.yaml").write_text(JOBS)
    found = read_foreign(tmp_path / "urls.yaml", "urlwatch")
    assert found.elements["https://example.org/news"].options == {"selector": "main", "change": "text"}
    assert [why for _, why in found.left_out] == [
        "it runs a command", "it sends something, and the mirror only reads"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("nutch", NUTCH[:-60], "record 2 .* has no fetch time|no address or no status"),
        ("nutch", "hello", "is no dump of Nutch"),
        ("stormcrawler", STORM[:-20], "line 2: is no document"),
        ("cdx", CDX[:-60], "line 5: is no record"),
        ("cdx", CDXJ[:-9], "line 1: is no record"),
        ("urlwatch", "url: [", "is no YAML"),
        ("urlwatch", "a: 1", "job 1 names neither"),
        ("urlwatch", "!!python/object/apply:os.system ['true']", "is no YAML"),
    ],
)
def test_cut_and_foreign_files_are_refused_whole(tmp_path, kind, text, why):
    (tmp_path / "file").write_text(text)
    with pytest.raises(InvalidInput, match=why):
        read_foreign(tmp_path / "file", kind)


def test_a_data_folder_that_is_cut_or_of_another_version(data):
    watch, main = data / WATCH / "watch.json", data / "changedetection.json"
    for file in (watch, main):
        text = file.read_text()
        file.write_text(text[: len(text) // 2])
        with pytest.raises(InvalidInput, match="is no JSON, or was cut"):
            read_foreign(data, "changedetection")
        file.write_text(text)
    (data / WATCH / "history.txt").write_text("yesterday,a.txt\n")
    with pytest.raises(InvalidInput, match=r"history\.txt, line 1: must begin with seconds"):
        read_foreign(data, "changedetection")
    said = json.loads(main.read_text())
    said["settings"]["application"]["schema_version"] = 99
    main.write_text(json.dumps(said))
    with pytest.raises(InvalidInput, match="its schema is 99"):
        read_foreign(data, "changedetection")
    main.unlink()
    with pytest.raises(InvalidInput, match="holds neither"):
        read_foreign(data, "changedetection")


def test_what_is_not_of_the_public_web_needs_to_be_allowed(tmp_path, mirror):
    (tmp_path / "a.cdx").write_text(CDX.replace("https://example.org/", "http://10.0.0.1/"))
    found = read_foreign(tmp_path / "a.cdx", "cdx")
    done = bring(mirror, found)
    assert (done.added, done.polls) == (0, 0)
    assert "private" in done.left_out[0][1]
    assert bring(mirror, found, allow=["private"]).added == 1


def test_the_commands_of_the_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(DATA, tmp_path / "datastore")
    (tmp_path / "datastore" / WATCH / "history.txt").write_text(
        "".join(f"{1.7e9 + i * 3e4 * (1 + i % 3):.0f},a.txt\n" for i in range(40))
    )
    (tmp_path / "mirror.toml").write_text('[mirror]\nbudget = "1000/day"\n')
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "moving-in.md").read_text()
    lines = [line.split()[1:] for line in page.splitlines() if line.startswith("unstale ")]
    assert main(lines[0]) == 0
    told = capsys.readouterr().out
    assert "2 new elements; " in told
    assert "4/day" in told.replace("4.0", "4")
    assert lines[1][:2] == ["lab", "shootout"]
    assert (tmp_path / lines[1][2]).read_text().startswith("element,t")


def test_changes_are_what_a_shootout_reads(tmp_path):
    (tmp_path / "a.cdx").write_text(CDX)
    found = read_foreign(tmp_path / "a.cdx", "cdx")
    assert write_changes(found, str(tmp_path / "changes.csv")) == 2
    played = load(str(tmp_path / "changes.csv"))
    assert (played.keys, played.times.tolist(), played.end) == (["https://example.org/"], [2.0], 2.0)


NINE = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
MERGED = "".join(f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 9))


@pytest.mark.parametrize("text", [
    "a0: &a0 [x]\n" + NINE + "url: http://a.example/\nname: *a11\n",
    "a0: &a0 {x: 1}\n" + MERGED + "url: http://a.example/\n",
    "url: http://a.example/\nname: &a [*a]\n",
])  # fmt: skip
def test_aliases_of_yaml_do_not_multiply(tmp_path, text):
    """Half a kilobyte became terabytes."""
    (tmp_path / "urls.yaml").write_text(text)
    with pytest.raises(InvalidInput, match=r"aliases \(\*\) repeat more than 1,000,000 values"):
        read_foreign(tmp_path / "urls.yaml", "urlwatch")


@pytest.mark.parametrize("said", [
    {"time_between_check": {"hours": 10**400}}, {"last_checked": 10**400}, {"include_filters": 5}, [],
])  # fmt: skip
def test_what_is_of_another_kind_is_told_in_one_line(tmp_path, said):
    watch = {"url": "http://a.example/", **said} if isinstance(said, dict) else said
    number = "11111111-1111-1111-1111-111111111111"
    (tmp_path / number).mkdir()
    (tmp_path / number / "history.txt").write_text("5,a\n")
    settings = {"application": {"schema_version": 1}, "requests": {}}
    (tmp_path / "url-watches.json").write_text(
        json.dumps({"settings": settings, "watching": {number: watch}})
    )
    with pytest.raises(InvalidInput, match="is not as changedetection writes it, or was cut"):
        read_foreign(tmp_path, "changedetection")


def test_polls_before_1970_or_never_are_left_out(tmp_path):
    path = tmp_path / "a.cdx"
    path.write_text(" CDX N b a m s k r M S V g\na)/ 00010101000000 http://a.example/ x 200 A - - 1 2 x\n")
    found = read_foreign(path, "cdx")
    assert (list(found.elements), found.polls) == (["http://a.example/"], [])


def test_an_index_has_so_many_records(tmp_path, monkeypatch):
    """They are sorted in memory: 16 MB in gzip were 4 GB of lines, and several times that of rows."""
    monkeypatch.setattr(cdx, "MOST_POLLS", 3)
    (tmp_path / "a.cdx").write_text(CDX)
    with pytest.raises(InvalidInput, match="more than 3 records"):
        read_foreign(tmp_path / "a.cdx", "cdx")


def test_the_key_of_an_api_does_not_follow_a_redirect():
    seen = []

    class Leading(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append((self.path, self.headers["x-api-key"]))
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Leading) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(InvalidInput, match="answered 302"):
            read_changedetection_api(f"http://127.0.0.1:{server.server_port}", "the-key")
        server.shutdown()
    assert seen == [("/api/v1/watch", "the-key")]
