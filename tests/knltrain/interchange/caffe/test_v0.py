from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.text_format import parse
from knltrain.interchange.caffe.v0 import from_v0
from knltrain.network.layers import Convolution, Dense, MaxPooling, Multipliers

from .prototxts import net

V0 = """input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
layers { layer { name: "pad" type: "padding" pad: 2 } bottom: "data" top: "pad" }
layers { layer { name: "conv" type: "conv" num_output: 4 kernelsize: 5 group: 1 biasterm: true
  weight_filler { type: "gaussian" std: 0.01 } blobs_lr: 1. blobs_lr: 2. weight_decay: 1.
  weight_decay: 0. } bottom: "pad" top: "conv" }
layers { layer { name: "relu" type: "relu" } bottom: "conv" top: "conv" }
layers { layer { name: "pool" type: "pool" pool: MAX kernelsize: 2 stride: 2 }
  bottom: "conv" top: "pool" }
layers { layer { name: "ip" type: "innerproduct" num_output: 10 } bottom: "pool" top: "ip" }
layers { layer { name: "prob" type: "softmax" } bottom: "ip" top: "prob" }
"""


def test_layers_of_v0_are_those_of_today_with_paddings_merged() -> None:
    found = net(V0).network
    conv, _, pool, ip = found.layers
    assert isinstance(conv, Convolution)
    assert (conv.padding, conv.initialiser) == (2, "gaussian:0.01")
    assert conv.weights_multipliers == Multipliers(1.0, 1.0)
    assert conv.bias_multipliers == Multipliers(2.0, 0.0)
    assert pool == MaxPooling("pool", 2, 2)
    assert found.shape_of("pool") == (4, 4, 4)
    assert isinstance(ip, Dense)


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("lrn", "local_size: 3 alpha: 0.5", "lrn_param { local_size: 3 alpha: 0.5 }"),
        ("dropout", "dropout_ratio: 0.4", "dropout_param { dropout_ratio: 0.4 }"),
        ("data", "source: 'x' batchsize: 3", "data_param { source: 'x' batch_size: 3 }"),
    ],
)
def test_flat_settings_go_into_a_message(kind: str, settings: str, expected: str) -> None:
    found = from_v0(parse(f"layer {{ type: '{kind}' {settings} }} top: 'a'", "a"))
    (wanted,) = parse(expected, "a").fields
    (inner,) = (each for each in found.fields if each.name == wanted.name)
    assert [(each.name, each.value) for each in inner.value.fields] == [
        (each.name, each.value) for each in wanted.value.fields
    ]
    assert found.texts("top") == ["a"]


def test_padding_replaces_that_of_its_window() -> None:
    (conv, *_) = net(V0.replace("kernelsize: 5", "kernelsize: 5 pad: 1")).network.layers
    assert isinstance(conv, Convolution)
    assert conv.padding == 2


def test_padding_of_other_layers_than_windows_is_refused() -> None:
    relu = 'layers { layer { name: "pad" type: "relu" } bottom: "pad" top: "conv" }'
    with pytest.raises(ConfigError, match=r"a.prototxt:3: .*'pad' of a padding \(line 2\): expec"):
        net("".join(V0.splitlines(True)[:2]) + relu)
