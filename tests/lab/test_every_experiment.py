"""What holds for every experiment: claims are reproduced, explained or excused, and figures can be read."""

import numpy as np
import pytest

from unstale.lab import Run, Verdict, choose, every_experiment

from .claims import by_name, with_verdict

NAMES = [one.name for one in every_experiment()]
UNLIKE = {Verdict.APPROXIMATELY, Verdict.CANNOT, Verdict.PAPER_IN_ERROR}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_unexplained(findings, name):
    found = findings(name)
    assert with_verdict(found, Verdict.DIFFERS) == []
    assert by_name(found)
    assert [claim.what for claim in found.claims if claim.verdict in UNLIKE and not claim.why] == []


@pytest.mark.parametrize("name", NAMES)
def test_figures_have_labels_and_few_lines(findings, name):
    found = findings(name)
    assert found.panels or found.tables
    assert "figure" not in name or found.panels
    for panel in found.panels:
        assert panel.x
        assert panel.y
        assert 1 <= len(panel.lines) <= 7
        assert len({one.label for one in panel.lines}) == len(panel.lines)
        assert all(np.isfinite(one.x).all() and np.isfinite(one.y).any() for one in panel.lines)


@pytest.mark.parametrize("name", NAMES)
def test_tolerances_are_those_of_rounding(findings, name):
    """And what a paper does not state is no claim."""
    for claim in findings(name).claims:
        assert claim.published != "not stated", claim.what
        if isinstance(claim.published, float) and claim.published:
            assert claim.within <= 0.5 * abs(claim.published), claim.what


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_in_full_nothing_is_left_unexplained(findings, name):
    """The same claims as quickly, and those that only full sizes allow; verdicts do not depend on sizes."""
    (one,) = choose([name])
    full = one.run(Run())
    assert with_verdict(full, Verdict.DIFFERS) == []
    quick = findings(name)
    for verdict in UNLIKE:
        assert with_verdict(full, verdict) == with_verdict(quick, verdict)
