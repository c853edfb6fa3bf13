"""RegNet-X and RegNet-Y: residual networks whose widths follow a quantised line."""

from __future__ import annotations

import math
from itertools import groupby

from knltrain.network.layers import (
    Addition,
    Dense,
    GlobalAveragePooling,
    Layer,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import divisible, normalised
from knltrain.network.zoo.excitation import excited


def regnet_x_400mf(classes: int = 1000) -> Network:
    """RegNet-X of 400 M multiply-adds, 5,495,976 parameters with 1000 classes. Input 224x224x3.

    Radosavovic et al., *Designing Network Design Spaces*, CVPR 2020. First weights are "msra",
    those of `fc` normal with 0.01.
    """
    return _regnet("regnet-x-400mf", _widths(22, 24, 24.48, 2.54, 16), 16, classes)


def regnet_x_8gf(classes: int = 1000) -> Network:
    """RegNet-X of 8 G multiply-adds, 39,572,648 parameters with 1000 classes; else as above."""
    return _regnet("regnet-x-8gf", _widths(23, 80, 49.56, 2.88, 120), 120, classes)


def regnet_y_400mf(classes: int = 1000) -> Network:
    """RegNet-Y of 400 M multiply-adds, 4,344,144 parameters with 1000 classes; else as above.

    Blocks have a squeeze and excitation to a quarter of the block's input channels.
    """
    widths = _widths(16, 48, 27.89, 2.09, 8)
    return _regnet("regnet-y-400mf", widths, 8, classes, excites=True)


def regnet_y_8gf(classes: int = 1000) -> Network:
    """RegNet-Y of 8 G multiply-adds, 39,381,472 parameters with 1000 classes; else as above."""
    widths = _widths(17, 192, 76.82, 2.19, 56)
    return _regnet("regnet-y-8gf", widths, 56, classes, excites=True)


def _widths(depth: int, first: int, slope: float, ratio: float, group: int) -> list[int]:
    """Width of each block: first + slope j, as a power of `ratio`, a multiple of the group.

    Equations 2 to 4 of the paper, rounded to 8 channels.
    """
    widths = []
    for block in range(depth):
        power = round(math.log((first + slope * block) / first, ratio))
        width = round(first * ratio**power / 8) * 8
        widths.append(divisible(width, min(group, width)))
    return widths


def _regnet(
    name: str, widths: list[int], group: int, classes: int, excites: bool = False
) -> Network:
    layers: list[Layer] = [*normalised("stem", 32, 3, 2), ReLU("stem/relu")]
    channels = 32
    for stage, (width, blocks) in enumerate(groupby(widths), start=1):
        for number, _ in enumerate(blocks):
            stride = 2 if number == 0 else 1
            block = f"block{stage}/{number}"
            layers += _block(block, layers[-1].name, channels, width, stride, group, excites)
            channels = width
    layers += [GlobalAveragePooling("avgpool"), Dense("fc", classes, initialiser="gaussian:0.01")]
    return Network(name, (224, 224, 3), tuple(layers))


def _block(
    name: str, source: str, channels: int, width: int, stride: int, group: int, excites: bool
) -> list[Layer]:
    groups = width // min(group, width)
    excitation = excited(f"{name}/se", f"{name}/b/relu", width, round(channels / 4), "sigmoid")
    layers = [
        *normalised(f"{name}/a", width, 1, inputs=(source,)),
        ReLU(f"{name}/a/relu"),
        *normalised(f"{name}/b", width, 3, stride, groups),
        ReLU(f"{name}/b/relu"),
        *(excitation if excites else ()),
        *normalised(f"{name}/c", width, 1),
    ]
    joined = [layers[-1].name, source]
    if stride > 1 or channels != width:
        layers += normalised(f"{name}/proj", width, 1, stride, inputs=(source,))
        joined[1] = layers[-1].name
    return [*layers, Addition(f"{name}/add", tuple(joined)), ReLU(f"{name}/relu")]
