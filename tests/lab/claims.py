"""How tests find claims and lines among the findings of an experiment."""

import pytest


def each(claims):
    """Make a test of each claim of each experiment."""
    return [pytest.param(name, *one, id=f"{name}: {one[0]}") for name, some in claims.items() for one in some]


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
