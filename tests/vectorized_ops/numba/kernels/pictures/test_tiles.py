from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.kernels.pictures.tiles import SHORT_STEP, STEP, normalised_tile

STEPS = 3
MEANS, SCALES = np.random.default_rng(0).normal(size=(2, STEP)).astype(np.float32)


@kernel
def interleaved(out: Any, line: Any, means: Any, scales: Any, flipped: bool, past: bool) -> None:
    normalised_tile(out, 16, line, 1, 0, means, scales, STEPS, flipped, past, 3, 0, 0, STEP)


@kernel
def planar(out: Any, line: Any, means: Any, scales: Any, flipped: bool, past: bool) -> None:
    apart = STEPS * STEP // 3
    normalised_tile(out, 16, line, 1, apart, means, scales, STEPS, flipped, past, 3, 1, 0, STEP)


@kernel
def backwards(out: Any, line: Any, means: Any, scales: Any, flipped: bool, past: bool) -> None:
    normalised_tile(out, 16, line, 1, 0, means, scales, STEPS, flipped, past, 3, 0, 1, STEP)


@kernel
def grey(out: Any, line: Any, means: Any, scales: Any, flipped: bool, past: bool) -> None:
    normalised_tile(out, 16, line, 1, 0, means, scales, STEPS, flipped, past, 1, 0, 0, STEP)


@kernel
def short(out: Any, line: Any, means: Any, scales: Any, flipped: bool, past: bool) -> None:
    steps = STEPS * STEP // SHORT_STEP
    normalised_tile(out, 16, line, 1, 0, means, scales, steps, flipped, past, 1, 0, 0, SHORT_STEP)


@pytest.mark.parametrize("kind", ["interleaved", "planar", "backwards", "grey", "short"])
@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("past", [False, True])
def test_pixels_are_brought_into_order_and_only_they_are_written(
    kind: str, flipped: bool, past: bool
) -> None:
    line = np.random.default_rng(1).integers(0, 256, 1 + STEPS * STEP, np.uint8)
    pixels = line[1:].reshape(-1, 1 if kind in ("grey", "short") else 3)
    if kind == "planar":
        pixels = line[1:].reshape(3, -1).T
    if kind == "backwards":
        pixels = pixels[:, ::-1]
    pixels = pixels[::-1] if flipped else pixels
    out = aligned_zeros((STEPS * STEP + 32,))
    out.fill(77)
    globals()[kind](out, line, MEANS, SCALES, flipped, past)
    step = SHORT_STEP if kind == "short" else STEP
    values = pixels.astype(np.float32).reshape(-1, step)
    assert_array_equal(out[16:-16], ((values - MEANS[:step]) * SCALES[:step]).reshape(-1))
    assert (out[:16] == 77).all()
    assert (out[-16:] == 77).all()
