"""EfficientNet, version 1 and 2: depthwise convolutions, squeeze and excitation, SiLU."""

from __future__ import annotations

from typing import NamedTuple

from knltrain.network.layers import (
    Activation,
    Addition,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    StochasticDepth,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import normalised
from knltrain.network.zoo.excitation import excited

_DEPTH_RATE = 0.2
"""The share of images for which the last residual block is left out; it grows with the depth."""


class _Stage(NamedTuple):
    """A row of the papers' tables; a fused block has one full convolution and no excitation."""

    expansion: int
    kernel: int
    stride: int
    channels: int
    blocks: int
    is_fused: bool = False


_B0 = (
    _Stage(1, 3, 1, 16, 1),
    _Stage(6, 3, 2, 24, 2),
    _Stage(6, 5, 2, 40, 2),
    _Stage(6, 3, 2, 80, 3),
    _Stage(6, 5, 1, 112, 3),
    _Stage(6, 5, 2, 192, 4),
    _Stage(6, 3, 1, 320, 1),
)
_V2_S = (
    _Stage(1, 3, 1, 24, 2, is_fused=True),
    _Stage(4, 3, 2, 48, 4, is_fused=True),
    _Stage(4, 3, 2, 64, 4, is_fused=True),
    _Stage(4, 3, 2, 128, 6),
    _Stage(6, 3, 1, 160, 9),
    _Stage(6, 3, 2, 256, 15),
)


def efficientnet_b0(classes: int = 1000) -> Network:
    """EfficientNet-B0, 5,288,548 parameters with 1000 classes. Input 224x224x3.

    Tan and Le, ICML 2019, table 1. First weights are "msra", those of `fc` normal with 0.01.
    """
    return _efficientnet("efficientnet-b0", 224, 32, _B0, 1e-5, classes)


def efficientnet_v2_s(classes: int = 1000) -> Network:
    """EfficientNet-v2 S, 21,458,488 parameters with 1000 classes. Input 384x384x3.

    Tan and Le, ICML 2021, table 4; epsilon of batch normalisation is 0.001, else as above.
    """
    return _efficientnet("efficientnet-v2-s", 384, 24, _V2_S, 1e-3, classes)


def _efficientnet(
    name: str, side: int, first: int, stages: tuple[_Stage, ...], epsilon: float, classes: int
) -> Network:
    layers, channels, done = _activated("features/0", first, 3, epsilon, stride=2), first, 0
    total = sum(stage.blocks for stage in stages)
    for number, stage in enumerate(stages, start=1):
        for block in range(stage.blocks):
            stride = stage.stride if block == 0 else 1
            layers += _block(
                f"features/{number}/{block}",
                layers[-1].name,
                channels,
                stage._replace(stride=stride),
                _DEPTH_RATE * done / total,
                epsilon,
            )
            channels, done = stage.channels, done + 1
    layers += _activated(f"features/{len(stages) + 1}", 1280, 1, epsilon)
    layers += [
        GlobalAveragePooling("avgpool"),
        Dropout("classifier/0", rate=0.2),
        Dense("fc", classes, initialiser="gaussian:0.01"),
    ]
    return Network(name, (side, side, 3), tuple(layers))


def _block(
    name: str, source: str, channels: int, stage: _Stage, rate: float, epsilon: float
) -> list[Layer]:
    wide, kernel = channels * stage.expansion, stage.kernel
    if stage.is_fused and stage.expansion == 1:
        layers = _activated(f"{name}/fused", stage.channels, kernel, epsilon, stage.stride)
    elif stage.is_fused:
        layers = _activated(f"{name}/fused", wide, kernel, epsilon, stage.stride)
        layers += normalised(f"{name}/project", stage.channels, 1, epsilon=epsilon)
    else:
        layers = _activated(f"{name}/expand", wide, 1, epsilon) if wide != channels else []
        layers += _activated(f"{name}/depthwise", wide, kernel, epsilon, stage.stride, wide)
        layers += excited(
            f"{name}/se", layers[-1].name, wide, max(1, channels // 4), "sigmoid", "silu"
        )
        layers += normalised(f"{name}/project", stage.channels, 1, epsilon=epsilon)
    if stage.stride == 1 and stage.channels == channels:
        if rate > 0:
            layers.append(StochasticDepth(f"{name}/depth", rate))
        layers.append(Addition(f"{name}/add", (layers[-1].name, source)))
    return layers


def _activated(
    name: str, filters: int, kernel: int, epsilon: float, stride: int = 1, groups: int = 1
) -> list[Layer]:
    silu = Activation(f"{name}/silu", "silu")
    return [*normalised(name, filters, kernel, stride, groups, epsilon=epsilon), silu]
