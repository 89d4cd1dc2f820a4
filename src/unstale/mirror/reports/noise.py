"""Noise: parts of a page that change at each look, whatever happens at the source.

A date, a nonce, an advertisement or a counter differs between any two looks, however close together they are.
A change of the content comes at some rate: between two looks within minutes it is rare. So each part that has
ever differed is asked of all pairs of successive versions, with the time between them:

    noise       it differs at most looks (probability .5 to .95, which fits best), whatever the time
    content     it differs with probability 1 - exp(-rate * time), with the rate that fits best, at most one
                change in ten minutes

The evidence is the logarithm of the ratio of the two likelihoods. From 4 nats on (odds of 55 to 1) a part is
proposed as noise. Looks that are hours apart say nothing, since content that changes every ten minutes would
differ as well: then the report asks for looks closer together. What changes more often than each ten minutes
is noise by this definition, unless a selector selects it.

Parts are found without knowing the page: where two versions differ, the text before and after that stays the
same names the part. The proposal is a regular expression for ``ignore`` that matches the part by these
neighbours. It is checked against all versions, and the preview says which changes would have counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import pairwise

_LEAST_NOISE_SHARE, _NOISE_SHARE = 0.5, 0.95
_FASTEST_RATE = 1.0 / 600.0
"""Changes per second that content has at most."""
_ENOUGH_NATS = 4.0
_MOST_CHARACTERS = 400_000
"""Of each version that is looked at."""
_MOST_PIECES = 20_000
_MOST_PARTS = 300
"""That are looked at more closely."""
_NEIGHBOUR_CHARACTERS = 30
_LEAST_NEIGHBOUR_CHARACTERS = 4
"""Before and after a part together; with less a pattern would match anything."""
_MOST_VALUE_CHARACTERS = 300
_PIECE = re.compile(r"<[^<>]{0,2000}>|[^<>\n]+|\n+|[<>]")
_NUMBER = re.compile(r"\d+|[.,:]")
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_CLASSES = (
    (re.compile(r"[\d.,: /\u00a0-]+"), r"[\d.,: /\u00a0-]+"),
    (re.compile(r"[0-9A-Fa-f-]+"), r"[0-9A-Fa-f-]+"),
    (re.compile(r"[\w+/=-]+"), r"[\w+/=-]+"),
    (re.compile(r"[\w .,:/+-]+"), r"[\w .,:/+-]{1,200}"),
)
"""What values of a part look like, the narrowest first, and the pattern of each."""


@dataclass(frozen=True, slots=True)
class Look:
    """What counts of one version, and when it was seen."""

    time: float
    text: str


@dataclass(frozen=True, slots=True)
class NoisyPart:
    """A part that changes at each look."""

    pattern: str
    """A regular expression for ``ignore``."""
    looks: int
    """Pairs of successive versions in which it was there."""
    changed: int
    """Of them, those between which it differed."""
    shortest: float
    """Seconds between the two closest looks at which it differed."""
    nats: float
    """Evidence that it is noise."""
    examples: tuple[str, ...]
    """Values that it had."""


@dataclass(frozen=True, slots=True)
class NoiseReport:
    """What is noise on a page, and what would have counted without it."""

    versions: int
    parts: tuple[NoisyPart, ...]
    undecided: tuple[NoisyPart, ...]
    """Parts that differ often, of which the looks were too far apart to tell."""
    counted: int
    """Changes that counted."""
    would_count: tuple[float, ...]
    """Times of those that would have counted without the noise."""

    @property
    def ignore(self) -> list[str]:
        """The patterns that are proposed."""
        return [one.pattern for one in self.parts]


def find_noise(looks: Sequence[Look]) -> NoiseReport:
    r"""Return what is noise, by versions in the order of their times.

    >>> pages = [Look(20.0 * n, f"<p>news</p><p>Page views: {1000 + 7 * n}</p>") for n in range(4)]
    >>> report = find_noise(pages)
    >>> report.ignore, len(report.would_count), report.counted
    (['(?<=Page views: )[\\d.,: /\\u00a0-]+(?=</p>)'], 0, 3)
    """
    looks = [Look(one.time, one.text[:_MOST_CHARACTERS]) for one in looks]
    pairs = list(pairwise(looks))
    candidates: dict[str, int] = {}
    for old, new in pairs:
        for pattern in _differing(old.text, new.text):
            candidates[pattern] = candidates.get(pattern, 0) + 1
    judged = []
    for pattern in sorted(candidates, key=lambda one: -candidates[one])[:_MOST_PARTS]:
        part = _judged(pattern, pairs)
        if part is not None:
            judged.append(part)
    noisy = _without_doubles([one for one in judged if one.nats >= _ENOUGH_NATS], looks)
    known = {one.pattern for one in noisy}
    undecided = [
        one for one in judged
        if one.pattern not in known and one.nats > -1.0 and one.looks >= 3 and one.changed >= 0.8 * one.looks
    ]  # fmt: skip
    rest = [_without(one.text, noisy) for one in looks]
    would = tuple(looks[i + 1].time for i, (old, new) in enumerate(pairwise(rest)) if old != new)
    counted = sum(old.text != new.text for old, new in pairs)
    return NoiseReport(len(looks), tuple(noisy), tuple(undecided[:10]), counted, would)


def _differing(old: str, new: str) -> list[str]:
    """Return a pattern for each part in which two texts differ, by what stands before and after it."""
    before, after = _PIECE.findall(old)[:_MOST_PIECES], _PIECE.findall(new)[:_MOST_PIECES]
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    found = []
    if len(before) == len(after):  # nothing was inserted: piece by piece
        rows = [(i, i + 1, i, i + 1) for i in range(start, len(before)) if before[i] != after[i]]
    else:
        matcher = SequenceMatcher(None, before[start:], after[start:], autojunk=True)
        rows = [
            (a + start, b + start, c + start, d + start)
            for kind, a, b, c, d in matcher.get_opcodes()
            if kind == "replace" and b - a == d - c
        ]
    for a, b, c, _ in rows[:_MOST_PARTS]:
        for i in range(b - a):
            left = before[a + i - 1] if a + i else ""
            right = before[a + i + 1] if a + i + 1 < len(before) else ""
            found += _in_piece(before[a + i], after[c + i], left, right)
    return found


def _in_piece(old: str, new: str, left: str, right: str) -> list[str]:
    """Return a pattern for each part in which two pieces differ."""
    before, after = _TOKEN.findall(old)[:2000], _TOKEN.findall(new)[:2000]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    blocks = [one for one in matcher.get_opcodes() if one[0] != "equal"]
    merged: list[list[int]] = []
    for _, a, b, c, d in blocks:  # parts that only a sign or a space keeps apart are one
        if merged and not any(one.isalpha() for one in before[merged[-1][1] : a]) and a - merged[-1][1] <= 3:
            merged[-1][1], merged[-1][3] = b, d
        else:
            merged.append([a, b, c, d])
    found = []
    for first, last, other, end in merged:
        a, b, c, d = first, last, other, end
        while a and c and _of_number(before[:a][::-1][:2]):  # a number or a date is one value as a whole
            a, c = a - 1, c - 1
        while b < len(before) and d < len(after) and _of_number(before[b : b + 2]):
            b, d = b + 1, d + 1
        values = ("".join(before[a:b]), "".join(after[c:d]))
        head = "".join(before[:a]) or left
        tail = "".join(before[b:]) or right
        pattern = _pattern(head, values, tail) if max(map(len, values)) <= _MOST_VALUE_CHARACTERS else None
        if pattern is not None:
            found.append(pattern)
    return found


def _of_number(tokens: Sequence[str]) -> bool:
    """Tell whether the next token, as one goes away from a value, belongs to the same number or date."""
    apart = len(tokens) == 2 and tokens[0] in {" ", "-", "/"} and tokens[1].isdigit()
    return apart or _NUMBER.fullmatch(tokens[0]) is not None


def _pattern(head: str, values: tuple[str, str], tail: str) -> str | None:
    """Return a regular expression for a part between its neighbours, without digits that may change, too."""
    kept = [one for one in values if one]
    inner = next((text for rule, text in _CLASSES if all(map(rule.fullmatch, kept))), "[^<>]{1,300}?")
    head = re.split(r"\d", head)[-1][-_NEIGHBOUR_CHARACTERS:]
    tail = re.split(r"\d", tail)[0][:_NEIGHBOUR_CHARACTERS]
    if len(head.strip()) + len(tail.strip()) < _LEAST_NEIGHBOUR_CHARACTERS:
        return None
    before = f"(?<={_escaped(head)})" if head else ""
    after = f"(?={_escaped(tail)})" if tail else ""  # neighbours stay: they may be those of other parts
    return f"{before}{inner}{after}"


def _escaped(text: str) -> str:
    return re.escape(text).replace("\\ ", " ").replace("\\\n", "\\n")


def _judged(pattern: str, pairs: Sequence[tuple[Look, Look]]) -> NoisyPart | None:
    """Return how a part did at all looks; None if it cannot be found, or has no neighbours."""
    compiled = re.compile(pattern)
    seen: list[tuple[float, bool]] = []
    examples: list[str] = []
    for old, new in pairs:
        before, after = compiled.findall(old.text)[:50], compiled.findall(new.text)[:50]
        if before and after:
            seen.append((max(new.time - old.time, 1e-3), before != after))
            examples += [before[0], after[0]]
    changed = [gap for gap, differs in seen if differs]
    if not changed:
        return None
    return NoisyPart(
        pattern, len(seen), len(changed), min(changed), _evidence(seen),
        tuple(one[:100] for one in dict.fromkeys(examples))[:3],
    )  # fmt: skip


def _evidence(seen: Sequence[tuple[float, bool]]) -> float:
    """Return the logarithm of the likelihood that a part is noise over that of content at its best rate.

    >>> round(_evidence([(20.0, True)] * 3), 1), _evidence([(20.0, True)] + [(20.0, False)] * 5) < 0
    (10.1, True)
    >>> abs(_evidence([(86400.0, True)] * 5)) < 1.0
    True
    """
    changed = sum(differs for _, differs in seen)
    share = min(max(changed / len(seen), _LEAST_NOISE_SHARE), _NOISE_SHARE)
    noise = changed * math.log(share) + (len(seen) - changed) * math.log(1.0 - share)

    def content(rate: float) -> float:
        total = 0.0
        for gap, differs in seen:
            expected = rate * gap
            total += math.log(-math.expm1(-expected)) if differs else -expected
        return total

    rates = [_FASTEST_RATE * 10.0 ** (-0.1 * step) for step in range(71)]
    return noise - max(map(content, rates))


def _without_doubles(parts: Sequence[NoisyPart], looks: Sequence[Look]) -> list[NoisyPart]:
    """Return those that are needed: a part that others have taken out already is not proposed."""
    needed: list[NoisyPart] = []
    texts = [one.text for one in looks]
    for one in sorted(parts, key=lambda part: (-part.nats, len(part.pattern))):
        compiled = re.compile(one.pattern)
        new = [compiled.sub("", text) for text in texts]
        if sum(map(len, new)) < sum(map(len, texts)) and len(set(new)) <= len(set(texts)):
            needed.append(one)
            texts = new
    return needed


def _without(text: str, parts: Sequence[NoisyPart]) -> str:
    for one in parts:
        text = re.sub(one.pattern, "", text)
    return text
