"""``make bench``: each figure beside its yardstick, from the same run. Ratios count; the times depend on the
machine. ``python -m benchmarks planning huge`` runs some parts only."""

import sys

from benchmarks import (
    estimation,
    huge,
    inverse_worth,
    learning,
    planning,
    profiles,
    schedules,
    simulation,
    solvers,
)

PARTS = {
    "inverse-worth": inverse_worth.run,
    "planning": planning.run,
    "solvers": solvers.run,
    "huge": huge.run,
    "schedules": schedules.run,
    "simulation": simulation.run,
    "estimation": estimation.run,
    "learning": learning.run,
    "histories": learning.histories,
    "profiles": profiles.run,
}


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in chosen if name not in PARTS]:
        sys.exit(f"benchmarks: there is no part {unknown[0]!r}; the parts are {', '.join(PARTS)}")
    for name in chosen:
        PARTS[name]()


if __name__ == "__main__":  # processes that a benchmark starts import this file too
    main()
