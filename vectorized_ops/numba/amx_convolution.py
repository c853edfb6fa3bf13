"""Convolution of bfloat16 by AMX's tiles, over memory (H, W, C, N)."""

from __future__ import annotations

from typing import final

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, pixels
from vectorized_ops.numba.convolution import Convolution
from vectorized_ops.numba.emit.amx import TILE
from vectorized_ops.numba.emit.bfloat16 import bfloat16_among
from vectorized_ops.numba.kernels.convolution.amx import (
    BLOCK,
    AmxOuterProducts,
    Runs,
    are_whole_tiles,
    depth_of,
    pack_blocks,
    panels_kernel,
    runs_of,
)
from vectorized_ops.numba.kernels.convolution.amx_packing_tiles import PACKING
from vectorized_ops.numba.kernels.convolution.destination import destination
from vectorized_ops.numba.kernels.convolution.direct import pixel_block, split_threads
from vectorized_ops.numba.moments import Moments
from vectorized_ops.numba.weights_gradient import WeightsGradient
from vectorized_ops.shapes import ConvolutionShape


def amx_takes(shape: ConvolutionShape) -> bool:
    """Tell whether the shape is one that `AmxConvolution` takes: groups fill a tile, or are one."""
    least = min(shape.channels, shape.filters) // shape.groups
    return shape.groups == 1 or least >= TILE


@final
class AmxConvolution(Convolution):
    """See `Convolution`; products are those of bfloat16, by AMX's tiles or, unless `native`, so.

    Operands of products in float32 are rounded; only weights' gradients from a gradient in float32
    are sums of float32. Sums are float32, in the order of `emit.amx`. What calls it has made sure
    of `amx_permission`. Raises OperationError for groups of less than 16 channels or filters.
    """

    def __init__(self, shape: ConvolutionShape, native: bool) -> None:
        if not amx_takes(shape):
            raise OperationError(
                f"AMX's tiles were asked for {shape}: expected one group, or at least {TILE} "
                "channels and filters in each; use Convolution"
            )
        super().__init__(shape)
        self._native, self._turned = native, None
        self._runs: dict[tuple[bool, int], Runs] = {}
        self._sums = WeightsGradient(shape, self._threads, products=AmxOuterProducts(native))

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(self._sums.scratch_size, self.correlation_size)

    @property
    def correlation_size(self) -> int:
        """Floats of scratch memory that forward and backward-data need."""
        filters, channels = (count // self.shape.groups for count in self._counts())
        ways = (filters, channels, False), (channels, filters, True)
        return max(sum(self._sizes(*way)) for way in ways)

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
        shape, images, kernel = self.shape, self._images, self.shape.kernel
        sizes = self._sizes(filters, channels, backward)
        packed, scratch = np.split(self._memory(sum(sizes)), sizes[:1])
        packing = PACKING.address(int(backward), int(kernel != (1, 1)))
        if sizes[0]:
            pack_blocks(
                packing, weights.reshape(-1), shape.groups, filters, channels, *kernel, backward,
                self._depth(channels), packed,
            )  # fmt: skip
        source, distance = pixels(inputs)
        tables = self._tables_for(backward, distance)
        target, masking, mode = destination(out, mask, mode, source)
        gathered = self._no_moments if moments is None else moments
        by_pixels, by_blocks = split_threads(
            self._threads, len(tables.classes), shape.groups * -(-filters // BLOCK)
        )
        stored = bfloat16_among(inputs=source, out=target[0], mask=masking[0])
        panels_kernel(filters, images, self._native, stored)(
            *target, images, filters, shape.groups, source, channels,
            are_whole_tiles(channels), packing, weights.reshape(-1), kernel, backward,
            self._depth(channels), packed, not sizes[0], bias, tables.segments, tables.first,
            tables.count, tables.classes, tables.bases,
            *self._runs_for(backward, distance, channels), *masking, mode,
            scratch.reshape(self._threads, -1), self._at_once(channels, backward), by_pixels,
            by_blocks, moments is not None,
            gathered.sums, gathered.pivots, gathered.totals, gathered.real, gathered.images,
        )  # fmt: skip

    def _runs_for(self, backward: bool, distance: int, channels: int) -> Runs:
        key = backward, distance
        if key not in self._runs:
            tables = self._tables_for(backward, distance)
            self._runs[key] = runs_of(tables, channels, self._depth(channels))
        return self._runs[key]

    def _depth(self, channels: int) -> int:
        return depth_of(channels, self.shape.kernel[0] * self.shape.kernel[1])

    def _results(self, backward: bool) -> int:
        """Pixels of a map of results."""
        shape = self.shape
        return shape.height * shape.width if backward else shape.lines * shape.pixels

    def _at_once(self, channels: int, backward: bool) -> int:
        """Pixels over which a block of weights is used while their panels stay in cache."""
        return min(pixel_block(1, self._depth(channels), self._images), self._results(backward))

    def _sizes(self, filters: int, channels: int, backward: bool) -> tuple[int, int]:
        """Floats of packed weights, none if a block is used once, and of all threads' scratch."""
        depth, at_once = self._depth(channels), self._at_once(channels, backward)
        own = self._images * (at_once * (depth + BLOCK) + BLOCK)
        packed = BLOCK * depth
        if self._results(backward) == at_once == 1:
            return 0, self._threads * (own + packed)
        blocks = self.shape.groups * -(-filters // BLOCK)
        return blocks * packed, self._threads * own
