"""``doctor``, ``import`` and ``export``."""

import json
import re
from pathlib import Path

import pytest


def digests(lines):
    return sorted(json.loads(line)["digest"] for line in lines.splitlines())


def levels(answer):
    return {check["subject"]: check["level"] for check in answer["checks"]}


@pytest.mark.usefixtures("polled")
def test_all_is_well(ask, run):
    answer = ask("doctor")
    assert answer["errors"] == 0
    assert set(levels(answer).values()) <= {"ok", "warn"}
    assert levels(answer)["source http"] == "ok"
    out, _ = run("doctor", "--sample", 0)
    assert out.startswith("ok     configuration  mirror.toml: 0 rules, 1 limit of groups, 0 databases\n")
    assert "source" not in out


@pytest.mark.usefixtures("polled")
def test_damaged_copies_are_found_by_a_deep_look(ask, run):
    out, _ = run("doctor", "--sample", 0, "--deep")
    assert "read, none damaged" in out
    path = min(Path("copies").glob("??/*"))
    path.write_bytes(b"x" + path.read_bytes()[1:])
    assert ask("doctor", "--sample", 0)["errors"] == 0
    answer = ask("doctor", "--sample", 0, "--deep", code=1)
    (found,) = [check for check in answer["checks"] if check["level"] == "error"]
    assert found["subject"] == "copies"
    assert "damaged: http://" in found["found"]
    assert "the next poll of each fetches it again" in found["todo"]


def test_mistakes_in_the_file_are_found(ask, run, mirror):
    mirror.write_text('[mirror]\nbudgets = "1/h"\n')
    answer = ask("doctor", code=1)
    assert answer["checks"] == [
        {
            "level": "error",
            "subject": "configuration",
            "found": "mirror.toml, line 2: [mirror] has no key 'budgets'; did you mean 'budget'?",
            "todo": "",
        }
    ]
    assert "1 error, 0 warnings." in run("doctor", code=1)[0]


@pytest.mark.usefixtures("polled")
def test_secrets_that_are_written_out_and_files_that_others_can_read(ask, run, mirror, site, monkeypatch):
    assert "rights" not in levels(ask("doctor", "--sample", 0))
    monkeypatch.setenv("TOKEN", "x")
    text = mirror.read_text()
    headers = '{ Authorization = "Bearer s3cret", Cookie = "${TOKEN}", Accept-Language = "de" }'
    mirror.write_text(
        f'{text}\n[[rule]]\nmatch = "*"\nheaders = {headers}\n[http]\nheaders = {{ X-All = "s3cret" }}\n'
    )
    run("add", f"{site.host}/own", "--option", 'headers={"X-Api": "s3cret"}')
    Path("mirror.db").chmod(0o644)
    Path("copies").chmod(0o750)
    out, _ = run("doctor", "--sample", 0, "--json")
    assert "s3cret" not in out
    told = [
        f"{check['found']}; {check['todo']}"
        for check in json.loads(out)["checks"]
        if check["subject"] in {"rights", "secrets"}
    ]
    line = text.count("\n") + 2
    assert [one.partition(";")[0] for one in told] == [
        f"[[rule]] in line {line} has the value of the header Authorization written out",
        "[http] headers: X-All goes to every host, also to those that feeds and sitemaps name",
        "mirror.db: others can read it (its mode is 0644)",
        f"{Path('copies').absolute()}: others can read it (its mode is 0750)",
        f"1 element with a header that may be a secret, such as {site.host}/own",
    ]
    assert "chmod go-rwx mirror.db" in told[2]
    mirror.write_text(text.replace("[mirror]", '[mirror]\nshared = "group"'))
    found = [
        check["found"] for check in ask("doctor", "--sample", 0)["checks"] if check["subject"] == "rights"
    ]
    assert found == ["mirror.db: others can read it (its mode is 0644)"]


