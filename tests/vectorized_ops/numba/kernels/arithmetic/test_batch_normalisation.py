"""The passes of both layouts test the vectors; here are the numbers of a channel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vectorized_ops.numba.kernels.arithmetic import batch_normalisation as arithmetic

VALUES = np.random.default_rng(0).normal(3.0, 2.0, 50)
ARRIVING = np.random.default_rng(1).normal(size=50)
SCALE, OFFSET, EPSILON = 1.5, -0.25, 1e-3


def test_mean_and_variance_do_not_depend_on_the_pivot() -> None:
    for pivot in (0.0, 2.5):
        shifted = VALUES - pivot
        found = arithmetic.mean_and_variance(pivot, shifted.sum(), (shifted**2).sum(), len(VALUES))
        assert_allclose(found, (VALUES.mean(), VALUES.var()))


@pytest.mark.parametrize("square", [0.0, -1e-9])
def test_variance_is_never_negative(square: float) -> None:
    assert arithmetic.mean_and_variance(0.0, 1.0, square, 10)[1] == 0.0


def test_table_gives_values_and_gradient() -> None:
    table = np.full((arithmetic.TABLE_ROWS, 2), np.nan)
    arithmetic.write_forward(table, 1, VALUES.mean(), VALUES.var(), SCALE, OFFSET, EPSILON)
    mean, factor, offset, inverse = table[:4, 1]
    normalised = (VALUES - VALUES.mean()) / np.sqrt(VALUES.var() + EPSILON)
    assert_allclose((VALUES - mean) * factor + offset, normalised * SCALE + OFFSET)
    total, product = ARRIVING.sum(), (ARRIVING * (VALUES - mean)).sum()
    arithmetic.write_backward(table, 1, total, product, len(VALUES))
    _, _, _, _, slope, level = table[:, 1]
    found = (ARRIVING - level + (VALUES - mean) * slope) * factor
    spread = (ARRIVING * normalised).mean() * normalised
    expected = (ARRIVING - ARRIVING.mean() - spread) * inverse * SCALE
    assert_allclose(found, expected)
    assert np.isnan(table[:, 0]).all()
