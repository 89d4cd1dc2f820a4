"""A class of which nothing was heard has the levels that compiled code would give it, without that code."""

import numpy as np

from unstale.estimation.learning import level_learner
from unstale.estimation.learning.level_learner import CELLS_PER_ROUND, LevelLearner


def test_what_nothing_was_heard_of_is_as_if_it_were_computed():
    plain, compiled = LevelLearner(round=5.0), LevelLearner(round=5.0)
    for learner in (plain, compiled):
        learner._before_spread[:] *= 0.7
    plain._set(0)
    level_learner.set_cells(
        compiled._width, level_learner._WANDERS / CELLS_PER_ROUND, level_learner._SHOCKS, compiled._counts[0],
        compiled._exposure[0], compiled._before[0], compiled._before_spread[0], compiled._levels[0],
        compiled._spreads[0], compiled._passed[0], compiled._after[0], compiled._after_spread[0],
    )  # fmt: skip
    for name in ("_levels", "_passed", "_after", "_after_spread"):
        np.testing.assert_allclose(getattr(plain, name), getattr(compiled, name), rtol=1e-12)
