"""``unstale simulate``: policies tried on the same changes, event by event."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from unstale import quantities
from unstale.cli.shared.options import (
    DURATION,
    POLICIES,
    RULES,
    SHARE,
    SLOTTED,
    Count,
    Quantity,
    check_out,
    out_option,
    plot_option,
    problem_options,
    seed_option,
)
from unstale.cli.shared.plots import check_plot
from unstale.cli.shared.printing import print_json
from unstale.cli.shared.problem import as_objective
from unstale.cli.shared.progress import progress, told_of_compilation
from unstale.cli.shared.when import check_jitter, moment_or_seconds, span_or_nothing, window_clock
from unstale.errors import InvalidInput
from unstale.tables import HISTORY_ROLES, ROLES, open_rows

from .rate_distributions import DISTRIBUTIONS, read_distribution

if TYPE_CHECKING:
    from unstale.simulation import Conditions

    from .input import Scene

_DEFAULT = ("uniform", "proportional", "optimal")
_EXAMPLES = f"""\b
Examples:
  unstale simulate
  unstale simulate pages.csv --budget 1000/day --horizon 1y --plot policies.svg
  unstale simulate pages.csv --budget 1000/day --policy optimal --policy nutch
  unstale simulate changes.parquet --column element=path --budget 50/h
  unstale simulate --rates gamma:mean=1/day,spread=1 --elements 1000 --budget 500/day

\b
Policies:
  {", ".join(POLICIES)}
  {", ".join(SLOTTED)}
  rules of tools: {", ".join(RULES[:4])},
    {", ".join(RULES[4:])}
  all

\b
Distributions for --rates (spread: standard deviation over mean):
  {f"{chr(10)}  ".join(family.example for family in DISTRIBUTIONS.values())}
