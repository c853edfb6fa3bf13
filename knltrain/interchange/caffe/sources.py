"""Caffe's data layers: where images come in, and what is told about them.

knltrain reads none of their files. They say the shape of the images and the batch; what they do
with the images is noted.
"""

from __future__ import annotations

import re
from typing import Final

from knltrain.interchange.caffe.means import check_means
from knltrain.interchange.caffe.message import Message
from knltrain.interchange.caffe.net_layer import Blob, DataSource, MapShape, NetLayer
from knltrain.interchange.caffe.walk import Converter, Walk
from knltrain.network.layers import IMAGES

KNOWN_DATA: Final[dict[str, MapShape]] = {"mnist": (28, 28, 1)}
"""Data sets of Caffe's examples that knltrain has, with the shape of their images."""

_SETTINGS: Final = {
    "Data": "data_param",
    "DummyData": "dummy_data_param",
    "HDF5Data": "hdf5_data_param",
    "ImageData": "image_data_param",
    "Input": "input_param",
    "MemoryData": "memory_data_param",
    "ParallelData": "parallel_data_param",
    "ParallelInMemData": "parallel_inmem_data_param",
    "WindowData": "window_data_param",
}
_OF_ANY_BLOB: Final = ("DummyData", "Input")
"""Types whose tops are what their shapes say; the second of others has labels."""
_SIZES: Final = ("channels", "height", "width")
_KEPT: Final = ("source", "batch_size", "shape", "num", *_SIZES)


def known_data(source: str) -> str | None:
    """The name of the data set of ours that a source's path tells, if one does."""
    words = re.split(r"[^a-z0-9]+", source.lower())
    return next((name for name in KNOWN_DATA if name in words), None)


def batch_of(message: Message) -> int | None:
    """The batch of a data layer, None for other layers."""
    settings = _SETTINGS.get(message.text("type"))
    if settings is None:
        return None
    told = message.message(settings)
    shapes = _told_shapes(told)
    return told.whole("batch_size", shapes[0][0] if shapes and shapes[0] else None)


def _data(layer: NetLayer, walk: Walk) -> None:
    """Images on the first top, labels on the second; or on each what its shape says."""
    message = layer.message
    told = message.message(_SETTINGS[layer.kind])
    if layer.bottoms or not 1 <= len(layer.tops) <= 2:
        raise layer.refused(
            f"{len(layer.bottoms)} bottoms and {len(layer.tops)} tops: expected tops alone, for "
            "images and labels"
        )
    shapes = _told_shapes(told)
    for top in range(len(layer.tops)):
        shape = shapes[min(top, len(shapes) - 1)] if shapes else None
        is_second = top == 1 and (shape is None or layer.kind not in _OF_ANY_BLOB)
        if is_second or (shape is not None and all(size == 1 for size in shape[1:])):
            walk.put_labels(layer, top)
            continue
        images = _shape(layer, told, walk, shape)
        check_means(layer, walk, message.message("transform_param"), images)
        walk.sources.append(
            DataSource(
                layer.kind,
                message.line,
                told.text("source"),
                batch_of(message),
                images,
            )
        )
        walk.put(layer, Blob(IMAGES, images, message.line), top)
    _note_dropped(layer, walk, (told, message.message("transform_param")))


def _note_dropped(layer: NetLayer, walk: Walk, settings: tuple[Message, ...]) -> None:
    found = [each for told in settings for each in told.fields if each.name not in _KEPT]
    for told in settings:
        told.read_all()
    if found:
        dropped = ", ".join(f"{each.told} (line {each.line})" for each in found)
        walk.note(
            layer.message,
            layer.message.line,
            f"dropped: {dropped}; knltrain standardises the images of [data] and shuffles them in "
            "each epoch",
        )


def _told_shapes(told: Message) -> list[tuple[int, ...]]:
    """The shapes (N,C,H,W) or (N,) that a layer states."""
    shapes = [tuple(shape.wholes("dim")) for shape in told.messages("shape")]
    if shapes:
        return shapes
    columns = [told.wholes(name) for name in ("num", *_SIZES)]
    if all(columns[1:]):
        columns[0] = columns[0] or [1] * len(columns[1])
        return list(zip(*columns, strict=False))
    return []


def _shape(layer: NetLayer, told: Message, walk: Walk, stated: tuple[int, ...] | None) -> MapShape:
    """(H,W,C) of the images: as stated, or cropped, or given, or that of a known data set."""
    if walk.sources:
        raise layer.refused(
            f"images come in here and in line {walk.sources[0].line}: expected one input"
        )
    transform = layer.message.message("transform_param")
    crop = transform.whole("crop_size", 0)
    given = walk.told_shape or KNOWN_DATA.get(known_data(told.text("source")) or "")
    if stated is not None:
        if len(stated) != 4 or min(stated) < 1:
            raise layer.refused(f"shape {stated}: expected 4 numbers above 0, N, C, H and W")
        channels, height, width = stated[1:]
        found = (height, width, channels)
        if walk.told_shape not in (None, found):
            raise layer.refused(
                f"its images are {_told(found)}, not {_told(walk.told_shape or ())}"
            )
        return found
    if given is None and crop and len(transform.numbers("mean_value")) == 3:
        return crop, crop, 3
    if given is None:
        raise layer.refused(
            "the size of its images is not told: give it, with channels, as --input "
            f"{crop or 'HEIGHT'}x{crop or 'WIDTH'}x3"
        )
    if crop and (crop, crop) != given[:2]:
        raise layer.refused(
            f"images are cropped to {crop} x {crop} (line {transform.line_of('crop_size')}), not "
            f"{_told(given)}: expected --input {crop}x{crop}x{given[2]}"
        )
    return given


def _told(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


DATA_CONVERTERS: Final[dict[str, Converter]] = dict.fromkeys(_SETTINGS, _data)
"""Types of data layers -> what becomes of them."""
