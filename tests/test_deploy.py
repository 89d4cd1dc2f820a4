"""What is in the folder deploy is checked by the programs that read it, and says what is true of unstale."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from unstale.cli.program import cli

HERE = Path(__file__).parents[1]
DEPLOY = HERE / "deploy"
PAGE = (HERE / "docs" / "how-to" / "run-as-a-service.md").read_text("utf-8")
OWN = Path(sys.executable).with_name("unstale")


def checked(*command, cwd=DEPLOY):
    """Run a program that checks something; return what it says."""
    program = shutil.which(command[0])
    if program is None:
        package = {"promtool": "prometheus", "systemd-analyze": "systemd"}[command[0]]
        pytest.skip(f"{command[0]} is not installed (Debian's package {package} has it)")
    done = subprocess.run(  # noqa: S603
        [program, *command[1:]], cwd=cwd, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def commands_of(heading):
    """Return the commands that the page tells under a heading, as words."""
    part = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def test_systemd_takes_the_unit_and_finds_it_closed(tmp_path):
    unit = tmp_path / "unstale.service"
    unit.write_text((DEPLOY / "unstale.service").read_text().replace("/opt/unstale/bin/unstale", str(OWN)))
    assert not checked("systemd-analyze", "verify", str(unit)).strip()
    told = checked("systemd-analyze", "security", "--offline=true", str(unit))
    assert float(re.search(r"Overall exposure level.*: ([\d.]+)", told)[1]) < 2.0


def test_prometheus_takes_the_alerts_and_they_come_when_they_should():
    checked("promtool", "check", "config", "--syntax-only", "prometheus.yml")
    for words in commands_of("Watched by Prometheus and Grafana"):
        assert "SUCCESS" in checked(*words, cwd=HERE)


def test_alerts_and_dashboard_ask_for_metrics_that_there_are():
    told = (HERE / "src" / "unstale" / "dashboard" / "api" / "metrics.py").read_text()
    board = json.loads((DEPLOY / "grafana.json").read_text())
    rules = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [rule["expr"] for rule in rules]
    names = set(re.findall(r"\bunstale_\w+", " ".join(asked)))
    assert len(names) > 15
    for name in names:
        bare = name.removesuffix("_total")
        assert f'"{bare}"' in told or f'"{bare.removeprefix("unstale_")}"' in told, name
    assert all(panel["datasource"]["uid"] == "${DS_PROMETHEUS}" for panel in board["panels"])


def test_containers_run_without_rights_what_unstale_can_run():
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    assert re.fullmatch(r"USER [1-9]\d+:[1-9]\d+", next(line for line in lines if line.startswith("USER")))
    assert all((HERE / name).exists() for name in ("pyproject.toml", "README.md", "LICENSE", "src"))
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    commands = [one["command"] for one in services.values()]
    commands += [json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD ")]
    for one in services.values():
        assert one["read_only"] is True
        assert one["cap_drop"] == ["ALL"]
        assert all(port.startswith("127.0.0.1:") for port in one.get("ports", []))
    for name, *words in commands:  # the options exist
        cli.commands[name].make_context(name, list(words), resilient_parsing=True)


def test_the_page_saves_a_mirror_and_restores_it(tmp_path):
    first = tmp_path / "var" / "lib" / "unstale"
    first.mkdir(parents=True)
    (tmp_path / "var" / "backups").mkdir()
    (tmp_path / "srv" / "again").mkdir(parents=True)
    (first / "notes.txt").write_text("a note")
    call = CliRunner().invoke
    for words in (["init", str(first)], ["add", "--mirror", str(first), str(first / "notes.txt")]):
        assert call(cli, words, catch_exceptions=False).exit_code == 0
    for _, *words in commands_of("Back-ups"):
        here = [str(tmp_path) + word if word.startswith("/") else word for word in words]
        assert call(cli, here, catch_exceptions=False).exit_code == 0
    told = call(
        cli, ["status", "--mirror", str(tmp_path / "srv" / "again"), "--json"], catch_exceptions=False
    )
    assert json.loads(told.output)["elements"] == {"ok": 1}
