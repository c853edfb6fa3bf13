from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.gradient_store import GROUP, Delivery, cut_tile
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.reference.gradient import write_gradient


@tile
def delivered_tile(
    typingctx: Any, out: Any, mask: Any, values: Any, add: Any, masked: Any, past: Any
) -> Any:
    """Two vectors, delivered one vector behind the beginning."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        values = [lanes.load(lanes.pointer(2, args[2], i * LANES)) for i in range(2)]
        delivery = Delivery(lanes, lanes.pointer(0, args[0]), lanes.pointer(1, args[1]), *args[3:])
        delivery.write(values, lanes.integer(LANES))
        return context.get_dummy_value()

    flags = [types.boolean] * 3
    return types.void(out, mask, values, *flags), generate


@kernel
def delivered(out: Any, mask: Any, values: Any, add: bool, masked: bool, past: bool) -> None:
    delivered_tile(out, mask, values, add, masked, past)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("add", [False, True])
def test_gradients_are_written_or_added_and_cut_as_the_reference_says(
    add: bool, masked: bool, past: bool
) -> None:
    out, mask, values = (aligned_zeros((4 * LANES,)) for _ in range(3))
    out[:] = np.arange(len(out))
    mask[:] = np.resize([1, 0, -1, np.nan, -0.0], len(mask))
    values[:] = np.resize([5, np.nan, -7], len(values))
    expected = out.copy()
    seen = mask[LANES : 3 * LANES] if masked else None
    write_gradient(values[: 2 * LANES], expected[LANES : 3 * LANES], add, seen)
    delivered(out, mask, values, add, masked, past)
    assert_array_equal(out, expected)


@kernel
def cut(out: Any, mask: Any, vectors: int) -> None:
    cut_tile(out, LANES, mask, 2, vectors)


@pytest.mark.parametrize("vectors", [0, 1, GROUP, GROUP + 2])
def test_what_a_mask_does_not_pass_is_cut_and_nothing_else_written(vectors: int) -> None:
    size = vectors * LANES
    mask = np.random.default_rng(3).integers(-4, 9, 2 + size).astype(np.float32)
    out = np.arange(1, 1 + 2 * LANES + size, dtype=np.float32)
    if vectors:
        mask[2:6], out[LANES + 4] = [np.nan, -0.0, 1e-30, -np.inf], np.nan
    expected = out.copy()
    expected[LANES:-LANES][mask[2:] <= 0] = 0
    cut(out, mask, vectors)
    assert_array_equal(out, expected)
