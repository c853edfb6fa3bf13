from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.network.graph import Output
from knltrain.network.layers import ReLU

from .prototxts import DATA, DENSE, LABELLED, LOSS, SMALL, layer, layers, net

TWICE = layer("ReLU", "", "data", "a") + layer("ReLU", "", "data", "b").replace(
    'top: "b"', 'top: "a"'
)


def test_layer_in_place_is_what_later_layers_read() -> None:
    found = net(
        LABELLED + DENSE + layer("ReLU", "", "ip", "ip").replace('name: "ip"', 'name: "r"') + LOSS
    )
    assert [each.name for each in found.network.layers] == ["ip", "r"]
    assert found.network.outputs[0].layer == "r"
    assert found.places == {"ip": "a.prototxt:3", "r": "a.prototxt:5"}


def test_layer_names_its_inputs_unless_that_is_the_layer_before() -> None:
    text = (
        layer("ReLU", "", "data", "a")
        + layer("ReLU", "", "data", "b")
        + layer("Eltwise", "", "a b", "sum")
    )
    assert [each.inputs for each in layers(text)] == [(), ("images",), ("a", "b")]


def test_fields_without_effect_are_noted_with_the_line() -> None:
    found = net(SMALL.replace("inner_product_param", "phase: TRAIN\ninner_product_param"))
    assert any(
        note.startswith("a.prototxt:4: layer 'ip': phase: TRAIN dropped: ") for note in found.notes
    )


def test_same_note_of_several_layers_is_told_once() -> None:
    text = layer("ReLU", "engine: CUDNN", "data", "a") + layer("ReLU", "engine: CUDNN", "a", "b")
    assert net(DATA + text).notes == (
        "a.prototxt:2: layer 'a' and 1 more: engine: CUDNN dropped: knltrain chooses its kernels "
        "itself",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (layer("ReLU", "", "dat"), ":2: layer 'top': reads blob 'dat', which no layer before it"),
        (
            layer("ReLU", "", "b", "a") + layer("ReLU", "", "a", "b"),
            "reads blob 'b', which no layer",
        ),
        (TWICE, ":3: layer 'b': writes blob 'a', which line 2 has"),
        (layer("Relu"), "type 'Relu' is unknown: expected a type of Caffe's layers"),
        (layer("ReLU", "relu_param { slope: 1 }"), "relu_param.slope is not known here, and may"),
        (layer("ReLU", "forward_type: FLOAT16"), ":2: layer 'top': forward_type is not known here"),
        (layer("ReLU", "loss_weight: 1"), "loss_weight is not known here"),
        (layer("ReLU", "", "data data"), "ReLU with 2 bottoms and 1 tops: expected one of each"),
        (layer("ReLU").replace('"ReLU"', "3"), "type: 3: expected a text in quotes"),
        (
            layer("ReLU", "", "data", "a") + layer("ReLU", "propagate_down: false", "a"),
            "propagate_down: false stops the gradient",
        ),
        (layer("ReLU", "relu_param { negative_slope: 2 }"), ":2: layer 'top': slope = 2"),
    ],
)
def test_what_cannot_be_kept_is_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        net(DATA + text)


def test_all_refusals_are_told_at_once_and_what_depends_on_them_is_not() -> None:
    text = layer("BNLL", "", "data", "a") + layer("ReLU", "", "a", "b") + layer("ELU", "", "b", "c")
    with pytest.raises(ConfigError) as found:
        net(DATA + text + layer("ELU", "", "data", "d"))
    assert [line.split(": ")[2] for line in str(found.value).splitlines()] == [
        "type 'BNLL' is not there",
        "type 'ELU' is not there",
    ]


@pytest.mark.parametrize("name", ["a/../b", "nul\\000", "ü", "a b", "", "images"])
def test_name_that_no_layer_of_ours_may_have_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"a.prototxt:2: .*expected letters, digits"):
        net(DATA + layer("ReLU").replace('name: "top"', f'name: "{name}"'))


def test_two_layers_of_one_name_are_refused() -> None:
    two = layer("ReLU", "", "data", "a") + layer("ReLU", "", "a", "b").replace(
        'name: "b"', 'name: "a"'
    )
    with pytest.raises(ConfigError, match=r"a.prototxt:3: layer 'a': has the name of a.prototxt:2"):
        net(DATA + two)


def test_many_layers_are_read() -> None:
    assert len(layers("".join(_chain(1000)))) == 1000


def _chain(count: int) -> list[str]:
    return [layer("ReLU", "", f"a{i - 1}" if i else "data", f"a{i}") for i in range(count)]


def test_fields_that_a_filler_does_not_read_are_noted() -> None:
    found = net(SMALL.replace('"xavier"', '"xavier" std: 0.1'))
    assert found.network == net(SMALL).network
    assert any(":4: layer 'ip': std: 0.1 dropped: its filler" in note for note in found.notes)


def test_last_layer_may_be_in_place() -> None:
    in_place = layer("ReLU", "", "top").replace('name: "top"', 'name: "last"')
    assert net(DATA + layer("ReLU") + in_place).network.outputs == (Output("last"),)


def test_relu_is_ours() -> None:
    assert layers(layer("ReLU", "relu_param { negative_slope: 0.1 }")) == (ReLU("top", 0.1),)
