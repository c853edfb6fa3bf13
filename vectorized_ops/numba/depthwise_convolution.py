"""Depthwise convolution, whose filters have one channel each, at the speed of memory."""

from __future__ import annotations

import numba
import numpy as np

from vectorized_ops.layout import IMAGE_LANES, AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.compiling.tile_functions import TileFunction
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.kernels.convolution.depthwise import correlate, weights_gradient
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import (
    DEPTHWISE,
    DEPTHWISE_WEIGHTS,
    MOST_PIXELS,
)
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU, destination
from vectorized_ops.numba.kernels.convolution.direct import split_threads
from vectorized_ops.numba.kernels.convolution.windows import (
    reach,
    windows,
    windows_take,
)
from vectorized_ops.numba.moments import Moments
from vectorized_ops.shapes import ConvolutionShape

RING_BYTES = 384 * 1024
"""What the lines under a window may take of the second-level cache."""

BLOCK_BYTES, _LEAST_BLOCK = 4096, 4
"""What is read of a pixel at once, and its least channels: shorter pieces are slow to come."""

_LEAST_STRIP = 8
"""Columns of a strip, by those of a window: what lies under two strips is read twice."""


def depthwise_takes(shape: ConvolutionShape) -> bool:
    """Tell whether each of several channels has one filter, and the windows suit the kernels."""
    return shape.groups == shape.channels == shape.filters > 1 and windows_take(shape)


class DepthwiseConvolution(ScratchUser):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    For shapes that `depthwise_takes`. The weights are read as they are. Results are the same to the
    last bit for a given number of threads.
    """

    gives_moments = True
    """`forward` takes what `moments` makes: the statistics of its results cost no reading."""

    def __init__(self, shape: ConvolutionShape) -> None:
        self.shape, self._operands = shape, Operands(shape)
        self._images, self._threads = padded_images(shape.images), numba.get_num_threads()
        self._taps = shape.kernel[0] * shape.kernel[1]
        self._no_bias = aligned_zeros((shape.channels,))
        self._no_moments = Moments(self._threads, self._images, 0, 0)
        self._block = _channel_block(shape, self._images)
        room = RING_BYTES // (4 * self._step * _lines_under(shape))
        self._windows = [windows(shape, backward, MOST_PIXELS, room) for backward in (False, True)]
        self._totals = np.zeros((self._threads, shape.channels, self._taps + 1))
        columns = reach(MOST_PIXELS, shape.kernel[1], shape.stride[1])
        self._tables = np.zeros((self._threads, shape.kernel[0] * (columns + 1)), np.int64)

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return self._threads * (max(map(self._ring_size, (False, True))) + self._sums_size)

    @property
    def _sums_size(self) -> int:
        return self._block * (self._taps + 1) * LANES

    @property
    def _step(self) -> int:
        """Floats from a pixel of a ring to the next: an odd number of lines of a cache."""
        return (self._block * self._images // IMAGE_LANES | 1) * IMAGE_LANES

    def _ring_size(self, backward: bool) -> int:
        """Floats of a ring, and of the zeros behind it."""
        return (self._windows[backward].span * self._windows[backward].width + 1) * self._step

    def moments(self, images: int) -> Moments:
        """Make what `forward` gathers the moments of results in, the first `images` being real."""
        return Moments(self._threads, self._images, images, self.shape.filters)

    def forward(
        self,
        images: AnyArray,
        weights: AnyArray,
        bias: AnyArray | None,
        out: AnyArray,
        relu: bool = False,
        moments: Moments | None = None,
    ) -> None:
        """Write the correlation of images and weights, plus bias, cut off at zero with `relu`.

        `moments` are given those of the results before they are cut off.
        """
        self._operands.check(images, out, weights, bias)
        if moments is not None:
            moments.check(self._threads, self._images, self.shape.filters)
        given = self._no_bias if bias is None else bias
        self._correlate(images, weights, given, out, None, RELU * relu, False, moments)

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
        mode = ADD * add | MASK * (mask is not None)
        self._correlate(gradient, weights, self._no_bias, out, mask, mode, True)

    def backward_weights(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        """Write the gradients of weights and, unless it is None, of the bias."""
        self._operands.check(images, gradient, weights_out, bias_out)
        found, (source, distance) = self._windows[False], pixels(images)
        buffers, sums = self._buffers(False)
        weights_gradient(
            self._tiles(DEPTHWISE_WEIGHTS, False), found.groups, found.strips, found.met,
            found.first, found.count, found.lowest, *pixels(gradient), self.shape.pixels,
            found.step, self._images, source, distance, self.shape.width, buffers, found.span,
            found.width, self._step, self.shape.kernel[1], self._tables, self._block,
            *self._split(self.shape.lines), sums, self._totals, weights_out.reshape(-1),
            self._no_bias[:0] if bias_out is None else bias_out,
        )  # fmt: skip

    def _correlate(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray,
        out: AnyArray,
        mask: AnyArray | None,
        mode: int,
        backward: bool,
        moments: Moments | None = None,
    ) -> None:
        shape, found = self.shape, self._windows[backward]
        (source, distance), (buffers, _) = pixels(inputs), self._buffers(backward)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        lines, width = (shape.height, shape.width) if backward else (shape.lines, shape.pixels)
        correlate(
            self._tiles(DEPTHWISE, backward), found.groups, found.strips, found.met, found.first,
            found.count, found.lowest, *target, width, found.step, self._images, source, distance,
            shape.pixels if backward else shape.width, buffers, found.span, found.width, self._step,
            weights.reshape(-1), shape.kernel[1], found.turn, bias, *masking, mode, self._tables,
            self._block, *self._split(lines), moments is not None, gathered.sums, gathered.pivots,
            gathered.totals, gathered.real, gathered.images,
        )  # fmt: skip

    def _buffers(self, backward: bool) -> tuple[AnyArray, AnyArray]:
        """Return the rings of all threads, and their sums."""
        rings = self._threads * self._ring_size(backward)
        memory = self._memory(rings + self._threads * self._sums_size)
        return memory[:rings].reshape(self._threads, -1), memory[rings:].reshape(self._threads, -1)

    def _split(self, lines: int) -> tuple[int, int]:
        return split_threads(self._threads, lines, -(-self.shape.channels // self._block))

    def _tiles(self, function: TileFunction, backward: bool) -> AnyArray:
        """Return the address of each group's tile; that of any for a group without inputs."""
        found = self._windows[backward]
        addresses = [
            function.address(number, max(columns, 1), found.stride)
            for number, columns in found.sizes
        ]
        return np.array(addresses)


def _lines_under(shape: ConvolutionShape) -> int:
    """Return the lines of inputs from the first to the last under a window."""
    return (shape.kernel[0] - 1) * shape.dilation[0] + 1


def _channel_block(shape: ConvolutionShape, images: int) -> int:
    """Return the channels of a block: fewer where a window is so large that strips were narrow."""
    around = (shape.kernel[1] - 1) * shape.dilation[1]
    columns = max(1, min(shape.width, _LEAST_STRIP * around))
    floats = min(BLOCK_BYTES, RING_BYTES // (_lines_under(shape) * columns)) // 4
    most = max(floats // images, _LEAST_BLOCK)
    return -(-shape.channels // -(-shape.channels // most))
