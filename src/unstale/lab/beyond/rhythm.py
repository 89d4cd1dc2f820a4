"""After the rush: polling by a rhythm beside polling without one, and beside the exact optimum."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import unstale
from unstale.arguments import Floats
from unstale.lab.experiment import BEYOND, Claim, Line, Panel, Run, experiment, ours

if TYPE_CHECKING:
    from unstale.operational_time import (
        OperationalClock,
    )  # slow to import, and experiments are listed without it

_HOUR = np.arange(24)
RHYTHMS = {
    "office hours": np.where((_HOUR >= 9) & (_HOUR < 17), 2.5, 0.2),
    "a window at night": np.where((_HOUR >= 2) & (_HOUR < 5), 20.0, 0.3),
    "one hour": np.where(_HOUR == 3, 100.0, 0.2),
    "a wave": 1.0 + 0.8 * np.sin(2.0 * np.pi * _HOUR / 24.0),
    "two rushes": np.where((_HOUR == 6) | (_HOUR == 15), 30.0, 0.5),
}
RATES = (0.3, 1.0, 3.0)
INTERVALS = (3.0, 1.0, 0.5, 0.25, 0.125)
"""Days between polls that the price asks for without a rhythm."""
RULES = ("worth without rhythm", "worth in operational time", "constant J around the interval", "rule")
_STEPS_PER_DAY, _DAYS_AHEAD = 48, 6


@experiment(
    "beyond-rhythm", paper=BEYOND, where="operational time (docs/theory.md)",
    shows="polls after the rush: the rule against the exact optimum of the long run", seconds=20.0,
)  # fmt: skip
def rhythm(run: Run) -> Iterator[Claim | Panel]:
    """Play rules at constant prices on a grid of half hours, and find the best policy on it exactly."""
    rates = run.some(RATES, RATES[1:2])
    excess: dict[str, list[float]] = {name: [] for name in RULES}
    for levels in RHYTHMS.values():
        clock = unstale.operational_time.OperationalClock(levels, period=1.0)
        for rate in rates:
            costs = _costs(clock, rate)
            for interval in INTERVALS:
                price = float(unstale.worth("freshness", rate, interval))
                best = _least_mean_cost(costs, price)
                for name, steps in zip(RULES, _rules(clock, rate, price, interval), strict=True):
                    excess[name].append(100.0 * (_mean_cost(costs, steps, price) - best))
    found = np.array([excess[name] for name in RULES])
    flat, operational, constant, rule = found.mean(axis=1)
    yield ours("no rule beats the optimum", computed=bool((found > -1e-6).all()))
    yield ours("on average it is less than 0.6 points above the optimum", computed=bool(rule < 0.6))
    yield ours("the rule loses less than a third of what a constant J does",
               computed=bool(rule < constant / 3.0))  # fmt: skip
    yield ours("both lose less than a worth without rhythm, and one in operational time alone",
               computed=bool(constant < 0.5 * min(flat, operational)))  # fmt: skip
    yield ours("the rule loses 5 points at most", computed=bool(found[3].max() < 5.0))
    shape = (len(RHYTHMS), len(rates), len(INTERVALS))
    yield Panel(
        title="Cost above the exact optimum",
        x="polls per day without rhythm at the same price",
        y="points above the optimum, mean over rhythms and rates",
        lines=[
            Line.of(name, 1.0 / np.array(INTERVALS), found[k].reshape(shape).mean(axis=(0, 1)))
            for k, name in enumerate(RULES)
        ],
        log="x",
    )


def _costs(clock: OperationalClock, rate: float) -> Floats:
    """Return the expected staleness from each step of the day on, for each length of an interval."""
    steps, ahead = _STEPS_PER_DAY, _STEPS_PER_DAY * _DAYS_AHEAD
    hazard = rate * clock.at(np.arange(steps + ahead + 1) / steps)
    lost = np.empty((steps, ahead + 1))
    for i in range(steps):
        since = hazard[i : i + ahead + 1] - hazard[i]
        # within a step the hazard is linear: the mean of exp(-x) over it is exact
        fresh, gained = np.exp(-since), np.diff(since)
        mean = fresh[:-1] * np.where(gained > 1e-12, -np.expm1(-gained) / np.maximum(gained, 1e-300), 1.0)
        lost[i] = np.concatenate([[0.0], np.cumsum(1.0 - mean)]) / steps
    return lost


def _least_mean_cost(costs: Floats, price: float) -> float:
    """Return the least long-run cost per day of staleness and polls: that of the best cycle, by halving.

    A mean cost can be beaten if intervals, each less the mean times its length, add up to less than nothing
    around some cycle (Lawler 1976).
    """
    steps, ahead = costs.shape[0], costs.shape[1] - 1
    length = np.arange(1, ahead + 1)
    following = (np.arange(steps)[:, None] + length) % steps
    low, high = 0.0, 1.0 + price * steps
    for _ in range(40):
        mean = 0.5 * (low + high)
        ways = costs[:, 1:] + price - mean * length / steps
        value = np.zeros(steps)
        for _ in range(2 * steps):
            value, before = np.minimum((ways + value[following]).min(axis=1), value), value
            if (value == before).all():
                break
        low, high = (mean, high) if (value == before).all() else (low, mean)
    return low


def _mean_cost(costs: Floats, steps: Floats, price: float) -> float:
    """Return the long-run cost per day of a rule: so many steps after a poll in each step of the day."""
    place, total, time = 0, 0.0, 0
    for turn in range(900):
        if turn >= 300:
            total, time = total + costs[place, steps[place]] + price, time + int(steps[place])
        place = (place + int(steps[place])) % costs.shape[0]
    return float(total * costs.shape[0] / time)


def _rules(clock: OperationalClock, rate: float, price: float, interval: float) -> list[Floats]:
    """Return, for polls in each step of the day, after how many steps each rule polls again."""
    day, ahead = _STEPS_PER_DAY, _STEPS_PER_DAY * _DAYS_AHEAD
    passed = clock.at(np.arange(day + ahead + 1) / day)
    flat = np.full(day, round(interval * day))
    operational, constant, rule = np.empty((3, day), np.int64)
    staleness = 1.0 - np.exp(-rate * interval)
    first, last = max(1, round((interval - 0.5) * day)), min(ahead, round((interval + 0.5) * day))
    for i in range(day):
        since = passed[i : i + ahead + 1] - passed[i]
        operational[i] = min(ahead, max(1, int(np.searchsorted(since, interval))))
        stale = 1.0 - np.exp(-rate * since)
        cost = np.concatenate([[0.0], np.cumsum(0.5 * (stale[1:] + stale[:-1]))]) / day
        constant[i] = first + int(np.argmin((cost - staleness * since)[first : last + 1]))
        moment = clock.next_poll(rate, i / day, price, horizon=float(_DAYS_AHEAD))
        rule[i] = min(ahead, max(1, round((min(moment, 1e3) - i / day) * day)))
    return [flat, operational, constant, rule]
