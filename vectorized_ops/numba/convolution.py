"""Convolution in register tiles over memory (H, W, C, N); one lane is one image."""

from __future__ import annotations

import math

import numba
import numpy as np

from vectorized_ops.layout import AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.kernels.convolution.destination import destination
from vectorized_ops.numba.kernels.convolution.direct import (
    correlation_kernel,
    pack_weights,
    pixel_block,
    split_threads,
    tile_rows,
)
from vectorized_ops.numba.kernels.convolution.direct_tiles import ADD, MASK, RELU
from vectorized_ops.numba.kernels.convolution.few_channels import (
    bordered_size,
    copy_with_borders,
    widened,
    widens,
)
from vectorized_ops.numba.kernels.convolution.taps import TapTables, backward_tables, forward_tables
from vectorized_ops.numba.kernels.convolution.weights_gradient import (
    PANEL,
    divide,
    gather_bias,
    gather_sums,
    outer_product_kernel,
    panels_of,
    sums_size,
)
from vectorized_ops.numba.moments import Moments
from vectorized_ops.shapes import ConvolutionShape


class Convolution(ScratchUser):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    Any kernel, stride, padding, dilation and groups; N is rounded up to whole vectors. Weights are
    packed anew in every call. Results are the same to the last bit for a given number of threads.
    """

    gives_moments = True
    """`forward` takes what `moments` makes: the statistics of its results cost no reading."""

    def __init__(self, shape: ConvolutionShape) -> None:
        self.shape, self._operands = shape, Operands(shape)
        self._images, self._threads = padded_images(shape.images), numba.get_num_threads()
        self._no_bias = aligned_zeros((max(shape.channels, shape.filters),))
        self._no_moments = Moments(self._threads, self._images, 0, 0)
        self._panels = panels_of(shape.filters, shape.groups)
        self._summed = widened(shape) if widens(shape) else shape
        self._division = divide(shape, len(self._panels.starts), self._threads)
        self._tables: dict[tuple[bool, int], TapTables] = {}

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        group = self.shape.groups
        packed = [
            self._packed_size(self.shape.filters // group, self.shape.channels // group),
            self._packed_size(self.shape.channels // group, self.shape.filters // group),
        ]
        return max(*packed, sum(self._sizes()))

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
        shape, division, panels = self._summed, self._division, self._panels
        channels = shape.channels // shape.groups
        rows = tile_rows(channels)
        sums, bias_sums, turned, bordered = self._pieces()
        source, distance = pixels(images)
        size = self.shape.height, self.shape.width
        if len(bordered):
            pixel, whole = self.shape.channels * self._images, bordered_size(self.shape)
            copy_with_borders(
                source, distance, size, self.shape.padding, pixel, bordered, whole, self._threads
            )
            source, distance, size = bordered, pixel, whole
        outer_product_kernel(rows, self._images, panels.columns)(
            source, distance, *pixels(gradient), sums, bias_sums, turned,
            panels.starts, panels.widths, shape.filters, channels, shape.groups,
            size, (shape.lines, shape.pixels), shape.kernel,
            shape.stride, shape.padding, shape.dilation, (division.lines, division.pixels),
            division.by_pixels, division.by_filters,
        )  # fmt: skip
        gather_sums(
            sums, rows, channels, shape.kernel[0] * shape.kernel[1],
            self.shape.kernel[1] // shape.kernel[1], panels.starts, panels.widths,
            panels.of_filter, weights_out.reshape(-1),
        )  # fmt: skip
        if bias_out is not None:
            gather_bias(bias_sums, panels.starts, panels.of_filter, bias_out)

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
        pack_weights(
            weights.reshape(-1), packed, rows, shape.groups, filters, channels, *shape.kernel,
            backward,
        )  # fmt: skip
        source, distance = pixels(inputs)
        tables = self._tables_for(backward, distance)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        by_pixels, by_blocks = split_threads(
            self._threads, len(tables.classes), shape.groups * blocks
        )
        correlation_kernel(rows, images)(
            *target, images, filters, shape.groups, source, channels * images,
            packed, channels * shape.kernel[0] * shape.kernel[1], bias, tables.segments,
            tables.first, tables.count, tables.classes, tables.bases, *masking, mode,
            pixel_block(shape.kernel[0], channels, images), by_pixels, by_blocks,
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

    def _sizes(self) -> tuple[int, int, int, int]:
        """Floats of all sums, sums of biases, turned panels, and of images with borders."""
        division, wide = self._division, self._summed is not self.shape
        panel = division.lines * division.pixels * self._images * PANEL
        bordered = math.prod(bordered_size(self.shape)) * self.shape.channels * self._images
        return (
            division.by_pixels * sums_size(self._summed, self._panels),
            division.by_pixels * len(self._panels.starts) * PANEL,
            self._threads * panel,
            bordered * wide,
        )

    def _pieces(self) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        sizes, share = self._sizes(), self._division.by_pixels
        sums, bias_sums, turned, bordered = np.split(
            self._memory(sum(sizes)), np.cumsum(sizes)[:-1]
        )
        return (
            sums.reshape(share, -1),
            bias_sums.reshape(share, -1),
            turned.reshape(self._threads, -1),
            bordered,
        )
