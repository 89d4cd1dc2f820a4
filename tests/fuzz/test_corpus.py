"""The inputs that fuzzing keeps, those that once broke something among them, break nothing."""

from pathlib import Path

import pytest

from .targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
INPUTS = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", INPUTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_nothing_breaks(path):
    TARGETS[path.parent.name](path.read_bytes())


def test_each_target_has_inputs():
    assert {path.parent.name for path in INPUTS} == set(TARGETS)
