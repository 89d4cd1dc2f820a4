"""Random instances of the planning problem, and what must hold for their plans by the plain formulas."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import strategies as st

from unstale import mean_cost, plan, poisson, worth

ORDERS = ("fixed", "random", "purely-random")
EVERYTHING = ("idle", "ties", "weights", "sizes", "change_sizes", "min_frequency", "max_frequency", "groups")
SPENT = 1e-9  # relative error allowed in what a plan spends
KEPT = 1e-12  # relative error allowed in bounds and limits
EQUAL = 1e-9  # relative distance allowed between worths and prices
DEFAULTS = {
    "weights": 1.0,
    "sizes": 1.0,
    "change_sizes": 0.0,
    "min_frequency": 0.0,
    "max_frequency": np.inf,
}


def decades(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


@dataclass
class Instance:
    """Arguments of a plan for Poisson changes, with what allocations spend and cost by the plain formulas."""

    rates: np.ndarray
    budget: float
    objective: object = "freshness"
    order: str = "fixed"
    options: dict = field(default_factory=dict)

    def plan(self, **changes):
        budget = changes.pop("budget", self.budget)
        return plan(
            self.rates, budget, objective=self.objective, order=self.order, **{**self.options, **changes}
        )

    def column(self, name):
        return np.broadcast_to(np.asarray(self.options.get(name, DEFAULTS[name]), float), self.rates.shape)

    @property
    def wanted(self):
        return (self.rates > 0) & (self.column("weights") > 0)

    @property
    def members(self):
        """One mask for each group, with its limit."""
        if "groups" not in self.options:
            return []
        labels, limits = np.asarray(self.options["groups"]), self.options["limits"]
        if isinstance(limits, dict):
            return [(labels == label, limits.get(label, np.inf)) for label in np.unique(labels).tolist()]
        return [(labels == label, limits[label]) for label in range(len(limits)) if (labels == label).any()]

    def spending(self, f):
        """What each element spends: polls, and the changes that they find."""
        found = self.rates * poisson.freshness(self.rates, f, self.order)
        return self.column("sizes") * f + self.column("change_sizes") * np.where(f > 0, found, 0.0)

    def returns(self, f):
        """What one more unit of budget is worth to each element."""
        with np.errstate(divide="ignore", invalid="ignore"):
            t = 1.0 / f
            found = self.rates * worth("freshness", self.rates, t, self.order)
            price = self.column("sizes") + self.column("change_sizes") * found
            each = self.column("weights") * worth(self.objective, self.rates, t, self.order) / price
        return np.where(self.wanted, each, 0.0)

    def cost(self, f):
        """Weighted mean cost."""
        weights = self.column("weights")
        with np.errstate(invalid="ignore"):
            costs = np.where(weights > 0, weights * mean_cost(self.objective, self.rates, f, self.order), 0.0)
        return float(np.sum(costs) / np.sum(weights))

    def shrunk(self, f):
        """A feasible allocation: f, moved towards the lower bounds as far as limits and budget ask."""
        low = self.column("min_frequency")
        f = np.clip(f, low, self.column("max_frequency"))
        for members, limit in [*self.members, (np.ones(f.shape, bool), self.budget)]:
            least, most = 0.0, 1.0
            if np.sum(self.spending(f)[members]) <= limit:
                continue
            for _ in range(60):
                middle = 0.5 * (least + most)
                g = low + middle * (f - low)
                if np.sum(self.spending(g)[members]) <= limit:
                    least = middle
                else:
                    most = middle
            f = np.where(members, low + least * (f - low), f)
        return f


@st.composite
def instances(  # noqa: C901  (one branch for each constraint)
    draw, objectives, constraints=(), orders=ORDERS, *, most=8, span=3.0, budgets=(-4.0, 3.0)
):
    """Draw an instance that has a plan."""
    n = draw(st.integers(1, most))

    def column(low, high):
        return np.array(draw(st.lists(decades(low, high), min_size=n, max_size=n)))

    def some(share=0.3):
        return np.array(draw(st.lists(st.floats(0, 1), min_size=n, max_size=n))) < share

    def either(values):
        """One number for all, or one for each."""
        return values if draw(st.booleans()) else float(values[0])

    options = {}
    rates = column(-span, span)
    if "weights" in constraints:
        options["weights"] = column(-span, span)
    if "sizes" in constraints:
        options["sizes"] = column(-0.5 * span, 0.5 * span)
    if "change_sizes" in constraints:
        options["change_sizes"] = either(column(-0.5 * span, 0.5 * span))
    if "ties" in constraints:
        twin = np.array(draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n)))
        rates = rates[twin]
        options = {name: value[twin] if np.ndim(value) else value for name, value in options.items()}
    if "idle" in constraints:
        rates = np.where(some(), 0.0, rates)
        if "weights" in options:
            options["weights"] = np.where(some(), 0.0, options["weights"])
            options["weights"][draw(st.integers(0, n - 1))] = 1.0
    instance = Instance(rates, 1.0, draw(st.sampled_from(objectives)), draw(st.sampled_from(orders)), options)
    sizes, changes = instance.column("sizes"), instance.column("change_sizes")
    instance.budget = (float(np.sum(rates * sizes)) or 1.0) * 10.0 ** draw(st.floats(*budgets))
    share = instance.budget / float(np.sum(sizes + changes))
    if "min_frequency" in constraints:
        low = share * draw(st.just(0.0) | st.floats(1e-6, 0.9)) * column(-2, 0)
        options["min_frequency"] = either(low)
    if "max_frequency" in constraints:
        low = instance.column("min_frequency")
        high = share * column(-1, 1.5)
        options["max_frequency"] = either(high + low) if draw(st.booleans()) else float(high[0] + low.max())
        if np.any(instance.column("max_frequency") < low):
            options["max_frequency"] = np.maximum(instance.column("max_frequency"), low)
    if "groups" in constraints:
        _add_groups(draw, instance)
    return instance


def _add_groups(draw, instance):
    n = instance.rates.size
    count = draw(st.integers(1, 3))
    codes = np.array(draw(st.lists(st.integers(0, count - 1), min_size=n, max_size=n)))
    least = np.bincount(codes, instance.spending(instance.column("min_frequency")), minlength=count)
    shares = draw(
        st.lists(st.sampled_from([0.0, 0.01, 0.2, 0.5, 1.0, 3.0, np.inf]), min_size=count, max_size=count)
    )
    limits = least + instance.budget * np.array(shares)
    if draw(st.booleans()):
        instance.options |= {"groups": codes, "limits": limits}
        return
    names = np.array(["north", "south", "west"])[codes]
    limited = {"north": limits[0], **dict(zip(["south", "west"], limits[1:], strict=False))}
    kept = {name: limit for name, limit in limited.items() if name in names and np.isfinite(limit)}
    instance.options |= {"groups": names, "limits": kept}


def assert_feasible(instance, found):
    """Bounds and limits are kept, and the budget is spent where there is room for it."""
    f = found.frequencies
    low, high = instance.column("min_frequency"), instance.column("max_frequency")
    assert f.shape == instance.rates.shape
    assert np.isfinite(f).all()
    assert (f >= low * (1.0 - KEPT)).all()
    assert (f <= high * (1.0 + KEPT)).all()
    spent = instance.spending(f)
    room = f < high * (1.0 - SPENT)
    for members, limit in instance.members:
        total = np.sum(spent[members])
        assert total <= limit * (1.0 + KEPT)
        if total >= limit * (1.0 - SPENT):
            room[members] = False
    assert found.spent == pytest.approx(np.sum(spent), rel=KEPT)
    assert found.spent <= instance.budget * (1.0 + KEPT)
    if room.any():
        assert found.spent == pytest.approx(instance.budget, rel=SPENT)


def assert_optimal(instance, found, equal=EQUAL):
    """Worth equals price wherever there is a choice: the conditions of Karush, Kuhn and Tucker."""
    f, wanted = found.frequencies, instance.wanted
    worths = instance.returns(f)
    low, high = instance.column("min_frequency"), instance.column("max_frequency")
    below, above = f < high * (1.0 - KEPT), f > low * (1.0 + KEPT)
    price = np.full(f.shape, found.price)
    spent = instance.spending(f)
    for members, limit in instance.members:
        if np.sum(spent[members]) < limit * (1.0 - SPENT):
            continue
        inside = members & below & above & wanted
        own = (
            np.median(worths[inside]) if inside.any() else max(worths[members & below].max(initial=0.0), 0.0)
        )
        price[members] = max(found.price, own)
    assert found.price >= 0
    assert (worths <= price * (1.0 + equal))[below & wanted].all()
    assert (worths >= price * (1.0 - equal))[above & wanted].all()
