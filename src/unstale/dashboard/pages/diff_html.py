"""A difference between two versions, marked for eyes and for ears."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from markupsafe import Markup, escape

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_LEAST_LIKENESS = 0.5
"""Of two lines, from 0 to 1, for their words to be compared."""
_LONGEST_LINE_CHARACTERS = 400
"""Characters of a line whose words are compared."""
_MOST_LINE_PAIRS = 400
"""Lines that went, times lines that came, up to which those that are alike are looked for."""
_TAGS = {"-": ("del", "removed"), "+": ("ins", "added")}


def difference_html(text: str) -> Markup:
    r"""Return a difference, as `unstale.mirror.differences.text` tells it, as HTML.

    Lines that were added are in ``<ins>``, removed ones in ``<del>``, each with a word for screen readers;
    where a line was replaced by one like it, the words that differ stand out.

    >>> difference_html("+<b>")
    Markup('<ins><span class="ears">added: </span>&lt;b&gt;\n</ins>')
    """
    lines = text.split("\n")
    parts: list[Markup] = []
    at = 0
    while at < len(lines):
        gone = _taken(lines, at, "-")
        came = _taken(lines, at + len(gone), "+")
        if gone or came:
            parts += _replaced([line[1:] for line in gone], [line[1:] for line in came])
            at += len(gone) + len(came)
            continue
        parts.append(_plain(lines[at]))
        at += 1
    return Markup().join(parts)


def _taken(lines: list[str], start: int, sign: str) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith(sign):
        end += 1
    return lines[start:end]


def _plain(line: str) -> Markup:
    if found := _HUNK.match(line):
        return Markup('<span class="place">line {}\n</span>').format(
            found[2] if found[2] != "0" else found[1]
        )
    if line.startswith(" "):
        return Markup('<span class="same">{}\n</span>').format(line[1:])
    return Markup('<span class="note">{}\n</span>').format(line)


def _replaced(gone: list[str], came: list[str]) -> Iterator[Markup]:
    """Return lines that went and lines that came, with words marked in those that are alike."""
    old, new = [escape(line) for line in gone], [escape(line) for line in came]
    start = 0
    if len(gone) * len(came) <= _MOST_LINE_PAIRS:
        for n, line in enumerate(gone):
            alike = (m for m in range(start, len(came)) if _alike(line, came[m]))
            if (m := next(alike, None)) is not None:
                old[n], new[m] = _words(line, came[m])
                start = m + 1
    yield from (_line("-", line) for line in old)
    yield from (_line("+", line) for line in new)


def _alike(old: str, new: str) -> bool:
    if max(len(old), len(new)) > _LONGEST_LINE_CHARACTERS:
        return False
    matcher = difflib.SequenceMatcher(None, re.findall(r"\w+", old), re.findall(r"\w+", new), autojunk=False)
    return matcher.quick_ratio() >= _LEAST_LIKENESS and matcher.ratio() >= _LEAST_LIKENESS


def _line(sign: str, inside: Markup) -> Markup:
    tag, word = _TAGS[sign]
    return Markup('<{0}><span class="ears">{1}: </span>{2}\n</{0}>').format(tag, word, inside)


def _words(old: str, new: str) -> tuple[Markup, Markup]:
    """Return two lines with what differs between them marked."""
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    found = difflib.SequenceMatcher(None, before, after, autojunk=False)
    left, right = [], []
    for tag, low, high, start, stop in found.get_opcodes():
        was, now = "".join(before[low:high]), "".join(after[start:stop])
        wrap = Markup("{}") if tag == "equal" else Markup("<mark>{}</mark>")
        left.append(wrap.format(was) if was else Markup())
        right.append(wrap.format(now) if now else Markup())
    return Markup().join(left), Markup().join(right)
