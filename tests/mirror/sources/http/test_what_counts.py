"""What counts as a change, from a server to the list of changes: the real loop polls a real page."""

import pytest

from mirror.sources.worlds import Server
from unstale.cli.mirror.run_display import LogLines, Seen
from unstale.mirror.mirror import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.sources.http.fingerprint import definition_of, fingerprint_of

SETTINGS = Settings(budget=1000.0, reserve=0.0, groups=(GroupLimit("*", concurrency=20),))


def offer(price):
    return f"<main><p>Served to {price} people</p><p class=offer>now {price} EUR</p></main>".encode()


def item(price):
    return f'{{"time": {price * 7}, "items": [{{"price": {price}}}]}}'.encode()


def polled(mirror, key):
    """Have an element polled once more, and return the events."""
    events, before = [], len(mirror.polls(key))
    mirror.hint([key])
    for _ in range(50):
        mirror.step(on_event=events.append)
        if len(mirror.polls(key)) > before:
            return events
    raise AssertionError("it is not polled")


@pytest.mark.parametrize(
    ("kind", "make", "options"),
    [
        ("text/html", offer, {"change": "price", "selector": ".offer", "threshold": "5%"}),
        ("application/json", item, {"change": "json:/items/0/price", "threshold": "5%"}),
    ],
)
def test_a_price_counts_once_it_has_moved_by_the_threshold(tmp_path, kind, make, options):
    server = Server(kind, validators=False)
    with server.running() as url, Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        key, seen = f"{url}/offer", []
        mirror.add(key, **options)
        for price in (100, 102, 104, 106, 103, 100):  # it creeps: 106 is far from 100, and 100 from 106
            server.body = make(price)
            polled(mirror, key)
            seen.append(len(list(mirror.changes())))
    assert seen == [1, 1, 1, 2, 2, 3]


def test_a_selector_that_finds_nothing_is_told_once(tmp_path, capsys):
    server = Server("text/html", validators=False)
    server.body = offer(100)
    with server.running() as url, Mirror(tmp_path / "mirror.db", settings=SETTINGS) as mirror:
        key = f"{url}/offer"
        mirror.add(key, selector=".gone")
        events = [event for _ in range(4) for event in polled(mirror, key)]
    lines = LogLines(Seen(lambda: None))
    for event in events:
        lines(event)
    out = capsys.readouterr().out
    assert [event.kind for event in events].count("poll") >= 4
    assert out.count(f"failed     {key}: the selector '.gone' finds nothing on the page") == 1
    assert [event.kind for event in events].count("trouble") <= 1  # the alarm, after three failures


@pytest.mark.parametrize("number", ["1e999999", "1e9999999", "-1e99999999999", "9" * 5000])
def test_an_amount_has_so_many_digits(number):
    """Nine letters of a page became a fingerprint of a megabyte, and others broke the poll."""
    wanted = definition_of({"change": "json:/p", "threshold": "5%"})
    assert len(fingerprint_of(wanted, f'{{"p": "{number}"}}'.encode(), "application/json")) < 100
