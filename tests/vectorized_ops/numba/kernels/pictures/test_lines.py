from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.numba.kernels.pictures.lines import (
    INTERLEAVED,
    PLANAR,
    REVERSED,
    copied_line,
    filled_line,
    finished_line,
)
from vectorized_ops.reference.pictures import coloured


@pytest.mark.parametrize("count", [1, 5, 16, 17, 40, 64])
@pytest.mark.parametrize("layout", [INTERLEAVED, REVERSED, PLANAR])
@pytest.mark.parametrize("flipped", [False, True])
def test_lines_of_any_length_are_copied(count: int, layout: int, flipped: bool) -> None:
    rng = np.random.default_rng(count)
    memory = rng.integers(0, 256, 3 * count, np.uint8)
    pixels = memory.reshape(3, count).T if layout == PLANAR else memory.reshape(count, 3)
    pixels = pixels[:, ::-1] if layout == REVERSED else pixels
    means, scales = rng.normal(size=(2, 3)).astype(np.float32)
    out = np.full(3 * count + 2, 77, np.float32)
    copied_line(
        out, 1, memory.ctypes.data, layout, count, count, 3, flipped, np.resize(means, 48),
        np.resize(scales, 48), False,
    )  # fmt: skip
    expected = (pixels[:: -1 if flipped else 1].astype(np.float32) - means) * scales
    assert_array_equal(out[1:-1], expected.reshape(-1))
    assert out[0] == out[-1] == 77


def test_filled_lines_are_those_of_zeros() -> None:
    means, scales = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    out = np.full(8, 77, np.float32)
    filled_line(out, 1, 2, 3, means, scales)
    assert out.tolist() == [77, -4, -10, -18, -4, -10, -18, 77]


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
