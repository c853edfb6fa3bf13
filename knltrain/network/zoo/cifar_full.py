"""Caffe's "full" network for CIFAR-10."""

from __future__ import annotations

from knltrain.network.layers import (
    AveragePooling,
    Convolution,
    Dense,
    Layer,
    MaxPooling,
    Multipliers,
    ReLU,
    WithinChannelNormalisation,
)
from knltrain.network.network import Network

_BIAS = Multipliers(learning_rate=2.0)
_LAST = Multipliers(decay=250.0), Multipliers(learning_rate=2.0, decay=0.0)
"""Of the weights and the bias of the dense layer."""


def cifar_full(classes: int = 10) -> Network:
    """Caffe's examples/cifar10/cifar10_full_train_test.prototxt, 89,578 parameters.

    Input 32x32x3. Three 5x5 convolutions with 3x3 poolings in steps of 2, which round sizes up; two
    responses are normalised within their channel. One dense layer (Krizhevsky's layers-80sec).
    """
    return Network(
        name="cifar-full",
        input_shape=(32, 32, 3),
        layers=(
            _convolution("conv1", 32, 0.0001),
            MaxPooling("pool1", kernel=3, stride=2, ceil=True),
            ReLU("relu1"),
            WithinChannelNormalisation("norm1", size=3, alpha=5e-5),
            _convolution("conv2", 32, 0.01),
            ReLU("relu2"),
            AveragePooling("pool2", kernel=3, stride=2, ceil=True),
            WithinChannelNormalisation("norm2", size=3, alpha=5e-5),
            _convolution("conv3", 64, 0.01, Multipliers()),
            ReLU("relu3"),
            AveragePooling("pool3", kernel=3, stride=2, ceil=True),
            Dense(
                "ip1",
                classes,
                initialiser="gaussian:0.01",
                weights_multipliers=_LAST[0],
                bias_multipliers=_LAST[1],
            ),
        ),
    )


def _convolution(name: str, filters: int, deviation: float, bias: Multipliers = _BIAS) -> Layer:
    return Convolution(
        name,
        filters,
        kernel=5,
        padding=2,
        initialiser=f"gaussian:{deviation}",
        bias_multipliers=bias,
    )
