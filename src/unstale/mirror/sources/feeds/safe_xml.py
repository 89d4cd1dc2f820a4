"""A strict XML reader for documents from anybody.

The reader refuses documents that declare entities, loads nothing from files or the network, limits the depth
and the number of elements, and builds no tree. It refuses a document that is not well-formed, since half a
list looks like a list from which entries were removed. It mends one common mistake: ampersands in addresses
that should have been written ``&amp;``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple, NoReturn, TypeVar
from xml.parsers import expat

from unstale.errors import InvalidInput

T = TypeVar("T")

_MAX_ELEMENTS = 1_000_000
"""Of one document; the largest sitemap allowed has a few hundred thousand."""
_MAX_DEPTH = 100
_CHUNK_BYTES = 1 << 16
_MOST_TAG_BYTES = 1 << 20
"""Of a tag or a comment: the parser begins anew with it at each chunk."""
_BARE_AND = re.compile(
    rb"(<!\[CDATA\[.*?(?:\]\]>|\Z))|&(?!(?:[A-Za-z_][\w.-]*|#\d+|#x[0-9A-Fa-f]+);)", re.DOTALL
)


class XmlElement(NamedTuple):
    """An element of a document; its name is in small letters, without the prefix."""

    depth: int
    """0: the root."""
    prefix: str
    name: str
    attributes: dict[str, str]
    text: str
    """The text directly in the element; empty for the root, which comes first."""
    line: int


def read_xml(body: bytes, read: Callable[[Iterator[XmlElement]], T]) -> T:
    """Return what ``read`` makes of the elements of a document: the root first, each other when it ends.

    >>> read_xml(b"<a><b>1</b><c x='1&2'/></a>", lambda elements: [(one.name, one.text) for one in elements])
    [('a', ''), ('b', '1'), ('c', '')]
    """
    attempts, words = [body.lstrip()], ""
    for attempt in attempts:
        try:
            return read(_elements(attempt))
        except InvalidInput:
            raise
        except (
            expat.ExpatError,
            LookupError,
            ValueError,
        ) as error:  # LookupError and ValueError: odd encodings
            words = words or f"it is not well-formed XML: {error}"
        mended = _BARE_AND.sub(lambda found: found[1] or b"&amp;", attempt)
        if mended != attempt and b"\0" not in attempt:  # not in UTF-16, where an ampersand has two bytes
            attempts.append(mended)
    raise InvalidInput(words)


def _elements(body: bytes) -> Iterator[XmlElement]:
    """Yield the root when it begins, and all others when they end."""
    reader = _ElementReader()
    for start in range(0, len(body), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES]
        reader.parser.Parse(chunk, False)  # noqa: FBT003
        if start + len(chunk) - reader.parser.CurrentByteIndex > _MOST_TAG_BYTES:
            raise InvalidInput(f"it has a tag or a comment of more than {_MOST_TAG_BYTES:,} bytes")
        yield from reader.taken()
    reader.parser.Parse(b"", True)  # noqa: FBT003
    yield from reader.taken()


class _OpenElement(NamedTuple):
    """An element that has begun."""

    name: str
    attributes: dict[str, str]
    line: int
    text: list[str]


class _ElementReader:
    """Collects the elements that the parser finds."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._data
        self.parser.EntityDeclHandler = _refuse
        self._open: list[_OpenElement] = []
        self._done: list[XmlElement] = []
        self._count = 0

    def taken(self) -> list[XmlElement]:
        """Return the elements found since the last call."""
        done, self._done = self._done, []
        return done

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if self._count > _MAX_ELEMENTS:
            raise InvalidInput(f"it has more than {_MAX_ELEMENTS:,} elements of XML")
        if len(self._open) >= _MAX_DEPTH:
            raise InvalidInput(f"its elements of XML are nested more than {_MAX_DEPTH} deep")
        begun = _OpenElement(name, attributes, self.parser.CurrentLineNumber, [])
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


def _element(depth: int, begun: _OpenElement) -> XmlElement:
    prefix, _, name = begun.name.rpartition(":")
    return XmlElement(depth, prefix, name.lower(), begun.attributes, "".join(begun.text), begun.line)


def _refuse(*_: object) -> NoReturn:
    raise InvalidInput("it declares entities of XML, which are not read")
