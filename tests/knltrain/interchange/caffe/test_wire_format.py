from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.interchange.caffe.wire_format import (
    message_of,
    text_of,
    varints,
    wire_fields,
)


def _fields(content: bytes) -> list[tuple[int, int, int | bytes]]:
    return [
        (number, kind, value if isinstance(value, int) else bytes(value))
        for number, kind, value in wire_fields(memoryview(content), "file")
    ]


def test_fields_of_all_types_are_read() -> None:
    """08 96 01 is field 1 of 150, the example of protobuf's documentation."""
    assert _fields(bytes.fromhex("089601")) == [(1, 0, 150)]
    assert _fields(bytes.fromhex("120774657374696e67")) == [(2, 2, b"testing")]
    assert _fields(bytes.fromhex("0d0000803f")) == [(1, 5, bytes.fromhex("0000803f"))]
    assert _fields(bytes.fromhex("09000000000000f03f")) == [
        (1, 1, bytes.fromhex("000000000000f03f"))
    ]
    assert _fields(bytes.fromhex("a206021000")) == [(100, 2, b"\x10\0")]
    assert _fields(b"") == []


def test_numbers_may_be_packed() -> None:
    (one,) = wire_fields(memoryview(bytes.fromhex("089601")), "file")
    (packed,) = wire_fields(memoryview(bytes.fromhex("3206038e029ea705")), "file")
    assert list(varints(one, "file")) == [150]
    assert list(varints(packed, "file")) == [3, 270, 86942]


def test_text_that_is_no_utf_8_is_escaped() -> None:
    (field,) = wire_fields(memoryview(bytes.fromhex("0a0361ff62")), "file")
    assert text_of(field) == "a\\xffb"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0a05616263", "byte 0 begins a field of 5 bytes beyond the end"),
        ("08", "a number beyond the end"),
        ("08ffffffffffffffffffff01", "a number of more than 10 bytes"),
        ("0b", "byte 0 begins a field of type 3, which there is not"),
        ("08010f", "byte 2 begins a field of type 7"),
        ("0d0000", "a field of 4 bytes beyond the end"),
        ("0affffffffffffffff7f", "bytes beyond the end"),
    ],
)
def test_what_is_no_message_is_named_with_its_byte(content: str, message: str) -> None:
    with pytest.raises(NetworkError, match=f"file: .*{message}.*expected a file as Caffe"):
        _fields(bytes.fromhex(content))


def test_number_where_a_message_belongs_is_named() -> None:
    (field,) = wire_fields(memoryview(bytes.fromhex("089601")), "file")
    with pytest.raises(NetworkError, match="file: field 1 is no message"):
        message_of(field, "file")
