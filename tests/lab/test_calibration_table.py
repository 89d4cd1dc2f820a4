"""What the page on calibration says that nobody could know: chance, and what is between two polls."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from unstale.lab.histories import Recorded

SCRIPT = Path(__file__).parents[2] / "docs" / "calibration_table.py"


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location("calibration_table", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


@pytest.mark.parametrize("slope", [0.4, 1.0])
def test_a_power_of_time_is_continued_as_it_is(tables, slope):
    """With H = t^slope what is between follows from the ends, but for the time before 1/256."""
    exact = np.mean(np.exp(-(((np.arange(4000) + 0.5) / 4000) ** slope)))
    assert tables.continued(1.0, 2.0**slope, 3.0**slope) == pytest.approx(exact, abs=0.002)


def test_even_gaps_are_as_fresh_as_is_possible_between_polls(tables):
    """One change in each unit of time, polls half as far apart: S is a line; its mean is in the middle."""
    times = np.tile(np.arange(0.5, 90.0), 8) + np.repeat(np.linspace(-0.4, 0.4, 8), 90)
    world = Recorded("even", list("abcdefgh"), np.repeat(np.arange(8), 90), times, 90.0, 0.0, np.zeros(8))
    found = tables.between(world, 2.0)
    assert found["mean"] == pytest.approx(0.5 * (1.0 + found["end"]), abs=0.01)
    assert found["constant"] < found["mean"] - 0.02


def test_who_knows_all_rates_is_off_by_chance_alone(tables, monkeypatch):
    monkeypatch.setattr(tables, "RECORDS", 20)
    found = tables.knowing(tables.world("poisson", 60), 1.0)
    assert found["low"] < 0.9 < found["high"]
    assert 0.0 < found["off"] < 0.03
    assert found["rounds"] == pytest.approx(100.0, rel=0.2)
