"""What ``unstale estimate`` found, and how it is shown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray
from rich.console import Console

from unstale.arguments import Floats
from unstale.cli.shared.printing import print_table, printable, say
from unstale.estimation.rates.estimators import Method
from unstale.estimation.rates.posterior import GammaPrior
from unstale.estimation.rates.rates_of_many import estimate_rates
from unstale.quantities import TimeUnit, show_duration, show_number
from unstale.tables import PollLog, as_list, taken
from unstale.wording import plural

from .laws import CONSEQUENCES, HOW, WhichLaw, show_p

_CLASSES_SHOWN = 20


class _Class(NamedTuple):
    """Elements that are alike."""

    name: object
    elements: int
    polls: int
    changes: int
    prior: GammaPrior


@dataclass(frozen=True, eq=False)
class EstimatedRates:
    """Rates of elements per unit of time."""

    method: str
    level: float
    rate: Floats
    low: Floats
    high: Floats
    polls: NDArray[np.int64]
    changes: NDArray[np.int64]
    shape: Floats
    scale: Floats
    priors: Sequence[GammaPrior]
    """One for each class, or one for all."""

    @classmethod
    def of(
        cls, log: PollLog, unit: TimeUnit, method: Method, level: float, half_life: float | None
    ) -> EstimatedRates:
        """Estimate rates from polls; an element without any has the typical rate."""
        elapsed = log.elapsed / unit.seconds
        ages = None if log.ages is None else log.ages / unit.seconds
        rates = estimate_rates(
            log.elements,
            elapsed,
            log.changed,
            n=len(log.keys),
            method=method,
            modified=ages,
            classes=log.classes,
            level=level,
            half_life=np.inf if half_life is None else half_life / unit.seconds,
        )
        prior = rates.prior
        priors = [prior[at] for at in range(len(log.class_names))] if isinstance(prior, dict) else [prior]
        law = rates.law
        return cls(
            method=method,
            level=level,
            rate=np.where(np.isnan(rates.rate), law.rate, rates.rate),
            low=rates.low,
            high=rates.high,
            polls=rates.polls,
            changes=rates.changes,
            shape=np.asarray(law.shape),
            scale=np.asarray(law.scale),
            priors=priors,
        )


@dataclass(frozen=True, eq=False)
class EstimateReport:
    """The answer of ``unstale estimate``: rates, priors, and which law the changes follow."""

    file: str
    unit: TimeUnit
    log: PollLog
    learned: EstimatedRates
    half_life: float | None
    """In seconds."""
    top: int
    laws: list[WhichLaw] | None
    """One for each class, or one for all; None if not asked for."""

    @property
    def _per(self) -> str:
        return f"changes/{self.unit.name}"

    # --- files ----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the file of rates, with their units."""
        names = ("key", "rate", "low", "high", "polls", "changes", "shape", "scale")
        units = {name: self._per if name in {"rate", "low", "high", "scale"} else "" for name in names}
        return units if self.log.classes is None else units | {"class": ""}

    def rows(self) -> list[Any]:
        """Return the columns of the file of rates."""
        one = self.learned
        columns = [self.log.keys, one.rate, one.low, one.high, one.polls, one.changes, one.shape, one.scale]
        if self.log.classes is not None:
            columns.append([self.log.class_names[at] for at in self.log.classes.tolist()])
        return columns

    # --- the screen -----------------------------------------------------------------------------------------

    def print(self, screen: Console, plot: str | None, out: str | None) -> None:
        """Print all but the rates of all elements."""
        log, learned = self.log, self.learned
        length = show_duration(float(log.times.max()) - log.start)
        screen.print(
            f"{plural(len(log.keys), 'element')}, {plural(len(log), 'poll')} in {length}, "
            f"{int(learned.changes.sum()):,} of which saw a change"
        )
        if self.top:
            self._print_top(screen)
        self._print_typical(screen)
        if self.laws is not None and len(self.laws) == 1:
            say(screen, self.laws[0].sentence)
        self._print_notes(screen)
        self._print_next(screen, plot, out)

    def _print_top(self, screen: Console) -> None:
        one = self.learned
        alike = np.array([float(f"{rate:.9g}") for rate in one.rate.tolist()])  # equal but for rounding
        fastest = np.argsort(-alike, kind="stable")[: self.top]
        keys = as_list(taken(self.log.keys, fastest))
        rows = [
            (
                printable(key),
                f"{one.polls[at]:,}",
                f"{one.changes[at]:,}",
                *(show_number(float(column[at])) for column in (one.rate, one.low, one.high)),
            )
            for key, at in zip(keys, fastest.tolist(), strict=True)
        ]
        screen.print()
        print_table(screen, ("key", "polls", "changes", self._per, "low", "high"), rows, shorten=True)
        if len(one.rate) > self.top:
            screen.print(f"... and {len(one.rate) - self.top:,} more, which change less")
        sure = f"{100 * one.level:.12g}%"
        say(screen, f"low and high: with a probability of {sure}, the rate is between them.")

    def _print_typical(self, screen: Console) -> None:
        classes = self._classes()
        if len(classes) == 1:
            say(screen, f"What is typical: {self._typical(classes[0].prior)}")
            return
        own = self.laws is not None and len(self.laws) == len(classes)
        heads = ["class", "elements", "changes", self._per, *(["law of gaps", "Poisson?"] if own else [])]
        rows = []
        shown = sorted(range(len(classes)), key=lambda at: -classes[at].elements)[:_CLASSES_SHOWN]
        for at in shown:
            one = classes[at]
            row = [printable(one.name), f"{one.elements:,}", f"{one.changes:,}", show_number(one.prior.rate)]
            law = self.laws[at] if own and self.laws else None
            rows.append(row if law is None else [*row, law.short, show_p(law.tests.p_value)])
        say(screen, "What is typical of a class:")
        print_table(screen, heads, rows, shorten=True)
        if len(classes) > len(shown):
            screen.print(f"... and {len(classes) - len(shown):,} smaller classes")
        if own:
            say(screen, "Poisson?: the probability of polls at least as odd, if changes were Poisson.")
        if own and self.laws:
            self._print_laws(screen, classes)

    def _typical(self, prior: GammaPrior) -> str:
        half, most = (scipy.special.gammaincinv(prior.shape, share) * prior.scale for share in (0.5, 0.95))
        return (
            f"{show_number(prior.rate)} {self._per} on average, with a spread (standard deviation over mean) "
            f"of {show_number(prior.shape**-0.5)}. Half of all elements have less than "
            f"{show_number(float(half))} {self._per}, and one in twenty more than {show_number(float(most))}."
        )

    def _print_laws(self, screen: Console, classes: list[_Class]) -> None:
        """Say what the laws of classes mean for a plan, once for each kind."""
        kinds: dict[str, list[str]] = {}
        for one, law in zip(classes, self.laws or (), strict=True):
            kinds.setdefault(law.kind, []).append(printable(one.name))
        for kind, names in kinds.items():
            if kind in HOW:
                say(screen, f"Changes come {HOW[kind]}: {', '.join(names)}. {CONSEQUENCES[kind]}")

    def _print_notes(self, screen: Console) -> None:
        """Print which polls were left out, and which values were assumed."""
        log = self.log
        once = int((self.learned.polls == 0).sum())
        if once:
            who = f"{plural(once, 'element')} {'was' if once == 1 else 'were'} polled only once"
            say(
                screen, f"{who}; {'its rate is' if once == 1 else 'their rates are'} a guess from the others."
            )
        if log.repeated:
            rows = "1 row repeats" if log.repeated == 1 else f"{log.repeated:,} rows repeat"
            count = "counts" if log.repeated == 1 else "count"
            say(screen, f"{rows} the element and the time of another, and {count} once.")
        if log.ahead:
            polls = "1 poll says" if log.ahead == 1 else f"{log.ahead:,} polls say"
            say(screen, f"{polls} that the last change was after the poll; that is taken as not known.")

    def _print_next(self, screen: Console, plot: str | None, out: str | None) -> None:
        if plot is not None:
            say(screen, f"{plot} has the picture.")
        if out is None:
            say(screen, "--out rates.csv writes all rates to a file.")
            return
        unit = "" if self.unit.name == "day" else f" --rate-unit {self.unit.name}"
        say(
            screen,
            f"{out} has the rates, in {self._per}. "
            f"A plan with them: unstale plan {shlex.quote(out)} --budget 1000/day{unit}",
        )

    def _classes(self) -> list[_Class]:
        one, n = self.learned, len(self.log.keys)
        owners = np.zeros(n, np.int64) if self.log.classes is None else self.log.classes
        names = self.log.class_names if self.log.classes is not None else ["all"]
        sums = [np.bincount(owners, column, len(names)) for column in (np.ones(n), one.polls, one.changes)]
        return [
            _Class(name, int(elements), int(polls), int(changes), prior)
            for name, elements, polls, changes, prior in zip(names, *sums, one.priors, strict=True)
        ]

    def as_json(self, *, with_rates: bool) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        log, one = self.log, self.learned
        own = self.laws is not None and len(self.laws) == len(one.priors)
        answer: dict[str, Any] = {
            "file": self.file,
            "elements": len(log.keys),
            "polls": len(log),
            "changes": int(one.changes.sum()),
            "time_unit": self.unit.name,
            "method": one.method,
            "half_life": None if self.half_life is None else self.half_life / self.unit.seconds,
            "level": one.level,
            "polled_once": int((one.polls == 0).sum()),
            "repeated": log.repeated,
            "dated_ahead": log.ahead,
            "classes": [
                {
                    "class": None if log.classes is None else row.name,
                    "elements": row.elements,
                    "polls": row.polls,
                    "changes": row.changes,
                    "mean_rate": row.prior.rate,
                    "spread": row.prior.shape**-0.5,
                    "law": self.laws[at].as_json() if own and self.laws else None,
                }
                for at, row in enumerate(self._classes())
            ],
            "law": self.laws[0].as_json() if self.laws is not None and len(self.laws) == 1 else None,
        }
        if with_rates:
            names, columns = list(self.columns), [as_list(column) for column in self.rows()]
            answer["rates"] = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return answer
