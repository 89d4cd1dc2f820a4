"""Rhythm: change rates by the hour of the day or the day of the week, from change times or from polls.

A period (a day, a week) is cut into equal bins, the first of which begins at time 0; a caller who wants local
days gives local times. Exposure, the time observed in each bin, is exact: observation need not last whole
periods.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from unstale.arguments import Floats, numbers, scalar, whole
from unstale.errors import InvalidInput
from unstale.estimation.poll_columns import Grouping, column, flags, grouping

from .poisson_score_tests import Test, chi_square, fitted

_HARMONICS = 2
_MOST_EM_ROUNDS = 100
_MOST_BINS = 5e7  # bins of all periods


@dataclass(frozen=True, eq=False)
class Rhythm:
    """Rates by bin of a period."""

    period: float
    rates: Floats
    """Changes per unit time in each bin (of an element); nan in bins that were never observed."""
    relative: Floats
    """The same, divided by their mean over the period; 1 where nothing is known."""
    exposure: Floats
    """Time observed in each bin."""
    changes: float
    """Changes that were counted, or polls that saw one."""
    test: Test
    """Of "the rate is the same all the time"."""

    def has_rhythm(self, level: float = 0.05) -> bool:
        """Tell whether the rate is not the same all the time."""
        return self.test.p_value <= scalar("level", level, above=0, below=1)

    @property
    def edges(self) -> Floats:
        """Where bins begin and end."""
        return np.linspace(0.0, self.period, self.rates.size + 1)


def rhythm_of_changes(
    times: ArrayLike,
    *,
    period: float,
    bins: int,
    start: ArrayLike,
    end: ArrayLike,
    smooth: float = 0.0,
) -> Rhythm:
    """Return rates by bin of a period from the times of changes.

    Changes that come in bursts are no independent witnesses. So the test compares how much counts vary
    between bins with how much they vary from period to period (an F-test, each in units of the expected
    count), if there are two periods or more; within a single one it trusts that changes are Poisson.

    Parameters
    ----------
    times
        The times of changes, of all elements.
    period
        The length of the rhythm, such as a day.
    bins
        The number of bins of a period.
    start, end
        Between when changes were observed; one for each of several elements, or one for all. With several,
        rates are per element.
    smooth
        The standard deviation, in bins, of a circular normal kernel for changes and exposure alike.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> times = rng.integers(0, 100, size=500) + rng.beta(2.0, 2.0, size=500)  # days; most at noon
    >>> found = rhythm_of_changes(times, period=1.0, bins=4, start=0.0, end=100.0)
    >>> found.rates.round(0).tolist(), found.has_rhythm()
    ([3.0, 7.0, 7.0, 3.0], True)
    """
    moments = column("times", times)
    period, bins = scalar("period", period, above=0), whole("bins", bins, at_least=2)
    first, last = np.atleast_1d(numbers("start", start)), np.atleast_1d(numbers("end", end))
    if first.shape != last.shape or first.ndim > 1 or not first.size:
        raise InvalidInput(
            "start and end must be one number each, or one for each element; "
            f"they have shapes {first.shape} and {last.shape}"
        )
    if (late := first >= last).any():
        i = int(np.argmax(late))
        raise InvalidInput(
            f"start must be before end; start[{i}] is {float(first[i])!r} and end[{i}] {float(last[i])!r}"
        )
    if (outside := (moments < first.min()) | (moments > last.max())).any():
        i = int(np.argmax(outside))
        raise InvalidInput(f"times must be between start and end; times[{i}] is {float(moments[i])!r}")
    periods = (last.max() - first.min()) / period
    if periods * bins > _MOST_BINS:
        raise InvalidInput(
            f"period must not be so short: {bins} bins for each of {periods:.3g} periods are too many"
        )
    counts, exposed = _table(moments, first, last, period, bins)
    total, exposure = counts.sum(axis=0), exposed.sum(axis=0)
    rates, relative = _ratios(_smoothed(total, smooth), _smoothed(exposure, smooth))
    return Rhythm(period, rates, relative, exposure, float(total.sum()), _test(counts, exposed))


def _table(times: Floats, start: Floats, end: Floats, period: float, bins: int) -> tuple[Floats, Floats]:
    """Count changes and exposure in each bin (a column) of each period (a row)."""
    width = period / bins
    low, high = int(np.floor(start.min() / period)), int(np.floor(end.max() / period)) + 1
    size = (high - low) * bins
    place = np.floor(times / width).astype(np.int64) - low * bins
    counts = np.bincount(np.clip(place, 0, size - 1), minlength=size).astype(float)
    # exposure: +1 from each start on, -1 from each end on, integrated over each bin
    covered = np.zeros(size + 1)
    for moments, sign in ((start, 1.0), (end, -1.0)):
        at = moments / width - low * bins
        whole_bin = np.clip(np.floor(at).astype(np.int64), 0, size - 1)
        rest = whole_bin + 1.0 - at
        covered[:size] += sign * np.bincount(whole_bin, rest, size)
        covered[1:] += sign * np.bincount(whole_bin, 1.0 - rest, size)
    exposed = np.maximum(np.cumsum(covered)[:size], 0.0) * width
    return counts.reshape(-1, bins), exposed.reshape(-1, bins)


def _smoothed(values: Floats, smooth: float) -> Floats:
    """Average over neighbours, around the period."""
    sd = scalar("smooth", smooth, at_least=0)
    if sd == 0:
        return values
    n = values.size
    apart = np.abs(np.arange(n)[:, None] - np.arange(n)[None, :])
    kernel = sum(
        np.exp(-0.5 * ((apart + n * turn) / sd) ** 2) for turn in range(-_turns(sd, n), _turns(sd, n) + 1)
    )
    return values @ (kernel / kernel.sum(axis=0))


def _turns(sd: float, n: int) -> int:
    return int(min(np.ceil(6.0 * sd / n), 50)) + 1


def _ratios(total: Floats, exposure: Floats) -> tuple[Floats, Floats]:
    """Return rates of bins, and what they are to their mean."""
    known = exposure > 1e-9 * exposure.max()
    rates = np.where(known, total / np.where(known, exposure, 1.0), np.nan)
    mean = float(rates[known].mean())
    return rates, np.where(known, rates / mean, 1.0) if mean > 0 else np.ones(rates.size)


def _test(counts: Floats, exposed: Floats) -> Test:
    """Test rows and columns of counts for equal rates, whatever their dispersion."""
    expected = exposed * (counts.sum() / exposed.sum())
    of_bins = expected.sum(axis=0)
    known = of_bins > 1e-9 * of_bins.sum()
    bins = int(known.sum())
    if bins < 2 or not counts.sum() > 0:
        return Test(np.nan, 1.0)
    statistic = float((((counts.sum(axis=0) - of_bins)[known]) ** 2 / of_bins[known]).sum())
    between = statistic / (bins - 1)
    cells = exposed[:, known] > 0.5 * exposed[:, known].max()
    freedom = int(cells.sum()) - bins
    if freedom < 1:
        return Test(between, float(scipy.special.chdtrc(bins - 1, statistic)))
    share = np.where(of_bins > 0, counts.sum(axis=0) / np.where(of_bins > 0, of_bins, 1.0), 0.0)
    means = (expected * share)[:, known]
    squares = (counts[:, known] - means)[cells] ** 2 / np.maximum(expected[:, known], 1e-300)[cells]
    dispersion = float(squares.sum()) / freedom
    if not dispersion > 0:
        return Test(between, float(scipy.special.chdtrc(bins - 1, statistic)))
    return Test(between / dispersion, float(scipy.special.fdtrc(bins - 1, freedom, between / dispersion)))


def rhythm_of_polls(
    times: ArrayLike,
    elapsed: ArrayLike,
    changed: ArrayLike,
    elements: ArrayLike | None = None,
    *,
    period: float,
    bins: int,
    smooth: float = 1.0,
) -> Rhythm:
    """Return rates by bin of a period from polls.

    Each element has a rate, and all share a rhythm; ``rates`` are those of the mean element. The EM algorithm
    finds the rhythm (expected changes in each bin, given what polls saw).

    The test is a score test of the first two harmonics of the period; see `.poisson_score_tests`.

    Parameters
    ----------
    times
        The time of each poll.
    elapsed, changed
        The time since the poll before of the element, and whether the poll saw a change.
    elements
        The number of the element of each poll; by default all are of one.
    period
        The length of the rhythm, such as a day.
    bins
        The number of bins of a period.
    smooth
        Bins of a circular normal kernel that smooths after each step (Silverman, Jones, Wilson & Nychka
        1990). Without it, bins between which polls cannot tell would differ wildly.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> changes = np.sort(rng.integers(0, 2000, size=4000) + rng.beta(2.0, 2.0, size=4000))
    >>> polls = np.arange(0.0, 2000.0, 0.13)
    >>> changed = np.diff(np.searchsorted(changes, polls)) > 0
    >>> found = rhythm_of_polls(polls[1:], np.diff(polls), changed, period=1.0, bins=4, smooth=0.0)
    >>> (found.relative > 1).tolist(), found.has_rhythm()
    ([False, True, True, False], True)
    """
    moments, spans = column("times", times), column("elapsed", elapsed, above=0, nonempty=True)
    period, bins = scalar("period", period, above=0), whole("bins", bins, at_least=2)
    if spans.size * bins > _MOST_BINS:
        raise InvalidInput(f"bins must be fewer: {bins} for each of {spans.size} polls are too many")
    if moments.shape != spans.shape:
        raise InvalidInput(
            f"times must be one for each of the {spans.size} polls; it has shape {moments.shape}"
        )
    if (lost := moments - spans == moments).any():
        i = int(np.argmax(lost))
        raise InvalidInput(f"times must be near enough to 0 to tell them apart; times[{i}] is {moments[i]:g}")
    seen = flags("changed", changed, spans.size)
    grouped = grouping(elements, spans.size)
    moments, spans, seen = moments[grouped.order], spans[grouped.order], seen[grouped.order]
    exposure = _exposure(moments - spans, moments, period, bins)
    relative, mean = _expectation(exposure, seen, grouped, smooth)
    observed = exposure.sum(axis=0)
    known = observed > 0
    return Rhythm(
        period,
        np.where(known, relative * mean, np.nan),
        relative,
        observed,
        float(seen.sum()),
        _harmonic_test(moments, spans, seen, grouped, period),
    )


def _exposure(start: Floats, end: Floats, period: float, bins: int) -> Floats:
    """Return the time that each interval (a row) spends in each bin (a column)."""
    width = period / bins
    edges = np.arange(bins) * width

    def spent(t: Floats) -> Floats:
        turns = np.floor(t / period)
        return turns[:, None] * width + np.clip((t - turns * period)[:, None] - edges, 0.0, width)

    first = np.floor(start / period) * period  # so that large times lose nothing
    return np.maximum(spent(end - first) - spent(start - first), 0.0)


def _expectation(
    exposure: Floats, changed: NDArray[np.bool_], grouped: Grouping, smooth: float
) -> tuple[Floats, float]:
    """Return the relative rates of bins, with mean 1, and the mean rate of elements."""
    bins = exposure.shape[1]
    relative, time = np.ones(bins), exposure.sum(axis=1)
    seen = grouped.total(changed.astype(float))
    # half a change and half a poll more, so that no rate is 0 or infinite
    share = (seen + 0.5) / (grouped.counts + 1.0)
    rates = -np.log1p(-share) * grouped.counts / grouped.total(time)
    for _ in range(_MOST_EM_ROUNDS):
        load = exposure @ relative
        x = grouped.spread(rates) * load
        factor = np.where(changed, grouped.spread(rates) / -np.expm1(-x), 0.0)
        expected, offered = relative * (factor @ exposure), grouped.spread(rates) @ exposure
        new = _smoothed(expected, smooth) / np.maximum(_smoothed(offered, smooth), 1e-300)
        new = np.where(_smoothed(offered, smooth) > 0, new, 1.0)
        scale = new.mean() if new.mean() > 0 else 1.0
        new = new / scale if new.any() else np.ones(bins)
        # an element's rate by one step of the same kind
        hits = grouped.total(np.where(changed, x / -np.expm1(-x), 0.0))
        rates = np.where(seen > 0, hits, 0.5) / grouped.total(load)
        rates = np.minimum(rates, 50.0 * grouped.counts / grouped.total(time))  # if every poll saw a change
        moved, relative = float(np.abs(new - relative).max()), new
        if moved < 1e-4:
            break
    return relative, float(rates.mean())


def _harmonic_test(
    times: Floats, elapsed: Floats, changed: NDArray[np.bool_], grouped: Grouping, period: float
) -> Test:
    found = fitted(elapsed, changed, grouped)
    if found is None:
        return Test(np.nan, 1.0)
    end, span = times[found.rows], elapsed[found.rows]
    waves = []
    for k in range(1, _HARMONICS + 1):
        # the mean of exp(i w t) over the interval
        w = 2.0 * np.pi * k / period
        middle, half = end - 0.5 * span, 0.5 * w * span
        mean = np.exp(1j * w * (middle % period)) * np.sinc(half / np.pi)
        waves += [mean.real, mean.imag]
    return chi_square(*found.of_polls(np.stack(waves, axis=1)))
