"""What is made from several elements: fresh if all of them are, and planned as such."""

import numpy as np
import pytest

from unstale import plan
from unstale.mirror.settings import Composed
from unstale.policy.terms import ElementTerms

from .worlds import DAY, START, add, make, run

COUNT, DAYS, WARM, PARTS = 30, 40.0, 12.0, 4


def played(folder, seed, budget, *composed):
    """Return the rates, the freshness of each element, that of all parts together, and what status says."""
    rng = np.random.default_rng(seed)
    rates = rng.gamma(2.0, 0.5, COUNT)
    changes = [np.sort(rng.uniform(0.0, DAYS, rng.poisson(rate * DAYS))) for rate in rates]
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
        run(mirror, DAYS * DAY)
        status = mirror.status()
    at = np.linspace(WARM, DAYS, 20_000, endpoint=False)
    fresh = np.empty((COUNT, at.size), bool)
    for i, key in enumerate(content):
        polls = np.array([(time - START) / DAY for time in world.times(key)])
        last = polls[np.searchsorted(polls, at, "right") - 1]
        fresh[i] = np.searchsorted(changes[i], at) == np.searchsorted(changes[i], last)
    return rates, fresh.mean(axis=1), float(fresh[:PARTS].all(axis=0).mean()), status


def best(rates, budget, weight):
    """Return the freshness of the report by the best plan: weights and freshness of parts, in turns."""
    extra, fresh = np.zeros(COUNT), np.full(PARTS, 0.5)
    for _ in range(30):
        extra[:PARTS] = weight * np.prod(fresh) / fresh
        often = plan(rates, budget, weights=1.0 + extra).frequencies[:PARTS]
        ratio = rates[:PARTS] / np.maximum(often, 1e-9)
        fresh = np.maximum(-np.expm1(-ratio) / ratio, 0.05)
    return float(np.prod(fresh))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_report_is_as_fresh_as_the_best_plan_for_it_says(tmp_path, seed):
    report = Composed("report", ("python:part/*",), weight=20.0)
    rates, _, together, status = played(tmp_path, seed, 30.0, report)
    assert together == pytest.approx(best(rates, 30.0, 20.0), abs=0.05)
    plain = plan(rates, 30.0).frequencies[:PARTS]
    ratio = rates[:PARTS] / np.maximum(plain, 1e-9)
    assert together > float(np.prod(-np.expm1(-ratio) / ratio)) + 0.1  # what it is without
    (told,) = status.composed
    assert (told.name, told.parts) == ("report", PARTS)
    assert 0.0 < told.freshness < 1.0


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
