"""What an experiment is: claims of a paper beside what comes out here, and the data of its figure.

An experiment is a generator over the public API. It yields claims, panels of a figure and tables, in any
order; the rest (verdicts, drawings, files, the report) is made from these.

>>> import unstale
>>> @experiment("half", paper=BEYOND, where="an example")
... def half(run):
...     "What one poll per change buys."
...     yield number("freshness at r = 1", published=0.63, computed=unstale.freshness(1.0, 1.0), within=0.005)
>>> findings = half.run()
>>> [(claim.what, str(claim.verdict)) for claim in findings.claims]
[('freshness at r = 1', 'reproduces')]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite, isnan
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from unstale.arguments import Floats
from unstale.errors import InvalidInput

T = TypeVar("T")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass(frozen=True)
class Paper:
    """Where results were published."""

    authors: str
    title: str
    venue: str

    def __str__(self) -> str:
        return f"{self.authors}, {self.venue}" if self.venue else self.authors


CHO = Paper(
    "Cho & Garcia-Molina", "Synchronizing a database to improve freshness", "SIGMOD 2000 and report of 1999"
)
AZAR = Paper("Azar et al.", "Tractable near-optimal policies for crawling", "PNAS 2018")
LI = Paper("Li, Cline & Loguinov", "On sample-path staleness in lazy data replication", "INFOCOM 2015")
CARNEY = Paper("Carney, Lee & Zdonik", "Scalable application-aware data freshening", "ICDE 2003")
BEYOND = Paper("Beyond the papers", "", "")


class Verdict(StrEnum):
    """How a claim of a paper compares with the result here."""

    REPRODUCES = "reproduces"
    APPROXIMATELY = "approximately"
    CANNOT = "cannot"
    PAPER_IN_ERROR = "the paper is in error"
    OURS = "not in the paper"
    DIFFERS = "differs"
    """Neither reproduced nor explained: a mistake of ours until shown otherwise."""


_EXPLAINED = {Verdict.APPROXIMATELY, Verdict.CANNOT, Verdict.PAPER_IN_ERROR}


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Something published, beside what comes out here. Made by `number`, `statement`, `ours` or `cannot`."""

    what: str
    published: float | str | None
    """A number, or a statement in words; None if the paper has neither."""
    computed: float | bool | None
    """A number, or whether a statement holds; None if it cannot be computed."""
    within: float = 0.0
    """How far a number may be from the published one and still reproduce it: what rounding explains."""
    nearly: float = 0.0
    """How far it may be to be approximately the same; ``why`` says what the rest is."""
    right: float | bool | None = None
    """What comes out if the paper is in error, from a source other than this library; ``why`` says why."""
    close: float = 0.0
    """How far a number may be from ``right``."""
    why: str = ""

    def __post_init__(self) -> None:
        if not _in_words(self.what, self.why):
            raise InvalidInput(
                f"a claim must say in words what is claimed, and why; it says {self.what!r} and {self.why!r}"
            )
        if self.verdict in _EXPLAINED and not self.why.strip():
            raise InvalidInput(
                f"{self.what}: the verdict is {str(self.verdict)!r}, so why must say why; it is empty"
            )

    @property
    def verdict(self) -> Verdict:
        """What follows from the numbers."""
        if self.computed is None:
            return Verdict.CANNOT
        if self.published is None:
            agrees = self.right is None or self._is(self.right, self.close)
            return Verdict.OURS if agrees else Verdict.DIFFERS
        said = True if isinstance(self.published, str) else self.published
        if self._is(said, self.within):
            return Verdict.REPRODUCES
        if self.right is not None and self._is(self.right, self.close):
            return Verdict.PAPER_IN_ERROR
        return Verdict.APPROXIMATELY if self._is(said, self.nearly) else Verdict.DIFFERS

    def _is(self, value: float | bool, within: float) -> bool:  # noqa: FBT001  (a number or a truth)
        if isinstance(self.computed, bool) or self.computed is None or isinstance(value, bool):
            return self.computed is value
        return self.computed == value or abs(self.computed - value) <= within


