"""Operations on pictures of bytes, one after another, defined: geometry, colours, tables.

They are those of Pillow, of which AutoAugment and RandAugment are made (Cubuk et al., CVPR 2019,
and NeurIPS 2020), as torchvision has them, too. All is computed in whole numbers, so all machines
agree to the last bit; results are those of Pillow within a grey level.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import FloatArray
from vectorized_ops.pictures import Pixels

ONE: Final = 1 << 16
"""What numbers of operations are parts of."""
GREY: Final = (19595, 38470, 7471)
"""How much red, green and blue count in grey, in parts of ONE (ITU-R BT.601)."""
NUMBERS: Final = 6
"""Of an operation."""


class Kind(IntEnum):
    """What an operation does to each value v of a picture, by its numbers a, b, ...

    With "towards g by a" v becomes v a + g (1 - a), rounded and cut off at black and white.
    """

    SAME = 0
    MOVED = 1
    """The pixel in which (a x + b y + c, d x + e y + f) lies, x and y from 0; black beyond."""
    BRIGHTNESS = 2
    """Towards black."""
    SATURATION = 3
    """Towards the pixel's grey."""
    CONTRAST = 4
    """Towards the mean grey of the picture, rounded."""
    SHARPNESS = 5
    """Towards the mean of 3 x 3 pixels, of which the middle one counts 5; not at the edges."""
    POSTERIZE = 6
    """v & a."""
    SOLARIZE = 7
    """255 - v from v = a on."""
    AUTOCONTRAST = 8
    """Each channel so that its values go from 0 to 255."""
    EQUALIZE = 9
    """Each channel so that its values are nearly as frequent as each other."""


@dataclass(frozen=True, slots=True)
class OperationPlan:
    """What is done to n pictures: `kinds` int64 (n,N), and the `numbers` int64 (n,N,6) of each.

    Numbers of MOVED and shares are in parts of ONE, masks and thresholds as they are.
    """

    kinds: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]


def operated(images: FloatArray, plan: OperationPlan, out: Pixels) -> None:
    """Write images (n,H,W,C), values 0 to 255, rounded to bytes and operated on, to `out`.

    Raises OperationError for shapes that do not fit.
    """
    check_operations(images, plan, out)
    out[:] = np.rint(images).clip(0, 255)
    for picture, kinds, numbers in zip(out, plan.kinds, plan.numbers, strict=True):
        for kind, given in zip(kinds.tolist(), numbers.tolist(), strict=True):
            picture[:] = _changed(picture, Kind(kind), given)


def _changed(picture: Pixels, kind: Kind, numbers: list[int]) -> Pixels:
    if kind is Kind.MOVED:
        return _moved(picture, numbers)
    values, share = picture.astype(np.int64), numbers[0]
    if kind is Kind.SATURATION:
        return _towards(values, _grey(values)[..., None], share)
    if kind is Kind.SHARPNESS:
        return _towards(values, _smooth(values), share)
    if kind is Kind.SAME:
        return picture
    found = np.empty_like(picture)
    for c in range(picture.shape[2]):
        found[..., c] = _table(values, c, kind, share)[picture[..., c]]
    return found


def _moved(picture: Pixels, numbers: list[int]) -> Pixels:
    height, width, _ = picture.shape
    y, x = np.indices((height, width))
    columns = (numbers[0] * x + numbers[1] * y + numbers[2]) >> 16
    lines = (numbers[3] * x + numbers[4] * y + numbers[5]) >> 16
    inside = (columns >= 0) & (columns < width) & (lines >= 0) & (lines < height)
    found = np.zeros_like(picture)
    found[inside] = picture[lines[inside], columns[inside]]
    return found


def _towards(values: npt.NDArray[np.int64], other: npt.NDArray[np.int64], share: int) -> Pixels:
    mixed = (values * share + other * (ONE - share) + ONE // 2) >> 16
    found: Pixels = mixed.clip(0, 255).astype(np.uint8)
    return found


def _grey(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    if values.shape[2] == 1:
        return np.asarray(values[..., 0])
    red, green, blue = (values[..., c] * GREY[c] for c in range(3))
    return np.asarray((red + green + blue + ONE // 2) >> 16)


def _smooth(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    height, width, _ = values.shape
    found: npt.NDArray[np.int64] = values.copy()
    if min(height, width) < 3:
        return found
    total = 4 * values[1:-1, 1:-1]
    for line in range(3):
        for column in range(3):
            total = total + values[line : line + height - 2, column : column + width - 2]
    found[1:-1, 1:-1] = (2 * total + 13) // 26
    return found


def _table(values: npt.NDArray[np.int64], c: int, kind: Kind, number: int) -> npt.NDArray[np.uint8]:
    """What each value of channel `c` becomes, (256,)."""
    all_values = np.arange(256)
    if kind is Kind.BRIGHTNESS:
        return _towards(all_values, np.zeros(256, np.int64), number)
    if kind is Kind.CONTRAST:
        grey = _grey(values)
        mean = (2 * int(grey.sum()) + grey.size) // (2 * grey.size)
        return _towards(all_values, np.full(256, mean), number)
    if kind is Kind.POSTERIZE:
        return (all_values & number).astype(np.uint8)
    if kind is Kind.SOLARIZE:
        return np.where(all_values < number, all_values, 255 - all_values).astype(np.uint8)
    counts = np.bincount(values[..., c].ravel(), minlength=256)
    there = np.flatnonzero(counts)
    low, high = int(there[0]), int(there[-1])
    if kind is Kind.AUTOCONTRAST:
        if low == high:
            return all_values.astype(np.uint8)
        return ((all_values - low) * 255 // (high - low)).clip(0, 255).astype(np.uint8)
    step = (int(counts.sum()) - int(counts[high])) // 255
    if step == 0:
        return all_values.astype(np.uint8)
    before = np.cumsum(counts) - counts
    found: npt.NDArray[np.uint8] = ((step // 2 + before) // step).clip(0, 255).astype(np.uint8)
    return found


def check_operations(images: FloatArray, plan: OperationPlan, out: Pixels) -> None:
    """Raise OperationError for arrays that do not fit each other, and unknown kinds."""
    count, several = len(images), plan.kinds.shape[1:]
    expected = {
        "out": (out.shape, images.shape),
        "kinds": (plan.kinds.shape, (count, *several)),
        "numbers": (plan.numbers.shape, (count, *several, NUMBERS)),
    }
    for name, (shape, wanted) in expected.items():
        if shape != wanted:
            raise OperationError(f"{name} has the shape {shape}: expected {wanted}")
    if images.ndim != 4 or images.shape[3] not in (1, 3) or out.dtype != np.uint8:
        raise OperationError(
            f"images {images.shape} to be written to {out.dtype}: expected (n, height, width, 1 or "
            "3), to uint8"
        )
    if plan.kinds.size and not 0 <= int(plan.kinds.min()) <= int(plan.kinds.max()) <= max(Kind):
        raise OperationError(f"kinds of operations: expected 0 to {max(Kind)}")
