"""What a trained model's images are made by, in numbers, and what its outputs are called.

It is kept beside the model as JSON, so that neither the data set nor the configuration is needed to
use it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from knltrain.data.augmentation.framing import Fitted, ShortSide
from knltrain.data.augmentation.normalisation import Normalisation
from knltrain.data.augmentation.recipes import Recipe
from knltrain.errors import DataError
from knltrain.vectors import FloatArray

FORMAT_VERSION: Final = 1
RESIZE: Final = "triangle"
"""Weights of a triangle as wide as two old or new pixels, centres at halves; see docs/data.md."""


@final
@dataclass(frozen=True, slots=True)
class ModelPreprocessing:
    """How pictures become the images (H,W,C) that a model takes, without anything random.

    A picture is resized so that it just holds `frame` (h,w), of which the image is the middle;
    without a frame, so that it just holds the image. With `reverses` channels are blue, green, red.
    `class_names` are those of the outputs in their order. `exif` turns pictures before.
    """

    image_shape: tuple[int, int, int]
    frame: tuple[int, int] | None
    reverses: bool
    normalisation: Normalisation
    class_names: tuple[str, ...]
    exif: bool = False

    def recipe(self) -> Recipe:
        """The part of a picture that is shown."""
        image = self.image_shape[:2]
        return Recipe(Fitted(image) if self.frame is None else ShortSide(image, frame=self.frame))

    @property
    def channel_order(self) -> str:
        """Of the images: "grey", "rgb" or "bgr"."""
        if self.image_shape[2] == 1:
            return "grey"
        return "bgr" if self.reverses else "rgb"

    @property
    def mean(self) -> list[float]:
        """What is subtracted from each channel's values of 0 to 255, without a mean picture."""
        found: list[float] = self.normalisation.mean.tolist()
        return found

    @property
    def deviation(self) -> list[float]:
        """What each channel's values are divided by then."""
        found: list[float] = (1 / self.normalisation.scale.astype(np.float64)).tolist()
        return found

    def to_json(self) -> str:
        """As text; numbers come back to the bit."""
        picture = self.normalisation.mean_picture
        fields: dict[str, Any] = {
            "format": FORMAT_VERSION,
            "image": self.image_shape,
            "frame": self.frame,
            "resize": RESIZE,
            "exif": self.exif,
            "channel_order": self.channel_order,
            "mean": self.mean,
            "deviation": self.deviation,
            "mean_picture": None if picture is None else _written(picture),
            "class_names": self.class_names,
        }
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> ModelPreprocessing:
        """The inverse; DataError, with `where` it comes from, for text that is none."""
        try:
            fields = json.loads(text)
            if fields["format"] != FORMAT_VERSION or fields["resize"] != RESIZE:
                raise DataError(
                    f"{where}: format {fields['format']}, resize '{fields['resize']}': expected "
                    f"{FORMAT_VERSION} and '{RESIZE}'; use the version of knltrain that wrote it"
                )
            found = _of_fields(fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{where}: no preprocessing of a model ({type(error).__name__}: {error}): expected "
                "the file as training wrote it; copy it anew"
            ) from error
        return found


def _of_fields(fields: dict[str, Any]) -> ModelPreprocessing:
    height, width, channels = map(int, fields["image"])
    means, deviations = (np.array(fields[key], np.float64) for key in ("mean", "deviation"))
    if means.shape != (channels,) or deviations.shape != (channels,):
        raise ValueError(f"expected {channels} means and deviations")
    if not (np.isfinite(means).all() and (deviations > 0).all()):
        raise ValueError("expected finite means, and deviations above 0")
    kept = fields["mean_picture"]
    picture = None if kept is None else _picture(kept["shape"], kept["float32"])
    frame = fields["frame"]
    if fields["channel_order"] not in ("grey", "rgb", "bgr"):
        raise ValueError(f"channel_order is {fields['channel_order']!r}")
    return ModelPreprocessing(
        (height, width, channels),
        None if frame is None else (int(frame[0]), int(frame[1])),
        fields["channel_order"] == "bgr",
        Normalisation(means.astype(np.float32), (1 / deviations).astype(np.float32), picture),
        tuple(map(str, fields["class_names"])),
        bool(fields["exif"]),
    )


def _written(picture: FloatArray) -> dict[str, Any]:
    """A mean picture (h,w,C): its shape, and its little-endian float32 values in base64."""
    values = np.ascontiguousarray(picture, "<f4").tobytes()
    return {"shape": picture.shape, "float32": base64.b64encode(values).decode()}


def _picture(shape: list[int], text: str) -> FloatArray:
    values = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
    return values.reshape(shape)