def test_everything_that_is_wrong_is_told(ask, run, mirror, site):
    mirror.write_text("""
[mirror]
budget = "10/day"
[[group]]
match = "127.0.0.1"
[[rule]]
match = "https://nowhere.example/*"
[[rule]]
match = "*"
max_age = "1min"
[http]
verify = false
[databases.x]
url = "nosuchdialect://me:s3cret@h/db"
[[notify]]
command = ["no-such-command-anywhere"]
[hints]
file = "no/such/folder/hints.txt"
""")
    run("add", site.host + "/a")
    answer = ask("doctor", code=1)
    found = levels(answer)
    for subject in ("budget", "notify", "hints", "databases"):
        assert found[subject] == "error"
    for subject in ("contact", "certificates", "groups", "rules", "runner"):
        assert found[subject] == "warn"
    text = " ".join(f"{check['found']}; {check['todo']}" for check in answer["checks"])
    assert "s3cret" not in text
    assert "max_age of 1 element needs 1,440 polls/day, but there are 10 polls/day" in text
    assert "[[group]] in line 4 matches no group: '127.0.0.1'; groups are called like 'http:127.0.0.1" in text
    assert "[[rule]] in line 6 matches no element" in text


def test_a_site_that_loses_its_pages_is_told(ask, run, polled):
    for name in ("d", "e", "f"):
        run("add", polled.put(f"/{name}", name))
    run("run", "--for", "2s")
    assert "gone" not in levels(ask("doctor", "--sample", 0))
    keys = [polled.host + path for path in polled.pages]
    for path in list(polled.pages)[:5]:
        del polled.pages[path]
    for _ in range(20):
        run("hint", *keys)
        run("run", "--for", "1s")
        if ask("status")["elements"].get("gone") == 5:
            break
    told = [check for check in ask("doctor", "--sample", 0)["checks"] if check["subject"] == "gone"]
    assert [check["level"] for check in told] == ["warn", "warn"]
    assert told[0]["found"].startswith("5 of 6 elements are gone")
    assert "has lost 5 of its 6 elements within about a day" in told[1]["found"]
    got = ask("status")
    assert got["freshness"]["value"] > 0.5
    assert "No copy is deleted" in got["trouble"][0]
    out, _ = run("status")
    assert re.search(r"^gone +5 elements, not counted as stale", out, re.MULTILINE)


@pytest.mark.usefixtures("mirror")
def test_sources_that_do_not_answer(ask, run):
    run("add", "http://127.0.0.1:9/")
    check = next(one for one in ask("doctor")["checks"] if one["subject"] == "source http")
    assert check["level"] == "warn"
    assert "127.0.0.1:9" in check["found"]


@pytest.mark.usefixtures("run", "polled")
def test_a_broken_store_is_told(ask, folder):
    copy = next(path for path in (folder / "copies").rglob("*.*") if path.suffix in {".zst", ".raw"})
    copy.unlink()
    answer = ask("doctor", "--sample", 0, code=1)
    assert levels(answer)["store"] == "error"
    (folder / "mirror.db").write_bytes(b"this is no database, and never was one" * 100)
    for extra in (".db-wal", ".db-shm"):
        (folder / f"mirror{extra}").unlink(missing_ok=True)
    assert levels(ask("doctor", code=1))["store"] == "error"


def test_copies_that_were_moved(ask, refuse, polled, folder):
    (folder / "copies").rename(folder / "elsewhere")
    assert "if that was moved, say where it is: copies = ..." in refuse("show", polled.host + "/a")
    found = [one for one in ask("doctor", code=1)["checks"] if one["subject"] == "store"]
    assert sorted(one["found"].partition(": its copy")[0] for one in found) == [
        polled.host + path for path in ("/a", "/b", "/c")
    ]
    assert all(one["todo"].startswith("if copies were moved, set copies in mirror.toml") for one in found)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_there_and_back(run, ask, run_until_seen, polled, suffix):
    polled.put("/b", "<p>b: two</p>\n")
    run("hint", polled.host + "/b")
    run_until_seen(4)
    elements, history, copies = (f"elements.{suffix}", f"history.{suffix}", "copies.warc.gz")
    answer = ask("export", "--elements", elements, "--history", history, "--copies", copies)
    assert answer["files"][elements] == 3
    assert answer["files"][copies] == 4
    before = run("changes")[0]
    text = Path("mirror.toml").read_text()
    Path("other").mkdir()
    Path("other/mirror.toml").write_text(text)
    imported = ask("import", copies, history, elements, "--allow", "private", "--mirror", "other")["imported"]
    assert [one["kind"] for one in imported] == ["elements", "history", "copies"]
    assert [one["count"] for one in imported] == [3, answer["files"][history], 4]
    again = run("changes", "--mirror", "other")[0]
    assert digests(again) == digests(before)
    assert run("show", polled.host + "/b", "--mirror", "other")[0] == "<p>b: two</p>\n"


