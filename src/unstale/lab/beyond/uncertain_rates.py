"""Rates that are known from a few polls: plans by likeliest rates, by what rates may be, and by learning."""

from collections.abc import Iterator

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, experiment, ours

POLLS = (2, 5, 10, 20, 50, 100)
KNOWING, LIKELIEST, AVERAGED, UNIFORM = (
    "rates known",
    "likeliest rates",
    "averaged over what rates may be",
    "uniform",
)
LEARNING = {"uniform": UNIFORM, "estimated-optimal": LIKELIEST, "learning": "learning", "optimal": KNOWING}


@experiment("beyond-uncertain-rates", paper=BEYOND, where="uncertain rates", seconds=15.0)
def uncertain_rates(run: Run) -> Iterator[Claim | Panel]:
    """Planning with few polls seen: likeliest rates against averages over the doubt.

    Poll elements a few times, plan one poll per change, and see what that buys.
    """
    count, rng = run.some(2000, 400), run.rng(6)
    gamma, lognormal = rng.gamma(2.0, 0.5, size=count), rng.lognormal(-0.5, 1.0, size=count)
    counts = run.some(POLLS, (5, 20))
    for done, (name, rates, sure) in enumerate((("gamma", gamma, (5, 20)), ("lognormal", lognormal, (20,)))):
        likeliest, averaged = np.transpose([_bought(rng, rates, polls) for polls in counts])
        known = unstale.plan(rates, count).freshness
        uniform = float(unstale.freshness(rates, 1.0).mean())
        for polls in sure:
            at = counts.index(polls)
            yield ours(f"{name} rates, {polls} polls of each: averaging over the doubt is fresher",
                       computed=bool(averaged[at] > likeliest[at]))  # fmt: skip
        share = (averaged[counts.index(20)] - uniform) / (known - uniform)
        yield ours(f"{name} rates, 20 polls: more than half of what knowing them would gain over uniform",
                   computed=bool(share > 0.5))  # fmt: skip
        flat = np.ones(len(counts))
        yield Panel(
            title=f"Plans after so many polls, {name} rates",
            x="polls seen of each element",
            y="freshness (share of time)",
            lines=[
                Line.of(KNOWING, counts, known * flat),
                Line.of(AVERAGED, counts, averaged),
                Line.of(LIKELIEST, counts, likeliest),
                Line.of(UNIFORM, counts, uniform * flat),
            ],
            log="x",
        )
        run.advance(0.4 * (done + 1))
    yield from _learning(lognormal, run)


def _bought(rng: np.random.Generator, rates: Floats, polls: int) -> tuple[float, float]:
    """Freshness by the likeliest rates, and by the posterior, after so many polls at unit intervals."""
    elements = np.repeat(np.arange(rates.size), polls)
    changed = rng.random(elements.size) < -np.expm1(-rates[elements])
    found = unstale.estimate_rates(elements, np.ones(elements.size), changed)
    # as a tool would do it: no change seen counts as half a change
    mle = unstale.estimate_rates(elements, np.ones(elements.size), changed, method="mle").rate
    plans = unstale.plan(np.maximum(mle, 0.5 / polls), rates.size), unstale.plan(found.law, rates.size)
    by_mle, by_law = (float(unstale.freshness(rates, one.frequencies).mean()) for one in plans)
    return by_mle, by_law


def _learning(rates: Floats, run: Run) -> Iterator[Claim | Panel]:
    """Start with nothing but the list of elements, and learn round by round."""
    rounds = run.some(100, 14)
    result = unstale.simulate(
        rates, rates.size, policies=list(LEARNING), horizon=rounds, burn_in=0.0, batches=rounds, seed=run.seed
    )
    curves = {name: result[name].freshness_over_time[1] for name in LEARNING}
    late = {name: float(curve[rounds * 2 // 3 :].mean()) for name, curve in curves.items()}
    yield ours("learning, last third of the rounds: fresher than uniform",
               computed=late["learning"] > late["uniform"])  # fmt: skip
    yield ours("planning anew with the likeliest rates in each round: worse than uniform",
               computed=late["estimated-optimal"] < late["uniform"],
               why="what seems fast is given up, and never polled again to see the mistake")  # fmt: skip
    share = (late["learning"] - late["uniform"]) / (late["optimal"] - late["uniform"])
    least = run.some(0.5, 0.2)
    yield ours(f"learning, last third: more than {least} of what knowing the rates would gain over uniform",
               computed=share > least)  # fmt: skip
    yield Panel(
        title="Learning from the first poll on, simulated",
        x="round (one poll per element on average)",
        y="freshness (share of time)",
        lines=[Line.of(label, np.arange(1, rounds + 1), curves[name]) for name, label in LEARNING.items()],
    )
