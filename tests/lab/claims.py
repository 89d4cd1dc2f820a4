"""How tests find claims and lines among the findings of an experiment, and what wrong laws make of them."""

import numpy as np
import pytest

from unstale.lab import Run, choose


def each(claims):
    """Make a test of each claim of each experiment."""
    return [pytest.param(name, *one, id=f"{name}: {one[0]}") for name, some in claims.items() for one in some]


def each_wrong(laws):
    """Make a test of each wrong law of each experiment."""
    return [
        pytest.param(name, *one, id=f"{name}: {k}")
        for name, some in laws.items()
        for k, one in enumerate(some, 1)
    ]


def by_name(findings):
    claims = {claim.what: claim for claim in findings.claims}
    assert len(claims) == len(findings.claims)
    return claims


def the(findings, what):
    return by_name(findings)[what]


def with_verdict(findings, verdict):
    return sorted(claim.what for claim in findings.claims if claim.verdict is verdict)


def drawn(panel):
    return {line.label: line for line in panel.lines}


def line(panel, label):
    return drawn(panel)[label]


def waved(law):
    """Bend a law, a function of rates, by up to a hundredth."""
    return lambda rate, *others, **options: (
        law(rate, *others, **options) * (1.0 + 0.01 * np.sin(37.0 * np.log(np.asarray(rate, float) + 1e-9)))
    )


def instead(value):
    """Make a function that returns a constant, whatever it takes the place of."""
    return lambda _: lambda *_, **__: value


def scaled(law, by):
    return lambda *others, **options: law(*others, **options) * by


def planned(plan, policy):
    """Plan by another policy, whatever is asked for."""
    return lambda rates, budget, **options: plan(rates, budget, **(options | {"policy": policy}))


def refuted(monkeypatch, name, wrong):
    """Return statements that do not hold once functions are replaced: where, name, maker of another."""
    for where, function, make in wrong:
        monkeypatch.setattr(where, function, make(getattr(where, function)))
    (one,) = choose([name])
    claims = one.run(Run(quick=True)).claims
    return {claim.what for claim in claims if isinstance(claim.published, str) and claim.computed is False}
