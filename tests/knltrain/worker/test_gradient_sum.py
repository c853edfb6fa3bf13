"""The mean gradient of several batches is there before anyone is told of it."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from knltrain.worker.gradient_sum import GradientSum


def test_parts_are_the_mean_of_all_batches_when_they_are_ready() -> None:
    sums = GradientSum(6, batches=4)
    last, seen = np.empty(6, np.float32), list[tuple[int, list[float]]]()

    def ready(offset: int) -> None:
        seen.append((offset, last.tolist()))

    for _ in range(2):  # a second step does not remember the first
        sums.begin()
        for value in (1, 2, 3):
            sums.add(np.full(6, value, np.float32))
        last[:] = 6
        seen.clear()
        complete = sums.completing(last, ready)
        complete(6)
        complete(4)
        last[:4] = 10  # a backend writes what it has not called ready
        complete(4)
        complete(0)
        complete(0)
    assert seen == [
        (6, [6] * 6),
        (4, [6] * 4 + [3] * 2),
        (4, [10] * 4 + [3] * 2),
        (0, [4] * 4 + [3] * 2),
        (0, [4] * 4 + [3] * 2),
    ]
    assert_array_equal(last, [4, 4, 4, 4, 3, 3])
