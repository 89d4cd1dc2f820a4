"""What every experiment has in common: verdicts, the catalogue, figures, files, the report."""

import csv
import json
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO, StringIO
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.image import imread

from unstale.errors import InvalidInput
from unstale.lab import (
    BEYOND,
    CHO,
    Claim,
    Line,
    Panel,
    Run,
    Table,
    Verdict,
    cannot,
    choose,
    every_experiment,
    experiment,
    number,
    ours,
    statement,
)
from unstale.lab.drawing import _figure, pictures
from unstale.lab.report import MEANINGS, report_files
from unstale.lab.results import Results, as_csv, figure_csv, files_of, show_claim
from unstale.lab.running import Done, carry_out

EVERY = every_experiment()
X = np.linspace(0.1, 10.0, 40)
KINDS = [
    Panel(
        title="Curves",
        x="r (changes per poll)",
        y="freshness (share of time)",
        log="x",
        lines=[
            Line.of("fixed", X, np.exp(-X)),
            Line.of("fixed, simulated", X[::10], np.exp(-X[::10]), "points", error=np.full(4, 0.01)),
            Line.of("random", X, 1 / (1 + X), "steps"),
        ],
    ),
    Panel(
        title="Bars",
        x="policy",
        y="polls (per day)",
        names=["uniform", "optimal"],
        lines=[Line.of("fixed", [0, 1], [1.0, 2.0], "bars"), Line.of("random", [0, 1], [1.0, 3.0], "bars")],
    ),
    Panel(
        title="Not all can be drawn",
        x="x (units)",
        y="y (units)",
        log="xy",
        bounds=(0.01, None),
        lines=[Line.of("with gaps", [0.0, 1.0, 2.0, 3.0], [1.0, 0.0, np.inf, 2.0])],
    ),
]


@experiment("made-up", paper=BEYOND, where="a test", shows="<b>all</b> there is & more", seconds=0.1)
def made_up(run):
    yield number("near", published=0.63, computed=1 - np.exp(-1.0), within=0.005)
    yield statement("any", says="it holds", holds=True)
    yield cannot("theirs", published="it took an hour", why="The machine is gone.")
    yield ours("how many", computed=run.some(1_000_000, 1000))
    yield from KINDS
    yield Table("Two columns, of <things>", {"name": ["a", "b,c"], "value (polls)": np.array([0.5, 2.0])})
    yield Table("Two columns, of -things-", {"n": [1, 2]})


def done_with(*claims, name="made-up"):
    @experiment(name, paper=BEYOND, where="a test", shows="claims")
    def one(_run):
        yield from claims

    return Done(experiment=one, findings=one.run())


# Verdicts


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (number("n", published=0.63, computed=0.6349, within=0.005), "reproduces"),
        (number("n", published=0.63, computed=0.6351, within=0.005), "differs"),
        (number("n", published=3, computed=3, within=0.0), "reproduces"),
        (number("n", published=0.63, computed=0.64, within=0.005, nearly=0.02, why="w"), "approximately"),
        (number("n", published=0.63, computed=0.66, within=0.005, nearly=0.02, why="w"), "differs"),
        (
            number("n", published=5, computed=4.17, within=0.5, right=4.17, close=0.01, why="w"),
            "the paper is in error",
        ),
        (number("n", published=5, computed=4.20, within=0.5, right=4.17, close=0.01), "differs"),
        (number("n", published=5, computed=4.9, within=0.5, right=4.17, close=0.01), "reproduces"),
        (number("n", published=np.inf, computed=np.inf, within=0.0), "reproduces"),
        (number("n", published=1.0, computed=np.inf, within=0.1), "differs"),
        (statement("s", says="so", holds=True), "reproduces"),
        (statement("s", says="so", holds=np.bool_(True)), "reproduces"),
        (statement("s", says="so", holds=False), "differs"),
        (statement("s", says="so", holds=False, error="why"), "the paper is in error"),
        (statement("s", says="so", holds=True, error="why"), "reproduces"),
        (ours("o", computed=7.0), "not in the paper"),
        (ours("o", computed=7.0, expected=7.1, close=0.2), "not in the paper"),
        (ours("o", computed=7.0, expected=7.1, close=0.01), "differs"),
        (ours("o", computed=True), "not in the paper"),
        (ours("o", computed=np.False_), "differs"),
        (cannot("c", published=62.0, why="gone"), "cannot"),
        (cannot("c", published="an hour", why="gone"), "cannot"),
    ],
)
def test_a_verdict_follows_from_the_numbers(claim, verdict):
    assert str(claim.verdict) == verdict
    assert done_with(claim).agrees == (verdict != "differs")


