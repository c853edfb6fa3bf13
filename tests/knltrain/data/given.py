"""Images of given float32 values, for tests of what comes after preprocessing."""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from knltrain.data.contents import contents_of_recipe
from knltrain.data.dataset import LabelledImages, numbered
from knltrain.data.preprocessing import Draws, Preprocessing
from knltrain.data.source import ArraySource, ImageSource, LabelArray, Pixels, Rows
from knltrain.vectors import FloatArray


@final
class Given(Preprocessing):
    """Whatever the bytes of a picture are, these values are its image."""

    def __init__(self, images_nhwc: FloatArray) -> None:
        _, height, width, channels = images_nhwc.shape
        self.image_shape = height, width, channels
        self.images_nhwc = images_nhwc

    def write(
        self, source: ImageSource, rows: Rows, draws: Draws | None, out_nhwc: FloatArray
    ) -> None:
        out_nhwc[:] = self.images_nhwc[rows]


def source_of(
    pixels: Pixels, labels: LabelArray | npt.NDArray[np.int64], classes: int | None = None
) -> ArraySource:
    """Pictures (N,H,W,C) in memory."""
    if classes is None:
        classes = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    _, height, width, channels = pixels.shape
    contents = contents_of_recipe("given", len(pixels), (height, width, channels))
    return ArraySource(pixels, labels, numbered(classes), contents, "given")


def given_images(
    images_nhwc: FloatArray, labels: LabelArray, classes: int | None = None
) -> LabelledImages:
    """Images float32 (N,H,W,C) as they are, and their labels."""
    pixels = np.zeros(images_nhwc.shape, np.uint8)
    return LabelledImages(source_of(pixels, labels, classes), Given(images_nhwc))


def images_of(source: ArraySource) -> FloatArray:
    """The pictures of a source as float32 (N,H,W,C)."""
    return source.pixels.astype(np.float32)
