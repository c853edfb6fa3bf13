"""EfficientNet, block for block as published."""

from __future__ import annotations

from knltrain.network.layers import ChannelProduct, Convolution, StochasticDepth
from knltrain.network.zoo.efficientnet import efficientnet_b0, efficientnet_v2_s


def test_the_deeper_the_block_the_more_often_it_is_left_out() -> None:
    rates = [layer.rate for layer in efficientnet_b0().layers if isinstance(layer, StochasticDepth)]
    assert len(rates) == 9
    assert rates == sorted(rates)
    assert rates[-1] == 0.2 * 14 / 16


def test_first_stages_of_version_2_are_fused_and_do_not_excite() -> None:
    layers = efficientnet_v2_s().layers
    assert sum(isinstance(layer, ChannelProduct) for layer in layers) == 30
    fused = [layer for layer in layers if layer.name.endswith("/fused")]
    assert len(fused) == 10
    assert all(isinstance(layer, Convolution) and layer.groups == 1 for layer in fused)
    assert efficientnet_v2_s().shape_of("features/7") == (12, 12, 1280)
