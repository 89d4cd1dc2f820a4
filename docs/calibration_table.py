"""Make the tables of docs/explanation/calibration.md, in two commands.

    .venv/bin/python docs/calibration_table.py play RESULTS HISTORIES
    .venv/bin/python docs/calibration_table.py write RESULTS

The first plays what RESULTS, a JSON file, does not have yet: files NAME.parquet of HISTORIES, a folder, with
the columns element_id and t, the releases that come with unstale, and worlds with a known answer, blind and
with told times. The second writes each table between its two marks in the page.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
from page_tables import play_or_write, write_tables

from unstale.lab.calibration import calibration, some_elements
from unstale.lab.histories import Recorded, load

PAGE = Path(__file__).parent / "explanation" / "calibration.md"
WORLD_ELEMENTS = 120
MOST_TOLD_ELEMENTS = 600
"""Of a history that is played with told times, drawn at random."""
RECORDS, MOMENTS, SAMPLED_ELEMENTS = 60, 300, 250
"""Records that a forecaster who knows all rates is played on, moments at which it is asked, and elements at
most. By how much it is off on the whole falls with the root of their number; coverage does not."""
AGES = 33
"""At which it is looked how fresh copies are between two polls."""
WITHIN = 0.88, 0.92
"""How often 90 % intervals are to have the truth in them."""
STEPS, TOLD_STEPS = 5_000, 3_000
"""In how many steps the policy takes in what polls saw, at most."""
BUDGETS = (0.25, 1.0, 4.0)
HISTORIES = {
    "releases": "Releases", "ota_contrib": "Terms of service", "wikipedia_a": "Wikipedia",
    "nychealth_covid": "Health department", "django": "Django", "homebrew_core": "Homebrew",
    "mdn_content": "MDN",
}  # fmt: skip
ALL_HISTORIES = {**HISTORIES, "disaster_data": "Disasters"}
"""Pages on disasters live for some days each, which says little of policies, and something of estimates."""
WORLDS = {
    "poisson": "constant rates",
    "bursts": "bursts of five changes",
    "commits": "commits that touch half of the elements",
    "trend": "all rates fall to a twentieth",
}


def world(kind: str, count: int = WORLD_ELEMENTS, seed: int = 1) -> Recorded:
    """Return a history of elements with about one change a day, over 150 days."""
    rng, end = np.random.default_rng(seed), 150.0
    rates = rng.gamma(1.0, 1.0, count)
    if kind == "bursts":
        first = np.repeat(np.arange(count), rng.poisson(rates * end / 5.0))
        many = rng.geometric(0.2, first.size)
        elements = np.repeat(first, many)
        times = np.repeat(rng.uniform(0.0, end, first.size), many) + rng.exponential(0.3, elements.size)
    elif kind == "commits":
        moments = rng.uniform(0.0, end, 75)
        which, touched = np.nonzero(rng.random((moments.size, count)) < 0.5)
        alone = np.repeat(np.arange(count), rng.poisson(0.2 * rates * end))
        elements = np.concatenate([touched, alone])
        times = np.concatenate([moments[which], rng.uniform(0.0, end, alone.size)])
    else:
        elements = np.repeat(np.arange(count), rng.poisson(rates * end))
        times = rng.uniform(0.0, end, elements.size)
        if kind == "trend":
            kept = rng.random(times.size) < 20.0 ** (-times / end)
            elements, times = elements[kept], times[kept]
    elements, times = elements[times < end], times[times < end]
    order = np.lexsort((times, elements))
    keys = [str(k) for k in range(count)]
    return Recorded(kind, keys, elements[order], times[order], end, 0.0, np.zeros(count))


def history_of(name: str, folder: Path) -> Recorded:
    """Return a recorded history by its name."""
    path = None if name == "releases" else str(folder / f"{name}.parquet")
    return load(path, None if path is None else {"element": "element_id"})


def some(name: str, folder: Path, *, told: bool) -> Recorded:
    """Return a world, or a history."""
    if name in WORLDS:
        return world(name)
    recorded = history_of(name, folder)
    return some_elements(recorded, MOST_TOLD_ELEMENTS) if told else recorded


def knowing(recorded: Recorded, budget: float, seed: int = 1) -> dict[str, float]:
    """Return how right a forecaster is that knows all rates, on records as long as this one.

    Elements change independently, at constant rates, and are polled at equal intervals: all that is left to
    be wrong about is chance.
    """
    rng = np.random.default_rng(seed)
    there = recorded.since(float(np.quantile(recorded.born, 0.5, method="higher")))
    count, interval = len(there), 1.0 / (budget * there.rate / len(there))
    rates = np.maximum(np.bincount(there.elements, minlength=count), 0.5) / there.end
    polls, off, covered = int(there.end / interval) + 2, [], []
    for _ in range(RECORDS):
        rate = rates[rng.permutation(count)[:SAMPLED_ELEMENTS], None]
        asked = rng.uniform(there.end / 3.0, there.end, MOMENTS) + rng.uniform(0.0, interval, rate.shape)
        age = asked % interval
        first = rng.exponential(1.0, (rate.size, polls)) / rate  # change after each poll
        fresh = np.take_along_axis(first, (asked // interval).astype(int), axis=1) > age
        said = np.exp(-rate * age)
        error = (said - fresh).mean(axis=0)
        off.append(error.mean())
        margin = 1.645 * np.sqrt((said * (1.0 - said)).sum(axis=0)) / rate.size
        covered.append(float(np.mean(np.abs(error) <= margin)))
    share = np.array(covered)
    return {
        "rounds": 2.0 / 3.0 * there.end / interval,
        "off": 1.645 * float(np.std(off)) * min(SAMPLED_ELEMENTS / count, 1.0) ** 0.5,
        "low": float(np.quantile(share, 0.05)),
        "high": float(np.quantile(share, 0.95)),
        "within": float(np.mean((share >= WITHIN[0]) & (share <= WITHIN[1]))),
    }


def between(recorded: Recorded, budget: float) -> dict[str, float]:
    """Return how fresh copies are between polls at equal intervals, and what the ends of intervals say of it.

    All is exact for the record, over all moments of its last two thirds. A copy is fresh at an age with a
    probability that falls with the age, less and less steeply, whatever the law of the gaps.
    """
    there = some_elements(recorded, MOST_TOLD_ELEMENTS)
    start, count = there.end / 3.0, len(there)
    interval = 1.0 / (budget * there.rate / count)
    ages = np.linspace(0.0, 1.0, AGES) * interval
    fresh = np.zeros(AGES + 2)
    every = [*ages, 2.0 * interval, 3.0 * interval]
    for times in np.split(there.times, np.searchsorted(there.elements, np.arange(1, count))):
        inside = times[(times > start) & (times < there.end)]
        gaps = np.diff(np.concatenate([[start], inside, [there.end]]))
        for k, age in enumerate(every):
            fresh[k] += np.maximum(gaps - age, 0.0).sum() / (there.end - start - age) / count
    one, two, three = (float(-np.log(max(share, 1e-9))) for share in fresh[-3:])
    return {
        "end": float(fresh[AGES - 1]),
        "mean": float(np.trapezoid(fresh[:AGES], ages) / interval),
        "constant": (1.0 - float(fresh[AGES - 1])) / one,
        "continued": continued(one, two, three),
    }


def continued(one: float, two: float, three: float) -> float:
    """Return the mean over an interval of exp(-H), of which H is known after one, two and three of them.

    The slope of log H against the logarithm of time goes on downwards as it does from two to three.
    """
    octaves = np.linspace(0.0, -8.0, 400)
    slope, later = np.log2(two / one), np.log(three / two) / np.log(1.5)
    bend = min((later - slope) / (0.5 * np.log2(6.0) - 0.5), 0.0)
    slopes = np.clip(slope + bend * (octaves - 0.5), min(slope, 1.0), 1.0)
    steps = 0.5 * (slopes[1:] + slopes[:-1]) * np.diff(octaves)
    fresh = np.exp(-one * 2.0 ** np.concatenate([[0.0], np.cumsum(steps)]))
    return float(np.trapezoid(fresh[::-1], 2.0 ** octaves[::-1]) + 2.0**-8)


def play(results: Path, folder: Path) -> None:
    """Play what the results do not have yet."""
    found = json.loads(results.read_text()) if results.exists() else {}
    for budget in BUDGETS:
        for name in ALL_HISTORIES:
            if (key := f"{name} {budget:g}{KNOWING}") not in found:
                found[key] = knowing(history_of(name, folder), budget)
                results.write_text(json.dumps(found, indent=1))
            if (key := f"{name} {budget:g}{BETWEEN}") not in found and name in HISTORIES:
                found[key] = between(history_of(name, folder), budget)
                results.write_text(json.dumps(found, indent=1))
    for told in (False, True):
        for budget in BUDGETS:
            for name in (*WORLDS, *(HISTORIES if told else ALL_HISTORIES)):
                if (key := f"{name} {budget:g}{TOLD if told else ''}") not in found:
                    steps = TOLD_STEPS if told else STEPS
                    measured = calibration(some(name, folder, told=told), budget, told=told, steps=steps)
                    found[key] = asdict(measured)
                    results.write_text(json.dumps(found, indent=1))
                    sys.stderr.write(f"{key}\n")


TOLD, KNOWING, BETWEEN, HEAD_LINES = " told", " knowing", " between", 2


def table(found: dict[str, dict[str, float]], names: dict[str, str], told: str = "") -> list[str]:
    """Return the lines of a table in Markdown."""
    head = ["", "polls per change", "elements", "said", "true", "off by", "uncorrected", "chance", "ECE"]
    head += ["covered", "without", "width"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, title in names.items():
        rows = [(budget, found.get(f"{name} {budget:g}{told}")) for budget in BUDGETS]
        for number, (budget, one) in enumerate((budget, one) for budget, one in rows if one):
            off, laws = (100.0 * (one[key] - one["true"]) for key in ("predicted", "uncorrected"))
            error = one["expected_calibration_error"]
            lines.append(
                f"| {'' if number else title} | {budget:g} | {one['elements']:,} | {one['predicted']:.1%} "
                f"| {one['true']:.1%} | {off:+.1f} | {laws:+.1f} | ± {164.5 * one['error']:.1f} "
                f"| {error:.3f} | {one['coverage']:.0%} "
                f"| {one['independent_coverage']:.0%} | {100 * one['width']:.0f} |"
            )
    return lines


def knowing_table(found: dict[str, dict[str, float]]) -> list[str]:
    """Return how right a forecaster is that knows all rates."""
    lines = [
        "|  | polls per change | intervals in the record | off by | covers | between 88 and 92 % |",
        "|" + "---|" * 6,
    ]
    for name, title in ALL_HISTORIES.items():
        rows = [(budget, found.get(f"{name} {budget:g}{KNOWING}")) for budget in BUDGETS]
        for number, (budget, one) in enumerate((budget, one) for budget, one in rows if one):
            lines.append(
                f"| {'' if number else title} | {budget:g} | {one['rounds']:,.0f} | ± {100 * one['off']:.1f} "
                f"| {one['low']:.0%} to {one['high']:.0%} | {one['within']:.0%} |"
            )
    return lines


def between_table(found: dict[str, dict[str, float]]) -> list[str]:
    """Return what the ends of intervals say of the time in between."""
    head = ["", "polls per change", "fresh at the end", "on the whole", "possible", "by a constant rate"]
    head += ["continued from 1, 2, 3 intervals"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for name, title in HISTORIES.items():
        rows = [(budget, found.get(f"{name} {budget:g}{BETWEEN}")) for budget in BUDGETS]
        for number, (budget, one) in enumerate((budget, one) for budget, one in rows if one):
            off = [f"{100 * (one[key] - one['mean']):+.1f}" for key in ("constant", "continued")]
            lines.append(
                f"| {'' if number else title} | {budget:g} | {one['end']:.1%} | {one['mean']:.1%} "
                f"| {one['end']:.0%} to {0.5 * (1.0 + one['end']):.0%} | {' | '.join(off)} |"
            )
    return lines


def write(page: Path, results: Path) -> None:
    """Write the tables into the page."""
    found = json.loads(results.read_text())
    tables = {"histories": table(found, ALL_HISTORIES), "worlds": table(found, WORLDS)}
    tables["told"] = table(found, {**HISTORIES, **WORLDS}, TOLD)
    tables["knowing"], tables["between"] = knowing_table(found), between_table(found)
    write_tables(page, {name: lines for name, lines in tables.items() if len(lines) > HEAD_LINES})


if __name__ == "__main__":
    play_or_write(__doc__, PAGE, play, write)
