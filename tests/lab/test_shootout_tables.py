"""The tables of the page on the shoot-out, from results that are made up."""

import importlib.util
import json
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "shootout_tables.py"


@pytest.fixture(scope="module")
def tables():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        spec = importlib.util.spec_from_file_location("shootout_tables", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def row(policy, value, *, polls=10.0, needed=8.0, bound="", **ahead):
    measured = {"value": value, "error": 0.01}
    leads = {other.replace("_", "-"): {"value": lead, "error": 0.01} for other, lead in ahead.items()}
    return {
        "policy": policy, "polls": polls, "freshness": measured, "perceived": measured, "age": measured,
        "ahead": leads, "needed": {"polls": needed, "bound": bound},
    }  # fmt: skip


def played(*cases, objective="freshness"):
    made = [
        {"rule": rule, "objective": objective, "budget": budget, "rows": rows}
        for rule, budget, *rows in cases
    ]
    about = {"history": "made up", "elements": 4, "changes": 1461, "days": 730.5, "seeds": 1, "steps": 5000}
    return {**about, "cases": made}


FRESH = played(
    (
        "nutch", 10.0, row("uniform", 0.6), row("aduana", 0.5, uniform=-0.1),
        row("estimated-optimal", 0.55, uniform=-0.05), row("learning", 0.7, uniform=0.1, nutch=0.2),
        row("optimal", 0.62, uniform=0.02), row("optimal-law", 0.75, uniform=0.15),
        row("nutch", 0.5, uniform=-0.1),
    ),
    (
        None, 4.0, row("uniform", 0.4, polls=4.0), row("aduana", 0.41, uniform=0.01),
        row("estimated-optimal", 0.5, uniform=0.1),
        row("learning", 0.39, needed=3.0, bound="<", uniform=-0.01),
        row("optimal", 0.38, uniform=-0.02), row("optimal-law", 0.38, uniform=-0.02),
    ),
)  # fmt: skip
AGE = played((None, 4.0, row("uniform", 2.0), row("learning", 0.5, uniform=1.5)), objective="age")
MIRROR = played((None, 4.0, row("uniform", 0.4), row("mirror", 0.395, uniform=-0.005)))
PAGE = "Before.\n" + "".join(
    f"<!-- {name} -->\nold\n<!-- end -->\n" for name in ("counts", "mirror", "freshness", "weighted", "age")
)


@pytest.fixture
def page(tables, tmp_path):
    for how, result in {"freshness": FRESH, "age": AGE, "mirror": MIRROR}.items():
        (tmp_path / f"django.{how}.json").write_text(json.dumps(result), encoding="utf-8")
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    tables.write(path, tables.Results.read(tmp_path))
    return path.read_text(encoding="utf-8")


def cells(page, first):
    """Return the rows of tables that begin with a cell."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if "|" in line
    ]
    return [found for found in rows if found[0] == first]


def test_cases_come_by_budget_with_leads_and_polls_for_the_same(page):
    given, nutch = cells(page, "")[-2], cells(page, "Nutch")[0]
    assert "4 elements, 1,461 changes in 2.0 years: source files" in page
    assert "Played in 5,000 steps, 1 seed." in page
    assert given == [
        "", "1", "", "40.0", "41.0", "50.0", "**39.0**", "38.0", "38.0", "-1.00 ± 1.64", "< 75 %"
    ]  # fmt: skip
    assert nutch[2:4] == ["50.0", "60.0"]
    assert nutch[-2:] == ["+10.00 ± 1.64", "80 %"]
    assert page.index("| 1 |") < page.index("| Nutch | 2.5 |")


def test_ages_have_their_unit(page):
    assert cells(page, "")[-1] == ["", "1", "", "2 d", "**12 h**", "-75 ± 1 %", "80 %"]


def test_the_mirror_stands_beside_learning(page):
    found = ["Django", "1", "40.0", "**39.0**", "39.5", "-1.00 ± 1.64", "-0.50 ± 1.64", "+0.50"]
    assert found in cells(page, "Django")


def test_what_was_not_played_stays(page):
    assert "<!-- weighted -->\nold\n" in page


def test_contests_are_counted(page):
    assert cells(page, "learning, freshness")[0][1:] == ["3", "2", "2", "1", "0"]
    assert cells(page, "mirror, freshness")[0][1:] == ["1", "0", "0", "1", "0"]
    assert cells(page, "rule, behind uniform")[0][1:] == ["1", "1", "10.0"]
    assert cells(page, "Aduana, behind uniform")[0][1:] == ["1", "2", "10.0"]
    assert cells(page, "rates known, behind uniform")[0][1:] == ["1", "2", "2.0"]
    assert cells(page, "likeliest, behind learning")[0][1:] == ["1", "2", "15.0"]
    assert cells(page, "gaps known, ahead of learning")[0][1:] == ["1", "2", "5.0"]
    assert cells(page, "gaps known, behind learning")[0][1:] == ["1", "2", "1.0"]
    assert cells(page, "of a rule, at its polls")[0][1:] == ["1", "1", "80 %", "80 %", "80 %"]
    assert cells(page, "of uniform polling, at the given budgets")[0][1:] == ["0", "1", "", "", ""]
    assert "copies are 75 to 75 % younger" in page
    assert (
        "- learning, with uniform polling on Django (freshness, 1 polls of each a day): -1.00 ± 1.64 points"
        in page
    )


def test_a_page_without_a_mark_is_refused(tables, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE.replace("<!-- mirror -->", ""), encoding="utf-8")
    (tmp_path / "django.mirror.json").write_text(json.dumps(MIRROR), encoding="utf-8")
    with pytest.raises(SystemExit, match="one part 'mirror'"):
        tables.write(path, tables.Results.read(tmp_path))


def test_what_is_there_is_not_played_again(tables, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(tables, "play", lambda name, how, _: asked.append((name, how)) or FRESH)
    (tmp_path / "django.age.json").write_text("{}", encoding="utf-8")
    tables.play_all(tmp_path, tmp_path)
    every = {(name, how) for name, one in tables.HISTORIES.items() for how in one.played}
    assert set(asked) == every - {("django", "age")}
