"""GoogLeNet (Inception v1), the network that won ILSVRC 2014, in Caffe's version."""

from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import (
    CAFFE_BIAS,
    AveragePooling,
    Concatenation,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    LocalResponseNormalisation,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network

Widths = tuple[int, int, int, int, int, int]
"""Filters of 1x1, 3x3_reduce, 3x3, 5x5_reduce, 5x5 and pool_proj, as in the paper's table 1."""

MODULES: dict[str, Widths] = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOLED_BEFORE = {"4a": "pool3/3x3_s2", "5a": "pool4/3x3_s2"}
"""Module -> the pooling in front of it."""


def googlenet(classes: int = 1000) -> Network:
    """Caffe's models/bvlc_googlenet/train_val.prototxt; with 1000 classes 13,378,280 parameters.

    6,998,552 of them are what is left in evaluation, without the two auxiliary classifiers,
    whose losses weigh 0.3 each. Szegedy et al., *Going Deeper with Convolutions*, CVPR 2015.
    Input 224x224x3. Poolings round sizes up; layers bear Caffe's names.
    """
    return Network(
        name="googlenet",
        input_shape=(224, 224, 3),
        layers=(
            *_stem(),
            *_inceptions(),
            *_auxiliary("loss1", "inception_4a/output", classes),
            *_auxiliary("loss2", "inception_4d/output", classes),
            GlobalAveragePooling("pool5/7x7_s1", inputs=("inception_5b/output",)),
            Dropout("pool5/drop_7x7_s1", rate=0.4),
            Dense("loss3/classifier", classes, bias_multipliers=CAFFE_BIAS),
        ),
        outputs=(
            Output("loss3/classifier"),
            Output("loss1/classifier", weight=0.3),
            Output("loss2/classifier", weight=0.3),
        ),
    )


def _stem() -> tuple[Layer, ...]:
    return (
        *_convolution("conv1", "7x7_s2", 64, kernel=7, stride=2),
        _halved("pool1/3x3_s2"),
        LocalResponseNormalisation("pool1/norm1", size=5, alpha=1e-4, beta=0.75),
        *_convolution("conv2", "3x3_reduce", 64),
        *_convolution("conv2", "3x3", 192, kernel=3),
        LocalResponseNormalisation("conv2/norm2", size=5, alpha=1e-4, beta=0.75),
        _halved("pool2/3x3_s2"),
    )


def _inceptions() -> list[Layer]:
    layers: list[Layer] = []
    source = "pool2/3x3_s2"
    for module, widths in MODULES.items():
        if module in POOLED_BEFORE:
            layers.append(_halved(POOLED_BEFORE[module]))
            source = POOLED_BEFORE[module]
        layers += _inception(f"inception_{module}", source, widths)
        source = f"inception_{module}/output"
    return layers


def _inception(name: str, source: str, widths: Widths) -> tuple[Layer, ...]:
    """Four branches from `source`, and their channels behind each other."""
    branches = ("1x1", "3x3", "5x5", "pool_proj")
    return (
        *_convolution(name, "1x1", widths[0], source=source),
        *_convolution(name, "3x3_reduce", widths[1], source=source),
        *_convolution(name, "3x3", widths[2], kernel=3),
        *_convolution(name, "5x5_reduce", widths[3], source=source),
        *_convolution(name, "5x5", widths[4], kernel=5),
        MaxPooling(f"{name}/pool", kernel=3, stride=1, padding=1, inputs=(source,)),
        *_convolution(name, "pool_proj", widths[5]),
        Concatenation(f"{name}/output", tuple(f"{name}/relu_{branch}" for branch in branches)),
    )


def _auxiliary(name: str, source: str, classes: int) -> tuple[Layer, ...]:
    return (
        AveragePooling(f"{name}/ave_pool", kernel=5, stride=3, ceil=True, inputs=(source,)),
        *_convolution(name, "conv", 128),
        Dense(f"{name}/fc", 1024, bias_value=0.2, bias_multipliers=CAFFE_BIAS),
        ReLU(f"{name}/relu_fc"),
        Dropout(f"{name}/drop_fc", rate=0.7),
        Dense(f"{name}/classifier", classes, bias_multipliers=CAFFE_BIAS),
    )


def _convolution(
    group: str, name: str, filters: int, kernel: int = 1, stride: int = 1, source: str | None = None
) -> tuple[Layer, ...]:
    convolution = Convolution(
        f"{group}/{name}",
        filters,
        kernel,
        stride,
        padding=kernel // 2,
        bias_value=0.2,
        bias_multipliers=CAFFE_BIAS,
        inputs=(source,) if source else (),
    )
    return convolution, ReLU(f"{group}/relu_{name}")


def _halved(name: str) -> Layer:
    return MaxPooling(name, kernel=3, stride=2, ceil=True)
