"""What holds for every experiment: claims are reproduced, explained or excused, and figures can be read."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from unstale.lab import Run, Verdict, choose, every_experiment
from unstale.lab.experiment import BEYOND

from . import test_azar_experiments, test_carney_experiments, test_cho_experiments, test_li_experiments
from .claims import by_name, with_verdict

NAMES = [one.name for one in every_experiment()]
HERE = Path(__file__).parents[2]
SAID = (Verdict.REPRODUCES, Verdict.APPROXIMATELY, Verdict.PAPER_IN_ERROR, Verdict.CANNOT)
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
    assert len(with_verdict(full, Verdict.REPRODUCES)) == len(with_verdict(quick, Verdict.REPRODUCES))


# --- no check that cannot fail ---------------------------------------------------------------------------

ELSEWHERE = {
    # statements that tests of their own refute, since they are of times or of one case
    "carney-figure-7": {
        "more than 100 partitions",
        "section 3: a general solver, 100,000 elements, from its time for 80",
        "section 4: partitions, up to 500,000 elements",
    },
    "carney-figure-9": {"50 partitions and 10 iterations, by comparisons, if what they reach is good"},
}


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("beyond-")])
def test_every_statement_that_holds_has_a_wrong_law_under_which_it_does_not(findings, name):
    """The tests of each paper show that these laws do refute them."""
    tests = (test_cho_experiments, test_azar_experiments, test_li_experiments, test_carney_experiments)
    refuted = set().union(*(said for one in tests for _, said in one.WRONG.get(name, ())))
    holds = {c.what for c in findings(name).claims if c.computed is True and isinstance(c.published, str)}
    assert holds <= refuted | ELSEWHERE.get(name, set())


# --- what the documentation says of all -----------------------------------------------------------------


@pytest.fixture(scope="module")
def tally(findings):
    """How many claims of each paper met which verdict."""
    found = {}
    for one in every_experiment():
        claims = findings(one.name).claims
        found.setdefault(one.paper, Counter()).update(claim.verdict for claim in claims)
    return found


def assert_table(heading, rows):
    """Hold a table of the page on the lab against what it must be."""
    text = (HERE / "docs/how-to/lab.md").read_text("utf-8")
    table = re.search(heading + r".*\n\|[-|]+\n((?:\|.*\n)+)", text)
    assert table[1].splitlines() == rows, "docs/how-to/lab.md must say:\n" + "\n".join(rows)


def test_the_documentation_counts_verdicts_by_paper(tally):
    rows = [
        f"| {paper} | " + " | ".join(str(counts[verdict]) for verdict in SAID) + " |"
        for paper, counts in tally.items()
        if paper is not BEYOND
    ]
    assert_table(r"\| paper \| reproduced", rows)


def test_the_documentation_lists_what_cannot_be_had(findings):
    rows = [
        f"| `{name}` | {claim.what} | {claim.published} | {reason} |"
        for name in NAMES
        for claim in findings(name).claims
        if claim.verdict is Verdict.CANNOT
        for reason in [re.sub(r"; in this run .*", "", claim.why)]
    ]
    assert_table(r"\| experiment \| what", rows)


def test_the_front_page_counts_verdicts(tally):
    total = sum((counts for paper, counts in tally.items() if paper is not BEYOND), Counter())
    text = (HERE / "README.md").read_text("utf-8")
    said = re.search(
        r"(\d+) claims of the papers: (\d+) are reproduced, (\d+) nearly, (\d+) are wrong in the papers, and "
        r"(\d+) cannot be had",
        text,
    )
    assert [int(number) for number in said.groups()] == [
        sum(total[verdict] for verdict in SAID),
        *(total[verdict] for verdict in SAID),
    ]
