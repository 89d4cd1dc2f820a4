"""The policy of the mirror: what choosing costs at a million elements, and the memory of each.

``python -m benchmarks policy``. Polls are taken in and chosen every five seconds, as the mirror does it, by
the policy alone: without a store, and without polling anything. CPU time counts, as a share of one core.
"""

import time

import numpy as np

from benchmarks.mirror import resident
from benchmarks.timing import required
from unstale.estimation.learning.learner import Learner
from unstale.policy import ElementTable, LearningPolicy, PollOutcomes, RateLimits
from unstale.policy.candidates import Chosen
from unstale.policy.element_table import OK

MILLION = 1_000_000
POLLS_PER_SECOND, TICK, TICKS = 97.0, 5.0, 60
DAY = 86400.0


def run() -> None:
    print(f"\nthe policy: {MILLION:,} elements, {POLLS_PER_SECOND:g} polls a second, chosen every {TICK:g} s")
    for groups, spacing in ((1, 0.0), (10_000, 1.0), (200_000, 1.0)):
        share, yardstick, chosen = measure_choosing(MILLION, groups, spacing)
        print(
            f"  {groups:>7,} groups, {spacing:g} s apart: of a core {required(100.0 * share, 5, '%')};"
            f" {chosen:.0f} polls each time; yardstick: one NumPy pass each time {100.0 * yardstick:.2f} %"
        )
    turns = {count: measure_turns(count) for count in (MILLION // 10, MILLION, 4 * MILLION)}
    told = ", ".join(f"{1e3 * seconds:.1f} ms of {count:,}" for count, seconds in turns.items())
    ratio = turns[4 * MILLION] / turns[MILLION // 10]
    print(f"  a turn, with all elements where a steady schedule has them: {told}; {required(ratio, 2, 'x')}")
    learned, passed = measure_learning()
    print(
        f"  learning from a poll: {required(1e6 * learned, 1, 'us')}, {1.0 / learned:,.0f} polls a second;"
        f" {learned / passed:.0f} times np.exp of a number"
    )
    print(f"  memory of each element: {required(measure_memory(5 * MILLION), 205, 'bytes')}")


def measure_learning(count: int = 100_000) -> tuple[float, float]:
    """Seconds of the processor for a poll that is learned from, and for a number in a pass of NumPy."""
    rng, policy = np.random.default_rng(3), policy_of(count)
    span, rates = policy.table.learner.round, rng.gamma(1.0, 1.0, count)
    rounds = iter(range(1, 100))

    def learn() -> None:
        elapsed, places = rng.uniform(0.7, 1.3, count), rng.permutation(count)
        changed = rng.random(count) < -np.expm1(-rates[places] * elapsed)
        time_of = span * (next(rounds) + np.arange(count) / count)
        began.append(time.process_time())
        policy.learn(places, span * elapsed, changed, time_of)
        taken.append(time.process_time() - began[-1])

    began: list[float] = []
    taken: list[float] = []
    column = rng.random(count)
    passes = []
    for _ in range(8):
        learn()
        start = time.process_time()
        np.exp(column)
        passes.append(time.process_time() - start)
    return min(taken) / count, min(passes) / count


def policy_of(count: int, groups: int = 1, spacing: float = 0.0) -> LearningPolicy[RateLimits]:
    """A policy that has polled its elements for a while."""
    rng = np.random.default_rng(1)
    table = ElementTable()
    table.start(0, Learner(count, round=count / POLLS_PER_SECOND))
    last = -count / POLLS_PER_SECOND * rng.exponential(size=count)
    table.extend(count, weight=1.0, size=2000.0, last=last, state=OK, group=np.arange(count) % groups)
    limits = RateLimits(POLLS_PER_SECOND, grace=0.5)
    for number in range(groups):
        limits.know(number, name=f"host{number}", spacing=spacing, concurrency=2 if spacing else 10_000)
    return LearningPolicy(table, limits, shortest_round=3600.0)


def measure_choosing(count: int, groups: int, spacing: float) -> tuple[float, float, float]:
    """Shares of a core that choosing and one pass over a column take, and how many polls were chosen."""
    rng = np.random.default_rng(2)
    policy = policy_of(count, groups, spacing)
    span = count / POLLS_PER_SECOND
    for _ in range(3):
        policy.learn(np.arange(count), span * rng.exponential(size=count), rng.random(count) < 0.4)
    now, heard, taken, polls = 0.0, 0, [], 0
    for tick in range(-20, TICKS):
        began = time.process_time()
        chosen = policy.choose(now, now + TICK, room=10_000)
        places = chosen.places
        spent = time.process_time() - began
        began = time.process_time()
        _hear(policy, chosen, heard, rng)
        spent += time.process_time() - began
        heard, now = heard + places.size, now + TICK
        if tick >= 0:
            taken.append(spent)
            polls += places.size
    began = time.process_time()
    for _ in range(20):
        np.count_nonzero(policy.table["look"] <= now)
    one_pass = (time.process_time() - began) / 20
    assert polls >= 0.97 * POLLS_PER_SECOND * TICK * TICKS
    return float(np.mean(taken)) / TICK, one_pass / TICK, polls / TICKS


def measure_turns(count: int, warm: int = 40, turns: int = 60) -> float:
    """Seconds of the processor for a turn at a steady price, in the median."""
    rng = np.random.default_rng(2)
    policy = policy_of(count, 10_000, 1.0)
    span = count / POLLS_PER_SECOND
    for _ in range(3):
        policy.learn(np.arange(count), span * rng.exponential(size=count), rng.random(count) < 0.4)
    _settle(policy, rng)
    taken, heard = [], 0
    for turn in range(warm + turns):
        now, began = TICK * turn, time.process_time()
        chosen = policy.choose(now, now + TICK, room=10_000)
        taken.append(time.process_time() - began)
        _hear(policy, chosen, heard, rng)
        heard += chosen.places.size
    return float(np.median(taken[warm:]))


def _settle(policy: LearningPolicy[RateLimits], rng: np.random.Generator) -> None:
    """Let the last poll of each element be at any time since its worth was 0, and the price the right one."""
    count, known = len(policy.table), policy.known

    def times(places: np.ndarray, price: float) -> np.ndarray:
        """When worths reach the price."""
        low, high = np.full(places.size, 1.0), np.full(places.size, 60.0 * count / POLLS_PER_SECOND)
        for _ in range(25):
            middle = np.sqrt(low * high)
            enough = known.worths(places, middle) >= price
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    some = rng.choice(count, min(count, 20_000), replace=False)
    low, high = 1e-12, 1e12
    for _ in range(40):
        price = np.sqrt(low * high)
        too_many = np.mean(1.0 / times(some, price)) * count > POLLS_PER_SECOND
        low, high = (price, high) if too_many else (low, price)
    policy.table["last", :] = -times(np.arange(count), high) * rng.random(count)
    policy.price = high
    policy.table.look_again()


def _hear(policy: LearningPolicy[RateLimits], chosen: Chosen, heard: int, rng: np.random.Generator) -> None:
    """Let polls have seen something."""
    places = chosen.places
    seen = PollOutcomes(
        np.arange(heard, heard + places.size), policy.table["id"][places], chosen.start,
        chosen.start - policy.table["last"][places],
        np.where(rng.random(places.size) < 0.4, "changed", "unchanged").tolist(),
        np.full(places.size, 2000.0), np.full(places.size, 2000.0), np.ones(places.size, np.bool_),
    )  # fmt: skip
    policy.hear(seen)
    policy.table["busy", places] = False
    policy.limits.hand_out([])
    policy.rescaled()


def measure_memory(count: int) -> float:
    """Bytes of each element, after polls have been chosen."""
    policy_of(100).choose(0.0, TICK, room=100)
    before = resident()
    policy = policy_of(count)
    policy.learn(np.arange(count), np.full(count, 1e5), np.zeros(count, np.bool_))
    policy.choose(0.0, TICK, room=10_000)
    policy.choose(TICK, 2.0 * TICK, room=10_000)
    return (resident() - before) / count
