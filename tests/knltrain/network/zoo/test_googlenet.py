"""GoogLeNet, number for number as Caffe has it."""

from __future__ import annotations

import pytest

from knltrain.network.graph import Output
from knltrain.network.layers import Initial
from knltrain.network.zoo.googlenet import googlenet

NETWORK = googlenet()
MAIN = NETWORK.needed_for(NETWORK.outputs[:1])


def test_parameters_are_those_of_bvlc_googlenet() -> None:
    """13,378,280: the arrays of bvlc_googlenet.caffemodel; 6,998,552 without the two heads."""
    names = {layer.name for layer in MAIN}
    main = sum(spec.size for spec in NETWORK.parameters if spec.layer in names)
    assert (NETWORK.parameter_count, main) == (13_378_280, 6_998_552)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("conv1/7x7_s2", (112, 112, 64)),
        ("pool1/3x3_s2", (56, 56, 64)),
        ("conv2/3x3", (56, 56, 192)),
        ("pool2/3x3_s2", (28, 28, 192)),
        ("inception_3a/output", (28, 28, 256)),
        ("inception_3b/output", (28, 28, 480)),
        ("pool3/3x3_s2", (14, 14, 480)),
        ("inception_4a/output", (14, 14, 512)),
        ("inception_4b/output", (14, 14, 512)),
        ("inception_4c/output", (14, 14, 512)),
        ("inception_4d/output", (14, 14, 528)),
        ("inception_4e/output", (14, 14, 832)),
        ("pool4/3x3_s2", (7, 7, 832)),
        ("inception_5a/output", (7, 7, 832)),
        ("inception_5b/output", (7, 7, 1024)),
        ("pool5/7x7_s1", (1024,)),
        ("loss1/ave_pool", (4, 4, 512)),
        ("loss2/ave_pool", (4, 4, 528)),
        ("loss3/classifier", (1000,)),
    ],
)
def test_stages_have_the_sizes_of_the_paper(layer: str, shape: tuple[int, ...]) -> None:
    """Table 1 and section 5 of the paper."""
    assert NETWORK.shape_of(layer) == shape


def test_one_image_costs_1_58_billion_multiply_adds_in_evaluation() -> None:
    """The paper aims at 1.5 billion, section 1.

    Open Model Zoo's 3.266 GFLOP for googlenet-v1 count poolings, normalisations and biases too.
    """
    operations = [NETWORK.operation(layer, 1) for layer in MAIN]
    flops = sum(each.costs["forward"].flops for each in operations if each.is_product)
    assert flops / 2e9 == pytest.approx(1.58, abs=5e-3)


def test_auxiliary_losses_weigh_0_3() -> None:
    assert NETWORK.outputs == (
        Output("loss3/classifier", 1.0),
        Output("loss1/classifier", 0.3),
        Output("loss2/classifier", 0.3),
    )
    assert "loss1/ave_pool" in NETWORK.consumers("inception_4a/output")
    assert "loss2/ave_pool" in NETWORK.consumers("inception_4d/output")


def test_branches_stand_in_caffe_s_order() -> None:
    output = next(layer for layer in NETWORK.layers if layer.name == "inception_5b/output")
    assert [shape[2] for shape in NETWORK.input_shapes(output)] == [384, 384, 128, 128]


def test_fillers_and_multipliers_are_caffe_s() -> None:
    for spec in NETWORK.parameters:
        classifier = spec.layer.endswith("classifier")
        if spec.role == "bias":
            assert spec.initial == Initial("constant", 0.0 if classifier else 0.2)
            assert (spec.learning_rate_multiplier, spec.decay_multiplier) == (2, 0)
        else:
            assert spec.initial.kind == "uniform"


def test_number_of_classes_is_that_of_every_output() -> None:
    assert {googlenet(7).shape_of(output.layer) for output in googlenet(7).outputs} == {(7,)}
