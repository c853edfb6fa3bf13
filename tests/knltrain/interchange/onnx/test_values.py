from __future__ import annotations

import pytest

from knltrain.interchange.onnx.values import Value


@pytest.mark.parametrize(
    ("value", "dims"),
    [
        (Value("a", (5, 6, 7), "map"), (2, 7, 5, 6)),
        (Value("a", (5, 6, 7), "flat"), (2, 210)),
        (Value("a", (7,), "vector"), (2, 7)),
        (Value("a", (7,), "line"), (2, 7, 1)),
        (Value("a", (7,), "mean"), (2, 7, 1, 1)),
        (Value("a", (5, 6, 7), "map last"), (2, 5, 6, 7)),
        (Value("a", (7,), "mean last"), (2, 1, 1, 7)),
        (Value("a", (5, 6, 8), "groups", 4), (2, 4, 2, 5, 6)),
        (Value("a", (5, 6, 8), "shuffled", 4), (2, 2, 4, 5, 6)),
    ],
)
def test_forms_have_shapes(value: Value, dims: tuple[int, ...]) -> None:
    assert value.dims(2) == dims


@pytest.mark.parametrize(
    ("value", "shape", "is_by_channel"),
    [
        (Value("a", (5, 6, 7), "map"), (7, 1, 1), True),
        (Value("a", (5, 6, 7), "map"), (1, 7, 1, 1), True),
        (Value("a", (5, 6, 7), "map"), (7,), False),
        (Value("a", (5, 6, 7), "map last"), (7,), True),
        (Value("a", (7,), "vector"), (1, 7), True),
        (Value("a", (7,), "vector"), (2, 7), False),
        (Value("a", (5, 6, 8), "groups", 4), (8, 1, 1), False),
    ],
)
def test_numbers_of_channels_are_told_by_their_shape(
    value: Value, shape: tuple[int, ...], is_by_channel: bool
) -> None:
    assert value.is_by_channel(shape) is is_by_channel
