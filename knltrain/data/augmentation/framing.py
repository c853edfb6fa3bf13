"""Which part of a picture becomes the image: boxes in pixels of the picture.

A picture is thought of as resized to a frame, of which the image is a part of the network's size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final, final

import numpy as np
import numpy.typing as npt

from knltrain.data.augmentation.random_words import RandomWords, below, shares

Sizes = npt.NDArray[np.int64]
"""Height and width of n pictures, (n,2)."""

PLACE, FRAME, AREA = 0, 1, 2
"""What is decided here; see `RandomWords`."""

TRIES: Final = 10
LEAST_AREA: Final = 0.08
WIDEST: Final = 4 / 3


@dataclass(frozen=True, slots=True)
class Parts:
    """`boxes` float64 (n,4): top, left, height, width. `offsets` int64 (n,2): where in the frame.

    `frames` int64 (n,2) are the sizes of the frames.
    """

    boxes: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    frames: Sizes


class Framing(ABC):
    """Chooses the parts of pictures for images of one size (H,W)."""

    has_frame = True
    """Whether the size of an image's pixels is the same in all of them."""

    def __init__(self, image: tuple[int, int]) -> None:
        self.image = np.array(image, np.int64)

    @property
    def still_frame(self) -> tuple[int, int] | None:
        """Height and width of the least frame in evaluation; None where it is the image's."""
        return None

    @abstractmethod
    def parts(self, sizes: Sizes, random: RandomWords | None) -> Parts:
        """The parts of pictures; without `random` those in their middle."""

    def _moved(self, random: RandomWords, bounds: Sizes) -> npt.NDArray[np.int64]:
        """Lines and columns (n,2) below the bounds."""
        return below(random.words(PLACE, 2), bounds)


@final
class Fitted(Framing):
    """The largest part in the middle with the image's proportions, moved by up to `shift` pixels.

    Pixels are those of the image. With pictures of the image's size that is Caffe's and PyTorch's
    padding by `shift`, and a crop.
    """

    def __init__(self, image: tuple[int, int], shift: int = 0) -> None:
        super().__init__(image)
        self._shift = shift

    def parts(self, sizes: Sizes, random: RandomWords | None) -> Parts:
        """See `Framing`."""
        frames, steps = _frames(sizes, self.image)
        offsets = (frames - self.image) // 2
        if random is not None and self._shift:
            offsets = offsets + self._moved(random, 2 * self._shift + 1) - self._shift
        return _parts(offsets, frames, steps, self.image)

    def _moved(self, random: RandomWords, bounds: Sizes | int) -> npt.NDArray[np.int64]:
        return below(random.words(PLACE, 2), bounds)


@final
class ShortSide(Framing):
    """A crop at a random place of the picture, whose short side is resized before.

    The frame is 8/7 of the image, to the next multiple of 8: 256 pixels for 224 and 227. For
    training it is any size from that to `largest` times that (VGG: Simonyan, Zisserman, 2015).
    `frame` is another frame, at least as large as the image.
    """

    def __init__(
        self, image: tuple[int, int], largest: float = 1.0, frame: tuple[int, int] | None = None
    ) -> None:
        super().__init__(image)
        self._largest = largest
        usual = (self.image * 8 + 28) // 56 * 8 if frame is None else np.array(frame, np.int64)
        self._frame = np.maximum(self.image, usual)

    @property
    def still_frame(self) -> tuple[int, int]:
        """See `Framing`."""
        height, width = self._frame.tolist()
        return height, width

    def parts(self, sizes: Sizes, random: RandomWords | None) -> Parts:
        """See `Framing`."""
        least: Sizes = np.broadcast_to(self._frame, sizes.shape)
        if random is not None and self._largest > 1:
            short = int(self._frame.min())
            chosen = short + below(random.words(FRAME), round(short * (self._largest - 1)) + 1)
            least = least * chosen // short
        frames, steps = _frames(sizes, least)
        free = frames - self.image
        offsets = free // 2 if random is None else self._moved(random, free + 1)
        return _parts(offsets, frames, steps, self.image)


