"""The public API as a typed user sees it: checked by ``make lint`` (mypy), never run."""

from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import unstale

Floats = NDArray[np.float64]


def use() -> None:
    assert_type(unstale.freshness(1.0, [1.0, 2.0]), Floats)
    assert_type(unstale.age(np.ones(3), 2, order="purely-random"), Floats)
    assert_type(unstale.worth("freshness", 1.0, 2.0), Floats)
    assert_type(unstale.interval(unstale.currency(0.5), unstale.Weibull(0.5, [1.0, 2.0]), 0.1), Floats)
    assert_type(unstale.mean_cost(unstale.Harmonic(), unstale.Poisson(2.0), 1.0), Floats)
    assert_type(unstale.perceived_freshness([1, 2], [1, 2], [1, 2]), float)
    plan = unstale.plan([1, 2, 3], 5, weights=None, objective="age", policy="optimal", order="fixed")
    assert_type(plan, unstale.Plan)
    assert_type(plan.frequencies, Floats)
    assert_type(plan.price, float)
    unstale.freshness(1.0, 1.0, order="fixd")  # type: ignore[arg-type]
    estimate = unstale.estimate_rate([1.0, 2.0], [True, False])
    assert_type(estimate.rate, float)
    unstale.plan(estimate.law, 1.0)
    unstale.estimate_rate([1.0], [True], method="bays")  # type: ignore[arg-type]
    assert_type(unstale.estimate_rates([0, 1], [1.0, 2.0], [True, False]).low, Floats)
    assert_type(unstale.Learning(3, 1.0).polls(2.0).times, Floats)
    law: unstale.Process = unstale.Empirical([1, 2, 3])
    law = unstale.Pareto(3.0, 1.0)
    assert_type(unstale.Gamma(2, 3).shape, Floats)
    objective: unstale.Objective = unstale.SourcePenalty(unstale.penalties.named("x"))
    unstale.mean_cost(objective, law, 1.0)


class Hourly:
    """A policy that learns, as a user writes one."""

    step = 1.0

    def polls(self, end: float) -> unstale.schedule.Polls:
        return unstale.schedule.Polls(np.array([end - 0.5]), np.array([0]))

    def learn(self, outcomes: unstale.simulation.Outcomes) -> None:
        assert_type(outcomes.times, Floats)


def use_schedules_and_simulations() -> None:
    schedule = unstale.Schedule(unstale.plan([1, 2], 3).frequencies, order="random", jitter=0.0, seed=1)
    stream: unstale.schedule.Stream = schedule
    for stream in (unstale.EarliestDeadline([1.0, 2.0]), unstale.Index([1.0, 2.0], 3.0)):
        assert_type(stream.until(5.0), unstale.schedule.Polls)
    assert_type(schedule.until(1.0).times, Floats)
    assert_type(schedule.frequencies, Floats)
    for time, element in schedule:
        assert_type((time, element), tuple[float, int])
    schedule.swap([2, 3])
    assert_type(schedule.add([1.0], at_once=True), NDArray[np.int64])
    schedule.remove([0])
    assert_type(unstale.Schedule.resume(schedule.state()), unstale.Schedule)
    unstale.Schedule([1.0], order="fixd")  # type: ignore[arg-type]
    clock: unstale.schedule.WindowClock = unstale.Windows.every(24, 22, 30).clock()
    unstale.Schedule([1.0], windows=clock)
    unstale.Schedule([1.0, 2.0], windows={"night": clock}, groups=["night", "other"])
    world = unstale.World([unstale.Poisson(1.0), unstale.Gamma(2.0, 1.0)], weights=[1, 2], accesses=3)
    assert_type(world.mean_rates, Floats)
    assert_type(unstale.World.recorded([0, 1], [1.0, 2.0]), unstale.World)
    learner: unstale.simulation.Policy = Hourly()
    result = unstale.simulate(
        world,
        3.0,
        policies={
            "plan": unstale.plan([1, 2], 3),
            "learner": learner,
            "edf": "edf",
            "rule": unstale.simulation.RULES["nutch"],
            "stream": schedule,
        },
        horizon=10,
        conditions=unstale.Conditions(fails=0.1),
        objectives=["age", unstale.currency(0.5)],
        progress=print,
    )
    assert_type(result, unstale.simulation.Result)
    assert_type(result["plan"], unstale.simulation.Outcome)
    assert_type(result["plan"].freshness, float)
    assert_type(result["plan"].lag([0.5, 0.9]), Floats)
    assert_type(result["plan"].elements.polls, Floats)
    assert_type(result["plan"].expected, unstale.simulation.Expected | None)
    assert_type(result.ahead("plan", "edf"), tuple[float, float])
    unstale.simulate([1.0], 1.0, policies=["optimal"], horizon=5.0, order="fixd")  # type: ignore[arg-type]
    assert_type(unstale.simulation.expect(world, [1, 2]).freshness, float)
    assert_type(unstale.simulation.align(unstale.simulation.zipf(2, 1.0), [1, 2], "aligned"), Floats)
