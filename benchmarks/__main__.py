"""``make bench``: each figure beside its yardstick, from the same run. Ratios count; the times depend on the
machine. ``python -m benchmarks planning huge`` runs some parts only; some others run only if asked for."""

import sys

from benchmarks import (
    dashboard,
    estimation,
    fetching,
    fleet,
    huge,
    inverse_worth,
    learning,
    mirror,
    planning,
    policy,
    profiles,
    rendering,
    schedules,
    simulation,
    solvers,
    startup,
    vacuum,
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
    "policy": policy.run,
    "profiles": profiles.run,
    "mirror": mirror.run,
    "dashboard": dashboard.run,
    "fetching": fetching.run,
    "startup": startup.run,
    "rendering": rendering.run,
}
MORE = {"rules": learning.rules, "fleet": fleet.run, "vacuum": vacuum.run}
"""Many minutes each."""


def main() -> None:
    chosen = sys.argv[1:] or list(PARTS)
    parts = PARTS | MORE
    if unknown := [name for name in chosen if name not in parts]:
        sys.exit(f"benchmarks: there is no part {unknown[0]!r}; the parts are {', '.join(parts)}")
    for name in chosen:
        parts[name]()


if __name__ == "__main__":  # processes that a benchmark starts import this file too
    main()
