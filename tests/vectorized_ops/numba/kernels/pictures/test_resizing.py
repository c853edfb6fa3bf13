from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.kernels.pictures.resizing import summed_lines, tap_table
from vectorized_ops.reference.pictures import interpolation

LINES = [(10, 0.0, 10.0, 4), (10, 2.5, 5.0, 13), (7, 0.0, 7.0, 7), (5, -3.2, 9.0, 6)]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("flipped", [False, True])
def test_the_table_is_that_of_the_reference(
    line: tuple[int, float, float, int], flipped: bool
) -> None:
    expected = interpolation(*line)
    starts, weights = np.zeros(line[3], np.int64), np.zeros(200, np.float32)
    number, first, last = tap_table(line[0], line[1], line[2], flipped, starts, weights)
    for i, (start, own) in enumerate(expected[::-1] if flipped else expected):
        found = weights[i * number :][:number]
        assert_array_equal(found[: len(own)], own)
        assert not found[len(own) :].any()
        assert len(own) == 0 or starts[i] + first == start
    used = [start + len(own) for start, own in expected if len(own)]
    assert last == max(used)
    assert first == min(start for start, own in expected if len(own))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 6])
def test_lines_are_summed_by_their_weights_from_the_first_on(count: int) -> None:
    rng = np.random.default_rng(count)
    lines = rng.integers(0, 256, (6, 50), np.uint8)
    weights = rng.normal(size=6).astype(np.float32)
    expected = np.zeros(47, np.float32)
    for line, weight in zip(lines[:count], weights, strict=False):
        expected += weight * line[3:].astype(np.float32)
    out = np.full(47, 77, np.float32)
    summed_lines(lines.ctypes.data + 3, 50, weights, count, out)
    assert_array_equal(out, expected)
