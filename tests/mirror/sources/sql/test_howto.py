"""The how-to page about tables: what it shows runs."""

import doctest
import re
import sqlite3
import tomllib
from contextlib import closing
from pathlib import Path

import pytest

from unstale.cli import main
from unstale.mirror.config.file import load
from unstale.mirror.sources.sql.keys import options_of

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "mirror-tables.md"
BLOCK_BYTES = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHOP_PASSWORD", "s3cret")
    return BLOCK_BYTES.findall(PAGE.read_text())


def test_the_examples_in_python_run(blocks):
    assert blocks
    failed, tried = doctest.testfile(
        str(PAGE), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert (failed, tried > 10) == (0, True)


def test_the_configuration_and_the_commands_work(blocks, capsys):
    said = "\n".join(text for kind, text in blocks if kind == "toml").replace("/srv/", f"{Path.cwd()}/")
    Path("mirror.toml").write_text(said)
    with closing(sqlite3.connect("local.db")) as connection:
        connection.execute("CREATE TABLE orders (a)")
    config = load(Path("mirror.toml"))
    assert config.settings.databases["shop"].probe_interval == 10.0
    assert options_of(config.settings.rules[0].options).tables == ((None, "orders"),)
    assert config.settings.limit("sql:shop").concurrency == 2
    assert tomllib.loads(said)["rule"]
    for command in [line for kind, text in blocks if kind == "sh" for line in text.splitlines()]:
        program, *arguments = command.split()
        assert program == "unstale"
        main(arguments)
    assert "Error" not in capsys.readouterr().err
