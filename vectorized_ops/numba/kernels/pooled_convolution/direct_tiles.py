# ruff: noqa: ARG001 (what a tile is given here are types: code is made from `args`)
"""Register tiles of convolutions followed by 2x2 max pooling, as Numba intrinsics.

Strides, indices and offsets count elements. Bounds are the caller's responsibility.
"""

from __future__ import annotations

from typing import Any

from numba import types

from vectorized_ops.numba.emit.lanes import Lanes, Value, tile
from vectorized_ops.numba.kernels.convolution.dot_tiles import reduction

AHEAD = 8
"""Cells between the one that is used and the one that is fetched."""


@tile
def pooled_tile(
    typingctx: Any,
    rows: Any,
    out: Any,
    out_index: Any,
    which: Any,
    which_index: Any,
    out_row: Any,
    weights: Any,
    weights_index: Any,
    weights_row: Any,
    bias: Any,
    bias_index: Any,
    inputs: Any,
    inputs_index: Any,
    pixel: Any,
    line: Any,
    offsets: Any,
    steps: Any,
) -> Any:
    """Convolve the four pixels of a 2x2 window for `rows` filters and keep the largest.

    out[out_index + i*out_row + lane] = bias[bias_index + i] + max over p of sum over t < steps of
    weights[weights_index + i*weights_row + t]
    * inputs[inputs_index + window_p + offsets[t] + lane],
    window = (0, pixel, line, line + pixel); which[which_index + i*out_row + lane] = p, a byte.
    """
    number_rows = rows.literal_value
    signature = types.void(
        rows, out, types.int64, which, types.int64, types.int64, weights, types.int64, types.int64,
        bias, types.int64, inputs, types.int64, types.int64, types.int64, offsets, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        corner = lanes.pointer(11, args[11], args[12])
        below = lanes.at(corner, args[14])
        results = reduction(
            lanes,
            number_rows,
            [corner, lanes.at(corner, args[13]), below, lanes.at(below, args[13])],
            lanes.pointer(6, args[6], args[7]),
            args[8],
            1,
            lanes.pointer(15, args[15]),
            args[16],
        )
        for i in range(number_rows):
            best, number = lanes.argmax(results[4 * i : 4 * i + 4])
            biased = lanes.add(best, lanes.broadcast(lanes.pointer(9, args[9], args[10], i)))
            row = lanes.product(args[5], i)
            lanes.store(biased, lanes.pointer(1, args[1], args[2], row))
            lanes.store_bytes(number, lanes.pointer(3, args[3], args[4], row))
        return context.get_dummy_value()

    return signature, generate


@tile
def pooled_weights_tile(
    typingctx: Any,
    kernel: Any,
    out: Any,
    out_index: Any,
    gradient: Any,
    gradient_index: Any,
    cells: Any,
    which: Any,
    which_index: Any,
    which_cells: Any,
    images: Any,
    images_index: Any,
    windows: Any,
    line: Any,
    pixel: Any,
    steps: Any,
) -> Any:
    """Write the gradients of one filter's weights on one channel and of its bias, lanes not summed.

    out[out_index + tap*LANES + lane] = sum over t < steps of
    gradient[gradient_index + cells[t] + lane]
    * images[images_index + windows[t] + the pixel that won cell t, moved by the tap + lane];
    it is which[which_index + which_cells[t] + lane]. Behind the last tap stands the sum of the
    gradient itself. Step t fetches gradient and winner of step t + AHEAD, which may not exist but
    must have its places in `cells` and `which_cells`: a batch of all filters lies between two
    cells, which no hardware prefetcher follows.
    """
    size = kernel.literal_value
    signature = types.void(
        kernel, out, types.int64, gradient, types.int64, cells, which, types.int64, which_cells,
        images, types.int64, windows, types.int64, types.int64, types.int64,
    )  # fmt: skip

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = Lanes(context, builder, signature)
        values, numbers = lanes.pointer(3, args[3], args[4]), lanes.pointer(6, args[6], args[7])
        cells, which_cells = lanes.pointer(5, args[5]), lanes.pointer(8, args[8])
        image, windows = lanes.pointer(9, args[9], args[10]), lanes.pointer(11, args[11])

        def body(step: Value, taps: list[Value]) -> list[Value]:
            cell = lanes.load_integer(lanes.at(cells, step))
            winner = lanes.load_integer(lanes.at(which_cells, step))
            for array, table in ((values, cells), (numbers, which_cells)):
                lanes.prefetch(lanes.at(array, lanes.load_integer(lanes.at(table, step, AHEAD))))
            window = lanes.at(image, lanes.load_integer(lanes.at(windows, step)))
            value = lanes.load(lanes.at(values, cell))
            number = lanes.load_bytes(lanes.at(numbers, winner))
            taps[size * size] = lanes.add(taps[size * size], value)
            spread = [lanes.where_equal(number, p, value) for p in range(4)]
            for y in range(size + 1):
                start = lanes.at(window, lanes.product(args[12], y))
                for x in range(size + 1):
                    seen = lanes.load(lanes.at(start, lanes.product(args[13], x)))
                    for p in range(4):
                        r, s = y - p // 2, x - p % 2
                        if 0 <= r < size and 0 <= s < size:
                            taps[r * size + s] = lanes.fma(spread[p], seen, taps[r * size + s])
            return taps

        results = lanes.loop(args[14], [lanes.constant(0.0)] * (size * size + 1), body)
        target = lanes.pointer(1, args[1], args[2])
        for tap, value in enumerate(results):
            lanes.store(value, lanes.at(target, tap * lanes.width))
        return context.get_dummy_value()

    return signature, generate
