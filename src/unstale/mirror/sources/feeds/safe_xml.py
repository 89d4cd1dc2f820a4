"""XML from strangers: read strictly, within limits, and never beyond the document.

Documents that declare entities are refused, nothing is loaded from files or the network, nesting and the
number of elements are limited, and no tree is built. What is not well-formed is refused, as half a list looks
like a list from which things were removed; but for ampersands that should have been written ``&amp;``, which
are common in addresses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, TypeVar
from xml.parsers import expat

from unstale.errors import InvalidInput

__all__ = ["Element", "read_xml"]

T = TypeVar("T")

_MOST = 1_000_000
"""Elements of XML in a document; a sitemap of the greatest size allowed has a few hundred thousand."""
_DEEPEST = 100
_CHUNK = 1 << 16
_BARE = re.compile(rb"(<!\[CDATA\[.*?\]\]>)|&(?!(?:[A-Za-z_][\w.-]*|#\d+|#x[0-9A-Fa-f]+);)", re.DOTALL)


class Element(NamedTuple):
    """An element of a document; names are in small letters, without their prefix."""

    depth: int
    """0: the root."""
    prefix: str
    name: str
    attributes: dict[str, str]
    text: str
    """What stands directly in it; of the root, which comes first, nothing yet."""
    line: int


def read_xml(body: bytes, read: Callable[[Iterator[Element]], T]) -> T:
    """Return what ``read`` makes of a document: of the root, then of each element as it ends.

    >>> read_xml(b"<a><b>1</b><c x='1&2'/></a>", lambda elements: [(one.name, one.text) for one in elements])
    [('a', ''), ('b', '1'), ('c', '')]
    """
    attempts, words = [body.lstrip()], ""
    for attempt in attempts:
        try:
            return read(_elements(attempt))
        except InvalidInput:
            raise
        except (expat.ExpatError, LookupError, ValueError) as error:  # the latter two for odd encodings
            words = words or f"it is not well-formed XML: {error}"
        mended = _BARE.sub(lambda found: found[1] or b"&amp;", attempt)
        if mended != attempt and b"\0" not in attempt:  # not in UTF-16, where an ampersand has two bytes
            attempts.append(mended)
    raise InvalidInput(words)


def _elements(body: bytes) -> Iterator[Element]:
    """Yield the root when it begins, and all others when they end."""
    reader = _Reader()
    for start in range(0, len(body), _CHUNK):
        reader.parser.Parse(body[start : start + _CHUNK], False)  # noqa: FBT003
        yield from reader.taken()
    reader.parser.Parse(b"", True)  # noqa: FBT003
    yield from reader.taken()


class _Open(NamedTuple):
    """An element that has begun."""

    name: str
    attributes: dict[str, str]
    line: int
    text: list[str]


class _Reader:
    """Notes what the parser finds."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.EntityDeclHandler = _refuse
        self._open: list[_Open] = []
        self._done: list[Element] = []
        self._count = 0

    def taken(self) -> list[Element]:
        """Return what was found since the last time."""
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > _MOST:
            raise InvalidInput(f"it has more than {_MOST:,} elements of XML")
        if len(self._open) >= _DEEPEST:
            raise InvalidInput(f"its elements of XML are nested more than {_DEEPEST} deep")
        begun = _Open(name, attributes, self.parser.CurrentLineNumber, [])
        if not self._open:
            self._done.append(_element(0, begun))
        self._open.append(begun)

    def _data(self, text: str) -> None:
        if self._open:
            self._open[-1].text.append(text)

    def _end(self, _: str) -> None:
        ended = self._open.pop()
        if self._open:
            self._done.append(_element(len(self._open), ended))


def _element(depth: int, begun: _Open) -> Element:
    prefix, _, name = begun.name.rpartition(":")
    return Element(depth, prefix, name.lower(), begun.attributes, "".join(begun.text), begun.line)


def _refuse(*_: object) -> NoReturn:
    raise InvalidInput("it declares entities of XML, which are not read")
