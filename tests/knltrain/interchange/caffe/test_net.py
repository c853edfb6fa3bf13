from __future__ import annotations

import pytest

from knltrain.errors import ConfigError
from knltrain.interchange.caffe.net import network_of
from knltrain.interchange.caffe.phases import NetState
from knltrain.interchange.caffe.text_format import read_prototxt
from knltrain.network.zoo.lenet import lenet

from .prototxts import DATA, DENSE, LABELLED, LOSS, NETS, SMALL, layer, net


def test_caffes_lenet_is_that_of_the_zoo_but_for_the_multipliers() -> None:
    path = NETS / "lenet_train_test.prototxt"
    found = network_of(read_prototxt(path), NetState("TRAIN"), NetState("TEST"), None)
    assert found.network.shapes == lenet().shapes
    assert [(spec.name, spec.shape, spec.initial) for spec in found.network.parameters] == [
        (spec.name, spec.shape, spec.initial) for spec in lenet().parameters
    ]
    assert {spec.learning_rate_multiplier for spec in found.network.parameters[1::2]} == {2.0}
    assert (found.source.batch, found.source.line, found.test_batch) == (64, 3, 100)
    assert found.places["conv2"] == f"{path}:43"


def test_layers_of_other_stages_are_out() -> None:
    text = LABELLED + layer("ReLU", "include { stage: 'x' }", "data", "r") + DENSE + LOSS
    assert [each.name for each in net(text).network.layers] == ["ip"]
    inside = net(
        "state { stage: 'x' }" + text.replace('bottom: "data" top: "ip"', 'bottom: "r" top: "ip"')
    )
    assert [each.name for each in inside.network.layers] == ["r", "ip"]


def test_net_without_a_loss_is_one_of_tests() -> None:
    text = DATA + layer("Dropout", "include { phase: TRAIN }", "data", "data") + DENSE
    assert [each.name for each in net(text).network.layers] == ["ip"]


def test_layer_on_which_no_loss_depends_is_dropped() -> None:
    found = net(SMALL + layer("ReLU", "", "ip", "unused"))
    assert [each.name for each in found.network.layers] == ["ip"]
    assert "a.prototxt:6: layer 'unused': dropped, as no loss depends on it" in found.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.prototxt: a net without layers"),
        (DATA, "a.prototxt: a net without layers"),
        (SMALL + "nmae: 'x'", "a.prototxt:6: nmae is not known here"),
        (SMALL.replace("top:", "include {} exclude {} top:", 1), "'data': both include"),
        (SMALL + layer("ReLU", "include { phase: TEST }", "ip", "r"), "'r': is only in tests"),
        (
            DATA + layer("ReLU", "", "data", "a") + layer("ReLU", "", "data", "b"),
            r"2 layers whose outputs nothing reads \(a, b\): expected one",
        ),
    ],
)
def test_nets_that_cannot_be_kept_are_named(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        net(text)


def test_net_level_fields_without_effect_are_noted() -> None:
    (note,) = net("force_backward: true\n" + SMALL).notes
    assert note.startswith("a.prototxt:1: force_backward: true dropped")


def test_two_losses_of_one_layer_are_refused_with_the_file() -> None:
    second = LOSS.replace('"loss"', '"loss2"')
    with pytest.raises(ConfigError, match=r"a.prototxt: outputs of network .*different layers"):
        net(SMALL + second)
