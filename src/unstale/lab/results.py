"""What came out, as people and programs read it: numbers with sensible digits, CSV and JSON."""

from __future__ import annotations

import csv
import platform
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from io import StringIO
from math import floor, isfinite, log10
from pathlib import Path
from typing import Any

from unstale.tables import replacing

from .experiment import Claim, Findings, Panel, Run, Table, Verdict
from .histories import BUNDLED
from .running import Done

NOTHING = "\u2013"
_PACKAGES = ("unstale", "numpy", "scipy", "numba", "matplotlib")


def show_claim(claim: Claim) -> tuple[str, str, str]:
    """Return what is claimed, what is published and what is computed, for a table.

    >>> from .experiment import number, statement
    >>> show_claim(number("gain", published=0.63, computed=0.6321206, within=0.005))
    ('gain', '0.63', '0.6321')
    >>> show_claim(statement("any rates", says="uniform is fresher", holds=True))
    ('any rates: uniform is fresher', 'stated', 'holds')
    """
    what = f"{claim.what}: {claim.published}" if isinstance(claim.published, str) else claim.what
    match claim.published:
        case None:
            published, digits = NOTHING, None
        case str():
            published, digits = "stated", None
        case value:
            digits = _decimals(value, claim.within)
            published = show(value, digits)
    match claim.computed:
        case None:
            computed = NOTHING
        case bool():
            computed = "holds" if claim.computed else "does not hold"
        case value:
            computed = show(value, None if digits is None else digits + 2)
    return what, published, computed


def _decimals(published: float, within: float) -> int | None:
    """Return how many digits a paper prints after the point: those there are, or that rounding implies.

    A fraction, such as 1/3, has no number of digits.
    """
    there = len(f"{published:.10f}".rstrip("0").partition(".")[2])
    implied = floor(-log10(2 * within) + 1e-9) if within >= 5e-7 else 0  # with less, it is meant exactly
    return None if there > 8 else max(there, implied)


def show(value: float, digits: int | None = None) -> str:
    """Return a number with so many digits after the point; without a number of them, with six in all.

    >>> show(500000.0), show(0.123456789), show(2.5e-7, 4), show(1234.5678, 2), show(2.0, 3)
    ('500,000', '0.123457', '2.5e-07', '1,234.57', '2.000')
    """
    if not isfinite(value):
        return str(value)
    if digits is None and value == round(value) and abs(value) < 1e12:
        return f"{value:,.0f}"
    if digits is None or (value and not 1e-4 <= abs(value) < 1e12):
        return f"{value:,.6g}"
    return f"{value:,.{digits}f}"


def as_csv(table: Table) -> str:
    """Return a table as CSV."""
    return _csv(table.columns, zip(*(_plain(column) for column in table.columns.values()), strict=True))


def figure_csv(panels: Sequence[Panel]) -> str:
    """Return the data of a figure as one tidy CSV: a row for each point."""
    rows = []
    for panel in panels:
        for line in panel.lines:
            errors = [""] * line.x.size if line.error is None else line.error.tolist()
            places = (
                [panel.names[round(x)] if 0 <= round(x) < len(panel.names) else x for x in line.x.tolist()]
                if panel.names
                else line.x.tolist()
            )
            points = zip(places, line.y.tolist(), errors, strict=True)
            rows += [(panel.title, line.label, *point) for point in points]
    return _csv(("panel", "line", "x", "y", "error"), rows)


def _csv(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{cell:.12g}" if isinstance(cell, float) else cell for cell in row] for row in rows)
    return text.getvalue()


def _plain(column: Sequence[object]) -> list[object]:
    """Return the entries of a column as Python has them, whether they are NumPy's or not."""
    return [one.item() if hasattr(one, "item") else one for one in column]


def files_of(done: Done) -> dict[str, bytes]:
    """Return the files of an experiment by their names: its figure, the data of it, and its tables.

    Names of experiments and words have no dots in them, so no file has the name of another.
    """
    name = done.experiment.name
    files = {f"{name}.{kind}": content for kind, content in done.pictures.items()}
    if done.findings.panels:
        files[f"{name}.csv"] = figure_csv(done.findings.panels).encode()
    for at, table in enumerate(done.findings.tables, start=1):
        words = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:60] or str(at)
        key = f"{name}.{words}.csv"
        files[f"{name}.{words}.{at}.csv" if key in files else key] = as_csv(table).encode()
    return files


def write_files(folder: str, files: dict[str, bytes]) -> None:
    """Write files into a folder, each whole or not at all."""
    Path(folder).mkdir(exist_ok=True)
    for name, content in files.items():
        with replacing(str(Path(folder) / name)) as file:
            file.write(content)


def versions() -> dict[str, str]:
    """Return the versions of all that has a part in the numbers."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


@dataclass(frozen=True, eq=False)
class Results:
    """What came out of several experiments, in the order of the list, and how they were run."""

    run: Run
    done: Sequence[Done]
    made: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def agree(self) -> bool:
        """Whether all experiments ran, and each claim is reproduced, explained or excused."""
        return all(one.agrees for one in self.done)

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many claims met which verdict; those that occur."""
        return Findings([claim for one in self.done for claim in one.findings.claims], [], []).counts

    @property
    def history(self) -> str:
        """Name of the recorded history."""
        return BUNDLED if self.run.history is None else Path(self.run.history).resolve().name

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON has it; what is infinite or undefined is null."""
        return {
            "agree": self.agree,
            "counts": {str(verdict): count for verdict, count in self.counts.items()},
            "quick": self.run.quick,
            "seed": self.run.seed,
            "history": self.history,
            "versions": versions(),
            "experiments": [_as_json(one) for one in self.done],
        }


def _as_json(done: Done) -> dict[str, Any]:
    one, findings = done.experiment, done.findings
    return {
        "name": one.name,
        "paper": str(one.paper),
        "where": one.where,
        "shows": one.shows,
        "took": done.seconds,
        "agrees": done.agrees,
        "failure": done.failure or None,
        "claims": [
            {
                "what": claim.what,
                "published": _finite(claim.published),
                "computed": _finite(claim.computed),
                "within": _finite(claim.within),
                "verdict": str(claim.verdict),
                "why": claim.why,
            }
            for claim in findings.claims
        ],
        "panels": [
            {
                "title": panel.title,
                "x": panel.x,
                "y": panel.y,
                "names": list(panel.names),
                "lines": [
                    {"label": line.label, "kind": line.kind}
                    | {
                        name: None if values is None else [_finite(value) for value in values.tolist()]
                        for name, values in (("x", line.x), ("y", line.y), ("error", line.error))
                    }
                    for line in panel.lines
                ],
            }
            for panel in findings.panels
        ],
        "tables": [
            {
                "title": table.title,
                "columns": {
                    name: [_finite(value) for value in _plain(column)]
                    for name, column in table.columns.items()
                },
            }
            for table in findings.tables
        ],
    }


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if isinstance(value, bool | int | str | None) else str(value)


def rows_of(table: Table) -> Iterator[tuple[str, ...]]:
    """Return the rows of a table for people."""
    columns = [_plain(column) for column in table.columns.values()]
    for row in zip(*columns, strict=True):
        yield tuple(show(cell) if isinstance(cell, float) else str(cell) for cell in row)
