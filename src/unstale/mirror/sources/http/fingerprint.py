"""What counts as a change of a page.

The options of a page define which part of it counts. The fingerprint is the SHA-256 of that part. It begins
with the name of the definition, so that fingerprints made under two definitions are never equal.

========  ============  =====================================================================================
change    selector      what counts
========  ============  =====================================================================================
bytes     no            every byte; the default, since it is exact, cheap, and the same for all kinds of files
bytes     CSS           the markup of the selected nodes
text      no            the main text, without navigation and advertisements; all text if none is found
text      CSS           the text of the selected nodes; the default if there is a selector
json      no            the value, however it is written
json      JSON pointer  the value there; also written ``change = "json:/items/0"``
price     CSS           the first price in the text of the selected nodes; without a selector that of all text
========  ============  =====================================================================================

``ignore`` holds regular expressions; whatever they match is removed first. With ``threshold`` a price, or a
number of JSON, must change by so much (``"5%"``, or an amount), compared with the last copy that counted.
"""

from __future__ import annotations

import codecs
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unstale.errors import InvalidInput, MissingExtra, need
from unstale.mirror.source import Json

from .amounts import amount_of, fingerprint_of_amount, price_in, threshold_of

if TYPE_CHECKING:
    from lxml.cssselect import CSSSelector
    from lxml.html import HtmlElement

