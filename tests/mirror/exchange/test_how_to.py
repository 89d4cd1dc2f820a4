"""The page on import and export shows what works: its commands and its Python are run, in their order."""

import re
import shlex
from pathlib import Path

from unstale.cli import main
from unstale.mirror.exchange.tables import ELEMENT_COLUMNS, HISTORY_COLUMNS

from .conftest import fill, open_mirror

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "import-and-export.md"
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_what_it_shows_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    with open_mirror("mirror.db") as mirror:
        fill(mirror)
        mirror.add("https://example.org/")
    ran = 0
    for language, name, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if name:
            Path(name).write_text(text)
        elif language == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line)
                assert program == "unstale"
                assert main(arguments) == 0, capsys.readouterr().err
                ran += 1
        elif language == "python":
            exec(compile(text, str(PAGE), "exec"), {})  # noqa: S102
            ran += 1
    assert ran == 9
    assert Path("copies.warc.gz").exists()
    assert Path("elements.parquet").exists()


def test_it_names_all_columns():
    tables = PAGE.read_text("utf-8")
    named = set(re.findall(r"`(\w+)`", tables))
    assert named >= {column.role for column in (*ELEMENT_COLUMNS, *HISTORY_COLUMNS)}
