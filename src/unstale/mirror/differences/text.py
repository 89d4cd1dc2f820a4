"""The difference between two versions of a copy, for people to read.

Time and output are bounded, whatever the versions are: for versions that have little in common, or are huge,
only counts are given.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from .least_edits import line_difference

MAX_COMPARED_BYTES = 8_000_000
"""Lines of a larger text are not compared."""
_MAX_UNCUT_CHARACTERS = 400
"""A longer line is cut at the ends of sentences."""
_TEXT_TYPE = re.compile(r"text/|application/(.*\+)?(json|xml|yaml|toml|javascript|x-ndjson)\b", re.IGNORECASE)
_HTML_TYPE = re.compile(r"text/html|application/xhtml", re.IGNORECASE)
_JSON_TYPE = re.compile(r"application/(.*\+)?json\b", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Codecs of Python that are not charsets of texts; the time of some grows with the square of the length."""
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|\[\]|\{\}|[\[\]{}]|, |[^"\[\]{},]++', re.DOTALL)
"""A string, a bracket, an empty pair of brackets, a comma, or any other token of JSON."""
_MAX_JSON_LINES = 1_000_000
"""JSON with more lines is not laid out."""
_MAX_INDENT_SPACES = 20
"""The largest indent of a line, since hostile JSON is nested a thousand times."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_BLOCK_NAMES = (
    "address article aside blockquote body br caption dd div dl dt figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr html legend li main nav ol option p pre section summary table tbody td tfoot th "
    "thead title tr ul"
)
_BLOCK_TAGS = frozenset(_BLOCK_NAMES.split())
"""Tags that begin a new line."""
_INVISIBLE_TAGS = frozenset({"script", "style", "template", "noscript"})


def difference(old: bytes, new: bytes, media_type: str, *, lines: int = 200, table: bool = False) -> str:
    r"""Return the differing lines of texts, or rows of tables, in about ``lines`` lines at most.

    It may take hundreds of megabytes and many seconds; `bounded_difference` does not.

    Parameters
    ----------
    old, new
        The contents of two versions.
    media_type
        Of the newer one; says how to read both.
    lines
        The limit of the output.
    table
        Whether both are tables in Parquet that the mirror itself has written.

    Examples
    --------
    >>> print(difference(b"one\ntwo\nthree", b"one\n2\nthree", "text/plain"))
    @@ -1,3 +1,3 @@
     one
    -two
    +2
     three
    """
    if old == new:
        return "no difference"
    return (
        _difference(old, new, media_type, lines, table=table).encode("utf-8", "replace").decode()
    )  # JSON may have half a surrogate pair


def _difference(old: bytes, new: bytes, media_type: str, lines: int, *, table: bool) -> str:
    if table and all(part[:4] == part[-4:] == b"PAR1" for part in (old, new)):
        with suppress(ImportError):
            from .tables import table_difference

            if found := table_difference(old, new, lines):
                return found
    if not _TEXT_TYPE.match(media_type) or max(len(old), len(new)) > MAX_COMPARED_BYTES:
        return sizes_and_digests(old, new)
    for read in _readers(media_type):
        before, after = read(old), read(new)
        if before != after:
            return line_difference(before, after, lines)
    return sizes_and_digests(old, new)  # the texts differ only in bytes that decoding hides


def sizes_and_digests(old: bytes, new: bytes) -> str:
    """Return what is said of contents that are not compared."""
    shown = (f"{len(part):,} bytes, SHA-256 {hashlib.sha256(part).hexdigest()}" for part in (old, new))
    return "was {}\nis  {}".format(*shown)


# --- lines of text


def _readers(media_type: str) -> list[Callable[[bytes], list[str]]]:
    """Return functions that make lines of a content: first of what people see, then of all of it."""
    found = _CHARSET.search(media_type)
    charset = _charset(found.group(1)) if found else "utf-8"

    def text(content: bytes) -> str:
        try:
            return content.decode(charset, "replace")
        except (LookupError, ValueError):  # not a charset of texts
            return content.decode("utf-8", "replace")

    def source(content: bytes) -> list[str]:
        return _lines(text(content).splitlines())

    def seen(content: bytes) -> list[str]:
        return _lines(_visible(text(content)))

    def laid_out(content: bytes) -> list[str]:
        try:
            found = _laid_out(json.dumps(json.loads(text(content)), ensure_ascii=False))
        except (ValueError, RecursionError):
            found = None
        return source(content) if found is None else found

    if _HTML_TYPE.match(media_type):
        return [seen, source]
    return [laid_out, source] if _JSON_TYPE.match(media_type) else [source]


def _charset(name: str) -> str:
    """Return the codec of a charset; UTF-8 if the name is unknown."""
    try:
        found = codecs.lookup(name).name.replace("_", "-")
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if found in _NO_CHARSETS else found


def _laid_out(text: str) -> list[str] | None:
    """Return JSON with a line for each value; None if there would be too many lines."""
    if text.count(",") + 2 * (text.count("[") + text.count("{")) > _MAX_JSON_LINES:
        return None
    lines: list[str] = []
    parts: list[str] = []
    depth = 0

    def end_line() -> None:
        lines.extend("".join(parts).splitlines())  # strings of JSON may have line separators
        parts[:] = [" " * min(depth, _MAX_INDENT_SPACES)]

    for found in _JSON_TOKEN.finditer(text):
        part = found[0]
        if part in {"[", "{"}:
            depth += 1
            parts.append(part)
            end_line()
        elif part in {"]", "}"}:
            depth -= 1
            end_line()
            parts.append(part)
        elif part == ", ":
            parts.append(",")
            end_line()
        else:
            parts.append(part)
    end_line()
    return lines


def _lines(lines: Sequence[str]) -> list[str]:
    """Cut long lines at the ends of sentences, so that one new word does not change a whole page."""
    cut: list[str] = []
    for line in lines:
        cut.extend([line] if len(line) <= _MAX_UNCUT_CHARACTERS else _SENTENCE_END.split(line))
    return cut


def _visible(html: str) -> list[str]:
    """Return the visible text of a page, a line for each block."""
    from lxml import etree

    seen = _VisibleText()
    parser = etree.HTMLParser(target=seen, encoding="utf-8")
    try:
        parser.feed(html.encode("utf-8", "replace"))
        parser.close()
    except (etree.LxmlError, ValueError):
        return html.splitlines()
    return seen.lines


class _VisibleText:
    """Collects the visible lines of a page from the events of a parser, which builds no tree."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._line: list[str] = []
        self._hidden = 0
        """Depth within invisible tags."""

    def start(self, name: str, _: object) -> None:
        """Handle the start of a tag."""
        if self._hidden or name in _INVISIBLE_TAGS:
            self._hidden += 1
        elif name in _BLOCK_TAGS:
            self._end_line()

    def data(self, text: str) -> None:
        """Handle a text."""
        if not self._hidden:
            self._line.append(text)

    def end(self, name: str) -> None:
        """Handle the end of a tag."""
        self._hidden = max(self._hidden - 1, 0)
        if not self._hidden and name in _BLOCK_TAGS:
            self._end_line()

    def comment(self, text: str) -> None:
        """Ignore a comment."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Ignore a processing instruction."""

    def close(self) -> None:
        """Handle the end of the page."""
        self._end_line()

    def _end_line(self) -> None:
        line = " ".join("".join(self._line).split())
        if line:
            self.lines.append(line)
        self._line.clear()
