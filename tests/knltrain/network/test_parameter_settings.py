"""Patterns change the parameters that they match, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    CAFFE_BIAS,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Multipliers,
)
from knltrain.network.network import Network
from knltrain.network.parameter_settings import ParameterSetting

NETWORK = Network(
    "small",
    (4, 4, 2),
    (
        Convolution("conv1", 3, 3),
        BatchNormalisation("bn1"),
        Convolution("conv2", 3, 1),
        GlobalAveragePooling("pool"),
        Dense("fc", 2, bias_multipliers=CAFFE_BIAS),
    ),
)


def _with(*settings: tuple[str, float, float]) -> Network:
    return replace(
        NETWORK,
        settings=tuple(
            ParameterSetting("network.multipliers", pattern, Multipliers(rate, decay))
            for pattern, rate, decay in settings
        ),
    )


def _factors(network: Network) -> dict[str, tuple[float, float]]:
    return {
        spec.name: (spec.learning_rate_multiplier, spec.decay_multiplier)
        for spec in network.parameters
        if not spec.is_statistic
    }


def test_factors_multiply_those_of_the_layer_and_of_other_patterns() -> None:
    found = _factors(_with(("fc", 10, 1), ("*.bias", 1, 0.5), ("f*", 0.5, 1)))
    changed = {"fc.weights": (5, 1), "fc.bias": (10, 0)}
    biases = dict.fromkeys(("conv1.bias", "conv2.bias"), (1, 0.5))
    assert found == {**_factors(NETWORK), **biases, **changed}


def test_a_frozen_layer_keeps_its_statistics_and_what_is_before_it_needs_no_gradient() -> None:
    network = _with(("conv1", 0, 1), ("bn1", 0, 1))
    frozen = {spec.name for spec in network.parameters if spec.is_frozen}
    assert frozen == {spec.name for spec in NETWORK.parameters if spec.layer in ("conv1", "bn1")}
    assert [network.needs_gradient(layer.name) for layer in network.layers] == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert network.training_flops_per_image < NETWORK.training_flops_per_image


def test_statistics_of_a_layer_stay_if_all_its_parameters_do() -> None:
    momenta = {
        spec.name: spec.statistic_momentum
        for spec in _with(("bn1.s*", 0, 1)).parameters
        if spec.is_statistic
    }
    assert momenta == {"bn1.running_mean": 0, "bn1.running_variance": 0}
    half = _with(("bn1.scale", 0, 1)).parameters
    assert [spec.statistic_momentum for spec in half] == [
        spec.statistic_momentum for spec in NETWORK.parameters
    ]


def test_statistics_move_beside_a_scale_and_shift_that_are_constant_by_themselves() -> None:
    fixed = Multipliers(0.0, 0.0)
    normalisation = BatchNormalisation("bn1", scale_multipliers=fixed, shift_multipliers=fixed)
    layers = tuple(normalisation if each.name == "bn1" else each for each in NETWORK.layers)
    network = replace(NETWORK, layers=layers)
    for each in (network, replace(network, settings=_with(("conv1", 0, 1)).settings)):
        momenta = {spec.statistic_momentum for spec in each.parameters if spec.is_statistic}
        assert momenta == {normalisation.momentum}


def test_a_learning_rate_is_no_factor_of_statistics() -> None:
    assert [spec.statistic_momentum for spec in _with(("bn1", 10, 1)).parameters] == [
        spec.statistic_momentum for spec in NETWORK.parameters
    ]


def test_the_loss_of_a_frozen_output_has_a_gradient() -> None:
    heads = replace(NETWORK, outputs=(*NETWORK.outputs,))
    frozen = replace(heads, settings=_with(("conv?", 0, 1), ("bn1", 0, 1)).settings)
    assert [layer.name for layer in frozen.layers if frozen.needs_gradient(layer.name)] == ["fc"]


def test_a_pattern_that_matches_nothing_is_refused_with_near_names() -> None:
    with pytest.raises(NetworkError, match=r"in network.multipliers 'cnov1'.*did you mean 'conv1'"):
        _with(("cnov1", 2, 1))


def test_a_network_of_which_nothing_is_trained_is_refused() -> None:
    with pytest.raises(NetworkError, match=r"leave nothing of network 'small' to train.*'fc'"):
        _with(("*", 0, 1))
