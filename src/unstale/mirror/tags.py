"""Tags: words by which people find elements. They say nothing to the planner."""

from __future__ import annotations

import re

from unstale.errors import InvalidInput

_TAG = re.compile(r"[^\s,]{1,60}")
_MOST_TAGS = 50


def tags_of(name: str, value: object) -> tuple[str, ...]:
    """Return tags in order, or raise `InvalidInput`.

    >>> tags_of("tags", ["shop", "daily"]), tags_of("tags", "shop")
    (('daily', 'shop'), ('shop',))
    """
    some: list[object] = list(value) if isinstance(value, list | tuple) else [value]
    words = [one for one in some if isinstance(one, str) and _TAG.fullmatch(one)]
    if len(words) < len(some) or len(some) > _MOST_TAGS:
        shown = repr(value)
        raise InvalidInput(
            f'{name} must be words without spaces or commas, such as ["prices"], {_MOST_TAGS} at most; it is '
            f"{shown if len(shown) <= 100 else shown[:97] + '...'}"
        )
    return tuple(sorted(set(words)))
