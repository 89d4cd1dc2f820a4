"""``unstale whatif`` and ``compare``: other objectives, budgets that change nothing, and what plots show."""

from itertools import pairwise
from pathlib import Path

import pytest

import unstale
from cli.elements import RATES, WEIGHTS, about
from unstale import picture_style as pictures
from unstale.cli.plan import compare_plot, whatif_plot


@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("freshness", "freshness"),
        ("missed-updates", "missed-updates"),
        ("harmonic", "harmonic"),
        pytest.param("currency:6h", unstale.currency(0.25), marks=pytest.mark.long),
    ],
)
def test_json_has_what_a_budget_buys_of_the_objective(name, objective, ask):
    for row in ask("whatif", "pages.csv", "--objective", name)["curve"]:
        for field, policy in {"cost": "optimal", "uniform_cost": "uniform"}.items():
            plan = unstale.plan(RATES, row["budget"], weights=WEIGHTS, objective=objective, policy=policy)
            assert row[field] == about(plan.cost, rel=1e-6)


def test_json_has_the_cost_of_an_objective_that_takes_quadrature(ask):
    """A comparison has one budget; the curve of whatif has many, and is left to the long mode."""
    rows = ask("compare", "pages.csv", "--budget", "1/h", "--objective", "currency:6h")["policies"]
    costs = {row["policy"]: row["cost"] for row in rows if row["objective"] in {None, "currency:6h"}}
    for policy in ("uniform", "optimal"):
        plan = unstale.plan(RATES, 24.0, weights=WEIGHTS, objective=unstale.currency(0.25), policy=policy)
        assert costs[policy] == about(plan.cost, rel=1e-6)


@pytest.mark.parametrize(
    ("objective", "heading"),
    [
        ("missed-updates", "changes"),
        ("harmonic", "cost"),
        pytest.param("currency:6h", "behind", marks=pytest.mark.long),
    ],
)
def test_table_has_what_a_budget_buys_of_the_objective(objective, heading, run):
    out, _ = run("whatif", "pages.csv", "--objective", objective)
    assert f"budget {heading} if uniform fresh mean age" in " ".join(out.split())


def test_budgets_that_change_nothing(run, ask):
    Path("still.csv").write_text("rate,weight\n1,0\n0,1\n")
    out, _ = run("whatif", "still.csv")
    said = "only elements of weight 0 change: 100.0% fresh, a mean age of 0 seconds."
    assert f"\nAny budget buys the same, since {said}\n" in out
    assert len(ask("whatif", "still.csv")["curve"]) == 1
    out, _ = run("whatif", "pages.csv", "--max-frequency", "0/day")
    assert "\nAny budget buys the same, since the limits leave no choice: 0.0% fresh, age without" in out


def test_budgets_between_narrow_bounds(ask):
    bounds = ("--min-frequency", "1.0001/day", "--max-frequency", "1.2/day")
    budgets = [row["budget"] for row in ask("whatif", "pages.csv", *bounds)["curve"]]
    assert budgets[0] == pytest.approx(6.0006)
    assert 6.5 < budgets[-1] < 7.5


def test_elements_without_weight_do_not_hide_the_others(ask):
    Path("mixed.csv").write_text("rate,weight\n1,1\n1e20,0\n")
    curve = ask("whatif", "mixed.csv")["curve"]
    assert curve[0]["freshness"] < 0.2
    assert curve[-1]["freshness"] > 0.9


def test_a_target_is_repeated_with_all_its_digits(run):
    out, _ = run("whatif", "pages.csv", "--freshness", "99.99999999%")
    assert "99.99999999% fresh " in out


def test_the_example_is_read_as_it_is(run):
    given_up = "the optimum gives up on pages"
    assert given_up in " ".join(run("compare")[0].split())
    assert given_up not in " ".join(run("compare", "--budget", "2M/day")[0].split())


@pytest.fixture
def drawn(run, monkeypatch):
    """Run a command and return the figure that it draws."""
    pytest.importorskip("matplotlib")
    figures = []
    save = pictures.save

    def keep(figure, path):
        save(figure, path)
        figures.append(figure)

    def drawn(*command):
        for module in (compare_plot, whatif_plot):
            monkeypatch.setattr(module, "save", keep)
        run(*command, "--plot", "plot.png")
        return figures.pop()

    return drawn


def labels(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@pytest.mark.every(2)
@pytest.mark.parametrize("budget", ["1B/h", "20MB/h", "1TB/h"])
def test_curves_reach_the_budget_and_labels_do_not_overlap(budget, drawn):
    figure = drawn("whatif", "files.csv", "--budget", budget)
    axes = figure.axes[-1]
    best, _, marked = axes.get_lines()
    x = marked.get_xdata()[0]
    assert best.get_xdata()[0] <= x * (1 + 1e-9)
    assert best.get_xdata()[-1] >= x * (1 - 1e-9)
    low, high = axes.get_xlim()
    ticks = zip(axes.xaxis.get_majorticklocs(), axes.xaxis.get_majorticklabels(), strict=True)
    boxes = [label.get_window_extent() for place, label in ticks if low <= place <= high]
    assert len(boxes) > 1
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.long
def test_curves_without_points_have_no_entry(drawn):
    figure = drawn("whatif", "pages.csv", "--objective", "currency:1h", "--max-frequency", "0.001/day")
    for axes in figure.axes:
        assert len(labels(axes)) == len(axes.get_lines())
        for line in axes.get_lines():
            assert any(value < float("inf") for value in line.get_ydata())


def test_plots_show_the_objective(drawn):
    figure = drawn("whatif", "pages.csv", "--objective", "missed-updates")
    assert figure.axes[0].get_ylabel() == "missed changes"
    figure = drawn("compare", "pages.csv", "--budget", "1/day", "--objective", "currency:1h")
    assert figure.axes[0].get_xlabel() == "over 1h behind (% of time)"
    assert figure.axes[0].get_title() == "What a budget of 1 poll/day buys"


@pytest.mark.long
def test_curves_show_an_objective_that_takes_quadrature(drawn):
    figure = drawn("whatif", "pages.csv", "--objective", "currency:1h")
    assert figure.axes[0].get_ylabel() == "over 1h behind (% of time)"
