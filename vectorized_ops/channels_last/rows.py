"""Arrays as kernels over rows take them: pixels of channels, the addresses among integers."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from vectorized_ops.channels_last.team import threads_for
from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, aligned_zeros
from vectorized_ops.numba.emit import non_temporal
from vectorized_ops.numba.kernels.channels_last.rows import padded

FLOAT = np.dtype(np.float32)


def rows(array: AnyArray) -> tuple[int, int]:
    """Return where float32 maps (N, H, W, C) or vectors (N, C) lie, and how far pixels are apart.

    The distance is one of elements. Channels may be a slice of those in memory. Raises
    OperationError for other types and other orders.
    """
    address = array.__array_interface__["data"][0]
    if array.flags.c_contiguous and array.dtype == FLOAT:
        return address, array.shape[-1]
    apart = _distance(array)
    if not apart or array.dtype != FLOAT:
        raise OperationError(
            f"an array of shape {array.shape}, type {array.dtype} and strides {array.strides} was "
            "given to a kernel over channels: expected float32 in C order, or a slice of the "
            "channels of such an array"
        )
    return address, apart


def flat_rows(array: AnyArray) -> tuple[AnyArray, int]:
    """Return flat memory from the first element to the last, and the distance of pixels.

    Of arrays and refusals see `rows`.
    """
    _, apart = rows(array)
    if array.flags.c_contiguous:
        return array.reshape(-1), apart
    size = (math.prod(array.shape[:-1]) - 1) * apart + array.shape[-1]
    return as_strided(array, (size,), (array.itemsize,)), apart


def _distance(array: AnyArray) -> int:
    """Return how far pixels lie apart in elements; 0 if they are no rows at equal distances."""
    shape, strides, size = array.shape, array.strides, array.itemsize
    apart, count = 0, 1  # of the pixels behind an axis: their distance in bytes, and their number
    for extent, stride in zip(shape[-2::-1], strides[-2::-1], strict=True):
        if extent == 1:  # the stride of an axis of one element says nothing
            continue
        if apart and stride != apart * count:
            return 0
        apart, count = apart or stride, count * extent
    apart = apart or shape[-1] * size
    dense = shape[-1] == 1 or strides[-1] == size
    return apart // size if dense and apart % size == 0 and apart >= shape[-1] * size else 0


def check_shapes(shape: tuple[int, ...], *arrays: AnyArray | None) -> None:
    """Raise OperationError unless all arrays that are given have this shape."""
    for array in arrays:
        if array is not None and array.shape != shape:
            raise OperationError(
                f"an array of shape {array.shape} was given to an operation: expected {shape}; "
                "make all of its arrays for one number of images"
            )


def past_caches(size: int, out: tuple[int, int], channels: int, *read: int) -> bool:
    """Tell whether to write `size` floats past the caches: what is too large for them.

    Not to one of the addresses `read`, whose lines are there already, nor parts of vectors.
    """
    if 4 * size <= non_temporal.STREAMED_BYTES:
        return False
    address, apart = out
    return not (address % 64 or apart % 16 or channels % 16 or address in read)


def bits(number: float) -> int:
    """Return the bits of a double, as kernels take numbers among integers."""
    return int(struct.unpack("q", struct.pack("d", number))[0])


def vector_address(vector: AnyArray, channels: int) -> int:
    """Return where a value for each channel lies; OperationError for what is not (C,) float32."""
    fits = vector.shape == (channels,) and vector.dtype == FLOAT and vector.flags.c_contiguous
    if not fits:
        raise OperationError(
            f"an array of shape {vector.shape} and type {vector.dtype} was given for {channels} "
            f"channels: expected shape {(channels,)}, float32 in C order"
        )
    return int(vector.__array_interface__["data"][0])


@final
class Sums:
    """Memory for what each thread sums up in passes over at most `values` values.

    `count` sums for each of the `channels`. See `kernels.channels_last.rows.pass_over_rows`.
    """

    def __init__(self, values: int, channels: int, count: int) -> None:
        self.threads = threads_for(values)
        size = self.threads * count * padded(channels)
        self._parts, self._totals = aligned_zeros((size,)), aligned_zeros((size,), np.float64)
        self.addresses = tuple(
            int(each.__array_interface__["data"][0]) for each in (self._parts, self._totals)
        )


def pass_arguments(
    count: int,
    channels: int,
    written: Sequence[tuple[int, int]],
    read: Sequence[tuple[int, int]],
    table: int = 0,
    scalar: float = 0.0,
    sums: Sums | None = None,
    summands: Sequence[tuple[int, int]] = (),
) -> Any:
    """Return what a pass over `count` rows of `channels` is given: int64.

    Arrays are what `rows` returns of them; `table` is the address of constants.
    """
    threads = threads_for(count * channels) if sums is None else sums.threads
    parts, totals = (0, 0) if sums is None else sums.addresses
    places = [address for address, _ in (*read, *summands)]
    past = bool(written) and all(
        past_caches(count * channels, out, channels, *places) for out in written
    )
    arguments = [threads, count, channels, past, bits(scalar), table, parts, totals]
    arguments.append(len(summands))
    for pair in (*written, *read, *summands):
        arguments += pair
    return np.array(arguments, np.int64)


def long_rows(*arrays: AnyArray) -> tuple[int, int, list[tuple[int, int]]]:
    """Return number and length of rows for an operation that treats all values alike; the arrays.

    Rows of arrays without gaps are lines, or if one thread does the work everything; those of
    slices of channels are pixels. Without gaps arrays may all have their axes the other way round.
    Raises OperationError for arrays of different shapes, and as `rows`.
    """
    check_shapes(arrays[0].shape, *arrays[1:])
    if all(array.flags.f_contiguous for array in arrays):
        arrays = tuple(array.T for array in arrays)
    shape, size = arrays[0].shape, arrays[0].size
    places = [rows(array) for array in arrays]
    length = shape[-1]
    if all(array.flags.c_contiguous for array in arrays):
        alone = threads_for(size) == 1
        length = size if alone else length * (shape[-2] if len(shape) > 2 else 1)
        places = [(address, length) for address, _ in places]
    return size // length, length, places
