from __future__ import annotations

import numpy as np
import pytest

from knltrain.data.readers.datum import DatumParser, parse_datum

from .written import datum, encoded_datum, pictures, varint


def test_a_raw_picture_is_found_in_its_message() -> None:
    pixels, _ = pictures(1)
    message = datum(pixels[0], 300)
    found = parse_datum(memoryview(message))
    assert (found.channels, found.height, found.width, found.label) == (3, 5, 6, 300)
    data = message[found.begin : found.begin + found.size]
    assert data == pixels[0].transpose(2, 0, 1).tobytes()
    assert found.is_whole()
    assert not (found.encoded or found.has_floats)


def test_an_encoded_picture_is_told() -> None:
    message = encoded_datum(b"picture", 7)
    found = parse_datum(memoryview(message))
    assert found.encoded
    assert message[found.begin : found.begin + found.size] == b"picture"
    assert found.label == 7


def test_negative_labels_floats_and_unknown_fields_are_read() -> None:
    floats = np.array([0.5, 2], "<f4").tobytes()
    for message, has_floats in (
        (varint(5 << 3) + varint(-3), False),
        (varint(6 << 3 | 2) + varint(8) + floats + b"\x28" + varint(-3), True),
        (varint(6 << 3 | 5) + floats[:4] + b"\x28" + varint(-3), True),
        (varint(99 << 3 | 1) + bytes(8) + b"\x28" + varint(-3), False),
    ):
        found = parse_datum(memoryview(message))
        assert (found.label, found.has_floats, found.size) == (-3, has_floats, 0)


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        (b"\x08", "a number that has no end"),
        (b"\x08" + b"\xff" * 11, "a number that has no end"),
        (b"\x22\x05abcd", "a field of 5 bytes beyond its end"),
        (b"\x0b", "a field of type 3"),
    ],
)
def test_other_messages_are_refused(message: bytes, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        parse_datum(memoryview(message))


def test_messages_that_are_alike_are_parsed_as_each_by_itself() -> None:
    pixels, _ = pictures(4)
    other = pictures(2, channels=1)[0]
    messages = [
        *(datum(picture, label) for picture in pixels for label in (0, 1, 300)),
        *(datum(pixels[0], 1), datum(other[0], 1), datum(pixels[1][:3], 2), datum(pixels[1], 2)),
        datum(pixels[0], 1) + b"\x28\x07",
        datum(pixels[0], 1) + datum(other[1], 5),  # the last of equal fields counts
        datum(other[1], 5) + datum(pixels[0], 1),
        *(encoded_datum(data, 3) for data in (b"picture", b"pictures", b"pictur!", b"")),
        *(b"\x28\x05", b"\x28\x06", b""),
    ]
    random = np.random.default_rng(0)
    parse = DatumParser()
    for number in random.integers(len(messages), size=500).tolist():
        message = memoryview(messages[number])
        assert parse(message) == parse_datum(message)


def test_a_message_that_is_cut_short_is_refused_behind_a_whole_one() -> None:
    whole = datum(pictures(1)[0][0], 1)
    parse = DatumParser()
    for size in range(whole.index(varint(90)) + 1, len(whole) - 3):
        parse(memoryview(whole))
        with pytest.raises(ValueError, match="beyond its end"):
            parse(memoryview(whole)[:size])


def test_damage_is_refused_or_read_but_never_beyond_the_message() -> None:
    message, random = datum(pictures(1)[0][0], 5), np.random.default_rng(2)
    for _ in range(500):
        damaged = bytearray(message)
        damaged[random.integers(20)] = random.integers(256)
        try:
            found = parse_datum(memoryview(damaged))
        except ValueError:
            continue
        assert 0 <= found.begin <= found.begin + found.size <= len(damaged)
