"""Inception-v4, and Inception-ResNet-v2, whose branches are scaled before they are added."""

from __future__ import annotations

from knltrain.network.layers import (
    Addition,
    Affine,
    Convolution,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
    ReLU,
)
from knltrain.network.network import Network
from knltrain.network.zoo.inception import (
    Step,
    average,
    branch,
    halved,
    joined,
    of_5x5,
    split,
    stem,
    to_17x17,
)

_FLAT, _TALL = (1, 7), (7, 1)


def inception_v4(classes: int = 1000) -> Network:
    """Inception-v4, 42,679,816 parameters with 1000 classes. Input 299x299x3.

    Szegedy et al., AAAI 2017, figures 3 to 9. Means do not count the padding. First weights are
    normal with 0.1, those of `fc` with 0.01.
    """
    layers = _stem()
    for number in range(4):
        layers += _small(f"a{number}", layers[-1].name)
    layers += to_17x17("reduction_a", layers[-1].name, (192, 224, 256))
    for number in range(7):
        layers += _middle(f"b{number}", layers[-1].name)
    layers += _to_8x8("reduction_b", layers[-1].name)
    for number in range(3):
        layers += _large(f"c{number}", layers[-1].name)
    return _classified("inception-v4", layers, classes, 0.2)


def inception_resnet_v2(classes: int = 1000) -> Network:
    """Inception-ResNet-v2, 55,843,464 parameters with 1000 classes. Input 299x299x3.

    The same paper, figures 15 to 19, in the form of its authors' code. Branches are scaled by 0.17,
    0.1 and 0.2, the last one not at all; else as above.
    """
    layers = stem()
    layers += of_5x5("mixed_5b", "stem/pool2", 96, 64, counts_padding=False)
    for number in range(10):
        small = ((Step(32),), (Step(32), Step(32, 3)), (Step(32), Step(48, 3), Step(64, 3)))
        layers += _residual(f"a{number}", layers[-1].name, 320, 0.17, *small)
    layers += to_17x17("mixed_6a", layers[-1].name, (256, 256, 384))
    for number in range(20):
        middle = ((Step(192),), (Step(128), Step(160, _FLAT), Step(192, _TALL)))
        layers += _residual(f"b{number}", layers[-1].name, 1088, 0.1, *middle)
    layers += _last_mixed("mixed_7a", layers[-1].name)
    large = ((Step(192),), (Step(192), Step(224, (1, 3)), Step(256, (3, 1))))
    for number in range(9):
        layers += _residual(f"c{number}", layers[-1].name, 2080, 0.2, *large)
    layers += _residual("c9", layers[-1].name, 2080, 1.0, *large)
    layers += branch("conv_7b", layers[-1].name, Step(1536))
    return _classified("inception-resnet-v2", layers, classes, 0.2)


def _classified(name: str, layers: list[Layer], classes: int, rate: float) -> Network:
    head = (GlobalAveragePooling("avgpool"), Dropout("dropout", rate))
    dense = Dense("fc", classes, initialiser="gaussian:0.01")
    return Network(name, (299, 299, 3), (*layers, *head, dense))


def _stem() -> list[Layer]:
    def smaller(filters: int) -> Step:
        return Step(filters, 3, same=False)

    first = branch("stem/0", "images", Step(32, 3, 2, same=False))
    first += branch("stem/1", first[-1].name, smaller(32), Step(64, 3))
    source = first[-1].name
    strided = branch("mixed_3a/conv", source, Step(96, 3, 2, same=False))
    layers = [*first, *joined("mixed_3a", halved("mixed_3a/pool", source), strided)]
    double = Step(64), Step(64, _FLAT), Step(64, _TALL), smaller(96)
    layers += joined(
        "mixed_4a",
        branch("mixed_4a/3x3", "mixed_3a", Step(64), smaller(96)),
        branch("mixed_4a/7x7", "mixed_3a", *double),
    )
    strided = branch("mixed_5a/conv", "mixed_4a", Step(192, 3, 2, same=False))
    return [*layers, *joined("mixed_5a", strided, halved("mixed_5a/pool", "mixed_4a"))]


def _small(name: str, source: str) -> list[Layer]:
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(96)),
        branch(f"{name}/3x3", source, Step(64), Step(96, 3)),
        branch(f"{name}/double", source, Step(64), Step(96, 3), Step(96, 3)),
        average(f"{name}/average", source, 96, counts_padding=False),
    )


def _middle(name: str, source: str) -> list[Layer]:
    tall = Step(192), Step(192, _TALL), Step(224, _FLAT), Step(224, _TALL), Step(256, _FLAT)
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(384)),
        branch(f"{name}/7x7", source, Step(192), Step(224, _FLAT), Step(256, _TALL)),
        branch(f"{name}/double", source, *tall),
        average(f"{name}/average", source, 128, counts_padding=False),
    )


def _to_8x8(name: str, source: str) -> list[Layer]:
    last = Step(320, 3, 2, same=False)
    return joined(
        name,
        branch(f"{name}/3x3", source, Step(192), Step(192, 3, 2, same=False)),
        branch(f"{name}/7x7", source, Step(256), Step(256, _FLAT), Step(320, _TALL), last),
        halved(f"{name}/pool", source),
    )


def _large(name: str, source: str) -> list[Layer]:
    double = Step(384), Step(448, (3, 1)), Step(512, (1, 3))
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(256)),
        split(f"{name}/3x3", source, 256, Step(384)),
        split(f"{name}/double", source, 256, *double),
        average(f"{name}/average", source, 256, counts_padding=False),
    )


def _last_mixed(name: str, source: str) -> list[Layer]:
    def strided(filters: int) -> Step:
        return Step(filters, 3, 2, same=False)

    return joined(
        name,
        branch(f"{name}/3x3", source, Step(256), strided(384)),
        branch(f"{name}/other", source, Step(256), strided(288)),
        branch(f"{name}/double", source, Step(256), Step(288, 3), strided(320)),
        halved(f"{name}/pool", source),
    )


def _residual(
    name: str, source: str, channels: int, factor: float, *branches: tuple[Step, ...]
) -> list[Layer]:
    """Branches back to the source's channels, scaled and added to it; a ReLU but after the last."""
    made = (branch(f"{name}/{number}", source, *steps) for number, steps in enumerate(branches))
    layers = joined(f"{name}/joined", *made)
    layers.append(Convolution(f"{name}/up", channels, 1, initialiser="gaussian:0.1"))
    if factor == 1:
        return [*layers, Addition(f"{name}/add", (source, f"{name}/up"))]
    scaled = Affine(f"{name}/scaled", factor)
    return [
        *layers,
        scaled,
        Addition(f"{name}/add", (source, scaled.name)),
        ReLU(f"{name}/relu"),
    ]
