from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.text_format import parse
from knltrain.interchange.caffe.upgrading import upgraded_net
from knltrain.network.layers import Convolution, Dense, Multipliers

from .prototxts import DATA, net

V1 = """layers { name: "data" type: DATA top: "data" top: "label"
  data_param { source: "mnist" batch_size: 4 scale: 0.5 mirror: true } }
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv"
  blobs_lr: 1 blobs_lr: 2
  weight_decay: 1 weight_decay: 0
  convolution_param { num_output: 2 kernel_size: 5 weight_filler { type: "xavier" } } }
layers { name: "ip" type: INNER_PRODUCT bottom: "conv" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layers { name: "relu" type: RELU bottom: "ip" top: "ip" }
layers { name: "loss" type: SOFTMAX_LOSS bottom: "ip" bottom: "label" }
"""


def test_layers_of_v1_are_those_of_today() -> None:
    found = net(V1)
    conv, ip, _ = found.network.layers
    assert isinstance(conv, Convolution)
    assert (conv.filters, conv.kernel, conv.initialiser) == (2, 5, "xavier")
    assert conv.bias_multipliers == Multipliers(2.0, 0.0)
    assert isinstance(ip, Dense)
    assert found.network.outputs[0].layer == "relu"
    assert found.places["conv"] == "a.prototxt:3"
    assert any("scale: 0.5 (line 2), mirror: true" in note for note in found.notes)


def test_inputs_of_several_forms_are_layers() -> None:
    shape = "input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }"
    for told in (f"input: 'data' {shape}", "input: 'data' input_dim: [1, 3, 8, 8]"):
        (found,) = upgraded_net(parse(told, "a"))
        (inner,) = found.message("input_param").messages("shape")
        assert inner.wholes("dim") == [1, 3, 8, 8]
        assert (found.text("type"), found.text("top")) == ("Input", "data")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            DATA + "layers { name: 'a' type: RELU }",
            "a.prototxt:2: layers and layer .first in line 1",
        ),
        ("input: 'data'", "a.prototxt:1: input: 'data': expected its input_shape or input_dim"),
        ("layers { layer { name: 'a' type: 'convv' } top: 'a' }", "type 'convv' is unknown"),
        ("layers { name: 'a' type: CONVO top: 'a' }", "type 'Convo' is unknown"),
        ("layer: 3", "layer: 3: expected layer { ... }"),
        ("layers { data_param: 3 type: DATA top: 'a' }", "expected data_param { ... }"),
    ],
)
def test_forms_that_do_not_go_together_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        net(text)
