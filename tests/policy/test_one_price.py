"""Policies that share a budget and know only the price: as good together as one for all elements."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from unstale.planning import share_budget
from unstale.policy import Learning


@dataclass
class Cell:
    """A policy at play, with elements that change at constant rates."""

    rates: np.ndarray
    weights: np.ndarray
    budget: float
    prices: list[float] = field(default_factory=list)

    def __post_init__(self):
        self.policy = Learning(self.rates.size, self.budget, weights=self.weights, steps=10.0, seed=1)
        self.last, self.fresh = np.zeros(self.rates.size), np.zeros(self.rates.size)

    def play(self, end, measured_from, rng):
        """Poll until ``end``, and add up for how long copies are expected to be fresh."""
        policy = self.policy
        while policy.now < end - 1e-9:
            polls = policy.polls(min(policy.now + policy.step, end))
            elapsed = np.empty(len(polls))
            for at, (time, element) in enumerate(zip(polls.times, polls.elements, strict=True)):
                self._count(element, time, measured_from)
                elapsed[at], self.last[element] = time - self.last[element], time
            seen = rng.random(len(polls)) < -np.expm1(-self.rates[polls.elements] * elapsed)
            policy.learn(polls.elements, elapsed, seen)
        if end > measured_from:
            self.prices.append(policy.price)

    def _count(self, element, until, measured_from):
        rate, last = self.rates[element], self.last[element]
        start = np.maximum(measured_from - last, 0.0)
        gone = np.maximum(until - last, start)
        self.fresh[element] += (np.exp(-rate * start) - np.exp(-rate * gone)) / rate

    def end(self, end, measured_from):
        """Return the freshness of copies, added up by weight."""
        self._count(np.arange(self.rates.size), end, measured_from)
        return float(self.weights @ self.fresh) / (end - measured_from)


def made(cells, rng):
    """Return rates and weights of cells that have little in common."""
    counts = rng.integers(60, 300, cells)
    rates = [10.0 ** rng.uniform(-2, 1) * rng.gamma(0.6, 1.0 / 0.6, n) + 1e-6 for n in counts]
    return rates, [10.0 ** rng.uniform(-1, 1) * rng.pareto(2.0, n) + 0.01 for n in counts]


def played(rates, weights, budgets, *, rounds, seed, shared=True):
    """Play cells together; return their freshness by weight and the cells."""
    rng, total = np.random.default_rng(seed), sum(budgets)
    cells = [Cell(*each) for each in zip(rates, weights, budgets, strict=True)]
    for end in np.arange(1.0, rounds + 1.0):
        for cell in cells:
            cell.play(end, rounds / 2, rng)
        if shared and len(cells) > 1:
            _, parts = share_budget([cell.policy.demand() for cell in cells], total)
            for cell, part in zip(cells, parts.tolist(), strict=True):
                cell.policy.budget = part
    fresh = sum(cell.end(rounds, rounds / 2) for cell in cells)
    return fresh / sum(each.sum() for each in weights), cells


@pytest.mark.parametrize(
    ("count", "rounds", "seed"),
    [(5, 30.0, 1), *(pytest.param(16, 80.0, seed, marks=pytest.mark.long) for seed in (2, 3, 4))],
)
def test_cells_that_share_a_price_are_as_fresh_as_one_planner_for_all(count, rounds, seed):
    rates, weights = made(count, np.random.default_rng(seed))
    sizes = np.array([each.size for each in rates])
    budgets = 0.5 * sizes
    whole = [np.concatenate(rates)], [np.concatenate(weights)]
    one, (single,) = played(*whole, [budgets.sum()], rounds=rounds, seed=seed)
    cells, found = played(rates, weights, budgets.tolist(), rounds=rounds, seed=seed)
    apart, _ = played(rates, weights, budgets.tolist(), rounds=rounds, seed=seed, shared=False)
    prices = np.array([np.mean(cell.prices) for cell in found])
    spread = prices.std() / prices.mean()
    print(f"one {one:.4f}, cells {cells:.4f}, apart {apart:.4f}; spread {spread:.4f}")  # noqa: T201
    print(np.mean(single.prices), prices)  # noqa: T201  (shown with -s)
    assert cells > one - 0.002
    assert cells > apart + 0.005
    assert spread < 0.02
    assert sum(cell.policy.budget for cell in found) == pytest.approx(budgets.sum(), rel=1e-9)