@final
class RandomArea(Framing):
    """A part of random area and proportions, resized to the image (Szegedy et al., 2015).

    As torchvision's RandomResizedCrop: an area of 0.08 to 1 times the picture's, proportions of 3/4
    to 4/3, uniform in their logarithm; the first of ten tries that fits, else the middle.
    Evaluation takes the middle of the frame of `ShortSide`.
    """

    has_frame = False

    def __init__(self, image: tuple[int, int]) -> None:
        super().__init__(image)
        self._still = ShortSide(image)

    @property
    def still_frame(self) -> tuple[int, int]:
        """See `Framing`."""
        return self._still.still_frame

    def parts(self, sizes: Sizes, random: RandomWords | None) -> Parts:
        """See `Framing`."""
        if random is None:
            return self._still.parts(sizes, None)
        words = random.words(AREA, 4 * TRIES).reshape(-1, TRIES, 4)
        area = sizes.prod(axis=1)[:, None] * (LEAST_AREA + (1 - LEAST_AREA) * shares(words[..., 0]))
        ratio = np.exp(np.log(WIDEST) * (2 * shares(words[..., 1]) - 1))
        asked = np.rint(np.sqrt(np.stack((area / ratio, area * ratio), axis=2))).astype(np.int64)
        fits = ((asked > 0) & (asked <= sizes[:, None])).all(axis=2)
        first = fits.argmax(axis=1)
        each = np.arange(len(sizes))
        found = fits[each, first]
        tall = np.where(found[:, None], asked[each, first], _within_proportions(sizes))
        free = sizes - tall
        corners = np.where(found[:, None], below(words[each, first, 2:], free + 1), free // 2)
        boxes = np.concatenate((corners, tall), axis=1).astype(np.float64)
        frames = np.broadcast_to(self.image, sizes.shape)
        return Parts(boxes, np.zeros_like(corners), frames)


@final
class Corner(Framing):
    """A corner of another framing's frame, or its middle, whatever the picture."""

    def __init__(self, framing: Framing, down: float, right: float) -> None:
        super().__init__((int(framing.image[0]), int(framing.image[1])))
        self._framing, self._place = framing, np.array([down, right])

    def parts(self, sizes: Sizes, random: RandomWords | None) -> Parts:  # noqa: ARG002
        """The part that lies `down` and `right`: 0 at the first line and column, 1 at the last."""
        frames = self._framing.parts(sizes, None).frames
        offsets = ((frames - self.image) * self._place).astype(np.int64)
        return _parts(offsets, frames, sizes / frames, self.image)


def _within_proportions(sizes: Sizes) -> Sizes:
    """The largest parts that are no wider than 4:3, nor taller."""
    height, width = sizes.T
    wide, tall = width > WIDEST * height, height > WIDEST * width
    return np.stack(
        (
            np.where(tall, np.rint(width * WIDEST).astype(np.int64), height),
            np.where(wide, np.rint(height * WIDEST).astype(np.int64), width),
        ),
        axis=1,
    )


def _frames(sizes: Sizes, least: Sizes) -> tuple[Sizes, npt.NDArray[np.float64]]:
    """Pictures resized so that they just hold `least`; and how far its pixels are, in old ones."""
    step = (sizes / least).min(axis=1, keepdims=True)
    frames: Sizes = np.maximum(np.rint(sizes / step).astype(np.int64), least)
    return frames, sizes / frames


def _parts(
    offsets: npt.NDArray[np.int64],
    frames: Sizes,
    steps: npt.NDArray[np.float64],
    image: npt.NDArray[np.int64],
) -> Parts:
    boxes = np.concatenate((offsets * steps, image * steps), axis=1)
    return Parts(boxes, offsets, frames)
