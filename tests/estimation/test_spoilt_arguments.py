"""Each public function of the estimation layer, with arguments spoilt one by one."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unstale import estimation
from unstale.errors import InvalidInput
from unstale.estimation import GammaPrior, HintedChanges, Learner

POLLS: dict[str, Any] = {"elapsed": [1.0, 2.0, 1.0, 3.0, 1.0], "changed": [True, False, True, False, True]}
GAPS: dict[str, Any] = {"gaps": [1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 0.7, 1.1]}
GOOD: dict[str, dict[str, Any]] = {
    "best_moments": {"rates": [1.0, 2.0, 3.0], "polls": 2},
    "burstiness": GAPS,
    "estimate_blindly": {**POLLS, "resamples": 2},
    "estimate_hints": {**POLLS, "hints": [1, 0, 1, 1, 0]},
    "estimate_rate": POLLS,
    "estimate_rates": {**POLLS, "elements": [0, 1, 0, 1, 0]},
    "examine_gaps": GAPS,
    "examine_polls": POLLS,
    "fit": GAPS,
    "fit_class": {**GAPS, "elements": [0, 0, 0, 0, 1, 1, 1, 1]},
    "fit_polls": POLLS,
    "gap_shares": GAPS,
    "memory": GAPS,
    "plan_hinted": {"changes": HintedChanges([1.0, 2.0], 0.5, 0.1), "budget": 1.0},
    "rhythm_of_changes": {"times": [0.1, 0.5, 1.7], "period": 1.0, "bins": 4, "start": 0.0, "end": 3.0},
    "rhythm_of_polls": {**POLLS, "times": [1.0, 3.0, 4.0, 7.0, 8.0], "period": 1.0, "bins": 2},
}
"""Arguments that are fine."""
LISTS = ("rates", "gaps", "elapsed", "times", "hints")
"""Arguments that are lists of numbers."""


def test_every_public_function_is_here() -> None:
    public = {name for name in estimation.__all__ if inspect.isfunction(getattr(estimation, name))}
    assert public == set(GOOD)


def spoilt() -> list[tuple[str, str, object]]:
    cases: list[tuple[str, str, object]] = []
    for name, arguments in GOOD.items():
        for argument, value in arguments.items():
            if argument in LISTS:
                bad: list[object] = [
                    [*value[:-1], np.nan],
                    [*value[:-1], -1e300],
                    ["x", *value[1:]],
                    [value],
                    "text",
                    {},
                ]
                if argument != "times":
                    bad.append([*value[:-1], np.inf])
            elif argument in {"polls", "bins", "resamples"}:
                bad = [-1, 1.5, "two", None]
            elif argument in {"period", "budget"}:
                bad = [-1.0, np.nan, "a day", None]
            elif argument == "changed":
                bad = [value[:-1], ["maybe"] * len(value), [0.5] * len(value), [value]]
            elif argument == "elements":
                bad = [value[:-1], [value], [-1, *value[1:]] if name == "estimate_rates" else value[:-2]]
            else:
                bad = [None, "text"]
            cases += [(name, argument, one) for one in bad]
    return cases


@pytest.mark.parametrize(("name", "argument", "value"), spoilt(), ids=lambda one: repr(one)[:30])
def test_a_bad_argument_is_named(name: str, argument: str, value: object) -> None:
    function: Callable[..., object] = getattr(estimation, name)
    function(**GOOD[name])
    with pytest.raises(InvalidInput) as caught:
        function(**{**GOOD[name], argument: value})
    message = str(caught.value)
    assert re.search(argument.rstrip("s"), message), message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: GammaPrior(0.0, 1.0), "shape"),
        (lambda: GammaPrior(1.0, np.inf), "scale"),
        (lambda: HintedChanges(-1.0, 0.5, 0.1), "rate"),
        (lambda: HintedChanges(1.0, 1.5, 0.1), "recall"),
        (lambda: HintedChanges(1.0, 0.5, np.nan), "false_alarms"),
        (lambda: Learner(-1, round=1.0), "n must be"),
        (lambda: Learner(1, round=1.0, half_life=0.0), "half_life"),
        (lambda: Learner(1, round=1.0).learn([1], [1.0], [True]), "element"),
        (lambda: Learner(1, round=1.0).learn([0], [-1.0], [True]), "elapsed"),
        (lambda: Learner.resume({}), "state"),
        (lambda: estimation.Profile(half_life=-1.0), "half_life"),
        (lambda: estimation.UserProfiles(most=0), "most"),
    ],
)
def test_what_things_are_made_of_is_checked(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        call()
