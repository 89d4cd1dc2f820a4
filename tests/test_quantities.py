"""Quantities are read exactly, written for people, and refused by name."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unstale.errors import InvalidInput
from unstale.quantities import (
    Flow,
    duration,
    flow,
    frequency,
    share,
    show_duration,
    show_flow,
    show_number,
    show_share,
    time_unit,
)

DAY = time_unit("unit", "day")
WORDS = ("second", "minute", "hour", "day", "week", "month", "year")
UNITS = [time_unit("unit", word) for word in WORDS]


@pytest.mark.parametrize(
    ("text", "kind", "per_day"),
    [
        ("1000/day", "polls", 1000),
        ("1000 / day", "polls", 1000),
        (" 1000 polls per day ", "polls", 1000),
        ("1 poll/d", "polls", 1),
        ("50/s", "polls", 50 * 86400),
        ("1.5/min", "polls", 1.5 * 1440),
        ("60/h", "polls", 1440),
        ("60/hours", "polls", 1440),
        ("7/week", "polls", 1),
        ("1/6h", "polls", 4),
        ("3/1.5 days", "polls", 2),
        ("10k/day", "polls", 1e4),
        ("10k polls/day", "polls", 1e4),
        ("2M/day", "polls", 2e6),
        ("1G/day", "polls", 1e9),
        ("1e3/day", "polls", 1000),
        (".5/day", "polls", 0.5),
        ("365.25/year", "polls", 1),
        ("0/day", "polls", 0),
        ("20MB/h", "bytes", 480e6),
        ("20 MB/h", "bytes", 480e6),
        ("500B/s", "bytes", 500 * 86400),
        ("1 bytes/day", "bytes", 1),
        ("1kB/day", "bytes", 1e3),
        ("1KB/day", "bytes", 1e3),
        ("1GB/day", "bytes", 1e9),
        ("1TB/day", "bytes", 1e12),
        ("1KiB/day", "bytes", 1024),
        ("3MiB/day", "bytes", 3 * 2**20),
        ("1GiB/day", "bytes", 2**30),
        ("1TiB/day", "bytes", 2**40),
    ],
)
def test_flows_are_read_exactly(text, kind, per_day):
    got = flow("--budget", text)
    assert got.kind == kind
    assert got.per(DAY) == per_day


FLOWS = "--budget must be an amount per time, such as 1000/day or 20MB/h; it is "


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1000", FLOWS + "'1000'"),
        ("", FLOWS + "''"),
        ("day", FLOWS + "'day'"),
        ("-5/day", FLOWS + "'-5/day'"),
        ("1,000/day", FLOWS + "'1,000/day'"),
        ("nan/day", FLOWS + "'nan/day'"),
        ("\u0661/day", FLOWS + "'\u0661/day'"),
        ("10/fortnight", FLOWS + "'10/fortnight', and 'fortnight' is no unit of time"),
        ("20mb/h", FLOWS + "'20mb/h', and 'mb' is neither polls nor bytes"),
        ("20Mb/h", FLOWS + "'20Mb/h', and 'Mb' is neither polls nor bytes"),
        ("1/0h", FLOWS + "'1/0h', and it must be finite"),
        ("1e999/h", FLOWS + "'1e999/h', and it must be finite"),
        ("1e200/h", FLOWS + "'1e200/h', and it must be 0, or between 1e-100 and 1e100"),
        ("1e-200/h", FLOWS + "'1e-200/h', and it must be 0, or between 1e-100 and 1e100"),
    ],
)
def test_what_is_no_flow_is_refused(text, message):
    with pytest.raises(InvalidInput) as refused:
        flow("--budget", text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6h", 21600),
        ("90s", 90),
        ("2 weeks", 14 * 86400),
        ("1.5 days", 129600),
        ("1 min", 60),
        ("1 y", 31557600),
    ],
)
def test_times(text, seconds):
    assert duration("--age", text) == seconds


@pytest.mark.parametrize(
    "text", ["6", "h", "0h", "-6h", "6 parsecs", "1e999 h", "1e200 h", "1e-200 h", "6h/day", ""]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(
        InvalidInput, match=r"^--age must be a time, such as 90s, 6h, 1\.5 days or 2 weeks; it is "
    ):
        duration("--age", text)


@pytest.mark.parametrize(("text", "value"), [("80%", 0.8), ("0.8", 0.8), ("99.9 %", 0.999), (".5", 0.5)])
def test_shares(text, value):
    assert share("--freshness", text) == value


@pytest.mark.parametrize("text", ["80", "0%", "100%", "1", "0", "-5%", "fresh", ""])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(
        InvalidInput, match=r"^--freshness must be a share between 0% and 100%, such as 80% or 0\.8"
    ):
        share("--freshness", text)


def test_frequencies_are_polls():
    assert frequency("--min-frequency", "1/week").per(DAY) == pytest.approx(1 / 7, rel=1e-15)
    with pytest.raises(
        InvalidInput, match=r"^--min-frequency must be polls per time, such as 1/week or 4/day"
    ):
        frequency("--min-frequency", "1MB/week")


def test_units_of_time_are_named():
    assert [unit.name for unit in UNITS] == list(WORDS)
    with pytest.raises(InvalidInput, match=r"second, minute, hour, day, week, month, year\); it is 'moon'$"):
        time_unit("--rate-unit", "moon")


@given(st.floats(1e-6, 1e15), st.sampled_from(["polls", "bytes"]), st.sampled_from(UNITS))
def test_what_is_shown_can_be_read_again(amount, kind, unit):
    shown = show_flow(amount, kind, unit).replace(",", "")
    got = flow("--budget", shown)
    assert (got.kind, got.unit) == (kind, unit)
    assert got.amount == pytest.approx(amount, rel=6e-3)  # three digits are shown
    assert str(Flow(amount, kind, unit)) == show_flow(amount, kind, unit)


@given(st.floats(1e-3, 1e12))
def test_times_that_are_shown_can_be_read_again(seconds):
    shown = show_duration(seconds).replace(",", "").replace(" ms", "e-3 s")
    assert duration("--age", shown) == pytest.approx(seconds, rel=6e-3)


@given(st.floats(1e-3, 1e9), st.sampled_from(UNITS), st.sampled_from(UNITS))
def test_units_convert_there_and_back(amount, one, other):
    there = Flow(amount, "polls", one).per(other)
    assert Flow(there, "polls", other).per(one) == pytest.approx(amount, rel=1e-14)


@given(st.text())
def test_no_text_gets_past(text):
    for read in (flow, frequency, duration, share, time_unit):
        try:
            read("--option", text)
        except InvalidInput as error:
            assert str(error).startswith("--option must be ")  # noqa: PT017  (most texts are refused, not all)


def test_shares_do_not_round_up_to_all():
    assert show_share(1.0) == "100.0%"
    assert show_share(0.0) == "0.0%"
    assert show_share(0.9999999) == "99.99999%"
    assert show_share(1 - 2**-53) == "99.999999999999%"
    assert show_number(math.pi * 1e6) == "3,141,593"


def test_numbers_without_end_are_shortened():
    assert [show_number(x) for x in (9e14, 1e15, -1e100)] == ["900,000,000,000,000", "1e+15", "-1e+100"]
