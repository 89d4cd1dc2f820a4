"""Charts are well-formed whatever goes in, and put larger values higher and later ones further right."""

import re
from math import inf, isfinite, nan
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.dashboard.pages.charts import Axis, ChartLine, Dot, Level, Mark, bar, chart, sparkline, time_line
from unstale.dashboard.pages.scales import Scale, clock_labels, fitting, log_ticks, ticks, time_ticks

numbers = st.floats(allow_nan=True, allow_infinity=True)
finite = st.floats(-1e12, 1e12)
HOSTILE = '"><script>alert(1)</script>&'


def parsed(svg):
    """Return the root; the document must be well-formed, without scripts, styles or what CSP forbids."""
    root = ET.fromstring(str(svg))  # noqa: S314  (we made it)
    for node in root.iter():
        assert node.tag.endswith(("script", "style", "foreignObject")) is False
        assert not any(name == "style" or name.startswith("on") for name in node.attrib)
    return root


def drawn(lines, **options):
    return chart(
        "c",
        lines,
        title=options.pop("title", "A title"),
        description="A text",
        x=Axis(options.pop("x", Scale(0.0, 10.0))),
        y=Axis(options.pop("y", Scale(0.0, 1.0))),
        **options,
    )


def points(root, kind):
    path = next(n for n in root.iter("{http://www.w3.org/2000/svg}path") if kind in n.get("class").split())
    return [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.get("d"))]


def test_a_line_goes_where_its_values_are():
    root = parsed(drawn([ChartLine("one", [0.0, 5.0, 10.0], [0.0, 0.5, 1.0])]))
    assert points(root, "one") == [(0.0, 1000.0), (500.0, 500.0), (1000.0, 0.0)]


@given(st.lists(st.tuples(finite, finite), min_size=2, max_size=30))
def test_more_is_higher_and_later_is_further_right(pairs):
    pairs = sorted(pairs)
    scale = fitting([y for _, y in pairs])
    root = parsed(
        drawn(
            [ChartLine("one", [x for x, _ in pairs], [y for _, y in pairs])],
            x=Scale(pairs[0][0], pairs[-1][0]),
            y=scale,
        )
    )
    places = points(root, "one")
    assert len(places) == len(pairs)
    for (x1, y1), (x2, y2), (a1, b1), (a2, b2) in zip(places, places[1:], pairs, pairs[1:], strict=False):
        assert x2 >= x1 or a1 == a2
        assert y2 <= y1 or b2 <= b1
        assert y2 >= y1 or b2 >= b1


@given(
    st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=20),
    st.text(max_size=20),
)
def test_charts_take_anything(rows, text):
    xs, ys, low, high = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    known = [x for x in xs if isfinite(x)]
    scale = Scale(min(known, default=0.0), max(known, default=1.0))
    text = "".join(c for c in text if c.isprintable())
    root = parsed(
        drawn(
            [ChartLine("one", xs, ys, low, high), ChartLine("two", xs, ys, steps=True)],
            title=text,
            x=scale,
            y=fitting(ys),
            dots=[Dot("d", *row) for row in ((x, y, text) for x, y in zip(xs, ys, strict=True))],
            marks=[Mark("m", x, text) for x in xs],
            levels=[Level("l", y, text) for y in ys],
        )
    )
    assert "nan" not in ET.tostring(root, encoding="unicode").replace(text, "")
    parsed(sparkline("s", ChartLine("one", xs, ys), title=text, description=text))
    parsed(time_line("t", [(x, "change", text) for x in xs], title="t", description="d", scale=scale))


@pytest.mark.parametrize(
    ("xs", "ys"), [([], []), ([1.0], [0.5]), ([1.0, 2.0], [nan, nan]), ([1.0, 2.0, 3.0], [0.1, nan, 0.3])]
)
def test_few_or_no_values(xs, ys):
    root = parsed(drawn([ChartLine("one", xs, ys, ys, ys)]))
    paths = [n.get("d") for n in root.iter("{http://www.w3.org/2000/svg}path")]
    assert sum(path.count("M") for path in paths) == sum(isfinite(y) for y in ys)  # each by itself
    parsed(sparkline("s", ChartLine("one", xs, ys), title="t", description="d"))


