"""The layers a network is made of, as plain descriptions: shapes, parameters, operations.

A shape is that of one image: (H, W, C) for a feature map, (units,) for a vector. `flops` counts a
multiply-add of a convolution or dense layer as two operations and nothing else, as published
figures do: comparisons, biases and normalisations cost memory traffic rather than arithmetic.
"""

from typing import TYPE_CHECKING

from vectorized_ops.on_demand import found_in

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

_MODULES = (
    "parameter",
    "layer",
    "weighted",
    "pooling",
    "activation",
    "normalisation",
    "merging",
    "channels",
    "padding",
)

__getattr__ = found_in(__name__, _MODULES)
