"""Histories of polls, made by laws."""

import numpy as np


def polled(law, rng, *, elements=1, polls=1000, rate=1.0, regular=False, stretch=None):
    """Poll elements that change by a law: numbers of elements, elapsed times, and what the polls saw.

    Polls are Poisson of this rate, or at constant intervals; time runs ``stretch`` times as fast for each
    element.
    """
    columns = []
    for number in range(elements):
        spans = np.full(polls, 1.0 / rate) if regular else rng.exponential(1.0 / rate, size=polls)
        ends = np.cumsum(spans)
        speed = 1.0 if stretch is None else stretch[number]
        expected = int(ends[-1] * speed * float(law.rate))
        gaps = law.sample(rng, expected + 10 * int(np.sqrt(expected)) + 100)
        changes = (law.sample_residual(rng) + np.concatenate([[0.0], np.cumsum(gaps)])) / speed
        while changes[-1] < ends[-1]:
            more = law.sample(rng, expected + 100) / speed
            changes = np.concatenate([changes, changes[-1] + np.cumsum(more)])
        counts = np.searchsorted(changes, ends)
        columns.append((np.full(polls, number), spans, np.diff(counts, prepend=0) > 0))
    return tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))