"""


@click.command(epilog=_EXAMPLES)
@problem_options(file_required=False, budget_required=False, roles=(*ROLES, *HISTORY_ROLES))
@click.option(
    "--rates",
    type=Quantity("DISTRIBUTION", read_distribution),
    help="Draw change rates, in place of FILE: gamma:mean=1/day,spread=1.",
)
@click.option("--elements", "count", type=Count(1), help="How many, with --rates.")
@click.option(
    "--policy",
    "policies",
    type=click.Choice([*POLICIES, *SLOTTED, *RULES, "all"]),
    multiple=True,
    metavar="POLICY",
    help="May be given several times; see below.  [default: uniform, proportional, optimal]",
)
@click.option(
    "--horizon",
    type=DURATION,
    help="How long to simulate: 1y.  [default: all of a history; else long enough to tell]",
)
@click.option(
    "--burn-in",
    type=Quantity("TIME", span_or_nothing),
    help="How much of it is not measured.  [default: a fifth]",
)
@seed_option
@click.option(
    "--from",
    "begin",
    type=Quantity("MOMENT", moment_or_seconds),
    help="Time 0 of a history (default: its first change) or of windows: 2026-01-31T12:00Z.",
)
@click.option("--jitter", type=SHARE, help="Vary intervals by up to: 5%.")
@click.option("--window", metavar="WHEN", help='Poll only then: "mon-fri 22:00-06:00 Europe/Berlin".')
@click.option("--accesses", type=Quantity("REQUESTS/TIME", quantities.frequency), help="Requests: 100/h.")
@click.option("--zipf", "skew", type=click.FloatRange(0), metavar="SKEW", help="Weights by Zipf's law: 1.")
@click.option(
    "--alignment",
    type=click.Choice(["aligned", "reverse", "shuffled"]),
    help="With --zipf: who is wanted most changes most, least, or either.  [default: shuffled]",
)
@click.option("--late", type=DURATION, help="Polls are late by, on average: 5min.")
@click.option("--takes", type=DURATION, help="Polls take, on average: 2s.")
@click.option("--fails", type=SHARE, help="Share of polls that fail: 1%.")
@click.option(
    "--batches", type=Count(2), default=32, help="Stretches of time whose spread gives the standard errors."
)
@plot_option
@out_option("results of each element")
def simulate(
    *,
    file: str | None,
    as_json: bool,
    policies: tuple[str, ...],
    horizon: float | None,
    burn_in: float | None,
    seed: int,
    jitter: float | None,
    window: str | None,
    late: float | None,
    takes: float | None,
    fails: float | None,
    batches: int,
    plot: str | None,
    out: str | None,
    **options: Any,  # noqa: ANN401
) -> None:
    """Try policies on the same changes, event by event.

    FILE has elements, as for unstale plan, which then change at random times of their rates; the column rate
    is taken for certain. Or it is a history with the columns element and t (seconds or timestamps), one row
    for each change. Without FILE and --rates, the elements are the bundled example.

    Policies that plan know the true rates. The rules of tools (nutch, heritrix, ...) take as many polls as
    they like; beside them stands what as many polls give if shared uniformly or optimally.
    """
    from .input import set_scene
    from .report import SimulationReport, element_columns
    from .run import SimulationRun, gives_up, horizon_of, player, settling

    check_plot(plot)
    check_out(out, file)
    check_jitter(options["order"], jitter)
    if options["objective"] is not None:
        as_objective(options["objective"], options["rate_unit"])
    chosen = _chosen(policies)
    scene = set_scene(file, seed=seed, **options)
    _check(scene, chosen, options, begin_needs_window=window is None)
    unit = scene.problem.task.unit
    with told_of_compilation() as compiled:
        players = {name: player(scene, name) for name in chosen}
        length = horizon_of(scene, players, horizon)
        run = SimulationRun(
            scene=scene,
            horizon=length,
            burn_in=_burn_in(scene, length, burn_in),
            seed=seed,
            jitter=jitter or 0.0,
            windows=None if window is None else window_clock(window, scene.moment, unit),
            conditions=_conditions(unit.seconds, late, takes, fails),
            batches=batches,
        )
        began = time.perf_counter()
        result = run.play(players)
        took = 0.0 if compiled() else time.perf_counter() - began
        same = {name: run.with_as_many_polls(result[name]) for name in chosen if name in RULES}
    simulated = SimulationReport(
        scene,
        result,
        gives_up=[name for name, one in players.items() if gives_up(scene, name, one)],
        unsettled=[name for name, one in players.items() if settling(scene, name, one) > run.burn_in],
        unconfined=[name for name in chosen if name not in POLICIES] if window or jitter else [],
        same_polls=same,
        took=took,
    )
    if plot is not None:
        from .plot import draw_simulation

        with progress("drawing"):
            draw_simulation(plot, simulated)
    if out is not None:
        with progress(f"writing {out}"), open_rows(out, element_columns(scene)) as write:
            for name in chosen:
                write(*simulated.element_rows(name))
    if as_json:
        print_json(simulated.as_json() | {"plot": plot, "out": out})
    else:
        simulated.print(plot, out)


def _chosen(policies: tuple[str, ...]) -> list[str]:
    if "all" in policies:
        return [*POLICIES, *SLOTTED, *RULES]
    return list(dict.fromkeys(policies or _DEFAULT))


def _check(scene: Scene, chosen: Sequence[str], options: dict[str, Any], *, begin_needs_window: bool) -> None:
    """Refuse what cannot be simulated as asked."""
    if options["budget"] is None and not scene.problem.task.amount and not set(chosen) <= set(RULES):
        raise InvalidInput("--budget must be given, such as 1000/day; only rules of tools do without")
    if options["begin"] is not None and begin_needs_window and not scene.recorded:
        raise InvalidInput("--from needs a history or --window")
    if scene.problem.limits and (free := [name for name in chosen if name in {*SLOTTED, *RULES}]):
        given = ("min_frequency", "max_frequency", "group_limit")
        limit = next(f"--{name.replace('_', '-')}" for name in given if options[name] is not None)
        raise InvalidInput(f"{limit} cannot be combined with --policy {free[0]}, which keeps no limits")


def _burn_in(scene: Scene, length: float, asked: float | None) -> float:
    """Return what is not measured, in the unit of the rates; ``asked`` is in seconds."""
    burn = length / 5 if asked is None else asked / scene.problem.task.unit.seconds
    if burn >= length:
        show = scene.problem.task.show_time
        raise InvalidInput(f"--burn-in must be shorter than the horizon, {show(length)}; it is {show(burn)}")
    return burn


def _conditions(
    seconds: float, late: float | None, takes: float | None, fails: float | None
) -> Conditions | None:
    if late is None and takes is None and fails is None:
        return None
    from unstale.simulation import Conditions

    return Conditions((late or 0.0) / seconds, (takes or 0.0) / seconds, fails or 0.0)
