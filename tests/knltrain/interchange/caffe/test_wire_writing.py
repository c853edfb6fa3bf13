from __future__ import annotations

import numpy as np

from knltrain.interchange.caffe import wire_writing
from knltrain.interchange.caffe.caffemodel import read_blob
from knltrain.interchange.caffe.wire_format import message_of, text_of, wire_fields


def test_fields_are_read_as_they_were_written() -> None:
    parts = [
        *wire_writing.number_field(1, 300),
        *wire_writing.text_field(100, "ü"),
        *wire_writing.message_field(2, wire_writing.number_field(3, 0)),
    ]
    assert wire_writing.size_of(parts) == len(b"".join(parts))
    number, text, message = wire_fields(memoryview(b"".join(parts)), "a")
    assert (number.number, number.value) == (1, 300)
    assert (text.number, text_of(text)) == (100, "ü")
    (inner,) = wire_fields(message_of(message, "a"), "a")
    assert (inner.number, inner.value) == (3, 0)


def test_arrays_keep_shape_and_bits() -> None:
    values = np.array([[1, -0.0, np.pi], [1e-45, 3e38, 7]], np.float32)
    for each in (values, values.T, values[:, :0], values[0]):
        content = memoryview(b"".join(wire_writing.blob_message(each)))
        found = read_blob(content, "a")
        assert found.shape == each.shape
        assert found.tobytes() == each.tobytes()


def test_number_without_axes_has_no_shape_as_caffe_compares_them() -> None:
    content = memoryview(b"".join(wire_writing.blob_message(np.array(0.25, np.float32))))
    assert [each.number for each in wire_fields(content, "a")] == [5]
    assert read_blob(content, "a").tolist() == [0.25]


def test_arrays_are_not_copied() -> None:
    values = np.zeros(4, np.float32)
    (*_, data) = wire_writing.blob_message(values)
    values[0] = 1
    assert bytes(data[:4]) == np.float32(1).tobytes()
