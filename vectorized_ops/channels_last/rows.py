"""Arrays in C order as rows of channels, at equal distances in memory."""

from __future__ import annotations

from numpy.lib.stride_tricks import as_strided

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray


def flat_rows(array: AnyArray) -> tuple[AnyArray, int]:
    """Return flat memory and the distance of neighbouring pixels of an array (..., C).

    The flat view begins at the first element of the array and ends behind its last. Some channels
    of a wider array are an array, too. Raises OperationError where pixels do not lie at equal
    distances, as rows of neighbouring channels.
    """
    channels = array.shape[-1]
    if array.flags.c_contiguous:
        return array.reshape(-1), channels
    distance = array.strides[-2] // array.itemsize
    expected, rows = array.strides[-2], 1
    for extent, stride in zip(array.shape[-2::-1], array.strides[-2::-1], strict=True):
        if extent > 1 and stride != expected * rows:
            break
        rows *= extent
    else:
        if channels == 1 or array.strides[-1] == array.itemsize:
            size = (rows - 1) * distance + channels
            return as_strided(array, (size,), (array.itemsize,)), distance
    raise OperationError(
        f"an array of shape {array.shape} and strides {array.strides} was given: expected rows of "
        "neighbouring channels at equal distances"
    )
