"""Residual networks for images of 32x32 pixels, as CIFAR-10's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from knltrain.network.layers import Addition, Dense, GlobalAveragePooling, Layer, ReLU
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import normalised

WIDTHS: Final = (16, 32, 64)
"""Channels of the three stages of He et al.; maps are 32x32, 16x16 and 8x8."""


def resnet20(classes: int = 10) -> Network:
    """ResNet-20 for CIFAR-10, three blocks in each stage; 272,474 parameters.

    He, Zhang, Ren and Sun, *Deep Residual Learning for Image Recognition*, CVPR 2016, section 4.2.
    Input 32x32x3. Shortcuts between stages are projections, option B of the paper; its own networks
    for CIFAR-10 have option A, zeros for the new channels, and 2,752 parameters less. First weights
    are "msra".
    """
    return _resnet("resnet-20", WIDTHS, 3, classes)


def resnet32(classes: int = 10) -> Network:
    """ResNet-32 for CIFAR-10, five blocks in each stage; 466,906 parameters. Else as resnet20."""
    return _resnet("resnet-32", WIDTHS, 5, classes)


def resnet56(classes: int = 10) -> Network:
    """ResNet-56 for CIFAR-10, nine blocks in each stage; 855,770 parameters. Else as resnet20."""
    return _resnet("resnet-56", WIDTHS, 9, classes)


def resnet18_cifar(classes: int = 10) -> Network:
    """ResNet-18 for images of 32x32 pixels; 11,173,962 parameters.

    That of the paper for ImageNet with a 3x3 of stride 1 for its first convolution and pooling, so
    that the maps of its four stages are 32x32, 16x16, 8x8 and 4x4: what is mostly trained as
    "ResNet-18 on CIFAR-10". Else as resnet20.
    """
    return _resnet("resnet-18-cifar", _widths(64), 2, classes)


def resnet18_narrow(classes: int = 10) -> Network:
    """resnet18_cifar with 24 channels for 64, hence 24 to 192; 1,575,202 parameters."""
    return _resnet("resnet-18-narrow", _widths(24), 2, classes)


def _widths(first: int) -> tuple[int, ...]:
    """Channels of four stages; each has twice as many as the one before."""
    return tuple(first << stage for stage in range(4))


def _resnet(name: str, widths: Sequence[int], blocks: int, classes: int) -> Network:
    layers: list[Layer] = [*normalised("conv1", widths[0], 3), ReLU("relu1")]
    for stage, width in enumerate(widths, start=1):
        for number in range(blocks):
            shrinks = stage > 1 and number == 0
            layers += _block(f"stage{stage}/{number}", layers[-1].name, width, shrinks)
    head = (GlobalAveragePooling("pool"), Dense("fc", classes, initialiser="msra"))
    return Network(name, (32, 32, 3), (*layers, *head))


def _block(name: str, source: str, width: int, shrinks: bool) -> list[Layer]:
    """Two 3x3 of `source` plus `source`, which a 1x1 projects where maps shrink."""
    stride = 2 if shrinks else 1
    layers = [
        *normalised(f"{name}/conv1", width, 3, stride, inputs=(source,)),
        ReLU(f"{name}/relu1"),
        *normalised(f"{name}/conv2", width, 3),
    ]
    joined = (layers[-1].name, source)
    if shrinks:
        layers += normalised(f"{name}/shortcut", width, 1, stride, inputs=(source,))
        joined = (joined[0], layers[-1].name)
    return [*layers, Addition(f"{name}/add", joined), ReLU(f"{name}/relu")]
