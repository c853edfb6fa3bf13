"""Weights of Caffe: the layers of a .caffemodel with their arrays ("blobs").

The file is a `NetParameter`. Its layers are field 100. In files of before 2014 (V1) they are field
2, numbers of their fields differ, and each may hold a V0 layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.wire_format import (
    BYTES,
    FIXED_32,
    FIXED_64,
    WireField,
    message_of,
    text_of,
    varints,
    wire_fields,
)
from knltrain.vectors import FloatArray

LAYERS: Final = 100
V1_LAYERS: Final = 2


@dataclass(frozen=True, slots=True)
class _Numbers:
    """Numbers of a layer's fields; V1 says types by number, and has none that need theirs here."""

    name: int
    blobs: int
    kind: int | None = None
    bottom: int | None = None
    top: int | None = None
    inner: int | None = None
    """A V0 layer, in which name and blobs stand instead."""


_NUMBERS: Final = {LAYERS: _Numbers(1, 7, 2, 3, 4), V1_LAYERS: _Numbers(4, 6, inner=1)}
_V0_NUMBERS: Final = _Numbers(1, 50)

_SHAPE, _DATA, _DOUBLE_DATA, _DIMENSIONS = 7, 5, 8, 1
_HDF5: Final = b"\x89HDF\r\n\x1a\n"
_MOST_DIMENSIONS: Final = 32
"""Caffe's own limit."""
_LEGACY_SHAPE: Final = (1, 2, 3, 4)
"""num, channels, height and width, before blobs had shapes."""


@final
@dataclass(frozen=True, slots=True, eq=False)
class CaffeLayer:
    """A layer's name and arrays: weights first, then the bias.

    Its type and blobs are empty in files of before 2014.
    """

    name: str
    blobs: tuple[FloatArray, ...]
    kind: str = ""
    bottoms: tuple[str, ...] = ()
    tops: tuple[str, ...] = ()


def read_caffemodel(path: Path) -> tuple[CaffeLayer, ...]:
    """The layers of a .caffemodel that have arrays, float32.

    Raises NetworkError for a file that cannot be read, or is none of Caffe's.
    """
    content = read_content(path, "a .caffemodel")
    found = [
        (field.number, _layer(field, f"{path}: layer {number}"))
        for number, field in enumerate(wire_fields(memoryview(content), str(path)))
        if field.number in _NUMBERS
    ]
    if len({number for number, _ in found}) > 1:
        raise NetworkError(
            f"{path} has layers of both forms (layer and layers): expected those of one"
        )
    layers = tuple(layer for _, layer in found if layer.blobs)
    if not layers:
        raise NetworkError(f"{path} has no layer with weights: expected a .caffemodel of Caffe")
    return layers


def read_content(path: Path, expected: str) -> bytes:
    """The bytes of a file; NetworkError where it cannot be read, or is HDF5."""
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise NetworkError(
            f"{path} cannot be read ({getattr(error, 'strerror', None) or error}): expected "
            f"{expected}"
        ) from error
    if content.startswith(_HDF5):
        raise NetworkError(
            f"{path} is HDF5: expected {expected} as a message of protocol buffers; the solver's "
            "snapshot_format: BINARYPROTO writes it so"
        )
    return content


def read_blob(message: memoryview, where: str) -> FloatArray:
    """The array of a `BlobProto` (a mean image's file is one), float32."""
    shape: list[int] = []
    legacy: dict[int, int] = {}
    parts: list[FloatArray] = []
    for field in wire_fields(message, where):
        if field.number == _SHAPE:
            for inner in wire_fields(message_of(field, where), where):
                if inner.number == _DIMENSIONS:
                    shape += varints(inner, where)
        elif field.number in _LEGACY_SHAPE:
            legacy[field.number] = next(varints(field, where), 0)
        elif field.number in (_DATA, _DOUBLE_DATA):
            parts.append(_values(field, where))
    values = parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.float32), *parts])
    if not shape:
        shape = [legacy.get(number, 1) for number in _LEGACY_SHAPE] if legacy else [len(values)]
    if math.prod(shape) != len(values) or len(shape) > _MOST_DIMENSIONS or max(shape) > 1 << 40:
        raise NetworkError(
            f"{where}: an array of shape {tuple(shape)} has {len(values)} values: expected "
            f"{math.prod(shape)}; the file is damaged"
        )
    return values.reshape(shape)


def _layer(field: WireField, where: str) -> CaffeLayer:
    message, numbers = message_of(field, where), _NUMBERS[field.number]
    texts: dict[str, list[str]] = {"name": [""], "kind": [""], "bottom": [], "top": []}
    blobs: list[FloatArray] = []
    for what, each in _flat(message, numbers, where):
        if what == "blob":
            place = f"{where} '{texts['name'][-1]}', array {len(blobs)}"
            blobs.append(read_blob(message_of(each, place), place))
        else:
            texts[what].append(text_of(each))
    return CaffeLayer(
        texts["name"][-1],
        tuple(blobs),
        texts["kind"][-1],
        tuple(texts["bottom"]),
        tuple(texts["top"]),
    )


def _flat(message: memoryview, numbers: _Numbers, where: str) -> Iterator[tuple[str, WireField]]:
    known = {
        numbers.name: "name",
        numbers.blobs: "blob",
        numbers.kind: "kind",
        numbers.bottom: "bottom",
        numbers.top: "top",
    }
    for field in wire_fields(message, where):
        if field.number in known:
            yield known[field.number], field
        elif field.number == numbers.inner and field.kind == BYTES:
            yield from _flat(message_of(field, where), _V0_NUMBERS, where)


def _values(field: WireField, where: str) -> FloatArray:
    """Floats or doubles, one or packed."""
    size = 4 if field.number == _DATA else 8
    wanted = FIXED_32 if field.number == _DATA else FIXED_64
    if field.kind not in (BYTES, wanted) or isinstance(field.value, int):
        raise NetworkError(f"{where}: values of type {field.kind}: the file is damaged")
    if len(field.value) % size:
        raise NetworkError(
            f"{where}: {len(field.value)} bytes of values, expected a multiple of {size}; the file "
            "is damaged"
        )
    return np.frombuffer(field.value, f"<f{size}").astype(np.float32, copy=False)
