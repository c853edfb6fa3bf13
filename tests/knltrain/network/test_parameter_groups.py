"""Patterns change the parameters that they match, and no others."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    CAFFE_BIAS,
    BatchNormalisation,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    Multipliers,
    ParameterSpec,
)
from knltrain.network.network import Network
from knltrain.network.parameter_groups import (
    ParameterGroup,
    ParameterSetting,
    parameter_groups_of,
    parameter_groups_within,
)

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


TREATMENTS = st.tuples(
    st.sampled_from([1.0, 2.0]), st.sampled_from([0.0, 1.0]), st.sampled_from([None, 0.1])
)


def test_statistics_and_multipliers_start_segments_of_their_own() -> None:
    layers: tuple[Layer, ...] = (
        Convolution("conv", 3, 3, bias=False),  # 54 values of 64
        BatchNormalisation("norm", momentum=0.25),  # 4 times 3 values of 16
        Dense("one", 4, bias_multipliers=Multipliers(2.0, 0.0)),
        Dense("two", 4, weights_multipliers=Multipliers(2.0, 0.0)),
    )
    network = Network("net", (3, 3, 2), layers)
    assert network.parameter_groups == (
        ParameterGroup(0, 96, 1.0, 1.0, None, ("conv", "norm")),
        ParameterGroup(96, 128, 1.0, 1.0, 0.25, ("norm",)),
        ParameterGroup(128, 144, 1.0, 1.0, None, ("one",)),
        ParameterGroup(144, 176, 2.0, 0.0, None, ("one", "two")),
        ParameterGroup(176, 192, 1.0, 1.0, None, ("two",)),
    )
    assert network.packed_size == 192


def test_vector_of_nothing_has_no_segments() -> None:
    assert parameter_groups_of((), 0) == ()


@given(st.lists(st.tuples(TREATMENTS, st.integers(1, 40)), min_size=1, max_size=12))
def test_segments_cover_the_vector_and_neighbours_differ(
    parts: list[tuple[tuple[float, float, float | None], int]],
) -> None:
    specs, offset = [], 0
    for number, ((rate, decay, momentum), size) in enumerate(parts):
        specs.append(
            ParameterSpec(
                f"l{number}.weights",
                (size,),
                "weights",
                offset,
                learning_rate_multiplier=rate,
                decay_multiplier=decay,
                statistic_momentum=momentum,
            )
        )
        offset += -(-size // 16) * 16
    groups = parameter_groups_of(specs, offset)
    assert (groups[0].start, groups[-1].stop) == (0, offset)
    for left, right in pairwise(groups):
        assert left.stop == right.start
        assert _treatment(left) != _treatment(right)
    for spec in specs:
        (home,) = (each for each in groups if each.start <= spec.offset < each.stop)
        assert _treatment(home) == _treatment(spec)
        assert spec.offset + spec.size <= home.stop
        assert spec.layer in home.layers
    assert [name for each in groups for name in each.layers] == [spec.layer for spec in specs]


def _treatment(part: ParameterGroup | ParameterSpec) -> tuple[float, float, float | None]:
    return part.learning_rate_multiplier, part.decay_multiplier, part.statistic_momentum


def test_a_part_of_segments_counts_from_its_begin() -> None:
    whole = (
        ParameterGroup(0, 32, 1.0, 1.0, None, ("a",)),
        ParameterGroup(32, 48, 2.0, 0.0, None, ("a", "b")),
        ParameterGroup(48, 80, 1.0, 1.0, 0.1, ("b",)),
    )
    found = parameter_groups_within(whole, slice(16, 48))
    assert [(each.start, each.stop) for each in found] == [(0, 16), (16, 32)]
    assert [each.learning_rate_multiplier for each in found] == [1.0, 2.0]
    assert parameter_groups_within(whole, slice(0, 80)) == whole