def test_what_is_not_a_number_is_refused():
    with pytest.raises(InvalidInput, match="gain: what is computed must be a number; it is nan"):
        number("gain", published=1.0, computed=np.nan, within=0.1)
    with pytest.raises(ValueError, match="'a'"):
        number("gain", published=1.0, computed=1.0, within="a")


@pytest.mark.parametrize("excuse", [{"nearly": 100.0}, {"right": 9.0}])
def test_what_is_excused_must_be_explained(excuse):
    kind = "approximately" if "nearly" in excuse else "the paper is in error"
    with pytest.raises(InvalidInput, match=f"gain: the verdict is '{kind}', so why must say why"):
        number("gain", published=1.0, computed=9.0, within=0.1, **excuse)
    assert number("gain", published=1.0, computed=1.0, within=0.1, **excuse).verdict == "reproduces"
    with pytest.raises(InvalidInput, match="time: the verdict is 'cannot', so why must say why"):
        cannot("time", published=62.0, why=" ")


@pytest.mark.parametrize("holds", ["no", 1, None])
def test_a_statement_holds_or_not(holds):
    with pytest.raises(InvalidInput, match=f"s: holds must be True or False; it is {holds!r}"):
        statement("s", says="so", holds=holds)


def test_claims_are_made_in_words():
    with pytest.raises(InvalidInput, match="a claim must say in words what is claimed, and why; it says 3 "):
        ours(3, computed=1.0)


@pytest.mark.parametrize(
    ("claim", "shown"),
    [
        (number("n", published=0.63, computed=0.632121, within=0.005), ("n", "0.63", "0.6321")),
        (number("n", published=1.5, computed=1.5, within=0.005), ("n", "1.50", "1.5000")),
        (number("n", published=500_000, computed=500_001.2, within=5.0), ("n", "500,000", "500,001.20")),
        (number("n", published=2.5e-7, computed=2.51234567e-7, within=5e-9), ("n", "2.5e-07", "2.51235e-07")),
        (number("n", published=1 / 36, computed=0.02777779, within=1e-7), ("n", "0.0277778", "0.0277778")),
        (number("n", published=0.25, computed=0.25, within=1e-9), ("n", "0.25", "0.2500")),
        (number("n", published=0.0, computed=1e-12, within=0.005), ("n", "0.00", "1e-12")),
        (number("n", published=1.0, computed=np.inf, within=0.05), ("n", "1.0", "inf")),
        (ours("n", computed=1 / 3), ("n", "\u2013", "0.333333")),
        (ours("n", computed=False), ("n", "\u2013", "does not hold")),
        (statement("s", says="so", holds=True), ("s: so", "stated", "holds")),
        (cannot("c", published=62.0, why="gone"), ("c", "62", "\u2013")),
    ],
)
def test_numbers_have_two_digits_more_than_those_published(claim, shown):
    assert show_claim(claim) == shown


# Shapes


def test_lines_have_as_many_x_as_y():
    with pytest.raises(InvalidInput, match=r"the line 'a' must have as many x as y; .*\(2,\), \(3,\)"):
        Line.of("a", [1, 2], [1, 2, 3])
    with pytest.raises(InvalidInput, match="as many x as y"):
        Line.of("a", [[1, 2]], [[1, 2]])
    with pytest.raises(InvalidInput, match="as many x as y"):
        Line.of("a", [1, 2], [1, 2], error=[1])


def test_tables_have_columns_of_equal_length():
    with pytest.raises(
        InvalidInput, match=r"the table 't' must be of equal length; they are \{'a': 1, 'b': 2\}"
    ):
        Table("t", {"a": [1], "b": [1, 2]})
    with pytest.raises(
        InvalidInput, match=r"a table and its columns must have names; they are 't' and \[1\]"
    ):
        Table("t", {1: [1]})


