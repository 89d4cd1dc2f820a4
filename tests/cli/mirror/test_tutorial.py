"""The tutorial works: its commands are run, in shorter time, and show what it shows.

``python tests/cli/mirror/test_tutorial.py FOLDER`` runs it in an empty folder and writes what was shown.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from unstale.cli import main

PAGE = Path(__file__).parents[3] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTICE = "compiling the kernels (once, some seconds) ...\n"
SHORT = "4s"


@contextlib.contextmanager
def serving(folder):
    """Serve a folder, as the tutorial does; gives the port."""
    command = [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", folder]
    with subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            yield re.search(r"port (\d+)", server.stdout.readline())[1]
        finally:
            server.kill()


def played(text, length):
    """Run all commands; yield each with what it prints."""
    with contextlib.ExitStack() as stack:
        port, wanted = "8000", 0
        for block in BLOCK.finditer(text):
            for line in block[1].splitlines():
                if not line.startswith("$ "):
                    continue
                command = line[2:].replace("127.0.0.1:8000", f"127.0.0.1:{port}")
                if command.startswith("python3 -m http.server"):
                    port = stack.enter_context(serving("site"))
                    yield line, ""
                elif command.startswith("unstale "):
                    words = shlex.split(command)[1:]
                    if "--for" in words and length:
                        words[words.index("--for") + 1] = length
                    shown = printed(words)
                    if words[0] == "run":
                        wanted += 3 if wanted == 0 else 1
                        for _ in range(4):  # on a busy machine it may take longer
                            if printed(["changes"]).count("\n") >= wanted:
                                break
                            shown += printed(words)
                    yield line, shown.replace(f"127.0.0.1:{port}", "127.0.0.1:8000")
                else:
                    subprocess.run(["/bin/sh", "-c", command], check=True)  # noqa: S603
                    yield line, ""


def printed(words):
    """Return what a command prints."""
    with contextlib.redirect_stdout(Stream()) as out, contextlib.redirect_stderr(out):
        main(words)
    return out.buffer.getvalue().decode().replace(NOTICE, "")


class Stream(io.TextIOWrapper):
    """Standard output that keeps bytes as well as text."""

    def __init__(self):
        super().__init__(io.BytesIO(), "utf-8", write_through=True)


def rewritten(text, length=None):
    """Return the page with what is really shown."""
    shown = iter(list(played(text, length)))

    def block(found):
        count = sum(line.startswith("$ ") for line in found[1].splitlines())
        written = []
        for line, printed in (next(shown) for _ in range(count)):
            if written and written[-1] and not written[-1].startswith("$ "):
                written.append("")
            written += [line, *(one.rstrip() for one in printed.splitlines())]
        return "\n".join(["```console", *written, "```"])

    return BLOCK.sub(block, text)


def shape(text):
    """Return a text without what time and chance decide."""
    text = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z| UTC)", "WHEN", text)
    text = re.sub(r"\(port \d+\)|Python/[\d.]+|SimpleHTTP/[\d.]+", "", text)
    text = re.sub(r'"(date|last-modified)": "[^"]*"', "", text)
    text = re.sub(r"\d[\d.,e+-]*( ms| (second|minute|hour|day|week|month|year)s?)", "TIME", text)
    text = re.sub(r"(?<=in the last )(second|minute|hour)\b", "TIME", text)
    text = re.sub(r"changes?/(second|minute|hour|day|week|month|year)", "RATE", text)
    text = re.sub(r"\d[\d.,e+-]*( [kM]?B)?", "0", text)
    return " ".join(text.split())


def lines(text):
    """Return what commands print, by command, as sets of shapes of lines."""
    parts = re.split(r"^\$ (.*)$", "\n".join(BLOCK.findall(text)), flags=re.MULTILINE)
    shown = {}
    for command, printed in zip(parts[1::2], parts[2::2], strict=True):
        shown.setdefault(command, set()).update(shape(line) for line in printed.splitlines() if line.strip())
    return shown


CHANCE = (
    "Ran for",
    "WHEN",
    "overdue",
    "changes",
    "memory",
    "copy",
    "next poll",
    "worth",
    "weight",
    "polls",
    "The mirror polls it when",
    "TIME",
)
"""How lines begin that depend on how many polls were made in the short time."""


def test_the_tutorial_shows_what_happens(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    shown, real = lines(text), lines(rewritten(text, SHORT))
    assert list(shown) == list(real)
    for command, expected in shown.items():
        sure = {line for line in expected if not line.startswith(CHANCE)}
        assert bool(expected) == bool(real[command]), command
        missing = sure - real[command]
        assert not missing, (command, missing, real[command])
    news = "http://127.0.0.1:8000/news.html"
    assert any("changed http://0:0/news.html" in line for line in real["unstale run --for 30s"])
    assert shape("<h1>News</h1> <p>A mirror was born.</p>") in real[f"unstale show {news}"]


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    PAGE.write_text(rewritten(PAGE.read_text("utf-8")), "utf-8")
