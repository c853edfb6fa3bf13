"""AlexNet, number for number as Caffe and torchvision have it."""

from __future__ import annotations

import pytest

from knltrain.network.layers import Convolution, Initial, LocalResponseNormalisation
from knltrain.network.zoo.alexnet import (
    alexnet,
    alexnet_torchvision,
    alexnet_ungrouped,
    caffenet,
)

NETWORK = alexnet()


def test_parameters_are_those_of_bvlc_alexnet() -> None:
    """60,965,224: the arrays of the published bvlc_alexnet.caffemodel, added up."""
    assert NETWORK.parameter_count == 60_965_224
    shapes = {spec.name: spec.shape for spec in NETWORK.parameters if spec.role == "weights"}
    assert shapes == {
        "conv1.weights": (96, 3, 11, 11),
        "conv2.weights": (256, 48, 5, 5),
        "conv3.weights": (384, 256, 3, 3),
        "conv4.weights": (384, 192, 3, 3),
        "conv5.weights": (256, 192, 3, 3),
        "fc6.weights": (4096, 9216),
        "fc7.weights": (4096, 4096),
        "fc8.weights": (1000, 4096),
    }


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("conv1", (55, 55, 96)),
        ("pool1", (27, 27, 96)),
        ("conv2", (27, 27, 256)),
        ("pool2", (13, 13, 256)),
        ("conv5", (13, 13, 256)),
        ("pool5", (6, 6, 256)),
        ("fc8", (1000,)),
    ],
)
def test_stages_have_the_sizes_of_the_paper(layer: str, shape: tuple[int, ...]) -> None:
    """Section 3.5 and figure 2 of the paper; 6x6x256 enter the first dense layer."""
    assert NETWORK.shape_of(layer) == shape


def test_one_image_costs_0_72_billion_multiply_adds() -> None:
    """Netscope's figures for the layers of bvlc_alexnet: 105, 224, 150, 112, 75 and 58.6 million.

    The last is that of the dense layers; together 724 million.
    """
    assert NETWORK.flops_per_image / 2e9 == pytest.approx(0.724, abs=5e-4)


def test_normalisation_stands_between_relu_and_pooling() -> None:
    for number in (1, 2):
        assert NETWORK.consumers(f"relu{number}") == (f"norm{number}",)
        assert NETWORK.consumers(f"norm{number}") == (f"pool{number}",)
    norms = [each for each in NETWORK.layers if isinstance(each, LocalResponseNormalisation)]
    assert [(each.size, each.alpha, each.beta, each.bias) for each in norms] == [
        (5, 1e-4, 0.75, 1.0)
    ] * 2


def test_fillers_and_multipliers_are_caffe_s() -> None:
    spec = {each.name: each for each in NETWORK.parameters}
    ones = [number for number in range(1, 6) if spec[f"conv{number}.bias"].initial.size == 0.1]
    assert ones == [2, 4, 5]
    assert spec["conv1.weights"].initial == Initial("normal", 0.01)
    assert spec["fc6.weights"].initial == Initial("normal", 0.005)
    for each in NETWORK.parameters:
        factors = (each.learning_rate_multiplier, each.decay_multiplier)
        assert factors == ((2, 0) if each.role == "bias" else (1, 1))


def test_caffenet_pools_before_it_normalises() -> None:
    """models/bvlc_reference_caffenet/train_val.prototxt."""
    network = caffenet()
    assert network.parameter_count == 60_965_224
    assert network.flops_per_image / 2e9 == pytest.approx(0.724, abs=5e-4)
    for number in (1, 2):
        assert network.consumers(f"relu{number}") == (f"pool{number}",)
        assert network.consumers(f"pool{number}") == (f"norm{number}",)
    ones = {each.layer for each in network.parameters if each.initial.size == 1.0}
    assert ones == {"conv2", "conv4", "conv5", "fc6", "fc7"}


def test_torchvision_s_has_fewer_filters_and_no_groups() -> None:
    network = alexnet_torchvision()
    assert network.parameter_count == 61_100_840
    assert network.flops_per_image / 2e9 == pytest.approx(0.714, abs=5e-4)
    assert network.shape_of("features/12") == (6, 6, 256)
    convolutions = [each for each in network.layers if isinstance(each, Convolution)]
    assert [(each.filters, each.groups) for each in convolutions] == [
        *((64, 1), (192, 1), (384, 1), (256, 1), (256, 1)),
    ]
    assert alexnet_torchvision(classes=7).output_shape == (7,)


def test_number_of_classes_is_that_of_the_last_layer() -> None:
    assert alexnet(classes=7).output_shape == (7,)


def test_without_groups_it_has_the_249_mb_of_sc17() -> None:
    """Counted by hand: 34,944 + 614,656 + 885,120 + 1,327,488 + 884,992, and 58,631,144 dense."""
    network = alexnet_ungrouped()
    assert network.parameter_count == 62_378_344
    assert round(4 * network.parameter_count / 1e6, 1) == 249.5
    assert network.flops_per_image / 2e6 == pytest.approx(1_135.3, rel=1e-3)
    assert [layer.name for layer in network.layers] == [layer.name for layer in NETWORK.layers]
    assert alexnet_ungrouped(classes=10).output_shape == (10,)
