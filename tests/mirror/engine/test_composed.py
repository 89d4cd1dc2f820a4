"""What is made from several elements: fresh if all of them are, or one is, and planned as such."""

from types import SimpleNamespace

import numpy as np
import pytest

from unstale import plan
from unstale.mirror.settings import Composed
from unstale.policy.composed import ComposedElements
from unstale.policy.element_table import OK, ElementTable
from unstale.policy.terms import ElementTerms
from unstale.renewal import some_fresh

from .worlds import DAY, START, add, evenly_polled, make, run

COUNT, PARTS = 30, 4
LEARNING = 0.3
"""Share of the time after which what is measured begins."""


def world_of(seed, days):
    rng = np.random.default_rng(seed)
    rates = rng.gamma(2.0, 0.5, COUNT)
    return rates, [np.sort(rng.uniform(0.0, days, rng.poisson(rate * days))) for rate in rates]


def played(folder, seed, budget, *composed, days=40.0):
    """Return the rates, the freshness of each element, when the parts are fresh, and what status says."""
    rates, changes = world_of(seed, days)
    content = {
        f"python:{'part' if i < PARTS else 'g'}/{i}": lambda now, i=i: str(
            np.searchsorted(changes[i], (now - START) / DAY)
        ).encode()
        for i in range(COUNT)
    }
    mirror, world = make(
        folder, content=content, budget=budget / DAY, reserve=DAY, tick=3600.0, composed=composed
    )
    with mirror:
        add(mirror, *(key.removeprefix("python:") for key in content))
        run(mirror, days * DAY)
        status = mirror.status()
    at = np.linspace(LEARNING * days, days, 20_000, endpoint=False)
    fresh = np.empty((COUNT, at.size), bool)
    for i, key in enumerate(content):
        polls = np.array([(time - START) / DAY for time in world.times(key)])
        last = polls[np.searchsorted(polls, at, "right") - 1]
        fresh[i] = np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)
    return rates, fresh.mean(axis=1), fresh[:PARTS], status


def best(rates, budget, weight):
    """Return frequencies by the best plan, and how fresh the report is: weights and freshness, in turns."""
    extra, fresh = np.zeros(COUNT), np.full(PARTS, 0.5)
    for _ in range(30):
        extra[:PARTS] = weight * np.prod(fresh) / fresh
        often = plan(rates, budget, weights=1.0 + extra).frequencies
        ratio = rates[:PARTS] / np.maximum(often[:PARTS], 1e-9)
        fresh = np.maximum(-np.expm1(-ratio) / ratio, 0.05)
    return often, float(np.prod(fresh))


@pytest.mark.parametrize(
    ("seed", "days"), [(1, 40.0), *(pytest.param(seed, 100.0, marks=pytest.mark.long) for seed in (1, 2, 3))]
)
def test_a_report_is_as_fresh_as_the_best_plan_for_it_says(tmp_path, seed, days):
    report = Composed("report", ("python:part/*",), weight=20.0)
    rates, _, parts, status = played(tmp_path, seed, 30.0, report, days=days)
    together = float(parts.all(axis=0).mean())
    often, said = best(rates, 30.0, 20.0)
    polled = evenly_polled(world_of(seed, days)[1], often, days, LEARNING * days, draws=30)
    assert together == pytest.approx(np.mean([one[:PARTS].all(axis=0).mean() for one in polled]), abs=0.02)
    assert together == pytest.approx(said, abs=0.03)  # at other changes
    plain = plan(rates, 30.0).frequencies[:PARTS]
    ratio = rates[:PARTS] / np.maximum(plain, 1e-9)
    assert together > float(np.prod(-np.expm1(-ratio) / ratio)) + 0.1  # what it is without
    (told,) = status.composed
    assert (told.name, told.parts, told.needs) == ("report", PARTS, "all")
    assert 0.0 < told.freshness < 1.0


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_where_one_source_suffices_the_others_get_less(tmp_path, seed):
    """Sources of the same data: as fresh as the best plan for it says, by 1 - prod(1 - p)."""
    data = Composed("data", ("python:part/*",), weight=20.0, needs="one")
    rates, fresh, parts, status = played(tmp_path, seed, 20.0, data)
    extra, mean = np.zeros(COUNT), np.full(PARTS, 0.5)
    for _ in range(60):
        extra[:PARTS] = 20.0 * np.prod(1.0 - mean) / (1.0 - mean)
        often = plan(rates, 20.0, weights=1.0 + extra).frequencies[:PARTS]
        ratio = rates[:PARTS] / np.maximum(often, 1e-9)
        mean += 0.1 * (np.clip(-np.expm1(-ratio) / ratio, 0.0, 0.95) - mean)
    got = float(parts.any(axis=0).mean())
    assert got == pytest.approx(some_fresh(1.0 - mean), abs=0.02)
    assert got == pytest.approx(some_fresh(1.0 - fresh[:PARTS]), abs=0.02)  # they do not go stale together
    (told,) = status.composed
    assert (told.parts, told.needs) == (PARTS, "one")
    assert told.freshness > 0.8


@pytest.mark.parametrize("needs", ["all", "one"])
def test_a_part_weighs_what_it_adds(needs):
    """That is the slope of the freshness of the whole by that of the part."""
    table, fresh = ElementTable(), np.array([0.9, 0.5, 0.3, 0.7])
    table.reserve(4, None)
    table["id", :], table["state", :], table["last", :] = np.arange(4), OK, 0.0
    table["weight", :] = 1.0
    table.terms.append(ElementTerms(parts=("report",)))
    table["terms", :3] = 1
    known = SimpleNamespace(table=table, fresh=lambda places, _: fresh[places])
    composed = ComposedElements(known, {"report": 2.0})
    composed.one_suffices = {"report"} if needs == "one" else set()

    def whole():
        return composed.freshness(0.0)["report"][1]

    composed.reckon(0.0, 1.0)
    assert whole() == pytest.approx(0.135 if needs == "all" else some_fresh([0.1, 0.5, 0.7]))
    for part in range(3):
        before, fresh[part] = whole(), fresh[part] + 0.01
        slope, fresh[part] = (whole() - before) / 0.01, fresh[part] - 0.01
        assert table["composed"][part] == pytest.approx(2.0 * slope, rel=1e-5)
    assert table["composed"][3] == 0.0


def test_terms_are_read_as_they_were_kept():
    for terms in (
        ElementTerms(),
        ElementTerms("age"),
        ElementTerms("", 0.9, "a*"),
        ElementTerms("age", parts=("x", "y")),
    ):
        again = ElementTerms.read(terms.text())
        assert again.text() == terms.text()
        assert (again.objective, again.rule, again.parts) == (terms.objective, terms.rule, terms.parts)