def number(
    what: str,
    *,
    published: float,
    computed: float,
    within: float,
    nearly: float = 0.0,
    right: float | None = None,
    close: float = 0.0,
    why: str = "",
) -> Claim:
    """A published number: reproduced if ours is ``within`` of it, approximately if it is ``nearly`` there.

    If the paper is in error, ``right`` is the right number, known from elsewhere, and ours must be ``close``.

    What is not reproduced needs a ``why``.

    >>> half = number("half of 9", published=5.0, computed=4.5, within=0.0, right=4.5, why="a slip")
    >>> str(half.verdict)
    'the paper is in error'
    """
    return Claim(
        what=what, published=float(published), computed=_plain(what, computed), within=float(within),
        nearly=float(nearly), right=None if right is None else float(right), close=float(close), why=why,
    )  # fmt: skip


def statement(what: str, *, says: str, holds: bool, error: str = "") -> Claim:
    """A statement in words, and whether it holds; ``error`` says why it does not, if the paper is wrong.

    >>> str(statement("any rates", says="uniform is fresher", holds=True).verdict)
    'reproduces'
    """
    if not isinstance(holds, bool | np.bool_):
        raise InvalidInput(f"{what}: holds must be True or False; it is {holds!r}")
    return Claim(what=what, published=says, computed=bool(holds), right=False if error else None, why=error)


def ours(
    what: str, *, computed: float, expected: float | None = None, close: float = 0.0, why: str = ""
) -> Claim:
    """Something that the paper does not say; ``expected``, if it is known from elsewhere.

    A truth value is one that must hold.

    >>> str(ours("passes over the elements", computed=9).verdict)
    'not in the paper'
    """
    value = _plain(what, computed)
    right: float | bool | None = True if isinstance(value, bool) else expected
    return Claim(what=what, published=None, computed=value, right=right, close=close, why=why)


def cannot(what: str, *, published: float | str, why: str) -> Claim:
    """A published number or statement that cannot be computed here, and why.

    >>> str(cannot("seconds on their machine", published=62.0, why="the machine is gone").verdict)
    'cannot'
    """
    return Claim(what=what, published=published, computed=None, why=why)


def _plain(what: str, value: float) -> float | bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isnan(found := float(value)):
        raise InvalidInput(f"{what}: what is computed must be a number; it is nan")
    return found


def _in_words(*values: object) -> bool:
    return all(isinstance(one, str) for one in values)


