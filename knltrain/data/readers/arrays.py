"""Pictures in arrays of files: which shapes they may have, and when values are bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from affinity.numbers import format_bytes
from affinity.process.cgroup import available_bytes
from knltrain.data.contents import contents_of
from knltrain.data.readers.labels import as_labels
from knltrain.data.source import ArraySource, Pixels
from knltrain.errors import DataError

Layout = Literal["nhwc", "nchw"]

_TOLERANCE: Final = 1e-3
"""How far 255 times a float is from a whole number that it was made of."""


def array_source(
    images: npt.NDArray[Any],
    labels: npt.NDArray[Any],
    where: str,
    *,
    layout: Layout = "nhwc",
    channel_order: str = "rgb",
    first_label: int = 0,
    class_names: tuple[str, ...] = (),
) -> ArraySource:
    """A source of images uint8 (N,H,W), (N,H,W,C) or (N,C,H,W), without copying them.

    `where` names their file. Raises DataError for other shapes, types, or numbers of labels.
    """
    if images.dtype != np.uint8:
        raise DataError(f"{where}: {wrong_type(images.dtype)}")
    pixels = _nhwc(images, where, layout)
    if channel_order == "bgr" and pixels.shape[-1] == 3:
        pixels = pixels[..., ::-1]
    found = as_labels(labels, where, first_label)
    if len(images) != len(found):
        raise DataError(
            f"{where}: {len(images)} images, but {len(found)} labels: expected a label for each"
        )
    if not len(images):
        raise DataError(f"{where}: there are no images: expected at least one")
    return ArraySource(pixels, found, class_names, contents_of(pixels, found), where)


def wrong_type(dtype: npt.DTypeLike) -> str:
    """Why values of this type are no pixels, and what to do."""
    ways = (
        "write the pixels from before they were normalised, or, of values from 0 to 1, "
        "(images * 255).round().astype('uint8')"
        if np.dtype(dtype).kind == "f"
        else "convert them by images.astype('uint8'), after scaling to 0..255"
    )
    return f"images are {dtype}, expected uint8, 0 to 255: {ways}"


def are_whole(values: npt.NDArray[Any]) -> bool:
    """Whether all values are whole numbers: pixels as they are, not scaled to 0..1."""
    return bool((values == np.rint(values)).all())


def in_bytes(values: npt.NDArray[Any], factor: int, where: str) -> Pixels:
    """Values times `factor`, which are to be whole numbers of 0 to 255; DataError if not."""
    scaled = values * np.float32(factor)
    rounded = np.rint(scaled)
    with np.errstate(invalid="ignore"):  # of NaN, which is refused
        are_bytes = (np.abs(scaled - rounded) < _TOLERANCE) & (rounded >= 0) & (rounded <= 255)
        if are_bytes.all():
            pixels: Pixels = rounded.astype(np.uint8)
            return pixels
    raise DataError(
        f"{where}: values from {values.min():g} to {values.max():g} are neither whole numbers of 0 "
        f"to 255 nor such 255ths: {wrong_type(values.dtype)}"
    )


def check_room(asked: int, where: str | Path) -> None:
    """Refuse arrays that do not fit into the memory that is free, before reading: DataError."""
    free = available_bytes()
    if asked > free:
        raise DataError(
            f"{where}: its images take {format_bytes(asked)} in memory, and {format_bytes(free)} "
            "are free: keep them in a form that can be mapped, not compressed"
        )


def _nhwc(images: npt.NDArray[np.uint8], where: str, layout: Layout) -> Pixels:
    if images.ndim == 3:
        pixels = images[..., None]
    elif images.ndim == 4:
        pixels = images if layout == "nhwc" else images.transpose(0, 2, 3, 1)
    else:
        raise DataError(
            f"{where}: images have shape {images.shape}: expected (N, H, W) of gray ones, or "
            f"({', '.join(layout.upper())})"
        )
    if pixels.shape[-1] not in (1, 3) or 0 in pixels.shape[1:]:
        shape = ", ".join(map(str, images.shape))
        raise DataError(
            f"{where}: images ({', '.join(layout.upper())}) = ({shape}): expected 1 or 3 channels, "
            "and at least one pixel"
        )
    return pixels
