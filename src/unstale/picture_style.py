"""What all pictures have in common: colours that the colour-blind can tell apart, a style, and files."""

from __future__ import annotations

from contextlib import AbstractContextManager
from io import BytesIO
from typing import TYPE_CHECKING

from .errors import need
from .tables import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.typing import LineStyleType

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MARKERS = "osD^vPX"
"""A marker for each colour, so that grey print can be read."""
DASHES: tuple[LineStyleType, ...] = (
    "-",
    "--",
    "-.",
    ":",
    (0, (6, 1.5, 1, 1.5, 1, 1.5)),
    (0, (9, 2)),
    (0, (3, 1.2)),
)
"""Likewise a way to draw a line."""
STYLE = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.8,
    "svg.hashsalt": "unstale",  # the same bytes each time
}


def styled() -> AbstractContextManager[None]:
    """Return a context in which all pictures have the same style."""
    return need("matplotlib", extra="lab", needed_for="plots").rc_context(STYLE)


def new_figure(width: float, height: float) -> Figure:
    """Return an empty picture, in inches."""
    figure = need("matplotlib.figure", extra="lab", needed_for="plots").Figure
    return figure(figsize=(width, height), layout="constrained")


def rendered(figure: Figure, kind: str) -> bytes:
    """Return the bytes of a picture as svg, png or pdf: the same each time."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    file = BytesIO()
    figure.savefig(file, format=kind, dpi=150, metadata=undated.get(kind))
    return file.getvalue()


def save(figure: Figure, path: str) -> None:
    """Write a picture, whole or not at all."""
    content = rendered(figure, path.lower().rpartition(".")[2])
    with replacing(path) as file:
        file.write(content)
