"""No record is forgotten."""

from importlib import import_module
from pathlib import Path

from .records import CHECKED, DATA, claimed


def test_every_record_is_checked_or_accounted_for():
    for path in Path(__file__).parent.glob("test_*.py"):  # a module claims its records when it is imported
        import_module(f".{path.stem}", __package__)
    later = [name for names in DATA["later"].values() for name in names]
    assert len(DATA["all"]) == 224
    assert sorted([*CHECKED, *later, *DATA["prose"]]) == sorted(DATA["all"])
    assert claimed == set(CHECKED)
