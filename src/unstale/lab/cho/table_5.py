"""The best frequencies of five elements, for freshness and for age."""

from __future__ import annotations

from collections.abc import Iterator

from unstale.lab.experiment import CHO, Claim, Panel, Run, Table, experiment, number, ours

from ._example_4 import BUDGET, RATES, best

_PRINTED = {"freshness": (1.15, 1.36, 1.35, 1.14, 0.00), "age": (0.84, 0.97, 1.03, 1.07, 1.09)}


@experiment("cho-table-5", paper=CHO, where="Table 5", seconds=0.2)
def table_5(run: Run) -> Iterator[Claim | Panel | Table]:
    """The best frequencies for elements that change 1 to 5 times a day, with 5 polls a day.

    Plan for both objectives.
    """
    del run  # there is nothing to choose
    columns: dict[str, list[float]] = {"change rate (per day)": RATES.tolist()}
    for objective, row in _PRINTED.items():
        plan = best(objective)
        for element, (printed, computed) in enumerate(zip(row, plan.frequencies, strict=True), 1):
            yield number(
                f"frequency of element {element} for {objective}",
                published=printed,
                computed=float(computed),
                within=0.005,
                nearly=0.006 if printed == 0.84 else 0.0,
                why="0.8349 rounds to 0.83; with 0.84 the printed row sums to 5" if printed == 0.84 else "",
            )
        yield ours(f"sum of frequencies for {objective}", computed=plan.spent, expected=BUDGET, close=1e-12)
        columns[f"best frequency for {objective} (per day)"] = plan.frequencies.tolist()
    fresh, old = best("freshness"), best("age")
    yield ours("price of a poll for freshness", computed=fresh.price, expected=0.216431826101503, close=1e-13)
    yield ours(
        "freshness of the best plan", computed=fresh.freshness, expected=0.37388869927439036, close=1e-12
    )
    yield ours("age of the best plan (days)", computed=old.age, expected=0.250335153242, close=1e-11)
    yield Table("Example 4", columns)
