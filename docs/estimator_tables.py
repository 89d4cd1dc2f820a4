"""Make the tables of docs/explanation/estimators.md: ``.venv/bin/python docs/estimator_tables.py``.

Simulates polls, estimates, and writes each table between its two marks in the page (a few minutes).
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from page_tables import write_tables

from unstale.estimation import GammaPrior, Learner, estimate_rates

Floats = NDArray[np.float64]

PAGE = Path(__file__).parent / "explanation" / "estimators.md"
METHODS = ("naive", "bias-reduced", "mle", "last-modified", "lln", "stochastic-approximation", "bayes")
RATES = (0.1, 0.5, 1.0, 2.0, 5.0)
COUNTS = (5, 20, 100)
VAGUE = GammaPrior(0.5, 50.0)
"""The prior of `estimate_rate` where the mean interval is 1."""


# --- worlds -------------------------------------------------------------------------------------------------


def intervals(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> Floats:
    """Draw intervals of mean 1; each element's mean is made 1 exactly, which is its unit of time."""
    if kind == "regular":
        return np.ones(shape)
    drawn = rng.gamma(4.0, size=shape) if kind == "gamma" else rng.exponential(size=shape)
    return drawn / drawn.mean(axis=1, keepdims=True)


def polls(rng: np.random.Generator, rates: Floats, count: int, kind: str) -> dict[str, NDArray[np.generic]]:
    """Poll each element so many times: columns for `estimate_rates`, with the age of each change."""
    elapsed = intervals(rng, kind, (rates.size, count))
    age = rng.exponential(size=elapsed.shape) / rates[:, None]
    return {
        "elements": np.repeat(np.arange(rates.size), count),
        "elapsed": elapsed.ravel(),
        "changed": (age < elapsed).ravel(),
        "modified": np.where(age < elapsed, age, np.nan).ravel(),
    }


def learned(
    columns: dict[str, NDArray[np.generic]], count: int, prior: GammaPrior | None
) -> tuple[Floats, Floats]:
    """Learn from polls in the order of time; return 90 % intervals of the rates."""
    turns = np.argsort(np.cumsum(columns["elapsed"].reshape(count, -1), axis=1).ravel(), kind="stable")
    learner = Learner(count, round=1.0, prior=prior, half_life=np.inf)
    for part in np.array_split(turns, 100):
        learner.learn(**{name: column[part] for name, column in columns.items()})
    law = learner.law(0.0)
    return law.quantile(0.05), law.quantile(0.95)


def covered(low: Floats, high: Floats, rates: Floats) -> str:
    """Share of rates inside their intervals."""
    return f"{100 * np.mean((low <= rates) & (rates <= high)):.1f}"