CHANGES = ("bytes", "text", "json", "price")
_MAX_PATTERNS = 100
_MAX_PATTERN_CHARACTERS = 1000
_PATTERNS_TIMEOUT_SECONDS = 2.0
"""For all patterns of ``ignore`` together, on one page."""
_MAX_TITLE_CHARACTERS = 300
_TAG = re.compile(r"<[a-zA-Z](?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_BETWEEN = re.compile(r"[\s/\"=]+")
_MAX_ATTRIBUTES = 5000
_MAX_SELECTED_CHARACTERS = 8_000_000
"""Of all selected nodes; those within others count again."""
_HIDDEN_TAGS = ("script", "style", "noscript")
"""Tags of elements whose text is not shown."""


class NoContent(Exception):  # noqa: N818
    """The part that counts cannot be found in the body; the message says why."""


@dataclass(frozen=True, slots=True)
class ChangeDefinition:
    """What counts as a change."""

    change: str = "bytes"
    selector: str | None = None
    ignore: tuple[str, ...] = ()
    threshold: str | None = None
    """What a price or a number must change by: an amount, or a share such as ``5%``; None: any change."""

    @property
    def name(self) -> str:
        """A short name; two definitions have the same name only if they are equal.

        >>> ChangeDefinition().name, ChangeDefinition("text", "main").name
        ('bytes', 'text-738414a8')
        """
        if self.selector is None and not self.ignore and self.threshold is None:
            return self.change
        more = [] if self.threshold is None else [self.threshold]
        said = json.dumps([self.change, self.selector, self.ignore, *more])
        return f"{self.change}-{sha256(said.encode()).hexdigest()[:8]}"


BYTES = ChangeDefinition()


def definition_of(options: Mapping[str, Json]) -> ChangeDefinition:
    """Return the definition that the options of an element give; raise `InvalidInput` if they make no sense.

    >>> definition_of({"selector": "main"}).change
    'text'
    """
    change, selector, ignore = options.get("change"), options.get("selector"), options.get("ignore")
    if isinstance(change, str) and change.startswith("json:"):
        if selector is not None:
            raise InvalidInput(f"change says already what is selected; leave out selector {selector!r}")
        change, selector = "json", change.removeprefix("json:")
    threshold = _threshold(change, options.get("threshold"))
    if change is None and selector is None and ignore is None:
        return BYTES
    if change is None:
        change = "bytes" if selector is None else "text"
    if change not in CHANGES:
        raise InvalidInput(f"change must be one of {', '.join(CHANGES)}; it is {change!r}")
    if selector is not None and not (isinstance(selector, str) and selector.strip()):
        raise InvalidInput(f"selector must be a CSS selector, such as 'main article'; it is {selector!r}")
    patterns = [] if ignore is None else [ignore] if isinstance(ignore, str) else ignore
    if not isinstance(patterns, list | tuple) or not all(isinstance(p, str) and p for p in patterns):
        raise InvalidInput(f"ignore must be a list of regular expressions; it is {ignore!r}")
    if change == "bytes" and selector is None and not patterns:
        return BYTES
    return ChangeDefinition(str(change), selector, tuple(str(pattern) for pattern in patterns), threshold)


def _threshold(change: Json, said: Json) -> str | None:
    """Return what a number must change by; raise `InvalidInput` if that makes no sense."""
    if said is None:
        return None
    threshold = threshold_of(said)
    if threshold is None:
        raise InvalidInput(
            f'threshold must be an amount such as 0.5, or a share such as "5%"; it is {said!r}'
        )
    if change not in {"json", "price"}:
        raise InvalidInput('threshold is for numbers: it needs change = "price" or "json:/path"')
    return threshold


def check_content_options(options: Mapping[str, Json]) -> None:
    """Raise `InvalidInput` if the options cannot be used, `MissingExtra` if a package must be installed."""
    wanted = definition_of(options)
    if len(wanted.ignore) > _MAX_PATTERNS:
        raise InvalidInput(
            f"ignore must be at most {_MAX_PATTERNS} regular expressions; they are {len(wanted.ignore)}"
        )
    for pattern in wanted.ignore:
        _compiled(pattern)
    if wanted.change == "json":
        if wanted.selector is not None and not wanted.selector.startswith("/"):
            raise InvalidInput(
                f"selector must be a JSON pointer, such as /items/0, with JSON; it is {wanted.selector!r}"
            )
    elif wanted.selector is not None:
        _css(wanted.selector)
    elif wanted.change == "text":
        need("trafilatura", extra="html", needed_for="main texts")


class Fingerprint(str):  # noqa: SLOT000  (it has a note)
    """A fingerprint, with what a user should know of how it was made."""

    note = ""
    """Empty if there is nothing to say."""


def fingerprint_of(wanted: ChangeDefinition, body: bytes, content_type: str = "") -> Fingerprint:
    """Return the fingerprint of a body; raise `NoContent` if the body lacks the part that counts.

    >>> same = ChangeDefinition("json")
    >>> fingerprint_of(same, b'{"a": 1, "b": 2}') == fingerprint_of(same, b'{"b":2,"a":1}')
    True
    """
    if wanted is BYTES:
        return Fingerprint(f"bytes:{sha256(body).hexdigest()}")
    notes: list[str] = []
    try:
        text = _what_counts(wanted, body, content_type, notes)
    except (NoContent, InvalidInput, MissingExtra, MemoryError):
        raise
    except (Exception, RecursionError) as error:  # noqa: BLE001  (parsers raise anything on pages of the web)
        raise NoContent(f"the content cannot be read: {type(error).__name__}: {error}"[:300]) from None
    text = _remove_matches(text, wanted.ignore)
    amount = price_in(text) if wanted.change == "price" else None
    if wanted.change == "json" and wanted.threshold is not None:
        amount = amount_of(text.strip('"'))
    if amount is not None:
        return Fingerprint(fingerprint_of_amount(wanted.name, amount))
    if wanted.change == "price":
        raise NoContent("there is no price in what counts: a selector would say where it is")
    if wanted.change == "text":
        text = _with_single_spaces(text)
    made = Fingerprint(f"{wanted.name}:{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}")
    made.note = "; ".join(notes)
    return made


def what_counts(wanted: ChangeDefinition, body: bytes, content_type: str = "") -> bytes | None:
    """Return what a selector selects of a body, as text for people; None without one, or if it finds nothing.

    >>> what_counts(ChangeDefinition("text", "p"), b"<h1>News</h1><p>one", "text/html")
    b'one'
    """
    if wanted.selector is None:
        return None
    try:
        text = _remove_matches(_what_counts(wanted, body, content_type, []), wanted.ignore)
    except Exception:  # noqa: BLE001  (parsers raise anything on pages of the web)
        return None
    return text.encode("utf-8", "replace")


def counted_text(wanted: ChangeDefinition, body: bytes, content_type: str) -> str | None:
    """Return all that counts of a body, as text; None if it cannot be read.

    >>> counted_text(ChangeDefinition("text", "p", ("[0-9]+",)), b"<p>one 2 three", "text/html")
    'one  three'
    """
    try:
        return _remove_matches(_what_counts(wanted, body, content_type, []), wanted.ignore)
    except Exception:  # noqa: BLE001  (parsers raise anything on pages of the web)
        return None


def selection_of(options: Mapping[str, Json]) -> Callable[[bytes, str], bytes | None] | None:
    """Return what finds the part of a body that counts; None if no selector says that only a part does."""
    wanted = definition_of(options)
    return None if wanted.selector is None else partial(what_counts, wanted)


def fingerprint_of_file(wanted: ChangeDefinition, body: bytes | Path, content_type: str) -> Fingerprint:
    """Return the fingerprint of a body that may be in a file."""
    return fingerprint_of(wanted, body if isinstance(body, bytes) else body.read_bytes(), content_type)


def _what_counts(wanted: ChangeDefinition, body: bytes, content_type: str, notes: list[str]) -> str:
    if wanted.change == "json":
        return _json(body, wanted.selector)
    if wanted.selector is not None:
        text = _parseable(decoded(body, content_type)[1])
        return _selected(wanted.selector, text, markup=wanted.change == "bytes")
    if wanted.change == "price":
        return (
            visible_text(body, content_type)
            if _is_html(content_type, body)
            else decoded(body, content_type)[1]
        )
    if wanted.change == "text":
        _, text = decoded(body, content_type)
        return _main_text(_parseable(text), notes) if _is_html(content_type, body) else text
    # Different bytes always give different texts, even if the declared charset is wrong.
    return body.decode(_charset(content_type), "surrogateescape")


def _charset(content_type: str) -> str:
    """Return the charset that a page declares, if every byte of it is a character; otherwise UTF-8."""
    match = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.ASCII | re.IGNORECASE)
    try:
        name = codecs.lookup(match[1]).name if match else "utf-8"
    except (LookupError, ValueError):
        return "utf-8"
    return name if name.startswith(("iso8859", "cp125", "koi8", "mac-")) else "utf-8"


