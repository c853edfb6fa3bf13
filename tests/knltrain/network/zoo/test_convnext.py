"""ConvNeXt, block for block as published."""

from __future__ import annotations

import pytest

from knltrain.network.layers import ChannelScale, LayerNormalisation, StochasticDepth
from knltrain.network.zoo.convnext import convnext_tiny


def test_maps_shrink_between_stages_alone() -> None:
    network = convnext_tiny()
    shapes = [network.shape_of(f"features/{stage}/2/add") for stage in (1, 3, 5, 7)]
    assert shapes == [(56, 56, 96), (28, 28, 192), (14, 14, 384), (7, 7, 768)]
    assert network.shape_of("features/5/8/block/3") == (14, 14, 4 * 384)


def test_every_block_normalises_once_and_has_factors_near_zero() -> None:
    layers = convnext_tiny().layers
    scales = [layer for layer in layers if isinstance(layer, ChannelScale)]
    assert [layer.initial_scale for layer in scales] == [1e-6] * 18
    norms = [layer for layer in layers if isinstance(layer, LayerNormalisation)]
    assert [layer.epsilon for layer in norms] == [1e-6] * (18 + 1 + 3 + 1)


def test_the_deeper_the_block_the_more_often_it_is_left_out() -> None:
    layers = convnext_tiny().layers
    rates = [layer.rate for layer in layers if isinstance(layer, StochasticDepth)]
    assert rates == [pytest.approx(0.1 * block / 17) for block in range(1, 18)]


def test_parameters_have_torchvision_s_names() -> None:
    found = {spec.layer.replace("/", ".") for spec in convnext_tiny().parameters}
    block = {f"features.5.8.{name}" for name in ("block.0", "block.2", "block.3", "block.5")}
    rest = {"features.0.0", "features.0.1", "features.6.0", "features.6.1"}
    assert {"features.5.8.layer_scale", "classifier.0", "classifier.2"} | block | rest <= found
    assert len(found) == 18 * 5 + 2 + 3 * 2 + 2
