"""What ``unstale profile`` found, and how it is shown."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from math import inf, isfinite, isnan
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from unstale.arguments import Floats
from unstale.cli.shared.printing import console, print_table, printable, say
from unstale.estimation.profiles.profile import Profile
from unstale.quantities import show_duration, show_number, show_share
from unstale.tables import AccessLog, AccessRun, TableElements, as_list
from unstale.wording import plural

_DAY_SECONDS = 86400.0


class _Row(NamedTuple):
    """An element that is wanted."""

    key: str
    accesses_per_day: float
    share: float
    cumulated: float


@dataclass(frozen=True, eq=False)
class WeightedElements:
    """Elements with the weights of a profile."""

    file: str
    elements: TableElements
    weights: Floats
    seen: int
    """Elements that were accessed."""
    unseen: float
    """Weight of the others, together."""
    elsewhere: float
    """Share of accesses to what is not among the elements."""

    @classmethod
    def of(
        cls, file: str, elements: TableElements, profile: Profile, unseen: float | None
    ) -> WeightedElements:
        """Align a profile to elements."""
        keys = [str(key) for key in as_list(elements.keys)]
        weights = profile.weights(keys, unseen)
        seen = np.fromiter((key in profile for key in keys), bool, len(keys))
        here = sum(profile[key] for key, there in zip(keys, seen.tolist(), strict=True) if there)
        return cls(
            file,
            elements,
            weights,
            int(seen.sum()),
            float(weights[~seen].sum()),
            max(1.0 - here / profile.total, 0.0) if profile.total > 0 else 0.0,
        )

    def print(self, out: Console) -> None:
        """Say how the elements and the accesses fit together."""
        count, others = len(self.elements), len(self.elements) - self.seen
        if not self.seen:
            say(
                out,
                f"None of the {count:,} elements in {self.file} has an access, so all have the same weight. "
                "Are keys the same there and in the logs? --prefix and --strip-query change the latter.",
            )
            return
        have = "have" if self.seen != 1 else "has"
        text = f"Of {count:,} elements in {self.file}, {self.seen:,} {have} accesses"
        if others:
            text += f"; {f'the {others:,} others share' if others > 1 else 'the other one has'} "
            text += f"{show_number(100 * self.unseen)}% of the weight"
        if self.elsewhere > 5e-4:
            text += f". {show_share(self.elsewhere)} of the accesses went to other elements"
        say(out, f"{text}.")


@dataclass(frozen=True, eq=False)
class ProfileReport:
    """A profile, and the logs that it is from."""

    profile: Profile
    logs: Sequence[AccessLog]
    users: int | None
    top: int
    weighted: WeightedElements | None
    apart: AccessRun | None = None
    """Accesses that are much later than all others."""
    until: float | None = None
    """When accesses are too late; None for those that are still to come."""

    @property
    def _late(self) -> AccessRun | None:
        found = [log.tally.late for log in self.logs if log.tally.late is not None]
        return reduce(AccessRun.joined, found) if found else None

    @property
    def _top(self) -> list[_Row]:
        total, span = self.profile.total, self.profile.span / _DAY_SECONDS
        rows, sum_ = [], 0.0
        for key, accesses in self.profile.top(self.top):
            sum_ += accesses
            cumulated = min(round(sum_ / total, 12), 1.0)  # sums of all must not come out as 99.99...
            rows.append(_Row(key, accesses / span if span > 0 else inf, accesses / total, cumulated))
        return rows

    # --- files ----------------------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the file of weights."""
        if self.weighted is None:
            return {"key": "", "weight": ""}
        given = self.weighted.elements
        parts = {"size": given.sizes, "group": given.groups, "shape": given.shapes, "scale": given.scales}
        return dict.fromkeys(
            ["key", "rate", "weight", *(name for name, part in parts.items() if part is not None)], ""
        )

    def rows(self) -> list[Any]:
        """Return the columns of the file of weights."""
        if self.weighted is None:
            pairs = self.profile.top(len(self.profile))
            total = sum(accesses for _, accesses in pairs)
            return [[key for key, _ in pairs], [accesses / total for _, accesses in pairs]]
        given = self.weighted.elements
        columns = [given.keys, given.rates, self.weighted.weights]
        if given.sizes is not None:
            columns.append(given.sizes)
        if given.groups is not None:
            columns.append([given.group_names[place] for place in given.groups.tolist()])
        laws = [column.tolist() for column in (given.shapes, given.scales) if column is not None]
        return columns + [[None if isnan(value) else value for value in column] for column in laws]

    # --- the screen -----------------------------------------------------------------------------------------

    def print(self, out: str | None) -> None:
        """Print all but the weights of all elements."""
        screen, profile = console(), self.profile
        accesses = sum(log.tally.accesses for log in self.logs)
        users = "" if self.users is None else f" by {plural(self.users, 'user')}"
        during = f" in {show_duration(profile.latest - profile.start)}"
        screen.print(f"{plural(accesses, 'access')} to {plural(len(profile), 'element')}{users}{during}")
        if profile.latest > profile.start:
            half = f"; half-life {show_duration(profile.half_life)}" if isfinite(profile.half_life) else ""
            screen.print(f"from {_moment(profile.start)} to {_moment(profile.latest)}{half}")
        if self.top:
            self._print_top(screen)
        if self.weighted is not None:
            self.weighted.print(screen)
        self._print_rest(screen)
        self._print_next(screen, out)

    def _print_top(self, screen: Console) -> None:
        rows = [
            (
                printable(row.key),
                show_number(row.accesses_per_day),
                show_share(row.share),
                show_share(row.cumulated),
            )
            for row in self._top
        ]
        heads = ("key", "accesses/day", "share", "cumulated")
        if self.profile.span == 0:
            rows, heads = [(row[0], *row[2:]) for row in rows], (heads[0], *heads[2:])  # type: ignore[misc, assignment]
        screen.print()
        print_table(screen, heads, rows, shorten=True)
        if len(self.profile) > self.top:
            screen.print(f"... and {len(self.profile) - self.top:,} more")

    def _print_rest(self, screen: Console) -> None:
        """Print what was left out, and why."""
        passed = sum(log.tally.passed for log in self.logs)
        malformed = sum(log.tally.malformed for log in self.logs)
        if passed:
            are = "request is" if passed == 1 else "requests are"
            say(
                screen,
                f"{passed:,} other {are} not counted, for method or status: see --method and --status.",
            )
        self._print_times(screen)
        if malformed:
            lines = sum(log.tally.lines for log in self.logs)
            shown = self._examples()
            first = "the first ones" if malformed > len(shown) else "they are"
            one = (
                "1 line cannot be read:"
                if malformed == 1
                else f"{malformed:,} lines of {lines:,} cannot be read; {first}:"
            )
            say(screen, one)
            for path, line, reason in shown:
                screen.print(f"  {path}, line {line:,}: {printable(reason)}", soft_wrap=True)
        if self.profile.error > 0:
            share = show_number(100 * self.profile.error / self.profile.total)
            say(
                screen,
                "More elements were accessed than --most keeps, so those with the fewest accesses are left "
                f"out, and shares may be too low by up to {share}%.",
            )

    def _print_times(self, screen: Console) -> None:
        """Say which accesses have times that may be wrong."""
        if (late := self._late) is not None:
            are = "is left out, as it is" if late.accesses == 1 else "are left out, as they are"
            than = "now; --until none counts all" if self.until is None else "--until"
            say(screen, f"{plural(late.accesses, 'access')} {are} later than {than}. {_last(late)}")
        if (apart := self.apart) is not None:
            come = "comes" if apart.accesses == 1 else "come"
            say(
                screen,
                f"{plural(apart.accesses, 'access')} {come} more than ten half-lives after all others, "
                f"which count for almost nothing beside. {_last(apart)} If a clock was wrong, see --until.",
            )

    def _examples(self) -> list[tuple[str, int, str]]:
        found = [
            ("standard input" if log.path == "-" else log.path, line, reason)
            for log in self.logs
            for line, reason in log.tally.examples
        ]
        return found[:5]

    def _print_next(self, screen: Console, out: str | None) -> None:
        if out is None:
            say(screen, "--out weights.csv writes all weights to a file.")
        elif self.weighted is None:
            weights = "The weight of 1 element is"
            if len(self.profile) != 1:
                weights = f"Weights of {len(self.profile):,} elements are"
            say(screen, f"{weights} in {out}.")
        else:
            say(screen, f"A plan with these weights: unstale plan {shlex.quote(out)} --budget 1000/day")

    def as_json(self) -> dict[str, Any]:
        """Return the answer as ``--json`` prints it."""
        profile, logs = self.profile, self.logs
        answer: dict[str, Any] = {
            "logs": [log.path for log in logs],
            "formats": [log.kind for log in logs],
            "lines": sum(log.tally.lines for log in logs),
            "accesses": sum(log.tally.accesses for log in logs),
            "not_counted": sum(log.tally.passed for log in logs),
            "late": 0 if self._late is None else self._late.accesses,
            "apart": 0 if self.apart is None else self.apart.accesses,
            "malformed": sum(log.tally.malformed for log in logs),
            "malformed_lines": [
                {"log": path, "line": line, "reason": reason} for path, line, reason in self._examples()
            ],
            "elements": len(profile),
            "users": self.users,
            "from": _moment(profile.start),
            "until": _moment(profile.latest),
            "half_life": profile.half_life / _DAY_SECONDS,
            "time_unit": "day",
            "share_error": profile.error / profile.total,
            "top": [row._asdict() for row in self._top],
        }
        if self.weighted is not None:
            keys = as_list(self.weighted.elements.keys)
            answer |= {
                "seen": self.weighted.seen,
                "unseen_weight": self.weighted.unseen,
                "elsewhere": self.weighted.elsewhere,
                "weights": [
                    {"key": key, "weight": weight}
                    for key, weight in zip(keys, self.weighted.weights.tolist(), strict=True)
                ],
            }
        return answer


def _last(run: AccessRun) -> str:
    """Return what the last access of a run was, as a sentence."""
    log = "standard input" if run.log == "-" else run.log
    return f"The last is to {printable(run.key)} at {_moment(run.end)}, in {log}."


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:g} seconds"
