"""What every source must do, as laws that a test can check.

To try a source, describe its world (`SourceWorld`): how an element of it comes into being, changes, goes,
breaks. Each law plays through what happens to elements, and raises AssertionError with words if the source
does not do what a mirror relies on. With pytest:

    @pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
    def test_contract(law, tmp_path):
        check(law, MyWorld, tmp_path)
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from unstale.errors import InvalidInput
from unstale.mirror.source import Found, Json, Known, Source, Terms

_LARGE_BODY_BYTES = 1_500_000
"""Too many to keep in memory."""


class SourceWorld(Protocol):
    """One element of a source, and what can happen to it."""

    source: Source
    text: str
    """The name that a user gives the element."""
    options: Mapping[str, Json]
    nonsense: Sequence[str]
    """Texts that cannot be keys of this source."""

    async def put(self, version: int, size: int = 0) -> None:
        """Write the element, with the content of a version: ``size`` bytes, or a tenth of that."""

    async def touch(self) -> None:
        """Change something that does not count as a change: the time of a file."""

    async def remove(self) -> None:
        """Remove the element."""

    async def spoil(self) -> None:
        """Make polls fail."""

    async def mend(self) -> None:
        """Make polls work again, with the content from before."""

    def shows(self, version: int, body: bytes) -> bool:
        """Tell whether a body is that of a version."""


@dataclass
class _Stage:
    """A world, and what a mirror does around it."""

    world: SourceWorld
    scratch: Path
    max_size: int = 50_000_000
    timeout: float = 30.0
    spent: list[int] = field(default_factory=list)
    spending: bool = False

    @property
    def new(self) -> Known:
        """The element, before its first poll."""
        return Known(self.world.source.key(self.world.text, self.world.options), dict(self.world.options))

    async def poll(self, known: Known) -> Found:
        """Poll as the mirror does, and check what comes back."""

        async def spend(count: int) -> None:
            self.spent.append(count)

        terms = Terms(self.scratch, self.max_size, self.timeout, spend if self.spending else None)
        try:
            async with asyncio.timeout(self.timeout + 5) as limit:
                found = await self.world.source.poll(known, terms)
        except TimeoutError:
            _must(not limit.expired(), "a poll must end soon after its time-out")
            raise
        _check_found(found, self.scratch)
        return found

    async def changed(self, known: Known, version: int) -> tuple[Found, Known]:
        """Poll, and expect content; return it, and what is known of the element afterwards."""
        found = await self.poll(known)
        _must(found.outcome == "changed", f"expected content of version {version}, got {found}")
        body = _body(found)
        _must(self.world.shows(version, body), f"the body is not that of version {version}: {body[:200]!r}")
        after = learned(known, found, body)
        self.take(found)
        return found, after

    async def works_again(self) -> None:
        """Poll until there is content, since an abandoned poll may go on for a moment."""
        for _ in range(100):
            found = await self.poll(self.new)
            if found.outcome == "changed":
                self.take(found)
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"polls do not work again: {found}")

    def take(self, found: Found) -> None:
        """Take a body over, as the mirror does."""
        if isinstance(found.body, Path):
            found.body.unlink()

    def left(self) -> list[str]:
        """Return the names of the files in the scratch folder."""
        return sorted(path.name for path in self.scratch.iterdir())


Law = Callable[[_Stage], Awaitable[None]]


def check(law: Law, world: Callable[[Path], AbstractAsyncContextManager[SourceWorld]], folder: Path) -> None:
    """Check a law in a world, which gets a folder of its own."""
    home, scratch = folder / "world", folder / "scratch"
    home.mkdir()
    scratch.mkdir()

    async def play() -> None:
        async with world(home) as ready:
            try:
                await law(_Stage(ready, scratch))
            finally:
                await ready.source.close()

    asyncio.run(play())
    left = sorted(path.name for path in scratch.iterdir())
    _must(not left, f"files are left in the scratch folder: {left}")


def learned(known: Known, found: Found, body: bytes | None = None) -> Known:
    """Return what is known of an element after a poll, as it comes back from JSON."""
    fingerprint = known.fingerprint
    if found.outcome == "changed":
        fingerprint = found.fingerprint or sha256(_body(found) if body is None else body).hexdigest()
    validators = known.validators if found.validators is None else found.validators
    return replace(
        known,
        options=json.loads(json.dumps(dict(known.options))),
        validators=json.loads(json.dumps(dict(validators))),
        fingerprint=fingerprint,
    )


async def first_poll_brings_the_content(stage: _Stage) -> None:
    """The first poll of an element brings its content, and says what to remember."""
    await stage.world.put(1)
    await stage.changed(stage.new, 1)


async def nothing_new_is_told_so(stage: _Stage) -> None:
    """If nothing has changed, polls say so, or bring what has the same fingerprint."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    for _ in range(3):
        known = await _unchanged(stage, known)


