"""A short summary of a data set's contents, enough to tell it from another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xxhash import xxh3_128

_WHOLE_BYTES: Final = 2**30
_AT_A_TIME: Final = 256
"""Images; those that do not lie as they are read are copied."""


@dataclass(frozen=True, slots=True)
class HalfContents:
    """The training or the test half: number of images, their shape (H,W,C), and a digest of all.

    (0,0,C) where their sizes differ.
    """

    images: int
    image_shape: tuple[int, int, int]
    digest: str

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.image_shape)) if self.image_shape[0] else "several sizes"
        return f"{self.images:,} images of {shape} (digest {self.digest[:8]})"


@dataclass(frozen=True, slots=True)
class DataContents:
    """Both halves of the data set `name` as read, before any computation on them.

    So the same files give the same contents on every computer.
    """

    name: str
    train: HalfContents
    test: HalfContents

    def same_as(self, other: DataContents) -> bool:
        """Whether both hold the same images and labels, whatever their names."""
        return (self.train, self.test) == (other.train, other.test)

    def __str__(self) -> str:
        return f"'{self.name}' with {self.train} for training and {self.test} for testing"

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> DataContents:
        """The inverse of `dataclasses.asdict`, also by way of JSON.

        Raises KeyError or TypeError for other fields.
        """
        halves = (
            HalfContents(half["images"], tuple(half["image_shape"]), half["digest"])
            for half in (fields["train"], fields["test"])
        )
        return cls(fields["name"], *halves)


def contents_of(images: npt.NDArray[np.generic], labels: npt.NDArray[Any]) -> HalfContents:
    """The contents of images (N,H,W) or (N,H,W,C) and their labels, as they were read.

    Labels are whole numbers (N,), or targets (N, classes). Of more than 1 GiB of images, `sampled`
    ones count.
    """
    count, height, width, *channels = images.shape
    found = xxh3_128()
    if images.nbytes <= _WHOLE_BYTES:
        for begin in range(0, count, _AT_A_TIME):
            found.update(np.ascontiguousarray(images[begin : begin + _AT_A_TIME]).data)
    else:
        for row in sampled(count):
            found.update(np.ascontiguousarray(images[row]).data)
    kind = np.int64 if labels.ndim == 1 else np.float32
    found.update(np.ascontiguousarray(labels, kind).data)
    return HalfContents(count, (height, width, *(channels or [1])), found.hexdigest())


def sampled(images: int) -> list[int]:
    """The numbers of up to 1,000 images at equal distances, by which large sets are told apart."""
    few = min(images, 1_000)
    return [number * images // few for number in range(few)]


def contents_of_recipe(recipe: str, images: int, image_shape: tuple[int, int, int]) -> HalfContents:
    """The contents of computed images, by a text that describes the computation."""
    return HalfContents(images, image_shape, xxh3_128(recipe.encode()).hexdigest())
