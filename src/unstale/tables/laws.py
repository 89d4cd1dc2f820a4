"""How the elements of a table change: at known rates, or at rates that are known as gamma laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .elements import MOST_SURE_SHAPE, TableElements

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from unstale.arguments import Floats, Order
    from unstale.objectives import Objective


def law_of(elements: TableElements, places: slice | NDArray[np.intp] = slice(None)) -> Any:  # noqa: ANN401
    """Return how elements change, or some of them, as `unstale.plan` takes it: rates, a law, or laws."""
    import numpy as np

    rates = elements.rates[places]
    if elements.shapes is None or elements.scales is None:
        return rates
    from unstale.processes import Poisson, UncertainPoisson

    shapes, scales = elements.shapes[places], elements.scales[places]
    known = np.isnan(shapes)
    if known.all():
        return rates
    if rates.all():
        certain = rates / MOST_SURE_SHAPE
        return UncertainPoisson(np.where(known, MOST_SURE_SHAPE, shapes), np.where(known, certain, scales))
    # no gamma law is always 0, so these have laws one by one
    columns = (column.tolist() for column in (known, rates, shapes, scales))
    return [
        Poisson(rate) if is_known else UncertainPoisson(shape, scale)
        for is_known, rate, shape, scale in zip(*columns, strict=True)
    ]


def mean_costs(
    elements: TableElements, objective: str | Objective, frequencies: Floats, order: Order = "fixed"
) -> Floats:
    """Return the mean cost of each element at these frequencies."""
    import numpy as np

    from unstale.polling import mean_cost

    if elements.shapes is None:
        return mean_cost(objective, elements.rates, frequencies, order)
    costs = np.zeros(len(elements))  # of elements that never change
    changing = np.flatnonzero(elements.rates)
    if len(changing):
        costs[changing] = mean_cost(objective, law_of(elements, changing), frequencies[changing], order)
    return costs
