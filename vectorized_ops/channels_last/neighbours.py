"""Arrays in C order as kernels see them that want images to run fastest: neighbours are images.

An operation that treats all values alike does not mind what the 16 values of a vector are.
"""

from __future__ import annotations

from numpy.lib.stride_tricks import as_strided

from vectorized_ops.channels_last.rows import check_shapes, rows
from vectorized_ops.layout import IMAGE_LANES, AnyArray


def as_images(*arrays: AnyArray) -> list[AnyArray] | None:
    """Return views of arrays of one shape in which 16 neighbouring values are those of 16 images.

    None if there are no whole vectors of neighbours: of arrays without gaps 16 must divide the
    size, of slices of channels their number. Views are (16, I), or of slices (16, 1, pixels, C/16).
    Raises OperationError for arrays of different shapes.
    """
    first = arrays[0]
    check_shapes(first.shape, *arrays[1:])
    if all(array.flags.c_contiguous for array in arrays):
        whole = first.size % IMAGE_LANES == 0
        return [array.reshape(-1, IMAGE_LANES).T for array in arrays] if whole else None
    channels = first.shape[-1]
    if channels % IMAGE_LANES:
        return None
    return [_pixels(array, channels) for array in arrays]


def _pixels(array: AnyArray, channels: int) -> AnyArray:
    """Return the view of pixels that lie apart."""
    _, apart = rows(array)
    count, size = array.size // channels, array.itemsize
    shape = IMAGE_LANES, 1, count, channels // IMAGE_LANES
    strides = size, count * apart * size, apart * size, IMAGE_LANES * size
    view: AnyArray = as_strided(array, shape, strides)
    return view
