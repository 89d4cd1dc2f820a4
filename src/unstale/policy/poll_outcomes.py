"""What polls saw, as the policy is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unstale.arguments import Floats

from .element_table import Ids


@dataclass(frozen=True, slots=True)
class PollOutcomes:
    """What polls saw, as columns, in the order in which they were recorded."""

    poll: Ids
    """Their numbers, where they are recorded."""
    element: Ids
    time: Floats
    elapsed: Floats
    """Time since the last poll of the element that saw something; nan if there was none."""
    outcome: Sequence[str]
    """``new``, ``changed``, ``unchanged``, ``gone``, ``failed`` or ``refused``."""
    traffic: Floats
    cost: Floats
    """Bytes that the budget has been charged for in advance."""
    planned: NDArray[np.bool_]
    """False for those of an audit."""
    modified: Floats | None = None
    """When the element had changed last, as the source said; nan where it did not."""
    stays: Floats | None = None
    """For how long after the poll it stays as it is, as the source promised; nan where it did not."""
