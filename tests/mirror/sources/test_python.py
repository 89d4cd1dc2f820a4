"""Functions as sources: what they may be, and what becomes of what they return and raise."""

import asyncio
import functools
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from unstale import InvalidInput
from unstale.mirror.source import Found, Known, New, Terms
from unstale.mirror.sources.python import PythonSource

TERMS = Terms(Path(), max_size=1000, timeout=5.0)


def polled(poll, known=None, terms=TERMS):
    source = PythonSource()
    key = source.register("x", poll)
    return asyncio.run(source.poll(known or Known(key), terms))


@pytest.mark.parametrize(
    ("answer", "body", "media_type"),
    [
        (b"abc", b"abc", "application/octet-stream"),
        (bytearray(b"abc"), b"abc", "application/octet-stream"),
        (memoryview(b"abc"), b"abc", "application/octet-stream"),
        ("Grüße", "Grüße".encode(), "text/plain; charset=utf-8"),
        ("", b"", "text/plain; charset=utf-8"),
        (
            {"b": 1, "a": [None, True, 1.5, "ü"]},
            '{"a":[null,true,1.5,"ü"],"b":1}'.encode(),
            "application/json",
        ),
        (7, b"7", "application/json"),
        (False, b"false", "application/json"),
        ([], b"[]", "application/json"),
    ],
)
def test_answers_are_content(answer, body, media_type):
    found = polled(lambda: answer)
    assert (found.outcome, found.body, found.media_type) == ("changed", body, media_type)
    assert found.traffic == len(body)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (object(), "object, which is neither content nor JSON"),
        (float("nan"), "float, which is neither content nor JSON"),
        ({1, 2}, "set, which is neither"),
        (b"x" * 1001, "1001 bytes; max_size is 1000"),
        (Found("changed"), "body that is not bytes but NoneType"),
        (Found("changed", body=Path("/etc/passwd")), "body that is not bytes but"),
        (Found("changed", body=b"", validators={"a": object()}), "validators or meta that JSON cannot hold"),
        (None, "there is no copy yet"),
    ],
)
def test_what_cannot_be_kept_is_a_failure(answer, words):
    found = polled(lambda: answer)
    assert found.outcome == "failed"
    assert words in found.detail


def test_deep_answers_are_a_failure():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert polled(lambda: deep).outcome == "failed"


def test_none_means_unchanged_if_there_is_a_copy():
    assert polled(lambda: None, Known("python:x", fingerprint="f")).outcome == "unchanged"


def test_a_found_is_passed_on():
    found = Found("changed", body=b"x", validators={"cursor": 7}, discovered=(New("python:y"),), traffic=99)
    assert polled(lambda: found) == found
    assert polled(lambda: Found("gone", "closed")).detail == "closed"


class Asynchronous:
    async def __call__(self, known):
        return known.key


class Synchronous:
    def poll(self, known):
        return known.key

    async def later(self, known):
        return known.key


async def later(known):
    await asyncio.sleep(0)
    return known.key


def with_default(known=None):
    return "nothing known" if known is None else known.key


@pytest.mark.parametrize(
    ("poll", "body"),
    [
        (later, b"python:x"),
        (Asynchronous(), b"python:x"),
        (Synchronous().poll, b"python:x"),
        (Synchronous().later, b"python:x"),
        (functools.partial(later), b"python:x"),
        (functools.partial(lambda a, known: a + known.key, "a"), b"apython:x"),
        (lambda known: later(replace(known, key="y")), b"y"),
        (with_default, b"nothing known"),
        (lambda number=7: number, b"7"),
        (str, b""),
        (dict, b"{}"),
    ],
)
def test_functions_of_many_kinds(poll, body):
    assert polled(poll).body == body


@pytest.mark.parametrize("poll", [7, None, lambda a, b: a + b, lambda *, a: a])
def test_what_cannot_be_called_is_refused_at_once(poll):
    with pytest.raises(InvalidInput, match="poll of python:x must"):
        PythonSource().register("x", poll)


def raising(error):
    def poll():
        raise error

    return poll


def raising_later(error):
    async def poll():
        raise error

    return poll


@pytest.mark.parametrize("kind", [raising, raising_later])
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("out of order"), FileNotFoundError("x"), TimeoutError("slow"), asyncio.CancelledError(),
        StopIteration(), KeyError("k"), SystemExit(3), MemoryError(),
    ],
    ids=repr,
)  # fmt: skip
def test_what_it_raises_makes_the_poll_fail(kind, error):
    found = polled(kind(error))
    assert found.outcome == "failed"
    assert "cancelled itself" in found.detail or type(error).__name__ in found.detail


def test_a_function_that_is_not_there_says_what_to_do():
    found = asyncio.run(PythonSource().poll(Known("python:x"), TERMS))
    assert found.outcome == "failed"
    assert "mirror.add('x', poll=...)" in found.detail


@pytest.mark.parametrize("text", ["x", "python:x", " python:x ", "python: x"])
def test_keys_have_one_form(text):
    assert PythonSource().key(text, {}) == "python:x"


def test_a_function_that_never_ends_stops_nobody():
    source, release = PythonSource(), threading.Event()
    calls = []

    def stuck():
        calls.append(1)
        release.wait(20)

    async def play():
        stuck_key, key = source.register("stuck", stuck), source.register("x", lambda: b"fine")
        short = Terms(Path(), 1000, timeout=0.05)
        first = await source.poll(Known(stuck_key), short)
        again = [await source.poll(Known(stuck_key), short) for _ in range(20)]
        others = await asyncio.gather(*(source.poll(Known(key), TERMS) for _ in range(50)))
        release.set()
        return first, again, others

    began = time.monotonic()
    first, again, others = asyncio.run(play())
    assert time.monotonic() - began < 15
    assert (first.outcome, first.detail) == ("failed", "no answer within 50 ms")
    assert {found.detail for found in again} == {"the poll before was given up, and has not ended yet"}
    assert len(calls) == 1
    assert {found.body for found in others} == {b"fine"}


STUCK = """
import asyncio, time
from pathlib import Path
from unstale.mirror.source import Known, Terms
from unstale.mirror.sources.python import PythonSource
source = PythonSource()
key = source.register("stuck", lambda: time.sleep(60))
print(asyncio.run(source.poll(Known(key), Terms(Path(), 10, timeout=0.05))).outcome)
"""


def test_a_function_that_never_ends_does_not_keep_the_process_alive():
    done = subprocess.run(  # noqa: S603  (our own program)
        [sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=40, check=True
    )
    assert done.stdout == "failed\n"


def test_an_async_function_that_never_ends_is_cancelled():
    ended = []

    async def stuck():
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    found = polled(stuck, terms=Terms(Path(), 1000, timeout=0.05))
    assert (found.outcome, found.detail) == ("failed", "no answer within 50 ms")
    assert ended
