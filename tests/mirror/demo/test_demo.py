"""The demonstration, in simulated time: what the mirror says of itself is true, and it is ahead of others."""

import asyncio
from dataclasses import dataclass
from io import StringIO
from math import isnan, nan

import numpy as np
import pytest
from rich.console import Console

from unstale import plan
from unstale.cli.mirror.demo import _Show
from unstale.mirror.clock import SimulatedClock
from unstale.mirror.demo.demo import Demo, DemoSummary, Moment, changing_pages
from unstale.mirror.demo.rivals import POLICIES, Rival
from unstale.mirror.demo.site import ChangingSite
from unstale.mirror.mirror import Mirror

START, LENGTH = 1.7e9, 110.0


@dataclass
class Played:
    demo: Demo
    summary: DemoSummary
    mirror: Mirror
    """Opened again."""


def simulated(folder, *, pages, seed=0, **options):
    tick = 0.2
    clock = SimulatedClock(START, grain=tick / 2.4)
    return Demo(folder, pages=pages, clock=clock, seed=seed, tick=tick, **options)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The site that everybody sees, for 110 simulated seconds."""
    folder = tmp_path_factory.mktemp("demo")
    demo = simulated(folder, pages=500)
    summary = asyncio.run(demo.run(LENGTH))
    with Mirror(folder / "mirror.db", settings=demo.mirror.settings, clock=demo.clock) as mirror:
        yield Played(demo, summary, mirror)


def test_estimated_and_true_freshness_differ_by_less_than_two_points(played):
    """Of other sites it is 0.2 to 1.3 points; the noise of the mean is about half a point."""
    print(played.summary)  # noqa: T201  (shown with -s)
    assert abs(played.summary.difference) < 0.02
    assert not played.summary.short
    counted = [one for one in played.demo.moments if one.time >= START + played.summary.warm_up]
    assert len(counted) > 60
    assert abs(np.mean([one.estimated - one.true for one in counted])) < 0.02


def test_the_mirror_is_ahead_of_uniform_and_of_proportional(played):
    summary = played.summary
    assert summary.true > summary.beside["uniform"] + 0.06
    assert summary.beside["uniform"] > summary.beside["proportional"] + 0.05
    assert summary.true > summary.beside["optimal"] - 0.03
    assert summary.beside["optimal"] == pytest.approx(summary.planned, abs=0.03)


def test_the_budget_is_held(played):
    summary, demo = played.summary, played.demo
    assert summary.allowed == pytest.approx(demo.budget * LENGTH)
    assert 0.97 * summary.allowed < summary.polls <= summary.allowed
    assert summary.polls == demo.site.asked()[0].size


def test_what_is_true_is_what_the_store_has(played):
    """Of each page, the version of which the copy is, by its bytes."""
    demo, end = played.demo, START + LENGTH
    versions = [
        (page, played.mirror.read(element.key, count=False).version)
        for page, element in enumerate(played.mirror.elements())
    ]
    fresh = np.array([demo.site.fresh(page, version.digest, end) for page, version in versions])
    true = float(demo.site.weights @ fresh / demo.site.weights.sum())
    assert demo.site.true_freshness(demo._held, end) == pytest.approx(true)


def test_each_second_is_in_the_history(played):
    samples = played.mirror.samples()
    assert len(samples) > 80
    assert {"true", "uniform", "proportional"} == set(samples[-1].beside)
    late = [one for one in samples if one.time > START + 50.0]
    assert np.mean([one.freshness - one.beside["true"] for one in late]) == pytest.approx(0.0, abs=0.03)


def test_the_audience_reads_copies(played):
    with played.mirror.store.begin() as t:
        reads = {element: count for element, _, count in t.reads(0.0)}
    assert sum(reads.values()) == pytest.approx(20.0 * LENGTH, rel=0.2)
    wanted = list(played.mirror.elements())[int(np.argmax(played.demo.site.weights))]
    assert max(reads, key=reads.get) == wanted.id


def test_others_make_as_many_polls_on_the_same_changes(tmp_path):
    """With as many polls as pages each of them has polled each page once, whatever the policy."""
    demo = simulated(tmp_path, pages=40, budget=10.0)
    summary = asyncio.run(demo.run(6.0))
    assert summary.polls >= 40
    first = [one for one in demo.moments if one.polls <= 40]
    assert first
    for one in first:
        assert len({one.beside[name] for name in POLICIES}) == 1


@pytest.mark.parametrize("late", [0, 3, 30, 95])
def test_a_plan_that_comes_late_changes_nothing(late):
    """Kernels may have to be compiled first: what others have put off they make up for."""
    site = ChangingSite(np.linspace(0.01, 0.5, 20), clock=SimulatedClock(START), seed=2)
    frequencies = np.linspace(0.1, 0.9, 20)
    early, other = Rival(site), Rival(site)
    early.follow(frequencies)
    for second in range(100):
        if second == late:
            other.follow(frequencies)
        now = START + second
        for rival in (early, other):
            rival.poll([now + 0.2, now + 0.7])
        known, seen = early.look(now + 1.0), other.look(now + 1.0)
        waits = second < late and 2 * (second + 1) > 20
        assert isnan(seen) if waits else seen == known
        assert other.has_caught_up != waits
    assert other.freshness == early.freshness
    assert len(early.freshness) == 100


def test_lines_begin_in_the_first_second_whatever_is_not_known_yet(tmp_path):
    demo = simulated(tmp_path, pages=40)
    out = Console(file=StringIO(), width=80)
    show = _Show(demo, out, str(tmp_path), out.status(""))
    show._began = START
    show._introduced.set()
    unknown = dict.fromkeys(POLICIES, nan)
    show.moment(Moment(START + 1.1, nan, 0.25, dict.fromkeys(POLICIES, 0.25), 12, 12))
    show.moment(Moment(START + 2.1, nan, 0.5, unknown, 40, 40))
    show.moment(Moment(START + 3.1, 0.5, 0.5, unknown, 50, 40))
    for second in range(4, 11):
        show.moment(Moment(START + second, 0.5, 0.75, dict.fromkeys(POLICIES, 0.125), 99, 40))
    lines = [line.split() for line in out.file.getvalue().splitlines()]
    assert lines[0] == ["1s", "...", "25.0%", "25.0%", "25.0%", "12", *["first", "copies:", "12", "of", "40"]]
    assert lines[1][:6] == ["2s", "...", "50.0%", "...", "...", "40"]
    assert lines[1][6:] == ["compiling", "formulas,", "once"]
    assert lines[2] == ["3s", "50.0%", "50.0%", "...", "...", "50"]
    assert [line[0] for line in lines[3:]] == ["4s", "5s", "10s"]
    demo.mirror.close()


def test_a_budget_that_is_changed_counts_from_then_on(tmp_path):
    demo = simulated(tmp_path, pages=40, budget=10.0)

    def halve(_):
        if len(demo.moments) == 10:
            demo.mirror.set_budget(5.0)

    summary = asyncio.run(demo.run(30.0, on_moment=halve))
    assert summary.allowed == pytest.approx(200.0, abs=15.0)
    assert 0.9 * summary.allowed < summary.polls <= summary.allowed + 10.0


def test_pages_are_very_different():
    laws, weights = changing_pages(500, seed=0)
    rates = np.array([float(law.rate) for law in laws])
    slow, fast = np.quantile(rates, [0.05, 0.95])
    assert fast > 25.0 * slow
    assert {type(law).__name__ for law in laws} == {"Poisson", "Weibull", "Periodic", "Lognormal"}
    assert np.sort(weights)[-50:].sum() > 0.4 * weights.sum()
    fresh = {name: plan(laws, 70.0, weights=weights, policy=name).freshness for name in POLICIES}
    assert fresh["optimal"] > fresh["uniform"] + 0.08 > fresh["proportional"] + 0.2
