"""Convolution 3x3 or 5x5, stride 1, by Winograd's minimal filtering F(m x m, r x r), m = 2 or 4.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308: 2.25 or 4
times fewer multiplications for 3x3, 2.8 or 6.25 times fewer for 5x5, at the price of transforms and
of rounding errors (see the tests). The tiles at the ends of a map have only the pixels that exist.
"""

from __future__ import annotations

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import (
    IMAGE_LANES,
    STORED,
    AnyArray,
    aligned_zeros,
    padded_images,
    pixels,
)
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.operand_checks import Operands
from vectorized_ops.numba.grouped_winograd import (
    MOST_GROUPS,
    OUTPUTS,
    GroupedWinograd,
    is_square,
)
from vectorized_ops.numba.kernels.convolution.destination import destination
from vectorized_ops.numba.kernels.convolution.direct import tile_rows, weights_step
from vectorized_ops.numba.kernels.convolution.weights_gradient import (
    PANEL,
    gather_bias,
    panels_of,
    sums_size,
)
from vectorized_ops.numba.kernels.convolution.winograd import (
    CHANNELS_AT_ONCE,
    GAP,
    PIECE,
    square_kernel,
    square_weights_kernel,
)
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import items_of
from vectorized_ops.numba.kernels.convolution.winograd_weights_gradient import (
    square_sums_kernel,
    square_taps_kernel,
)
from vectorized_ops.shapes import ConvolutionShape

LEAST_PIECE = 16
"""Images of an item of backward-weights where the batch is no multiple of PIECE."""

CACHED_BYTES = 2**19
"""Of points and products that a thread holds at a time, roughly, where more have no use."""

SUMS_BYTES = 64 << 20
"""What all threads' sums may take in backward-weights, where they can share them."""

MOST_AT_ONCE = 8
"""Items that a thread holds at a time."""


def multiplies_pairs(outputs: int, taps: int) -> bool:
    """Whether F(m x m, r x r) of bfloat16 multiplies in it: rounded points of others lose too much.

    The numbers of its transforms are 1 and 1/2.
    """
    return (outputs, taps) == (2, 3)


