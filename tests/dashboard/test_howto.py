"""The commands of docs/how-to/serve.md do what it says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from unstale import Mirror
from unstale.mirror.source import Found

from .test_serve import running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "serve.md"
BLOCKS = re.findall(r"```sh\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]
OURS = "http://127.0.0.1:8321"


class Example:
    """Stands for the web."""

    def key(self, text, options):  # noqa: ARG002
        return text

    def group(self, key, options):  # noqa: ARG002
        return "http:example.org"

    async def poll(self, known, terms):  # noqa: ARG002
        return Found("changed", body=b"<h1>Example</h1>", media_type="text/html", traffic=100)

    async def close(self):
        pass


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mirror.toml").write_text('[mirror]\nbudget = "1000/day"\n')
    with Mirror(tmp_path / "mirror.db", sources={"http": Example()}) as mirror:
        mirror.add("https://example.org/")
        mirror.step()
        mirror.add("https://example.org/2")
    return tmp_path


def shell(command, address, folder):
    command = command.replace("curl", "curl -sS --fail-with-body --max-time 180", 1).replace(OURS, address)
    done = subprocess.run(  # noqa: S602  (as people type it)
        command, shell=True, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_work(folder):
    asked = [command for command in COMMANDS if command.startswith("curl") and "Authorization" not in command]
    assert len(asked) > 10
    with running(folder, "--port", "0") as (_, address):
        answers = [shell(command, address, folder) for command in asked]
    assert answers[0] == "<h1>Example</h1>"
    assert "x-unstale-fresh: 0.9" in answers[1].lower()
    assert '"hinted":1' in answers[asked.index(next(one for one in asked if "/hints" in one))]
    assert '"added":1' in answers[asked.index(next(one for one in asked if '"elements"' in one))]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_with_a_token_work(folder):
    make, serve, ask = COMMANDS[-3:]
    subprocess.run(make, shell=True, cwd=folder, timeout=60, check=True)  # noqa: S602
    arguments = [*shlex.split(serve)[2:-1], str(folder / "token.txt"), "--port", "0"]
    with running(folder, *arguments) as (_, address):
        assert '"freshness"' in shell(ask, f"http://127.0.0.1:{address.rpartition(':')[2]}", folder)


def test_every_header_and_metric_is_there(folder):
    text = PAGE.read_text("utf-8")
    with running(folder, "--port", "0") as (_, address):
        told = shell("curl http://127.0.0.1:8321/metrics", address, folder)
    for name in set(re.findall(r"`(unstale_\w+)`", text)) - {"unstale_polls_total"}:
        assert f"\n{name}" in told
