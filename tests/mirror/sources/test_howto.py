"""The how-to pages about sources: what they show runs."""

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import unstale
from unstale.cli import main

HOWTO = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = ["mirror-feeds", "mirror-files", "mirror-python", "add-a-source", "python"]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def page(request, tmp_path, monkeypatch):
    """Write the files that a page shows."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = HOWTO / f"{request.param}.md"
    blocks = BLOCK.findall(path.read_text())
    for _, name, content in blocks:
        if name:
            Path(name).write_text(content)
    yield path, blocks
    sys.modules.pop("dns_source", None)


@pytest.mark.parametrize("page", PAGES, indirect=True)
def test_the_examples_in_python_run(page):
    failed, tried = doctest.testfile(
        str(page[0]), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried
    assert not failed


def test_the_page_about_python_names_every_method():
    text = (HOWTO / "python.md").read_text("utf-8")
    methods = [name for name, value in vars(unstale.Mirror).items() if callable(value) and name[0] != "_"]
    assert "astep" in methods
    assert [name for name in methods if f"`{name}(" not in text] == []


@pytest.mark.parametrize("page", [*PAGES[:2], "mirror-pages"], indirect=True)
def test_the_commands_work(page, capsys):
    commands = [line for kind, _, text in page[1] if kind == "sh" for line in text.splitlines()]
    assert len(commands) > 3
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "unstale"
        if arguments != ["run"]:  # what it polls is not there
            main(arguments)
    assert "Error" not in capsys.readouterr().err


@pytest.mark.parametrize("page", ["mirror-pages"], indirect=True)
def test_the_configuration_of_the_page_is_understood(page, monkeypatch, capsys):
    monkeypatch.setenv("TOKEN", "secret")
    blocks = [text for kind, _, text in page[1] if kind == "toml"]
    assert len(blocks) > 3
    for text in blocks:
        Path("mirror.toml").write_text(
            f'{text}\n[mirror]\nbudget = "1000/day"\n' if "[mirror]" not in text else text
        )
        main(["add", "https://example.org/"])
    assert "Error" not in capsys.readouterr().err


@pytest.mark.parametrize("page", ["add-a-source"], indirect=True)
def test_the_source_of_the_page_keeps_the_contract(page):
    assert page
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_dns_source.py"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "17 passed" in done.stdout
