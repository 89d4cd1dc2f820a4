"""The numbers of the papers, and of the closed forms behind them, to hold against the library.

``golden.json`` holds each number as recomputed independently of the library (``value``), what goes in
(``given``) and, where it matters, what the paper prints (``printed``). Where a paper is in error, a test
states both: ours is the recomputed number, and the printed one differs. Records without a number for the
library to compute are listed under ``prose``.

Papers: cho = Cho & Garcia-Molina (2000), azar = Azar et al. (2018), li = Li, Cline & Loguinov (2015),
carney = Carney, Lee & Zdonik (2003). C marks closed forms that belong to no single paper.
"""

import json
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from unstale.renewal import share_within, source_penalty, staleness

DATA = json.loads(Path(__file__).with_name("golden.json").read_text(encoding="utf-8"))
CHECKED = {name: {"id": name, **record} for name, record in DATA["checked"].items()}
EXACT = 1e-12
"""Relative error allowed where the record has 16 digits or more."""

ORDERS = ("fixed", "random", "purely-random")
claimed = set()


def records(*patterns):
    """Run a test for each record whose id matches, and note that the record is checked."""
    names = [name for name in CHECKED if any(fnmatchcase(name, pattern) for pattern in patterns)]
    assert names, patterns
    claimed.update(names)
    return pytest.mark.parametrize("record", [pytest.param(CHECKED[name], id=name) for name in names])


def same(actual, expected, rtol=EXACT, atol=0.0):
    assert_allclose(actual, np.asarray(expected, float), rtol=rtol, atol=atol)


def grid(ends, count=400):
    return np.geomspace(*ends, count)


def behind(changes, polls, tau):
    """Staleness, mean lag and share of requests that are tau behind."""
    return [
        staleness(changes, polls),
        source_penalty(changes, polls, "x"),
        1.0 - share_within(changes, polls, tau),
    ]