def test_what_was_removed_does_not_spoil_an_export(run, ask, polled):
    run("remove", polled.host + "/a")
    files = ("elements.csv", "history.csv", "copies.warc.gz")
    answer = ask("export", "--elements", files[0], "--history", files[1], "--copies", files[2])
    assert [answer["files"][name] for name in files] == [2, 2, 2]
    Path("other").mkdir()
    Path("other/mirror.toml").write_text(Path("mirror.toml").read_text())
    imported = ask("import", *files, "--allow", "private", "--mirror", "other")["imported"]
    assert [one["count"] for one in imported] == [2, 2, 2]


@pytest.mark.usefixtures("mirror")
def test_mistakes(refuse, folder):
    assert "nothing to export" in refuse("export")
    assert "--latest needs --copies" in refuse("export", "--latest", "--elements", "x.csv")
    assert "--elements must end in .csv" in refuse("export", "--elements", "x.txt")
    assert "--copies must end in .warc or .warc.gz" in refuse("export", "--copies", "x.zip")
    assert "none.csv: cannot be read: No such file or directory" in refuse("import", "none.csv")
    assert "none.warc: no such file" in refuse("import", "none.warc")
    (folder / "bad.parquet").write_text("x")
    assert "bad.parquet: cannot be read" in refuse("import", "bad.parquet")
    (folder / "bad.csv").write_text("name\nx\n")
    assert "key" in refuse("import", "bad.csv")


def test_users_of_databases_who_may_write_are_told(ask, mirror, postgres_server):
    import psycopg

    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS only_reader")
        connection.execute("CREATE ROLE only_reader LOGIN")
        connection.execute("DROP TABLE IF EXISTS rights; CREATE TABLE rights (a int)")
        reader = postgres_server.replace("://postgres:", "://only_reader:")
        assert reader != postgres_server

        def told():
            text = f'[databases.own]\nurl = "{postgres_server}"\n[databases.theirs]\nurl = "{reader}"\n'
            mirror.write_text(f"[mirror]\n{text}")
            checks = ask("doctor")["checks"]
            return {one["subject"]: (one["level"], one["found"]) for one in checks}

        found = told()
        assert found["database own"] == ("warn", "its user is a superuser")
        assert found["database theirs"] == ("ok", "its user may only read")
        connection.execute("GRANT DELETE ON rights TO only_reader")
        assert told()["database theirs"] == ("warn", "its user may write to the table rights")
        connection.execute("DROP TABLE rights; DROP ROLE only_reader")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('max_rate = "1/day"', "is less than the budget"),
        ('reserve = "10 weeks"', "so much may be spent in one day"),
        ('reserve = "1s"', "pays for less than one poll"),
        ('reserve = "6h"', ""),
        ("", ""),
    ],
)
def test_a_reserve_that_makes_no_sense_is_told(ask, mirror, said, told):
    mirror.write_text(f'[mirror]\nbudget = "1000/day"\n{said}\n')
    found = [one for one in ask("doctor", "--sample", 0)["checks"] if one["subject"] == "reserve"]
    assert [one["level"] for one in found] == ["warn"] * bool(told)
    assert all(told in one["found"] and one["todo"] for one in found)
