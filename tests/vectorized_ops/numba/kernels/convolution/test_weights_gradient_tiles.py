from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from contracts.bfloat16 import paired
from numba import types
from numpy.testing import assert_array_equal

from vectorized_ops.bfloat16 import rounded
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.emit.lanes import LANES, Lanes, tile
from vectorized_ops.numba.kernels.convolution.weights_gradient_tiles import (
    UNROLLED,
    outer_product_tile,
    transposed,
    turn_tile,
)

IMAGES = 16


@functools.cache
def multiplying(rows: int, columns: int, pairs: int = 0) -> Any:
    """The kernel of tiles of this size."""

    @kernel
    def multiply(
        out: Any, left: Any, pixel: int, line: int, right: Any, right_pixel: int, right_line: int,
        pixels: int, lines: int,
    ) -> None:  # fmt: skip
        outer_product_tile(
            rows, columns, 16, pairs, out, 5, left, 2, pixel, line, right, 3, right_pixel,
            right_line, pixels, lines,
        )  # fmt: skip

    return multiply


@kernel
def turn(out: Any, out_row: int, sums: Any, inputs: Any, inputs_row: int, pairs: bool) -> None:
    turn_tile(out, 5, out_row, sums, 2, inputs, 3, inputs_row, pairs)


@tile
def transposed_tile(typingctx: Any, out: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        rows = [lanes.load(lanes.pointer(1, args[1], i * LANES)) for i in range(LANES)]
        for i, row in enumerate(transposed(lanes, rows)):
            lanes.store(row, lanes.pointer(0, args[0], i * LANES))
        return context.get_dummy_value()

    return types.void(out, values), generate


@kernel
def transpose(out: Any, values: Any) -> None:
    transposed_tile(out, values)


def square_of(inputs: np.ndarray) -> np.ndarray:
    return inputs[3:].reshape(LANES, LANES + 2)[:, :LANES]


def whole_numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(np.float32)


@pytest.mark.parametrize(("lines", "pixels"), [(1, 1), (1, 3), (2, 1), (3, 2)])
@pytest.mark.parametrize(("rows", "columns"), [(3, 2), (2, 1)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "pairs"])
def test_outer_products_of_pixels_and_images_are_added_and_nothing_else_written(
    kind: str, rows: int, columns: int, lines: int, pixels: int
) -> None:
    # Pixels of the left are further apart than they are large, those of the right follow closely.
    images = IMAGES * (1 + (kind == "pairs"))
    left = whole_numbers(lines, pixels, rows + 1, images)
    right = whole_numbers(lines, pixels, images, columns * LANES)
    out = whole_numbers(5 + rows * columns * LANES + 4)
    expected = out.copy()
    products = np.einsum("yxin,yxnk->ik", left[:, :, :rows], right)
    expected[5:-4] += products.reshape(-1)
    if kind == "pairs":
        left = paired(left[..., ::2], left[..., 1::2])
        right = paired(right[:, :, ::2], right[:, :, 1::2])
    pixel, right_pixel = left[0, 0].size, right[0, 0].size
    padded = np.concatenate([[99, 99], left.reshape(-1)]).astype(np.float32)
    behind = np.concatenate([[99, 99, 99], right.reshape(-1)]).astype(np.float32)
    multiplying(rows, columns, int(kind == "pairs"))(
        out, rounded(padded) if kind == "bfloat16" else padded, pixel, pixels * pixel, behind,
        right_pixel, pixels * right_pixel, pixels, lines,
    )  # fmt: skip
    assert_array_equal(out, expected)
    assert IMAGES % UNROLLED == 0


def test_what_was_summed_before_does_not_round_the_products_of_a_call() -> None:
    left, right = (np.full(n + IMAGES * LANES, 0.25, np.float32) for n in (2 + IMAGES, 3))
    out = np.full(5 + 2 * LANES, 2**24, np.float32)  # of which float32 knows even numbers only
    multiplying(2, 1)(out, left, 0, 0, right, 0, 0, 2, 1)
    assert_array_equal(out[5:], np.full(2 * LANES, 2**24 + 2))


def test_square_of_lanes_is_transposed() -> None:
    values, out = whole_numbers(LANES, LANES), np.empty((LANES, LANES), np.float32)
    transpose(out, values)
    assert_array_equal(out, values.T)


@pytest.mark.parametrize("pairs", [False, True])
def test_square_is_turned_and_its_rows_summed(pairs: bool) -> None:
    inputs, out = whole_numbers(3 + LANES * (LANES + 2)), whole_numbers(5 + LANES * (LANES + 7))
    sums = whole_numbers(LANES + 3)
    square = square_of(inputs)
    expected, total = out.copy(), sums.copy()
    expected[5:].reshape(LANES, LANES + 7)[:, :LANES] = square.T
    total[2:-1] += square.sum(axis=1)
    if pairs:
        seconds = np.arange(len(inputs), dtype=np.float32) % 7
        inputs = paired(inputs, seconds)
        expected[5:].reshape(LANES, LANES + 7)[:, :LANES] = square_of(inputs).T
        total[2:-1] += square_of(seconds).sum(axis=1)
    turn(out, LANES + 7, sums, inputs, LANES + 2, pairs)
    assert_array_equal(out.view(np.uint32), expected.view(np.uint32))
    assert_array_equal(sums, total)
