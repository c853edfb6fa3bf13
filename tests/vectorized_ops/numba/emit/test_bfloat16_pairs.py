"""Pairs of two rows of images: unpacked in the cheapest order, their sums in that of the images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.bfloat16 import in_order, unpacked
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile


@tile
def weighted_sums_tile(_typing: Any, width: Any, out: Any, rows: Any, weights: Any) -> Any:
    """Write the first row times the first of a pair of weights, plus the second by the second."""
    vectors = width.literal_value

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        first = lanes.pointer(2, args[2])
        both = [
            lanes.load_bits(at, vectors * LANES) for at in (first, lanes.at(first, vectors * LANES))
        ]
        pair, nothing = lanes.broadcast(lanes.pointer(3, args[3])), lanes.constant(0.0)
        sums = [
            lanes.add_pairs(pair, each, nothing)
            for each in unpacked(lanes, both[0], both[1], vectors)
        ]
        for number, value in enumerate(in_order(lanes, sums, vectors)):
            lanes.store(value, lanes.at(lanes.pointer(1, args[1]), number * LANES))
        return context.get_dummy_value()

    return types.void(width, out, rows, weights), generate


@kernel
def narrow(out: Any, rows: Any, weights: Any) -> None:
    weighted_sums_tile(1, out, rows, weights)


@kernel
def wide(out: Any, rows: Any, weights: Any) -> None:
    weighted_sums_tile(2, out, rows, weights)


@pytest.mark.parametrize(("width", "add"), [(1, narrow), (2, wide)])
def test_sums_of_two_rows_are_in_the_order_of_the_images(width: int, add: Any) -> None:
    size = width * LANES
    rows = np.arange(2 * size, dtype=np.float32).reshape(2, size)
    weights = rounded(np.array([2, 64], np.float32)).view(np.uint32)
    out = np.zeros(size, np.float32)
    add(out, rounded(rows).reshape(-1), weights)
    assert_array_equal(out, 2 * rows[0] + 64 * rows[1])
