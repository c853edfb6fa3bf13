"""Pictures, and what is to become of them: what all implementations of a pass are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final, overload

import numpy as np
import numpy.typing as npt

from vectorized_ops.errors import OperationError
from vectorized_ops.layout import AnyArray, FloatArray

Pixels = npt.NDArray[np.uint8]


@final
class PicturesOf(Sequence[Pixels]):
    """The pictures `rows` int64 (n,) of `pixels` uint8 (N,h,w,C), each a view.

    It stands for a list of them. What takes many pictures can do for all of them what a list takes
    a call for each.
    """

    def __init__(self, pixels: Pixels, rows: npt.NDArray[np.int64]) -> None:
        self.pixels: Final = pixels
        self.rows: Final = rows

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> Pixels: ...

    @overload
    def __getitem__(self, index: slice) -> PicturesOf: ...

    def __getitem__(self, index: int | slice) -> Pixels | PicturesOf:
        """A view of a picture, or some of the pictures."""
        if isinstance(index, slice):
            return PicturesOf(self.pixels, self.rows[index])
        found: Pixels = self.pixels[self.rows[index]]
        return found

    def reversed(self) -> PicturesOf:
        """The same with the order of the channels reversed."""
        return PicturesOf(self.pixels[..., ::-1], self.rows)


@dataclass(frozen=True, slots=True)
class PicturePlan:
    """What becomes of n pictures.

    `boxes` float64 (n,4) are the parts that are shown: top, left, height and width in pixels of the
    picture; they may lie beyond it. `flipped` bool (n,) tells which are mirrored left to right.
    `colours` float32 (n,C,C+1) change each pixel v to M v + b, b the last column. `of_mean` float32
    (n,C,C) adds a matrix times the image's mean pixel. `offsets` int64 (n,2) tell where in the mean
    picture the image lies.
    """

    boxes: npt.NDArray[np.float64]
    flipped: npt.NDArray[np.bool_]
    colours: FloatArray | None = None
    of_mean: FloatArray | None = None
    offsets: npt.NDArray[np.int64] | None = None


def check_pass(
    image_shape: tuple[int, int, int],
    mean: FloatArray,
    scale: FloatArray,
    mean_picture: FloatArray | None,
) -> None:
    """Raise OperationError for normalisations that do not fit the images."""
    channels = image_shape[2]
    given = {"mean": mean.shape, "scale": scale.shape}
    if mean_picture is not None:
        given["last of the mean picture"] = mean_picture.shape[2:]
    wrong = [f"{name} {shape}" for name, shape in given.items() if shape != (channels,)]
    if channels not in (1, 3) or wrong:
        raise OperationError(
            f"images {image_shape} cannot be normalised by {', '.join(wrong) or 'these'}: expected "
            "1 or 3 channels, and a number for each"
        )


def check_plan(
    pictures: Sequence[Pixels], plan: PicturePlan, out: AnyArray, shape: tuple[int, int, int]
) -> None:
    """Raise OperationError for arrays that do not fit each other."""
    count, channels = len(pictures), shape[2]
    expected = {
        "out": (out, (*shape,)),
        "boxes": (plan.boxes, (4,)),
        "flipped": (plan.flipped, ()),
        "colours": (plan.colours, (channels, channels + 1)),
        "of_mean": (plan.of_mean, (channels, channels)),
        "offsets": (plan.offsets, (2,)),
    }
    for name, (array, each) in expected.items():
        if array is not None and array.shape != (count, *each):
            raise OperationError(
                f"{name} has the shape {array.shape}: expected {(count, *each)} for {count} "
                "pictures"
            )
    for picture in pictures.pixels[:1] if isinstance(pictures, PicturesOf) else pictures:
        if picture.ndim != 3 or picture.shape[2] != channels or picture.dtype != np.uint8:
            raise OperationError(
                f"a picture {picture.shape} of {picture.dtype} was given: expected (height, width, "
                f"{channels}) of uint8"
            )
    if count and not plan.boxes[:, 2:].min() > 0:
        raise OperationError("a box has no height or no width: expected both above 0")
