"""What Caffe subtracts from images: a mean image's file, or a number for each channel.

knltrain standardises images by itself, so this is checked and told, not taken.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.caffemodel import read_blob, read_content
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import MapShape, NetLayer
from knltrain.interchange.caffe.walk import Walk
from knltrain.vectors import FloatArray


def read_mean(path: Path) -> FloatArray:
    """A mean image (C,H,W) float32; NetworkError for a file that is none."""
    expected = "a mean image of Caffe (.binaryproto)"
    found = read_blob(memoryview(read_content(path, expected)), str(path))
    while found.ndim > 3 and found.shape[0] == 1:
        found = found[0]
    if found.ndim != 3 or not found.size or not np.isfinite(found).all():
        raise NetworkError(f"{path} is an array of shape {found.shape}: expected {expected}")
    return found


def check_means(layer: NetLayer, walk: Walk, transform: Message, images: MapShape) -> None:
    """Refuse means that do not fit the images, and note those that do."""
    values, file = transform.numbers("mean_value"), transform.text("mean_file")
    line = transform.line_of("mean_file") or transform.line_of("mean_value") or transform.line
    if values and file:
        raise layer.refused(
            f"mean_file and mean_value (line {transform.line_of('mean_value')}): expected one of "
            "them",
            line,
        )
    if len(values) not in (0, 1, images[2]):
        raise layer.refused(
            f"{len(values)} mean_value: expected one, or one for each of {images[2]} channels", line
        )
    if not file:
        return
    path = _found(file, Path(layer.message.file))
    if path is None:
        walk.note(layer.message, line, f"mean_file '{file[:60]}' is not here, and was not checked")
        return
    try:
        mean = read_mean(path)
    except NetworkError as error:
        raise layer.refused(f"mean_file: {error}", line) from error
    channels, height, width = mean.shape
    if channels != images[2] or height < images[0] or width < images[1]:
        raise layer.refused(
            f"mean_file: {path} is {height} x {width} x {channels}: expected "
            f"{images[0]} x {images[1]} x {images[2]} or larger, as the images",
            line,
        )
    told = ", ".join(f"{each:.4g}" for each in mean.mean(axis=(1, 2), dtype=np.float64))
    walk.note(
        layer.message,
        line,
        f"mean_file '{file[:60]}' of {height} x {width} x {channels}, means of its channels "
        f"{told}, dropped: knltrain standardises the images of [data]",
    )


def _found(file: str, net: Path) -> Path | None:
    """The file, from the working folder, then from the net's folder and those above."""
    folder = net.absolute().parent
    for base in (Path(), folder, *folder.parents):
        try:
            if (base / file).is_file():
                return base / file
        except (OSError, ValueError):
            return None
    return None
