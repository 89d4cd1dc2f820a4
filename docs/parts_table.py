"""Make the tables of docs/explanation/shootout.md that say what the parts of the policy are good for.

    .venv/bin/python docs/parts_table.py play RESULTS HISTORIES
    .venv/bin/python docs/parts_table.py write RESULTS

The first plays what RESULTS, a JSON file, does not have yet: samples of the files NAME.parquet of HISTORIES,
a folder, of the releases that come with unstale, and worlds with a known answer. All of that takes an hour or
more; it may be stopped, and goes on from where it was. The second writes each table between its two marks in
the page.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from calibration_table import BUDGETS, HISTORIES, WORLDS, history_of, world
from page_tables import play_or_write, write_tables

from unstale.lab.calibration import some_elements
from unstale.lab.histories import Recorded
from unstale.lab.shootout_cells import Stage
from unstale.policy import Learning
from unstale.simulation import LearningAtPlay, simulate
from unstale.simulation.outcome import error_of_mean

PAGE = Path(__file__).parent / "explanation" / "shootout.md"
ELEMENTS, SAMPLES, MOST_STEPS = 60, (1, 2), 2_500
CLOCK_ELEMENTS, CLOCK_DAYS = 30, 90.0
GOALS = ("freshness", "age")
STANDARD_ERRORS = 1.645


def sample(name: str, folder: Path, count: int, seed: int) -> Recorded:
    """Return the history of some elements, or a world."""
    if name in WORLDS:
        return world(name, count, seed)
    return some_elements(history_of(name, folder), count, seed)


def clocked(name: str, folder: Path) -> Recorded:
    """Return a quarter of a year of a history, from the week on in which half of its changes have come."""
    recorded = history_of(name, folder)
    start = np.floor(np.median(recorded.times) / 7.0) * 7.0
    there = recorded.since(start)
    kept = there.times < CLOCK_DAYS
    return some_elements(
        replace(there, elements=there.elements[kept], times=there.times[kept], end=CLOCK_DAYS),
        CLOCK_ELEMENTS,
    )


def play_parts(
    recorded: Recorded, polls: float, goal: str, seed: int, parts: dict[str, dict[str, object]], *, told: bool
) -> dict[str, list[float]]:
    """Return what each policy reaches, batch by batch of time; lower is better for age."""
    stage = Stage(recorded, None, recorded.end / 3.0, told)
    stage_world, _ = stage.shuffled(seed)
    budget, count = polls * recorded.rate, len(recorded)
    steps = min(MOST_STEPS * count / (budget * recorded.end), 50.0)
    policies: dict[str, object] = {"uniform": "uniform"}
    for name, options in parts.items():
        given = {key: value for key, value in options.items() if key not in {"levels", "own"}}
        learning = Learning(count, budget, objective=goal, steps=steps, seed=seed, **given)
        learning.learner.may_follow = bool(options.get("levels", True))
        learning.policy.table.clockworks.may_follow = bool(options.get("own", True))
        policies[name] = LearningAtPlay(learning)
    played = simulate(
        stage_world, budget, policies=policies, objective=goal, burn_in=stage.burn_in, seed=seed
    )
    found = {}
    for name, one in played.items():
        lengths, values = one.over_time(goal)
        found[name] = values.tolist()
        found["lengths"] = lengths.tolist()
    return found


LEVELS = {"without levels": {"levels": False}, "learning": {}}
CLOCKS = {
    "no clocks": {"reserve": 1.0, "in_reserve": 0.0},
    "hours": {"reserve": 1.0, "in_reserve": 0.0, "day": 1.0, "own": False},
    "own": {"reserve": 1.0, "in_reserve": 0.0, "day": 1.0},
}


def play(results: Path, folder: Path) -> None:
    """Play what the results do not have yet."""
    found = json.loads(results.read_text()) if results.exists() else {}

    def keep(key: str, value: object) -> None:
        found[key] = value
        results.write_text(json.dumps(found))
        sys.stderr.write(f"{key}\n")

    for goal in GOALS:
        for polls in BUDGETS:
            for name in (*HISTORIES, *WORLDS):
                for seed in SAMPLES:
                    if (key := f"{name} {polls:g} {goal} {seed}") not in found:
                        recorded = sample(name, folder, ELEMENTS, seed)
                        keep(key, play_parts(recorded, polls, goal, seed, LEVELS, told=False))
    for told in (False, True):
        for name in HISTORIES:
            if (key := f"clock {name} {told}") not in found:
                keep(key, play_parts(clocked(name, folder), 1.0, "freshness", 1, CLOCKS, told=told))


def difference(cases: list[dict[str, list[float]]], one: str, other: str, goal: str) -> tuple[float, float]:
    """Return by how much one is better, and half of the 90 % interval: in points, or per cent of the age."""
    leads, errors = [], []
    for case in cases:
        lengths = np.array(case["lengths"])
        gain = np.array(case[one]) - np.array(case[other])
        unit = 100.0
        if goal == "age":
            gain, unit = -gain, 100.0 / max(float(np.average(case["uniform"], weights=lengths)), 1e-12)
        leads.append(unit * float(np.average(gain, weights=lengths)))
        errors.append(unit * error_of_mean(gain, lengths))
    spread = np.var(leads, ddof=1) / len(leads) if len(leads) > 1 else 0.0
    return float(np.mean(leads)), STANDARD_ERRORS * float(
        np.sqrt(np.mean(np.square(errors)) / len(leads) + spread)
    )


def shown(value: tuple[float, float]) -> str:
    """Return a difference with its interval."""
    return f"{value[0]:+.1f} ± {value[1]:.1f}"


def levels_table(found: dict[str, dict[str, list[float]]]) -> list[str]:
    """Return what levels are good for."""
    lines = [
        "| | polls per change | uniform | no levels | learning | ahead of uniform | levels | age | levels |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, title in {**HISTORIES, **WORLDS}.items():
        for polls in BUDGETS:
            both = [[found.get(f"{name} {polls:g} {goal} {seed}") for seed in SAMPLES] for goal in GOALS]
            fresh, age = ([case for case in cases if case] for cases in both)
            if not fresh:
                continue
            means = [
                100.0 * np.mean([np.average(case[one], weights=case["lengths"]) for case in fresh])
                for one in ("uniform", *LEVELS)
            ]
            of_age = ["", ""]
            if age:
                of_age = [
                    shown(difference(age, "learning", other, "age"))
                    for other in ("uniform", "without levels")
                ]
            lines.append(
                f"| {title if polls == BUDGETS[0] else ''} | {polls:g} | "
                + " | ".join(f"{mean:.1f}" for mean in means)
                + f" | {shown(difference(fresh, 'learning', 'uniform', 'freshness'))}"
                + f" | {shown(difference(fresh, 'learning', 'without levels', 'freshness'))}"
                + f" | {of_age[0]} | {of_age[1]} |"
            )
    return lines


def clocks_table(found: dict[str, dict[str, list[float]]]) -> list[str]:
    """Return what hours of classes, clocks of elements and told times are good for."""
    lines = [
        "| | times told | uniform | no clocks | hours of classes | and own clocks | hours | own clocks |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, title in HISTORIES.items():
        for told in (False, True):
            if (case := found.get(f"clock {name} {told}")) is None:
                continue
            means = [100.0 * np.average(case[one], weights=case["lengths"]) for one in ("uniform", *CLOCKS)]
            lines.append(
                f"| {title if not told else ''} | {'yes' if told else 'no'} | "
                + " | ".join(f"{mean:.1f}" for mean in means)
                + f" | {shown(difference([case], 'hours', 'no clocks', 'freshness'))}"
                + f" | {shown(difference([case], 'own', 'hours', 'freshness'))} |"
            )
    return lines


def write(page: Path, results: Path) -> None:
    """Write the tables into the page."""
    found = json.loads(results.read_text())
    write_tables(page, {"levels": levels_table(found), "clocks": clocks_table(found)})


if __name__ == "__main__":
    play_or_write(__doc__, PAGE, play, write)
