from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.layout import aligned_zeros
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.elementwise.tiles import (
    GROUP,
    cut_tile,
    hashed,
    kept_tile,
    rectified_gradient_tile,
    rectified_tile,
    sum_tile,
)
from vectorized_ops.reference import dropout

VECTORS = GROUP + 1
UNTOUCHED = 77


@kernel
def rectified(out: Any, inputs: Any, slope: Any, ceiling: Any) -> None:
    rectified_tile(out, LANES, inputs, 2, VECTORS, slope, ceiling, False)


@kernel
def rectified_gradient(
    out: Any, gradient: Any, outputs: Any, slope: Any, ceiling: Any, add: bool
) -> None:
    rectified_gradient_tile(
        out, LANES, gradient, 1, outputs, 2, VECTORS, slope, ceiling, add, False
    )


@kernel
def cut(out: Any, mask: Any, vectors: int) -> None:
    cut_tile(out, LANES, mask, 2, vectors)


@kernel
def summed(out: Any, left: Any, right: Any, floor: Any) -> None:
    sum_tile(out, LANES, left, 1, right, 2, VECTORS, floor, False)


@kernel
def kept(out: Any, values: Any, number: int, numbers: int, key: int, bound: int) -> None:
    kept_tile(
        out, LANES, out, LANES, values, 1, 3, 3, number, 1, numbers, key, bound, np.float32(2.0),
        False, False, False,
    )  # fmt: skip


@tile
def hashed_tile(typingctx: Any, out: Any, numbers: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        kind = lanes.lane_numbers().type.as_pointer()
        numbers = builder.load(builder.bitcast(lanes.pointer(1, args[1]), kind), align=4)
        results = builder.bitcast(lanes.pointer(0, args[0]), kind)
        builder.store(hashed(lanes, builder, numbers), results, align=4)
        return context.get_dummy_value()

    return types.void(out, numbers), generate


@kernel
def hashes(out: Any, numbers: Any) -> None:
    hashed_tile(out, numbers)


def surrounded(vectors: int) -> np.ndarray:
    """Room for vectors, with one more before them and one behind."""
    out = aligned_zeros(((vectors + 2) * LANES,))
    out[:] = UNTOUCHED
    return out


def check(out: np.ndarray, expected: np.ndarray) -> None:
    assert (out[:LANES] == UNTOUCHED).all()
    assert (out[-LANES:] == UNTOUCHED).all()
    assert_array_equal(out[LANES:-LANES], expected)


def values_of(kind: int) -> np.ndarray:
    values = np.random.default_rng(kind).integers(-4, 9, VECTORS * LANES + 4).astype(np.float32)
    values[5:8] = [np.nan, np.inf, -np.inf]
    return values


def taken(values: np.ndarray, first: int) -> np.ndarray:
    return values[first : first + VECTORS * LANES]


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_values_are_rectified_from_their_index_on(slope: float) -> None:
    inputs, out = values_of(1), surrounded(VECTORS)
    rectified(out, inputs, np.float32(slope), np.float32(6))
    seen = taken(inputs, 2)
    below = seen * np.float32(slope) if slope else np.zeros_like(seen)
    check(out, np.where(seen < 0, below, np.minimum(seen, 6)))


@pytest.mark.parametrize("slope", [0.0, 0.5])
@pytest.mark.parametrize("add", [False, True])
def test_gradients_are_told_from_the_outputs(slope: float, add: bool) -> None:
    gradient, outputs, out = values_of(2), values_of(3), surrounded(VECTORS)
    rectified_gradient(out, gradient, outputs, np.float32(slope), np.float32(6), add)
    slopes, seen = taken(gradient, 1), taken(outputs, 2)
    below = slopes * np.float32(slope) if slope else np.zeros_like(slopes)
    result = np.where(seen <= 0, below, np.where(seen >= 6, 0, slopes))
    check(out, result + UNTOUCHED if add else result)


def test_sums_are_not_below_the_floor() -> None:
    left, right, out = values_of(4), values_of(5), surrounded(VECTORS)
    right[5:8] = 1  # no inf - inf
    summed(out, left, right, np.float32(2))
    check(out, np.maximum(taken(left, 1) + taken(right, 2), 2))


def test_hash_is_that_of_the_reference() -> None:
    numbers = np.random.default_rng(0).integers(0, 2**32, LANES, np.uint32)
    numbers[:2] = 0, 2**32 - 1
    out = np.zeros(LANES, np.uint32)
    hashes(out.view(np.float32), numbers.view(np.float32))
    assert_array_equal(out, dropout.hashed(numbers))


@pytest.mark.parametrize("bound", [0, 2**30, 2**31 + 5, 2**32 - 1])
def test_rows_are_numbered_one_after_the_other_and_their_images_by_the_distance(bound: int) -> None:
    number, numbers, key = 2**32 - 5, 1_000_003, 2**31 + 12345
    values, out = np.arange(9 * LANES + 1, dtype=np.float32), surrounded(9)
    kept(out, values, number, numbers, key, bound)
    row, image = np.arange(3)[:, None], np.arange(3 * LANES)
    names = ((number + row + image * numbers) % 2**32).astype(np.uint32)
    keep = dropout.hashed(names ^ np.uint32(key)) >= bound
    check(out, np.where(keep.reshape(-1), 2 * values[1:], 0))


@pytest.mark.parametrize("vectors", [0, 1, GROUP, GROUP + 2])
def test_what_a_mask_does_not_pass_is_cut_and_nothing_else_written(vectors: int) -> None:
    out, mask = surrounded(vectors), values_of(3)[: 2 + (GROUP + 2) * LANES]
    mask = np.resize(mask, 2 + vectors * LANES)
    out[LANES:-LANES] = np.arange(1, 1 + vectors * LANES)
    if vectors:
        mask[2:6], out[LANES + 4] = [np.nan, -0.0, 1e-30, -np.inf], np.nan
    expected = np.where(mask[2:] <= 0, 0, out[LANES:-LANES])
    cut(out, mask, vectors)
    check(out, expected)
