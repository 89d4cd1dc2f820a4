"""Make the tables of docs/explanation/shootout.md, in two commands.

    .venv/bin/python docs/shootout_tables.py play RESULTS HISTORIES
    .venv/bin/python docs/shootout_tables.py write RESULTS

The first plays what RESULTS, a folder, does not have yet: files NAME.parquet of HISTORIES with the columns
element_id and t, and the releases that come with unstale. It uses all cores, and may be stopped: each result
is kept as it comes, as the JSON that `unstale lab shootout --json` prints. The second writes each table
between its two marks in the page (``--page`` names another page).
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from page_tables import play_or_write, write_tables

from unstale.lab.histories import load, load_weights
from unstale.lab.shootout import shootout
from unstale.wording import plural

PAGE = Path(__file__).parent / "explanation" / "shootout.md"
QUANTILE = 1.6449
"""Standard errors of a 90 % interval, either way."""
SEEDS, STEPS = 1, 5_000
"""In how many orders elements are played, and in how many steps learning takes in what polls saw. Steps are
what learning costs, about .8 ms each for 100 elements; `unstale lab shootout` takes 50,000 at most. All
tables but the mirror's take half an hour of processor time."""
RULES = {
    "nutch": "Nutch", "nutch-default": "Nutch, default", "stormcrawler": "StormCrawler",
    "news-crawl": "news-crawl", "heritrix": "Heritrix", "miniflux": "Miniflux",
    "miniflux-round-robin": "Miniflux, round robin", "commafeed": "CommaFeed",
}  # fmt: skip
MOST_RULES = tuple(rule for rule in RULES if rule not in {"miniflux-round-robin", "commafeed"})
"""Those that do not poll many times a day, which keeps nearly everything fresh."""
FEW_RULES = ("nutch", "heritrix")
COLUMNS = {
    "uniform": "uniform", "proportional": "proportional", "aduana": "Aduana",
    "estimated-optimal": "likeliest", "learning": "**learning**", "optimal": "rates known",
    "optimal-law": "gaps known",
}  # fmt: skip
"""Policies, and what the page calls them."""


class History(NamedTuple):
    """A recorded history: what the page calls it, and what it holds."""

    title: str
    about: str
    played: tuple[str, ...]
    """Which of `PLAYS` it is played for."""
    rules: tuple[str, ...] = MOST_RULES
    """Rules that are played for freshness."""


HISTORIES = {
    "ota_contrib": History(
        "Terms of service",
        "texts of web sites' terms and policies, as the Open Terms Archive saw them change",
        ("freshness", "age", "mirror"),
    ),
    "wikipedia_a": History(
        "Wikipedia",
        "revisions of articles that were already old in 2002, up to January 2008",
        ("freshness", "age"),
    ),
    "nychealth_covid": History(
        "Health department",
        "data files that New York City published about COVID-19, daily at first, weekly later",
        ("freshness", "age", "mirror"),
    ),
    "django": History("Django", "source files, tests and documentation in git", ("freshness", "age")),
    "homebrew_core": History("Homebrew", "package descriptions in git", ("freshness", "age", "weighted")),
    "releases": History(
        "Releases",
        "new versions of well-known Python packages, the history that comes with unstale",
        ("freshness", "age", "mirror"),
    ),
    "mdn_content": History(
        "MDN",
        "pages of web documentation in git; half of all changes are edits of a hundred pages or more at once",
        ("freshness", "age", "weighted"),
    ),
}
"""By the name of their files, in the order of the page."""
FEW_POLICIES = ("proportional", "estimated-optimal", "learning", "optimal")
PLAYS: dict[str, dict[str, Any]] = {
    "freshness": {"objectives": ["freshness"]},
    "age": {"objectives": ["age"], "rules": FEW_RULES, "policies": FEW_POLICIES},
    "weighted": {"objectives": ["freshness"], "rules": FEW_RULES, "policies": FEW_POLICIES},
    "mirror": {"objectives": ["freshness"], "rules": (), "policies": ("mirror",)},
}
"""What is played, and how."""


