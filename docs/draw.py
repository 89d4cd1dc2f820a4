"""Draw the picture of docs/theory.md: ``.venv/bin/python docs/draw.py`` (needs the extra ``lab``)."""

from pathlib import Path

import numpy as np

import unstale
from unstale.errors import need

mpl = need("matplotlib", extra="lab", needed_for="pictures")

mpl.use("svg")
mpl.rcParams["svg.hashsalt"] = "unstale"  # the same bytes each time
import matplotlib.pyplot as plt  # noqa: E402  (after the choice of back end)

PRICE = 0.8
RATES = {
    0.1: "#0072B2",
    0.3: "#009E73",
    0.5: "#D55E00",
    2.0: "#555555",
}  # colours that the colour-blind can tell apart


def main() -> None:
    """Write worth-and-price.svg beside this file."""
    days = np.linspace(0, 8, 400)
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    axes.axhline(PRICE, color="black", linewidth=1, linestyle="--")
    axes.annotate(
        f"price: {PRICE} days", (7.95, PRICE), textcoords="offset points", xytext=(0, 5), ha="right"
    )
    for (rate, colour), marker in zip(RATES.items(), "osD^", strict=True):
        axes.plot(days, unstale.worth("freshness", rate, days), color=colour, linewidth=2)
        poll = float(unstale.interval("freshness", rate, PRICE))
        end = float(unstale.worth("freshness", rate, days[-1]))
        label = f"{rate:g} changes a day: " + (f"every {poll:.1f} days" if np.isfinite(poll) else "never")
        if np.isfinite(poll):
            axes.plot(poll, PRICE, marker, color=colour, markersize=8, label=label)
        else:
            axes.plot(days[-1], end, marker, color=colour, markersize=8, label=label, clip_on=False)
    axes.set(
        xlabel="days since the last poll",
        ylabel="worth of a poll (days)",
        xlim=(0, 8),
        ylim=(0, 2.2),
        title="An element is polled when its worth reaches the price",
    )
    axes.legend(frameon=False, loc="upper left")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).with_name("worth-and-price.svg"), metadata={"Date": None})


main()
