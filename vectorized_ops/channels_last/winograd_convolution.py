"""Convolution 3x3 or 5x5, stride 1, by Winograd's minimal filtering, on arrays in C order.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", arXiv 1509.09308.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vectorized_ops.channels_last.rows import flat_rows
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.compiling.tile_functions import NO_TILE, TileFunction
from vectorized_ops.numba.emit.lanes import LANES
from vectorized_ops.numba.emit.non_temporal import streamed
from vectorized_ops.numba.emit.operand_checks import FLOAT_ONLY, Operands
from vectorized_ops.numba.emit.scratch import size_of_pieces
from vectorized_ops.numba.grouped_winograd import (
    MOST_GROUPS,
    OUTPUTS,
    GroupedWinograd,
    is_square,
)
from vectorized_ops.numba.kernels.channels_last.correlation import LOT_ROWS, sum_rows
from vectorized_ops.numba.kernels.channels_last.panel_tiles import PANELS, ROWS
from vectorized_ops.numba.kernels.channels_last.winograd import (
    CHANNELS_AT_ONCE,
    GAP,
    SquareTiles,
    convolve,
    deliver_taps,
    sum_points,
    transform_both,
)
from vectorized_ops.numba.kernels.channels_last.winograd_tiles import (
    CHANNEL_GRADIENT,
    CHANNEL_OUTPUT,
)
from vectorized_ops.numba.kernels.convolution.destination import ADD, MASK, PAST
from vectorized_ops.numba.kernels.convolution.direct import weights_step
from vectorized_ops.numba.kernels.convolution.winograd import (
    CHANNELS_AT_ONCE as WEIGHTS_AT_ONCE,
)
from vectorized_ops.numba.kernels.convolution.winograd import square_weights_kernel
from vectorized_ops.numba.kernels.convolution.winograd_edge_tiles import (
    LOW,
    NARROW,
    Ends,
    ends_of,
    tiles_of_kinds,
    used_points,
)
from vectorized_ops.numba.kernels.convolution.winograd_transforms import SQUARE_INPUT, SQUARE_TAPS
from vectorized_ops.shapes import ConvolutionShape

SUMMED_BYTES = 8 << 20
"""What the points of items that are summed up together may take."""


def winograd_takes(shape: ConvolutionShape) -> bool:
    """Tell whether a shape is one that `WinogradConvolution` computes."""
    whole = all(n // shape.groups % LANES == 0 for n in (shape.channels, shape.filters))
    return whole and is_square(shape)


@dataclass(frozen=True)
class _Work:
    """What there is to do, see `convolve`: items, chunks of a kind, and those of each thread.

    `transform` makes results of points, or points of gradients.
    """

    outputs: int
    taps: int
    transform: TileFunction
    ends: Ends
    items: Any
    chunks: Any
    parts: Any

    @cached_property
    def tiles(self) -> SquareTiles:
        """The functions of tiles of each kind."""
        given = self.outputs, self.taps, self.ends
        return SquareTiles(
            (self.outputs + self.taps - 1) ** 2,
            used_points(*given),
            tiles_of_kinds(SQUARE_INPUT, *given),
            tiles_of_kinds(self.transform, *given),
            PANELS.address(ROWS, 2),
            PANELS.address(ROWS, 1),
        )

    @cached_property
    def last_tiles(self) -> Any:
        """The functions of tiles for the last rows of each chunk."""
        return _last_tiles(self.chunks[:, 1])


class WinogradConvolution(GroupedWinograd):
    """See `vectorized_ops.reference.convolution.Convolution`; arrays in C order.

    All directions by F(outputs x outputs, r x r), backward-weights by its adjoint. Results are the
    same to the last bit with any number of threads. A NaN or infinity affects all results of its
    tiles. Raises OperationError for kernels other than 3x3 and 5x5, strides, dilations, more than 4
    groups, padding as wide as the kernel, channels and filters of a group in other numbers than
    whole vectors, and outputs other than 2 and 4.
    """

    def __init__(self, shape: ConvolutionShape, outputs: int = 4) -> None:
        if not winograd_takes(shape) or outputs not in OUTPUTS:
            raise OperationError(
                f"Winograd F({outputs}x{outputs}) was asked for {shape}: expected outputs 2 or 4, "
                f"kernel 3x3 or 5x5, stride 1, dilation 1, at most {MOST_GROUPS} groups, padding "
                f"narrower than the kernel, channels and filters of a group in multiples of {LANES}"
                "; use Convolution"
            )
        super().__init__(shape, outputs, Operands(shape, FLOAT_ONLY, shape.images))
        shape = self._group
        self._zeros = aligned_zeros((max(shape.channels, shape.filters, 2 * LANES),))
        self._one = np.ones(1, np.float32)
        self._at_once = ROWS * (2 if max(shape.channels, shape.filters) >= 128 else 3)
        given = outputs, self._taps, shape.images
        self._results = {
            backward: _work(size[1:3], *given, self._threads, self._at_once, CHANNEL_OUTPUT)
            for backward, size in ((False, shape.outputs), (True, shape.inputs))
        }
        row = 4 * self._points * (shape.channels + shape.filters + 2 * GAP)
        number = shape.images * -(-shape.lines // outputs) * -(-shape.pixels // outputs)
        self._summed = min(number, max(4 * ROWS, SUMMED_BYTES // row))
        self._gradients = _work(shape.outputs[1:3], *given, 1, self._summed, CHANNEL_GRADIENT)

    @cached_property
    def _sizes(self) -> dict[str, list[int]]:
        """Floats of scratch memory in each direction."""
        shape, points = self._group, self._points
        counts = shape.channels, shape.filters

        def of_points(count: int, items: int) -> int:
            return points * (items * (count + GAP) + GAP)

        sizes = {
            direction: [
                points * weights_step(filters // LANES, LANES, channels),
                self._threads * of_points(channels, self._at_once),
                self._threads * of_points(filters, self._at_once),
                self._threads * WEIGHTS_AT_ONCE * self._taps**2 * LANES,
            ]
            for direction, (channels, filters) in (
                ("forward", counts),
                ("backward", counts[::-1]),
            )
        }
        sizes["weights"] = [
            points * shape.channels * shape.filters,
            *(of_points(count, self._summed) for count in counts),
            shape.filters * CHANNELS_AT_ONCE * self._taps**2,
            -(-shape.images * shape.lines * shape.pixels // LOT_ROWS) * shape.filters,
        ]
        return sizes

    @property
    def scratch_size(self) -> int:
        """Floats of scratch memory that a call needs."""
        return max(map(size_of_pieces, self._sizes.values()))

    def _sum_up(
        self,
        images: AnyArray,
        gradient: AnyArray,
        weights_out: AnyArray,
        bias_out: AnyArray | None,
    ) -> None:
        shape, work = self._group, self._gradients
        sums, image_points, gradient_points, scratch, lots = self._pieces(self._sizes["weights"])
        source, above = flat_rows(images), flat_rows(gradient)
        wide, narrow = _last_tiles([shape.channels])[shape.channels % ROWS]
        for number, (first, count, kind) in enumerate(work.chunks):
            transform_both(
                work.tiles, *source, shape.inputs[1:3], shape.channels, *above, shape.outputs[1:3],
                shape.filters, shape.padding, image_points, gradient_points, self._zeros,
                self._summed, work.items, first, count, kind, self._threads,
            )  # fmt: skip
            sum_points(
                work.tiles, shape.channels, shape.filters, image_points, gradient_points,
                self._summed, count, kind, wide, narrow, number == 0, sums, self._zeros,
                self._threads,
            )  # fmt: skip
        deliver_taps(
            SQUARE_TAPS.address(self._outputs, self._taps), sums, shape.channels, shape.filters,
            self._taps**2, weights_out.reshape(-1), scratch.reshape(shape.filters // LANES, -1),
        )  # fmt: skip
        if bias_out is not None:
            sum_rows(
                PANELS.address(1, 2), PANELS.address(1, 1), self._one, *above,
                gradient.size // shape.filters, self._zeros, lots.reshape(-1, shape.filters),
                bias_out,
            )  # fmt: skip

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
        pieces = self._pieces(self._sizes["backward" if backward else "forward"])
        points, transformed, products, kernels = pieces
        square_weights_kernel(self._outputs, self._taps)(
            weights.reshape(-1), points, LANES, filters, channels, backward,
            kernels.reshape(self._threads, -1, LANES), self._points, False,
        )  # fmt: skip
        (source, distance), (target, apart) = flat_rows(inputs), flat_rows(out)
        masking = (target, 0) if mask is None else flat_rows(mask)
        if not mode & (ADD | MASK) and apart % LANES == 0 and streamed(target, out.nbytes, source):
            mode |= PAST
        work = self._results[backward]
        convolve(
            work.tiles, source, distance, inputs.shape[1:3], channels, points, bias,
            target, apart, out.shape[1:3], filters, padding, *masking, mode,
            transformed.reshape(self._threads, -1), products.reshape(self._threads, -1),
            self._zeros, self._at_once, work.items, work.chunks, work.parts,
            work.last_tiles,
        )  # fmt: skip


def _last_tiles(numbers: Iterable[int]) -> Any:
    """Return the functions of tiles of two columns and of one, for the last rows of so many."""
    addresses = np.full((ROWS, 2), NO_TILE, np.int64)
    for rest in {int(number) % ROWS for number in numbers} - {0}:
        addresses[rest] = PANELS.address(rest, 2), PANELS.address(rest, 1)
    return addresses


def _work(
    size: tuple[int, ...],
    outputs: int,
    taps: int,
    images: int,
    threads: int,
    at_once: int,
    transform: TileFunction,
) -> _Work:
    """Return the items of a map of `size` (H, W): each thread has about as many of each kind."""
    axes = np.arange(images), *(np.arange(0, side, outputs) for side in size)
    image, y, x = (axis.reshape(-1) for axis in np.meshgrid(*axes, indexing="ij"))
    kind = LOW * (y + outputs > size[0]) + NARROW * (x + outputs > size[1])
    order = np.argsort(kind, kind="stable")
    items = np.stack([image, y, x], axis=1)[order]
    chunks, parts = [], [0]
    for thread in range(threads):
        begin = 0
        for each, count in zip(*np.unique(kind, return_counts=True), strict=True):
            first, last = (begin + count * at // threads for at in (thread, thread + 1))
            for start in range(first, last, at_once):
                chunks.append((start, min(at_once, last - start), each))
            begin += count
        parts.append(len(chunks))
    table = np.array(chunks, np.int64).reshape(-1, 3)
    given = outputs, taps, transform, ends_of(size, outputs)
    return _Work(*given, items, table, np.array(parts))
