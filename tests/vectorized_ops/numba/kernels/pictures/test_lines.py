from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.kernels.pictures.lines import finished_line
from vectorized_ops.reference.pictures import coloured


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("count", [3, 16, 21, 50])
def test_lines_are_mixed_and_normalised_to_their_ends(channels: int, count: int) -> None:
    rng = np.random.default_rng(count)
    size = count * channels
    values, means, scales = rng.normal(size=(3, size)).astype(np.float32)
    colours = rng.normal(size=(channels, channels + 1)).astype(np.float32)
    mixed = coloured(values.reshape(1, count, channels), colours, None).reshape(-1)
    for is_coloured, given in ((False, values), (True, mixed)):
        out = np.empty(size, np.float32)
        finished_line(out, values, means, scales, channels, colours.reshape(-1), is_coloured, False)
        assert_array_equal(out, (given - means) * scales)
