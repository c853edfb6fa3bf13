"""The gradient of weights whose filters have few channels each: one lane is one image.

The sums of a weight are a vector over images. So no lane is idle where a group has fewer filters
than a vector has lanes, down to one (depthwise convolution).
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.compiling.tile_functions import TileFunction, table_of
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.kernels.convolution.depthwise import weights_gradient
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import DEPTHWISE_WEIGHTS, MOST_PIXELS
from vectorized_ops.numba.kernels.convolution.direct import split_threads
from vectorized_ops.numba.kernels.convolution.windows import Windows, reach, windows, windows_take
from vectorized_ops.shapes import ConvolutionShape

RING_BYTES = 384 * 1024
"""What the lines under a window may take of the second-level cache."""

BLOCK_BYTES, _LEAST_BLOCK = 4096, 4
"""What is read of a pixel at once, and its least channels: shorter pieces are slow to come."""

_LEAST_STRIP = 8
"""Columns of a strip, by those of a window: what lies under two strips is read twice."""


def channel_sums_take(shape: ConvolutionShape) -> bool:
    """Tell whether groups have as many filters as channels, half of a vector's lanes at most."""
    square = shape.channels == shape.filters and shape.groups > 1
    return square and shape.channels // shape.groups <= LANES // 2 and windows_take(shape)


def depthwise_takes(shape: ConvolutionShape) -> bool:
    """Tell whether each of several channels has one filter, and the windows suit the kernels."""
    return shape.groups == shape.channels == shape.filters > 1 and windows_take(shape)


class ChannelSums:
    """Writes the gradients of weights and bias of a shape that `channel_sums_take`.

    A block of channels, of which a ring has pixels of `step` floats, is taken through the strips of
    `windows`; `tables` (threads, ...) are those of the tiles.
    Results are the same to the last bit for a given number of threads.
    """

    def __init__(self, shape: ConvolutionShape, threads: int) -> None:
        self._shape, self._threads = shape, threads
        self._images, self._group = padded_images(shape.images), shape.channels // shape.groups
        self._taps = shape.kernel[0] * shape.kernel[1]
        self._no_bias = aligned_zeros((0,))
        self.block = channel_block(shape, self._images)
        self.step = pixel_step(self.block, self._images)
        self.windows = strips_of(shape, False, self.step)
        columns = reach(MOST_PIXELS, shape.kernel[1], shape.stride[1])
        self.tables = np.zeros((threads, shape.kernel[0] * (columns + 1)), np.int64)
        self._totals = np.zeros((threads, shape.filters * self._group, self._taps + 1))

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that `write` needs."""
        return self._threads * (self._ring_size + self._sums_size)

    @property
    def _ring_size(self) -> int:
        return ring_size(self.windows, self.step)

    @property
    def _sums_size(self) -> int:
        return self.block * self._group * (self._taps + 1) * LANES

    def write(
        self,
        images: AnyArray,
        gradient: AnyArray,
        memory: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write both gradients; `memory` has `scratch_size` floats."""
        found, (source, distance), threads = self.windows, pixels(images), self._threads
        rings = threads * self._ring_size
        buffers, sums = memory[:rings], memory[rings : rings + threads * self._sums_size]
        blocks = -(-self._shape.channels // self.block)
        above, above_distance = pixels(gradient)
        stored = bfloat16_among(gradient=above, coming=source)
        weights_gradient(
            tile_addresses(DEPTHWISE_WEIGHTS, found, stored), found.groups, found.strips, found.met,
            found.first, found.count, found.lowest, above, above_distance, self._shape.pixels,
            found.step, self._images, source, distance, self._shape.width,
            buffers.reshape(threads, -1), found.span, found.width,
            self.step, self._shape.kernel[1], self.tables, self._group, self.block,
            *split_threads(threads, self._shape.lines, blocks),
            sums.reshape(threads, -1), self._totals, weights_out.reshape(-1),
            self._no_bias if bias_out is None else bias_out,
        )  # fmt: skip


def channel_block(shape: ConvolutionShape, images: int) -> int:
    """Return the channels of a block, whole groups.

    Fewer where a window is so large that strips were narrow.
    """
    around = (shape.kernel[1] - 1) * shape.dilation[1]
    columns = max(1, min(shape.width, _LEAST_STRIP * around))
    floats = min(BLOCK_BYTES, RING_BYTES // (_lines_under(shape) * columns)) // 4
    group = shape.channels // shape.groups
    most = max(floats // images, _LEAST_BLOCK) // group or 1
    return -(-shape.groups // -(-shape.groups // most)) * group


def strips_of(shape: ConvolutionShape, backward: bool, step: int) -> Windows:
    """Return the windows of a shape in strips that a ring with pixels of `step` has room for."""
    return windows(shape, backward, MOST_PIXELS, RING_BYTES // (4 * step * _lines_under(shape)))


def pixel_step(block: int, images: int) -> int:
    """Return the floats from a pixel of a ring to the next: an odd number of lines of a cache."""
    return (block * images // IMAGE_LANES | 1) * IMAGE_LANES


def ring_size(found: Windows, step: int) -> int:
    """Return the floats of a ring, and of the zeros behind it."""
    return (found.span * found.width + 1) * step


def tile_addresses(
    function: TileFunction, found: Windows, bfloat16: tuple[str, ...] = ()
) -> AnyArray:
    """Return the address of each group's tile; that of any for a group without inputs.

    Its arrays named in `bfloat16` are of that type.
    """
    return table_of(
        *(
            function.address(number, max(columns, 1), found.stride, bfloat16=bfloat16)
            for number, columns in found.sizes
        )
    )


def _lines_under(shape: ConvolutionShape) -> int:
    """Return the lines of inputs from the first to the last under a window."""
    return (shape.kernel[0] - 1) * shape.dilation[0] + 1
