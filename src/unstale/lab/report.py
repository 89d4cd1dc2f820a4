"""One HTML file with all that came out: no network, printable, and readable on a phone."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64encode
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice

from unstale.errors import need

from .experiment import Paper, Verdict
from .results import Results, files_of, rows_of, show_claim, versions
from .running import Done

MEANINGS = {
    Verdict.REPRODUCES: "Ours rounds to the published number, or the statement holds.",
    Verdict.APPROXIMATELY: "Ours is near, and what is said below the claim explains the rest.",
    Verdict.CANNOT: "The paper does not say all that it takes, or it depends on a machine that is gone.",
    Verdict.PAPER_IN_ERROR: "Ours is not what is published, but what is right by another source.",
    Verdict.OURS: "The paper does not say it; where a value is known from elsewhere, ours is that.",
    Verdict.DIFFERS: "Neither reproduced nor explained: a mistake of ours until shown otherwise.",
}
_MOST_SVG_BYTES = 400_000
"""Bytes of an SVG above which the PNG is taken."""
_MOST_PHONE_LETTERS = 45.0
"""Letters of the text up to which a figure, of one panel then, can be read when a phone makes it smaller."""
_MOST_ROWS_SHOWN = 200
"""Rows of a table that are shown; its file has all."""


@dataclass(frozen=True, eq=False)
class _Shown:
    """What the template shows of an experiment."""

    done: Done

    @property
    def claims(self) -> list[tuple[str, str, str, Verdict, str]]:
        return [(*show_claim(claim), claim.verdict, claim.why) for claim in self.done.findings.claims]

    @property
    def figure(self) -> str:
        drawn = self.done.pictures
        if not drawn:
            return ""
        if len(svg := _small(drawn["svg"])) <= _MOST_SVG_BYTES:
            return _address("image/svg+xml", svg)
        return _address("image/png", drawn["png"])

    @property
    def widths(self) -> tuple[float, float]:
        """How wide the figure is at least, so that it can be read, and at most; in letters of the text."""
        width = struct.unpack(">I", self.done.pictures["png"][16:20])[0] / 20
        return 0.66 * width if width > _MOST_PHONE_LETTERS else 0.0, width

    @property
    def alt(self) -> str:
        parts = [
            f"{panel.title} ({panel.y} against {panel.x}: {', '.join(line.label for line in panel.lines)})"
            for panel in self.done.findings.panels
        ]
        return f"{self.done.experiment.where}. {'; '.join(parts)}"

    @property
    def tables(self) -> list[tuple[str, list[str], list[tuple[str, ...]], int]]:
        shown = []
        for table in self.done.findings.tables:
            rows = list(islice(rows_of(table), _MOST_ROWS_SHOWN))
            count = max((len(column) for column in table.columns.values()), default=0)
            shown.append((table.title, list(table.columns), rows, count - len(rows)))
        return shown

    @property
    def files(self) -> list[tuple[str, str, str]]:
        found = {name: content for name, content in files_of(self.done).items() if name.endswith(".csv")}
        return [
            (name, _address("text/csv;charset=utf-8", content), f"{max(1, round(len(content) / 1000)):,} kB")
            for name, content in found.items()
        ]


def _small(svg: bytes) -> bytes:
    """Leave out what makes no visible difference: indentation, comments, and thousandths of a point."""
    svg = re.sub(rb"<!--.*?-->|<metadata>.*?</metadata>", b"", svg, flags=re.DOTALL)
    svg = re.sub(rb'(?<=[ "])(-?\d+\.\d\d)\d+(?=[ "\n])', rb"\1", svg)
    return re.sub(rb"\s*\n\s*", b"\n", svg)


def _address(kind: str, content: bytes) -> str:
    """Return an address that has the content in itself."""
    return f"data:{kind};base64,{b64encode(content).decode()}"


def report_files(results: Results) -> dict[str, bytes]:
    """Return the report, and the same for programs, by the names of their files."""
    jinja = need("jinja2", extra="lab", needed_for="reports")
    environment = jinja.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja.StrictUndefined
    )
    environment.filters["slug"] = lambda text: str(text).replace(" ", "-")
    template = environment.from_string(files("unstale.lab").joinpath("report.html.j2").read_text("utf-8"))
    done = [_Shown(one) for one in results.done]
    papers: dict[Paper, list[_Shown]] = {}
    for one in done:
        papers.setdefault(one.done.experiment.paper, []).append(one)
    html = template.render(
        results=results,
        done=done,
        papers=papers,
        versions=versions(),
        meanings=MEANINGS,
    )
    data = json.dumps(results.as_json(), indent=1, allow_nan=False, ensure_ascii=False)
    return {"report.html": html.encode(), "results.json": data.encode() + b"\n"}
