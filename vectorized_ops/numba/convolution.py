"""Convolution in register tiles over memory (H, W, C, N); one lane is one image."""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from vectorized_ops.layout import STORED, AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.channel_sums import ChannelSums, channel_sums_take
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.evened_convolution import EvenedForward, evens
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU, destination
from vectorized_ops.numba.kernels.convolution.direct import (
    correlation_kernel,
    pack_weights,
    pixel_block,
    split_threads,
    tile_rows,
)
from vectorized_ops.numba.kernels.convolution.taps import TapTables, backward_tables, forward_tables
from vectorized_ops.numba.moments import Moments
from vectorized_ops.numba.weights_gradient import WeightsGradient, is_quicker_turned
from vectorized_ops.shapes import ConvolutionShape


class Convolution(ScratchUser):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    Any kernel, stride, padding, dilation and groups; N is rounded up to whole vectors. Weights are
    packed anew in every call. Results are the same to the last bit for a given number of threads.
    Products are those of bfloat16 where activations are, in pairs of channels or of images.
    `kept` is the type of activations.
    """

    gives_moments = True
    """`forward` takes what `moments` makes: the statistics of its results cost no reading."""

    def __init__(self, shape: ConvolutionShape, kept: npt.DTypeLike = np.float32) -> None:
        self.shape, self._operands = shape, Operands(shape)
        self._images, self._threads = padded_images(shape.images), numba.get_num_threads()
        self._no_bias = aligned_zeros((max(shape.channels, shape.filters),))
        self._no_moments = Moments(self._threads, self._images, 0, 0)
        self._sums: WeightsGradient | ChannelSums
        if channel_sums_take(shape):
            self._sums = ChannelSums(shape, self._threads)
        else:
            self._sums = WeightsGradient(shape, self._threads)
        self._turned: WeightsGradient | None = None
        if is_quicker_turned(shape):
            self._turned = WeightsGradient(shape, self._threads, turned=True)
        self._tables: dict[tuple[bool, int], TapTables] = {}
        self._evened = EvenedForward(shape, Convolution) if evens(shape, np.dtype(kept)) else None

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        group = self.shape.groups
        backward = self._packed_size(self.shape.channels // group, self.shape.filters // group)
        ways = (self._turned, self._evened, self._sums)
        return max(
            self.forward_size, backward, *(way.scratch_size for way in ways if way is not None)
        )

    @property
    def forward_size(self) -> int:
        """Floats of scratch memory that the forward pass needs."""
        group = self.shape.groups
        return self._packed_size(self.shape.filters // group, self.shape.channels // group)

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
        if self._evened is not None and images.dtype == STORED:
            memory = self._memory(self._evened.scratch_size)
            self._evened.forward(images, weights, bias, out, relu, moments, memory, self._threads)
            return
        filters, channels = (count // self.shape.groups for count in self._counts())
        given = self._no_bias if bias is None else bias
        self._correlate(
            images, weights, given, out, filters, channels, None, RELU * relu, False, moments
        )

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
        filters, channels = (count // self.shape.groups for count in self._counts())
        mode = ADD * add | MASK * (mask is not None)
        self._correlate(
            gradient, weights, self._no_bias, out, channels, filters, mask, mode, True
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
        way = self._turned if self._turned is not None and bias_out is None else self._sums
        way.write(images, gradient, self._memory(way.scratch_size), weights_out, bias_out)

    def _correlate(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray,
        out: AnyArray,
        filters: int,
        channels: int,
        mask: AnyArray | None,
        mode: int,
        backward: bool,
        moments: Moments | None = None,
    ) -> None:
        shape, images = self.shape, self._images
        rows = tile_rows(filters)
        blocks = -(-filters // rows)
        packed = self._memory(self._packed_size(filters, channels))
        pairs = inputs.dtype == STORED and channels % 2 == 0
        pack_weights(
            weights.reshape(-1), packed, rows, shape.groups, filters, channels, *shape.kernel,
            backward, pairs,
        )  # fmt: skip
        source, distance = pixels(inputs)
        tables = self._tables_for(backward, distance)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        by_pixels, by_blocks = split_threads(
            self._threads, len(tables.classes), shape.groups * blocks
        )
        stored = bfloat16_among(inputs=source, out=target[0], mask=masking[0], coming=source)
        correlation_kernel(rows, images, pairs, stored)(
            *target, images, filters, shape.groups, source, channels * images,
            packed, channels * shape.kernel[0] * shape.kernel[1], bias, tables.segments,
            tables.first, tables.count, tables.classes, tables.bases, *masking, mode,
            pixel_block(shape.kernel[0], channels, images, source.itemsize), by_pixels, by_blocks,
            moments is not None, gathered.sums, gathered.pivots, gathered.totals, gathered.real,
            gathered.images,
        )  # fmt: skip

    def _counts(self) -> tuple[int, int]:
        return self.shape.filters, self.shape.channels

    def _tables_for(self, backward: bool, distance: int) -> TapTables:
        key = backward, distance
        if key not in self._tables:
            tables = backward_tables if backward else forward_tables
            self._tables[key] = tables(self.shape, distance, self._images)
        return self._tables[key]

    def _packed_size(self, filters: int, channels: int) -> int:
        rows = tile_rows(filters)
        taps = self.shape.kernel[0] * self.shape.kernel[1]
        return self.shape.groups * -(-filters // rows) * rows * channels * taps
