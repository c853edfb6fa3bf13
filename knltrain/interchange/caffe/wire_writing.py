"""Writes messages of protocol buffers in parts, so that arrays are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np

from knltrain.interchange.caffe.wire_format import BYTES, VARINT
from knltrain.vectors import FloatArray

Parts: TypeAlias = "list[bytes | memoryview]"
"""Bytes that follow each other."""

_SHAPE: Final = 7
_DATA: Final = 5
_DIMENSIONS: Final = 1


def varint(value: int) -> bytes:
    """A number from 0, seven bits a byte, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def number_field(number: int, value: int) -> Parts:
    """A field with a number from 0."""
    return [varint(number << 3 | VARINT) + varint(value)]


def text_field(number: int, text: str) -> Parts:
    """A field with a text."""
    return message_field(number, [text.encode()])


def message_field(number: int, parts: Iterable[bytes | memoryview]) -> Parts:
    """A field with a message, or other bytes."""
    inside = list(parts)
    return [varint(number << 3 | BYTES) + varint(size_of(inside)), *inside]


def size_of(parts: Sequence[bytes | memoryview]) -> int:
    """Bytes of all parts."""
    return sum(map(len, parts))


def blob_message(values: FloatArray) -> Parts:
    """A `BlobProto` of an array, float32; one without axes, a number, has no shape."""
    shape = b"".join(map(varint, values.shape))
    data = np.ascontiguousarray(values, "<f4").reshape(-1).data.cast("B")
    dimensions = message_field(_DIMENSIONS, [shape])
    if not values.ndim:
        return message_field(_DATA, [data])
    return [*message_field(_SHAPE, dimensions), *message_field(_DATA, [data])]
