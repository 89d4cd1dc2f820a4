"""Make the tables of docs/explanation/shootout.md that say what the parts of the policy are good for.

    .venv/bin/python docs/parts_table.py play RESULTS HISTORIES
    .venv/bin/python docs/parts_table.py write RESULTS

The first plays what RESULTS, a JSON file, does not have yet: samples of the files NAME.parquet of HISTORIES,
a folder, of the releases that come with unstale, and worlds with a known answer. All of that takes an hour or
more; it may be stopped, and goes on from where it was. The second writes each table between its two marks in
the page. Each case is played blind and told in the same world, so differences are paired by batches of time.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from calibration_table import BUDGETS, HISTORIES, MOST_TOLD_ELEMENTS, WORLDS, history_of, world
from page_tables import play_or_write, write_tables
from shootout_tables import shown_age

from unstale.lab.calibration import some_elements
from unstale.lab.histories import Recorded
from unstale.lab.shootout_cells import Stage, law_frequencies
from unstale.policy import Learning
from unstale.policy.learning_policy import STEPS_PER_ROUND
from unstale.schedule import Schedule
from unstale.simulation import LearningAtPlay, simulate
from unstale.simulation.noisy_hints import NoisyHints
from unstale.simulation.outcome import error_of_mean
from unstale.simulation.policy_lookup import of_paper

PAGE = Path(__file__).parent / "explanation" / "shootout.md"
MOST_ELEMENTS, MOST_STEPS = 120, 2_500
"""How many elements of a history are drawn at random, if it has more, and steps of learning."""
WORLD_ELEMENTS = 120
HINTED_ELEMENTS = 106
CLOCK_ELEMENTS, CLOCK_DAYS = 30, 90.0
GOALS = ("freshness", "age")
STANDARD_ERRORS = 1.645
RELIABILITIES = {"60 %, 80 %": NoisyHints(0.6, 0.8), "80 %, 60 %": NoisyHints(0.8, 0.6)}
"""Recall and precision of hints."""
Case = dict[str, list[float]]
"""What each policy reached, batch by batch of time."""


def sample(name: str, folder: Path) -> Recorded:
    """Return a history, or some elements of it, or a world."""
    if name in WORLDS:
        return world(name, WORLD_ELEMENTS)
    return some_elements(history_of(name, folder), MOST_ELEMENTS)


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
    recorded: Recorded,
    polls: float,
    goal: str,
    parts: dict[str, dict[str, object]],
    *,
    told: bool = False,
    hints: NoisyHints | None = None,
    oracle: bool = False,
) -> Case:
    """Return what each policy reaches, batch by batch of time; lower is better for age.

    The oracle is the plan that knows the gaps between the changes of each element in advance.
    """
    stage = Stage(recorded, None, recorded.end / 3.0, told, hints)
    stage_world, order = stage.shuffled(SEED)
    budget, count = polls * recorded.rate, len(recorded)
    steps = min(MOST_STEPS * count / (budget * recorded.end), STEPS_PER_ROUND)
    policies: dict[str, object] = {"uniform": "uniform"}
    for name, options in parts.items():
        given = {key: value for key, value in options.items() if key not in {"levels", "own"}}
        learning = Learning(count, budget, objective=goal, steps=steps, seed=SEED, **given)
        learning.learner.may_follow = bool(options.get("levels", True))
        learning.policy.table.clockworks.may_follow = bool(options.get("own", True))
        policies[name] = LearningAtPlay(learning)
    if oracle:
        policies[GAPS_KNOWN] = Schedule(law_frequencies(stage, goal, budget)[order], seed=SEED)
    if hints is not None:
        policies[RIVAL] = of_paper(RIVAL, stage_world, budget, recorded.end, seed=SEED)
    played = simulate(
        stage_world, budget, policies=policies, objective=goal, burn_in=stage.burn_in, seed=SEED
    )
    found = {}
    for name, one in played.items():
        lengths, values = one.over_time(goal)
        found[name] = values.tolist()
        found["lengths"] = lengths.tolist()
        found[f"age, {name}"] = one.over_time("age")[1].tolist()
    return found


SEED, RIVAL, GAPS_KNOWN = 1, "greedy-ncis", "gaps known"
LEVELS = {"without levels": {"levels": False}, "learning": {}}
CLOCKS = {
    "no clocks": {"reserve": 1.0, "in_reserve": 0.0},
    "hours": {"reserve": 1.0, "in_reserve": 0.0, "day": 1.0, "own": False},
    "own": {"reserve": 1.0, "in_reserve": 0.0, "day": 1.0},
}


def cases(folder: Path) -> Iterator[tuple[str, Callable[[], Case]]]:
    """Yield what is to be played, and by what name it is kept, the most telling first."""
    for polls, name, goal in product((1.0, 0.25, 4.0), HISTORIES, GOALS):
        yield f"now {name} {polls:g} {goal}", partial(play_now, name, folder, polls, goal)
    for polls in (1.0, 0.25, 4.0):
        for name in (*HISTORIES, *WORLDS):
            for goal in GOALS if polls == 1.0 else GOALS[:1]:
                yield f"{name} {polls:g} {goal}", partial(play_blind_and_told, name, folder, polls, goal)
    for name in HISTORIES:
        for polls in BUDGETS if name == "releases" else (1.0,):
            for title, hints in RELIABILITIES.items():
                yield f"hints {name} {polls:g} {title}", partial(play_hints, name, folder, polls, hints)
    for told, name in product((False, True), HISTORIES):
        yield f"clock {name} {told}", partial(play_clocks, name, folder, told=told)


def play_now(name: str, folder: Path, polls: float, goal: str) -> Case:
    """Play up to 600 elements blind and told."""
    recorded = some_elements(history_of(name, folder), MOST_TOLD_ELEMENTS)
    case = play_parts(recorded, polls, goal, {"learning": {}})
    return {**case, "told": play_parts(recorded, polls, goal, {"learning": {}}, told=True)["learning"]}


def play_blind_and_told(name: str, folder: Path, polls: float, goal: str) -> Case:
    """Play with levels, without them, and with told times."""
    recorded = sample(name, folder)
    case = play_parts(recorded, polls, goal, LEVELS)
    told = play_parts(recorded, polls, goal, {"learning": {}}, told=True)
    return {**case, "told": told["learning"], "age, told": told["age, learning"]}


def play_hints(name: str, folder: Path, polls: float, hints: NoisyHints) -> Case:
    """Play with hints."""
    recorded = some_elements(history_of(name, folder), HINTED_ELEMENTS)
    return play_parts(recorded, polls, "freshness", {"learning": {}}, hints=hints)


def play_clocks(name: str, folder: Path, *, told: bool) -> Case:
    """Play with the rhythms of classes, with clocks of elements, and without either."""
    return play_parts(clocked(name, folder), 1.0, "freshness", CLOCKS, told=told, oracle=True)


def play(results: Path, folder: Path) -> None:
    """Play what the results do not have yet."""
    found = json.loads(results.read_text()) if results.exists() else {}
    for key, played in cases(folder):
        if key not in found:
            found[key] = played()
            results.write_text(json.dumps(found))
            sys.stderr.write(f"{key}\n")


def difference(case: Case, one: str, other: str, goal: str = "freshness") -> str:
    """Return by how much one is better, with the 90 % interval: in points, or per cent of the age."""
    lengths, gain = np.array(case["lengths"]), np.array(case[one]) - np.array(case[other])
    unit = 100.0
    if goal == "age":
        gain, unit = -gain, 100.0 / max(mean(case, "uniform"), 1e-12)
    lead, error = float(np.average(gain, weights=lengths)), error_of_mean(gain, lengths)
    return f"{unit * lead:+.1f} ± {unit * STANDARD_ERRORS * error:.1f}"


def mean(case: Case, policy: str) -> float:
    """Return the mean over time."""
    return float(np.average(case[policy], weights=case["lengths"]))


def parts_table(found: dict[str, Case]) -> list[str]:
    """Return what levels and told times are good for."""
    head = ["", "polls per change", "uniform", "no levels", "learning", "times told", "ahead of uniform"]
    head += ["levels add", "told times add", "and age", "younger", "levels add", "told times add"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, title in {**HISTORIES, **WORLDS}.items():
        rows = [(polls, found.get(f"{name} {polls:g} freshness")) for polls in BUDGETS]
        for number, (polls, fresh) in enumerate((polls, fresh) for polls, fresh in rows if fresh):
            cells = [f"{100.0 * mean(fresh, one):.1f}" for one in ("uniform", *LEVELS, "told")]
            cells += [difference(fresh, one, other) for one, other in DIFFERENCES]
            told, blind, uniform = (mean(fresh, f"age, {one}") for one in ("told", "learning", "uniform"))
            cells.append(f"{100.0 * (told - blind) / uniform:+.0f} %")
            age = found.get(f"{name} {polls:g} age")
            cells += [difference(age, one, other, "age") if age else "" for one, other in DIFFERENCES]
            lines.append("| " + " | ".join([title if not number else "", f"{polls:g}", *cells]) + " |")
    return lines


DIFFERENCES = (("learning", "uniform"), ("learning", "without levels"), ("told", "learning"))


CLOCK_HEAD = (
    "no clocks", "hours of classes", "and own clocks", "hours add", "own clocks add", "ahead of gaps known"
)  # fmt: skip
CLOCK_DIFFERENCES = (("hours", "no clocks"), ("own", "hours"), ("own", GAPS_KNOWN))


NOW_HEAD = ("uniform", "before", "now", "times told")


def now_table(found: dict[str, Case], page: str) -> list[str]:
    """Return what the policy of today reaches, beside what it did when the large tables were played."""
    lines = [
        "| | polls per change | " + " | ".join([*NOW_HEAD, "age: " + NOW_HEAD[0], *NOW_HEAD[1:]]) + " |",
        "|" + "---|" * (2 + 2 * len(NOW_HEAD)),
    ]
    for name, title in HISTORIES.items():
        for number, polls in enumerate(BUDGETS):
            cells = []
            for goal in GOALS:
                case = found.get(f"now {name} {polls:g} {goal}")
                before = before_in(page, title if goal == "freshness" else f"{title}, age", number)
                if case is None:
                    cells += ["", before, "", ""]
                    continue
                reached = [mean(case, one) for one in ("uniform", "learning", "told")]
                shown = [f"{100.0 * one:.1f}" if goal == "freshness" else shown_age(one) for one in reached]
                cells += [shown[0], before, *shown[1:]]
            if any(cells[0::4]):
                lines.append("| " + " | ".join([title, f"{polls:g}", *cells]) + " |")
    return lines


def before_in(page: str, title: str, number: int) -> str:
    """Return what learning reached at a given budget by the large tables of the page, if it was played."""
    if f"### {title}\n" not in page:
        return ""
    part = page.split(f"### {title}\n", 1)[1].split("\n### ", 1)[0].split("<!-- end -->", 1)[0]
    head, *rows = [line for line in part.splitlines() if line.startswith(("| polls of", "|  | "))]
    column = [cell.strip() for cell in head.split("|")].index("**learning**")
    rows = [line for line in rows if line.startswith("|  | ")]
    return rows[number].split("|")[column].strip().strip("*")


def clocks_table(found: dict[str, Case]) -> list[str]:
    """Return what hours of classes, clocks of elements and told times are good for."""
    lines = [
        "| " + " | ".join(["", "times told", "uniform", "gaps known", *CLOCK_HEAD]) + " |",
        "|" + "---|" * (4 + len(CLOCK_HEAD)),
    ]
    for name, title in HISTORIES.items():
        for told in (False, True):
            if (case := found.get(f"clock {name} {told}")) is None:
                continue
            cells = [f"{100.0 * mean(case, one):.1f}" for one in ("uniform", GAPS_KNOWN, *CLOCKS)]
            cells += [difference(case, *pair) for pair in CLOCK_DIFFERENCES]
            lines.append(
                f"| {title if not told else ''} | {'yes' if told else 'no'} | " + " | ".join(cells) + " |"
            )
    return lines


def hints_table(found: dict[str, Case]) -> list[str]:
    """Return how learning does with hints, beside a learner that was made for them."""
    lines = [
        "| | hints | polls per change | uniform | GREEDY-NCIS | **learning** | ahead of GREEDY-NCIS |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, title in HISTORIES.items():
        for hints in RELIABILITIES:
            for polls in BUDGETS:
                if (case := found.get(f"hints {name} {polls:g} {hints}")) is None:
                    continue
                uniform, rival, own = (100.0 * mean(case, one) for one in ("uniform", RIVAL, "learning"))
                lines.append(
                    f"| {title} | {hints} | {polls:g} | {uniform:.1f} | {rival:.1f} | **{own:.1f}** "
                    f"| {difference(case, 'learning', RIVAL)} |"
                )
    return lines


def write(page: Path, results: Path) -> None:
    """Write the tables into the page."""
    found = json.loads(results.read_text())
    now = now_table(found, page.read_text(encoding="utf-8"))
    write_tables(
        page,
        {
            "now": now,
            "levels": parts_table(found),
            "clocks": clocks_table(found),
            "hints": hints_table(found),
        },
    )


if __name__ == "__main__":
    play_or_write(__doc__, PAGE, play, write)
