"""Accesses in logs become reads of a mirror, once each, and no address of a person is kept."""

import json

import pytest
from click.testing import CliRunner

from unstale.cli.program import cli

CONFIG = """[mirror]
store = "mirror.db"
importance = "reads"
[reads]
users = "{}"
"""
LINE = '{} - {} [18/Nov/2024:1{}:00:00 +0000] "GET {} HTTP/1.1" 200 5 "-" "x"\n'


def called(*arguments):
    result = CliRunner().invoke(cli, [*arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirror.toml").write_text(CONFIG.format("header:X-User"))
    called("add", "https://example.org/a", "https://example.org/b")
    return tmp_path


def reads():
    from unstale.cli.mirror.open import open_mirror

    with open_mirror("mirror.toml") as opened, opened.mirror.store.begin() as t:
        return t.reads(0.0), t.reads_by_user(0.0)


def test_a_log_is_counted_once_and_users_are_kept_as_readers_are(folder):
    log = folder / "access.log"
    log.write_text(
        LINE.format("192.0.2.7", "billing", 0, "/a")
        + LINE.format("192.0.2.7", "-", 0, "/a")
        + LINE.format("192.0.2.7", "billing", 1, "/copies/https%3A%2F%2Fexample.org%2Fb")
        + LINE.format("192.0.2.7", "billing", 1, "/other")
    )
    command = ["profile", "access.log", "--into-mirror", "mirror.toml", "--prefix", "https://example.org"]
    assert json.loads(called(*command, "--json"))["reads"] == 2
    plain, by_user = reads()
    assert [(element, count) for element, _, count in plain] == [(1, 2)]
    assert sorted(user[0] for user, *_ in by_user) == ["#", "b"]
    assert "192.0.2.7" not in str(by_user)
    with log.open("a") as file:
        file.write(LINE.format("192.0.2.7", "billing", 2, "/b"))
    assert "1 read of 1 element counted; 4 were counted before" in called(*command)
    assert reads()[0][-1][0] == 2


def test_logs_of_a_server_in_front_of_the_mirror_need_no_prefix(folder):
    (folder / "mirror.toml").write_text(CONFIG.format("no"))
    (folder / "x.log").write_text(
        LINE.format("::1", "ann", 1, "/copies/https%3A%2F%2Fexample.org%2Fb")
        + LINE.format("::1", "-", 1, "/")
    )
    got = json.loads(called("profile", "x.log", "--into-mirror", "mirror.toml", "--json"))
    assert got == {"reads": 1, "elements": 1, "unknown": 1, "before": 0}
    plain, by_user = reads()
    assert [(element, count) for element, _, count in plain] == [(2, 1)]
    assert by_user == []  # the mirror does not tell users apart