def table(head: list[str], rows: Iterator[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


# --- tables -------------------------------------------------------------------------------------------------


def errors(kind: str) -> list[str]:
    """Bias and root mean square error of each estimator, as shares of the rate."""
    rng = np.random.default_rng(1)
    found: dict[tuple[str, int], list[str]] = {}
    for count in COUNTS:
        for rate in RATES:
            columns = polls(rng, np.full(20_000, rate), count, kind)
            ages = columns.pop("modified")
            for method in (*METHODS, "bayes, population"):
                options = {"modified": ages} if method == "last-modified" else {}
                prior = GammaPrior(1.0, 1.0) if method == "bayes, population" else VAGUE
                estimate = estimate_rates(**columns, **options, method=method.split(",")[0], prior=prior)
                error = estimate.rate / rate - 1.0
                cell = f"{error.mean():+.2f} ({np.sqrt(np.mean(error**2)):.2f})"
                found.setdefault((method, count), []).append(cell)
    rows = ([method, str(count), *cells] for (method, count), cells in found.items())
    ordered = sorted(rows, key=lambda row: [*METHODS, "bayes, population"].index(row[0]))
    return table(["estimator", "polls", *[f"r = {rate:g}" for rate in RATES]], iter(ordered))


def coverage_alone() -> list[str]:
    """Coverage of one element's interval, without a prior."""
    rng = np.random.default_rng(2)

    def rows() -> Iterator[list[str]]:
        for kind in ("regular", "gamma", "exponential"):
            cells = []
            for count, elements in ((5, 40_000), (20, 40_000), (100, 20_000), (500, 10_000)):
                rates = 10.0 ** rng.uniform(-2.0, 2.0, size=elements)
                columns = polls(rng, rates, count, kind)
                del columns["modified"]
                found = estimate_rates(**columns, prior=VAGUE)
                cells.append(covered(found.low, found.high, rates))
            yield [kind, *cells]

    return table(["intervals", *[f"{n} polls" for n in (5, 20, 100, 500)]], rows())


LAWS: dict[str, Callable[[np.random.Generator, float, int], Floats]] = {
    "gamma, shape 0.3": lambda rng, mean, size: rng.gamma(0.3, mean / 0.3, size=size) + 1e-300,
    "gamma, shape 1": lambda rng, mean, size: rng.gamma(1.0, mean, size=size),
    "gamma, shape 5": lambda rng, mean, size: rng.gamma(5.0, mean / 5.0, size=size),
    "lognormal, sigma 1": lambda rng, mean, size: mean * rng.lognormal(-0.5, 1.0, size=size),
    "lognormal, sigma 2": lambda rng, mean, size: mean * rng.lognormal(-2.0, 2.0, size=size),
}
MEANS = (0.01, 0.1, 1.0, 10.0, 100.0)


def coverage_together() -> list[str]:
    """Coverage with the prior learned from 10,000 elements."""
    rng = np.random.default_rng(3)

    def rows() -> Iterator[list[str]]:
        for name, draw in LAWS.items():
            for kind in ("regular", "exponential"):
                for count in (5, 50, 500):
                    cells = []
                    for mean in MEANS:
                        rates = draw(rng, mean, 10_000 if count < 500 else 4_000)
                        columns = polls(rng, rates, count, kind)
                        del columns["modified"]
                        found = estimate_rates(**columns)
                        alike = np.mean(found.changes == found.polls) > 0.98
                        cells.append(covered(found.low, found.high, rates) + ("*" if alike else ""))
                    yield [name, kind, str(count), *cells]

    return table(["rates", "intervals", "polls", *[f"mean {mean:g}" for mean in MEANS]], rows())


def coverage_any() -> list[str]:
    """Coverage with the prior learned from rates of all decades, in and out of a batch."""
    rng = np.random.default_rng(6)
    counts = (5, 20, 50, 100, 500)
    names = ("`estimate_rates`", "`Learner`, prior given", "`Learner`, prior learned")

    def rows() -> Iterator[list[str]]:
        for kind in ("regular", "exponential"):
            cells: dict[str, list[str]] = {name: [] for name in names}
            for count in counts:
                rates = 10.0 ** rng.uniform(-2.0, 2.0, size=10_000 if count < 500 else 4_000)
                columns = polls(rng, rates, count, kind)
                del columns["modified"]
                found = estimate_rates(**columns)
                cells[names[0]].append(covered(found.low, found.high, rates))
                for name, prior in zip(names[1:], (found.prior, None), strict=True):
                    cells[name].append(covered(*learned(columns, rates.size, prior), rates))
            for name, row in cells.items():
                yield [name, kind, *row]

    return table(["", "intervals", *[f"{count} polls" for count in counts]], rows())


def coverage_few() -> list[str]:
    """Coverage in small populations, drawn many times."""
    rng = np.random.default_rng(4)

    def rows() -> Iterator[list[str]]:
        for size, times in ((1, 600), (3, 200), (10, 100), (30, 40), (100, 20)):
            cells = []
            for count in (5, 50):
                for mean in (0.1, 1.0):
                    hits = []
                    for _ in range(times):
                        rates = rng.gamma(1.0, mean, size=size)
                        columns = polls(rng, rates, count, "exponential")
                        del columns["modified"]
                        found = estimate_rates(**columns)
                        hits.append(np.mean((found.low <= rates) & (rates <= found.high)))
                    cells.append(f"{100 * np.mean(hits):.0f}")
            yield [str(size), *cells]

    head = [f"{count} polls, mean {mean:g}" for count in (5, 50) for mean in (0.1, 1.0)]
    return table(["elements", *head], rows())


def coverage_online() -> list[str]:
    """Coverage of the rates that are kept poll by poll."""
    rng = np.random.default_rng(5)

    def rows() -> Iterator[list[str]]:
        for name, prior in (("that of the population", True), ("learned", False)):
            for count in (5, 50, 500):
                cells = []
                for mean in MEANS[1:4]:
                    rates = rng.gamma(1.0, mean, size=10_000 if count < 500 else 2_000)
                    columns = polls(rng, rates, count, "exponential")
                    del columns["modified"]
                    known = GammaPrior(1.0, mean) if prior else None
                    cells.append(covered(*learned(columns, rates.size, known), rates))
                yield [name, str(count), *cells]

    return table(["prior", "polls", *[f"mean {mean:g}" for mean in MEANS[1:4]]], rows())


TABLES: dict[str, Callable[[], list[str]]] = {
    "errors, regular": lambda: errors("regular"),
    "errors, exponential": lambda: errors("exponential"),
    "coverage, alone": coverage_alone,
    "coverage, together": coverage_together,
    "coverage, any": coverage_any,
    "coverage, few": coverage_few,
    "coverage, online": coverage_online,
}


if __name__ == "__main__":
    write_tables(PAGE, {name: table() for name, table in TABLES.items()})
