"""The results of a simulation: on the screen, in JSON, and for each element."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console

from unstale.cli.shared.printing import (
    console,
    print_table,
    say,
    show_cost,
    show_share_beside,
    show_share_with_error,
    show_time_with_error,
)
from unstale.cli.shared.problem import EXAMPLE, Task
from unstale.quantities import show_number, show_share
from unstale.simulation import Outcome, Result
from unstale.tables import Keys
from unstale.wording import plural

from .input import Scene
from .run import ADAPTING, CONSTANT, SamePolls

_MEASURES = (
    "freshness", "freshness_error", "age", "age_error", "missed_updates", "changes", "polls", "failed",
    "found", "accesses", "fresh_accesses",
)  # fmt: skip
"""Measures of each element."""
_ERRORS = "±: one standard error; the truth is within two of them 19 times out of 20."
_LAG_SHARES = (0.5, 0.9, 0.99)


@dataclass(frozen=True, eq=False)
class SimulationReport:
    """A simulation and its result; times in the unit of the rates."""

    scene: Scene
    result: Result
    gives_up: Sequence[str]
    """Policies that never poll some element that changes and matters: its age has no bound."""
    unsettled: Sequence[str]
    """Policies whose burn-in is too short for them to poll what they poll."""
    unconfined: Sequence[str]
    """Policies that do not keep to the windows or the jitter that were asked for."""
    same_polls: dict[str, SamePolls]
    """For rules that take as many polls as they like."""
    took: float
    """Seconds of work; 0 if something had to be compiled first."""

    @property
    def task(self) -> Task:
        """What was asked."""
        return self.scene.problem.task

    @property
    def _goal(self) -> Any:  # noqa: ANN401  (an objective, or its name)
        return self.scene.problem.options("optimal")["objective"]

    @property
    def changes(self) -> int:
        """Changes after the burn-in."""
        return next(iter(self.result.values())).changes

    # --- for scripts ----------------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        first = next(iter(self.result))
        return {
            **self.task.as_json(),
            "history": self.scene.recorded,
            "horizon": self.result.horizon,
            "burn_in": self.result.burn_in,
            "seed": self.result.seed,
            "changes": self.changes,
            "policies": [self._policy_as_json(outcome, first) for outcome in self.result.values()],
        }

    def _policy_as_json(self, outcome: Outcome, first: str) -> dict[str, Any]:
        name, expected, same = outcome.name, outcome.expected, self.same_polls.get(outcome.name)
        ahead, ahead_error = self.result.ahead(name, first)
        return {
            "policy": name,
            "freshness": outcome.freshness,
            "freshness_error": outcome.freshness_error,
            "age": outcome.age,
            "age_error": outcome.age_error,
            "missed_updates": outcome.missed_updates,
            "missed_updates_error": outcome.missed_updates_error,
            "cost": outcome.cost(self._goal),
            "cost_error": outcome.cost_error(self._goal),
            "perceived_freshness": outcome.perceived_freshness,
            "perceived_freshness_error": outcome.perceived_freshness_error,
            "accesses": outcome.accesses,
            "lags": {
                f"{share:.0%}": lag
                for share, lag in zip(_LAG_SHARES, outcome.lag(_LAG_SHARES).tolist(), strict=True)
            },
            "polls": outcome.polls,
            "failed": outcome.failed,
            "found": outcome.found,
            "spent": outcome.spent,
            "never_polled": int((outcome.elements.polls == 0).sum()),
            "gives_up": name in self.gives_up,
            "ahead_of_first": ahead,
            "ahead_of_first_error": ahead_error,
            "expected": expected
            and {
                "freshness": expected.freshness,
                "age": expected.age,
                "missed_updates": expected.missed_updates,
            },
            "same_polls": same and {"uniform": same.uniform, "optimal": same.optimal},
        }

    # --- for each element -----------------------------------------------------------------------------------

    def element_rows(self, name: str) -> list[Keys]:
        """Return the columns of `element_columns` for one policy."""
        elements, measured = self.scene.problem.elements, self.result[name].elements
        return [
            np.full(len(elements), name).tolist(),
            elements.keys,
            elements.rates,
            *(getattr(measured, measure) for measure in _MEASURES),
        ]

    # --- for people -----------------------------------------------------------------------------------------

    def print(self, plot: str | None, out: str | None) -> None:
        """Print tables and how to read them."""
        screen = console()
        screen.print(f"{self.task}")
        say(screen, self._what(), apart=False)
        screen.print()
        self._print_copies(screen)
        screen.print()
        self._print_polls(screen)
        for sentence in self._reading():
            say(screen, sentence)
        if out is not None:
            say(screen, f"{out} has the results of each element; times are in {self.task.unit.name}s.")
        if plot is not None:
            say(screen, f"{plot} has the picture.")
        say(screen, self._next())

    def _what(self) -> str:
        """Return the line that says what was simulated."""
        task, result = self.task, self.result
        how = "replayed" if self.scene.recorded else "simulated"
        burn = f", measured after a burn-in of {task.show_time(result.burn_in)}"
        measured = sum(one.changes + one.polls + one.accesses for one in result.values())
        events = measured * result.horizon / (result.horizon - result.burn_in)
        millions = events / max(self.took, 1e-3) / 1e6
        speed = f", {millions:.3g} million events/second" if self.took > 1 and millions > 1 else ""
        changes = plural(self.changes, "change")
        seed = "" if self.scene.recorded else f", seed {result.seed}"
        return (
            f"{task.show_time(result.horizon)} {how}{burn if result.burn_in else ''}: {changes}{seed}{speed}"
        )

    def _print_copies(self, screen: Console) -> None:
        outcomes = list(self.result.values())
        shown: dict[str, Callable[[Outcome], str]] = {
            "policy": lambda one: self.label(one.name),
            "fresh": lambda one: show_share_with_error(one.freshness, one.freshness_error),
        }
        if any(one.expected for one in outcomes):
            shown["by formula"] = lambda one: (
                show_share_beside(one.expected.freshness, one.freshness_error) if one.expected else ""
            )
        if any(one.accesses for one in outcomes):
            shown["requests that\nsaw it fresh"] = lambda one: show_share_with_error(
                one.perceived_freshness, one.perceived_freshness_error
            )
        shown["mean age"] = self._age
        shown["missed\nchanges"] = lambda one: show_number(
            math.inf if one.name in self.gives_up else one.missed_updates
        )
        if (goal := self.task.goal) not in {"freshness", "age", "missed-updates"}:
            shown[show_cost(goal, 0.0)[0]] = lambda one: show_cost(goal, one.cost(self._goal))[1]
        print_table(screen, list(shown), [[show(one) for show in shown.values()] for one in outcomes])

    def _age(self, outcome: Outcome) -> str:
        if outcome.name in self.gives_up:
            return "unbounded"
        seconds = self.task.unit.seconds
        return show_time_with_error(outcome.age * seconds, outcome.age_error * seconds)

    def label(self, name: str) -> str:
        """Return the name of a policy for people."""
        planned = {"optimal", "index", "edf"}
        return f"{name} for {self.task.objective}" if self.task.objective and name in planned else name

    def _print_polls(self, screen: Console) -> None:
        outcomes = list(self.result.values())
        shown: dict[str, Callable[[Outcome], str]] = {
            "policy": lambda one: self.label(one.name),
            "spent": lambda one: self.task.show(one.spent),
            "polls that\nfound a change": lambda one: _share(one.found, one.polls),
        }
        if any(one.failed for one in outcomes):
            shown["polls that\nfailed"] = lambda one: _share(one.failed, one.polls)
        for way in ("uniform", "optimal"):
            if self.same_polls:
                shown[f"fresh if as many\nare {way}"] = partial(self._same_polls, way)
        print_table(screen, list(shown), [[show(one) for show in shown.values()] for one in outcomes])

    def _same_polls(self, way: str, outcome: Outcome) -> str:
        same = self.same_polls.get(outcome.name)
        return show_share(getattr(same, way)) if same else ""

    def _reading(self) -> list[str]:
        weights = ", by weight" if self.scene.problem.elements.weights is not None else ""
        sentences = [f"fresh: the share of time for which copies are up to date{weights}. {_ERRORS}"]
        if verdict := self._verdict():
            sentences.append(verdict)
        if behind := [
            name
            for name, same in self.same_polls.items()
            if name not in CONSTANT and self._is_behind(name, same)
        ]:
            verb = "is" if len(behind) == 1 else "are"
            sentences.append(
                f"{_listed(behind)} {verb} less fresh than uniform polling with as many polls: a rule that "
                "polls more what changes more spends most on what is soon stale again."
            )
        if free := list(self.unconfined):
            verb = "does" if len(free) == 1 else "do"
            sentences.append(f"--window and --jitter are for plans; {_listed(free)} {verb} without.")
        if never := list(self.gives_up):
            sentences.append(
                f"{_listed(never)} never {'polls' if len(never) == 1 else 'poll'} some elements that change, "
                "so their age has no bound."
            )
        if self.scene.recorded and not set(self.result) <= set(self.same_polls):
            sentences.append(
                "Plans know how often each element changes over all of the history, and take its changes to "
                "come at random times."
            )
        if adapting := [name for name in self.unsettled if name in ADAPTING]:
            verb = "is" if len(adapting) == 1 else "are"
            sentences.append(
                f"{_listed(adapting)} {verb} still finding the right intervals after the burn-in, which ± "
                "does not tell. A longer --horizon and --burn-in help."
            )
        if early := [name for name in self.unsettled if name not in ADAPTING]:
            polls = "polls" if len(early) == 1 else "poll"
            sentences.append(
                f"{_listed(early)} {polls} some elements less often than once in the burn-in: the numbers "
                "still depend on how it began, which ± does not tell. A longer --horizon and --burn-in help."
            )
        return sentences

    def _is_behind(self, rule: str, same: SamePolls) -> bool:
        """Tell whether a rule is less fresh than uniform polling, and not just by chance."""
        outcome = self.result[rule]
        return outcome.freshness + 2 * outcome.freshness_error < same.uniform

    def _verdict(self) -> str:
        """Return how the best of the policies with the same budget compares with uniform polling."""
        rivals = [name for name in self.result if name not in self.same_polls]
        if "uniform" not in rivals or len(rivals) < 2 or self.task.goal != "freshness":
            return ""
        rivals.remove("uniform")
        other = max(rivals, key=lambda name: self.result[name].freshness)
        ahead, error = self.result.ahead(other, "uniform")
        points = show_share_with_error(abs(ahead), error).replace("%", " points")
        if not ahead:
            return ""
        if not abs(ahead) > 2 * error:
            longer = "" if self.scene.recorded else "; a longer --horizon may tell"
            return f"{other} and uniform cannot be told apart on these changes{longer}."
        side = "ahead of" if ahead > 0 else "behind"
        return f"{other} is {side} uniform by {points}, both on the same changes."

    def _next(self) -> str:
        task = self.task
        if task.file == EXAMPLE:
            return "Your own elements: unstale simulate FILE --budget 1000/day"
        if self.scene.recorded or self.scene.drawn or not task.amount:
            if self.same_polls:
                return "--plot policies.svg draws it, and --out FILE writes the results of each element."
            return "Rules of tools in use, on the same changes: --policy nutch --policy heritrix"
        if task.objective or task.order != "fixed" or task.unit.name != "day" or self.scene.problem.limits:
            return "unstale schedule, with the same options, gives the times of the polls."
        file = "FILE" if task.file == "-" else shlex.quote(task.file)
        return (
            f"The times of the polls: unstale schedule {file} "
            f"--budget {shlex.quote(task.budget_as_typed)} --for 1day --out polls.csv"
        )


def element_columns(scene: Scene) -> dict[str, str]:
    """Return the columns of the results of each element, with their units."""
    unit = scene.problem.task.unit.name
    units = {"age": unit, "age_error": unit}
    return {
        "policy": "",
        "key": "",
        "rate": f"changes/{unit}",
        **{name: units.get(name, "") for name in _MEASURES},
    }


def _share(part: int, whole: int) -> str:
    return show_share(part / whole) if whole else ""


def _listed(names: list[str]) -> str:
    """Return names as in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
