"""Types of the compiled functions, which numba's decorators hide."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .arguments import Floats

AGE_COST: Final = 3

def mean_over_gaps(
    gaps: Floats,
    starts: NDArray[np.int64],
    which: NDArray[np.intp],
    times: Floats,
    kind: int,
    order: int,
) -> Floats: ...
