from __future__ import annotations

import numpy as np
import pytest

from vectorized_ops.channels_last.turning import turn
from vectorized_ops.errors import OperationError


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("height", [1, 15, 16, 40])
@pytest.mark.parametrize("width", [1, 16, 37, 130])
@pytest.mark.parametrize("more", [0, 5, 16])
def test_matrices_are_transposed_and_rows_filled_up(
    number: int, height: int, width: int, more: int
) -> None:
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((number, height, width + 7)).astype(np.float32)
    out = np.full((number, width, height + more + 3), np.nan, np.float32)
    turn(wide[..., 2 : 2 + width], out[..., : height + more])
    expected = wide[..., 2 : 2 + width].transpose(0, 2, 1)
    np.testing.assert_array_equal(out[..., :height], expected)
    assert not out[..., height : height + more].any()
    assert np.isnan(out[..., height + more :]).all()


@pytest.mark.parametrize("shape", [(2, 4, 5), (1, 5, 4), (2, 5, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(OperationError, match=r"expected \(2, 5\) and rows of at least 4"):
        turn(np.zeros((2, 4, 5), np.float32), np.zeros(shape, np.float32))
