"""The wheel: it holds all that the program needs, and installs into an environment that has nothing else."""

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = "key,rate,weight\na,1,1\nb,2,3\n"


def run(*command, cwd, **environment):
    """Run a command to its end; return what it printed."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    done = subprocess.run(  # noqa: S603
        [str(part) for part in command],
        cwd=cwd, env=kept | environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q")
    run(*pip, "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("unstale-*.whl")
    return built


def test_the_wheel_holds_all_that_is_in_the_source(wheel):
    packed = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = {
        path.relative_to(source).as_posix()
        for path in (source / "unstale").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files <= packed
    assert not {name for name in packed if name.startswith(("tests", "docs", "benchmarks"))}


def test_the_program_runs_from_the_wheel(wheel, tmp_path):
    """It runs from the unpacked wheel, far from the source, with the packages of this environment."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    (tmp_path / "pages.csv").write_text(ROWS)
    program = (sys.executable, "-m", "unstale")
    place = {"PYTHONPATH": str(tmp_path / "installed")}
    version = wheel.name.split("-")[1]
    assert version in run(*program, "--version", cwd=tmp_path, **place)
    where = "import unstale.mirror.sources.registry as one; print(one.__file__)"
    assert str(tmp_path) in run(sys.executable, "-c", where, cwd=tmp_path, **place)
    assert "key,frequency" in run(*program, "plan", "pages.csv", "--budget", "3/day", cwd=tmp_path, **place)


@pytest.mark.long
@pytest.mark.parametrize("extras", ["", "[all]"])
def test_the_wheel_installs_into_a_clean_environment(wheel, tmp_path, extras):
    venv.create(tmp_path / "environment", with_pip=True)
    bin_folder = tmp_path / "environment" / "bin"
    run(bin_folder / "python", "-m", "pip", "install", "-q", f"{wheel}{extras}", cwd=tmp_path)
    (tmp_path / "pages.csv").write_text(ROWS)
    program = bin_folder / "unstale"
    assert wheel.name.split("-")[1] in run(program, "--version", cwd=tmp_path)
    assert "key,frequency" in run(program, "plan", "pages.csv", "--budget", "3/day", cwd=tmp_path)
    assert "fresh" in run(program, "demo", "--for", "5s", cwd=tmp_path)
