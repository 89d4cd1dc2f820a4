"""Kernels are found, and can be compiled, where nothing may be written beside the source."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import unstale

SCRIPT = """
import sys
import unstale.kernel_cache as cache
if sys.argv[1] == "read-only":
    cache._can_write = lambda folder: False
cache.keep_kernels()
from numba.core import event
class Compiled(event.Listener):
    def on_start(self, one):
        print("compiled", one.data["dispatcher"].__name__.lstrip("_"))
    def on_end(self, one):
        pass
event.register("numba:compile", Compiled())
from unstale import kernels
for name in sys.argv[2:]:
    getattr(kernels, name)(1.0)
import os
print(os.environ.get("NUMBA_CACHE_DIR", "beside the source"))
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """An installation of its own, with one kernel that was compiled when it was made."""
    place = tmp_path_factory.mktemp("installed")
    source = Path(unstale.__file__).parent
    shutil.copytree(source, place / "unstale", ignore=shutil.ignore_patterns("__pycache__"))
    out = call(place, "writable", "p1", home=place)
    assert "compiled p1" in out
    assert out[-1] == "beside the source"
    return place


def call(package, *arguments, home):
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment.pop("XDG_CACHE_HOME", None)
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SCRIPT, *arguments],
        env=environment | {"PYTHONPATH": str(package), "HOME": str(home)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_kernels_of_an_image_are_used_where_nothing_may_be_written_at_all(package):
    *compiled, place = call(package, "read-only", "p1", "p2", home="/dev/null")
    assert "compiled p1" not in compiled
    assert "compiled p2" in compiled  # one that the image does not have
    assert not Path(place).exists()


def test_kernels_of_an_image_and_those_compiled_since_are_kept_for_a_user(package, tmp_path):
    *compiled, place = call(package, "read-only", "p1", "p3", home=tmp_path)
    assert "compiled p1" not in compiled
    assert "compiled p3" in compiled
    assert Path(place).is_relative_to(tmp_path / ".cache" / "unstale")
    assert call(package, "read-only", "p1", "p3", home=tmp_path) == [place]


def test_a_place_that_was_chosen_is_kept(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/somewhere")
    unstale.kernel_cache.keep_kernels()
    assert os.environ["NUMBA_CACHE_DIR"] == "/somewhere"
