"""Convolution of channels_last arrays as products of matrices; one lane is one channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numba
import numpy as np

from vectorized_ops.channels_last.rows import flat_rows
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.compiling.tile_functions import NO_TILE
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.emit.operand_checks import FLOAT_ONLY, Operands
from vectorized_ops.numba.emit.scratch import ScratchUser, size_of_pieces
from vectorized_ops.numba.kernels.channels_last.correlation import (
    BLOCK_ROWS,
    BLOCK_STEPS,
    GATHERED_ROW,
    SUMMED_ROWS,
    SUMMED_VECTORS,
    Grid,
    Tiles,
    add_lots,
    bias_of,
    correlate,
    deliver_weights,
    pack_panels,
    scatter,
    sum_weights,
)
from vectorized_ops.numba.kernels.channels_last.panel_tiles import PANELS, ROWS
from vectorized_ops.numba.kernels.convolution.destination import MASK, PAST, RELU
from vectorized_ops.numba.kernels.convolution.direct import split_threads
from vectorized_ops.numba.kernels.convolution.row_tiles import TRANSPOSE_ROWS
from vectorized_ops.numba.kernels.convolution.winograd import CHANNELS_AT_ONCE
from vectorized_ops.shapes import ConvolutionShape

SUMS_BYTES = 8 << 20
"""What the sums of all lots of pixels may take for the gradient of the weights."""

LEAST_ROWS = 4 * SUMMED_ROWS
"""Pixels that a lot has at least."""


@dataclass(frozen=True)
class _Product:
    """A part of a direction: the pixels of the result that see the same taps.

    `slots` tells which place each tap has among these, -1 if it has none. `runs` are rows (dy, dx,
    taps) for `Grid`, each of so many neighbouring pixels; `steps` is the length of a row.
    """

    grid: Grid
    slots: Any
    runs: Any
    steps: int

    @property
    def rows(self) -> int:
        """Pixels of the result."""
        return self.grid.number * self.grid.lines * self.grid.pixels

    @property
    def is_regular(self) -> bool:
        """Whether neighbouring rows are neighbouring pixels."""
        grid = self.grid
        return (grid.lines, grid.pixels) == (grid.out_height, grid.out_width)


class Convolution(ScratchUser):
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order.

    Any kernel, stride, padding, dilation and groups. Weights are packed anew in every call. Results
    are the same to the last bit with any number of threads, but for the gradients of weights and
    bias: they depend on it. A NaN or infinity affects the results that it contributes to; one in
    the weights also where its tap lies outside the images.
    """

    def __init__(self, shape: ConvolutionShape) -> None:
        self.shape, self._threads = shape, numba.get_num_threads()
        self._operands = Operands(shape, FLOAT_ONLY, shape.images)
        self._channels = shape.channels // shape.groups
        self._filters = shape.filters // shape.groups
        self._area = shape.kernel[0] * shape.kernel[1]
        self._nothing = aligned_zeros((max(self._channels, self._filters) + LANES,))
        self._forward = _product(shape, self._channels)
        self._backward = list(_backward_products(shape, self._filters))

    @cached_property
    def _sizes(self) -> dict[str, list[int]]:
        """Floats of scratch memory in each direction."""
        turned = CHANNELS_AT_ONCE * self._area * LANES
        gathered = self._threads * BLOCK_ROWS * GATHERED_ROW
        filters, channels = (-(-n // LANES) for n in (self._filters, self._channels))
        steps = max((each.steps for each in self._backward), default=0)
        spread = [each.rows for each in self._backward if each.steps and not each.is_regular]
        return {
            "forward": [filters * self._forward.steps * LANES, filters * turned, gathered],
            "backward": [
                channels * steps * LANES, channels * turned, gathered,
                max(spread, default=0) * self._channels,
            ],
            "weights": [
                self._lots * self._tall * filters * LANES,
                self._threads * SUMMED_ROWS * GATHERED_ROW,
                self._threads * SUMMED_VECTORS * SUMMED_ROWS * LANES,
                filters * LANES * LANES,
            ],
        }  # fmt: skip

    @property
    def _tall(self) -> int:
        """Rows of the sums for the gradient of the weights, a step of ones among them."""
        return -(-(self._forward.steps + 1) // ROWS) * ROWS

    @cached_property
    def _lots(self) -> int:
        """In how many lots pixels are summed up: as many as are large and whose sums are small."""
        size = 4 * self._tall * -(-self._filters // LANES) * LANES
        most = min(SUMS_BYTES // size, self._forward.rows // LEAST_ROWS)
        divisors = (n for n in range(self._threads, 1, -1) if self._threads % n == 0)
        return next((n for n in divisors if n <= most), 1)

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(map(size_of_pieces, self._sizes.values()))

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
    ) -> None:
        """Write the correlation of images and weights, plus bias, cut off at zero with `relu`."""
        self._operands.check(images, out, weights, bias)
        panels, turned, gathered = self._pieces(self._sizes["forward"])
        for inputs, filters in self.shape.group_slices:
            self._pack(weights, filters.start, self._forward, panels, turned, backward=False)
            start = self._nothing if bias is None else bias[filters]
            self._correlate(
                self._forward, images[..., inputs], panels, out[..., filters], (start, 0), None,
                RELU * relu, gathered,
            )  # fmt: skip

    def backward_data(
        self,
        gradient: AnyArray,
        weights: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write the gradient of the images, or add it; zero where `mask` is not positive."""
        self._operands.check(out, gradient, weights, mask=mask)
        panels, turned, gathered, results = self._pieces(self._sizes["backward"])
        way = MASK * (mask is not None)
        for inputs, filters in self.shape.group_slices:
            target = out[..., inputs]
            masking = None if mask is None else mask[..., inputs]
            for product in self._backward:
                if product.steps:
                    self._pack(weights, filters.start, product, panels, turned, backward=True)
                if product.steps and product.is_regular:
                    start = flat_rows(target) if add else (self._nothing, 0)
                    self._correlate(
                        product, gradient[..., filters], panels, target, start, masking, way,
                        gathered,
                    )  # fmt: skip
                    continue
                found = results[: product.rows * self._channels * (product.steps > 0)]
                if product.steps:
                    self._correlate(
                        product, gradient[..., filters], panels, found.reshape(-1, self._channels),
                        (self._nothing, 0), None, 0, gathered,
                    )  # fmt: skip
                scatter(
                    found, product.grid, self._channels, *flat_rows(target),
                    *flat_rows(target if masking is None else masking), add, way, self._threads,
                )  # fmt: skip

    def backward_weights(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights and, unless it is None, of the bias."""
        self._operands.check(images, gradient, weights_out, bias_out)
        sums, gathered, panels, scratch = self._pieces(self._sizes["weights"])
        product, vectors = self._forward, -(-self._filters // LANES)
        tiles = -(-(product.steps + (bias_out is not None)) // ROWS)
        lots = self._lots
        by_steps, by_vectors = split_threads(self._threads // lots, tiles, vectors)
        for inputs, filters in self.shape.group_slices:
            sum_weights(
                _tiles(0), *flat_rows(images[..., inputs]), product.grid, product.runs,
                product.steps, *flat_rows(gradient[..., filters]), self._filters,
                bias_out is not None, _are_rows(self.shape), sums, lots, by_steps, by_vectors,
                self._nothing, gathered.reshape(self._threads, -1),
                panels.reshape(self._threads, -1),
            )  # fmt: skip
            if lots > 1:
                add_lots(sums, lots, tiles * ROWS * vectors * LANES, self._threads)
            deliver_weights(
                sums, self._filters, self._channels, self._area,
                weights_out.reshape(-1), filters.start * self._channels * self._area,
                scratch.reshape(vectors, -1),
            )  # fmt: skip
            if bias_out is not None:
                bias_of(sums, product.steps, vectors * LANES, bias_out[filters])

    def _pack(
        self,
        weights: AnyArray,
        first_filter: int,
        product: _Product,
        panels: AnyArray,
        turned: AnyArray,
        backward: bool,
    ) -> None:
        columns, rows = self._filters, self._channels
        if backward:
            columns, rows = rows, columns
        vectors = -(-columns // LANES)
        pack_panels(
            weights.reshape(-1), panels, first_filter * self._channels * self._area, columns, rows,
            self._area, product.slots, product.steps // rows, backward,
            TRANSPOSE_ROWS.address(min(self._area, LANES)), turned.reshape(vectors, -1, LANES),
        )  # fmt: skip

    def _correlate(
        self,
        product: _Product,
        images: AnyArray,
        panels: AnyArray,
        out: AnyArray,
        start: tuple[AnyArray, int],
        mask: AnyArray | None,
        way: int,
        gathered: AnyArray,
    ) -> None:
        tiles, vectors = -(-product.rows // ROWS), -(-out.shape[-1] // LANES)
        by_rows, by_vectors = split_threads(self._threads, tiles, vectors)
        target = flat_rows(out)
        in_one_block = product.steps <= BLOCK_STEPS  # else there are results to add to
        if in_one_block and not way & MASK and _is_streamed(target, out, start[0]):
            way |= PAST
        correlate(
            _tiles(product.rows % ROWS), *flat_rows(images), product.grid, product.runs,
            _are_rows(self.shape), panels, product.steps, *target, out.shape[-1], *start,
            *(target if mask is None else flat_rows(mask)), way, by_rows, by_vectors,
            self._nothing, gathered.reshape(self._threads, -1),
        )  # fmt: skip


def _is_streamed(target: tuple[AnyArray, int], out: AnyArray, start: AnyArray) -> bool:
    """Tell whether to write past the caches, in whole vectors of memory."""
    flat, distance = target
    is_whole = out.shape[-1] % LANES == 0 and distance % LANES == 0
    return is_whole and streamed(flat, out.nbytes, start)


def _are_rows(shape: ConvolutionShape) -> bool:
    """Tell whether the pixels of the images are the rows of the product."""
    return (shape.kernel, shape.stride, shape.padding) == ((1, 1), (1, 1), (0, 0))


def _tiles(last: int) -> Tiles:
    """Return the functions of tiles, with `last` rows left over."""
    ends = [PANELS.address(last, columns) if last else NO_TILE for columns in (2, 1)]
    return Tiles(PANELS.address(ROWS, 2), PANELS.address(ROWS, 1), *ends)


def _offsets(shape: ConvolutionShape) -> list[tuple[int, int]]:
    """Return where each tap looks, from the first pixel of a window without padding."""
    return [
        (r * shape.dilation[0] - shape.padding[0], s * shape.dilation[1] - shape.padding[1])
        for r, s in np.ndindex(shape.kernel)
    ]


def _runs(offsets: list[tuple[int, int]], taps: int = 1) -> Any:
    """Return a run for each tap, or for so many neighbouring taps."""
    rows = [(*offsets[number], taps) for number in range(0, len(offsets), taps)]
    return np.array(rows, np.int64).reshape(-1, 3)


def _product(shape: ConvolutionShape, channels: int) -> _Product:
    """Return the forward pass."""
    grid = Grid(
        shape.images, shape.lines, shape.pixels, shape.height, shape.width, *shape.stride,
        0, 0, 1, 1, shape.lines, shape.pixels,
    )  # fmt: skip
    taps = shape.kernel[0] * shape.kernel[1]
    # Taps of a line with few channels are neighbours in memory.
    few = shape.dilation[1] == 1 and shape.groups == 1 and channels < LANES
    runs = _runs(_offsets(shape), shape.kernel[1] if few else 1)
    return _Product(grid, np.arange(taps), runs, taps * channels)


def _backward_products(shape: ConvolutionShape, filters: int) -> Iterator[_Product]:
    """Yield backward-data: pixels of the images, by their place between strides.

    Pixel y of the images is in window (y + padding - tap * dilation) / stride, if that is whole.
    """
    for first_y, first_x in np.ndindex(shape.stride):
        firsts = first_y, first_x
        if first_y >= shape.height or first_x >= shape.width:
            continue
        slots = np.full(shape.kernel, -1, np.int64)
        offsets: list[tuple[int, int]] = []
        for tap in np.ndindex(shape.kernel):
            places = [firsts[i] + shape.padding[i] - tap[i] * shape.dilation[i] for i in range(2)]
            if all(place % shape.stride[i] == 0 for i, place in enumerate(places)):
                slots[tap] = len(offsets)
                offsets.append((places[0] // shape.stride[0], places[1] // shape.stride[1]))
        extents = shape.height, shape.width
        lines, pixels = (-(-(extents[i] - firsts[i]) // shape.stride[i]) for i in range(2))
        grid = Grid(
            shape.images, lines, pixels, shape.lines, shape.pixels, 1, 1, first_y, first_x,
            *shape.stride, shape.height, shape.width,
        )  # fmt: skip
        yield _Product(grid, slots.reshape(-1), _runs(offsets), len(offsets) * filters)