async def touching_is_no_change(stage: _Stage) -> None:
    """What does not count does not change the fingerprint."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    await stage.world.touch()
    known = await _unchanged(stage, known)
    await stage.world.touch()
    await _unchanged(stage, known)


async def changes_are_seen_at_once(stage: _Stage) -> None:
    """Each change is seen, however soon after a poll it comes; the fingerprint is that of the content."""
    await stage.world.put(1)
    first, known = await stage.changed(stage.new, 1)
    prints = {known.fingerprint}
    for version in range(2, 6):
        await stage.world.put(version)
        _, known = await stage.changed(known, version)
        prints.add(known.fingerprint)
    _must(len(prints) == 5, f"five versions have {len(prints)} fingerprints")
    await stage.world.put(1)
    _, known = await stage.changed(known, 1)
    same = known.fingerprint == learned(stage.new, first, b"").fingerprint or first.fingerprint is None
    _must(same, "the same content has another fingerprint than before")


async def without_a_copy_all_is_news(stage: _Stage) -> None:
    """Nobody can say 'unchanged' of an element of which there is no copy, whatever else is remembered."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    await stage.changed(replace(known, fingerprint=None), 1)


async def what_goes_is_gone(stage: _Stage) -> None:
    """An element that is removed is gone, again and again; when it comes back, it has content."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    await stage.world.remove()
    for _ in range(2):
        found = await stage.poll(known)
        _must(found.outcome == "gone", f"expected gone, got {found}")
        known = learned(known, found)
    await stage.world.put(2)
    _, known = await stage.changed(known, 2)
    await _unchanged(stage, known)


async def what_came_back_as_it_was_is_seen(stage: _Stage) -> None:
    """An element that was gone, and is back as before, is seen: with content, or as unchanged."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    await stage.world.remove()
    known = learned(known, await stage.poll(known))
    await stage.world.put(1)
    await _unchanged(stage, known)


async def what_never_was_does_not_raise(stage: _Stage) -> None:
    """An element that was never there is gone, or fails."""
    found = await stage.poll(stage.new)
    _must(found.outcome in {"gone", "failed"}, f"expected gone or failed, got {found}")


async def trouble_is_a_failure(stage: _Stage) -> None:
    """Trouble is a failure, in words, never a change, never gone; nothing remembered is lost by it."""
    await stage.world.put(1)
    _, known = await stage.changed(stage.new, 1)
    await stage.world.spoil()
    for _ in range(2):
        found = await stage.poll(known)
        _must(found.outcome == "failed", f"expected failed, got {found}")
        _must(bool(found.detail), "a failure must say why, in detail")
        _must(found.validators is None, "a failure must not change what is remembered")
    await stage.world.mend()
    known = await _unchanged(stage, known)
    await stage.world.put(2)
    await stage.changed(known, 2)


async def one_element_has_one_key(stage: _Stage) -> None:
    """The key of a key is the key; a group has a name, and the same one each time."""
    source, options = stage.world.source, stage.world.options
    key = source.key(stage.world.text, options)
    _must(source.key(key, options) == key, f"the key of {key!r} is {source.key(key, options)!r}")
    _must(source.key(f" {stage.world.text}\n", options) == key, "blanks around a key must not matter")
    group = source.group(key, options)
    _must(bool(group) and group == source.group(key, options), f"the group of {key!r} is {group!r}")
    json.dumps(dict(options))


async def nonsense_is_refused(stage: _Stage) -> None:
    """What cannot be an element is refused with InvalidInput."""
    for text in ("", "  ", "\0", *stage.world.nonsense):
        try:
            key = stage.world.source.key(text, stage.world.options)
        except InvalidInput as error:
            _must(bool(str(error)), "an error must say what is wrong")
        else:
            raise AssertionError(f"{text!r} was taken for the key {key!r}")


async def polls_do_not_disturb_each_other(stage: _Stage) -> None:
    """Many polls at the same time all bring the same."""
    await stage.world.put(1, 10_000)
    both = [stage.changed(stage.new, 1) for _ in range(10)]
    _, known = (await asyncio.gather(*both))[0]
    await asyncio.gather(*(_unchanged(stage, known) for _ in range(10)))


