from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.sources import known_data

from .prototxts import DENSE, LOSS, layer, net


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("examples/mnist/mnist_train_lmdb", "mnist"),
        ("/data/MNIST-train", "mnist"),
        ("examples/fashionmnist/lmdb", None),
        ("", None),
    ],
)
def test_known_data_are_told_by_a_word_of_their_source(source: str, expected: str | None) -> None:
    assert known_data(source) == expected


def _data(settings: str, kind: str = "Data") -> str:
    return (
        f'layer {{ name: "d" type: "{kind}" top: "data" top: "label"\n {settings} }}\n{DENSE}{LOSS}'
    )


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        (_data('data_param { source: "mnist" }'), None, (28, 28, 1)),
        (_data('data_param { source: "x" }'), (32, 40, 3), (32, 40, 3)),
        (_data("transform_param { crop_size: 24 }"), (24, 24, 1), (24, 24, 1)),
        (
            _data("transform_param { crop_size: 24 mean_value: [104, 117, 123] }"),
            None,
            (24, 24, 3),
        ),
        (
            _data(
                "memory_data_param { batch_size: 2 channels: 3 height: 8 width: 9 }", "MemoryData"
            ),
            None,
            (8, 9, 3),
        ),
        (
            _data(
                "dummy_data_param { shape { dim: [2, 3, 8, 9] } shape { dim: [2] } }", "DummyData"
            ),
            None,
            (8, 9, 3),
        ),
        (
            _data(
                "input_param { shape { dim: [2, 3, 8, 9] } shape { dim: [2, 1, 1, 1] } }", "Input"
            ),
            (8, 9, 3),
            (8, 9, 3),
        ),
    ],
)
def test_shape_of_images_is_told_by_net_or_user(
    text: str, given: tuple[int, int, int] | None, expected: tuple[int, int, int]
) -> None:
    assert net(text, given).network.input_shape == expected


def test_what_is_done_with_images_is_noted_with_lines() -> None:
    settings = (
        'transform_param { scale: 0.1 mirror: true }\ndata_param { source: "mnist" backend: LMDB }'
    )
    (note,) = net(_data(settings)).notes
    assert note == (
        "a.prototxt:1: layer 'd': dropped: backend: LMDB (line 3), scale: 0.1 (line 2), mirror: "
        "true (line 2); knltrain standardises the images of [data] and shuffles them in each epoch"
    )


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        (_data('data_param { source: "x" }'), None, "as --input HEIGHTxWIDTHx3"),
        (_data("transform_param { crop_size: 24 }"), None, "as --input 24x24x3"),
        (
            _data("transform_param { crop_size: 24 }"),
            (28, 28, 1),
            "cropped to 24 x 24 .line 2., not",
        ),
        (
            _data("input_param { shape { dim: [2, 3, 8, 9] } }", "Input"),
            (9, 8, 3),
            "its images are 8 x 9 x 3, not 9 x 8 x 3",
        ),
        (
            _data("input_param { shape { dim: [2, 3] } }", "Input"),
            None,
            "expected 4 numbers above 0",
        ),
        (_data('data_param { source: "mnist" } top: "c"'), None, "0 bottoms and 3 tops"),
    ],
)
def test_shape_that_is_not_told_or_differs_is_named(
    text: str, given: tuple[int, int, int] | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:1: layer 'd': .*" + message):
        net(text, given)


def test_second_input_is_refused() -> None:
    shape = "input_param { shape { dim: [2, 3, 8, 9] } }"
    second = f'layer {{ name: "e" type: "Input" top: "more" {shape} }}\n'
    first = f'layer {{ name: "d" type: "Input" top: "data" {shape} }}\n'
    with pytest.raises(ConfigError, match="images come in here and in line 1: expected one input"):
        net(first + second + layer("ReLU"))


def test_batch_is_told_or_that_of_a_shape() -> None:
    assert net(_data('data_param { source: "mnist" batch_size: 7 }')).source.batch == 7
    shaped = _data("input_param { shape { dim: [6, 3, 8, 9] } shape { dim: 6 } }", "Input")
    assert (net(shaped).source.batch, net(shaped).test_batch) == (6, 6)
    assert net(_data('data_param { source: "mnist" }')).source.batch is None
