"""Jobs that have moved together: when the clocks of a class fail at the same time, what has become of them.

A table whose job has moved to a later hour is seen to have changed by each poll at the old time: by the run
of the day before. Its own polls hardly tell. But on the day of the move no table of the class had changed
when it was due, and that is a sign. From then on hypotheses bet on what polls of all of them see: that all
jobs have moved by the same time, for each part of a day; that nothing has moved, and a day was left out; that
each has moved somewhere else. What wins is what phases are from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from unstale.arguments import Floats

from .compiled.clockwork import BET, BINS, PERIOD_DAYS, WEIGHTS, shift_bets

_NO_FAILURES = 1.0
"""What is left of former failures when the first of several is noticed, at most."""
_DUE = 0.7
"""Probability of a change from which on a poll that sees none is a failure of a clock."""
_FEWEST_FAILURES, _FAILED_SHARE, _FAILED_OF_CLASS = 3.0, 0.5, 0.25
"""How many clocks must fail within about a day, which share of those that were due, and of all of a class."""
_LONGEST_DAYS = 6.0
"""After which hypotheses are given up."""
_SURE = 0.95
_STAYED, _SCATTERED = 0.25, 0.25
"""Probabilities, before any poll, that nothing has moved, and that each has moved somewhere else."""
_LEAST_TRUST = 3.0
"""Nats that clocks have bet better, at least, while it is being found out."""
_QUIET_DAYS = 2.0
"""After a decision no clocks are counted until a day before so many days are over."""
_LEFT_OUT_DAYS, _QUIET = 0.9, 0.95
"""For how long after the first failure nothing changes if a day was left out, and how surely."""
_ONE_IN, _FEWEST_EXPLORERS = 3, 6
"""One clock in so many explores, and so many at least: if nothing has moved, the others lose nothing."""
_EARLIER = 0.02
"""How much less probable shifts by more than half a day are: to an earlier hour, and a day left out."""
_NEAR = 2
"""Parts of a day by which two shifts are about the same, or none."""


@dataclass
class _Suspicion:
    """What is being found out of a class."""

    since: float
    rows: NDArray[np.intp]
    before: NDArray[np.float32]
    """Probabilities of the phases of the rows, as they were."""
    trust: NDArray[np.float32]
    """What the clocks of the rows had bet, so that they are followed while it is being found out."""
    bets: Floats
    """Logarithms of what each shift has been worth, and at the end, of what no common one has."""

    def bet(
        self,
        numbers: NDArray[np.float32],
        places: NDArray[np.intp],
        rows: NDArray[np.integer],
        day: float,
        last: Floats,
        time: Floats,
        changed: NDArray[np.bool_],
    ) -> None:
        """Let all hypotheses bet on polls: the arguments are those of `shift_bets`.

        If nothing has moved, a day was left out: nothing changes until the next one.
        """
        stayed = self.bets.copy()
        back = self.since + _LEFT_OUT_DAYS * day
        later = time > back
        start = np.maximum(last, self.since)
        shift_bets(self.before, numbers, places, rows, day, start, time, changed, self.bets)
        shift_bets(
            self.before, numbers, places[later], rows[later], day, np.maximum(last[later], back), time[later],
            changed[later], stayed,
        )  # fmt: skip
        quiet = np.where(changed[~later], 1.0 - _QUIET, _QUIET)
        self.bets[0] = stayed[0] + float(np.log(quiet).sum())


class MovedClocks:
    """Notices that clocks of a class fail together."""

    def __init__(self) -> None:
        self._counts: dict[int, list[float]] = {}
        """Of each class: clocks that were due of late, those that failed, up to when, and since when."""
        self._suspected: dict[int, _Suspicion] = {}

    @property
    def any(self) -> bool:
        """Whether any clocks have failed of late, or may have moved."""
        return bool(self._counts or self._suspected)

    def suspects(self, one: int) -> bool:
        """Tell whether a class may have moved."""
        return one in self._suspected

    def hear(
        self,
        phases: NDArray[np.uint16],
        numbers: NDArray[np.float32],
        owners: NDArray[np.int64],
        rows: NDArray[np.integer],
        *,
        day: float,
        last: Floats,
        time: Floats,
        changed: NDArray[np.bool_],
        due: Floats,
    ) -> None:
        """Take in polls of elements that may change once a day, in the order of time.

        Parameters
        ----------
        phases, numbers, owners
            All rows: probabilities of phases, what else is known, and their classes.
        rows
            Those of the polls.
        day
            Its length.
        last, time, changed
            Moments of the polls before and of these, and whether they saw a change.
        due
            The probabilities with which they were to see one, by clocks that are followed; 0 by others.
        """
        for one in np.unique(owners[rows]).tolist():
            mine = np.flatnonzero(owners[rows] == one)
            if one in self._suspected:
                found = self._suspected[one]
                places = np.searchsorted(found.rows, rows[mine])
                known = found.rows[np.minimum(places, found.rows.size - 1)] == rows[mine]
                known &= (last[mine] >= found.since) | ~changed[mine]
                which = mine[known]
                found.bet(numbers, places[known], rows[which], day, last[which], time[which], changed[which])
                self._decide(one, phases, numbers, owners, float(time[mine].max()), day)
            else:
                self._count(one, time[mine], due[mine], changed[mine], day)
                counts = self._counts[one]
                fewest = max(_FEWEST_FAILURES, _FAILED_OF_CLASS * np.count_nonzero(owners == one))
                if counts[1] >= max(fewest, _FAILED_SHARE * counts[0]):
                    self._suspect(one, phases, numbers, owners, counts[3])

    def _count(self, one: int, time: Floats, due: Floats, changed: NDArray[np.bool_], day: float) -> None:
        """Count clocks that were due within about a day, and those that failed."""
        counts = self._counts.setdefault(one, [0.0, 0.0, float(time[0]), -inf])
        if time.max() < counts[2] - day:  # it has just been decided
            return
        until = max(float(time.max()), counts[2])
        fade = np.exp(-(until - counts[2]) / day)
        sharp = due > _DUE
        if (failed := np.flatnonzero(sharp & ~changed)).size and counts[1] * fade < _NO_FAILURES:
            counts[3] = float(time[failed[0]])
        counts[0] = counts[0] * fade + float(np.count_nonzero(sharp))
        counts[1] = counts[1] * fade + float(np.count_nonzero(sharp & ~changed))
        counts[2] = until

    def _suspect(
        self,
        one: int,
        phases: NDArray[np.uint16],
        numbers: NDArray[np.float32],
        owners: NDArray[np.int64],
        since: float,
    ) -> None:
        """Begin to find out what has become of a class."""
        rows = np.flatnonzero((owners == one) & (numbers[:, PERIOD_DAYS] == 1.0))
        before = phases[rows].astype(np.float32)
        bets = np.full(BINS + 1, np.log((1.0 - _STAYED - _SCATTERED) / (BINS // 2)))
        bets[BINS // 2 : BINS] += np.log(_EARLIER)
        bets[1 : _NEAR + 1] = bets[-_NEAR - 1 : -1] = -inf  # clocks find that out by themselves
        bets[0], bets[BINS] = np.log(_STAYED), np.log(_SCATTERED)
        trust = np.maximum(numbers[rows, BET], _LEAST_TRUST).astype(np.float32)
        before /= before.sum(axis=1, keepdims=True)
        self._suspected[one] = _Suspicion(since, rows, before, trust, bets)
        self._counts.pop(one)
        self._spread(one, np.exp(bets), phases, numbers, owners, everyone=False)

    def _decide(
        self,
        one: int,
        phases: NDArray[np.uint16],
        numbers: NDArray[np.float32],
        owners: NDArray[np.int64],
        now: float,
        day: float,
    ) -> None:
        """Let phases be what hypotheses say; that is all if one of them is sure, or after a long time."""
        found = self._suspected[one]
        likely = np.exp(found.bets - logsumexp(found.bets))
        best = int(likely[1:BINS].argmax()) + 1
        near = (np.arange(best - _NEAR, best + _NEAR + 1)) % BINS
        decided = now - found.since > _LONGEST_DAYS * day
        for some in (near[near != 0], [0], [BINS]):
            if likely[some].sum() > _SURE:
                chosen, decided = np.zeros(BINS + 1), True
                chosen[some] = likely[some]
                likely = chosen / chosen.sum()
                break
        self._spread(one, likely, phases, numbers, owners, everyone=decided)
        if decided:
            self._suspected.pop(one)
            self._counts[one] = [0.0, 0.0, now + _QUIET_DAYS * day, -inf]

    def _spread(
        self,
        one: int,
        likely: Floats,
        phases: NDArray[np.uint16],
        numbers: NDArray[np.float32],
        owners: NDArray[np.int64],
        *,
        everyone: bool,
    ) -> None:
        """Let phases be as probable as hypotheses make them, so that polls come when they tell something.

        As long as nothing is decided, that is for some of the clocks; the others go on as before.
        """
        found = self._suspected[one]
        still = owners[found.rows] == one
        if not everyone:
            rows, others = found.rows, np.arange(found.rows.size) % _ONE_IN > 0
            others &= np.arange(rows.size) >= _FEWEST_EXPLORERS
            keep = others & still
            phases[rows[keep]] = (WEIGHTS * found.before[keep] + 0.5).astype(np.uint16)
            numbers[rows[keep], BET] = found.trust[keep]
            still &= ~others
        turned = np.fft.irfft(np.fft.rfft(found.before[still], axis=1) * np.fft.rfft(likely[:BINS]), BINS)
        share = np.maximum(turned, 0.0) + likely[BINS] / BINS
        rows = found.rows[still]
        phases[rows] = (WEIGHTS * (0.98 * share / share.sum(axis=1, keepdims=True) + 0.02 / BINS)).astype(
            np.uint16
        )
        numbers[rows, BET] = found.trust[still]

    # --- to be continued ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that is known, as arrays."""
        kept: dict[str, Any] = {
            "moved_counts": np.array([[one, *counts] for one, counts in self._counts.items()]).reshape(-1, 5)
        }
        for one, found in self._suspected.items():
            kept[f"moved_{one}_since"] = np.array(found.since)
            kept[f"moved_{one}_rows"] = found.rows.copy()
            kept[f"moved_{one}_before"] = found.before.copy()
            kept[f"moved_{one}_trust"] = found.trust.copy()
            kept[f"moved_{one}_bets"] = found.bets.copy()
        return kept

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken; older versions had none."""
        for row in np.reshape(state.get("moved_counts", ()), (-1, 5)).tolist():
            self._counts[int(row[0])] = row[1:]
        for name in state:
            if name.startswith("moved_") and name.endswith("_since"):
                head = name.removesuffix("since")
                self._suspected[int(head.split("_")[1])] = _Suspicion(
                    float(state[name]),
                    np.array(state[f"{head}rows"], np.intp),
                    np.array(state[f"{head}before"], np.float32),
                    np.array(state[f"{head}trust"], np.float32),
                    np.array(state[f"{head}bets"], float),
                )