async def a_poll_can_be_cancelled(stage: _Stage) -> None:
    """A poll that is cancelled leaves nothing behind: no file, no task; and the next one works."""
    await stage.world.put(1, _LARGE_BODY_BYTES)
    began = time.perf_counter()
    await stage.changed(stage.new, 1)
    span = time.perf_counter() - began
    tasks = set(asyncio.all_tasks())
    for part in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
        poll = asyncio.create_task(stage.poll(stage.new))
        await asyncio.sleep(part * span)
        poll.cancel()
        with suppress(asyncio.CancelledError):
            stage.take(await poll)
    for _ in range(200):
        others = set(asyncio.all_tasks()) - tasks
        if not stage.left() and not others:
            break
        await asyncio.sleep(0.01)
    _must(not stage.left(), f"cancelled polls leave files: {stage.left()}")
    _must(not others, f"cancelled polls leave tasks: {others}")
    await stage.works_again()


async def too_large_is_a_failure(stage: _Stage) -> None:
    """Content above max_size is a failure, and leaves no file; below, it is not."""
    await stage.world.put(1, _LARGE_BODY_BYTES)
    for size in (1, 10, 100_000):
        found = await replace(stage, max_size=size).poll(stage.new)
        _must(found.outcome == "failed", f"expected failed for max_size {size}, got {found.outcome}")
        _must(bool(found.detail), "a failure must say why, in detail")
    _must(not stage.left(), f"files are left: {stage.left()}")
    await stage.changed(stage.new, 1)


async def time_is_kept(stage: _Stage) -> None:
    """A poll that has no time ends soon, with or without an answer."""
    await stage.world.put(1, _LARGE_BODY_BYTES)
    for timeout in (0.0, 0.001):
        found = await replace(stage, timeout=timeout).poll(stage.new)
        _must(found.outcome in {"changed", "failed"}, f"expected failed, got {found.outcome}")
        stage.take(found)
    await stage.works_again()


async def bytes_are_paid_for(stage: _Stage) -> None:
    """With a budget of bytes polls work as without; what is paid for is a number of bytes."""
    await stage.world.put(1, 10_000)
    stage.spending = True
    _, known = await stage.changed(stage.new, 1)
    _must(all(count >= 0 for count in stage.spent), f"spent {stage.spent}")
    await _unchanged(stage, known)


async def closing_twice_is_fine(stage: _Stage) -> None:
    """A source can be closed twice, and when it was never used."""
    await stage.world.source.close()
    await stage.world.source.close()


LAWS: tuple[Law, ...] = (
    first_poll_brings_the_content,
    nothing_new_is_told_so,
    touching_is_no_change,
    changes_are_seen_at_once,
    without_a_copy_all_is_news,
    what_goes_is_gone,
    what_came_back_as_it_was_is_seen,
    what_never_was_does_not_raise,
    trouble_is_a_failure,
    one_element_has_one_key,
    nonsense_is_refused,
    polls_do_not_disturb_each_other,
    a_poll_can_be_cancelled,
    too_large_is_a_failure,
    time_is_kept,
    bytes_are_paid_for,
    closing_twice_is_fine,
)
"""All laws."""


async def _unchanged(stage: _Stage, known: Known) -> Known:
    """Poll, and expect nothing new."""
    found = await stage.poll(known)
    same = found.outcome == "unchanged"
    after = known
    if found.outcome == "changed":
        after = learned(known, found)
        same = after.fingerprint == known.fingerprint
    stage.take(found)
    _must(same, f"expected nothing new, got {found}")
    return learned(known, replace(found, outcome="unchanged")) if found.outcome == "unchanged" else after


def _check_found(found: Found, scratch: Path) -> None:
    """Check that a mirror can record what a poll found."""
    for name in ("validators", "meta"):
        value = getattr(found, name)
        plain = {} if value is None else dict(value)
        _must(json.loads(json.dumps(plain)) == plain, f"{name} do not survive JSON: {plain}")
    _must(
        (found.body is not None) == (found.outcome == "changed"), "a body goes with changed, and only with it"
    )
    if isinstance(found.body, Path):
        _must(found.body.parent == scratch, f"the body must lie in the scratch folder; it is {found.body}")
    _must(found.traffic >= 0, f"traffic is {found.traffic}")
    _must(found.outcome == "changed" or not found.complete, "what names all there is must have been read")
    for new in found.discovered:
        _must(bool(new.key), "an element without a key was discovered")
        json.dumps(dict(new.options))
    for key, moment in found.hints:
        _must(bool(key) and moment == moment, f"a hint is for {key!r} at {moment}")  # noqa: PLR0124


def _body(found: Found) -> bytes:
    return found.body.read_bytes() if isinstance(found.body, Path) else found.body or b""


def _must(holds: bool, words: str) -> None:  # noqa: FBT001
    """Raise AssertionError with these words unless the condition holds."""
    if not holds:
        raise AssertionError(words)