def decoded(body: bytes, content_type: str) -> tuple[str, str]:
    """Return the charset of a page, as browsers guess it, and its text.

    A page may name a codec of Python that is no charset, such as ``idna`` or ``hex``: then it is UTF-8.
    """
    from w3lib.encoding import html_to_unicode

    try:
        return html_to_unicode(content_type or None, body, default_encoding="utf8")
    except (LookupError, ValueError):
        return "utf-8", body.decode("utf-8", "replace")


def _is_html(content_type: str, body: bytes) -> bool:
    kind = content_type.partition(";")[0].strip().lower()
    if kind in {"", "application/octet-stream", "text/plain"}:
        start = body[:1024].lstrip().lower()
        return start.startswith((b"<!doctype html", b"<html", b"<head", b"<body"))
    return "html" in kind


def _parseable(text: str) -> str:
    """Return the page, or raise `NoContent` if a tag has too many attributes.

    The parser compares each attribute of a tag with all others, so its time grows with their square.
    """
    for tag in _TAG.finditer(text):
        long = tag.end() - tag.start() > 2 * _MAX_ATTRIBUTES
        if long and len(_BETWEEN.split(_QUOTED.sub('""', tag[0]))) > _MAX_ATTRIBUTES:
            raise NoContent(f"the content cannot be read: a tag has more than {_MAX_ATTRIBUTES:,} attributes")
    return text


def _with_single_spaces(text: str) -> str:
    """Replace each run of white space by one space."""
    return " ".join(text.split())


def _tree(text: str) -> HtmlElement:
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=parser)
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from None
        raise
    except etree.ParserError:
        raise NoContent("the page is empty") from None


def _without_hidden_texts(tree: HtmlElement) -> HtmlElement:
    """Remove the texts within elements that are not shown; done once, however many nodes are selected."""
    cleared: set[HtmlElement] = set()
    for hidden in list(tree.iter(*_HIDDEN_TAGS)):
        if hidden in cleared:  # it is within another one
            continue
        for node in hidden.iter():
            node.text = None
            if node is not hidden:
                node.tail = None
            cleared.add(node)
    return tree


def _texts(node: HtmlElement) -> str:
    from lxml.etree import XPath

    return _with_single_spaces(" ".join(XPath(".//text()", smart_strings=False)(node)))


def visible_text(body: bytes, content_type: str) -> str:
    """Return all text of a page that is shown; nothing if it cannot be read.

    >>> visible_text(b"<p>one<script>two</script>", "text/html")
    'one'
    """
    try:
        return _texts(_without_hidden_texts(_tree(_parseable(decoded(body, content_type)[1]))))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  (parsers raise anything on pages of the web)
        return ""


