"""Hints under every objective: the real loop in simulated time does as well as the library's plan says."""

from itertools import pairwise

import numpy as np
import pytest

from unstale.estimation import HintedChanges, plan_hinted

from .worlds import DAY, START, add, make

COUNT, DAYS, WARM = 12, 60.0, 15.0
RECALL, FALSE_PER_CHANGE = 0.8, 0.25
TICK = 7200.0


def world_of(rates, seed):
    """Return the changes of elements, and the moments of hints about them."""
    rng = np.random.default_rng(seed)
    changes, hints = [], []
    for rate in rates:
        times = np.sort(rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS)))
        told = times[rng.random(times.size) < RECALL]
        false = rng.uniform(0.0, DAYS, rng.poisson(FALSE_PER_CHANGE * rate * DAYS))
        changes.append(times)
        hints.append(np.sort(np.concatenate([told, false])))
    return changes, hints


def mean_costs(polls, changes):
    """Return mean age and mean number of missed changes of copies, after the time of learning."""
    age = missed = 0.0
    for i, times in enumerate(changes):
        looks = np.append(np.sort(polls[i]), DAYS)
        for first, last in pairwise(looks):
            late = times[(times > first) & (times <= last)]
            late = late[late < DAYS]
            begin = max(first, WARM)
            if last <= WARM:
                continue
            if late.size:
                age += 0.5 * ((last - late[0]) ** 2 - max(begin - late[0], 0.0) ** 2)
                missed += float(np.sum(last - np.maximum(late, begin)))
    return age / (DAYS - WARM) / len(changes), missed / (DAYS - WARM) / len(changes)


def played(folder, objective, rates, seed, budget, *, hinted=True):
    changes, hints = world_of(rates, seed)
    content = {
        f"python:g/{i}": lambda now, i=i: str(np.searchsorted(changes[i], (now - START) / DAY)).encode()
        for i in range(len(rates))
    }
    mirror, world = make(
        folder, tick=TICK, content=content, budget=budget / DAY, objective=objective, reserve=DAY
    )
    with mirror:
        add(mirror, *(f"g/{i}" for i in range(len(rates))))
        told = sorted((time, i) for i, times in enumerate(hints) for time in times.tolist()) if hinted else []

        def tell(_event):
            while told and START + told[0][0] * DAY <= mirror.clock.now():
                time, i = told.pop(0)
                mirror.hint([f"python:g/{i}"], time=START + time * DAY)

        mirror.run(START + DAYS * DAY, on_event=tell)
    polls = [[] for _ in rates]
    for time, key in world.polls:
        polls[int(key.split("/")[1])].append((time - START) / DAY)
    return mean_costs(polls, changes), len(world.polls)


@pytest.mark.parametrize(
    ("objective", "seed"),
    [
        ("age", 2),
        pytest.param("age", 3, marks=pytest.mark.long),
        pytest.param("missed-updates", 2, marks=pytest.mark.long),
    ],
)
def test_hints_buy_what_the_plan_says(tmp_path, objective, seed):
    """What the mirror must learn first, rates and how good hints are, costs a part of what they save."""
    rates = np.random.default_rng(100 + seed).gamma(1.0, 0.25, COUNT) + 0.02
    budget = 0.6 * rates.sum()
    hinted = HintedChanges(rates, RECALL, FALSE_PER_CHANGE * rates)
    said = plan_hinted(hinted, budget, objective=objective).cost
    without = plan_hinted(HintedChanges(rates, 0.0, 0.0), budget, objective=objective).cost
    costs, polls = played(tmp_path, objective, rates, seed, budget)
    cost = costs[objective == "missed-updates"]
    assert polls >= 0.95 * budget * DAYS
    assert cost < without - 0.5 * (without - said)
    assert cost == pytest.approx(said, rel=0.2)
