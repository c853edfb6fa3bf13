from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from knltrain.errors import ConfigError
from knltrain.interchange.to_torch import to_torch
from knltrain.interchange.weights import load_weights
from knltrain.network.layers import (
    Addition,
    ChannelProduct,
    ChannelScale,
    Convolution,
    Multipliers,
    ReLU,
)
from knltrain.network.parameters import ParameterVector

from .caffe_files import blob, field
from .prototxts import DATA, layer, layers, net

MEANS = layer("Pooling", "pooling_param { pool: AVE global_pooling: true }", "data", "means")
CONV = layer("ReLU", "", "data", "relu")


def test_scale_of_two_bottoms_is_a_product() -> None:
    text = CONV + MEANS + layer("Scale", "scale_param { axis: 0 }", "relu means")
    assert layers(text)[-1] == ChannelProduct("top", ("relu", "means"))


def test_axpy_is_a_product_and_a_sum() -> None:
    text = CONV + MEANS + layer("Axpy", "", "means relu data")
    assert layers(text)[-2:] == (
        ChannelProduct("top/product", ("relu", "means")),
        Addition("top", ("top/product", "images")),
    )


def test_scale_alone_is_factors_and_with_a_bias_a_convolution_by_channel() -> None:
    settings = """scale_param { filler { value: 0.5 } bias_term: true bias_filler { value: 2 } }
    param { lr_mult: 3 } param { lr_mult: 4 decay_mult: 0 }"""
    (found,) = layers(layer("Scale", settings))
    assert found == Convolution(
        "top",
        3,
        1,
        groups=3,
        initialiser="constant:0.5",
        bias_value=2.0,
        weights_multipliers=Multipliers(3.0),
        bias_multipliers=Multipliers(4.0, 0.0),
    )
    (found,) = layers(layer("Scale"))
    assert found == ChannelScale("top")
    (found,) = layers(layer("Scale", "scale_param { filler { value: 2 } } param { lr_mult: 3 }"))
    assert found == ChannelScale("top", 2.0, Multipliers(3.0))
    (found,) = layers(layer("Bias", "bias_param { filler { value: 2 } } param { lr_mult: 3 }"))
    assert found == Convolution(
        "top",
        3,
        1,
        groups=3,
        initialiser="constant:1.0",
        bias_value=2.0,
        weights_multipliers=Multipliers(0.0, 0.0),
        bias_multipliers=Multipliers(3.0),
    )


def test_weights_of_both_are_those_of_their_file(tmp_path: Path) -> None:
    text = DATA + layer("Scale", "scale_param { bias_term: true }", "data", "scale")
    text += layer("Bias", "", "scale", "bias")
    network = net(text).network
    path = tmp_path / "a.caffemodel"
    path.write_bytes(
        _layer("Scale", "scale", "data", (2, 3, 4), (5, 6, 7))
        + _layer("Bias", "bias", "scale", (1, 2, 3))
    )
    parameters = ParameterVector(network)
    load_weights(parameters, path)
    images = np.ones((1, 3, 8, 8), np.float32)
    with torch.no_grad():
        module = to_torch(network, parameters).eval()
        ((_, _), (_, found)) = module.steps(torch.from_numpy(images), network.layers)
    assert found[0, :, 0, 0].tolist() == [2 + 5 + 1, 3 + 6 + 2, 4 + 7 + 3]


def _layer(kind: str, name: str, bottom: str, *values: tuple[float, ...]) -> bytes:
    texts = ((1, name), (2, kind), (3, bottom), (4, name))
    content = b"".join(field(number, text.encode()) for number, text in texts)
    return field(100, content + b"".join(field(7, blob((len(each),), each)) for each in values))


def test_clip_from_0_and_swish() -> None:
    (found,) = layers(layer("Clip", "clip_param { min: 0 max: 6 }"))
    assert found == ReLU("top", ceiling=6.0)
    (found,) = layers(layer("Swish"))
    assert getattr(found, "function", None) == "silu"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (CONV + MEANS + layer("Scale", "", "relu means"), "expected axis: 0"),
        (
            CONV + MEANS + layer("Scale", "scale_param { axis: 0 bias_term: true }", "relu means"),
            "expected a layer Bias behind it",
        ),
        (
            CONV + layer("Scale", "scale_param { axis: 0 }", "relu data"),
            "a factor for each channel",
        ),
        (layer("Scale", "scale_param { axis: 2 }"), "channel by channel"),
        (layer("Scale", "scale_param { num_axes: 2 }"), "channel by channel"),
        (layer("Scale", "scale_param { filler { type: 'msra' } }"), "'msra' of a bias or scale"),
        (layer("Bias", "", "data data"), "expected one, or Eltwise"),
        (layer("Axpy", "", "data data"), "expected three bottoms"),
        (CONV + layer("Axpy", "", "relu relu data"), "a factor for each channel"),
        (layer("Clip", "clip_param { min: -1 max: 6 }"), r"Clip from -1.0 to 6.0: expected min: 0"),
        (layer("Swish", "swish_param { beta: 2 }"), "beta: 2 is not there: expected 1"),
    ],
)
def test_settings_that_there_are_not_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:\d+: layer 'top': .*" + message):
        net(DATA + text)
