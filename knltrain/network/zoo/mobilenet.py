"""MobileNet, version 1 and 2: convolutions channel by channel (depthwise), then 1x1."""

from __future__ import annotations

from knltrain.network.layers import (
    Addition,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import normalised

_FIRST = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2))
_LAST = ((1024, 2), (1024, 1))
_BLOCKS = (
    *((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)),
    *((6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)),
)
"""Version 2: expansion, channels, blocks and the stride of the first one (table 2 of its paper)."""


def mobilenet_v1(classes: int = 1000) -> Network:
    """MobileNet-v1 of width 1, 4,231,976 parameters with 1000 classes. Input 224x224x3.

    Howard et al., arXiv 1704.04861, table 1. First weights are "msra", those of `fc` normal with
    0.01.
    """
    layers = _normalised("conv1", 32, 3, 2)
    channels = 32
    for number, (filters, stride) in enumerate((*_FIRST, *((512, 1),) * 5, *_LAST), start=2):
        layers += _normalised(f"conv{number}/dw", channels, 3, stride, groups=channels)
        layers += _normalised(f"conv{number}/sep", filters, 1)
        channels = filters
    return _classified("mobilenet-v1", layers, classes)


def mobilenet_v2(classes: int = 1000) -> Network:
    """MobileNet-v2 of width 1, 3,504,872 parameters with 1000 classes. Input 224x224x3.

    Sandler et al., CVPR 2018: residual blocks that expand, with ReLU6 and a linear end. First
    weights are "msra", those of the classifier normal with 0.01.
    """
    layers = _normalised("features/0", 32, 3, 2, ceiling=6.0)
    number, channels = 1, 32
    for expansion, filters, blocks, first_stride in _BLOCKS:
        for stride in (first_stride, *(1,) * (blocks - 1)):
            layers += _inverted(
                f"features/{number}", layers[-1].name, channels, filters, stride, expansion
            )
            number, channels = number + 1, filters
    layers += _normalised(f"features/{number}", 1280, 1, ceiling=6.0)
    return _classified("mobilenet-v2", layers, classes, Dropout("classifier/0", rate=0.2))


def _inverted(
    name: str, source: str, channels: int, filters: int, stride: int, expansion: int
) -> list[Layer]:
    wide = channels * expansion
    layers = _normalised(f"{name}/expand", wide, 1, ceiling=6.0) if expansion > 1 else []
    layers += _normalised(f"{name}/depthwise", wide, 3, stride, groups=wide, ceiling=6.0)
    layers += _normalised(f"{name}/project", filters, 1)[:2]
    if stride == 1 and channels == filters:
        layers.append(Addition(f"{name}/add", (layers[-1].name, source)))
    return layers


def _normalised(
    name: str,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    ceiling: float = float("inf"),
) -> list[Layer]:
    return [
        *normalised(name, filters, kernel, stride, groups),
        ReLU(f"{name}/relu", ceiling=ceiling),
    ]


def _classified(name: str, layers: list[Layer], classes: int, *before: Layer) -> Network:
    head = (GlobalAveragePooling("pool"), *before)
    dense = Dense("fc", classes, initialiser="gaussian:0.01")
    return Network(name, (224, 224, 3), (*layers, *head, dense))
