"""Moving and running averages of a vector over time, in NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


def moving_average(average: Vector, moved: Vector, rate: float) -> None:
    """Set ``average`` to (1 − rate) average + rate moved; both (n,) float32, no overlap.

    Zhang, Choromanska, LeCun 2015, MVADOWNPOUR and MVASGD.
    """
    average += np.float32(rate) * (moved - average)


def running_average(average: Vector, count: Vector, moved: Vector) -> None:
    """Take ``moved`` into the mean of the ``count`` vectors before it; all (n,) float32.

    count += 1; average += (moved − average) / count. Zhang, Choromanska, LeCun 2015, ADOWNPOUR and
    ASGD. The count goes with every element, so that stripes may be taken in any order.
    """
    count += 1
    average += (moved - average) / count
