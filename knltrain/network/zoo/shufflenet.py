"""ShuffleNet, version 2: half of the channels pass a block as they are, then all are shuffled."""

from __future__ import annotations

from knltrain.network.layers import (
    BatchNormalisation,
    ChannelShuffle,
    ChannelSlice,
    Concatenation,
    Dense,
    GlobalAveragePooling,
    Layer,
    MaxPooling,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.convolving import unbiased

_BLOCKS = 4, 8, 4
"""Blocks of stages 2 to 4, the first of which strides."""

_FIRST = 24
"""Channels before stage 2."""


def shufflenet_v2_x0_5(classes: int = 1000) -> Network:
    """ShuffleNet-v2 0.5x, 1,366,792 parameters with 1000 classes. Input 224x224x3.

    Ma et al., ECCV 2018, table 5. First weights are "msra", those of `fc` normal with 0.01.
    """
    return _shufflenet("shufflenet-v2-0.5", (48, 96, 192), 1024, classes)


def shufflenet_v2_x1_0(classes: int = 1000) -> Network:
    """ShuffleNet-v2 1x, 2,278,604 parameters with 1000 classes; else as above."""
    return _shufflenet("shufflenet-v2-1.0", (116, 232, 464), 1024, classes)


def shufflenet_v2_x1_5(classes: int = 1000) -> Network:
    """ShuffleNet-v2 1.5x, 3,503,624 parameters with 1000 classes; else as above."""
    return _shufflenet("shufflenet-v2-1.5", (176, 352, 704), 1024, classes)


def shufflenet_v2_x2_0(classes: int = 1000) -> Network:
    """ShuffleNet-v2 2x, 7,393,996 parameters with 1000 classes; else as above."""
    return _shufflenet("shufflenet-v2-2.0", (244, 488, 976), 2048, classes)


def _shufflenet(name: str, stages: tuple[int, ...], last: int, classes: int) -> Network:
    layers: list[Layer] = [
        *_normalised("conv1", 0, _FIRST, 3, 2),
        ReLU("conv1/2"),
        MaxPooling("maxpool", 3, 2, 1),
    ]
    channels = _FIRST
    for number, wanted in enumerate(stages):
        stage = f"stage{number + 2}"
        layers += _striding(f"{stage}/0", layers[-1].name, channels, wanted)
        for block in range(1, _BLOCKS[number]):
            layers += _passing(f"{stage}/{block}", layers[-1].name, wanted)
        channels = wanted
    layers += [
        *_normalised("conv5", 0, last, 1),
        ReLU("conv5/2"),
        GlobalAveragePooling("avgpool"),
        Dense("fc", classes, initialiser="gaussian:0.01"),
    ]
    return Network(name, (224, 224, 3), tuple(layers))


def _striding(name: str, source: str, channels: int, wanted: int) -> list[Layer]:
    """Maps of half the size; each of two branches makes half of the channels (figure 3d)."""
    left, right = f"{name}/branch1", f"{name}/branch2"
    layers = [
        *_normalised(left, 0, channels, 3, 2, channels, (source,)),
        *_normalised(left, 2, wanted // 2, 1),
        ReLU(f"{left}/4"),
        *_branch(right, source, wanted // 2, 2),
    ]
    return [*layers, *_joined(name, (f"{left}/4", f"{right}/7"))]


def _passing(name: str, source: str, channels: int) -> list[Layer]:
    """The first half of the channels passes as it is (figure 3c)."""
    half = channels // 2
    kept, taken = f"{name}/kept", f"{name}/taken"
    return [
        ChannelSlice(kept, 0, half, (source,)),
        ChannelSlice(taken, half, channels, (source,)),
        *_branch(f"{name}/branch2", taken, half, 1),
        *_joined(name, (kept, f"{name}/branch2/7")),
    ]


def _branch(name: str, source: str, channels: int, stride: int) -> list[Layer]:
    """1x1, depthwise 3x3 and 1x1 convolutions."""
    return [
        *_normalised(name, 0, channels, 1, inputs=(source,)),
        ReLU(f"{name}/2"),
        *_normalised(name, 3, channels, 3, stride, channels),
        *_normalised(name, 5, channels, 1),
        ReLU(f"{name}/7"),
    ]


def _joined(name: str, branches: tuple[str, str]) -> list[Layer]:
    return [Concatenation(f"{name}/cat", branches), ChannelShuffle(f"{name}/shuffle", 2)]


def _normalised(
    name: str,
    number: int,
    filters: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    inputs: tuple[str, ...] = (),
) -> list[Layer]:
    """A convolution and its normalisation, numbered as in torchvision's files."""
    return [
        unbiased(f"{name}/{number}", filters, kernel, stride, groups, inputs),
        BatchNormalisation(f"{name}/{number + 1}"),
    ]
