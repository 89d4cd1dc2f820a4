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


def play(results: Path, folder: Path) -> None:
    """Play what the results do not have yet."""
    found = json.loads(results.read_text()) if results.exists() else {}
    for told in (False, True):
        for budget in BUDGETS[:2] if told else BUDGETS:
            for name in (*WORLDS, *(HISTORIES if told else ALL_HISTORIES)):
                if (key := f"{name} {budget:g}{TOLD if told else ''}") not in found:
                    steps = TOLD_STEPS if told else STEPS
                    measured = calibration(some(name, folder, told=told), budget, told=told, steps=steps)
                    found[key] = asdict(measured)
                    results.write_text(json.dumps(found, indent=1))
                    sys.stderr.write(f"{key}\n")


TOLD, HEAD_LINES = " told", 2


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


def write(page: Path, results: Path) -> None:
    """Write the tables into the page."""
    found = json.loads(results.read_text())
    tables = {"histories": table(found, ALL_HISTORIES), "worlds": table(found, WORLDS)}
    tables["told"] = table(found, {**HISTORIES, **WORLDS}, TOLD)
    write_tables(page, {name: lines for name, lines in tables.items() if len(lines) > HEAD_LINES})


if __name__ == "__main__":
    play_or_write(__doc__, PAGE, play, write)
