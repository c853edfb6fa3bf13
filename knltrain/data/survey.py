"""What the pictures of one half are like: images of each class, sizes, values, broken ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from affinity.process.binding import allowed_cpus
from knltrain.data.encoded import SKIPPING
from knltrain.data.readers.labels import class_counts
from knltrain.data.source import ImageSource, Pixels
from knltrain.errors import BrokenPicture

MOST_BROKEN: Final = 10
"""Broken pictures that are told by name."""

_VALUES: Final = 256
_AT_A_TIME: Final = 64
"""Pictures that are in memory at a time."""


@dataclass(frozen=True, slots=True)
class Range:
    """The smallest, the median and the largest of a number of pixels."""

    least: int
    median: int
    most: int

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least:,}"
        return f"{self.least:,} to {self.most:,} (median {self.median:,})"


@dataclass(frozen=True, slots=True)
class HalfSurvey:
    """One half; `counts` are images by class, `mean` and `deviation` those of each channel, 0..255.

    Values are those of all pictures that are not broken. Of broken ones the first are named.
    """

    images: int
    channels: int
    counts: tuple[int, ...]
    height: Range
    width: Range
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    broken: int
    broken_pictures: tuple[str, ...]


def survey(source: ImageSource, tell: Callable[[int], object] = lambda _done: None) -> HalfSurvey:
    """Reads every picture of a source once; `tell` is called with how many were read more.

    Pictures are decoded by as many threads as there are cpus for this process. Raises BrokenPicture
    where all are broken.
    """
    totals = np.zeros((source.channels, _VALUES), np.int64)
    sizes: list[tuple[int, int]] = []
    broken: list[str] = []
    with ThreadPoolExecutor(len(allowed_cpus())) as threads:
        for part in _parts(source, threads):
            for found in part:
                if isinstance(found, BrokenPicture):
                    broken.append(str(found))
                    continue
                sizes.append(found[0])
                totals += found[1]
            tell(len(part))
    if not sizes:
        why = broken[0].removesuffix(SKIPPING)  # which would leave none
        raise BrokenPicture(f"all {len(source):,} pictures are broken, such as {why}")
    heights, widths = np.array(sizes).T
    mean, deviation = _moments(totals)
    return HalfSurvey(
        images=len(source),
        channels=source.channels,
        counts=tuple(class_counts(source.labels, len(source.class_names)).tolist()),
        height=_range(heights),
        width=_range(widths),
        mean=mean,
        deviation=deviation,
        broken=len(broken),
        broken_pictures=tuple(broken[:MOST_BROKEN]),
    )


_Found = tuple[tuple[int, int], npt.NDArray[np.int64]] | BrokenPicture
"""Height and width of a picture, and how often each channel has each value (C,256)."""


def _parts(source: ImageSource, threads: Executor) -> Iterator[list[_Found]]:
    for begin in range(0, len(source), _AT_A_TIME):
        rows = range(begin, min(begin + _AT_A_TIME, len(source)))
        yield list(threads.map(partial(_read, source), rows))


def _read(source: ImageSource, row: int) -> _Found:
    try:
        picture = source.picture(row)
    except BrokenPicture as error:
        return error
    return picture.shape[:2], _counts(picture)


def _counts(picture: Pixels) -> npt.NDArray[np.int64]:
    planes = picture.reshape(-1, picture.shape[2]).T
    return np.stack([np.bincount(plane, minlength=_VALUES) for plane in planes])


def _moments(totals: npt.NDArray[np.int64]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of how often (C,256) it has each value."""
    values, pixels = np.arange(_VALUES, dtype=np.float64), totals.sum(axis=1)
    mean = totals @ values / pixels
    variance = ((values - mean[:, None]) ** 2 * totals).sum(axis=1) / pixels
    return tuple(mean.tolist()), tuple(np.sqrt(variance).tolist())


def _range(pixels: npt.NDArray[np.int64]) -> Range:
    return Range(int(pixels.min()), int(np.median(pixels)), int(pixels.max()))
