"""Caffe's quick network, number for number."""

from __future__ import annotations

from knltrain.network.zoo.cifar_quick import cifar_quick

NETWORK = cifar_quick()


def test_parameters_are_those_of_cifar10_quick() -> None:
    """145,578: 2,432 + 25,632 + 51,264 + 65,600 + 650, from Caffe's prototxt."""
    sizes = dict.fromkeys(("conv1", "conv2", "conv3", "ip1", "ip2"), 0)
    for spec in NETWORK.parameters:
        sizes[spec.layer] += spec.size
    assert list(sizes.values()) == [2_432, 25_632, 51_264, 65_600, 650]
    assert NETWORK.parameter_count == 145_578


def test_poolings_round_up() -> None:
    shapes = [NETWORK.shape_of(f"pool{number}") for number in (1, 2, 3)]
    assert shapes == [(16, 16, 32), (8, 8, 32), (4, 4, 64)]


def test_one_image_costs_12_million_multiply_adds() -> None:
    """2,457,600 + 6,553,600 + 3,276,800 + 65,536 + 640, by hand."""
    assert NETWORK.flops_per_image == 2 * 12_354_176


def test_fillers_and_multipliers_are_caffe_s() -> None:
    deviations = [spec.initial.size for spec in NETWORK.parameters if spec.role == "weights"]
    assert deviations == [0.0001, 0.01, 0.01, 0.1, 0.1]
    for spec in NETWORK.parameters:
        factors = (spec.learning_rate_multiplier, spec.decay_multiplier)
        assert factors == ((2, 1) if spec.role == "bias" else (1, 1))


def test_number_of_classes_is_that_of_the_last_layer() -> None:
    assert cifar_quick(classes=100).output_shape == (100,)
