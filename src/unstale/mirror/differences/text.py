"""What is different between two versions of a copy, for people to read.

Bounded in time and in what comes out, whatever goes in: versions that have little in common, or are huge,
are told apart by counts.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from .least_edits import line_difference

__all__ = ["difference"]

_MAX_COMPARED_BYTES = 8_000_000
"""Bytes of text beyond which lines are not compared."""
_MAX_UNCUT_CHARACTERS = 400
"""Characters of a line beyond which it is cut at the ends of sentences."""
_TEXT_TYPE = re.compile(r"text/|application/(.*\+)?(json|xml|yaml|toml|javascript|x-ndjson)\b", re.IGNORECASE)
_HTML_TYPE = re.compile(r"text/html|application/xhtml", re.IGNORECASE)
_JSON_TYPE = re.compile(r"application/(.*\+)?json\b", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)
_NO_CHARSETS = frozenset({"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"})
"""Of Python, not of texts; some take time with the square of the length."""
_JSON_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"|\[\]|\{\}|[\[\]{}]|, |[^"\[\]{},]++', re.DOTALL)
"""A string, a bracket, two of them with nothing between, a comma, or anything else that JSON has."""
_MAX_JSON_LINES = 1_000_000
"""Lines beyond which JSON is not laid out."""
_MAX_INDENT_SPACES = 20
"""Spaces at most with which a line of JSON begins: hostile ones are nested a thousand times."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_BLOCK_NAMES = (
    "address article aside blockquote body br caption dd div dl dt figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr html legend li main nav ol option p pre section summary table tbody td tfoot th "
    "thead title tr ul"
)
_BLOCK_TAGS = frozenset(_BLOCK_NAMES.split())
"""Tags that begin a line of their own."""
_INVISIBLE_TAGS = frozenset({"script", "style", "template", "noscript"})


def difference(old: bytes, new: bytes, media_type: str, *, lines: int = 200) -> str:
    r"""Return in at most about ``lines`` lines what is different: of text, lines; of tables, rows.

    >>> print(difference(b"one\ntwo\nthree", b"one\n2\nthree", "text/plain"))
    @@ -1,3 +1,3 @@
     one
    -two
    +2
     three
    """
    if old == new:
        return "no difference"
    return _told(old, new, media_type, lines).encode("utf-8", "replace").decode()  # JSON has half characters


def _told(old: bytes, new: bytes, media_type: str, lines: int) -> str:
    if all(part[:4] == part[-4:] == b"PAR1" for part in (old, new)):
        with suppress(ImportError):
            from .tables import table_difference

            if found := table_difference(old, new, lines):
                return found
    if not _TEXT_TYPE.match(media_type) or max(len(old), len(new)) > _MAX_COMPARED_BYTES:
        return _plain(old, new)
    for read in _readers(media_type):
        before, after = read(old), read(new)
        if before != after:
            return line_difference(before, after, lines)
    return _plain(old, new)  # only in what decoding hides


def _plain(old: bytes, new: bytes) -> str:
    shown = (f"{len(part):,} bytes, SHA-256 {hashlib.sha256(part).hexdigest()}" for part in (old, new))
    return "was {}\nis  {}".format(*shown)


# --- lines of text


def _readers(media_type: str) -> list[Callable[[bytes], list[str]]]:
    """Return ways to make lines of a content: what people see first, then all there is."""
    found = _CHARSET.search(media_type)
    charset = _charset(found.group(1)) if found else "utf-8"

    def text(content: bytes) -> str:
        try:
            return content.decode(charset, "replace")
        except (LookupError, ValueError):  # it is none of texts
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
    """Return the name of a charset; UTF-8 if there is none of that name."""
    try:
        found = codecs.lookup(name).name.replace("_", "-")
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if found in _NO_CHARSETS else found


def _laid_out(text: str) -> list[str] | None:
    """Return JSON with a line for each value; None if that were too many."""
    if text.count(",") + 2 * (text.count("[") + text.count("{")) > _MAX_JSON_LINES:
        return None
    lines: list[str] = []
    parts: list[str] = []
    depth = 0

    def end_line() -> None:
        lines.extend("".join(parts).splitlines())  # JSON has line separators within strings
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
    """Cut long lines at the ends of sentences, so that one word more is not all of a page."""
    cut: list[str] = []
    for line in lines:
        cut.extend([line] if len(line) <= _MAX_UNCUT_CHARACTERS else _SENTENCE_END.split(line))
    return cut


def _visible(html: str) -> list[str]:
    """Return the text of a page, a line for each block."""
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
    """Hears of the parts of a page one by one: a tree of them can be large, and long in the making."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._line: list[str] = []
        self._hidden = 0
        """How deep we are in what is not seen."""

    def start(self, name: str, _: object) -> None:
        """Hear of a tag."""
        if self._hidden or name in _INVISIBLE_TAGS:
            self._hidden += 1
        elif name in _BLOCK_TAGS:
            self._end_line()

    def data(self, text: str) -> None:
        """Hear of a text."""
        if not self._hidden:
            self._line.append(text)

    def end(self, name: str) -> None:
        """Hear of the end of a tag."""
        self._hidden = max(self._hidden - 1, 0)
        if not self._hidden and name in _BLOCK_TAGS:
            self._end_line()

    def comment(self, text: str) -> None:
        """Hear of a comment."""

    def pi(self, target: str, data: str | None = None) -> None:
        """Hear of an instruction."""

    def close(self) -> None:
        """Hear of the end of the page."""
        self._end_line()

    def _end_line(self) -> None:
        line = " ".join("".join(self._line).split())
        if line:
            self.lines.append(line)
        self._line.clear()
