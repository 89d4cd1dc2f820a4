"""Tokens can be guessed only slowly, wherever they are shown."""

from base64 import b64encode

import pytest

from unstale.dashboard import guard as guarding
from unstale.dashboard.guess_limit import GuessLimit

TOKEN = "a-token-that-is-long-enough"  # noqa: S105


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def looked_at(limit, clock, address_of, seconds=600.0, step=0.01):
    """Return how many guesses are looked at, of one who guesses all the time, each from such an address."""
    count, end, number = 0, clock.now + seconds, 0
    while clock.now < end:
        number += 1
        if limit.wait(address_of(number)) == 0.0:
            limit.wrong(address_of(number), f"guess {number}")
            count += 1
        clock.now += step
    return count


ONE_ADDRESS = 25
MANY_ADDRESSES = 370


@pytest.mark.parametrize(
    ("address_of", "most"),
    [
        (lambda _: "192.0.2.1", ONE_ADDRESS),
        (lambda _: "", ONE_ADDRESS),
        (lambda number: f"2001:db8::{number % 65536:x}", ONE_ADDRESS),  # one machine has them all
        (lambda number: f"::ffff:192.0.2.{1 + number % 2}", 2 * ONE_ADDRESS),
        (lambda number: f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}", MANY_ADDRESSES),
        (lambda number: f"2001:db8:{number & 65535:x}::1", MANY_ADDRESSES),
    ],
)
def test_sixty_thousand_guesses_in_ten_minutes(clock, address_of, most):
    assert 5 <= looked_at(GuessLimit(clock), clock, address_of) <= most


def test_waits_grow_and_are_forgotten(clock):
    limit, waits = GuessLimit(clock), []
    for number in range(15):
        waits.append(limit.wait("192.0.2.1"))
        clock.now += waits[-1]
        limit.wrong("192.0.2.1", str(number))
    assert waits[:8] == [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 4.0]
    assert waits == sorted(waits)
    assert waits[-1] == 60.0
    assert limit.wait("192.0.2.2") == 0.0  # others are not held up
    clock.now += 1000.0
    assert limit.wait("192.0.2.1") == 0.0


def test_guesses_from_elsewhere_keep_nobody_out_who_has_been_in(clock):
    limit = GuessLimit(clock)
    limit.right("192.0.2.7")
    looked_at(limit, clock, lambda number: f"10.0.{number >> 8 & 255}.{number & 255}", seconds=60.0)
    limit.wrong("10.9.9.9", "one more")
    assert limit.wait("192.0.2.8") > 0.0
    assert limit.wait("192.0.2.7") == 0.0


def test_what_is_remembered_has_an_end(clock):
    limit = GuessLimit(clock)
    for number in range(30_000):
        limit.wrong(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", f"guess {number}")
        limit.right(f"11.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert max(len(limit._wrong), len(limit._guessed), len(limit._friends)) <= 10_000


def basic(guess):
    return {"authorization": "Basic " + b64encode(f"me:{guess}".encode()).decode()}


WAYS = {
    "login": lambda client, guess: client.post("/login", data={"token": guess}, follow_redirects=False),
    "bearer": lambda client, guess: client.get("/api/status", headers={"authorization": f"Bearer {guess}"}),
    "password": lambda client, guess: client.get("/api/status", headers=basic(guess)),
    "health": lambda client, guess: client.get("/healthz", headers={"authorization": f"Bearer {guess}"}),
    "static": lambda client, guess: client.get("/static/x", headers={"authorization": f"Bearer {guess}"}),
    "edit": lambda client, guess: client.delete(
        "/api/elements/1", headers={"authorization": f"Bearer {guess}"}
    ),
}


@pytest.fixture
def guarded(ask, clock, monkeypatch):
    monkeypatch.setattr(guarding, "GuessLimit", lambda: GuessLimit(clock))
    return ask(token=TOKEN)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_show_a_token_counts(guarded, clock, way):
    for number in range(5):
        assert WAYS[way](guarded, f"guess {number}").status_code != 429
    for name, show in WAYS.items():
        answer = show(guarded, f"another guess by {name}")
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1"), name
        assert show(guarded, TOKEN).status_code == 429  # or the answer would tell which guess is right
        assert "cookie" not in show(guarded, TOKEN).headers
    clock.now += 1.0
    assert WAYS["bearer"](guarded, TOKEN).status_code == 200
    assert WAYS["bearer"](guarded, "once more").status_code == 401  # all is forgiven


def test_an_old_token_is_refused_as_often_as_it_is_shown(guarded):
    for _ in range(20):
        assert WAYS["bearer"](guarded, "the one of last year").status_code == 401
    assert WAYS["login"](guarded, TOKEN).status_code == 303


def test_who_is_in_stays_in(guarded):
    entered = WAYS["login"](guarded, TOKEN)
    cookie = entered.headers["set-cookie"].partition(";")[0]
    guarded.cookies.clear()
    for number in range(20):
        WAYS["login"](guarded, f"guess {number}")
    assert WAYS["bearer"](guarded, TOKEN).status_code == 429
    assert guarded.get("/api/status", headers={"cookie": cookie}).status_code == 200
    assert guarded.get("/healthz").status_code == 200
