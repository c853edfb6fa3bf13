"""What a network says of its packed vector reaches the kernels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knltrain.network.layers import BatchNormalisation, Convolution, Dense, Multipliers
from knltrain.network.network import Network
from knltrain.network.parameter_groups import ParameterSetting
from knltrain.optimizers.parameter_groups import layers_of, numbered_groups

NONE = np.nan


@pytest.fixture
def network() -> Network:
    """Parameters: 18 weights; 2 each of scale, shift and statistics; 64 weights and 2 biases."""
    return Network(
        "small",
        (4, 4, 1),
        (
            Convolution("conv", 2, 3, padding=1, bias=False),
            BatchNormalisation("bn", momentum=0.25),
            Dense("out", 2, bias_multipliers=Multipliers(2.0, 0.0)),
        ),
    )


def test_segments_keep_their_multipliers_and_statistics(network: Network) -> None:
    found = numbered_groups(network.parameter_groups, 0.5)
    assert found.bounds.tolist() == [0, 64, 96, 160, 176]
    assert found.rates.tolist() == [1, 1, 1, 2]
    assert found.decays[[0, 2, 3]].tolist() == [0.5, 0.5, 0]
    np.testing.assert_array_equal(found.statistics, np.float32([NONE, 0.25, NONE, NONE]))


def test_every_parameter_is_a_layer_of_its_own_and_only_weights_are_adapted(
    network: Network,
) -> None:
    found, weights = layers_of(network.parameters, network.packed_size, 0.5)
    assert found.bounds.tolist() == [0, 32, 48, 64, 80, 96, 160, 176]
    assert weights.tolist() == [True, False, False, False, False, True, False]
    assert found.rates.tolist() == [1, 1, 1, 1, 1, 1, 2]
    assert found.decays.tolist() == [0.5, 0, 0, 0, 0, 0.5, 0]
    expected = np.float32([NONE, NONE, NONE, 0.25, 0.25, NONE, NONE])
    np.testing.assert_array_equal(found.statistics, expected)


def test_frozen_parameters_are_statistics_that_stay(network: Network) -> None:
    setting = ParameterSetting("network.frozen", "conv", Multipliers(0.0))
    frozen = replace(network, settings=(setting,))
    for found in (
        numbered_groups(frozen.parameter_groups, 0.5),
        layers_of(frozen.parameters, frozen.packed_size, 0.5)[0],
    ):
        assert found.statistics[0] == 0
        assert np.isnan(found.statistics[-1])


def test_last_group_ends_with_the_packed_vector(network: Network) -> None:
    assert numbered_groups(network.parameter_groups, 0.5).size == network.packed_size
    assert layers_of(network.parameters, network.packed_size, 0.5)[0].size == network.packed_size
