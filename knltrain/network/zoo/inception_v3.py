"""Inception-v3: kernels taken apart into 1xn and nx1."""

from __future__ import annotations

from knltrain.network.graph import Output
from knltrain.network.layers import (
    AveragePooling,
    Dense,
    Dropout,
    GlobalAveragePooling,
    Layer,
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


def inception_v3(classes: int = 1000) -> Network:
    """Inception-v3, 27,161,264 parameters with 1000 classes. Input 299x299x3.

    Szegedy et al., CVPR 2016, in torchvision's form. The loss of its auxiliary head, which has
    3,326,696 of the parameters, weighs 0.4. Means count the padding. First weights are normal with
    0.1, those of the heads with 0.001 and 0.1.
    """
    layers = stem()
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        layers += of_5x5(f"mixed_{name}", layers[-1].name, 64, pooled, counts_padding=True)
    layers += to_17x17("mixed_6a", layers[-1].name, (64, 96, 96))
    for name, inner in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        layers += _of_7x7(f"mixed_{name}", layers[-1].name, inner)
    auxiliary = _auxiliary_head(layers[-1].name, classes)
    layers += [*auxiliary, *_to_8x8("mixed_7a", layers[-1].name)]
    for name in ("7b", "7c"):
        layers += _of_splits(f"mixed_{name}", layers[-1].name)
    layers += [
        GlobalAveragePooling("avgpool"),
        Dropout("dropout"),
        Dense("fc", classes, initialiser="gaussian:0.1"),
    ]
    outputs = Output("fc"), Output("auxiliary/fc", 0.4)
    return Network("inception-v3", (299, 299, 3), tuple(layers), outputs)


def _of_7x7(name: str, source: str, inner: int) -> list[Layer]:
    flat, tall = Step(inner, (1, 7)), Step(inner, (7, 1))
    double = Step(inner), tall, flat, tall, Step(192, (1, 7))
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(192)),
        branch(f"{name}/7x7", source, Step(inner), flat, Step(192, (7, 1))),
        branch(f"{name}/double", source, *double),
        average(f"{name}/average", source, 192, counts_padding=True),
    )


def _to_8x8(name: str, source: str) -> list[Layer]:
    last = Step(192, 3, 2, same=False)
    return joined(
        name,
        branch(f"{name}/3x3", source, Step(192), Step(320, 3, 2, same=False)),
        branch(f"{name}/7x7", source, Step(192), Step(192, (1, 7)), Step(192, (7, 1)), last),
        halved(f"{name}/pool", source),
    )


def _of_splits(name: str, source: str) -> list[Layer]:
    return joined(
        name,
        branch(f"{name}/1x1", source, Step(320)),
        split(f"{name}/3x3", source, 384, Step(384)),
        split(f"{name}/double", source, 384, Step(448), Step(384, 3)),
        average(f"{name}/average", source, 192, counts_padding=True),
    )


def _auxiliary_head(source: str, classes: int) -> list[Layer]:
    return [
        AveragePooling("auxiliary/pool", 5, 3, inputs=(source,)),
        *branch("auxiliary/conv", "auxiliary/pool", Step(128), Step(768, 5, same=False)),
        GlobalAveragePooling("auxiliary/avgpool"),
        Dense("auxiliary/fc", classes, initialiser="gaussian:0.001"),
    ]
