from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.network.graph import Output
from knltrain.network.layers import (
    Addition,
    Affine,
    Concatenation,
    Dense,
    Dropout,
    LocalResponseNormalisation,
)

from .prototxts import DATA, DENSE, LABELLED, LOSS, layer, layers, net

TWO = layer("ReLU", "", "data", "a") + layer("ReLU", "", "data", "b")


def test_layers_of_simple_settings_are_ours() -> None:
    text = layer("LRN", "lrn_param { local_size: 3 alpha: 5e-05 beta: 0.5 k: 2 }", "data", "a")
    assert layers(text + layer("Dropout", "dropout_param { dropout_ratio: 0.4 }", "a", "b")) == (
        LocalResponseNormalisation("a", 3, 5e-05, 0.5, 2.0),
        Dropout("b", 0.4),
    )
    assert layers(layer("LRN")) == (LocalResponseNormalisation("top", 5, 1.0, 0.75, 1.0),)


def test_branches_are_concatenated_and_summed() -> None:
    assert layers(TWO + layer("Concat", "", "b a"))[2] == Concatenation("top", ("b", "a"))
    assert layers(TWO + layer("Eltwise", "eltwise_param { operation: SUM }", "a b"))[2] == Addition(
        "top", ("a", "b")
    )


def test_sum_of_three_is_two_sums() -> None:
    text = TWO + layer("ReLU", "", "data", "c") + layer("Eltwise", "", "a b c")
    assert layers(text)[3:] == (Addition("top/1", ("a", "b")), Addition("top", ("top/1", "c")))


def test_blob_that_is_summed_twice_has_both_factors() -> None:
    one = layer("ReLU", "", "data", "a")
    assert layers(one + layer("Eltwise", "", "a a"))[1] == Affine("top", 2.0)
    weighted = layer("Eltwise", "eltwise_param { coeff: 1 coeff: 2 coeff: -3 }", "a b a")
    assert layers(TWO + weighted)[2:] == (
        Affine("top/factor1", -2.0, inputs=("a",)),
        Affine("top/factor2", 2.0, inputs=("b",)),
        Addition("top", ("top/factor1", "top/factor2")),
    )


def test_factors_of_a_sum_and_of_a_power_layer_are_affine() -> None:
    differing = layer("Eltwise", "eltwise_param { coeff: 1 coeff: -0.5 }", "a b")
    assert layers(TWO + differing)[2:] == (
        Affine("top/factor2", -0.5),
        Addition("top", ("a", "top/factor2")),
    )
    power = layer("Power", "power_param { scale: 0.5 shift: -1 }", "data", "a")
    assert layers(power) == (Affine("a", 0.5, -1.0),)


def test_map_that_was_flattened_is_dense_only() -> None:
    dense = "inner_product_param { num_output: 4 weight_filler { type: 'xavier' } }"
    text = layer("Flatten", "", "data", "flat") + layer("ReLU", "", "flat", "relu")
    assert layers(text + layer("InnerProduct", dense, "relu"))[1] == Dense("top", 4)
    with pytest.raises(ConfigError, match="'top': Pooling of a vector: expected feature maps"):
        layers(text + layer("Pooling", "pooling_param { kernel_size: 2 }", "relu"))


def test_split_and_silence_and_softmax_are_no_layers() -> None:
    split = LABELLED + layer("Split", 'top: "c"', "data", "b").replace('name: "b"', 'name: "s"')
    found = net(split + DENSE.replace('"data"', '"c"') + LOSS + layer("Silence", "", "b", "n"))
    assert [each.name for each in found.network.layers] == ["ip"]
    assert net(DATA + DENSE + layer("Softmax", "", "ip")).network.outputs == (Output("ip"),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            layer("Eltwise", "eltwise_param { operation: MAX }", "a b"),
            "MAX is not there: expected SUM",
        ),
        (layer("Eltwise", "eltwise_param { coeff: 2 }", "a b"), "1 coeff for 2 bottoms: expected"),
        (layer("Power", "power_param { power: 2 }", "a"), "power: 2 is not there: expected 1"),
        (layer("Eltwise", "", "a"), r"Eltwise of \['a'\]: expected two or more blobs"),
        (layer("Concat", "concat_param { axis: 2 }", "a b"), "along axis 2: expected different"),
        (layer("Concat", "", "a a"), r"Concat of \['a', 'a'\] .*expected different blobs"),
        (layer("Concat", "", "a"), r"Concat of \['a'\]: expected two or more"),
        (layer("Split", "", "a b"), r"Split of \['a', 'b'\]: expected one bottom"),
        (layer("Split", "", ""), r"Split of \[\]: expected one bottom"),
        (layer("Flatten", "flatten_param { axis: 2 }"), "expected axis 1 to -1"),
    ],
)
def test_what_there_is_not_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:\d+: layer '\w+': .*" + message):
        net(DATA + TWO + text)
