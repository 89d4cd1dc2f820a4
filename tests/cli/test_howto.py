"""The how-to pages show what really happens: their commands are run, and their output is compared.

``python tests/cli/test_howto.py`` writes the real output into the pages.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

from unstale.cli import main

HOWTO = Path(__file__).parents[2] / "docs" / "how-to"
NAMES = (
    "add-an-experiment", "estimate", "hints", "lab", "library", "plan", "profile", "schedule", "simulate"
)  # fmt: skip
MIRROR = (
    "add-a-source", "agents", "be-told-of-changes", "bring-your-own-fetcher", "copies-in-a-bucket",
    "import-and-export", "index-for-retrieval", "mirror-feeds", "mirror-files", "mirror-pages",
    "mirror-python", "mirror-tables", "moving-in", "nightly-tables", "pipelines", "push-hints", "python",
    "read-the-dashboard", "render-pages", "run-a-fleet", "run-as-a-service", "scrapy", "serve",
    "urlfrontier",
)  # fmt: skip
PAGES = [HOWTO / f"{name}.md" for name in NAMES]
BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)")
NOTICE = "compiling the kernels (once, some seconds) ...\n"


def prepare(text):
    """Write the files that the page shows, and those that it takes for granted."""
    for language, name, content in BLOCK.findall(text):
        if language in {"csv", "python", "text"} and name:
            Path(name).write_text(content)
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if "pages.parquet" in text:
        parquet.write_table(pytest.importorskip("pyarrow.csv").read_csv("pages.csv"), "pages.parquet")
    if "log.parquet" in text:
        parquet.write_table(arrow.table(polls_of_pages()), "log.parquet")


def polls_of_pages():
    """Two months of polls of 300 pages on three hosts, one of which changes in bursts."""
    rng = np.random.default_rng(7)
    keys, times, changed, hosts = [], [], [], []
    for i in range(300):
        host = ("docs", "news", "shop")[i % 3]
        rate = rng.gamma(1.5, 0.2)
        gaps = rng.weibull(0.45, 2000) / 2.48 if host == "news" else rng.exponential(size=2000)
        changes = np.cumsum(gaps) / rate - 100.0
        polls = np.cumsum(rng.exponential(1.0, 200))
        polls = polls[polls < 60.0]
        keys += [f"https://{host}.example/{i}"] * polls.size
        hosts += [f"{host}.example"] * polls.size
        times += (86400.0 * polls).round().tolist()
        changed += (np.diff(np.searchsorted(changes, polls), prepend=0) > 0).tolist()
    return {"key": keys, "time": times, "changed": changed, "host": hosts}


def run(command):
    """Return what a command prints."""
    program, *arguments = shlex.split(command)
    if program == "cat":
        return Path(arguments[0]).read_text()
    if program == "ls":
        return "".join(f"{file.name}\n" for file in sorted(Path(arguments[0]).iterdir()))
    if program == "head":
        _, count, file = arguments
        return "".join(Path(file).read_text().splitlines(keepends=True)[: int(count)])
    assert program == "unstale"
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        main(arguments)
    return out.getvalue().replace(NOTICE, "")


def replayed(text):
    """Return the page with real output."""

    def replay(block):
        if block[1] != "console":
            return block[0]
        commands = [line for line in block[3].splitlines() if line.startswith("$ ")]
        shown = "\n".join(f"{command}\n{run(command[2:])}" for command in commands)
        return f"```console\n{shown}```"

    return BLOCK.sub(replay, text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_pages_show_real_output(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    prepare(text)
    real = replayed(text)
    assert NUMBER.sub("0", text) == NUMBER.sub("0", real)
    shown, got = (np.array(NUMBER.findall(version), float) for version in (text, real))
    np.testing.assert_allclose(shown, got, rtol=1e-6, atol=1e-9)  # the last digits are the machine's own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_in_python_run(page):
    failed, tried = doctest.testfile(
        str(page), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert tried
    assert not failed


def test_all_pages_are_tested():
    too_long = HOWTO / "shootout.md"  # its example takes minutes, and plays what learns, to the last digit
    # Run by tests of their own, but for read-the-dashboard and run-a-fleet.
    of_the_mirror = [HOWTO / f"{name}.md" for name in MIRROR]
    assert sorted(HOWTO.glob("*.md")) == sorted([*PAGES, too_long, *of_the_mirror])


if __name__ == "__main__":
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("build")
    where.mkdir(exist_ok=True)
    os.chdir(where)
    for page in PAGES:
        text = page.read_text()
        prepare(text)
        page.write_text(replayed(text))
