"""Caffe's LeNet, number for number."""

from __future__ import annotations

from knltrain.network.zoo.lenet import lenet


def test_lenet_has_caffe_s_431080_parameters() -> None:
    network = lenet()
    assert network.parameter_count == 431_080
    assert {spec.name: spec.shape for spec in network.parameters} == {
        "conv1.weights": (20, 1, 5, 5),
        "conv1.bias": (20,),
        "conv2.weights": (50, 20, 5, 5),
        "conv2.bias": (50,),
        "ip1.weights": (500, 800),
        "ip1.bias": (500,),
        "ip2.weights": (10, 500),
        "ip2.bias": (10,),
    }


def test_lenet_shapes_are_caffe_s() -> None:
    assert lenet().shapes == (
        (28, 28, 1),
        (24, 24, 20),
        (12, 12, 20),
        (8, 8, 50),
        (4, 4, 50),
        (500,),
        (500,),
        (10,),
    )


def test_lenet_training_costs_13_megaflops_per_image() -> None:
    assert lenet().training_flops_per_image == 13_182_000
