"""1x1 convolution by Strassen's algorithm, for many channels: 7 multiplications instead of 8."""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numba
import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros, padded_images, pixels
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.operand_checks import FLOAT_ONLY, Operands
from vectorized_ops.numba.emit.scratch import ScratchUser
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, RELU, destination
from vectorized_ops.numba.kernels.convolution.direct import (
    PANEL_BYTES,
    TILE_COLUMNS,
    split_threads,
    tile_rows,
    weights_step,
)
from vectorized_ops.numba.kernels.convolution.strassen import (
    INPUT_SUMS,
    PARTIAL_SUMS,
    PARTS,
    pack_parts,
    strassen_kernel,
)
from vectorized_ops.numba.moments import Moments
from vectorized_ops.shapes import ConvolutionShape

LEAST_SIZE = 64
"""Channels and filters from which on it is measured; it gains from about twice as many on."""

_PLAIN = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0), "groups": 1}


def strassen_takes(shape: ConvolutionShape) -> bool:
    """Tell whether the shape is one that `StrassenConvolution` takes."""
    plain = replace(shape, **_PLAIN) == shape  # type: ignore[arg-type]
    sizes = shape.channels, shape.filters
    halves = all(size % 2 == 0 and size >= LEAST_SIZE for size in sizes)
    whole = padded_images(shape.images) % (TILE_COLUMNS * LANES) == 0
    return plain and halves and whole and shape.height * shape.width > 1


@final
class StrassenConvolution(ScratchUser):
    """See `vectorized_ops.reference.convolution.Convolution`; images run fastest in memory.

    Forward and backward-data by one level of Strassen's algorithm, see `convolution.strassen`. A
    NaN or infinity in images affects two pixels; in weights it also affects the results half of all
    filters, or channels, away. Raises OperationError for kernels other than 1x1, strides, padding,
    groups, channels or filters that are odd or few, images that do not fill pairs of vectors, and a
    single pixel.
    """

    gives_moments = True
    """`forward` takes what `moments` makes: the statistics of its results cost no reading."""

    def __init__(self, shape: ConvolutionShape) -> None:
        if not strassen_takes(shape):
            raise OperationError(
                f"Strassen's algorithm was asked for {shape}: expected kernel 1x1, stride 1, no "
                f"padding, 1 group, an even number of at least {LEAST_SIZE} channels and filters, "
                f"images that come to a multiple of {TILE_COLUMNS * LANES}, and more than one "
                "pixel; use Convolution"
            )
        self.shape, self._operands = shape, Operands(shape, FLOAT_ONLY)
        self._images, self._threads = padded_images(shape.images), numba.get_num_threads()
        self._no_bias = aligned_zeros((max(shape.channels, shape.filters),))
        self._no_moments = Moments(self._threads, self._images, 0, 0)

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        shape = self.shape
        ways = (shape.filters, shape.channels), (shape.channels, shape.filters)
        return max(sum(self._sizes(*way)) for way in ways)

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
        self._multiply(images, weights, given, out, None, RELU * relu, False, moments)

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
        self._multiply(gradient, weights, self._no_bias, out, mask, mode, True, None)

    def _multiply(
        self,
        inputs: AnyArray,
        weights: AnyArray,
        bias: AnyArray,
        out: AnyArray,
        mask: AnyArray | None,
        mode: int,
        backward: bool,
        moments: Moments | None,
    ) -> None:
        filters, channels = out.shape[3], inputs.shape[3]
        rows = tile_rows(filters // 2)
        blocks = -(-filters // 2 // rows)
        sizes = self._sizes(filters, channels)
        packed, scratch = np.split(self._memory(sum(sizes)), sizes[:1])
        pack_parts(
            weights.reshape(-1), packed, rows, filters // 2, channels // 2, backward,
            scratch.reshape(self._threads, -1),
        )  # fmt: skip
        source, distance = pixels(inputs)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        count = out.shape[1] * out.shape[2]
        by_pixels, by_blocks = split_threads(self._threads, -(-count // 2), blocks)
        strassen_kernel(rows)(
            *target, self._images, filters // 2, count, source, distance,
            channels // 2, packed, bias, *masking, mode,
            scratch.reshape(self._threads, -1), self._at_once(channels), by_pixels, by_blocks,
            moments is not None, gathered.sums, gathered.pivots, gathered.totals, gathered.real,
            gathered.images,
        )  # fmt: skip

    def _at_once(self, channels: int) -> int:
        """Pairs of pixels over which a block of weights is used, their inputs being in cache.

        Their sums are as large again and lie in the second cache.
        """
        return int(np.clip(PANEL_BYTES // (8 * channels * self._images), 1, 8))

    def _sizes(self, filters: int, channels: int) -> tuple[int, int]:
        """Floats of packed parts of the weights, and of all threads' sums."""
        rows = tile_rows(filters // 2)
        each = self._at_once(channels) * INPUT_SUMS * channels // 2 * self._images
        each += PARTIAL_SUMS * rows * TILE_COLUMNS * LANES
        packed = PARTS * weights_step(-(-filters // 2 // rows), rows, channels // 2)
        return packed, self._threads * max(each, 4 * LANES * LANES)
