"""Operations on pictures of bytes: see `vectorized_ops.reference.picture_operations`.

A kernel of its own: what makes images without them is compiled without them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import FloatArray
from vectorized_ops.numba.compiling.compiler import kernel
from vectorized_ops.numba.kernels.pictures.operations import (
    moved,
    saturated,
    sharpened,
    through_tables,
    write_tables,
)
from vectorized_ops.pictures import Pixels
from vectorized_ops.reference.picture_operations import Kind, OperationPlan, check_operations

_MOVED, _SATURATION, _SHARPNESS = int(Kind.MOVED), int(Kind.SATURATION), int(Kind.SHARPNESS)
_SAME = int(Kind.SAME)


def operated(images: FloatArray, plan: OperationPlan, out: Pixels) -> None:
    """Write images (n,H,W,C), rounded to bytes and operated on, to `out`; both are contiguous.

    It may be called by several threads at once.
    """
    check_operations(images, plan, out)
    if not (images.flags.c_contiguous and out.flags.c_contiguous and images.dtype == np.float32):
        raise OperationError(
            f"images {images.dtype} with strides {images.strides}: expected float32, one value "
            "after another"
        )
    count, height, width, channels = images.shape
    if not count:
        return
    rounded = np.empty(images.shape[1:], np.float32)
    for image, picture in zip(images, out, strict=True):
        np.rint(image, out=rounded)
        np.clip(rounded, 0, 255, out=rounded)
        np.copyto(picture, rounded, casting="unsafe")
    _operate(
        plan.kinds.reshape(-1), np.ascontiguousarray(plan.numbers).reshape(-1),
        out.reshape(-1), np.empty(height * width * channels, np.uint8),
        np.empty(3 * 256, np.uint8), np.empty(3 * 256, np.int64),
        count, plan.kinds.shape[1], height, width, channels,
    )  # fmt: skip


@kernel
def _operate(
    kinds: Any, numbers: Any, out: Any, other: Any, tables: Any, counts: Any,
    count: int, several: int, height: int, width: int, channels: int,
) -> None:  # fmt: skip
    size = height * width * channels
    for i in range(count):
        picture = out[i * size :][:size]
        for place in range(i * several, (i + 1) * several):
            kind, own = kinds[place], numbers[place * 6 :][:6]
            if kind == _SAME:
                continue
            if kind in (_MOVED, _SHARPNESS):
                for k in range(size):
                    other[k] = picture[k]
                if kind == _MOVED:
                    moved(other, own, height, width, channels, picture)
                else:
                    sharpened(other, own[0], height, width, channels, picture)
            elif kind == _SATURATION:
                if channels == 3:
                    saturated(picture, own[0])
            else:
                write_tables(picture, kind, own[0], channels, counts, tables)
                through_tables(picture, tables, channels)
