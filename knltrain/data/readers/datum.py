"""Caffe's Datum: the message of protocol buffers that its databases hold for each picture.

Fields: 1 channels, 2 height, 3 width, 4 data (bytes), 5 label, 6 float_data, 7 encoded. A field
begins with number << 3 | type as a varint (protobuf.dev, "Encoding"; BVLC Caffe, caffe.proto).
"""

from __future__ import annotations

from typing import Final, NamedTuple, final

_CHANNELS: Final = 1 << 3
_HEIGHT: Final = 2 << 3
_WIDTH: Final = 3 << 3
_DATA: Final = 4 << 3 | 2
_LABEL: Final = 5 << 3
_FLOATS: Final = 6
_ENCODED: Final = 7 << 3
_SIZES: Final = {1: 8, 5: 4}
"""Bytes of a value by its type."""

_BITS: Final = 64


class Datum(NamedTuple):
    """What a Datum says of its picture, whose bytes are [begin : begin + size] of the message.

    A picture that is not `encoded` is uint8 (channels, height, width).
    """

    channels: int
    height: int
    width: int
    label: int
    begin: int
    size: int
    encoded: bool
    has_floats: bool

    def is_whole(self) -> bool:
        """Whether the bytes of a picture that is not encoded are as many as its shape says."""
        return 0 < self.size == self.channels * self.height * self.width


def parse_datum(message: memoryview) -> Datum:
    """What the fields of a message say, without copies; ValueError for what is no Datum."""
    numbers = {_CHANNELS: 0, _HEIGHT: 0, _WIDTH: 0, _LABEL: 0, _ENCODED: 0}
    begin = size = place = 0
    has_floats = False
    while place < len(message):
        key, place = _varint(message, place)
        kind = key & 7
        if kind == 0:
            value, place = _varint(message, place)
            if key in numbers:
                numbers[key] = value
            continue
        if kind == 2:
            length, place = _varint(message, place)
        elif kind in _SIZES:
            length = _SIZES[kind]
        else:
            raise ValueError(f"a field of type {kind}, which there is not")
        if length > len(message) - place:
            raise ValueError(f"a field of {length} bytes beyond its end")
        if key == _DATA:
            begin, size = place, length
        has_floats = has_floats or key >> 3 == _FLOATS
        place += length
    label = numbers[_LABEL]
    return Datum(
        numbers[_CHANNELS],
        numbers[_HEIGHT],
        numbers[_WIDTH],
        label - (1 << _BITS) if label >> (_BITS - 1) else label,
        begin,
        size,
        bool(numbers[_ENCODED]),
        has_floats,
    )


@final
class DatumParser:
    """`parse_datum` for many messages; of those that are alike but for their pictures, once."""

    def __init__(self) -> None:
        self._head = b""
        self._end = 0
        self._known: dict[bytes, Datum] = {}

    def __call__(self, message: memoryview) -> Datum:
        """What `parse_datum` says of a message."""
        if not self._known or message[: len(self._head)] != self._head:
            found = parse_datum(message)
            self._head, self._end = bytes(message[: found.begin]), found.begin + found.size
            self._known = {bytes(message[self._end :]): found} if found.size else {}
            return found
        behind = bytes(message[self._end :])  # as the head ends with the size of the picture
        known = self._known.get(behind)
        if known is None or len(message) < self._end:
            known = self._known[behind] = parse_datum(message)
        return known


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < _BITS:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return value & ((1 << _BITS) - 1), place
    raise ValueError("a number that has no end")
