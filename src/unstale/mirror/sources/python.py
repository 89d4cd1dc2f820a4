"""Source ``python``: elements that a function of yours polls.

The function takes no argument, or one (a `Known`: what is known of the element), and may be async. It returns
the content: bytes, a text, or anything that JSON can hold. None means that nothing has changed since the last
poll. For anything else (gone, validators, discoveries) it returns a `Found`. If it raises, the poll fails.

    def poll(known):
        answer = fetch_rates(since=known.validators.get("cursor"))
        if answer is None:
            return Found("gone", "the account is closed")
        return Found("changed", body=answer.body, validators={"cursor": answer.cursor})

The store does not keep functions: each process that runs the mirror has to add them again.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from unstale.errors import InvalidInput
from unstale.mirror.settings import Settings
from unstale.mirror.source import Found, Json, Known, Terms
from unstale.quantities import show_duration

from .threads import GivenUp, Threads

Answer = bytes | str | Json | Found
Poll = (
    Callable[[], Answer]
    | Callable[[Known], Answer]
    | Callable[[], Awaitable[Answer]]
    | Callable[[Known], Awaitable[Answer]]
)
"""A function that polls an element."""

_KEY_PREFIX = "python:"
_MAX_NAME_CHARACTERS = 2000


class PythonSource:
    """Polls elements by calling functions; those that are not async run in threads.

    >>> from pathlib import Path
    >>> source = PythonSource()
    >>> source.register("dice", lambda: {"eyes": 4})
    'python:dice'
    >>> terms = Terms(Path("."), max_size=100, timeout=1.0)
    >>> found = asyncio.run(source.poll(Known("python:dice"), terms))
    >>> found.outcome, found.body
    ('changed', b'{"eyes":4}')
    """

    def __init__(self) -> None:
        self._polls: dict[str, Callable[[Known], object]] = {}
        self._threads = Threads()

    def register(self, key: str, poll: Poll) -> str:
        """Use this function for an element from now on, and return the key of the element."""
        key = self.key(key, {})
        self._polls[key] = _with_known(key, poll)
        return key

    def key(self, text: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Return ``python:NAME``."""
        name = text.strip().removeprefix(_KEY_PREFIX).strip()
        if not name or len(name) > _MAX_NAME_CHARACTERS or not name.isprintable():
            raise InvalidInput(
                f"the name of an element must be printable and have 1 to {_MAX_NAME_CHARACTERS} characters; "
                f"it is {text[:100]!r}"
            )
        return _KEY_PREFIX + name

    def group(self, key: str, options: Mapping[str, Json]) -> str:  # noqa: ARG002
        """Return the one group of all functions."""
        return "python"

    async def poll(self, known: Known, terms: Terms) -> Found:
        """Call the function."""
        poll = self._polls.get(known.key)
        if poll is None:
            name = known.key.removeprefix(_KEY_PREFIX)
            return Found(
                "failed",
                f"no function for {known.key} in this process: call mirror.add({name!r}, poll=...) "
                "before it runs",
            )
        try:
            return _found(await self._call(poll, known, terms.timeout), known, terms)
        except GivenUp as error:
            return Found("failed", str(error))
        except asyncio.CancelledError:
            if _cancelled():
                raise
            return Found("failed", "its function cancelled itself")
        except (Exception, SystemExit) as error:  # noqa: BLE001  (whatever the function raises, the poll fails)
            words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Found("failed", f"its function raised {words[:300]}")

    async def close(self) -> None:
        """Do nothing: functions stay registered."""

    async def _call(self, poll: Callable[[Known], object], known: Known, seconds: float) -> object:
        """Return what a function returns, async or not."""
        began = asyncio.get_running_loop().time()
        if _is_async(poll):
            answer = poll(known)
        else:
            answer = await self._threads.run(known.key, lambda _: poll(known), timeout=seconds, clean=_forget)
        if not inspect.isawaitable(answer):
            return answer
        scope = asyncio.timeout(max(0.0, seconds - (asyncio.get_running_loop().time() - began)))
        try:
            async with scope:
                return await answer
        except TimeoutError:
            if scope.expired():
                raise GivenUp(f"no answer within {show_duration(seconds)}") from None
            raise


def python_source(settings: Settings) -> PythonSource:  # noqa: ARG001
    """Return the source of elements that are polled by functions."""
    return PythonSource()


def _with_known(key: str, poll: object) -> Callable[[Known], object]:
    """Return a function that takes a `Known`, whether or not the given one does."""
    if not callable(poll):
        raise InvalidInput(f"poll of {key} must be a function; it is {poll!r}")
    try:
        signature = inspect.signature(poll)
    except (TypeError, ValueError):  # some functions written in C do not say what they take
        return partial(_without, poll)
    for arguments, function in (((), partial(_without, poll)), ((None,), poll)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return function
    raise InvalidInput(
        f"poll of {key} must take no argument, or one (what is known of it); it takes {signature}"
    )


def _without(poll: Callable[[], object], known: Known) -> object:  # noqa: ARG001
    """Call a function that takes no argument."""
    return poll()


def _is_async(poll: Callable[[Known], object]) -> bool:
    """Tell whether a function is async: it returns at once, with something to await."""
    inner: object = poll.args[0] if isinstance(poll, partial) and poll.func is _without else poll
    while isinstance(inner, partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


def _found(answer: object, known: Known, terms: Terms) -> Found:
    """Return the `Found` that the answer of a function means."""
    if isinstance(answer, Found):
        return _checked(answer, terms)
    if answer is None:
        if known.fingerprint is None:
            return Found(
                "failed", "its function returned None (nothing has changed), but there is no copy yet"
            )
        return Found("unchanged", "its function says so")
    if isinstance(answer, bytes | bytearray | memoryview):
        found = Found("changed", body=bytes(answer))
    elif isinstance(answer, str):
        body = answer.encode("utf-8", "surrogatepass")
        found = Found("changed", body=body, media_type="text/plain; charset=utf-8")
    else:
        try:
            found = Found("changed", body=_json(answer), media_type="application/json")
        except (TypeError, ValueError, RecursionError) as error:
            kind = type(answer).__name__
            return Found(
                "failed", f"its function returned {kind}, which is neither content nor JSON: {error}"
            )
    return _checked(found, terms)


def _json(value: object) -> bytes:
    """Return a value as JSON: the same bytes for the same value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


def _checked(found: Found, terms: Terms) -> Found:
    """Return what was found if the mirror can keep it; otherwise a failure that says why not."""
    if found.outcome != "changed":
        return found
    if not isinstance(found.body, bytes):
        kind = type(found.body).__name__
        return Found("failed", f"its function returned a Found with a body that is not bytes but {kind}")
    if len(found.body) > terms.max_size:
        return Found("failed", f"its function returned {len(found.body)} bytes; max_size is {terms.max_size}")
    try:
        _json([dict(found.validators or {}), dict(found.meta)])
    except (TypeError, ValueError, RecursionError) as error:
        return Found("failed", f"its function returned validators or meta that JSON cannot hold: {error}")
    return found if found.traffic else replace(found, traffic=len(found.body))


def _forget(answer: object) -> None:
    """Close the coroutine that an abandoned call returned."""
    if inspect.iscoroutine(answer):
        answer.close()


def _cancelled() -> bool:
    """Tell whether somebody cancels the poll itself."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