class WinogradConvolution(GroupedWinograd):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    All directions by F(outputs x outputs, r x r), backward-weights by its adjoint. Of arrays in
    bfloat16 F(2x2, 3x3) multiplies in bfloat16, the others in float32. Raises OperationError for
    kernels other than 3x3 and 5x5, strides, dilations, more than 4 groups, padding as wide as the
    kernel, and outputs other than 2 and 4.
    """

    def __init__(self, shape: ConvolutionShape, outputs: int = 4) -> None:
        if not is_square(shape) or outputs not in OUTPUTS:
            raise OperationError(
                f"Winograd F({outputs}x{outputs}) was asked for {shape}: expected outputs 2 or 4, "
                f"kernel 3x3 or 5x5, stride 1, dilation 1, at most {MOST_GROUPS} groups, padding "
                "narrower than the kernel; use Convolution"
            )
        super().__init__(shape, outputs, Operands(shape))
        self._panels = panels_of(self._group.filters, 1)
        self._images = padded_images(shape.images)
        widest = max(self._group.channels, self._group.filters)
        self._zeros = aligned_zeros((widest * self._images,))
        self._piece = PIECE if self._images % PIECE == 0 else LEAST_PIECE
        self._kernels = aligned_zeros((self._threads, CHANNELS_AT_ONCE * self._taps**2, LANES))
        self._results = {
            backward: items_of(size, outputs, self._taps, self._images, PIECE, self._threads)
            for backward, size in ((False, shape.outputs[1:3]), (True, shape.inputs[1:3]))
        }
        self._shares = self._shares_of_sums()
        self._gradients = items_of(
            shape.outputs[1:3], outputs, self._taps, self._images, self._piece, self._shares
        )

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        shape = self._group
        forward = self._sizes(shape.filters, shape.channels, shape.outputs)
        backward = self._sizes(shape.channels, shape.filters, shape.inputs)
        return max(sum(forward), sum(backward), sum(self._sums_sizes()))

    def _sum_up(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        shape, panels = self._group, self._panels
        rows = tile_rows(shape.channels)
        sizes = self._sums_sizes()
        pieces = np.split(self._memory(sum(sizes)), np.cumsum(sizes)[:-1])
        sums, bias_sums = (piece.reshape(self._shares, -1) for piece in pieces[:2])
        transformed, turned, turned_points = (
            piece.reshape(self._threads, -1) for piece in pieces[2:]
        )
        whole = self._images % (2 * IMAGE_LANES) == 0
        pairs = whole and self._multiplies_pairs(images, gradient)
        items = self._gradients
        (source, distance), nothing = pixels(images), self._zeros.view(images.dtype)
        stored = bfloat16_among(images=source, zeros=nothing)
        square_sums_kernel(
            self._outputs, self._taps, rows, self._piece, items.ends, panels.columns, stored, pairs
        )(
            source, distance, images.shape[1:3], shape.channels, *pixels(gradient),
            gradient.shape[1:3], shape.filters, self._images, shape.padding, panels.starts,
            panels.widths, sums, bias_sums,
            transformed.view(STORED) if pairs else transformed, transformed, turned,
            turned_points, nothing,
            self._at_once(shape.filters, shape.channels, shape.outputs), items.table, items.parts,
        )  # fmt: skip
        square_taps_kernel(self._outputs, self._taps)(
            sums, rows, shape.channels, panels.starts, panels.widths, panels.of_filter,
            self._kernels, weights_out.reshape(-1),
        )  # fmt: skip
        if bias_out is not None:
            gather_bias(bias_sums, panels.starts, panels.of_filter, bias_out)

    def _convolve(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray,
        out: AnyArray,
        padding: tuple[int, int],
        mask: AnyArray | None,
        mode: int,
        backward: bool,
    ) -> None:
        channels, filters = inputs.shape[3], out.shape[3]
        rows = tile_rows(filters)
        sizes = self._sizes(filters, channels, out.shape)
        memory = self._memory(sum(sizes))
        points, transformed, products = np.split(memory, np.cumsum(sizes)[:-1])
        pairs = self._multiplies_pairs(inputs) and channels % 2 == 0
        square_weights_kernel(self._outputs, self._taps)(
            weights.reshape(-1), points, rows, filters, channels, backward, self._kernels,
            self._points, pairs,
        )  # fmt: skip
        source, distance = pixels(inputs)
        target, masking, mode = destination(out, mask, mode, source)
        items = self._results[backward]
        nothing = self._zeros.view(source.dtype)
        square_kernel(
            self._outputs, self._taps, rows, items.ends, self._images,
            bfloat16_among(images=source, zeros=nothing),
            bfloat16_among(out=target[0], mask=masking[0]), pairs,
        )(
            source, distance, inputs.shape[1:3], channels, points, bias, *target,
            out.shape[1:3], filters, self._images, padding, *masking, mode,
            transformed.reshape(self._threads, -1).view(STORED if pairs else np.float32),
            products.reshape(self._threads, -1), nothing,
            self._at_once(filters, channels, out.shape), items.table,
            items.parts,
        )  # fmt: skip

    def _multiplies_pairs(self, *arrays: AnyArray) -> bool:
        rounded = all(array.dtype == STORED for array in arrays)
        return rounded and multiplies_pairs(self._outputs, self._taps)

    def _at_once(self, filters: int, channels: int, out: tuple[int, ...]) -> int:
        """Items whose points are in work together, while the weights pass by once.

        So many that they come to half of the weights in size, but not fewer than the cache holds,
        nor more than a thread has of its own for results of shape `out`.
        """
        across, down = (-(-side // self._outputs) for side in out[1:3])
        items = across * down * -(-self._images // self._piece)
        per_item = self._points * (filters + channels) * PIECE * 4
        of_weights = filters * channels // (2 * (filters + channels) * PIECE)
        most = min(MOST_AT_ONCE, -(-items // self._threads))
        return int(np.clip(CACHED_BYTES // per_item, min(most, max(1, of_weights)), most))

    def _sizes(self, filters: int, channels: int, out: tuple[int, ...]) -> tuple[int, int, int]:
        """Floats of transformed weights, of all threads' points, and of their products."""
        rows = tile_rows(filters)
        images = self._at_once(filters, channels, out) * PIECE
        points = self._threads * self._points
        return (
            self._points * weights_step(-(-filters // rows), rows, channels),
            points * (images * channels + GAP),
            points * (images * filters + GAP),
        )

    def _sums_sizes(self) -> tuple[int, int, int, int, int]:
        """Floats of all sums, sums of biases, threads' points, turned pixels and their points."""
        shape = self._group
        at_once = self._at_once(shape.filters, shape.channels, shape.outputs)
        columns, panel = len(self._panels.starts), self._piece * PANEL
        return (
            self._shares * self._share_of_sums(),
            self._shares * columns * PANEL,
            self._threads * self._points * (at_once * shape.channels * self._piece + GAP),
            self._threads * self._outputs**2 * panel,
            self._threads * self._points * (at_once * panel + GAP),
        )

    def _share_of_sums(self) -> int:
        return self._points * sums_size(self._group, self._panels) // self._taps**2

    def _shares_of_sums(self) -> int:
        """Return how many sums there are: one for each thread, unless they came to too much."""
        panels = len(self._panels.starts)
        teams = [team for team in range(1, self._threads + 1) if self._threads % team == 0]
        useful = [team for team in teams if team <= panels]
        for team in useful:
            if 4 * self._share_of_sums() * (self._threads // team) <= SUMS_BYTES:
                return self._threads // team
        return self._threads // useful[-1]