def _main_text(text: str, notes: list[str]) -> str:
    trafilatura = need("trafilatura", extra="html", needed_for="main texts")
    try:
        found = trafilatura.extract(text, fast=True, include_comments=False, include_tables=True)
    except MemoryError:
        raise
    except (Exception, RecursionError):  # noqa: BLE001  (all visible text is used instead)
        found = None
    if not found:
        notes.append("no main text was found, so all visible text counts; a selector would say what does")
    return found or _texts(_without_hidden_texts(_tree(text)))


@lru_cache(maxsize=256)
def _css(selector: str) -> CSSSelector:
    need("cssselect", extra="html", needed_for="selectors")
    from cssselect import SelectorError
    from lxml.cssselect import CSSSelector
    from lxml.etree import LxmlError

    try:
        return CSSSelector(selector, translator="html")
    except (SelectorError, LxmlError, ValueError, RecursionError) as error:
        raise InvalidInput(f"selector must be a CSS selector; {selector[:100]!r} is not: {error}") from None


def _selected(selector: str, text: str, *, markup: bool) -> str:
    from lxml import html

    tree = _tree(text)
    nodes = _css(selector)(tree)
    if not nodes:
        raise NoContent(f"the selector {selector!r} finds nothing on the page")
    if markup:
        return _joined(selector, (html.tostring(node, encoding="unicode", with_tail=False) for node in nodes))
    # The text of a script or a style counts only if the selector selects it.
    own = {
        node: _with_single_spaces(node.text_content()) for node in nodes if node.tag in {"script", "style"}
    }
    _without_hidden_texts(tree)
    return _joined(selector, (own[node] if node in own else _texts(node) for node in nodes))


def _joined(selector: str, parts: Iterable[str]) -> str:
    """Return what is selected, each part on lines of its own; raise `NoContent` if it is too long."""
    texts, room = [], _MAX_SELECTED_CHARACTERS
    for part in parts:
        texts.append(part)
        room -= len(part)
        if room < 0:
            raise NoContent(
                f"the selector {selector!r} selects nodes within nodes, with more than "
                f"{_MAX_SELECTED_CHARACTERS:,} characters together: choose one that selects less"
            )
    return "\n".join(texts)


def _json(body: bytes, pointer: str | None) -> str:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoContent(f"the content is not JSON: {error}"[:300]) from None
    for step in pointer.split("/")[1:] if pointer else []:
        name = step.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (LookupError, TypeError, ValueError):
            raise NoContent(f"the selector {pointer!r} finds nothing in the content") from None
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:  # noqa: ANN401  (regex has no types)
    """Compile a pattern with the package ``regex``, which has time-outs, unlike ``re``."""
    regex = need("regex", extra="html", needed_for="patterns in ignore")
    if len(pattern) > _MAX_PATTERN_CHARACTERS:
        raise InvalidInput(
            f"patterns in ignore may have {_MAX_PATTERN_CHARACTERS} characters; {pattern[:50]!r}... has more"
        )
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError, ValueError) as error:
        raise InvalidInput(
            f"ignore must be regular expressions; {pattern[:100]!r} is none: {error}"
        ) from None


def _remove_matches(text: str, patterns: tuple[str, ...]) -> str:
    end = time.monotonic() + _PATTERNS_TIMEOUT_SECONDS
    for pattern in patterns:
        left = end - time.monotonic()
        try:
            text = _compiled(pattern).sub("", text, concurrent=True, timeout=max(left, 0.001))
        except TimeoutError:
            raise NoContent(f"the pattern {pattern!r} in ignore takes too long: make it simpler") from None
    return text


def title_of(body: bytes, content_type: str) -> str | None:
    """Return the title of a page, if the beginning of its body has one.

    >>> title_of(b"<html><title>A &amp; B</title>", "text/html")
    'A & B'
    """
    if not _is_html(content_type, body):
        return None
    body = body[:16384]
    lower = body.lower()
    start = lower.find(b"<title")
    begin = body.find(b">", start) + 1
    end = lower.find(b"</title", begin)
    if start < 0 or begin == 0 or end < 0:
        return None
    try:
        text = body[begin:end].decode()
    except UnicodeDecodeError:
        text = body[begin:end].decode(decoded(body, content_type)[0], "replace")
    if "&" in text:
        text = unescape(text)
    text = _with_single_spaces(text)
    if not text.isprintable():
        text = "".join(letter for letter in text if letter.isprintable())
    return text[:_MAX_TITLE_CHARACTERS] or None
