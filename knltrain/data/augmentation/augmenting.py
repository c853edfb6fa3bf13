"""Pictures made into a network's images by a recipe, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, final

import numpy as np

from knltrain.data.augmentation.framing import Fitted, Parts
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.random_words import RandomWords, below
from knltrain.data.augmentation.recipes import Recipe
from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.source import ImageSource, Pixels, Rows
from knltrain.errors import DataError
from knltrain.vectors import FloatArray
from vectorized_ops.pictures import PicturePlan, PicturesOf, check_pass

if TYPE_CHECKING:
    from vectorized_ops.reference.picture_operations import OperationPlan

FLIP = 16
"""What is decided here; see `RandomWords`."""

AT_ONCE = 64
"""Pictures that are held at a time: decoded ones take memory."""


class PixelPass(Protocol):
    """An implementation of `vectorized_ops.reference.pictures.PicturePass`."""

    def write(self, pictures: Sequence[Pixels], plan: PicturePlan, out: FloatArray) -> None:
        """Write the images of the pictures."""


class MakesPass(Protocol):
    """A class of passes."""

    def __call__(
        self,
        image_shape: tuple[int, int, int],
        mean: FloatArray,
        scale: FloatArray,
        mean_picture: FloatArray | None = None,
    ) -> PixelPass:
        """A pass for images (H,W,C)."""


class Operate(Protocol):
    """An implementation of `vectorized_ops.reference.picture_operations.operated`."""

    def __call__(self, images: FloatArray, plan: OperationPlan, out: Pixels) -> None:
        """Write images, operated on, as bytes."""


@final
class Augmenting(Preprocessing):
    """Images of `image_shape` (H,W,C) by a recipe and a normalisation.

    `makes_pass` is the implementation of `vectorized_ops.reference.pictures.PicturePass`, called
    when the first images are written: who only hands a data set on needs no compiler. So is
    `operate`, one of `vectorized_ops.reference.picture_operations.operated` (None: that itself),
    where the recipe has operations. With `reverses` the channels are blue, green, red. Raises
    DataError for a mean picture that does not fit the recipe.
    """

    def __init__(
        self,
        image_shape: tuple[int, int, int],
        recipe: Recipe,
        normalisation: Normalisation,
        makes_pass: MakesPass,
        reverses: bool = False,
        operate: Operate | None = None,
    ) -> None:
        self.image_shape = image_shape
        self.recipe, self.reverses = recipe, reverses and image_shape[2] == 3
        self.normalisation, self._makes_pass = normalisation, makes_pass
        self._operate = operate
        picture = normalisation.mean_picture
        self._mean_shape = None if picture is None else np.array(picture.shape[:2], np.int64)
        self._check_mean_picture()
        check_pass(image_shape, normalisation.mean, normalisation.scale, picture)

    def write(
        self, source: ImageSource, rows: Rows, draws: Draws | None, out_nhwc: FloatArray
    ) -> None:
        """Write the pictures `rows` (n,) of `source` to `out_nhwc` (n,H,W,C)."""
        for begin in range(0, len(rows), AT_ONCE):
            part = slice(begin, begin + AT_ONCE)
            pictures = source.pictures_of(rows[part])
            if isinstance(pictures, PicturesOf):
                sizes = np.full((len(pictures), 2), pictures.pixels.shape[1:3])
            else:
                sizes = np.array([picture.shape[:2] for picture in pictures], np.int64)
            random = None if draws is None else RandomWords(draws, rows[part], len(source))
            parts = self.recipe.framing.parts(sizes, random)
            if random is not None and self.recipe.operations:
                pictures = self._operated(pictures, parts, random, out_nhwc[part])
                whole = np.tile([0.0, 0.0, *self.image_shape[:2]], (len(pictures), 1))
                parts = replace(parts, boxes=whole)
            if self.reverses and isinstance(pictures, PicturesOf):
                pictures = pictures.reversed()
            elif self.reverses:
                pictures = [picture[:, :, ::-1] for picture in pictures]
            self._pass.write(pictures, self._plan(parts, random), out_nhwc[part])

    def copies(self, source: ImageSource) -> bool:
        """See `Preprocessing`."""
        recipe, has_mean_picture = self.recipe, self._mean_shape is not None
        recolours = recipe.jitter > 0 or recipe.noise > 0 or has_mean_picture
        fits = isinstance(recipe.framing, Fitted) and source.image_shape == self.image_shape
        return fits and not recolours

    def _operated(
        self, pictures: Sequence[Pixels], parts: Parts, random: RandomWords, room: FloatArray
    ) -> PicturesOf:
        """The parts of pictures in the images' size, rounded to bytes, after the operations."""
        from knltrain.data.augmentation.operations import random_operations

        still = PicturePlan(parts.boxes, np.zeros(len(pictures), np.bool_))
        self._plain_pass.write(pictures, still, room)
        recipe, (height, width, _) = self.recipe, self.image_shape
        plan = random_operations(random, recipe.operations, recipe.magnitude, (height, width))
        found = np.empty(room.shape, np.uint8)
        operate = self._operate
        if operate is None:
            from vectorized_ops.reference.picture_operations import operated

            operate = operated
        operate(room, plan, found)
        return PicturesOf(found, np.arange(len(found)))

    @cached_property
    def _plain_pass(self) -> PixelPass:
        """One that leaves values as they are."""
        channels = self.image_shape[2]
        zeros, ones = np.zeros(channels, np.float32), np.ones(channels, np.float32)
        return self._makes_pass(self.image_shape, zeros, ones)

    @cached_property
    def _pass(self) -> PixelPass:
        numbers = self.normalisation
        return self._makes_pass(self.image_shape, numbers.mean, numbers.scale, numbers.mean_picture)

    def _plan(self, parts: Parts, random: RandomWords | None) -> PicturePlan:
        count = len(parts.boxes)
        flipped = np.full(count, self.recipe.mirrors)
        if random is not None and self.recipe.flips:
            flipped = below(random.words(FLIP), 2)[:, 0] == 1
        colours, of_mean = self._colours(random)
        return PicturePlan(parts.boxes, flipped, colours, of_mean, self._offsets(parts))

    def _offsets(self, parts: Parts) -> Rows | None:
        """Where in the mean picture images lie: that of a frame lies over the frame's middle."""
        mean = self._mean_shape
        if mean is None or (mean == self.image_shape[:2]).all():
            return None
        return parts.offsets - (parts.frames - mean) // 2

    def _colours(self, random: RandomWords | None) -> tuple[FloatArray | None, FloatArray | None]:
        recipe, channels = self.recipe, self.image_shape[2]
        has_noise = recipe.noise > 0 and channels == 3
        if random is None or not (recipe.jitter or has_noise):
            return None, None
        from knltrain.data.augmentation.colours import colour_noise, jittered

        count = len(random)
        matrix = np.broadcast_to(np.eye(channels), (count, channels, channels))
        of_mean, added = None, np.zeros((count, channels))
        if recipe.jitter:
            matrix, of_mean = jittered(random, recipe.jitter, channels)
        if has_noise:
            added = colour_noise(random, recipe.noise)
        if self.reverses:
            matrix, added = matrix[:, ::-1, ::-1], added[:, ::-1]
            of_mean = None if of_mean is None else of_mean[:, ::-1, ::-1]
        colours = np.concatenate((matrix, added[:, :, None]), axis=2).astype(np.float32)
        return colours, None if of_mean is None else of_mean.astype(np.float32)

    def _check_mean_picture(self) -> None:
        mean, image = self._mean_shape, self.image_shape[:2]
        if mean is None or (mean == image).all():
            return
        if (mean < image).any() or not self.recipe.framing.has_frame:
            larger = " or larger" if self.recipe.framing.has_frame else ", as this recipe resizes"
            raise DataError(
                f"data.mean_file has {mean[0]} x {mean[1]} pixels, images have {image[0]} x "
                f"{image[1]}: expected as many{larger}"
            )