def _is_above_0(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(isfinite(value) and value > 0)


@dataclass(frozen=True, eq=False)
class Line:
    """A curve, points, bars or steps of a panel; ``error`` is drawn as bars up and down."""

    label: str
    x: Floats
    y: Floats
    kind: Literal["line", "points", "bars", "steps"] = "line"
    error: Floats | None = None

    @classmethod
    def of(
        cls,
        label: str,
        x: ArrayLike,
        y: ArrayLike,
        kind: Literal["line", "points", "bars", "steps"] = "line",
        *,
        error: ArrayLike | None = None,
    ) -> Line:
        """Take anything that is like an array."""
        columns = [np.asarray(one, float) for one in (x, y, *(() if error is None else (error,)))]
        if len({one.shape for one in columns}) > 1 or columns[0].ndim != 1:
            shapes = ", ".join(str(one.shape) for one in columns)
            raise InvalidInput(f"the line {label!r} must have as many x as y; their shapes are {shapes}")
        return cls(label, columns[0], columns[1], kind, columns[2] if error is not None else None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Panel:
    """One part of a figure: lines over one pair of axes, which are labelled with their units."""

    title: str
    x: str
    y: str
    lines: Sequence[Line]
    log: Literal["", "x", "y", "xy"] = ""
    bounds: tuple[float | None, float | None] = (None, None)
    """Lowest and highest value of the y axis, if not as the data have it."""
    names: Sequence[str] = ()
    """Names of the places 0, 1, 2, ... on the x axis, for bars."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of equal length, by name with its unit."""

    title: str
    columns: Mapping[str, Sequence[object]]

    def __post_init__(self) -> None:
        if not _in_words(self.title, *self.columns):
            raise InvalidInput(
                f"a table and its columns must have names; they are {self.title!r} and {list(self.columns)}"
            )
        lengths = {name: len(column) for name, column in self.columns.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidInput(
                f"the columns of the table {self.title!r} must be of equal length; they are {lengths}"
            )


def taken(**choices: str) -> Table:
    """Return a note on what a paper does not state, and what is taken here."""
    names = [name.replace("_", " ") for name in choices]
    return Table("not stated in the paper", {"what": names, "taken here": list(choices.values())})


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """How to run: quickly or in full, from which seed, on which recorded history (None: the bundled one)."""

    quick: bool = False
    seed: int = 1
    history: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the columns of ``history``, if they are others than element and t."""
    advance: Callable[[float], None] = field(default=lambda _: None, repr=False)
    """Told the share of the work that is done, from 0 to 1."""

    def some(self, full: T, quick: T) -> T:
        """Return the one or the other: sizes, repetitions."""
        return quick if self.quick else full

    def rng(self, *purpose: int) -> np.random.Generator:
        """Return random numbers of their own for a purpose."""
        return np.random.default_rng([self.seed, *purpose])


@dataclass(frozen=True, eq=False)
class Findings:
    """The results of an experiment: claims, panels and tables."""

    claims: list[Claim]
    panels: list[Panel]
    tables: list[Table]

    @property
    def agrees(self) -> bool:
        """Whether each claim is reproduced, explained or excused."""
        return Verdict.DIFFERS not in self.counts

    @property
    def counts(self) -> dict[Verdict, int]:
        """How many claims met which verdict; those that occur, the best first."""
        found = Counter(claim.verdict for claim in self.claims)
        return {verdict: found[verdict] for verdict in Verdict if found[verdict]}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table, a figure or a statement of a paper, and the function that computes it again.

    `experiment` makes one.
    """

    name: str
    paper: Paper
    where: str
    shows: str
    seconds: float
    make: Callable[[Run], Iterator[Claim | Panel | Table]] = field(repr=False)
    file: str | None = None
    """Where it is, if it does not come with the package."""

    def run(self, run: Run | None = None) -> Findings:
        """Carry it out."""
        found = Findings([], [], [])
        made = self.make(run or Run())
        if not isinstance(made, Iterable):
            raise InvalidInput(
                f"an experiment must yield claims, panels and tables; {self.name} returns {made!r}"
            )
        for one in made:
            if isinstance(one, Claim):
                found.claims.append(one)
            elif isinstance(one, Panel):
                found.panels.append(one)
            elif isinstance(one, Table):
                found.tables.append(one)
            else:
                raise InvalidInput(
                    f"an experiment yields claims, panels and tables; {self.name} yields {one!r}"
                )
        if not (found.claims or found.panels or found.tables):
            raise InvalidInput(
                f"an experiment must yield claims, panels or tables; {self.name} yields nothing"
            )
        return found


def experiment(
    name: str, *, paper: Paper, where: str, shows: str | None = None, seconds: float = 1.0
) -> Callable[[Callable[[Run], Iterator[Claim | Panel | Table]]], Experiment]:
    """Make an experiment of a generator; ``seconds`` is about how long it takes in full on one core.

    The name is also that of its files. What it shows is the first line of the docstring, unless ``shows``
    says it.
    """
    if not (_in_words(name) and _NAME.fullmatch(name)):
        raise InvalidInput(
            f"the name of an experiment must be words of a-z and 0-9 with hyphens between; it is {name!r}"
        )
    if not isinstance(paper, Paper):
        raise InvalidInput(
            f"paper must be a Paper: CHO, BEYOND, or Paper(authors, title, venue); it is {paper!r}"
        )
    if not _in_words(where, shows or ""):
        raise InvalidInput(f"where and shows must be in words; they are {where!r} and {shows!r}")
    if not _is_above_0(seconds):
        raise InvalidInput(f"seconds must be a number above 0; it is {seconds!r}")

    def of(make: Callable[[Run], Iterator[Claim | Panel | Table]]) -> Experiment:
        line = (make.__doc__ or "").strip().partition("\n")[0].removesuffix(".")
        told = line[:1].lower() + line[1:] if shows is None else shows
        return Experiment(name=name, paper=paper, where=where, shows=told, seconds=seconds, make=make)

    return of
