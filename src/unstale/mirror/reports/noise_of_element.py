"""The noise of one element, by its versions; what is read from pages is looked at in a child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from unstale.errors import InvalidInput
from unstale.mirror.contained import Children, LimitExceeded
from unstale.mirror.source import Json
from unstale.mirror.sources.http.fingerprint import ChangeDefinition, counted_text, definition_of
from unstale.mirror.store.contract import Element, Store
from unstale.mirror.store.copies import Copies

from .noise import Look, NoiseReport, find_noise

_MOST_VERSIONS = 30
_LEAST_VERSIONS = 3
_TIMEOUT_SECONDS = 30.0
_lookers = Children(1)


def noise_of(store: Store, copies: Copies, element: Element) -> NoiseReport:
    """Return what is noise on a page; raise `InvalidInput` if nobody can tell."""
    if element.source not in {"http", "browser"}:
        raise InvalidInput(f"noise is looked for on pages; {element.key} is polled by {element.source}")
    with store.begin() as t:
        versions = t.versions(element=element.id, latest_first=True, limit=_MOST_VERSIONS)[::-1]
    if len(versions) < _LEAST_VERSIONS:
        raise InvalidInput(
            f"noise is looked for in {_LEAST_VERSIONS} versions or more, and {element.key} has "
            f"{len(versions)}; give hints some seconds apart to have more"
        )
    bodies = [(one.time, copies.read(one.digest), one.media_type) for one in versions]
    try:
        return _lookers.wait(partial(_looked_at, _definition(element), bodies), timeout=_TIMEOUT_SECONDS)
    except LimitExceeded as error:
        raise InvalidInput(f"the versions of {element.key} cannot be looked at: {error}") from None


def _definition(element: Element) -> ChangeDefinition:
    if element.source == "browser":
        from unstale.mirror.sources.browser.options import RenderOptions

        return RenderOptions.of(element.options).definition
    return definition_of(element.options)


def _looked_at(wanted: ChangeDefinition, bodies: Sequence[tuple[float, bytes, str]]) -> NoiseReport:
    texts = [(time, counted_text(wanted, body, kind)) for time, body, kind in bodies]
    return find_noise([Look(time, text) for time, text in texts if text is not None])


def ignoring(options: Mapping[str, Json], patterns: Sequence[str]) -> list[Json]:
    """Return the value of ``ignore`` with more patterns.

    >>> ignoring({"ignore": "a"}, ["b", "a"])
    ['a', 'b']
    """
    said = options.get("ignore")
    before = [] if said is None else said if isinstance(said, list) else [said]
    return [*before, *(one for one in patterns if one not in before)]