def test_gaps_are_not_drawn_over():
    root = parsed(drawn([ChartLine("one", [0, 1, 2, 3, 4], [0.1, 0.2, nan, 0.3, 0.4])]))
    path = next(root.iter("{http://www.w3.org/2000/svg}path")).get("d")
    assert path.count("M") == 2


def test_many_points_are_thinned_with_the_last_kept():
    xs = [n / 1000 for n in range(10_001)]
    root = parsed(drawn([ChartLine("one", xs, [x / 10 for x in xs])]))
    places = points(root, "one")
    assert len(places) <= 502
    assert places[-1] == (1000.0, 0.0)


def test_text_is_escaped_and_there_is_a_title_and_a_description():
    svg = chart(
        "c",
        [],
        title=HOSTILE,
        description=HOSTILE,
        x=Axis(Scale(0, 1), lambda _: HOSTILE),
        y=Axis(Scale(0, 1), lambda _: HOSTILE),
        marks=[Mark("m", 0.5, HOSTILE)],
        levels=[Level("l", 0.5, HOSTILE)],
        dots=[Dot("d", 0.5, 0.5, HOSTILE)],
    )
    root = parsed(svg)
    assert "<script" not in svg
    assert root.get("role") == "img"
    ids = {node.get("id"): node.text for node in root if node.get("id")}
    assert [ids[name] for name in root.get("aria-labelledby").split()] == [HOSTILE, HOSTILE]
    line = time_line("t", [(0.5, "failed", HOSTILE)], title="t", description="d", scale=Scale(0, 1))
    parsed(line)
    assert "<script" not in line


def test_bars_fill_the_width():
    root = parsed(bar("b", [("changed", 3.0), ("failed", 1.0)], title="t", description="d"))
    widths = [float(n.get("width").rstrip("%")) for n in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert widths == [75.0, 25.0]
    parsed(bar("b", [], title="t", description="d"))


@given(finite, finite, st.lists(finite, min_size=2, max_size=5))
def test_scales_are_monotone(one, other, values):
    scale = Scale(min(one, other), max(one, other))
    places = [scale(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(0.0 <= place <= 1.0 for place in places)


@given(st.floats(1e-9, 1e9), st.floats(1.001, 1e6))
def test_logarithmic_scales_are_monotone_and_have_ticks(low, factor):
    scale = Scale(low, low * factor, log=True)
    found = log_ticks(scale)
    assert found == sorted(found)
    assert 1 <= len(found) <= 6
    assert scale(low) == pytest.approx(0.0, abs=1e-9)
    assert scale(low * factor) == pytest.approx(1.0)


@given(st.lists(numbers, max_size=10))
def test_a_fitting_scale_holds_all_values_and_ticks_are_on_it(values):
    known = [value for value in values if isfinite(value) and abs(value) < 1e290]
    scale = fitting(known)
    slack = 1e-6 * (scale.high - scale.low)
    assert scale.high > scale.low
    assert all(scale.low - slack <= value <= scale.high + slack for value in known)
    found = ticks(scale)
    assert found == sorted(found)
    assert 1 <= len(found) <= 41
    assert all(scale.low - slack <= tick <= scale.high + slack for tick in found)


@given(st.floats(0, 4e9), st.floats(0, 1e9))
def test_ticks_of_time(start, span):
    scale = Scale(start, start + span)
    found = time_ticks(scale)
    assert len(found) <= 12
    assert all(scale.low - 1e-6 <= moment <= scale.high + 1e-6 for moment in found)
    assert len(clock_labels(found)) == len(found)


def test_moments_beyond_the_calendar_have_no_label():
    assert clock_labels([1e18, -1e18, inf]) == ["", "", ""]
