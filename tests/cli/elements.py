"""Six elements, what the library plans for them, and what stands in files."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

import unstale

ROWS = [  # key, rate per day, weight, bytes of a poll, host
    ("front", 24.0, 5.0, 100_000, "a.example"),
    ("news", 6.0, 3.0, 50_000, "a.example"),
    ("blog", 1.0, 2.0, 20_000, "b.example"),
    ("docs", 0.1, 2.0, 200_000, "b.example"),
    ("about", 0.01, 1.0, 10_000, "b.example"),
    ("ticker", 50.0, 1.0, 1_000, "c.example"),
]
RATES = np.array([row[1] for row in ROWS])
WEIGHTS = np.array([row[2] for row in ROWS])
SIZES = np.array([row[3] for row in ROWS], float)


def write_csv(path, header, rows):
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def frequencies(path="plan.csv"):
    with Path(path).open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["key", "frequency"]
    assert [row[0] for row in rows[1:]] == [row[0] for row in ROWS]
    return np.array([float(row[1]) for row in rows[1:]])


def expected(budget, **options):
    return unstale.plan(RATES, budget, **{"weights": WEIGHTS, **options}).frequencies


def about(number, rel):
    """What is infinite or undefined is null in JSON."""
    return None if number is None or not math.isfinite(number) else pytest.approx(number, rel=rel)


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-300)
