from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.windows import caffe_size
from knltrain.network.layers import (
    AveragePooling,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
)

from .prototxts import DATA, layer, layers, net


def _pool(settings: str) -> Layer:
    (found,) = layers(layer("Pooling", f"pooling_param {{ {settings} }}"))
    return found


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "pad", "expected"),
    [
        (112, 3, 2, 0, 56),
        (14, 5, 3, 0, 4),
        (147, 3, 2, 0, 73),
        (56, 3, 2, 1, 29),
        (32, 3, 2, 0, 16),
        (7, 2, 2, 0, 4),
        (5, 1, 3, 0, 3),
    ],
)
def test_sizes_of_poolings_are_caffes(
    size: int, kernel: int, stride: int, pad: int, expected: int
) -> None:
    assert caffe_size(size, kernel, stride, pad, pad > 0, True) == expected
    images = DATA.replace("dim: 8", f"dim: {size}")
    text = layer(
        "Pooling", f"pooling_param {{ kernel_size: {kernel} stride: {stride} pad: {pad} }}"
    )
    if kernel < stride:
        with pytest.raises(ConfigError, match=r"windows that lie outside the 5 x 5 image"):
            net(images + text)
        return
    assert net(images + text).network.shape_of("top")[:2] == (expected, expected)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("kernel_size: 2 stride: 2", MaxPooling("top", 2, 2)),
        ("kernel_size: 3 stride: 2", MaxPooling("top", 3, 2, ceil=True)),
        ("pool: AVE kernel_size: 3 stride: 2 round_mode: FLOOR", AveragePooling("top", 3, 2)),
        ("kernel_size: 3 stride: 2 ceil_mode: false", MaxPooling("top", 3, 2)),
        ("kernel_h: 2 kernel_w: 4 stride_h: 2 pad_w: 1", MaxPooling("top", (2, 4), (2, 1), (0, 1))),
        (
            "pool: AVE kernel_size: 3 pad: 1 avg_include_pad: false",
            AveragePooling("top", 3, 1, 1, counts_padding=False),
        ),
        ("pool: AVE global_pooling: true", GlobalAveragePooling("top")),
        ("global_pooling: true", MaxPooling("top", 8, 1)),
    ],
)
def test_poolings_are_ours(settings: str, expected: Layer) -> None:
    assert _pool(settings) == expected


def test_convolution_has_all_its_numbers() -> None:
    (found,) = layers(
        layer(
            "Convolution",
            """convolution_param { num_output: 6 kernel_size: 3 kernel_size: 5 stride: 2 pad_h: 1
            pad_w: 2 dilation: 1 group: 3 bias_term: false axis: 1 engine: CUDNN
            weight_filler { type: "xavier" } }""",
        )
    )
    assert found == Convolution("top", 6, (3, 5), 2, (1, 2), groups=3, bias=False)


def test_convolution_of_a_vector_is_dense() -> None:
    text = layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", top="pool")
    conv = "convolution_param { num_output: 5 kernel_size: 1 weight_filler { type: 'xavier' } }"
    assert layers(text + layer("Convolution", conv, "pool"))[1] == Dense("top", 5)


def test_missing_filler_is_noted() -> None:
    found = net(DATA + layer("InnerProduct", "inner_product_param { num_output: 5 }"))
    assert found.network.layers == (Dense("top", 5, initialiser="constant:0.0"),)
    assert "a.prototxt:2: layer 'top': no weight_filler" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Pooling pooling_param { pool: STOCHASTIC kernel_size: 2 }", "STOCHASTIC is not there"),
        ("Pooling pooling_param { kernel_size: [2, 3] }", "kernel_size is given twice"),
        ("Pooling pooling_param { }", "kernel_size of 0 numbers: expected one"),
        ("Pooling pooling_param { kernel_h: 2 }", "one of kernel_h and kernel_w: expected both"),
        (
            "Pooling pooling_param { kernel_size: 2 kernel_h: 2 kernel_w: 2 }",
            "kernel_size of 1 num",
        ),
        ("Pooling pooling_param { kernel_size: 9 }", "a window of 9 does not fit into 8 pixels"),
        ("Pooling pooling_param { kernel_size: 3 pad: 2 }", "padding = 2, expected at most half"),
        ("Pooling pooling_param { kernel_size: 2 stride: 0 }", "stride = 0, expected at least 1"),
        ("Pooling pooling_param { global_pooling: true kernel_size: 2 }", "leave out its size"),
        ("Convolution convolution_param { kernel_size: 3 }", "num_output = 0: expected it"),
        ("Convolution convolution_param { num_output: 2 kernel_size: [1, 2, 3] }", "of 3 numbers"),
        (
            "Convolution convolution_param { num_output: 2 kernel_size: 3 axis: 2 }",
            "axis: 2 is not",
        ),
        ("Convolution convolution_param { num_output: 4 kernel_size: 3 group: 2 }", "groups = 2"),
        ("Convolution convolution_param { num_output: 4 kernel_size: 3 group: 0 }", "groups = 0"),
        (
            "Convolution convolution_param { num_output: 4 kernel_size: 3 relu: true }",
            "relu is not",
        ),
        ("InnerProduct inner_product_param { num_output: 2 transpose: true }", "transpose: true"),
        ("InnerProduct inner_product_param { num_output: -2 }", "num_output = -2"),
    ],
)
def test_settings_that_cannot_be_kept_are_named(text: str, message: str) -> None:
    kind, settings = text.split(" ", 1)
    with pytest.raises(ConfigError, match=r"a.prototxt:2: (layer 'top'.*)?" + message):
        net(DATA + layer(kind, settings))
