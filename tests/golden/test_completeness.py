"""No record is forgotten."""

from importlib import import_module
from pathlib import Path

from .records import CHECKED, DATA, claimed


def test_every_record_is_checked_or_accounted_for():
    for path in Path(__file__).parent.glob("test_*.py"):  # a module claims its records when it is imported
        import_module(f".{path.stem}", __package__)
    assert len(DATA["all"]) == 224
    assert sorted([*CHECKED, *DATA["prose"]]) == sorted(DATA["all"])
    assert claimed == set(CHECKED)
