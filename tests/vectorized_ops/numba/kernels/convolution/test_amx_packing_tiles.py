"""Weights become whole tiles of pairs, wherever they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import paired

from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.compiling.tile_functions import call_tile
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.kernels.convolution.amx_packing_tiles import PACKING

TILES = 2


@kernel
def call_packing(
    address: int, out: Any, weights: Any, filter_step: int, channel_step: int, filters: int,
    steps: int,
) -> None:  # fmt: skip
    call_tile(address, out, 1, weights, 2, filter_step, channel_step, filters, steps)


@pytest.mark.parametrize("step", [1, 3])
@pytest.mark.parametrize(("across", "filters"), [(False, TILE), (False, 5), (True, TILE)])
def test_pairs_of_channels_are_rows_of_filters(across: bool, filters: int, step: int) -> None:
    channels = 2 * TILE * TILES
    filter_step, channel_step = (step, TILE * step + 4) if across else (channels * step + 4, step)
    last = (filters - 1) * filter_step + (channels - 1) * channel_step
    weights = np.random.default_rng(0).standard_normal(2 + last + 1).astype(np.float32)
    out = np.full(1 + TILES * TILE * TILE + 1, 77, np.float32)
    address = PACKING.address(int(across), int(step > 1))
    call_packing(address, out, weights, filter_step, channel_step, filters, TILES)
    places = np.arange(filters)[:, None] * filter_step + np.arange(channels) * channel_step
    given = weights[2:][places].reshape(filters, TILES, TILE, 2).swapaxes(0, 1)
    expected = np.full((TILES, TILE, TILE), 77, np.float32)
    expected[:, :filters] = paired(given[..., 0], given[..., 1])
    assert out[1:-1].tobytes() == expected.tobytes()
    assert out[0] == out[-1] == 77
