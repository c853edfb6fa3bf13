"""MobileNet, version 3: depthwise convolutions, squeeze and excitation, hard swish."""

from __future__ import annotations

from typing import NamedTuple

from knltrain.network.layers import (
    Activation,
    Addition,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import divisible, normalised
from knltrain.network.zoo.excitation import excited

_HARD = "hard_swish"


class _Block(NamedTuple):
    """A row of the paper's tables: kernel, expanded channels, channels, and so on."""

    kernel: int
    expanded: int
    channels: int
    excites: bool
    is_hard: bool
    stride: int


_LARGE = (
    _Block(3, 16, 16, False, False, 1),
    _Block(3, 64, 24, False, False, 2),
    _Block(3, 72, 24, False, False, 1),
    _Block(5, 72, 40, True, False, 2),
    *(_Block(5, 120, 40, True, False, 1),) * 2,
    _Block(3, 240, 80, False, True, 2),
    _Block(3, 200, 80, False, True, 1),
    *(_Block(3, 184, 80, False, True, 1),) * 2,
    _Block(3, 480, 112, True, True, 1),
    _Block(3, 672, 112, True, True, 1),
    _Block(5, 672, 160, True, True, 2),
    *(_Block(5, 960, 160, True, True, 1),) * 2,
)
_SMALL = (
    _Block(3, 16, 16, True, False, 2),
    _Block(3, 72, 24, False, False, 2),
    _Block(3, 88, 24, False, False, 1),
    _Block(5, 96, 40, True, True, 2),
    *(_Block(5, 240, 40, True, True, 1),) * 2,
    _Block(5, 120, 48, True, True, 1),
    _Block(5, 144, 48, True, True, 1),
    _Block(5, 288, 96, True, True, 2),
    *(_Block(5, 576, 96, True, True, 1),) * 2,
)


def mobilenet_v3_large(classes: int = 1000) -> Network:
    """MobileNet-v3 large, 5,483,032 parameters with 1000 classes. Input 224x224x3.

    Howard et al., ICCV 2019, table 1. Batch normalisations have an epsilon of 0.001 and a momentum
    of 0.01 (the paper's average decay of 0.99). First weights are "msra", those of the classifier
    normal with 0.01.
    """
    return _mobilenet("mobilenet-v3-large", _LARGE, 1280, classes)


def mobilenet_v3_small(classes: int = 1000) -> Network:
    """MobileNet-v3 small, 2,542,856 parameters with 1000 classes; table 2, else as above."""
    return _mobilenet("mobilenet-v3-small", _SMALL, 1024, classes)


def _mobilenet(name: str, blocks: tuple[_Block, ...], units: int, classes: int) -> Network:
    layers = [*_normalised("features/0", 16, 3, 2), Activation("features/0/activation", _HARD)]
    channels = 16
    for number, block in enumerate(blocks, start=1):
        layers += _inverted(f"features/{number}", layers[-1].name, channels, block)
        channels = block.channels
    last = f"features/{len(blocks) + 1}"
    layers += [
        *_normalised(last, 6 * channels, 1),
        Activation(f"{last}/activation", _HARD),
        GlobalAveragePooling("avgpool"),
        Dense("classifier/0", units, initialiser="gaussian:0.01"),
        Activation("classifier/1", _HARD),
        Dropout("classifier/2", rate=0.2),
        Dense("classifier/3", classes, initialiser="gaussian:0.01"),
    ]
    return Network(name, (224, 224, 3), tuple(layers))


def _inverted(name: str, source: str, channels: int, block: _Block) -> list[Layer]:
    def activated(part: str) -> Layer:
        named = f"{name}/{part}/activation"
        return Activation(named, _HARD) if block.is_hard else ReLU(named)

    layers: list[Layer] = []
    if block.expanded != channels:
        layers += [*_normalised(f"{name}/expand", block.expanded, 1), activated("expand")]
    layers += _normalised(
        f"{name}/depthwise", block.expanded, block.kernel, block.stride, block.expanded
    )
    layers.append(activated("depthwise"))
    if block.excites:
        squeezed = divisible(block.expanded / 4)
        layers += excited(f"{name}/se", layers[-1].name, block.expanded, squeezed, "hard_sigmoid")
    layers += _normalised(f"{name}/project", block.channels, 1)
    if block.stride == 1 and block.channels == channels:
        layers.append(Addition(f"{name}/add", (layers[-1].name, source)))
    return layers


def _normalised(
    name: str, filters: int, kernel: int, stride: int = 1, groups: int = 1
) -> list[Layer]:
    return normalised(name, filters, kernel, stride, groups, epsilon=1e-3, momentum=0.01)
