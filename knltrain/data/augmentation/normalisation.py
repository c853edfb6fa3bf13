"""The numbers by which images are normalised: given, known, measured, or a mean picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from knltrain.data.source import ImageSource
from knltrain.errors import ConfigError, DataError
from knltrain.vectors import FloatArray

IMAGENET_MEAN: Final = (123.675, 116.28, 103.53)
IMAGENET_DEVIATION: Final = (58.395, 57.12, 57.375)
"""Of ImageNet's red, green and blue: torchvision's numbers times 255."""

MOST_MEASURED: Final = 10_000
"""Pictures of which mean and deviation are taken; of more, so many at equal distances."""
MOST_VALUES: Final = 2**26
"""Of larger pictures there are fewer, of so many values in all."""

Numbers = float | tuple[float, ...] | str


@dataclass(frozen=True, slots=True)
class Normalisation:
    """Values v become (v - mean) * scale; mean and scale float32 (C,), of values of 0 to 255.

    In place of the mean there may be a mean picture float32 (h,w,C).
    """

    mean: FloatArray
    scale: FloatArray
    mean_picture: FloatArray | None = None


def normalisation_of(
    source: ImageSource,
    mean: Numbers,
    deviation: Numbers,
    mean_picture: FloatArray | None = None,
    reverses: bool = False,
) -> Normalisation:
    """What the keys `data.mean` and `data.deviation` stand for; `source` are training pictures.

    Numbers are for each of the network's channels, or one for all. "imagenet" stands for
    ImageNet's, "training" for those of all values of the training pictures, measured. With
    `reverses` the channels are blue, green, red. Raises ConfigError for other numbers of channels
    and deviations of 0, DataError where all pictures are of one colour.
    """
    measured = (0.0, 1.0)
    if (mean_picture is None and mean == "training") or deviation == "training":
        measured = mean_and_deviation(source)
    channels = source.channels
    means = _numbers("mean", mean, measured[0], IMAGENET_MEAN, channels, reverses)
    spread = _numbers("deviation", deviation, measured[1], IMAGENET_DEVIATION, channels, reverses)
    if mean_picture is not None and mean_picture.shape[2] != channels:
        raise DataError(
            f"data.mean_file has {mean_picture.shape[2]} channels, the pictures have {channels}: "
            "expected the same"
        )
    with np.errstate(over="ignore", under="ignore"):  # of what is refused
        found, scale = np.array(means).astype(np.float32), (1 / np.array(spread)).astype(np.float32)
    if not np.isfinite(found).all():
        raise _too_large_or_small("mean", means)
    if not np.isfinite(scale).all() or not scale.all():
        raise _too_large_or_small("deviation", spread)
    return Normalisation(found, scale, mean_picture)


def _too_large_or_small(key: str, numbers: tuple[float, ...]) -> ConfigError:
    return ConfigError(
        f"data.{key} = {list(numbers)}: expected numbers for values of 0 to 255, such as 127.5"
    )


def _numbers(
    key: str,
    given: Numbers,
    measured: float,
    known: tuple[float, ...],
    channels: int,
    reverses: bool,
) -> tuple[float, ...]:
    if given == "training":
        return (measured,) * channels
    if given == "imagenet":
        if channels != len(known):
            raise ConfigError(
                f"data.{key} = 'imagenet': the pictures have {channels} channel; expected "
                "'training' or a number"
            )
        return known[::-1] if reverses else known
    numbers = (given,) * channels if isinstance(given, float) else given
    assert not isinstance(numbers, str)
    if len(numbers) != channels:
        raise ConfigError(
            f"data.{key} = {list(numbers)}: expected {channels} numbers, one for each channel of "
            "the pictures, or one for all"
        )
    return numbers


def mean_and_deviation(source: ImageSource) -> tuple[float, float]:
    """Of all values of the pictures, in float64.

    Raises DataError where all are the same.
    """
    total = squares = values = 0.0
    for row in measured_rows(source):
        picture = source.picture(row).astype(np.float64).ravel()
        total += picture.sum()
        squares += float(picture @ picture)
        values += picture.size
    mean = total / values
    variance = squares / values - mean * mean
    if variance <= 0:
        raise DataError(f"all pixels of the training images are {mean}: nothing to learn from")
    return float(mean), float(np.sqrt(variance))


def measured_rows(source: ImageSource) -> list[int]:
    """Numbers of the pictures that are measured, at equal distances."""
    most = max(1, MOST_VALUES // max(1, source.picture(0).size))
    count = min(len(source), MOST_MEASURED, most)
    rows: list[int] = (np.arange(count) * len(source) // count).tolist()
    return rows