@pytest.mark.parametrize("name", ["", "Figure 6", "a/b", "..", "a--b", "-a", 6])
def test_names_are_fit_for_files(name):
    with pytest.raises(InvalidInput, match="the name of an experiment must be words of a-z"):
        experiment(name, paper=BEYOND, where="", shows="")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"paper": "My paper"}, "paper must be a Paper: .* it is 'My paper'"),
        ({"where": None}, "where and shows must be in words; they are None and ''"),
        ({"seconds": "a"}, "seconds must be a number above 0; it is 'a'"),
        ({"seconds": 0}, "seconds must be a number above 0; it is 0"),
        ({"seconds": np.nan}, "seconds must be a number above 0; it is nan"),
    ],
)
def test_what_is_said_of_an_experiment_is_checked(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        experiment("odd", **({"paper": BEYOND, "where": "", "shows": ""} | wrong))


def test_an_experiment_yields_something():
    @experiment("none", paper=BEYOND, where="", shows="")
    def none(_run):
        ours("forgotten", computed=1.0)

    @experiment("nothing", paper=BEYOND, where="", shows="")
    def nothing(_run):
        yield from ()

    with pytest.raises(InvalidInput, match="must yield claims, panels and tables; none returns None"):
        none.run()
    with pytest.raises(InvalidInput, match="must yield claims, panels or tables; nothing yields nothing"):
        nothing.run()


def test_what_an_experiment_yields_is_checked():
    @experiment("odd", paper=BEYOND, where="", shows="")
    def odd(_run):
        yield 3

    with pytest.raises(InvalidInput, match="claims, panels and tables; odd yields 3"):
        odd.run()


# The catalogue


def test_names_are_unique():
    names = [one.name for one in EVERY]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_the_list_says_all(one):
    assert one.where
    assert one.shows
    assert len(one.shows) < 120
    assert not one.shows.endswith(".")
    assert 0 < one.seconds <= 120


def test_numbers_in_names_are_sorted_as_numbers():
    names = [one.name for one in EVERY if re.fullmatch(r"cho-figure-\d+", one.name)]
    assert names == sorted(names, key=lambda name: int(name.rpartition("-")[2]))


def test_choosing():
    assert [one.name for one in choose(["cho-table-2", "cho-table-*", "cho-table-2"])] == [
        one.name for one in EVERY if one.name.startswith("cho-table-")
    ]
    with pytest.raises(InvalidInput, match=r"no experiment 'cho-figure-66'; did you mean cho-figure-6\?"):
        choose(["cho-figure-66"])
    with pytest.raises(InvalidInput, match=r"no experiment 'xyz\*'; unstale lab list shows them all"):
        choose(["xyz*"])


def test_the_list_is_quick():
    script = (
        "import sys; from unstale.lab.catalogue import every_experiment; every_experiment();"
        "print(*({'numba', 'scipy', 'matplotlib', 'pyarrow', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


# Findings of all experiments


@pytest.mark.parametrize("name", [one.name for one in EVERY])
def test_every_experiment_agrees_and_can_travel(name, findings):
    found = findings(name)
    assert [claim for claim in found.claims if claim.verdict is Verdict.DIFFERS] == []
    assert found.claims
    assert len({claim.what for claim in found.claims if claim.published is None}) == sum(
        claim.published is None for claim in found.claims
    )
    back = pickle.loads(pickle.dumps(found))  # noqa: S301  (our own)
    assert back.claims == found.claims
    for claim in found.claims:
        if claim.verdict in {Verdict.APPROXIMATELY, Verdict.CANNOT, Verdict.PAPER_IN_ERROR}:
            assert claim.why, claim
        assert isinstance(claim.what, str)
        assert type(claim.computed) in {float, bool, type(None)}
    for panel in found.panels:
        assert panel.title
        assert panel.x
        assert panel.y
        assert panel.lines
        assert len([line for line in panel.lines if line.kind != "points"]) <= 7, panel.title
        labels = [line.label for line in panel.lines]
        assert len(set(labels)) == len(labels)
        assert all(labels)
        for line in panel.lines:
            assert np.isfinite(line.x).all()
            assert np.isfinite(line.y).any()


# Figures


def test_places_without_a_panel_stay_empty():
    axes = _figure(made_up, KINDS).axes
    assert [one.axison for one in axes] == [True, True, True, False]


def test_every_kind_of_panel_is_drawn_and_the_same_each_time():
    drawn = pictures(made_up, KINDS)
    root = ET.fromstring(drawn["svg"])  # noqa: S314  (our own)
    assert root.tag.endswith("svg")
    assert imread(BytesIO(drawn["png"])).shape[1] > 1000
    assert pictures(made_up, KINDS) == drawn
    assert pictures(made_up, []) == {}


def test_axes_are_labelled_and_legends_do_not_cover_the_data():
    figure = _figure(made_up, KINDS[:2])
    figure.draw_without_rendering()
    for axes, panel in zip(figure.axes, KINDS, strict=False):
        assert (axes.get_xlabel(), axes.get_ylabel()) == (panel.x, panel.y)
        legend, label = axes.get_legend().get_window_extent(), axes.xaxis.label.get_window_extent()
        assert legend.y1 < label.y0 + 1
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [
            line.label for line in panel.lines
        ]


def test_lines_differ_in_grey_print_and_points_belong_to_their_line():
    panel = KINDS[0]
    many = [Line.of(f"line {at}", X, at * X) for at in range(10)]
    (axes,) = _figure(made_up, [replace(panel, lines=many)]).axes
    seen = {(one.get_color(), str(one._dash_pattern)) for one in axes.get_lines() if one.get_xdata().size}
    assert len(seen) == 10
    (axes,) = _figure(made_up, [panel]).axes
    colours = {box.get_label(): box.lines[0].get_color() for box in axes.containers}
    assert colours["fixed"] == colours["fixed, simulated"] != colours["random"]


def test_the_legend_says_what_a_logarithmic_axis_has_no_place_for():
    (axes,) = _figure(made_up, [KINDS[2]]).axes
    (entry,) = axes.get_legend().get_texts()
    assert entry.get_text() == "with gaps (2 points at or below 0 left out)"
    (axes,) = _figure(made_up, [replace(KINDS[2], log="x")]).axes
    (entry,) = axes.get_legend().get_texts()
    assert entry.get_text() == "with gaps (1 point at or below 0 left out)"


def test_one_legend_serves_panels_with_the_same_lines():
    figure = _figure(made_up, [KINDS[2], KINDS[2]])
    assert len(figure.legends) == 1
    assert all(axes.get_legend() is None for axes in figure.axes)


# Files


def test_data_come_back_from_csv():
    rows = list(csv.DictReader(StringIO(figure_csv(KINDS))))
    for panel in KINDS:
        for line in panel.lines:
            mine = [row for row in rows if (row["panel"], row["line"]) == (panel.title, line.label)]
            x = [panel.names.index(row["x"]) if panel.names else float(row["x"]) for row in mine]
            np.testing.assert_allclose(x, line.x, rtol=1e-11)
            np.testing.assert_allclose([float(row["y"]) for row in mine], line.y, rtol=1e-11)
            if line.error is not None:
                np.testing.assert_allclose([float(row["error"]) for row in mine], line.error, rtol=1e-11)
    assert len(rows) == sum(line.x.size for panel in KINDS for line in panel.lines)
    table = made_up.run().tables[0]
    back = list(csv.DictReader(StringIO(as_csv(table))))
    assert [row["name"] for row in back] == ["a", "b,c"]
    assert [float(row["value (polls)"]) for row in back] == [0.5, 2.0]


def test_files_have_names_of_their_own():
    (done,) = carry_out([made_up], Run(quick=True))
    assert list(files_of(done)) == [
        "made-up.svg",
        "made-up.png",
        "made-up.csv",
        "made-up.two-columns-of-things.csv",
        "made-up.two-columns-of-things.2.csv",
    ]


# Running


@experiment("failing", paper=BEYOND, where="a test", shows="how it fails", seconds=5)
def failing(_run):
    yield ours("something", computed=1.0)
    raise ValueError("what\nwent wrong")


def test_one_that_fails_stops_no_other():
    told = []
    first, second = carry_out([made_up, failing], Run(quick=True), advance=told.append)
    assert first.experiment is failing  # the longest first
    assert first.failure == "ValueError: what went wrong"  # no line: it is not from a file of one's own
    assert not first.agrees
    assert first.findings.claims == []
    assert second.agrees
    assert sum(told) == pytest.approx(5.1)


def test_several_at_a_time(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "import os\n"
        "from unstale.lab import BEYOND, Table, experiment, ours\n"
        + "".join(
            f"@experiment('own-{name}', paper=BEYOND, where='here', shows='nothing')\n"
            f"def {name}(run):\n    {body}\n    yield ours('seed', computed=run.seed)\n"
            for name, body in (
                ("good", ""),
                ("bad", "1 / 0"),
                ("dead", "os._exit(3)"),
                ("gone", "raise SystemExit(0)"),
                ("odd", "yield Table('t', {'c': [lambda: 0]})"),
            )
        )
    )
    by_name = {one.name: one for one in choose([str(own)])}
    good, bad, dead = (by_name[f"own-{name}"] for name in ("good", "bad", "dead"))
    some = [good, bad, by_name["own-gone"], by_name["own-odd"]]
    done = {one.experiment.name: one for one in carry_out(some, Run(seed=5), jobs=2)}
    assert done["own-good"].findings.claims[0].computed == 5
    assert done["own-good"].agrees
    assert done["own-bad"].failure == "ZeroDivisionError: division by zero (line 9)"
    assert done["own-gone"].failure == "SystemExit: 0 (line 17)"
    assert "pickle" in done["own-odd"].failure
    left = {one.experiment.name: one.failure for one in carry_out([bad, dead], Run(), jobs=2)}
    assert "its process was killed" in left["own-dead"]


def test_the_same_in_other_processes_as_here():
    names = ["cho-table-4", "cho-table-5"]
    here = list(carry_out(choose(names), Run(quick=True)))
    there = list(carry_out(choose(names), Run(quick=True), jobs=2))
    for one in here:
        (other,) = [other for other in there if other.experiment is one.experiment]
        assert other.findings.claims == one.findings.claims
        assert other.pictures == one.pictures


# The report


class Page(HTMLParser):
    """Checks that elements are closed as they are opened, and collects what matters."""

    EMPTY = frozenset({"meta", "img", "br", "link"})

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.addresses, self.alts, self.tags, self.words = [], [], [], [], [], ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [found[key] for key in ("src", "href") if key in found]
        self.alts += [found.get("alt", "")] if tag == "img" else []
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def report():
    run = Run(quick=True, seed=7)
    wrong = done_with(Claim(what="w", published=1.0, computed=2.0), name="wrong")
    wrong = replace(wrong, experiment=replace(wrong.experiment, paper=CHO))
    done = [*carry_out([replace(made_up, paper=CHO)], run), *carry_out([failing], run), wrong]
    return report_files(Results(run, done))


def test_the_report_is_whole_and_self_contained(report):
    text = report["report.html"].decode()
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    assert {"made-up", "failing", "wrong"} < set(page.ids)
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert {address[1:] for address in page.addresses if address.startswith("#")} <= set(page.ids)
    assert "script" not in page.tags
    assert "url(" not in re.sub(r"data:[^\"]*", "", text)
    assert "@media print" in text
    assert '<meta name="viewport"' in text
    assert all(page.alts)
    assert "Curves (freshness (share of time) against r (changes per poll)" in page.alts[0]
    assert "<b>all</b> there is & more" in page.words  # escaped
    assert "failed: ValueError: what went wrong" in page.words
    assert "Some claims are neither reproduced nor explained, or experiments failed." in page.words
    assert "seed 7" in page.words
    assert "run quickly" in page.words
    for package in ("unstale", "python", "numpy", "scipy", "numba", "matplotlib"):
        assert re.search(rf"{package} \d+\.\d+", page.words)
    assert "data:text/csv" in text
    assert text.count(f"<h2>{CHO}</h2>".replace("&", "&amp;")) == 1  # all of a paper stand together
    assert page.ids[-3:] == ["made-up", "wrong", "failing"]


def test_wide_figures_can_be_read_on_a_phone(report):
    text = report["report.html"].decode()
    (least,) = re.findall(r"<figure><img [^>]*min-width: ([\d.]+)rem", text)
    small = 8.3 / (2 * 5.2 * 72)  # letters of legends, over the width of two panels side by side
    assert small * 16 * float(least) >= 9  # px
    assert re.search(r"figure \{[^}]*overflow-x: auto", text)


def test_the_report_counts_verdicts(report):
    data = json.loads(report["results.json"])
    assert data["counts"] == {
        "reproduces": 2,
        "cannot": 1,
        "not in the paper": 1,
        "differs": 1,
    }
    assert data["agree"] is False
    names = [one["name"] for one in data["experiments"]]
    assert names == ["made-up", "failing", "wrong"]
    made = data["experiments"][0]
    assert made["panels"][2]["lines"][0]["y"] == [1.0, 0.0, None, 2.0]
    assert made["tables"][0]["columns"]["name"] == ["a", "b,c"]
    assert data["experiments"][1]["failure"].startswith("ValueError")
    assert (data["seed"], data["quick"]) == (7, True)
    assert set(MEANINGS) == set(Verdict)