def play_all(results: Path, histories: Path) -> None:
    """Play what is missing, and keep each result as it comes."""
    results.mkdir(parents=True, exist_ok=True)
    for how in PLAYS:
        for name, history in HISTORIES.items():
            path = results / f"{name}.{how}.json"
            if how in history.played and not path.exists():
                sys.stderr.write(f"{history.title}, {how}\n")
                path.write_text(json.dumps(play(name, how, histories), indent=2), encoding="utf-8")


def play(name: str, how: str, histories: Path) -> dict[str, Any]:
    """Play a history."""
    columns = {"element": "element_id"}
    recorded = load() if name == "releases" else load(str(histories / f"{name}.parquet"), columns)
    options: dict[str, Any] = {"rules": HISTORIES[name].rules, **PLAYS[how]}
    if how == "weighted":
        columns = {"key": "element_id", "weight": "popularity"}
        options["weights"] = load_weights(str(histories / f"{name}.elements.parquet"), recorded, columns)
    found = asdict(shootout(recorded, seeds=SEEDS, steps=STEPS, jobs=os.cpu_count() or 1, **options))
    return {**found, "steps": STEPS}


# --- what was played ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Policies with as many polls."""

    history: str
    elements: int
    rule: str | None
    budget: float
    objective: str
    rows: dict[str, dict[str, Any]]

    def reached(self, policy: str) -> float:
        """Freshness, or age in days."""
        measured = self.rows[policy]["age" if self.objective == "age" else "perceived"]
        return float(measured["value"])

    def lead(self, policy: str, other: str = "uniform") -> tuple[float, float]:
        """How far a policy is ahead of another, and half of the 90 % interval."""
        lead = self.rows[policy]["ahead"][other]
        return float(lead["value"]), QUANTILE * float(lead["error"])

    def needed(self, policy: str) -> tuple[str, float]:
        """Polls that a policy needs for the same, as a share, and ``<`` or ``>`` if that is a bound."""
        needed = self.rows[policy]["needed"]
        return needed["bound"], needed["polls"] / self.rows[self.rule or "uniform"]["polls"]


@dataclass(frozen=True)
class Results:
    """What was played: for each history and way of playing it, the JSON and its cases by budget."""

    played: dict[tuple[str, str], dict[str, Any]]

    @classmethod
    def read(cls, folder: Path) -> "Results":
        """Read what a folder has."""
        found = {}
        for name in HISTORIES:
            for how in PLAYS:
                path = folder / f"{name}.{how}.json"
                if path.exists():
                    found[name, how] = json.loads(path.read_text(encoding="utf-8"))
        return cls(found)

    def cases(self, how: str, *names: str) -> list[Case]:
        """Return the cases of histories, or of all, by budget."""
        return [
            case
            for name in names or HISTORIES
            if (name, how) in self.played
            for case in cases_of(name, self.played[name, how])
        ]


def cases_of(name: str, played: dict[str, Any]) -> list[Case]:
    """Return the cases of a result, by budget."""
    cases = [
        Case(
            name, played["elements"], case["rule"], case["budget"], case["objective"],
            {row["policy"]: row for row in case["rows"]},
        )
        for case in played["cases"]
    ]  # fmt: skip
    return sorted(cases, key=lambda case: case.budget)


# --- the page -----------------------------------------------------------------------------------------------


