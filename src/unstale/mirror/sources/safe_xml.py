"""XML from strangers: read strictly, within limits, and never beyond the document.

Entities are not expanded, nothing is loaded from files or the network, nesting and the number of elements are
limited. What is not well-formed is refused, as half a list looks like a list from which things were removed;
but for ampersands that should have been written ``&amp;``, which are common in addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

from unstale.errors import InvalidInput

__all__ = ["MOST_ELEMENTS", "Part", "local_name", "read_xml"]

T = TypeVar("T")

MOST_ELEMENTS = 1_000_000
"""Elements of XML in a document; a sitemap of the greatest size allowed has a few hundred thousand."""
_BARE = re.compile(rb"(<!\[CDATA\[.*?\]\]>)|&(?!(?:[A-Za-z_][\w.-]*|#\d+|#x[0-9A-Fa-f]+);)", re.DOTALL)


class Part(NamedTuple):
    """A child of the root, with all that is in it."""

    root: str
    """Name of the root, without its namespace."""
    element: Any
    """As lxml has it, until the next part is asked for; None in the first part, which tells of the root."""


def read_xml(body: bytes, read: Callable[[Iterator[Part]], T]) -> T:
    """Return what ``read`` makes of the parts of a document; `InvalidInput` if it is not well-formed.

    >>> read_xml(b"<a><b/><c x='1&2'/></a>", lambda parts: [local_name(part.element) for part in parts])
    ['', 'b', 'c']
    """
    from lxml.etree import XMLSyntaxError

    body = body.lstrip()
    try:
        return read(_parts(body))
    except XMLSyntaxError as error:
        words = f"it is not well-formed XML: {error.msg or 'there is no element'}"
    mended = _BARE.sub(lambda found: found[1] or b"&amp;", body)
    if mended != body and b"\0" not in body:  # not in UTF-16, where an ampersand has two bytes
        try:
            return read(_parts(mended))
        except XMLSyntaxError:
            pass
    raise InvalidInput(words)


def local_name(element: Any) -> str:  # noqa: ANN401  (lxml has no types)
    """Return the name of an element without its namespace; of anything else, none."""
    tag = getattr(element, "tag", None)
    return tag.rpartition("}")[2].lower() if isinstance(tag, str) else ""


def _parts(body: bytes) -> Iterator[Part]:
    """Yield the root, then each of its children."""
    from lxml.etree import iterparse

    root, depth = None, 0
    reading = iterparse(
        BytesIO(body),
        events=("start", "end"),
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    for count, (event, element) in enumerate(reading):
        if count > 2 * MOST_ELEMENTS:
            raise InvalidInput(f"it has more than {MOST_ELEMENTS:,} elements of XML")
        if event == "start":
            depth += 1
            if root is None:
                root = element
                yield Part(local_name(root), None)
        else:
            depth -= 1
            if depth == 1:
                yield Part(local_name(root), element)
                element.clear()
                while element.getprevious() is not None:  # what has been read need not be kept
                    del element.getparent()[0]
