"""Windows and their clocks: against a calendar read minute by minute, and the laws that every clock keeps."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pytest
from example_counts import percent
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unstale.errors import InvalidInput, NoAnswer
from unstale.schedule import window_clocks
from unstale.schedule.element_clocks import AllHours
from unstale.schedule.window_clocks import CalendarClock
from unstale.schedule.windows import Windows

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE = timedelta(minutes=1)
START = datetime(2024, 1, 1, tzinfo=UTC)  # a Monday

# --- the calendar -------------------------------------------------------------------------------------------


def minute_by_minute(rules, zone, start, minutes):
    """Whether each minute is inside a window, and whether one opens in it, by what clocks on the wall show.

    ``rules`` are days, opening and closing, in hours and minutes; closings beyond 24 are on the next day.
    """
    zone = ZoneInfo(zone)
    shown = np.array(
        [
            ((start + i * MINUTE).astimezone(zone).replace(tzinfo=None) - datetime(2000, 1, 1)) // MINUTE  # noqa: DTZ001
            for i in range(minutes)
        ]
    )
    latest = np.maximum.accumulate(shown)  # so that only the first time that clocks show something counts
    inside, opening = np.zeros((2, minutes), bool)
    first = (start - timedelta(days=3)).date()
    for day in range(minutes // 1440 + 6):
        date = first + timedelta(days=day)
        for days, opens, closes in rules:
            if DAYS[date.weekday()] in days:
                midnight = (datetime(date.year, date.month, date.day) - datetime(2000, 1, 1)) // MINUTE  # noqa: DTZ001
                ends = (midnight + hour * 60 + minute for hour, minute in (opens, closes))
                begin, end = np.searchsorted(latest, list(ends))
                inside[begin:end] = True
                opening[begin : begin + (end > begin)] = True
    return inside, opening


ALL = DAYS
CALENDARS = [
    # text, the same as rules, and the days around which clocks change
    ("all 22:00-06:00 {}", [(ALL, (22, 0), (30, 0))]),
    ("mon-fri 22:00-06:00 {}", [(DAYS[:5], (22, 0), (30, 0))]),
    ("sat,sun 01:15-02:30,02:45-03:10 {}", [(DAYS[5:], (1, 15), (2, 30)), (DAYS[5:], (2, 45), (3, 10))]),
    ("all 02:00-03:00 {}", [(ALL, (2, 0), (3, 0))]),
    ("all 02:10-02:20,01:50-02:15 {}", [(ALL, (1, 50), (2, 20))]),
    (
        "sun 00:00-24:00; mon-wed 23:30-00:30 {}",
        [(DAYS[6:], (0, 0), (24, 0)), (DAYS[:3], (23, 30), (24, 30))],
    ),
    ("all 00:15-00:45,23:10-00:05 {}", [(ALL, (0, 15), (0, 45)), (ALL, (23, 10), (24, 5))]),
]
CHANGES = [
    ("Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2024, 10, 27, tzinfo=UTC)),
    ("America/New_York", datetime(2024, 3, 10, tzinfo=UTC)),
    ("America/New_York", datetime(2024, 11, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2024, 10, 5, tzinfo=UTC)),  # by half an hour
    ("America/Havana", datetime(2024, 3, 10, tzinfo=UTC)),  # at midnight
    ("America/Havana", datetime(2024, 11, 3, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),  # a day that never was
]


@pytest.mark.parametrize(("zone", "day"), CHANGES, ids=lambda value: str(value)[:16])
@pytest.mark.parametrize(
    ("text", "rules"), CALENDARS, ids=lambda value: value[:30] if isinstance(value, str) else ""
)
def test_clock_agrees_with_a_calendar_read_minute_by_minute(text, rules, zone, day):
    start = day - timedelta(days=5)
    inside, opening = minute_by_minute(rules, zone, start, 10 * 1440)
    windows = Windows.parse(text.format(zone))
    clock = windows.clock(day - timedelta(days=2, hours=7, minutes=12, seconds=13.5), unit_seconds=60.0)
    t = (start - clock.origin) / MINUTE + np.arange(inside.size)
    middle = slice(1440, -2880)  # before and after, minutes are missing
    assert (clock.is_open(t + 0.5) == inside)[middle].all()
    assert (clock.is_open(t + 1e-6) == inside)[middle].all()
    assert (clock.is_open(t + 1 - 1e-6) == inside)[middle].all()
    gained = np.diff(clock.worked(t)) * windows.share
    np.testing.assert_allclose(gained[middle], inside[:-1][middle], atol=1e-9)
    opening = np.flatnonzero(opening)
    early = np.arange(1440, opening[-1])
    following = opening[np.searchsorted(opening, early)]
    np.testing.assert_allclose(clock.opens_after(t[early] - 1e-6), t[following], atol=1e-6)


@pytest.mark.parametrize(
    ("hours", "zone", "day", "spans"),
    [
        # clocks skip from 02:00 to 03:00 at 01:00 UTC
        ("02:00-03:00", "Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC), []),
        ("02:10-02:20", "Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC), []),
        ("02:30-04:00", "Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC), [(1.0, 2.0)]),
        ("01:30-02:30", "Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC), [(0.5, 1.0)]),
        ("01:00-04:00", "Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC), [(0.0, 2.0)]),
        # clocks show 02:00 to 03:00 from 00:00 and again from 01:00 UTC
        ("02:00-02:30", "Europe/Berlin", datetime(2024, 10, 27, tzinfo=UTC), [(0.0, 0.5)]),
        ("02:30-03:00", "Europe/Berlin", datetime(2024, 10, 27, tzinfo=UTC), [(0.5, 2.0)]),
        ("02:00-02:30, 02:30-03:00", "Europe/Berlin", datetime(2024, 10, 27, tzinfo=UTC), [(0.0, 2.0)]),
        ("02:30-04:00", "America/New_York", datetime(2024, 3, 10, tzinfo=UTC), [(7.0, 8.0)]),
        ("01:30-02:00", "America/New_York", datetime(2024, 11, 3, tzinfo=UTC), [(5.5, 7.0)]),
    ],
)
def test_hours_that_are_skipped_or_shown_twice(hours, zone, day, spans):
    clock = Windows.daily(hours, zone=zone).clock(day, unit_seconds=3600.0)
    quarters = np.arange(0.0, 12.0, 0.25)
    inside = np.zeros(quarters.size, bool)
    for opens, closes in spans:
        inside |= (quarters >= opens) & (quarters < closes)
    assert (clock.is_open(quarters) == inside).all()


def test_origin_may_be_in_any_zone():
    windows = Windows.daily("08:00-09:00", zone="Asia/Tokyo")
    t = np.linspace(0.0, 3.0, 1000)
    same = [
        windows.clock(START, 86400.0).worked(t),
        windows.clock(START.astimezone(ZoneInfo("America/New_York")), 86400.0).worked(t),
        windows.clock(datetime(2024, 1, 1, 3, 30, tzinfo=timezone(timedelta(hours=3.5))), 86400.0).worked(t),
    ]
    assert (same[0] == same[1]).all()
    assert (same[0] == same[2]).all()


def test_worked_time_goes_as_fast_as_time():
    clock = Windows.parse("mon-fri 02:00-03:00,22:00-06:00 Europe/Berlin at_start=0.3").clock(START, 86400.0)
    years = np.arange(-50.0, 50.0) * 365.2425
    assert np.abs(clock.worked(years) - years).max() < 5.0  # days
    whole = 28 * 365.25 * 2  # the calendar begins anew: as many hours are skipped as are shown twice
    sunday = 6.5
    assert clock.worked(sunday + whole) - clock.worked(sunday) == pytest.approx(whole, abs=1e-6)


def test_what_is_known_of_the_calendar_makes_no_difference():
    windows = Windows.parse("tue-thu 21:30-05:00 America/New_York at_start=0.2")
    t = np.random.default_rng(1).uniform(-400.0, 4000.0, 1000)
    at_once, stepwise, backwards = (windows.clock(START, 86400.0) for _ in range(3))
    expected = at_once.worked(t), at_once.when(t), at_once.opens_after(t)
    for clock, order in ((stepwise, np.argsort(t)), (backwards, np.argsort(-t))):
        for i in order:
            assert clock.worked(t[i]) == expected[0][i]
            assert clock.when(t[i]) == expected[1][i]
            assert clock.opens_after(t[i]) == expected[2][i]


def test_clock_is_cheap_to_send_elsewhere():
    clock = Windows.parse("mon-fri 22:00-06:00 Europe/Berlin").clock(START, 86400.0)
    expected = clock.when(np.arange(5000.0))
    sent = pickle.dumps(clock)
    assert len(sent) < 500
    again = pickle.loads(sent)  # noqa: S301
    assert again == clock
    assert (again.when(np.arange(5000.0)) == expected).all()
    periodic = Windows.every(24, 22, 30).clock()
    assert pickle.loads(pickle.dumps(periodic)) == periodic  # noqa: S301


def test_calendar_ends():
    clock = Windows.daily("22:00-06:00", zone="UTC").clock(START, 86400.0)
    for t in (1e9, -1e9, 1e300):
        with pytest.raises(NoAnswer, match="beyond the years 2 to 9998; t = 0 is 2024-01-01"):
            clock.worked(t)
    assert clock.worked(1.0) > 0  # and it still works
    late = Windows.daily("22:00-06:00", zone="UTC").clock(datetime(9998, 1, 1, tzinfo=UTC), 86400.0)
    assert late.is_open(late.when(300.0))


def test_days_that_are_alike_make_a_cycle_of_a_day():
    def cycle(text):
        return Windows.parse(text).clock(START, 3600.0).cycle

    assert cycle("all 22:00-06:00 Europe/Berlin").period == pytest.approx(24.0)
    assert cycle("all 00:00-06:00,12:00-18:00 UTC").period == pytest.approx(12.0)
    assert cycle("mon-sat 22:00-06:00 Europe/Berlin").period == pytest.approx(168.0)
    assert cycle("all 00:00-06:00,12:00-17:00 UTC").spans == pytest.approx(np.array([(0, 6), (12, 17)]))


# --- laws ---------------------------------------------------------------------------------------------------


@st.composite
def periodic_windows(draw):
    period = draw(st.sampled_from([1.0, 24.0, 0.1, 86400.0]) | st.floats(1e-3, 1e4))
    ends = st.floats(0.0, 0.999, allow_subnormal=False)
    opens = np.array(draw(st.lists(ends, min_size=1, max_size=5, unique=True)))
    lengths = np.array([draw(st.floats(1e-3, 1.0)) for _ in opens])
    opens = np.minimum(opens * period, np.nextafter(period, 0.0))
    at_start = draw(st.sampled_from([0.0, 0.3, 0.7, 1.0]))
    try:
        return Windows.every(period, opens, opens + lengths * period * 0.999, at_start=at_start)
    except InvalidInput as error:
        assert "overlap all the time" in str(error)  # noqa: PT017  (then they have no start)
        return Windows.every(period, opens, opens + lengths * period * 0.999)


CLOCKS = st.one_of(
    periodic_windows()
    .map(lambda windows: windows.clock())
    .filter(lambda clock: not isinstance(clock, AllHours)),
    st.sampled_from(
        [
            Windows.parse(text).clock(START + timedelta(hours=hours), 86400.0)
            for text in (
                "mon-fri 22:00-06:00 Europe/Berlin",
                "all 00:00-24:00 America/New_York at_start=0.7",
                "sat,sun 12:00-13:00; mon 02:00-02:30 UTC at_start=1",
            )
            for hours in (0, 23)
        ]
    ),
)


@settings(max_examples=percent(300))
@given(clock=CLOCKS, seed=st.integers(0, 2**32), reach=st.sampled_from([3.0, 100.0, 3000.0]))
def test_laws_of_clocks(clock, seed, reach):
    period = clock.cycle.period
    scale = reach * period
    if isinstance(clock, CalendarClock):
        scale = min(scale, 10_000.0)
    rng = np.random.default_rng(seed)
    v = np.sort(rng.uniform(-scale, scale, 300))
    tolerance = 1e-12 * scale
    t = clock.when(v)
    assert clock.is_open(t).all()
    assert (np.diff(t) >= 0.0).all()
    # what is worked before t is at most v; right after t, it is more
    assert (clock.worked(t) <= v + tolerance).all()
    assert (clock.worked(t + 1e3 * tolerance) >= v - tolerance).all()
    # beginnings of windows belong to them
    opens = clock.opens_after(v)
    assert (opens >= v).all()
    assert clock.is_open(opens).all()
    assert (clock.when(clock.worked(opens)) == opens).all()
    assert (clock.opens_after(opens) == opens).all()
    # between two moments come the points between the times worked before them
    worked = clock.worked(v)
    assert (np.diff(worked) >= 0.0).all()
    a, b = worked[:-1], worked[1:]
    at = rng.uniform(a, b)
    some = b - a > 1e3 * tolerance
    moments = clock.when(at[some])
    assert (moments >= v[:-1][some] - tolerance).all()
    assert (moments < v[1:][some] + tolerance).all()
    # closed: time stands still
    shut = ~clock.is_open(v)
    assert (clock.worked(opens[shut]) == worked[shut]).all()
    assert clock.worked(0.0) == pytest.approx(0.0, abs=1e-13 * period)
    np.testing.assert_allclose(worked, v, atol=clock.cycle.period + 3.0 / 24.0)


@given(windows=periodic_windows(), seed=st.integers(0, 2**32))
def test_periods_are_alike(windows, seed):
    clock = windows.clock()
    t = np.random.default_rng(seed).uniform(-5.0, 5.0, 100) * windows.period
    if not isinstance(clock, AllHours):
        close = np.abs(clock.opens_after(t) - t) < 1e-9 * windows.period  # there, rounding decides
        t = t[~close & ~(np.abs(clock.opens_after(t - 1e-8 * windows.period) - t) < 1e-7 * windows.period)]
    later = clock.worked(t + 7.0 * windows.period)
    np.testing.assert_allclose(later, clock.worked(t) + 7.0 * windows.period, atol=1e-9 * windows.period)


@given(windows=periodic_windows())
@example(windows=Windows.every(1.0, 0.0, 0.25))
@example(windows=Windows.every(24, [1, 5], [3, 6], at_start=1))
def test_text_of_periodic_windows_gives_them_back(windows):
    assert Windows.parse(str(windows)) == windows


@st.composite
def weekly_windows(draw):
    rules = []
    for _ in range(draw(st.integers(1, 3))):
        days = draw(st.sets(st.sampled_from(DAYS), min_size=1))
        ends = draw(st.lists(st.tuples(st.integers(0, 1439), st.integers(0, 1440)), min_size=1, max_size=3))
        hours = ",".join(f"{a // 60}:{a % 60:02}-{b // 60}:{b % 60:02}" for a, b in ends if a != b)
        rules.append(f"{','.join(days)} {hours or '01:00-2:00'}")
    at_start = draw(st.sampled_from(["", " at_start=0.25", " at_start=1"]))
    try:
        return Windows.parse("; ".join(rules) + " Europe/Berlin" + at_start)
    except InvalidInput as error:
        assert "overlap all the time" in str(error)  # noqa: PT017
        return Windows.parse("; ".join(rules) + " Europe/Berlin")


@given(windows=weekly_windows())
def test_text_of_weekly_windows_gives_them_back(windows):
    assert Windows.parse(str(windows)) == windows
    assert 0.0 < windows.share <= 1.0


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("22:00-06:00 UTC", "all 22:00-06:00 UTC"),
        ("MON-Fri 6:00 - 7:30, 9:00-10:00 UTC", None),
        ("fri-mon 6:00-7:00 UTC", "mon,fri,sat,sun 06:00-07:00 UTC"),
        ("sat,sun 10:00-00:00 Etc/GMT+5", "sat,sun 10:00-24:00 Etc/GMT+5"),
        ("mon,tue,wed 01:00-02:00 UTC at_start=0.50", "mon-wed 01:00-02:00 UTC at_start=0.5"),
        (" mon 1:00-2:00;tue 1:00-3:00  UTC ", "mon 01:00-02:00; tue 01:00-03:00 UTC"),
        ("mon-fri 22:00-06:00; sat,sun 00:00-24:00 Europe/Berlin", None),
        ("every 24 from 22 to 30", None),
        ("every 1.5 from 0 to 0.25 from 1 to 1.5 at_start=0.7", None),
    ],
)
def test_text(text, again):
    if text == "MON-Fri 6:00 - 7:30, 9:00-10:00 UTC":  # blanks inside a range are for daily only
        with pytest.raises(InvalidInput, match="hours must be like"):
            Windows.parse(text)
        return
    assert str(Windows.parse(text)) == (again or text)


def test_daily_takes_blanks():
    assert str(Windows.daily(" 6:00 - 7:30 , 9:00-10:00 ", zone="UTC", days=" Mon , wed-fri ")) == (
        "mon,wed,thu,fri 06:00-07:30,09:00-10:00 UTC"
    )


# --- starts -------------------------------------------------------------------------------------------------


def test_share_at_the_start():
    clock = Windows.every(10.0, 2.0, 6.0, at_start=0.7).clock()
    assert clock.worked([0.0, 2.0, 4.0, 6.0, 12.0]).tolist() == pytest.approx([0.0, 0.0, 8.5, 10.0, 10.0])
    assert clock.when([0.0, 6.9, 7.0, 8.5, 9.9, 10.0]).tolist() == pytest.approx(
        [2.0, 2.0, 2.0, 4.0, 5.8 + 1 / 15, 12.0]
    )
    assert clock.worked(np.nextafter(2.0, 3.0)) == pytest.approx(7.0)
    all_at_start = Windows.every(10.0, 2.0, 6.0, at_start=1.0).clock()
    assert set(all_at_start.when(np.linspace(0.0, 29.9, 100)).tolist()) == {2.0, 12.0, 22.0}


def test_windows_that_touch_have_a_start_each():
    """Figure 5 is about whole days, each with a start."""
    touching = Windows.daily("00:00-24:00", zone="UTC", at_start=1.0).clock(START, 86400.0)
    assert touching.when([0.0, 0.5, 1.5, 2.0]).tolist() == [0.0, 0.0, 1.0, 2.0]
    assert touching.is_open(np.linspace(0.0, 3.0, 100)).all()
    two = Windows.daily("06:00-12:00,12:00-18:00", zone="UTC", at_start=1.0).clock(START, 3600.0)
    assert sorted(set(two.when(np.linspace(0.0, 23.9, 50)).tolist())) == [6.0, 12.0]


def test_windows_that_overlap_are_one():
    for hours in ("06:00-13:00,12:00-18:00", "06:00-18:00,07:00-08:00", "12:00-18:00,6:00-14:00,6:00-14:00"):
        one = Windows.daily(hours, zone="UTC", at_start=1.0)
        assert one.share == 0.5
        assert set(one.clock(START, 3600.0).when(np.linspace(0.0, 23.9, 50)).tolist()) == {6.0}
    over_the_week = Windows.daily("22:00-06:00", zone="UTC", days="sun", at_start=1.0)
    joined = Windows.parse("sun 22:00-06:00; mon 05:00-07:00 UTC at_start=1")
    assert joined.share == pytest.approx(over_the_week.share * 9 / 8)
    assert set(joined.clock(START, 3600.0).when(np.linspace(0.0, 160.0, 99)).tolist()) == {6 * 24 + 22.0}


def test_windows_that_are_always_open_are_no_windows():
    for windows in (
        Windows.every(24.0, 0.0, 24.0),
        Windows.every(24.0, [0.0, 10.0], [12.0, 30.0]),
        Windows.parse("all 00:00-24:00 Europe/Berlin"),
        Windows.parse("all 22:00-13:00,12:00-23:00 Europe/Berlin"),
    ):
        assert windows.share == 1.0
        assert isinstance(windows.clock(START, 60.0), AllHours)


def test_shapes_and_infinities():
    for clock in (
        Windows.every(1.0, 0.0, 0.5).clock(),
        Windows.daily("0:00-12:00", zone="UTC").clock(START, 86400.0),
    ):
        assert clock.worked(0.25) == 0.5
        assert clock.worked([[0.25], [1.0]]).tolist() == [[0.5], [1.0]]
        assert clock.worked([]).shape == (0,)
        assert clock.when([np.inf, 0.5, -np.inf]).tolist() == [np.inf, 0.25, -np.inf]
        assert clock.is_open([np.inf, 0.5, 0.25]).tolist() == [False, False, True]
        many = np.random.default_rng(1).uniform(0.0, 50.0, 100_000).reshape(100, 1000)
        assert clock.when(many)[77, 3] == clock.when(many[77, 3])
        for call in (clock.worked, clock.when, clock.is_open, clock.opens_after):
            with pytest.raises(InvalidInput, match="must be a number"):
                call([0.0, np.nan])


# --- what is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Windows.daily("25:00-26:00", zone="UTC"),
            "hours must be like '22:00-06:00' or .* '25:00-26:00'",
        ),
        (lambda: Windows.daily("10:00", zone="UTC"), "they are '10:00'"),
        (lambda: Windows.daily("10:60-11:00", zone="UTC"), "they are '10:60-11:00'"),
        (lambda: Windows.daily("24:00-01:00", zone="UTC"), "they are '24:00-01:00'"),
        (lambda: Windows.daily("٢2:00-٢3:00", zone="UTC"), "hours must be like"),
        (lambda: Windows.daily("10:00-10:00", zone="UTC"), "the whole day is 00:00-24:00"),
        (lambda: Windows.daily("10:00-11:00,", zone="UTC"), "hours must be like"),
        (lambda: Windows.daily("", zone="UTC"), "hours must not be empty"),
        (lambda: Windows.daily(None, zone="UTC"), "hours must be a text; it is None"),
        (
            lambda: Windows.daily("1:00-2:00", zone="UTC", days="monday"),
            "days must be like 'mon-fri', .* 'monday'",
        ),
        (lambda: Windows.daily("1:00-2:00", zone="UTC", days="mon-wed-fri"), "'mon-wed-fri'"),
        (lambda: Windows.daily("1:00-2:00", zone="UTC", days=3), "days must be a text; it is 3"),
        (lambda: Windows.daily("1:00-2:00", zone=None), "zone must be a text"),
        (
            lambda: Windows.daily("1:00-2:00", zone="Mars/Base"),
            "zone must be a time zone such as .*'Mars/Base'",
        ),
        (
            lambda: Windows.daily("1:00-2:00", zone="Europe/Berlim"),
            "such as 'Europe/Berlin'; zone is 'Europe/Berlim'",
        ),
        (lambda: Windows.daily("1:00-2:00", zone="Europe"), "zone is 'Europe'"),
        (lambda: Windows.daily("1:00-2:00", zone="../passwd"), "zone is '../passwd'"),
        (
            lambda: Windows.daily("1:00-2:00", zone="UTC", at_start=1.1),
            "at_start must be finite and >= 0 and <= 1",
        ),
        (lambda: Windows.every(0.0, 0.0, 1.0), "period must be finite and > 0"),
        (
            lambda: Windows.every(24.0, 8.0, 8.0),
            r"must open in \[0, 24\) and close later.* opens at 8 and closes at 8",
        ),
        (lambda: Windows.every(24.0, 8.0, 6.0), "opens at 8 and closes at 6"),
        (lambda: Windows.every(24.0, -1.0, 6.0), "opens at -1"),
        (lambda: Windows.every(24.0, 24.0, 25.0), "opens at 24"),
        (lambda: Windows.every(24.0, 1.0, 26.0), "closes at 26"),
        (lambda: Windows.every(24.0, [1.0, 2.0], [2.0]), "of one length"),
        (lambda: Windows.every(24.0, [], []), "windows must not be empty"),
        (lambda: Windows.every(24.0, np.nan, 1.0), "opens must be finite"),
        (
            lambda: Windows.every(24.0, [0.0, 10.0], [12.0, 30.0], at_start=0.5),
            "at_start must be 0 if windows overlap",
        ),
        (
            lambda: Windows.daily("1:00-2:00", zone="UTC").clock(),
            "origin must be the moment of t = 0.* origin is None",
        ),
        (
            lambda: Windows.daily("1:00-2:00", zone="UTC").clock(datetime(2024, 1, 1), 60.0),  # noqa: DTZ001
            "with a time zone, such as .* origin is 2024-01-01T00:00:00",
        ),
        (lambda: Windows.daily("1:00-2:00", zone="UTC").clock(0.0, 60.0), "origin is 0.0"),
        (lambda: Windows.daily("1:00-2:00", zone="UTC").clock(START), "unit_seconds must be a number"),
        (
            lambda: Windows.daily("1:00-2:00", zone="UTC").clock(START, 0.0),
            "unit_seconds must be finite and > 0",
        ),
    ],
)
def test_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mon-fri 22:00-06:00", "there is no time zone"),
        ("mon-fri Europe/Berlin", "hours must be like"),
        ("Europe/Berlin", "hours must not be empty"),
        ("mon-fri 22:00-06:00 Europe/Berlin at_start=most", "at_start must be a number; it is 'most'"),
        ("mon-fri 22:00-06:00 Europe/Berlin at_start=2", "at_start must be finite and >= 0 and <= 1"),
        ("mon-fry 22:00-06:00 Europe/Berlin", "days must be like"),
        ("mon-fri 22-6 Europe/Berlin", "hours must be like"),
        ("mon-fri 22:00-06:00 Europe/Berlim", "such as 'Europe/Berlin'"),
        ("mon-fri 22:00-06:00; Europe/Berlin", "hours must not be empty"),
        ("every", "'every PERIOD from OPENING to CLOSING'"),
        ("every 24", "windows must not be empty"),
        ("every 24 from 1 until 2", "'every PERIOD from OPENING to CLOSING'"),
        ("every 24 from 1", "of one length"),
        ("every day from 1 to 2", "period must be a number; it is 'day'"),
        ("", "text must not be empty"),
        (None, "text must be a text"),
    ],
)
def test_text_that_is_refused(text, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        Windows.parse(text)
    assert "windows must be like 'mon-fri 22:00-06:00 Europe/Berlin'" in str(caught.value)
    assert repr(text) in str(caught.value)


def test_without_a_database_of_time_zones(monkeypatch):
    def missing(name):
        raise ZoneInfoNotFoundError(name)

    monkeypatch.setattr(window_clocks, "ZoneInfo", missing)
    monkeypatch.setattr(window_clocks, "available_timezones", set)
    with pytest.raises(InvalidInput, match="there is no database of time zones; pip install tzdata"):
        Windows.daily("1:00-2:00", zone="Europe/Berlin")
    assert Windows.daily("1:00-2:00", zone="UTC").clock(START, 60.0).when(0.0) == 60.0  # needs none