def write(page: Path, results: Results) -> None:
    """Write the tables of which something was played into the page."""
    there = {how for _, how in results.played}
    write_tables(page, {name: lines(results) for name, (how, lines) in TABLES.items() if how in there})


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a Markdown table."""
    return ["| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *rows)]


def contests(results: Results, how: str) -> Iterator[str]:
    """Lines of a table for each history that was played so."""
    for name, history in HISTORIES.items():
        played = results.played.get((name, how))
        if played is None:
            continue
        suffix = {"freshness": "", "age": ", age", "weighted": ", by popularity"}[how]
        yield f"\n### {history.title}{suffix}\n"
        if how == "freshness":
            years = played["days"] / 365.25
            size = f"{played['elements']:,} elements, {played['changes']:,} changes in {years:.1f} years"
            orders = plural(played["seeds"], "seed")
            yield f"{size}: {history.about}. Played in {played['steps']:,} steps, {orders}.\n"
        cases = results.cases(how, name)
        policies = [one for one in COLUMNS if any(one in case.rows for case in cases)]
        head = ["polls of", "each, per day", "rule", *(COLUMNS[one] for one in policies), "ahead of uniform"]
        yield from table([*head, "polls for the same"], [contest(case, policies) for case in cases])
    yield ""


def contest(case: Case, policies: list[str]) -> list[str]:
    """Cells of a case."""
    cells = [RULES[case.rule] if case.rule else "", number(case.budget / case.elements)]
    cells.append(shown(case, case.rule) if case.rule else "")
    cells += [shown(case, one) if one in case.rows else "" for one in policies]
    bound, share = case.needed("learning")
    return [*cells, lead(case, "learning"), f"{bound} {share:.0%}".strip().replace("%", " %")]


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"


def shown_age(days: float) -> str:
    """An age in the unit that suits it."""
    hours, units = 24.0 * days, ((24.0, "d"), (1.0, "h"), (1.0 / 60.0, "min"))
    size, unit = next(((size, unit) for size, unit in units if hours >= size), units[-1])
    return f"{number(hours / size)} {unit}"


def shown(case: Case, policy: str) -> str:
    """Freshness in per cent, or age in the unit that suits it."""
    value = case.reached(policy)
    text = shown_age(value) if case.objective == "age" else f"{100.0 * value:.1f}"
    return f"**{text}**" if policy == "learning" else text


def lead(case: Case, policy: str) -> str:
    """By how many points a policy is fresher than uniform polling, or by what share of its age older."""
    ahead, margin = case.lead(policy)
    if case.objective == "age":
        age = case.reached("uniform")
        share = -100.0 * ahead / age
        return f"{share:+.{int(abs(share) < 1.0)}f} ± {100.0 * margin / age:.0f} %"
    return f"{100.0 * ahead:+.2f} ± {100.0 * margin:.2f}"


def mirror(results: Results) -> Iterator[str]:
    """Lines of the table of the mirror itself, beside learning."""
    rows = []
    for case in results.cases("mirror"):
        beside = {one.budget: one for one in results.cases("freshness", case.history) if one.rule is None}
        other = next((one for budget, one in beside.items() if abs(budget / case.budget - 1.0) < 1e-9), None)
        if other is None:
            continue
        points = 100.0 * (case.reached("mirror") - other.reached("learning"))
        rows.append([
            HISTORIES[case.history].title, number(case.budget / case.elements), shown(case, "uniform"),
            shown(other, "learning"), shown(case, "mirror"), lead(other, "learning"), lead(case, "mirror"),
            f"{points:+.2f}",
        ])  # fmt: skip
    head = ["", "each, per day", "uniform", "**learning**", "mirror", "learning ahead of uniform"]
    yield from table([*head, "mirror ahead of uniform", "mirror less learning"], rows)


# --- counts -------------------------------------------------------------------------------------------------


def counts(results: Results) -> Iterator[str]:
    """Lines of the table that counts contests."""
    fresh, age, weighted = (results.cases(how) for how in ("freshness", "age", "weighted"))
    rows = [
        won("learning, freshness", fresh, "learning"),
        won("learning, freshness by weight", weighted, "learning"),
        won("learning, age", age, "learning"),
        won("mirror, freshness", results.cases("mirror"), "mirror"),
    ]
    yield from table(
        [
            "with uniform polling and with rules",
            "contests",
            "ahead",
            "beyond the interval",
            "behind",
            "beyond the interval",
        ],
        rows,
    )
    yield ""
    ruled = [case for case in fresh if case.rule]
    rows = [
        ["rule, behind uniform", *behind(ruled, lambda case: -case.lead(str(case.rule))[0])],
        ["Aduana, behind uniform", *behind(fresh, lambda case: -case.lead("aduana")[0])],
        ["rates known, behind uniform", *behind(fresh, lambda case: -case.lead("optimal")[0])],
        ["likeliest, behind learning", *behind(fresh, distance("estimated-optimal", "learning"))],
        ["gaps known, ahead of learning", *behind(with_laws(fresh), distance("learning", "optimal-law"))],
        ["gaps known, behind learning", *behind(with_laws(fresh), distance("optimal-law", "learning"))],
    ]
    yield from table(["freshness", "times", "of", "by up to (points)"], rows)
    yield ""
    rows = [
        ["of a rule, at its polls", *needed(ruled)],
        ["of uniform polling, at the given budgets", *needed([case for case in fresh if not case.rule])],
    ]
    yield from table(["polls of learning for the freshness", "known", "of", "median", "least", "most"], rows)
    yield ""
    younger = [100.0 * case.lead("learning")[0] / case.reached("uniform") for case in age]
    if younger:
        span = f"{min(younger):.2g} to {max(younger):.2g} %"
        yield f"Under learning for age, copies are {span} younger than under uniform polling."
        yield ""
    losses = [line for how in PLAYS for case in results.cases(how) for line in lost(case, how)]
    yield from ["Not ahead:", "", *losses] if losses else ["They are ahead in all contests."]


def won(title: str, cases: list[Case], policy: str) -> list[str]:
    """Count contests of a policy with uniform polling and with rules."""
    leads = [case.lead(policy, other) for case in cases for other in case.rows[policy]["ahead"]]
    found = [
        len(leads),
        sum(value > 0 for value, _ in leads),
        sum(value > margin for value, margin in leads),
        sum(value <= 0 for value, _ in leads),
        sum(value < -margin for value, margin in leads),
    ]
    return [title, *map(str, found)]


def behind(cases: list[Case], by: Callable[[Case], float]) -> list[str]:
    """Count cases with a positive distance; how many there are, and the largest."""
    distances = [by(case) for case in cases]
    most = max(distances, default=0.0)
    return [str(sum(one > 0 for one in distances)), str(len(distances)), f"{100.0 * most:.1f}"]


def distance(policy: str, other: str) -> Callable[[Case], float]:
    """Return how far a policy is behind another."""
    return lambda case: case.reached(other) - case.reached(policy)


def with_laws(cases: list[Case]) -> list[Case]:
    """Cases in which the gaps were known to somebody."""
    return [case for case in cases if "optimal-law" in case.rows]


def needed(cases: list[Case]) -> list[str]:
    """In how many cases it is known what learning needs for the same; median, least and most of that."""
    shares = [share for bound, share in (case.needed("learning") for case in cases) if not bound]
    found = [f"{100.0 * one(shares):.0f} %" for one in (median, min, max)] if shares else ["", "", ""]
    return [str(len(shares)), str(len(cases)), *found]


def lost(case: Case, how: str) -> Iterator[str]:
    """Say where learning, or the mirror, is not ahead."""
    policy = "mirror" if how == "mirror" else "learning"
    for other in case.rows[policy]["ahead"]:
        value, margin = case.lead(policy, other)
        if value <= 0:
            amount = (
                f"{value:+.3g} ± {margin:.2g} days"
                if how == "age"
                else f"{100 * value:+.2f} ± {100 * margin:.2f} points"
            )
            against = RULES.get(other, "uniform polling")
            yield (
                f"- {policy}, with {against} on {HISTORIES[case.history].title} ({how}, "
                f"{number(case.budget / case.elements)} polls of each a day): {amount}"
            )


TABLES: dict[str, tuple[str, Callable[[Results], Iterator[str]]]] = {
    "counts": ("freshness", counts),
    "mirror": ("mirror", mirror),
    "freshness": ("freshness", lambda results: contests(results, "freshness")),
    "weighted": ("weighted", lambda results: contests(results, "weighted")),
    "age": ("age", lambda results: contests(results, "age")),
}
"""For each table what is played for it, and its lines."""


if __name__ == "__main__":
    play_or_write(__doc__, PAGE, play_all, lambda page, results: write(page, Results.read(results)))
