"""Caffe's "quick" network for CIFAR-10."""

from __future__ import annotations

from knltrain.network.layers import (
    AveragePooling,
    Convolution,
    Dense,
    Layer,
    MaxPooling,
    Multipliers,
    ReLU,
)
from knltrain.network.network import Network

BIAS = Multipliers(learning_rate=2.0)


def cifar_quick(classes: int = 10) -> Network:
    """Caffe's examples/cifar10/cifar10_quick_train_test.prototxt, 145,578 parameters.

    Input 32x32x3. Three 5x5 convolutions with 3x3 poolings in steps of 2, which round sizes up.
    """
    return Network(
        name="cifar-quick",
        input_shape=(32, 32, 3),
        layers=(
            _convolution("conv1", 32, 0.0001),
            MaxPooling("pool1", kernel=3, stride=2, ceil=True),
            ReLU("relu1"),
            _convolution("conv2", 32, 0.01),
            ReLU("relu2"),
            AveragePooling("pool2", kernel=3, stride=2, ceil=True),
            _convolution("conv3", 64, 0.01),
            ReLU("relu3"),
            AveragePooling("pool3", kernel=3, stride=2, ceil=True),
            Dense("ip1", 64, initialiser="gaussian:0.1", bias_multipliers=BIAS),
            Dense("ip2", classes, initialiser="gaussian:0.1", bias_multipliers=BIAS),
        ),
    )


def _convolution(name: str, filters: int, deviation: float) -> Layer:
    return Convolution(
        name,
        filters,
        kernel=5,
        padding=2,
        initialiser=f"gaussian:{deviation}",
        bias_multipliers=BIAS,
    )
