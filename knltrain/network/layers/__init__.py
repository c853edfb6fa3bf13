"""The layers a network is made of, as plain descriptions: shapes, parameters, operations.

A shape is that of one image: (H, W, C) for a feature map, (units,) for a vector. `flops` counts a
multiply-add of a convolution or dense layer as two operations and nothing else, as published
figures do: comparisons, biases and normalisations cost memory traffic rather than arithmetic.
"""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import on_demand

if TYPE_CHECKING:
    from knltrain.network.layers.activation import *
    from knltrain.network.layers.channels import *
    from knltrain.network.layers.layer import *
    from knltrain.network.layers.merging import *
    from knltrain.network.layers.normalisation import *
    from knltrain.network.layers.padding import *
    from knltrain.network.layers.parameter import *
    from knltrain.network.layers.pooling import *
    from knltrain.network.layers.weighted import *

_NAMES = {
    "activation": ("Activation", "Affine", "Dropout", "PReLU", "ReLU", "StochasticDepth"),
    "channels": ("ChannelScale", "ChannelShuffle", "ChannelSlice"),
    "layer": ("Extent", "IMAGES", "Layer", "Pair", "Window"),
    "merging": ("Addition", "ChannelProduct", "Concatenation"),
    "normalisation": (
        "BatchNormalisation",
        "LayerNormalisation",
        "LocalResponseNormalisation",
        "WithinChannelNormalisation",
    ),
    "padding": ("Padding",),
    "parameter": ("CAFFE_BIAS", "Initial", "Multipliers", "ParameterSpec", "Role", "Shape"),
    "pooling": (
        "AdaptiveAveragePooling",
        "AveragePooling",
        "GlobalAveragePooling",
        "MaxPooling",
        "Pooling",
    ),
    "weighted": ("Convolution", "Dense", "Flatten"),
}

__all__ = [name for names in _NAMES.values() for name in names]
__getattr__ = on_demand(__name__, _NAMES)
