"""AlexNet, the network that won ILSVRC 2012, in Caffe's version."""

from __future__ import annotations

from knltrain.network.layers import (
    CAFFE_BIAS,
    Convolution,
    Dense,
    Dropout,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network


def alexnet(classes: int = 1000) -> Network:
    """Caffe's models/bvlc_alexnet/train_val.prototxt, 60,965,224 parameters with 1000 classes.

    Krizhevsky, Sutskever and Hinton, NIPS 2012: conv, ReLU, normalisation, pooling in this order,
    and two groups in conv2, conv4 and conv5, which were its two GPUs. Input 227x227x3.
    """
    return Network(
        name="alexnet",
        input_shape=(227, 227, 3),
        layers=(
            *_convolution(1, 96, kernel=11, stride=4),
            *_normalised_and_pooled(1),
            *_convolution(2, 256, kernel=5, padding=2, groups=2, bias=0.1),
            *_normalised_and_pooled(2),
            *_convolution(3, 384, kernel=3, padding=1),
            *_convolution(4, 384, kernel=3, padding=1, groups=2, bias=0.1),
            *_convolution(5, 256, kernel=3, padding=1, groups=2, bias=0.1),
            MaxPooling("pool5", kernel=3, stride=2),
            *_hidden(6),
            *_hidden(7),
            Dense(
                "fc8",
                classes,
                initialiser="gaussian:0.01",
                bias_multipliers=CAFFE_BIAS,
            ),
        ),
    )


def _convolution(
    number: int,
    filters: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    bias: float = 0.0,
) -> tuple[Layer, ...]:
    convolution = Convolution(
        f"conv{number}",
        filters,
        kernel,
        stride,
        padding,
        groups=groups,
        initialiser="gaussian:0.01",
        bias_value=bias,
        bias_multipliers=CAFFE_BIAS,
    )
    return convolution, ReLU(f"relu{number}")


def _normalised_and_pooled(number: int) -> tuple[Layer, ...]:
    return (
        LocalResponseNormalisation(f"norm{number}", size=5, alpha=1e-4, beta=0.75),
        MaxPooling(f"pool{number}", kernel=3, stride=2),
    )


def _hidden(number: int) -> tuple[Layer, ...]:
    dense = Dense(
        f"fc{number}",
        4096,
        initialiser="gaussian:0.005",
        bias_value=0.1,
        bias_multipliers=CAFFE_BIAS,
    )
    return dense, ReLU(f"relu{number}"), Dropout(f"drop{number}", rate=0.5)
