"""Commands are run in an empty directory that has the same elements in several files."""

import json

import pytest

from unstale.cli import main

from .elements import ROWS, write_csv


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty directory to work in, with the same elements in several files."""
    monkeypatch.chdir(tmp_path)
    write_csv("pages.csv", "key,rate,weight,group", [(k, r, w, g) for k, r, w, _, g in ROWS])
    write_csv("files.csv", "key,rate,weight,size,group", ROWS)
    write_csv("odd.csv", "url,changes,importance,host", [(k, 7 * r, w, g) for k, r, w, _, g in ROWS])
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    names, columns = ("key", "rate", "weight", "size", "group"), list(zip(*ROWS, strict=True))
    pq.write_table(pa.table(dict(zip(names, map(list, columns), strict=True))), "files.parquet")
    pq.write_table(pa.table({"key": columns[0], "rate": columns[1], "weight": columns[2]}), "pages.parquet")
    return tmp_path


@pytest.fixture
def run(capsys):
    """Run a command and return what it prints."""

    def run(*arguments, code=0):
        capsys.readouterr()
        got = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        err = err.replace("compiling the kernels (once, some seconds) ...\n", "")
        assert got == code, err
        return out, err

    return run


@pytest.fixture
def ask(run):
    """Run a command with --json and return the answer."""

    def ask(*arguments):
        out, err = run(*arguments, "--json")
        assert err == ""
        return json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))

    return ask


@pytest.fixture
def refuse(run, folder):
    """Run a command that must fail and return its one line; nothing may be written."""

    def refuse(*arguments):
        before = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
        out, err = run(*arguments, code=2)
        assert out == ""
        assert err.startswith("unstale: ")
        assert err.count("\n") == 1
        assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == before
        return err.removeprefix("unstale: ").rstrip("\n")

    return refuse
