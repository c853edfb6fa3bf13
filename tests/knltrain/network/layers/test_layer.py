"""What all layers refuse alike."""

from __future__ import annotations

import pytest

from knltrain.errors import NetworkError
from knltrain.network.layers import (
    AveragePooling,
    BatchNormalisation,
    ChannelScale,
    ChannelShuffle,
    ChannelSlice,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    GlobalAveragePooling,
    Layer,
    LayerNormalisation,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.layers.layer import check_counts

ON_MAPS: tuple[Layer, ...] = (
    Convolution("late", 2, 1),
    MaxPooling("late", 2, 2),
    AveragePooling("late", 2, 2),
    GlobalAveragePooling("late"),
    LocalResponseNormalisation("late"),
    ChannelShuffle("late", 2),
    Flatten("late"),
)


@pytest.mark.parametrize("layer", ON_MAPS, ids=lambda layer: type(layer).__name__)
def test_layer_that_needs_a_feature_map_refuses_a_vector(layer: Layer) -> None:
    with pytest.raises(NetworkError, match=r"layer 'late' needs a feature map .* \(500,\)"):
        layer.output_shape(((500,),))


@pytest.mark.parametrize(
    "layer",
    [
        *ON_MAPS,
        BatchNormalisation("late"),
        ChannelScale("late"),
        ChannelSlice("late", 0, 1),
        Dense("late", 2),
        Dropout("late"),
        LayerNormalisation("late"),
        ReLU("late"),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layer_with_one_input_refuses_several(layer: Layer) -> None:
    with pytest.raises(NetworkError, match="layer 'late' takes one input, but is given 2: join"):
        layer.output_shape(((8, 8, 2), (8, 8, 2)))


def test_first_number_below_one_is_named() -> None:
    check_counts("fine", units=1)
    with pytest.raises(NetworkError, match="layer 'd': groups = 0, expected at least 1"):
        check_counts("d", units=1, groups=0)
