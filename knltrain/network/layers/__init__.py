"""The layers a network is made of, as plain descriptions: shapes, parameters, operations.

A shape is that of one image: (H, W, C) for a feature map, (units,) for a vector. `flops` counts a
multiply-add of a convolution or dense layer as two operations and nothing else, as published
figures do: comparisons, biases and normalisations cost memory traffic rather than arithmetic.
"""

from knltrain.network.layers.activation import Dropout, ReLU
from knltrain.network.layers.convolution import Convolution
from knltrain.network.layers.dense import Dense
from knltrain.network.layers.layer import IMAGES, Layer
from knltrain.network.layers.merging import Addition, Concatenation
from knltrain.network.layers.normalisation import BatchNormalisation, LocalResponseNormalisation
from knltrain.network.layers.parameter import (
    CAFFE_BIAS,
    Initial,
    Multipliers,
    ParameterSpec,
    Role,
    Shape,
)
from knltrain.network.layers.pooling import (
    AveragePooling,
    GlobalAveragePooling,
    MaxPooling,
    Pooling,
)
from knltrain.network.layers.window import Extent, Pair, Window

__all__ = [
    "CAFFE_BIAS",
    "IMAGES",
    "Addition",
    "AveragePooling",
    "BatchNormalisation",
    "Concatenation",
    "Convolution",
    "Dense",
    "Dropout",
    "Extent",
    "GlobalAveragePooling",
    "Initial",
    "Layer",
    "LocalResponseNormalisation",
    "MaxPooling",
    "Multipliers",
    "Pair",
    "ParameterSpec",
    "Pooling",
    "ReLU",
    "Role",
    "Shape",
    "Window",
]
