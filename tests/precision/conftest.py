"""Precision of the reference values."""

import mpmath as mp
import pytest


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(100):
        yield
