"""Depthwise convolution, whose filters have one channel each, at the speed of memory."""

from __future__ import annotations

import numba

from vectorized_ops.layout import AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.channel_sums import (
    ChannelSums,
    ring_size,
    strips_of,
    tile_addresses,
)
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.kernels.convolution.depthwise import correlate
from vectorized_ops.numba.kernels.convolution.depthwise_tiles import DEPTHWISE
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU, destination
from vectorized_ops.numba.kernels.convolution.direct import split_threads
from vectorized_ops.numba.moments import Moments
from vectorized_ops.shapes import ConvolutionShape


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
        self._no_bias = aligned_zeros((shape.channels,))
        self._no_moments = Moments(self._threads, self._images, 0, 0)
        self._sums = ChannelSums(shape, self._threads)
        self._block, self._step = self._sums.block, self._sums.step
        self._windows = [self._sums.windows, strips_of(shape, True, self._step)]

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        rings = self._threads * max(ring_size(each, self._step) for each in self._windows)
        return max(rings, self._sums.scratch_size)

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
        memory = self._memory(self._sums.scratch_size)
        self._sums.write(images, gradient, memory, weights_out, bias_out)

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
        (source, distance), rings = pixels(inputs), self._threads * ring_size(found, self._step)
        buffers = self._memory(rings).reshape(self._threads, -1)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        lines, width = (shape.height, shape.width) if backward else (shape.lines, shape.pixels)
        stored = bfloat16_among(out=target[0], mask=masking[0], coming=source)
        correlate(
            tile_addresses(DEPTHWISE, found, stored), found.groups, found.strips, found.met,
            found.first, found.count, found.lowest, *target, width, found.step, self._images,
            source, distance, shape.pixels if backward else shape.width, buffers, found.span,
            found.width, self._step, weights.reshape(-1), shape.kernel[1], found.turn, bias,
            *masking, mode, self._sums.tables, self._block,
            *split_threads(self._threads, lines, -(-shape.channels // self._block)),
            moments is not None, gathered.sums, gathered.pivots, gathered.totals, gathered.real,
            gathered.images,
        )  # fmt: skip
