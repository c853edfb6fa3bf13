"""The fields of a message of protocol buffers, without its description and without copies.

A field begins with its number and type as a varint (number << 3 | type). Type 0 is a varint, 1 has
8 bytes, 2 a length and so many bytes, 5 has 4 bytes (protobuf.dev, "Encoding").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from knltrain.errors import NetworkError

VARINT: Final = 0
FIXED_64: Final = 1
BYTES: Final = 2
FIXED_32: Final = 5

_SIZES: Final = {FIXED_64: 8, FIXED_32: 4}
_LONGEST_VARINT: Final = 10


class WireField(NamedTuple):
    """A field: its number, its type, and its value: a number for a varint, else the bytes."""

    number: int
    kind: int
    value: int | memoryview


def wire_fields(message: memoryview, where: str) -> Iterator[WireField]:
    """The fields of a message in their order; `where` names it for messages.

    Raises NetworkError, with the byte, for what is no such message.
    """
    place = 0
    while place < len(message):
        begin = place
        key, place = _varint(message, place, where)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _varint(message, place, where)
            yield WireField(number, kind, value)
            continue
        if kind == BYTES:
            size, place = _varint(message, place, where)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise _damaged(where, begin, f"a field of type {kind}, which there is not")
        if size > len(message) - place:
            raise _damaged(where, begin, f"a field of {size} bytes beyond the end")
        yield WireField(number, kind, message[place : place + size])
        place += size


def varints(field: WireField, where: str) -> Iterator[int]:
    """The numbers of a field of varints, one or packed."""
    if isinstance(field.value, int):
        yield field.value
        return
    place = 0
    while place < len(field.value):
        value, place = _varint(field.value, place, where)
        yield value


def text_of(field: WireField) -> str:
    """A field's text; bytes that are no UTF-8 are escaped."""
    return bytes(_bytes(field)).decode("utf-8", "backslashreplace")


def message_of(field: WireField, where: str) -> memoryview:
    """The message in a field; NetworkError if it holds none."""
    if field.kind != BYTES:
        raise NetworkError(f"{where}: field {field.number} is no message: the file is damaged")
    return _bytes(field)


def _bytes(field: WireField) -> memoryview:
    return field.value if isinstance(field.value, memoryview) else memoryview(b"")


def _varint(message: memoryview, place: int, where: str) -> tuple[int, int]:
    value = 0
    for number in range(_LONGEST_VARINT):
        if place + number >= len(message):
            raise _damaged(where, place, "a number beyond the end")
        byte = message[place + number]
        value |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            return value, place + number + 1
    raise _damaged(where, place, f"a number of more than {_LONGEST_VARINT} bytes")


def _damaged(where: str, place: int, what: str) -> NetworkError:
    return NetworkError(
        f"{where}: byte {place} begins {what}: expected a file as Caffe writes it; it is cut off, "
        "damaged, or of another kind"
    )
