"""Pooling: each target pixel gathers its sources, and is written once."""

from __future__ import annotations

import numpy as np

from vectorized_ops.channels_last.rows import FLOAT, check_shapes, past_caches, rows
from vectorized_ops.channels_last.team import threads_for
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.kernels.channels_last import pooling as kernels
from vectorized_ops.reference.pooling import AveragePooling as Definition
from vectorized_ops.reference.pooling import check_window
from vectorized_ops.shapes import AdaptivePoolingShape, PoolingShape

_NOTHING = (0, 0)


class MaxPooling:
    """See `vectorized_ops.reference.pooling.MaxPooling`; channels run fastest in memory."""

    def __init__(self, shape: PoolingShape) -> None:
        check_window(shape.kernel)
        self._windows = _Windows(shape)

    def forward(self, images: AnyArray, out: AnyArray, which: AnyArray) -> None:
        """Write the maxima and their places."""
        arguments = self._windows.arguments(
            images, out, rows(out), rows(images), _bytes(which, out)
        )
        kernels.largest(arguments, FLOAT)

    def backward(
        self,
        gradient: AnyArray,
        which: AnyArray,
        out: AnyArray,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> None:
        """Write, or add to `out`, the gradient of the images."""
        arguments = self._windows.arguments(
            out, gradient, rows(out), rows(gradient), _bytes(which, gradient), add, mask
        )
        kernels.winners(arguments, FLOAT)


class AveragePooling:
    """See `vectorized_ops.reference.pooling.AveragePooling`; channels run fastest in memory.

    The reference computes adaptive windows that are not all of one size.
    """

    def __init__(self, shape: PoolingShape | AdaptivePoolingShape) -> None:
        self._definition, even = Definition(shape), _even(shape)
        self._windows = None if even is None else _Windows(even)

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means."""
        if self._windows is None:
            self._definition.forward(images, out)
            return
        kernels.means(self._windows.arguments(images, out, rows(out), rows(images)), FLOAT)

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, the gradient of the images."""
        if self._windows is None:
            self._definition.backward(gradient, out, add, mask)
            return
        arguments = self._windows.arguments(
            out, gradient, rows(out), rows(gradient), add=add, mask=mask
        )
        kernels.spread(arguments, FLOAT)


class GlobalAveragePooling:
    """See `vectorized_ops.reference.pooling.GlobalAveragePooling`; channels run fastest."""

    def __init__(self) -> None:
        self._poolings: dict[tuple[int, int], AveragePooling] = {}

    def forward(self, images: AnyArray, out: AnyArray) -> None:
        """Write the means of the maps."""
        self._pooling(images).forward(images, out[:, None, None])

    def backward(
        self, gradient: AnyArray, out: AnyArray, add: bool = False, mask: AnyArray | None = None
    ) -> None:
        """Write, or add to `out`, the gradient of the images from that of the means."""
        self._pooling(out).backward(gradient[:, None, None], out, add, mask)

    def _pooling(self, images: AnyArray) -> AveragePooling:
        side = images.shape[1], images.shape[2]
        if side not in self._poolings:
            self._poolings[side] = AveragePooling(PoolingShape(*side, side, (1, 1)))
        return self._poolings[side]


class _Windows:
    """Windows on images, as kernels are told of them."""

    def __init__(self, shape: PoolingShape) -> None:
        self._images = shape.height, shape.width
        self._pooled = shape.lines, shape.pixels
        self._sizes = *self._pooled, *shape.kernel, *shape.stride, *shape.padding
        self._shares = [_shares(shape, axis) for axis in (0, 1)]
        self._addresses = [each.__array_interface__["data"][0] for each in self._shares]

    def arguments(
        self,
        images: AnyArray,
        pooled: AnyArray,
        out: tuple[int, int],
        values: tuple[int, int],
        which: int = 0,
        add: bool = False,
        mask: AnyArray | None = None,
    ) -> AnyArray:
        """Return what kernels are given to write `out` from `values`, one of which the images are.

        Raises OperationError for images and windows of other sizes.
        """
        number, channels = len(images), images.shape[-1]
        check_shapes((number, *self._images, channels), images, mask)
        check_shapes((number, *self._pooled, channels), pooled)
        size = max(images.size, pooled.size)
        past = not add and past_caches(size, out, channels, values[0])
        masking = _NOTHING if mask is None else rows(mask)
        return np.array(
            [
                threads_for(size), number, *self._images, channels, *self._sizes, past, 0, out[0],
                values[0], which, 0, *self._addresses, out[1], values[1], channels, add,
                mask is not None, *masking,
            ],
            np.int64,
        )  # fmt: skip


def _shares(shape: PoolingShape, axis: int) -> AnyArray:
    """Return the share of a line (axis 0) or column in the mean of each window."""
    counted = np.array(shape.counted(axis))
    shares = aligned_zeros(counted.shape)
    shares[:] = 1 / counted
    return shares


def _even(shape: PoolingShape | AdaptivePoolingShape) -> PoolingShape | None:
    """Return the windows as those of a plain pooling, None if they differ in size."""
    if isinstance(shape, PoolingShape):
        return shape
    if shape.height % shape.lines or shape.width % shape.pixels:
        return None
    sides = shape.height // shape.lines, shape.width // shape.pixels
    return PoolingShape(shape.height, shape.width, sides, sides)


def _bytes(which: AnyArray, pooled: AnyArray) -> int:
    """Return where the places of maxima lie; OperationError for other sizes, types and orders."""
    if which.shape != pooled.shape or which.dtype != np.uint8 or not which.flags.c_contiguous:
        raise OperationError(
            f"places of shape {which.shape}, type {which.dtype} and strides {which.strides} were "
            f"given to max pooling: expected shape {pooled.shape}, uint8 in C order"
        )
    return int(which.__array_interface__["data"][0])
