"""The page on rendered pages: its commands, its options and its section of mirror.toml are as it says."""

import re
import shlex
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.cli import main
from unstale.mirror.config.file import load
from unstale.mirror.settings import Browser
from unstale.mirror.sources.browser.options import OPTIONS

pytest.importorskip("playwright.async_api", reason="playwright is not installed: pip install playwright")
PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "render-pages.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_what_it_shows_works(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    section = next(text for kind, text in BLOCKS if kind == "toml")
    Path("mirror.toml").write_text(f'[mirror]\nbudget = "1000/day"\n\n{section}')
    assert load("mirror.toml").settings.browser.logins == "logins"
    added = set()
    for kind, text in BLOCKS:
        for line in text.splitlines() if kind == "sh" else ():
            program, *arguments = shlex.split(line)
            if program == "unstale" and arguments[0] == "add":  # Chromium itself is tried beside this
                assert main(arguments) == 0, capsys.readouterr().err
                added.add(arguments[1].removeprefix("browser:"))
    with Mirror("mirror.db") as mirror:
        assert {one.key for one in mirror.elements()} == added
        assert {one.source for one in mirror.elements()} == {"browser"}
        assert mirror.find("https://example.org/account").options == {
            "login": "shop",
            "logged_in": ".account",
        }


def test_options_and_limits_are_those_that_there_are():
    told = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert {*told, "render"} == set(OPTIONS)
    limits = Browser()
    assert f"{limits.seconds:g} seconds and {limits.bytes / 1e6:g} MB" in PAGE
    assert f"{limits.memory / 1e9:g} GB of memory" in PAGE
    assert f"{limits.second / 1e3:g} kB for each second" in PAGE
