"""ConvNeXt: depthwise 7x7 convolutions, layer normalisation over channels, GELU."""

from __future__ import annotations

from knltrain.network.layers import (
    Activation,
    Addition,
    ChannelScale,
    Convolution,
    Dense,
    GlobalAveragePooling,
    Layer,
    LayerNormalisation,
    StochasticDepth,
)
from knltrain.network.network import Network

_CHANNELS = 96, 192, 384, 768
_EPSILON = 1e-6
_FIRST_SCALE = 1e-6
"""What the factors of a block's channels start as."""

_INITIAL = "gaussian:0.02"


def convnext_tiny(classes: int = 1000) -> Network:
    """ConvNeXt-T, 28,589,128 parameters with 1000 classes. Input 224x224x3.

    Liu et al., CVPR 2022, section 2. The share of images for which a block is left out rises
    linearly to 0.1. First weights are normal with 0.02, as in the paper, but not cut off.
    """
    return _convnext("convnext-tiny", (3, 3, 9, 3), 0.1, classes)


def convnext_small(classes: int = 1000) -> Network:
    """ConvNeXt-S, 50,223,688 parameters with 1000 classes; blocks are left out up to 0.4."""
    return _convnext("convnext-small", (3, 3, 27, 3), 0.4, classes)


def _convnext(name: str, blocks: tuple[int, ...], depth_rate: float, classes: int) -> Network:
    layers: list[Layer] = [
        Convolution("features/0/0", _CHANNELS[0], 4, 4, initialiser=_INITIAL),
        LayerNormalisation("features/0/1", _EPSILON),
    ]
    done, total = 0, sum(blocks)
    for stage, count in enumerate(blocks):
        channels, place = _CHANNELS[stage], 2 * stage
        if stage:
            layers += [
                LayerNormalisation(f"features/{place}/0", _EPSILON),
                Convolution(f"features/{place}/1", channels, 2, 2, initialiser=_INITIAL),
            ]
        for block in range(count):
            rate = depth_rate * done / (total - 1)
            named = f"features/{place + 1}/{block}"
            layers += _block(named, layers[-1].name, channels, rate)
            done += 1
    layers += [
        GlobalAveragePooling("avgpool"),
        LayerNormalisation("classifier/0", _EPSILON),
        Dense("classifier/2", classes, initialiser=_INITIAL),
    ]
    return Network(name, (224, 224, 3), tuple(layers))


def _block(name: str, source: str, channels: int, rate: float) -> list[Layer]:
    """Figure 4; layers are numbered as in torchvision's files."""

    def convolution(number: int, filters: int, kernel: int = 1, groups: int = 1) -> Layer:
        return Convolution(
            f"{name}/block/{number}",
            filters,
            kernel,
            padding=kernel // 2,
            groups=groups,
            initialiser=_INITIAL,
        )

    layers: list[Layer] = [
        convolution(0, channels, 7, channels),
        LayerNormalisation(f"{name}/block/2", _EPSILON),
        convolution(3, 4 * channels),
        Activation(f"{name}/block/4", "gelu"),
        convolution(5, channels),
        ChannelScale(f"{name}/layer_scale", _FIRST_SCALE),
    ]
    if rate > 0:
        layers.append(StochasticDepth(f"{name}/stochastic_depth", rate))
    return [*layers, Addition(f"{name}/add", (layers[-1].name, source))]
